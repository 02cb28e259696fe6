"""Messages: numbered, kept byte for byte, taken back, and stored even when the index is broken."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, func, select, text, update

from tests.gateway.rows import (
    START_MS,
    add_person,
    add_room,
    add_session,
    direct_stream,
    leave,
    link_account,
    person_scope,
    room_scope,
    say,
)
from trunkline.agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from trunkline.agent.scope import Scope
from trunkline.gateway.secrets import MASK, mask_secrets
from trunkline.gateway.state import checks, fulltext
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.fulltext import Phrase, Reach
from trunkline.gateway.state.kv import put_value
from trunkline.gateway.state.messages import (
    INDEX_ANALYSER,
    MessageState,
    NewMessage,
    add_message,
    add_messages,
    delete_messages_of,
    index_is_degraded,
    load_history,
    reindex,
    set_message_state,
    streams_of,
)
from trunkline.gateway.state.schema import indexed_message, message, session, stream

ANA, BO = person_scope("ana"), person_scope("bo")
WITHDRAWN: tuple[MessageState, ...] = ("undone", "redacted")
ODD = "zanzibar 苏州 lib/x.py"
SURROGATES = {0xD800: 0xFFFD, 0xDCFF: 0xFFFD}


@pytest.fixture
def ana_session(database: Database) -> int:
    """Ana's direct session on an empty database."""

    def work(connection: Connection) -> int:
        account = add_person(connection, "ana")
        add_person(connection, "bo")
        return add_session(connection, direct_stream(connection, account), "s1")

    return database.write_now(work)


def found(database: Database, *words: str) -> int:
    """How many messages of all streams the index finds for these words in a row."""

    def work(connection: Connection) -> int:
        streams = tuple(connection.execute(select(stream.c.id)).scalars())
        return fulltext.count(connection, (Phrase(words),), Reach(streams, (0, 1, 2)), 1000)

    return database.read_now(work)


def history(database: Database, session_id: int, scope: Scope = ANA) -> list[str]:
    loaded = database.read_now(lambda connection: load_history(connection, scope, session_id))
    return [one.content if isinstance(one, ToolMessage) else one.text for one in loaded]


def test_an_id_holds_the_stream_and_a_number_that_grows(database: Database, ana_session: int) -> None:
    first = database.write_now(lambda connection: say(connection, ana_session, "one", "two"))
    later = database.write_now(lambda connection: say(connection, ana_session, "three"))

    of = database.read_now(lambda connection: connection.execute(select(session.c.stream_id)).scalar_one())
    assert first + later == [(of << 32) + n for n in (1, 2, 3)]


def test_a_session_counts_its_messages_and_knows_the_last(database: Database, ana_session: int) -> None:
    database.write_now(lambda connection: say(connection, ana_session, "one", "two"))

    row = database.read_now(lambda connection: connection.execute(select(session)).one())
    assert (row.message_count, row.last_ms) == (2, START_MS + 60_000)


def test_messages_of_several_sessions_keep_their_order(database: Database, ana_session: int) -> None:
    def work(connection: Connection) -> tuple[int, list[int]]:
        of = connection.execute(select(session.c.stream_id)).scalar_one()
        other = add_session(connection, of, "s2")
        texts = [(ana_session, "a"), (other, "b"), (ana_session, "c")]
        return other, add_messages(connection, [NewMessage(to, "user", said, 1) for to, said in texts])

    other, ids = database.write_now(work)

    assert len(set(ids)) == 3
    assert history(database, ana_session) == ["a", "c"]
    assert history(database, other) == ["b"]


def test_an_unknown_session_is_refused(database: Database) -> None:
    with pytest.raises(LookupError):
        database.write_now(lambda connection: add_message(connection, NewMessage(99, "user", "hi", 1)))


