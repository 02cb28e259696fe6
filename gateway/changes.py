"""Edits and deletions as they arrive: of what waits at once, of all else as the transcript allows.

One that comes before its message is not lost: an edit is taken for the message, a deletion waits for it. What
an edit does to a question that was answered is `amending`'s to decide.
"""

import json
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, or_, select, update

from trunkline.adapters.base import InboundKind, InboundMessage
from trunkline.gateway import parts
from trunkline.gateway.again import REANSWER_MS
from trunkline.gateway.clock import now_ms
from trunkline.gateway.payloads import dump_inbound
from trunkline.gateway.state import early, files, fulltext, heard, inbox
from trunkline.gateway.state.inbox import Arrival
from trunkline.gateway.state.messages import redact_messages, rewrite_message
from trunkline.gateway.state.records import SessionKey
from trunkline.gateway.state.schema import attachment as attachment_table
from trunkline.gateway.state.schema import inbox as inbox_table
from trunkline.gateway.state.schema import message as message_table
from trunkline.gateway.wording import with_text


def makes_question(connection: Connection, edit: InboundMessage, stamp_ms: int) -> bool:
    """Whether an edit that is addressed to us is the first we are told of a fresh message.

    It came before that, or the message was not for us as it stood.
    """
    sent_ms = int(edit.sent_at.timestamp() * 1000)
    return stamp_ms - sent_ms <= REANSWER_MS and not _versions(connection, edit)


def as_question(
    connection: Connection, edit: InboundMessage, arrival: Arrival, stamp_ms: int
) -> InboundMessage:
    """The message that an edit makes, under the key of its original, which is then known when it comes.

    So is the edit, should it come again.
    """
    inbox.store(connection, arrival, stamp_ms)
    heard.drop(connection, edit)
    return replace(_as_message(edit), version=0)


def note_edit(connection: Connection, message: InboundMessage, arrival: Arrival) -> SessionKey | None:
    """Changes the message while that waits; else keeps the edit, and returns the key of its turn.

    One that is older than what is known of the message already changes nothing.
    """
    if max(_versions(connection, message), default=0) > message.version:
        return None
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
    _drop_edits(connection, message)
    found = _original(connection, message)
    if found is None:
        early.keep(connection, message, now_ms())
        return None
    if found.turn_id is None:
        _drop(connection, found)
        return None
    for row in said_in(connection, found.turn_id, message.edited_of or ""):
        _take_out(connection, row, message.edited_of or "")
    files.drop(connection, attachment_table.c.inbox_id == found.id)
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


def reword(connection: Connection, row: Row[Any], question: parts.Question) -> None:
    """Puts other words into a stored question, and in what was sent for it."""
    if question.text == row.content:
        return
    values = {"content": question.text, "parts": question.dump()}
    values["sent"] = with_text(row.sent or row.content, row.content, question.text)
    rewrite_message(connection, row, values)


def _take_out(connection: Connection, row: Row[Any], message_id: str) -> None:
    """Takes one message out of a question, or all of it where nobody knows which part was whose."""
    question = parts.of_row(row)
    left = question.without(message_id) if question.has(message_id) else parts.Question("")
    if not left.text:
        redact_messages(connection, [row.id])
        return
    reword(connection, row, left)
    ids = json.dumps([one for one in json.loads(row.platform_ids) if one != message_id])
    connection.execute(update(message_table).where(message_table.c.id == row.id).values(platform_ids=ids))


def _versions(connection: Connection, edit: InboundMessage) -> list[int]:
    """The versions of a message that are known: its own, that of its words while it waits, its edits'."""
    found = []
    for row in connection.execute(_rows_of(edit)):
        version, _, _ = row.key.removeprefix(_prefix(edit)).partition("-")
        found.append(int(version))
        if row.state == "received" and row.payload and row.kind in inbox.SAID:
            found.append(int(json.loads(row.payload).get("version", 0)))
    return found


def _as_message(edit: InboundMessage) -> InboundMessage:
    return replace(edit, kind=InboundKind.MESSAGE, edited_of=None)


def _original(connection: Connection, message: InboundMessage) -> Row[Any] | None:
    """Its row, if somebody's words are in it: a command has some where it called a skill."""
    calls_skill = and_(inbox_table.c.kind == "command", inbox_table.c.turn_id.is_not(None))
    is_said = or_(inbox_table.c.kind.in_(inbox.SAID), calls_skill)
    return connection.execute(_rows_of(message).where(is_said).order_by(inbox_table.c.id).limit(1)).first()


def _prefix(message: InboundMessage) -> str:
    return f"m:{message.chat}:{message.edited_of}:"


def _rows_of(message: InboundMessage) -> Select[Any]:
    return select(inbox_table).where(
        inbox_table.c.platform == message.platform,
        inbox_table.c.tenant == message.tenant,
        inbox_table.c.key.startswith(_prefix(message), autoescape=True),
    )


def _drop_edits(connection: Connection, message: InboundMessage) -> None:
    """Ends the edits of a message that were not acted on, and forgets their words."""
    rows = connection.execute(_rows_of(message).where(inbox_table.c.kind == "edit")).all()
    for row in rows:
        if row.payload and row.state != "leased":
            _drop(connection, row)


def _drop(connection: Connection, row: Row[Any]) -> None:
    """Ends a message that nobody has begun to answer, and forgets its words."""
    connection.execute(
        update(inbox_table)
        .where(inbox_table.c.id == row.id)
        .values(state="done", reason="deleted", payload="", done_ms=now_ms())
    )
