"""The bench of the review: its table is balanced, and it judges what a review left in the stores."""

from collections import Counter
from collections.abc import AsyncIterator

import pytest

from bench.memory_judgement import load_table
from bench.review_judgement import Row, Save, Verdict, judge, load_rows, review_all, score
from tests.emulators.openai import OpenAIEmulator, Reply, ToolUse
from trunkline.agent.memory.snapshot import MemorySnapshot
from trunkline.agent.openai_client_sdk import Endpoint

ROWS = {row.id: row for row in load_rows()}
PEOPLE = load_table().people


@pytest.fixture
async def server() -> AsyncIterator[OpenAIEmulator]:
    async with OpenAIEmulator().running() as emulator:
        yield emulator
        assert emulator.violations == []


def known(row: Row) -> MemorySnapshot:
    return MemorySnapshot(PEOPLE[row.person].memory, PEOPLE[row.person].user)


def judged(name: str, user: tuple[str, ...] = (), gone: str = "nothing") -> Verdict:
    """The verdict on a review that added to the profile and took away what holds `gone`."""
    row = ROWS[name]
    before = known(row)
    kept = tuple(entry for entry in before.user if gone not in entry)
    return judge(row, before, MemorySnapshot(before.memory, kept + user))


def test_half_of_the_conversations_are_for_tuning_in_each_class_and_language() -> None:
    counts = Counter((row.kind, row.language, row.split) for row in ROWS.values())

    assert set(counts.values()) == {1}
    assert len(counts) == len(ROWS) == 28


def test_an_entry_to_change_is_known_and_no_other_matches() -> None:
    for row in ROWS.values():
        for save in row.saves:
            entries = known(row).entries_of(save.target)
            assert not save.entry or sum(save.entry in entry for entry in entries) == 1, row.id


def test_the_one_fact_and_nothing_else_is_right() -> None:
    assert judged("en-personal_detail-tune", ("Has a daughter, Alva.",)).right
    assert not judged("en-personal_detail-tune", ("Has a daughter, Alva.", "Likes leeks.")).right
    assert judged("en-correction-tune", ("Lives in Malmö.",), gone="Gothenburg").right


def test_a_fact_beside_the_one_it_corrects_is_found_but_not_right() -> None:
    verdict = judged("en-correction-tune", ("Lives in Malmö.",))

    assert verdict.found
    assert not verdict.right


def test_an_entry_that_should_have_stayed_is_lost() -> None:
    verdict = judged("en-known_already-tune", gone="Biscuit")

    assert verdict.lost == 1
    assert verdict.false_save


def test_nothing_is_right_where_nothing_is_to_be_learnt_and_missed_elsewhere() -> None:
    assert judged("zh-nothing_lasting-judge").right
    assert judged("zh-personal_detail-judge").missed_save


def right_uses(row: Row) -> list[ToolUse]:
    def use(save: Save) -> ToolUse:
        given = {"target": save.target, "content": ", ".join(words[0] for words in save.content)}
        action = {"action": "replace", "old_text": save.entry} if save.entry else {"action": "add"}
        return ToolUse("memory", {**given, **action})

    return [use(save) for save in row.saves]


async def test_a_model_that_saves_what_it_should_gets_every_row_right(server: OpenAIEmulator) -> None:
    rows = [row for row in ROWS.values() if row.language == "en" and row.split == "tune"]
    for row in rows:
        uses = right_uses(row)
        server.then(*([Reply(tools=uses)] if uses else []), Reply("Nothing to save."))

    verdicts = await review_all(rows, Endpoint(server.base_url), "emulated", "native", quiet=True)

    assert [verdict.row.id for verdict in verdicts if not verdict.right] == []
    figures = score(verdicts, seconds=1.0)
    assert figures["accuracy"] == figures["found"] == 1.0
    assert figures["false_saves"] == figures["missed_saves"] == figures["lost_entries"] == 0