def test_history_comes_back_as_it_was(database: Database, ana_session: int) -> None:
    arguments = '{"path": "a\\u0000b",  "x": "\udc80 é"}'
    call = ToolCall("c1", "read", arguments)
    news = [
        NewMessage(ana_session, "user", "hello", 1, sent="[today] hello"),
        NewMessage(
            ana_session,
            "assistant",
            "",
            2,
            tool_calls=(ToolCall("c1", "read", arguments),),
            finish_reason="tool_calls",
        ),
        NewMessage(ana_session, "tool", "boom", 3, tool_call_id="c1", tool_name="read", is_error=True),
        NewMessage(ana_session, "assistant", "half an ans", 4, interrupted=True, finish_reason="stop"),
        NewMessage(ana_session, "user", "and?", 5),
    ]
    database.write_now(lambda connection: add_messages(connection, news))

    loaded = database.read_now(lambda connection: load_history(connection, ANA, ana_session))

    assert loaded == (
        UserMessage("hello", "[today] hello"),
        AssistantMessage("", (call,), "tool_calls"),
        ToolMessage("c1", "read", "boom", is_error=True),
        AssistantMessage("half an ans", (), "stop", interrupted=True),
        UserMessage("and?", "and?"),
    )


def test_history_is_empty_for_anyone_else(database: Database, ana_session: int) -> None:
    database.write_now(lambda connection: say(connection, ana_session, "mine"))

    assert history(database, ana_session, BO) == []


@pytest.mark.parametrize(
    "hostile", ["a\0b", "lone \ud800 surrogate", "\udcff", "🎉" * 1000, "x" * 1_000_000, ""]
)
def test_any_text_is_stored(database: Database, ana_session: int, hostile: str) -> None:
    database.write_now(lambda connection: say(connection, ana_session, hostile))

    assert history(database, ana_session) == [hostile.replace("\0", "\ufffd").translate(SURROGATES)]


@pytest.mark.parametrize("state", ["undone", "redacted"])
def test_what_is_taken_back_leaves_history_and_index(
    database: Database, ana_session: int, state: str
) -> None:
    ids = database.write_now(
        lambda connection: say(connection, ana_session, "keep this", "zanzibar 苏州 lib/x.py")
    )

    changed = database.write_now(
        lambda connection: set_message_state(
            connection, ANA, ids[1:], "undone" if state == "undone" else "redacted"
        )
    )

    assert changed == 1
    assert history(database, ana_session) == ["keep this"]
    assert (found(database, "zanzibar"), found(database, "苏", "州"), found(database, "lib/x.py")) == (
        0,
        0,
        0,
    )
    assert found(database, "keep") == 1
    counts = database.read_now(
        lambda connection: connection.execute(select(func.sum(stream.c.indexed_count))).scalar_one()
    )
    assert counts == 1


def test_redacted_text_is_gone_for_good(database: Database, ana_session: int) -> None:
    ids = database.write_now(lambda connection: say(connection, ana_session, "zanzibar"))
    database.write_now(lambda connection: set_message_state(connection, ANA, ids, "redacted"))

    assert database.write_now(lambda connection: set_message_state(connection, ANA, ids, "live")) == 0
    assert (
        database.read_now(lambda connection: connection.execute(select(message.c.content)).scalar_one()) == ""
    )


def test_an_undone_message_can_come_back(database: Database, ana_session: int) -> None:
    ids = database.write_now(lambda connection: say(connection, ana_session, "zanzibar"))
    database.write_now(lambda connection: set_message_state(connection, ANA, ids, "undone"))

    database.write_now(lambda connection: set_message_state(connection, ANA, ids, "live"))

    assert (found(database, "zanzibar"), history(database, ana_session)) == (1, ["zanzibar"])


def test_a_compacted_message_leaves_history_and_stays_in_the_index_once(
    database: Database, ana_session: int
) -> None:
    ids = database.write_now(lambda connection: say(connection, ana_session, "zanzibar"))

    for _ in range(5):
        database.write_now(lambda connection: set_message_state(connection, ANA, ids, "compacted"))

    assert (found(database, "zanzibar"), history(database, ana_session)) == (1, [])


