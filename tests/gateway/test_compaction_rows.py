"""Notes in the two databases: what they stand for, what spoils them, and how often there is a new one."""

from dataclasses import replace

import pytest
from sqlalchemy import Connection, insert, select, text

from tests.gateway.rows import START_MS, add_person, add_session, direct_stream, person_scope, say
from trunkline.agent.messages import UserMessage
from trunkline.gateway.state import compaction as rows
from trunkline.gateway.state import deletion, notes, resuming, sessions
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.messages import rewrite_message, set_message_state
from trunkline.gateway.state.schema import compaction, indexed_message, message, stream, turn, usage

ANA, BO = person_scope("ana"), person_scope("bo")
NOTE = "## Facts\n- They spoke of kites."


@pytest.fixture
def here(database: Database) -> int:
    """Ana's session: three questions with their answers, which came without turns."""

    def work(connection: Connection) -> int:
        add_person(connection, "bo")
        opened = add_session(connection, direct_stream(connection, add_person(connection, "ana")), "here")
        for place in range(3):
            say(connection, opened, f"question {place}")
            say(connection, opened, f"answer {place}", role="assistant")
        return opened

    return database.write_now(work)


def put_away(connection: Connection, session_id: int, count: int, **more: object) -> bool:
    past = rows.load_past(connection, ANA, session_id)
    assert past is not None
    values = {"by_hand": False, "tokens": (100, 10), "stamp_ms": START_MS} | more
    return rows.put_away(connection, ANA, past, count, NOTE, **values)  # type: ignore[arg-type]


def history(connection: Connection, session_id: int) -> list[str]:
    said = resuming.load_conversation(connection, ANA, sessions.load(connection, session_id))
    return [one.sent if isinstance(one, UserMessage) else str(getattr(one, "text", "")) for one in said]


def ids(connection: Connection, session_id: int) -> list[int]:
    query = select(message.c.id).where(message.c.session_id == session_id).order_by(message.c.seq)
    return list(connection.execute(query).scalars())


def test_the_note_stands_for_the_oldest_turns(database: Database, here: int) -> None:
    def work(connection: Connection) -> None:
        assert put_away(connection, here, 2)
        shown = history(connection, here)
        assert "They spoke of kites." in shown[0]
        assert shown[2:] == ["question 2", "answer 2"]
        assert put_away(connection, here, 1)
        assert len(history(connection, here)) == 2
        used = connection.execute(select(compaction.c.state, compaction.c.note).order_by(compaction.c.id))
        assert list(map(tuple, used)) == [(notes.REPLACED, ""), (notes.IN_USE, NOTE)]

    database.write_now(work)


def test_a_session_made_shorter_five_times_is_in_the_index_once(database: Database, here: int) -> None:
    def more(connection: Connection) -> None:
        for place in range(3, 6):
            say(connection, here, f"question {place}")
            say(connection, here, f"answer {place}", role="assistant")

    database.write_now(more)
    for _ in range(5):
        assert database.write_now(lambda c: put_away(c, here, 1))

    def entries(connection: Connection) -> tuple[list[int], list[int]]:
        kept = connection.execute(select(indexed_message.c.id).order_by(indexed_message.c.id)).scalars()
        counted = connection.execute(select(stream.c.indexed_count, stream.c.indexed_words)).all()
        return list(kept), [sum(column) for column in zip(*counted, strict=True)]

    assert database.read_now(entries) == (database.read_now(lambda c: ids(c, here)), [12, 24])
    assert database.write_now(lambda c: occurrences(c, "question")) == 6


def occurrences(connection: Connection, word: str) -> int:
    """How often the index has a word, copies of one message counted too."""
    if connection.dialect.name == "sqlite":
        connection.execute(
            text("CREATE VIRTUAL TABLE temp.words USING fts5vocab('main', 'message_fts', 'row')")
        )
        found = connection.execute(text("SELECT cnt FROM temp.words WHERE term = :word"), {"word": word})
    else:
        query = "SELECT count(*) FROM message_fts WHERE CAST(tokens AS text) LIKE '%' || :word || '%'"
        found = connection.execute(text(query), {"word": word})
    return int(found.scalar_one())


def test_nobody_else_and_no_ended_session_is_made_shorter(database: Database, here: int) -> None:
    def work(connection: Connection) -> None:
        assert rows.load_past(connection, BO, here) is None
        sessions.end(connection, sessions.load(connection, here).key, "new", START_MS)
        assert rows.load_past(connection, ANA, here) is None

    database.write_now(work)


