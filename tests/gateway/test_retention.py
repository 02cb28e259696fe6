"""Conversations end when they have been silent for as long as the settings say."""

import asyncio

from sqlalchemy import Connection, insert, select

from tests.gateway.rows import add_person, add_session, direct_stream
from trunkline.gateway import retention
from trunkline.gateway.state.database import Database
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
                row = {"key": f"{state}{at_ms}", "state": state, "received_ms": at_ms, **words}
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

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        watching = group.create_task(retention.watch(sqlite_database, 400))
        while "old" in left(sqlite_database):  # each look gives way to the watch
            await sqlite_database.read(lambda c: c.execute(select(message.c.id)).first())
        watching.cancel()

    assert left(sqlite_database) == ["new"]
