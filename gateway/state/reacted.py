"""Queries on reactions: the answer that one is about, and those that wait to be told."""

import json
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, literal, or_, select, update

from trunkline.gateway.state.records import SessionKey
from trunkline.gateway.state.schema import inbox, message, outbox

MOST = 50


def turn_of_message(
    connection: Connection, platform: str, tenant: str, chat: str, message_id: str
) -> int | None:
    """The turn whose answer this message of ours is, or a part of."""
    query = select(outbox.c.turn_id).where(*_is(platform, tenant, chat, message_id))
    return connection.execute(query.limit(1)).scalar()


def find(
    connection: Connection, platform: str, tenant: str, chat: str, message_id: str
) -> tuple[str, int] | None:
    """The payload of this message of ours, and its place among those of an album."""
    query = select(outbox.c.payload, outbox.c.message_id).where(*_is(platform, tenant, chat, message_id))
    row = connection.execute(query.limit(1)).first()
    return None if row is None else (row.payload, row.message_id.split().index(message_id))


def asked_in(connection: Connection, turn_id: int) -> str | None:
    """The platform's id of the last message that a turn answers."""
    query = select(message.c.platform_ids).where(message.c.turn_id == turn_id, message.c.role == "user")
    stored = connection.execute(query.order_by(message.c.seq.desc()).limit(1)).scalar()
    ids = json.loads(stored or "[]")
    return str(ids[-1]) if ids else None


def take_noted(connection: Connection, key: SessionKey) -> tuple[str, ...]:
    """The payloads of a key's noted reactions, oldest first, at most 50; they are done with this."""
    of_key = (
        inbox.c.kind == "reaction",
        inbox.c.state == "noted",
        inbox.c.platform == key.platform,
        inbox.c.tenant == key.tenant,
        inbox.c.chat == key.chat,
        inbox.c.thread == key.thread,
        inbox.c.member == key.member,
    )
    rows = connection.execute(select(inbox.c.payload).where(*of_key).order_by(inbox.c.id.desc()).limit(MOST))
    payloads = tuple(row.payload for row in rows if row.payload)  # retention empties the old ones
    if payloads:
        connection.execute(update(inbox).where(*of_key).values(state="done"))
    return payloads[::-1]


def _is(platform: str, tenant: str, chat: str, message_id: str) -> tuple[ColumnElement[bool], ...]:
    ids = literal(" ") + outbox.c.message_id + " "
    in_album = and_(outbox.c.kind == "file", ids.contains(f" {message_id} ", autoescape=True))
    parts: tuple[Any, ...] = (
        outbox.c.platform == platform,
        outbox.c.tenant == tenant,
        outbox.c.chat == chat,
        or_(outbox.c.message_id == message_id, in_album),
        outbox.c.turn_id.is_not(None),
    )
    return parts
