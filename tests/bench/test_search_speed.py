"""The bench of search speed: its chats are what it says they are, and it measures every figure."""

from collections import Counter
from pathlib import Path

import pytest

from bench.made_up_chats import Words, made_up_sessions, made_up_streams
from bench.search_speed import measure
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.migrate import migrate_now

MESSAGES = 1500


@pytest.fixture(scope="module")
def words() -> Words:
    return Words()


def test_the_chats_are_shared_out_as_asked(words: Words) -> None:
    streams = made_up_streams(200_000, 500)
    sessions = list(made_up_sessions(streams, words))

    assert sum(one.messages for one in streams) == 200_000
    assert sum(one.messages for one in sessions) == 200_000
    assert sum(one.messages for one in streams if 0 in one.members) == pytest.approx(50_000, rel=0.05)
    assert len({member for one in streams for member in one.members}) == 500
    chinese = sum(one.messages for one in sessions if one.is_chinese)
    assert chinese == pytest.approx(20_000, rel=0.1)
    assert [one.started_ms for one in sessions] == sorted(one.started_ms for one in sessions)


def test_the_chats_are_alike_in_every_run(words: Words) -> None:
    again = Words()

    assert (words.english, words.chinese) == (again.english, again.chinese)
    assert made_up_streams(1000, 50) == made_up_streams(1000, 50)


def test_rare_words_are_those_expected_a_few_times(words: Words) -> None:
    assert words.rank_seen_at_most(20, 1_000_000) > words.rank_seen_at_most(20, 100_000)
    assert Counter(words.english).most_common(1)[0][1] == 1


def test_everything_is_measured(words: Words, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with Database.sqlite(path) as database:
        migrate_now(database)
        figures = measure(database, path, words, MESSAGES, quiet=True)

    assert {
        "p95_ms_question",
        "p95_ms_kind",
        "p95_ms_rare",
        "p95_ms_common",
        "p95_ms_chinese",
        "writes_per_s",
        "commit_to_fsync_p95",
        "file_ratio",
    } <= figures.keys()
    assert figures["file_ratio"] > 1
    kinds = ("question", "kind", "rare", "common", "chinese")
    assert [figures[f"found_{kind}"] for kind in kinds] == [1, 1, 1, 1, 1]
