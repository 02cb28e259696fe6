"""Conversations end when they have been silent for as long as the settings say."""

import asyncio
from typing import Any

from sqlalchemy import Connection, event, insert, select

from tests.gateway.rows import add_person, add_session, direct_stream
from trunkline.gateway import read_back, retention
from trunkline.gateway.state import deletion, pruning
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.inbox import is_known
from trunkline.gateway.state.schema import inbox, message, outbox, session, turn

DAY_MS = 86_400_000
NOW_MS = 1000 * DAY_MS


def left(database: Database) -> list[str]:
    return database.read_now(
        lambda c: list(
            c.execute(select(session.c.public_id).where(session.c.end_reason != "deleted")).scalars()
        )
    )


def two_sessions(connection: Connection, old_days: int) -> None:
    stream = direct_stream(connection, add_person(connection, "ana"))
    old_ms = NOW_MS - old_days * DAY_MS
    add_session(connection, stream, "old", last_ms=old_ms, ended_ms=old_ms)
    add_session(connection, stream, "new", last_ms=NOW_MS)


async def test_what_was_silent_for_too_long_is_deleted_and_nothing_else(sqlite_database: Database) -> None:
    sqlite_database.write_now(lambda c: two_sessions(c, 31))

    assert await retention.delete_old(sqlite_database, 30, NOW_MS) == 1

    assert left(sqlite_database) == ["new"]
    assert await retention.delete_old(sqlite_database, 30, NOW_MS) == 0


async def test_a_conversation_in_which_a_turn_runs_stays(sqlite_database: Database) -> None:
    def runs(connection: Connection) -> None:
        two_sessions(connection, 31)
        old = connection.execute(select(session.c.id).where(session.c.public_id == "old")).scalar_one()
        connection.execute(insert(turn).values(session_id=old, account_id=1, state="running"))

    sqlite_database.write_now(runs)

    assert await retention.delete_old(sqlite_database, 30, NOW_MS) == 0


async def test_words_of_no_conversation_are_forgotten_as_well_and_their_rows_stay(
    sqlite_database: Database,
) -> None:
    """What a command answered, and a message for which nobody paid."""
    words = {"platform": "telegram", "tenant": "bot", "chat": "1", "payload": "zqwordsx"}
    old_ms, new_ms = NOW_MS - 31 * DAY_MS, NOW_MS - DAY_MS

    def plant(connection: Connection) -> None:
        for at_ms in (old_ms, new_ms):
            for state in ("done", "dead", "noted", "received"):
                row = {
                    "key": f"{state}{at_ms}",
                    "state": state,
                    "received_ms": at_ms,
                    "done_ms": at_ms,
                    **words,
                }
                connection.execute(insert(inbox).values(**row))
            for state in ("sent", "planned"):
                row = {"source": f"{state}{at_ms}", "state": state, "created_ms": at_ms, **words}
                connection.execute(insert(outbox).values(seq=0, kind="text", **row))

    def kept(connection: Connection) -> list[tuple[str, bool]]:
        came = select(inbox.c.state, inbox.c.received_ms).where(inbox.c.payload != "")
        went = select(outbox.c.state, outbox.c.created_ms).where(outbox.c.payload != "")
        rows = [*connection.execute(came).all(), *connection.execute(went).all()]
        return sorted((state, at_ms == new_ms) for state, at_ms in rows)

    sqlite_database.write_now(plant)
    await retention.delete_old(sqlite_database, 30, NOW_MS)

    recent = [(state, True) for state in ("dead", "done", "noted", "planned", "received", "sent")]
    assert sqlite_database.read_now(kept) == sorted([*recent, ("planned", False), ("received", False)])
    assert sqlite_database.read_now(lambda c: len(c.execute(select(inbox.c.id)).all())) == 8


async def test_the_running_house_looks_by_itself(sqlite_database: Database) -> None:
    sqlite_database.write_now(lambda c: two_sessions(c, 2000))

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        watching = group.create_task(retention.watch(sqlite_database, 400))
        while "old" in left(sqlite_database):  # each look gives way to the watch
            await sqlite_database.read(lambda c: c.execute(select(message.c.id)).first())
        watching.cancel()

    assert left(sqlite_database) == ["new"]


PLACE = {"platform": "telegram", "tenant": "bot", "chat": "1"}
OLD_MS, YOUNG_MS = NOW_MS - 31 * DAY_MS, NOW_MS - 29 * DAY_MS


def came(
    connection: Connection, key: str, at_ms: int = OLD_MS, state: str = "done", **values: object
) -> None:
    row = PLACE | {"key": key, "account_id": 1, "kind": "command", "received_ms": at_ms, "done_ms": at_ms}
    connection.execute(insert(inbox).values(**(row | {"state": state} | values)))


