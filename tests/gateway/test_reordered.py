"""Edits and deletions ahead of their message, after newer ones, and edits that make a message one for us."""

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import Connection, select

from tests.gateway.inbound import direct, in_room
from trunkline.adapters.base import InboundKind, InboundMessage
from trunkline.gateway import identity
from trunkline.gateway.clock import now_ms
from trunkline.gateway.payloads import load_inbound
from trunkline.gateway.router import NOTHING, Stored, store
from trunkline.gateway.settings import FileSettings, parse_settings
from trunkline.gateway.state import inbox as inbox_rows
from trunkline.gateway.state import people, sessions, turns
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.early import KEPT_MS, MOST
from trunkline.gateway.state.messages import NewMessage, add_message
from trunkline.gateway.state.records import SessionKey
from trunkline.gateway.state.schema import early_deletion, heard, inbox

FILE = {
    "people": {"ana": {"role": "owner", "telegram": 100}},
    "rooms": {"telegram/-900": {"listen": True}},
    "access": {"welcome": False},
}
SETTINGS = parse_settings(FILE)


async def take(
    database: Database, message: InboundMessage, at: int | None = None, settings: FileSettings = SETTINGS
) -> Stored:
    def work(connection: Connection) -> Stored:
        identity.assert_config(connection, settings, now_ms())
        return store(connection, message, settings, at or now_ms())

    return await database.write(work)


async def waiting(database: Database) -> list[InboundMessage]:
    query = select(inbox.c.payload).where(inbox.c.state == "received").order_by(inbox.c.id)
    rows = await database.read(lambda c: list(c.execute(query).scalars()))
    return [load_inbound(payload) for payload in rows]


def edit(message: InboundMessage, text: str, version: int = 5) -> InboundMessage:
    return replace(message, kind=InboundKind.EDIT, text=text, version=version, edited_of=message.message_id)


def deletion(message: InboundMessage, version: int = 9) -> InboundMessage:
    gone = replace(message, kind=InboundKind.DELETION, text="", version=version)
    return replace(gone, edited_of=message.message_id)


async def test_an_edit_ahead_of_its_message_is_the_message_and_the_late_one_is_known(
    database: Database,
) -> None:
    first = direct("what time is it in Paris?")
    stored = await take(database, edit(first, "what time is it in Rome?"))
    assert stored.wake is not None
    assert await take(database, first) == NOTHING
    assert await take(database, edit(first, "what time is it in Rome?")) == NOTHING
    assert [one.text for one in await waiting(database)] == ["what time is it in Rome?"]


async def test_of_two_edits_ahead_of_their_message_the_later_one_counts(database: Database) -> None:
    first = direct("one")
    await take(database, edit(first, "three", version=7))
    await take(database, edit(first, "two", version=6))
    await take(database, first)
    await take(database, edit(first, "four", version=8))
    await take(database, edit(first, "three", version=7))
    assert [one.text for one in await waiting(database)] == ["four"]


async def test_a_deletion_ahead_of_its_message_keeps_it_out(database: Database) -> None:
    first, other = direct("not for you"), direct("for you")
    await take(database, deletion(first))
    assert await take(database, first) == NOTHING
    assert await take(database, edit(first, "nor this")) == NOTHING
    await take(database, other)
    assert [one.text for one in await waiting(database)] == ["for you"]


async def test_deletions_that_came_first_are_kept_for_an_hour_and_not_without_end(
    sqlite_database: Database,
) -> None:
    began = now_ms()
    for number in range(3):
        await take(sqlite_database, deletion(replace(direct(""), message_id=f"old-{number}")))
    rows = [
        {"platform": "telegram", "tenant": "bot", "key": f"m:100:x{n}", "deleted_ms": began + n + 1}
        for n in range(MOST + 10)
    ]
    await sqlite_database.write(lambda c: c.execute(early_deletion.insert(), rows))
    await take(sqlite_database, deletion(direct("")))
    held = await sqlite_database.read(lambda c: c.execute(select(early_deletion.c.key)).scalars().all())
    assert len(held) <= MOST
    await sqlite_database.write(
        lambda c: c.execute(early_deletion.update().values(deleted_ms=began - KEPT_MS - 1))
    )
    newest = direct("")
    await take(sqlite_database, deletion(newest))
    held = await sqlite_database.read(lambda c: c.execute(select(early_deletion.c.key)).scalars().all())
    assert held == [f"m:100:{newest.message_id}"]