def test_nobody_takes_back_what_is_not_theirs(database: Database, ana_session: int) -> None:
    ids = database.write_now(lambda connection: say(connection, ana_session, "mine"))

    assert database.write_now(lambda connection: set_message_state(connection, BO, ids, "undone")) == 0
    assert history(database, ana_session) == ["mine"]


def test_deleted_messages_leave_no_row_and_no_index_entry(database: Database, ana_session: int) -> None:
    def work(connection: Connection) -> int:
        kept = add_session(connection, connection.execute(select(session.c.stream_id)).scalar_one(), "s2")
        say(connection, ana_session, "zanzibar")
        say(connection, kept, "keep")
        assert delete_messages_of(connection, ana_session) == 1
        return kept

    kept = database.write_now(work)

    assert (found(database, "zanzibar"), found(database, "keep")) == (0, 1)
    assert (history(database, ana_session), history(database, kept)) == ([], ["keep"])


def test_the_file_holds_nothing_of_what_was_deleted(sqlite_database: Database, tmp_path: Path) -> None:
    def work(connection: Connection) -> int:
        of = direct_stream(connection, add_person(connection, "ana"))
        kept, gone = (add_session(connection, of, name) for name in ("s1", "s2"))
        say(connection, kept, *(f"keep {n}" for n in range(50)))
        say(connection, gone, "zanzibar forever")
        return gone

    gone = sqlite_database.write_now(work)
    sqlite_database.write_now(lambda connection: delete_messages_of(connection, gone))
    sqlite_database.write_now(fulltext.forget_removed)
    asyncio.run(sqlite_database.scrub())

    files = [path.read_bytes() for path in tmp_path.iterdir()]
    assert not any(b"zanzibar" in held or b"forever" in held for held in files)
    assert found(sqlite_database, "keep") == 50


def test_private_sessions_are_kept_out_of_the_index(database: Database, ana_session: int) -> None:
    def work(connection: Connection) -> None:
        connection.execute(update(session).values(private=True))
        say(connection, ana_session, "zanzibar")

    database.write_now(work)

    assert (found(database, "zanzibar"), history(database, ana_session)) == (0, ["zanzibar"])


def test_a_long_text_is_found_by_its_last_words(database: Database, ana_session: int) -> None:
    long = "的" * 9000 + " " + "word " * 9000 + "的" * 300 + "苏州 last-word"
    database.write_now(lambda connection: say(connection, ana_session, long))

    assert (found(database, "苏", "州"), found(database, "last-word"), found(database, "州", "last")) == (
        1,
        1,
        1,
    )


def test_of_a_huge_tool_output_the_beginning_is_indexed(database: Database, ana_session: int) -> None:
    output = "zanzibar " + "line of a log\n" * 10_000 + " the-very-end"
    news = [NewMessage(ana_session, "tool", output, 1, tool_call_id="c1", tool_name="terminal")]
    database.write_now(lambda connection: add_messages(connection, news))

    assert (found(database, "zanzibar"), found(database, "the-very-end")) == (1, 0)
    assert history(database, ana_session) == [output]

    database.write_now(lambda connection: delete_messages_of(connection, ana_session))

    assert found(database, "zanzibar") == 0


def test_an_index_of_every_kind_of_text_passes_its_check(database: Database, ana_session: int) -> None:
    log = "line of a log\n" * 5000 + "the-unusually-longwordthatstandsbeyondwhatisindexed"
    told = NewMessage(ana_session, "tool", log, 1, tool_call_id="c1", tool_name="terminal")
    database.write_now(
        lambda c: say(c, ana_session, ODD, "下周去苏州", "🎉", "…", "x" * 50_000, "don't'\\\"")
    )
    database.write_now(lambda c: add_messages(c, [told]))

    assert [(one.subject, one.fine) for one in checks.check(database)] == [
        ("file", True),
        ("references", True),
        ("index", True),
    ]


