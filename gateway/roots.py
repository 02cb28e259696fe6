"""What a thread begins with, where the platform names that message and doesn't quote it (Slack).

What others said in a room's thread is read from the platform (`threads`); what the assistant said, and all of
a direct chat, is known here.
"""

from dataclasses import replace

from sqlalchemy import Connection, select

from trunkline.adapters.base import ChatKind, InboundMessage
from trunkline.gateway.payloads import load_outbound
from trunkline.gateway.state.schema import inbox, message, outbox

_STANDS = message.c.state.in_(("live", "compacted"))


def with_root(connection: Connection, question: InboundMessage) -> InboundMessage:
    """A thread's first question, with the words that it is asked under as far as they are still kept."""
    reply = question.reply_to
    if reply is None or reply.text or question.thread is None or reply.message_id != question.thread:
        return question
    if reply.is_own:
        text = _answered(connection, question, reply.message_id)
    elif question.chat_kind is ChatKind.DIRECT:
        text = _asked(connection, question, reply.message_id)
    else:
        return question
    return replace(question, reply_to=replace(reply, text=text))


def _answered(connection: Connection, question: InboundMessage, message_id: str) -> str:
    row = connection.execute(
        select(outbox.c.turn_id, outbox.c.payload).where(
            outbox.c.state == "sent",
            outbox.c.platform == question.platform,
            outbox.c.tenant == question.tenant,
            outbox.c.chat == question.chat,
            outbox.c.message_id == message_id,
        )
    ).first()
    if row is None:
        return ""
    if row.turn_id is not None:
        return _words(connection, row.turn_id, "assistant")
    return load_outbound(row.payload).chunk.text if row.payload else ""


def _asked(connection: Connection, question: InboundMessage, message_id: str) -> str:
    turn_id = connection.execute(
        select(inbox.c.turn_id).where(
            inbox.c.platform == question.platform,
            inbox.c.tenant == question.tenant,
            inbox.c.key == f"m:{question.chat}:{message_id}:0",
        )
    ).scalar()
    return "" if turn_id is None else _words(connection, turn_id, "user")


def _words(connection: Connection, turn_id: int, role: str) -> str:
    """The last that was said so in a turn; nothing where it was taken back or forgotten."""
    query = select(message.c.content).where(message.c.turn_id == turn_id, message.c.role == role, _STANDS)
    last = query.where(message.c.content != "").order_by(message.c.id.desc()).limit(1)
    return connection.execute(last).scalar() or ""
