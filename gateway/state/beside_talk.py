"""What a conversation of the web page was told beside its talk: replies to commands, reminders, notices.

No transcript has it, so it is read from the outbox, which forgets it with the conversation.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, delete, exists, or_, select

from trunkline.gateway.payloads import BadPayload, load_outbound
from trunkline.gateway.state.schema import outbox, session

MOST = 400


@dataclass(frozen=True, slots=True)
class Told:
    message_id: str
    text: str
    sent_ms: int


def told(connection: Connection, person: str, thread: str) -> Sequence[Told]:
    """The newest, oldest first; nothing of a private conversation."""
    private = exists().where(
        session.c.platform == outbox.c.platform,
        session.c.chat == outbox.c.chat,
        session.c.thread == outbox.c.thread,
        session.c.private,
        session.c.started_ms <= outbox.c.created_ms,
        or_(session.c.ended_ms.is_(None), session.c.ended_ms >= outbox.c.created_ms),
    )
    query = (
        select(outbox.c.message_id, outbox.c.payload, outbox.c.sent_ms)
        .where(*_beside(person, thread), outbox.c.kind == "text", outbox.c.payload != "", ~private)
        .order_by(outbox.c.id.desc())
        .limit(MOST)
    )
    rows = connection.execute(query).all()
    found: list[Told] = []
    for row in reversed(rows):
        with suppress(BadPayload):  # another version's: the page shows the rest
            found.append(Told(row.message_id, load_outbound(row.payload).chunk.text, row.sent_ms))
    return found


def forget(connection: Connection, person: str, thread: str) -> None:
    connection.execute(delete(outbox).where(*_beside(person, thread)))


def _beside(person: str, thread: str) -> tuple[ColumnElement[bool], ...]:
    return (
        outbox.c.platform == "web",
        outbox.c.chat == person,
        outbox.c.thread == thread,
        outbox.c.turn_id.is_(None),
        outbox.c.state == "sent",
    )