def break_index(connection: Connection) -> None:
    connection.execute(text("DROP TABLE message_fts"))


def break_shadow_rows(connection: Connection) -> None:
    connection.execute(text("UPDATE message_fts_data SET block = x'00ff00ff00ff'"))


def break_structure(connection: Connection) -> None:
    connection.execute(text("UPDATE message_fts_data SET block = x'00ff00ff00ff' WHERE id = 10"))


def empty_structure(connection: Connection) -> None:
    connection.execute(text("UPDATE message_fts_data SET block = x'' WHERE id = 10"))


def drop_shadow_table(connection: Connection) -> None:
    connection.execute(text("DROP TABLE message_fts_data"))


@pytest.mark.parametrize(
    "damage", [break_index, break_shadow_rows, break_structure, empty_structure, drop_shadow_table]
)
def test_a_broken_index_stops_no_message_and_a_rebuild_finds_them_all(
    sqlite_database: Database, damage: Callable[[Connection], None]
) -> None:
    def work(connection: Connection) -> int:
        made = add_session(connection, direct_stream(connection, add_person(connection, "ana")), "s1")
        say(connection, made, "before zanzibar")
        return made

    made = sqlite_database.write_now(work)
    sqlite_database.write_now(damage)

    # Damaged segments are noticed when they are next read: at the latest when they are merged.
    for n in range(20):
        sqlite_database.write_now(lambda connection, n=n: say(connection, made, f"after zanzibar {n}"))

    assert len(history(sqlite_database, made)) == 21
    progress: list[tuple[int, int]] = []
    assert reindex(sqlite_database, lambda done, total: progress.append((done, total))) == 21
    assert progress[-1] == (21, 21)
    assert not sqlite_database.read_now(index_is_degraded)
    assert found(sqlite_database, "zanzibar") == 21


def test_a_missing_index_is_known_as_degraded(database: Database, ana_session: int) -> None:
    database.write_now(break_index)
    database.write_now(lambda connection: say(connection, ana_session, "hello"))

    assert database.read_now(index_is_degraded)
    assert database.read_now(lambda connection: connection.execute(select(indexed_message)).all()) == []

    reindex(database, lambda done, total: None)

    assert found(database, "hello") == 1


def test_an_index_of_another_analyser_is_degraded(database: Database) -> None:
    database.write_now(lambda connection: put_value(connection, INDEX_ANALYSER, "0"))

    assert database.read_now(index_is_degraded)


def test_a_scope_reads_its_own_streams_only(database: Database) -> None:
    def work(connection: Connection) -> dict[str, int]:
        ana, bo = add_person(connection, "ana"), add_person(connection, "bo")
        ana_slack = link_account(connection, "ana", "slack")
        cleo = add_person(connection, "cleo")
        streams = {
            name: direct_stream(connection, one)
            for name, one in {"ana": ana, "bo": bo, "ana_slack": ana_slack, "cleo": cleo}.items()
        }
        streams["lab"] = add_room(connection, "lab", ana_slack, bo)
        streams["den"] = add_room(connection, "den", cleo)
        leave(connection, cleo)
        return streams

    streams = database.write_now(work)

    def names(scope: Scope) -> set[str]:
        visible = database.read_now(lambda connection: streams_of(connection, scope))
        return {name for name, one in streams.items() if one in visible}

    assert names(ANA) == {"ana", "ana_slack", "lab"}
    assert names(BO) == {"bo", "lab"}
    assert names(person_scope("cleo")) == {"cleo"}
    assert names(room_scope("lab", 1)) == {"lab"}
    assert names(person_scope("nobody")) == set()


def test_known_secrets_are_masked_the_longest_first() -> None:
    secrets = ["12345:token", "12345:token-of-the-bot", "short", ""]

    assert mask_secrets("a 12345:token-of-the-bot b 12345:token short", secrets) == f"a {MASK} b {MASK} short"
