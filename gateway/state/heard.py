"""What was said in a room without being said to the assistant: kept for its next answer there, and no longer.

It belongs to one chat or thread of one room, is bounded in number, size and age, and leaves with its message.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from trunkline.adapters.base import InboundMessage
from trunkline.agent.overheard import author_mark, one_line
from trunkline.agent.stream_text import HEARD_BEGINS
from trunkline.gateway.state.messages import rewrite_message
from trunkline.gateway.state.records import SessionKey
from trunkline.gateway.state.schema import account, heard, session
from trunkline.gateway.state.schema import message as message_table

MOST = 30
MESSAGE_CHARS = 500
TOTAL_CHARS = 6_000
KEPT_MS = 24 * 3_600_000
DELETED = "[deleted]"


@dataclass(frozen=True, slots=True)
class Heard:
    """One message that was overheard: who wrote it, as the room knows them, when, and its text, cut."""

    author: str
    text: str
    sent_ms: int


def keep(connection: Connection, room_id: int, account_id: int, message: InboundMessage, now_ms: int) -> None:
    """Stores a message; what is beyond the bounds of its place goes."""
    place = _place(message)
    connection.execute(
        insert(heard).values(
            **place,
            room_id=room_id,
            account_id=account_id,
            message_id=message.message_id or "",
            content=message.text[:MESSAGE_CHARS],
            sent_ms=int(message.sent_at.timestamp() * 1000),
            heard_ms=now_ms,
        )
    )
    here = [heard.c[name] == value for name, value in place.items()]
    kept = select(heard.c.id).where(*here).order_by(heard.c.id.desc()).limit(MOST).subquery()
    connection.execute(delete(heard).where(*here, heard.c.id.not_in(select(kept.c.id))))
    connection.execute(delete(heard).where(heard.c.room_id == room_id, heard.c.heard_ms < now_ms - KEPT_MS))


def since(
    connection: Connection, key: SessionKey, threads: Sequence[str], session_id: int | None, now_ms: int
) -> tuple[Heard, ...]:
    """What was said in these threads of a chat since a session's last question, oldest first and bounded."""
    asked = select(func.coalesce(func.max(message_table.c.created_ms), 0)).where(
        message_table.c.session_id == session_id, message_table.c.role == "user"
    )
    last_ms = connection.execute(asked).scalar_one()
    rows = connection.execute(
        select(heard, account.c.label, account.c.user_id)
        .join(account, account.c.id == heard.c.account_id)
        .where(
            heard.c.platform == key.platform,
            heard.c.tenant == key.tenant,
            heard.c.chat == key.chat,
            heard.c.thread.in_(threads),
            heard.c.heard_ms > max(last_ms, now_ms - KEPT_MS),
        )
        .order_by(heard.c.id.desc())
        .limit(MOST)
    ).all()
    lines: list[Heard] = []
    left_chars = TOTAL_CHARS
    for row in rows:
        left_chars -= len(row.content)
        if left_chars < 0:
            break
        lines.append(Heard(row.label or row.user_id, row.content, row.sent_ms))
    return tuple(reversed(lines))


def amend(connection: Connection, edit: InboundMessage) -> bool:
    """Puts an edited message in place of the one that was overheard; false when there is none."""
    text = edit.text[:MESSAGE_CHARS]
    rows = connection.execute(select(heard).where(*_is(edit))).all()
    for row in rows:
        _reword(connection, edit, row.content, text)
        connection.execute(update(heard).where(heard.c.id == row.id).values(content=text))
    return bool(rows)


def remove(connection: Connection, deletion: InboundMessage) -> None:
    """Takes a deleted message away, also from what a model was told."""
    for row in connection.execute(select(heard).where(*_is(deletion))).all():
        _reword(connection, deletion, row.content, DELETED)
        connection.execute(delete(heard).where(heard.c.id == row.id))


def forget_old(connection: Connection, now_ms: int) -> None:
    """Ends what is older than a day, in rooms where nobody speaks any more as well."""
    connection.execute(delete(heard).where(heard.c.heard_ms < now_ms - KEPT_MS))


def erase_author(connection: Connection, accounts: Sequence[int]) -> None:
    """Takes what these accounts said to others out of all that models were told in rooms, too."""
    known = connection.execute(select(account).where(account.c.id.in_(accounts))).all()
    for one in known:
        begins = author_mark(one.label or one.user_id)
        told = connection.execute(
            select(message_table)
            .join(session, session.c.id == message_table.c.session_id)
            .where(
                session.c.platform == one.platform,
                message_table.c.sent.contains(HEARD_BEGINS, autoescape=True),
                message_table.c.sent.contains(begins, autoescape=True),
            )
        ).all()
        for row in told:
            kept = (line for line in row.sent.split("\n") if not line.startswith(begins))
            rewrite_message(connection, row, {"sent": "\n".join(kept)})
    connection.execute(delete(heard).where(heard.c.account_id.in_(accounts)))


def _reword(connection: Connection, message: InboundMessage, old: str, new: str) -> None:
    line = f"⟧ {one_line(old)}\n"
    told = connection.execute(
        select(message_table)
        .join(session, session.c.id == message_table.c.session_id)
        .where(
            session.c.platform == message.platform,
            session.c.tenant == message.tenant,
            session.c.chat == message.chat,
            message_table.c.role == "user",
            message_table.c.sent.contains(line, autoescape=True),
        )
    ).all()
    for row in told:
        sent = row.sent.replace(line, f"⟧ {one_line(new)}\n", 1)
        rewrite_message(connection, row, {"sent": sent})


def _place(message: InboundMessage) -> dict[str, str]:
    return {
        "platform": message.platform,
        "tenant": message.tenant,
        "chat": message.chat,
        "thread": message.thread or "",
    }


def _is(message: InboundMessage) -> tuple[ColumnElement[bool], ...]:
    return (
        heard.c.platform == message.platform,
        heard.c.tenant == message.tenant,
        heard.c.chat == message.chat,
        heard.c.message_id == (message.edited_of or "-"),
    )
