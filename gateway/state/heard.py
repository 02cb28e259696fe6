"""What was said in a room without being said to the assistant: kept for its next answer there, and no longer.

It belongs to one chat or thread of one room, is bounded in number, size and age, and leaves with its message.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import ColumnElement, Connection, delete, func, insert, or_, select, update

from trunkline.adapters.base import InboundMessage
from trunkline.agent.overheard import author_mark, one_line
from trunkline.agent.stream_text import HEARD_BEGINS, HEARD_ENDS, QUOTE_BEGINS, QUOTE_ENDS
from trunkline.gateway.payloads import BadPayload, dump_inbound, load_inbound
from trunkline.gateway.state import people
from trunkline.gateway.state.messages import rewrite_message
from trunkline.gateway.state.records import SessionKey
from trunkline.gateway.state.schema import account, heard, inbox, session
from trunkline.gateway.state.schema import message as message_table

MOST = 30
MESSAGE_CHARS = 500
TOTAL_CHARS = 6_000
KEPT_MS = 24 * 3_600_000
DELETED = "[deleted]"


@dataclass(frozen=True, slots=True)
class Heard:
    """One message that was overheard: who wrote it, as the room knows them, when, and its text, cut."""

    account: int
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


def has(connection: Connection, message: InboundMessage) -> bool:
    """Whether this message was overheard already."""
    return connection.execute(select(heard.c.id).where(*_at(message, message.message_id))).first() is not None


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
        .order_by(heard.c.sent_ms.desc(), heard.c.id.desc())
        .limit(MOST)
    ).all()
    lines: list[Heard] = []
    left_chars = TOTAL_CHARS
    for row in rows:
        left_chars -= len(row.content)
        if left_chars < 0:
            break
        lines.append(Heard(row.account_id, row.label or row.user_id, row.content, row.sent_ms))
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


def drop(connection: Connection, edit: InboundMessage) -> None:
    """Takes a message away that was said to the assistant after all."""
    connection.execute(delete(heard).where(*_is(edit)))


def forget_old(connection: Connection, now_ms: int) -> None:
    """Ends what is older than a day, in rooms where nobody speaks any more as well."""
    connection.execute(delete(heard).where(heard.c.heard_ms < now_ms - KEPT_MS))


def quoted_in(connection: Connection, message: InboundMessage) -> int | None:
    """The account whose words a message quotes, as far as it is known."""
    reply = message.reply_to
    if reply is None or reply.author_id is None or not reply.text:
        return None
    found = people.find_account(connection, message.platform, message.realm, reply.author_id)
    return None if found is None else found.id


def whose(lines: Sequence[Heard]) -> str | None:
    """For each line that a model is told of, in order, the account that wrote it; None without lines."""
    return f",{','.join(str(line.account) for line in lines)}," if lines else None


def erase_author(connection: Connection, accounts: Sequence[int]) -> None:
    """Takes what these accounts said out of all that models were told when others spoke in rooms, too."""
    if not accounts:
        return
    theirs = {str(one) for one in accounts}
    marked = (message_table.c.heard_from.contains(f",{one},") for one in theirs)
    for row in connection.execute(select(message_table).where(or_(*marked))).all():
        rewrite_message(connection, row, _without(row.sent or "", row.heard_from.split(",")[1:-1], theirs))
    quotes = message_table.c.quoted_from.in_(accounts)
    for row in connection.execute(select(message_table).where(quotes)).all():
        rewrite_message(connection, row, {"sent": _without_quote(row.sent or ""), "quoted_from": None})
    _erase_unmarked(connection, accounts)
    _erase_quotes_waiting(connection, accounts)
    connection.execute(delete(heard).where(heard.c.account_id.in_(accounts)))


def _erase_quotes_waiting(connection: Connection, accounts: Sequence[int]) -> None:
    """What others quote in messages that nobody answered, or not yet."""
    for one in connection.execute(select(account).where(account.c.id.in_(accounts))).all():
        rows = connection.execute(
            select(inbox.c.id, inbox.c.payload).where(
                inbox.c.platform == one.platform,
                inbox.c.payload.contains(f'"author_id":"{one.user_id}"', autoescape=True),
            )
        )
        for row in rows.all():
            payload = _without_words_of(row.payload, one.realm)
            connection.execute(update(inbox).where(inbox.c.id == row.id).values(payload=payload))


def _without_words_of(payload: str, realm: str) -> str:
    """A stored message whose quote says only that there was one; nothing of one that can't be read."""
    try:
        message = load_inbound(payload)
    except BadPayload:
        return ""
    if message.reply_to is None or message.realm != realm:
        return payload
    return dump_inbound(replace(message, reply_to=replace(message.reply_to, text=DELETED)))


def _without(sent: str, authors: Sequence[str], gone: Collection[str]) -> dict[str, str]:
    """A question and its list of whose lines stand in it, without the lines of some."""
    kept, inside, left = [], False, list(authors)
    for line in sent.split("\n"):
        is_heard = inside and line != HEARD_ENDS
        inside = line == HEARD_BEGINS or is_heard
        if not (is_heard and left and left.pop(0) in gone):
            kept.append(line)
    staying = [one for one in authors if one not in gone]
    return {"sent": "\n".join(kept), "heard_from": f",{','.join(staying)}," if staying else ""}


def _without_quote(sent: str) -> str:
    """A question whose quote says only that there was one."""
    before, begins, rest = sent.partition(QUOTE_BEGINS)
    _, ends, after = rest.partition(QUOTE_ENDS)
    return f"{before}{begins}\n> {DELETED}\n{ends}{after}" if begins and ends else sent


def _erase_unmarked(connection: Connection, accounts: Sequence[int]) -> None:
    """The same in questions of the second schema, which name authors only as they were called then."""
    known = connection.execute(select(account).where(account.c.id.in_(accounts))).all()
    for one in known:
        begins = author_mark(one.label or one.user_id)
        told = connection.execute(
            select(message_table)
            .join(session, session.c.id == message_table.c.session_id)
            .where(
                session.c.platform == one.platform,
                message_table.c.heard_from.is_(None),
                message_table.c.sent.contains(HEARD_BEGINS, autoescape=True),
                message_table.c.sent.contains(begins, autoescape=True),
            )
        ).all()
        for row in told:
            kept = (line for line in row.sent.split("\n") if not line.startswith(begins))
            rewrite_message(connection, row, {"sent": "\n".join(kept)})


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


def _is(change: InboundMessage) -> tuple[ColumnElement[bool], ...]:
    return _at(change, change.edited_of)


def _at(message: InboundMessage, message_id: str | None) -> tuple[ColumnElement[bool], ...]:
    return (
        heard.c.platform == message.platform,
        heard.c.tenant == message.tenant,
        heard.c.chat == message.chat,
        heard.c.message_id == (message_id or "-"),
    )