@pytest.mark.parametrize("change", ["undone", "redacted", "reworded", "another note"])
def test_a_conversation_that_changed_meanwhile_is_left_as_it_is(
    database: Database, here: int, change: str
) -> None:
    def work(connection: Connection) -> None:
        past = rows.load_past(connection, ANA, here)
        assert past is not None
        first = connection.execute(select(message).where(message.c.id == ids(connection, here)[0])).one()
        if change == "reworded":
            rewrite_message(connection, first, {"content": "something else"})
        elif change == "another note":
            assert put_away(connection, here, 1)
        else:
            set_message_state(connection, ANA, [first.id], change)  # type: ignore[arg-type]
        before = history(connection, here)
        assert not rows.put_away(
            connection, ANA, past, 2, "stale", by_hand=True, tokens=(9, 1), stamp_ms=START_MS
        )
        assert history(connection, here) == before

    database.write_now(work)


def test_what_was_put_away_spoils_its_note_when_it_changes_and_nothing_else_does(
    database: Database, here: int
) -> None:
    def work(connection: Connection) -> None:
        put_away(connection, here, 2)
        told = ids(connection, here)
        set_message_state(connection, ANA, told[4:], "undone")
        assert history(connection, here)[0].find("kites") > 0
        set_message_state(connection, ANA, told[1:2], "redacted")
        assert "kites" not in history(connection, here)[0]
        spoilt = rows.load_spoilt(connection, ANA, here)
        assert spoilt is not None
        assert [one.text.count("question") for one in spoilt.turns] == [1, 1]
        assert rows.make_whole(connection, ANA, spoilt, "## Facts\n- Made again.", START_MS)
        assert "Made again." in history(connection, here)[0]

    database.write_now(work)


def test_a_note_is_spoilt_by_what_its_session_grew_from(database: Database, here: int) -> None:
    def work(connection: Connection) -> None:
        key = sessions.load(connection, here).key
        grown = resuming.branch(connection, key, START_MS + 10_000_000)
        assert grown is not None
        say(connection, grown.id, "in the branch", at_ms=START_MS + 20_000_000)
        past = rows.load_past(connection, ANA, grown.id)
        assert past is not None
        assert "question 0" in past.turns[0].text
        assert put_away(connection, grown.id, 1)
        assert history(connection, grown.id)[2:] == ["in the branch"]
        set_message_state(connection, ANA, ids(connection, here)[:1], "redacted")
        assert "kites" not in history(connection, grown.id)[0]
        again = rows.load_spoilt(connection, ANA, grown.id)
        assert again is not None
        assert "question 0" not in again.turns[0].text
        assert "question 1" in again.turns[0].text

    database.write_now(work)


def test_a_deleted_session_takes_its_notes_along(database: Database, here: int) -> None:
    def work(connection: Connection) -> None:
        put_away(connection, here, 2)
        streams = deletion.own_streams(connection, ANA)
        assert deletion.delete_session(connection, streams, "here").messages == 6
        assert connection.execute(select(compaction.c.id)).all() == []

    database.write_now(work)


def test_the_breaker_waits_longer_the_less_it_brings(database: Database, here: int) -> None:
    def take_turns(connection: Connection, count: int) -> None:
        account = connection.execute(select(turn.c.account_id)).scalar() or 1
        for _ in range(count):
            connection.execute(insert(turn).values(session_id=here, account_id=account, state="done"))

    def work(connection: Connection) -> None:
        def free(*, urgent: bool = False) -> bool:
            return rows.may_try(connection, here, urgent=urgent)

        assert free()
        assert put_away(connection, here, 1)
        assert not free()
        assert free(urgent=True)
        take_turns(connection, 3)
        assert free()
        past = rows.load_past(connection, ANA, here)
        assert past is not None
        assert rows.note_failure(connection, past, by_hand=False, stamp_ms=1)
        assert not rows.note_failure(connection, past, by_hand=False, stamp_ms=1)
        take_turns(connection, 6)
        assert not free()
        take_turns(connection, 6)
        assert free()
        assert rows.note_failure(connection, replace(past, newest_turn=15), by_hand=True, stamp_ms=1) is False
        assert free(), "an attempt by hand is not counted"
        rows.note_failure(connection, replace(past, newest_turn=15), by_hand=False, stamp_ms=1)
        assert not free(urgent=True)

    database.write_now(work)


def test_the_providers_count_holds_until_the_session_is_made_shorter(database: Database, here: int) -> None:
    def spend(connection: Connection, model: str, at_ms: int) -> None:
        values = {"prompt_tokens": 900, "completion_tokens": 20, "purpose": "turn", "model": model}
        connection.execute(insert(usage).values(session_id=here, created_ms=at_ms, **values))

    def work(connection: Connection) -> None:
        assert rows.used_tokens(connection, here, "m") is None
        spend(connection, "m", START_MS)
        assert rows.used_tokens(connection, here, "m") == 920
        assert rows.used_tokens(connection, here, "another") is None
        assert put_away(connection, here, 2, stamp_ms=START_MS + 1)
        assert rows.used_tokens(connection, here, "m") is None
        spend(connection, "m", START_MS + 2)
        assert rows.used_tokens(connection, here, "m") == 920

    database.write_now(work)