async def test_a_mention_added_by_an_edit_asks_once(database: Database) -> None:
    said = in_room("what do we need?", mention=False)
    assert await take(database, said) == NOTHING
    asked = replace(edit(said, "what do we need?"), mentions_me=True)
    assert (await take(database, asked)).wake is not None
    assert await take(database, asked) == NOTHING
    assert await take(database, said) == NOTHING
    assert [one.text for one in await waiting(database)] == ["what do we need?"]
    overheard = await database.read(lambda c: c.execute(select(heard)).all())
    assert overheard == []


async def test_an_edit_that_still_says_nothing_to_us_stays_overheard(database: Database) -> None:
    said = in_room("tea at four", mention=False)
    await take(database, said)
    assert await take(database, edit(said, "tea at five")) == NOTHING
    assert await waiting(database) == []
    overheard = await database.read(lambda c: c.execute(select(heard.c.content)).scalars().all())
    assert overheard == ["tea at five"]


@pytest.mark.parametrize("setting", ["direct", "never"])
async def test_a_mention_added_long_after_or_where_edits_ask_nothing_is_no_question(
    sqlite_database: Database, setting: str
) -> None:
    settings = parse_settings(FILE | {"agent": {"reanswer_edits": setting}})
    said = in_room("what do we need?", mention=False)
    if setting == "direct":
        said = replace(said, sent_at=said.sent_at - timedelta(minutes=6))
    asked = replace(edit(said, "what do we need?"), mentions_me=True)
    assert await take(sqlite_database, asked, settings=settings) == NOTHING
    assert await waiting(sqlite_database) == []


async def test_a_deletion_ends_an_edit_that_still_waits_and_forgets_its_words(database: Database) -> None:
    first = direct("the key is under the mat")
    await take(database, first)
    await database.write(lambda c: answered(c, first))
    assert (await take(database, edit(first, "the key is under the stone"))).wake is not None
    assert [one.text for one in await waiting(database)] == ["the key is under the stone"]

    await take(database, deletion(first))

    rows = await database.read(lambda c: c.execute(select(inbox).order_by(inbox.c.id)).all())
    assert [(row.kind, row.state, row.payload) for row in rows] == [
        ("message", "done", ""),
        ("edit", "done", ""),
    ]


def answered(connection: Connection, message: InboundMessage) -> None:
    """As if a turn had answered what waits."""
    row = connection.execute(select(inbox)).one()
    key = SessionKey(message.platform, message.tenant, message.chat)
    stream = people.stream_of(connection, account_id=row.account_id, room_id=None)
    opened = sessions.start(
        connection, key, stream, prompt="", snapshot="{}", model="m", now_ms=now_ms(), kind=""
    )
    turn = turns.begin(connection, opened.id, stream, row.account_id, "p", now_ms())
    add_message(
        connection,
        NewMessage(
            opened.id,
            "user",
            message.text,
            now_ms(),
            turn_id=turn.key.turn,
            account_id=row.account_id,
            platform_ids=(message.message_id or "",),
        ),
    )
    inbox_rows.attach_turn(connection, [row.id], turn.key.turn)
    turns.end(connection, turn.key, "done", "", now_ms())
    inbox_rows.finish(connection, [row.id], "done", "", now_ms())


async def test_an_edited_command_is_not_run_again(sqlite_database: Database) -> None:
    first = replace(direct("", name="Ana"), kind=InboundKind.COMMAND, command="status")
    await take(sqlite_database, first)
    await take(sqlite_database, edit(first, "/status now"))
    query = select(inbox.c.kind, inbox.c.state)
    rows = await sqlite_database.read(lambda c: [tuple(row) for row in c.execute(query)])
    assert rows == [("command", "received")]


async def test_a_strangers_edit_is_kept_no_more_than_their_message(sqlite_database: Database) -> None:
    assert await take(sqlite_database, edit(direct("hello", user="777"), "hello there")) == NOTHING
    assert await waiting(sqlite_database) == []
