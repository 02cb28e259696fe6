"""Edits and deletions as they arrive: of what waits at once, of all else as the transcript allows.

What an edit does to a question that was answered is `amending`'s to decide.
"""

import json
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, select, update

from trunkline.adapters.base import InboundKind, InboundMessage
from trunkline.gateway.clock import now_ms
from trunkline.gateway.payloads import dump_inbound
from trunkline.gateway.state import fulltext, heard, inbox
from trunkline.gateway.state.inbox import Arrival
from trunkline.gateway.state.messages import redact_messages
from trunkline.gateway.state.records import SessionKey
from trunkline.gateway.state.schema import inbox as inbox_table
from trunkline.gateway.state.schema import message as message_table


def note_edit(connection: Connection, message: InboundMessage, arrival: Arrival) -> SessionKey | None:
    """Changes the message while that waits; else keeps the edit, and returns the key of its turn."""
    original = f"m:{message.chat}:{message.edited_of}"
    waits = dump_inbound(_as_message(message))
    if inbox.amend_waiting(connection, message.platform, message.tenant, original, waits):
        return None
    if heard.amend(connection, message):
        return None
    found = _original(connection, message)
    if found is None or found.account_id != arrival.account or found.turn_id is None:
        return None
    key = SessionKey(found.platform, found.tenant, found.chat, found.thread, found.member)
    inbox.store(
        connection,
        Arrival(key, arrival.inbox_key, arrival.account, "edit", dump_inbound(message), arrival.sent_ms),
        now_ms(),
    )
    return key


def note_deletion(connection: Connection, message: InboundMessage) -> SessionKey | None:
    """Takes a deleted message out of everything that is kept; returns the key if its turn may be running."""
    heard.remove(connection, message)
    found = _original(connection, message)
    if found is None:
        return None
    if found.turn_id is None:
        _drop(connection, found)
        return None
    rows = said_in(connection, found.turn_id, message.edited_of or "")
    redact_messages(connection, [row.id for row in rows])
    fulltext.forget_removed(connection)
    return SessionKey(found.platform, found.tenant, found.chat, found.thread, found.member)


def said_in(connection: Connection, turn: int, platform_id: str) -> list[Row[Any]]:
    """The messages of a person in a turn that this message of the platform is, or is a part of."""
    rows = connection.execute(
        select(message_table).where(
            message_table.c.turn_id == turn,
            message_table.c.role == "user",
            message_table.c.state.in_(("live", "compacted")),
        )
    ).all()
    return [row for row in rows if platform_id in json.loads(row.platform_ids or "[]")]


def _as_message(edit: InboundMessage) -> InboundMessage:
    return replace(edit, kind=InboundKind.MESSAGE, edited_of=None)


def _original(connection: Connection, message: InboundMessage) -> Row[Any] | None:
    prefix = f"m:{message.chat}:{message.edited_of}:"
    return connection.execute(
        select(inbox_table)
        .where(
            inbox_table.c.platform == message.platform,
            inbox_table.c.tenant == message.tenant,
            inbox_table.c.key.startswith(prefix, autoescape=True),
            inbox_table.c.kind.in_(inbox.SAID),
        )
        .order_by(inbox_table.c.id)
        .limit(1)
    ).first()


def _drop(connection: Connection, row: Row[Any]) -> None:
    """Ends a message that nobody has begun to answer, and forgets its words."""
    connection.execute(
        update(inbox_table)
        .where(inbox_table.c.id == row.id)
        .values(state="done", reason="deleted", payload="", done_ms=now_ms())
    )