def went(
    connection: Connection, source: str, at_ms: int = OLD_MS, state: str = "sent", **values: object
) -> None:
    row = PLACE | {"seq": 0, "kind": "text", "payload": "words", "message_id": source, "created_ms": at_ms}
    connection.execute(insert(outbox).values(source=source, state=state, **(row | values)))


def keys(database: Database) -> list[str]:
    return database.read_now(lambda c: list(c.execute(select(inbox.c.key).order_by(inbox.c.id)).scalars()))


def sources(database: Database) -> dict[str, str]:
    query = select(outbox.c.source, outbox.c.payload)
    return database.read_now(lambda c: {row.source: row.payload for row in c.execute(query)})


async def test_what_has_been_over_for_a_month_goes_and_what_may_be_asked_for_again_stays(
    database: Database,
) -> None:
    def plant(connection: Connection) -> None:
        two_sessions(connection, 400)
        opened = connection.execute(select(session.c.id).where(session.c.public_id == "new")).scalar_one()
        of_turn = {"turn_id": connection.execute(
            insert(turn).values(session_id=opened, account_id=1, state="done").returning(turn.c.id)
        ).scalar_one()}  # fmt: skip
        came(connection, "command")
        came(connection, "reaction", kind="reaction", payload="{}", state="noted")
        came(connection, "answered, and may be edited", **of_turn)
        came(connection, "nobody paid for it", payload="words")
        came(connection, "set aside", state="dead")
        came(connection, "waits", state="received", done_ms=None)
        came(connection, "waited long", done_ms=YOUNG_MS)
        came(connection, "the last word there", chat="2")
        came(connection, "may come again", YOUNG_MS)
        went(connection, "reply")
        went(connection, "answer, which may be taken back", **of_turn)
        went(connection, "waits", state="planned")
        went(connection, "young", YOUNG_MS)

    database.write_now(plant)

    assert await retention.prune(database, NOW_MS) == 3

    assert keys(database) == [
        "answered, and may be edited",
        "nobody paid for it",
        "set aside",
        "waits",
        "waited long",
        "the last word there",
        "may come again",
    ]
    left = {"answer, which may be taken back": "", "waits": "words", "young": "words"}
    assert sources(database) == left
    assert database.read_now(lambda c: is_known(c, "telegram", "bot", "may come again"))
    assert await retention.prune(database, NOW_MS) == 0


async def test_what_came_in_a_conversation_is_over_when_that_is_deleted(sqlite_database: Database) -> None:
    def plant(connection: Connection) -> None:
        two_sessions(connection, 400)
        old = connection.execute(select(session.c.id).where(session.c.public_id == "old")).scalar_one()
        made = insert(turn).values(session_id=old, account_id=1, state="done").returning(turn.c.id)
        of_turn = {"turn_id": connection.execute(made).scalar_one()}
        came(connection, "old", **of_turn)
        came(connection, "new", YOUNG_MS)
        went(connection, "old", **of_turn)
        deletion.delete_session(connection, deletion.every_stream(connection), "old")

    sqlite_database.write_now(plant)
    await retention.prune(sqlite_database, NOW_MS)

    assert keys(sqlite_database) == ["new"]
    assert sources(sqlite_database) == {}


async def test_however_much_is_over_only_the_newest_of_a_chat_is_left(sqlite_database: Database) -> None:
    """In steps: more rows than one takes. The ids of the newest are not given to others."""
    many = 2 * pruning.STEP_ROWS + 1

    def plant(connection: Connection) -> None:
        two_sessions(connection, 400)
        for number in range(many):
            came(connection, str(number))
            went(connection, str(number))

    sqlite_database.write_now(plant)

    assert await retention.prune(sqlite_database, NOW_MS) == 2 * (many - 1)
    assert keys(sqlite_database) == list(sources(sqlite_database)) == [str(many - 1)]


def test_what_is_over_is_found_by_an_index(sqlite_database: Database) -> None:
    asked: list[tuple[str, Any]] = []

    def note(_: object, __: object, statement: str, values: Any, *___: object) -> None:
        asked.append((statement, values))

    def plan_of_looks(connection: Connection) -> str:
        event.listen(connection, "before_cursor_execute", note)
        for look in (pruning.look_at_inbox, pruning.look_at_outbox):
            look(connection, 5, pruning.Reached())
        event.remove(connection, "before_cursor_execute", note)
        looks = [connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {one}", values) for one, values in asked]
        return str([look.all() for look in looks])

    plan = sqlite_database.read_now(plan_of_looks)

    assert "ix_inbox_over" in plan
    assert "ix_outbox_over" in plan
    assert "SCAN inbox" not in plan
    assert "TEMP B-TREE" not in plan


def test_it_is_known_for_longer_what_came_than_anything_is_read_back() -> None:
    assert retention.OVER_DAYS * DAY_MS > 2 * read_back.MAX_AGE_MS
