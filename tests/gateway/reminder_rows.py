"""Reminders for tests: people who have some, and the house as a delivery sees it."""

from dataclasses import replace

from sqlalchemy import Connection, select

from tests.gateway.rows import add_person, add_room, direct_stream
from trunkline.adapters.base import Chunk
from trunkline.agent.scope import AccountId
from trunkline.gateway.payloads import load_outbound
from trunkline.gateway.reminder_delivery import House, Line
from trunkline.gateway.settings import FileSettings
from trunkline.gateway.state import people, reminders
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.records import SessionKey
from trunkline.gateway.state.reminders import NewReminder
from trunkline.gateway.state.schema import outbox, reminder, stream

DUE_MS = 1_796_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def as_it_is(platform: str, markdown: str, language: str = "") -> tuple[Chunk, ...]:
    return (Chunk(markdown),)


def house(*platforms: str, settings: FileSettings | None = None) -> House:
    """Connected to these platforms, as the bot `bot`."""
    lines = {name: Line("bot") for name in platforms or ("telegram",)}
    return House(lines, settings or FileSettings(), as_it_is)


def ana(connection: Connection, **changes: object) -> int:
    """Ana with one Telegram account, whose direct chat a reminder is for; returns its number."""
    account = add_person(connection, "ana")
    return direct(connection, account, "ana", **changes)


def direct(connection: Connection, account: int, maker: str, **changes: object) -> int:
    where = people.load_account(connection, AccountId(account))
    key = SessionKey(where.platform, "bot", f"chat of {maker}")
    new = NewReminder(
        AccountId(account),
        direct_stream(connection, account),
        key,
        maker,
        "text",
        "the tea",
        DUE_MS,
        "",
        "Europe/Berlin",
        "",
    )
    return reminders.add(connection, replace(new, **changes), DUE_MS - HOUR_MS)  # type: ignore[arg-type]


def in_room(connection: Connection, slug: str, account: int, maker: str, **changes: object) -> int:
    """One that `account` made in a room it takes part in; the room is made with it."""
    stream_id = add_room(connection, slug, account, platform="telegram")
    key = SessionKey("telegram", "bot", slug, "topic")
    return direct(connection, account, maker, stream=stream_id, key=key, **changes)


def room_of(connection: Connection, number: int) -> int:
    query = select(stream.c.room_id).join(reminder, reminder.c.stream_id == stream.c.id)
    return int(connection.execute(query.where(reminder.c.id == number)).scalar_one())


def planned(database: Database) -> list[tuple[str, str, str]]:
    """Source, chat and text of everything in the outbox."""
    rows = database.read_now(lambda c: c.execute(select(outbox).order_by(outbox.c.id)).all())
    return [(row.source, row.chat, load_outbound(row.payload).chunk.text) for row in rows]
