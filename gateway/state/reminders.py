"""Queries on reminders: made, listed within a scope, cancelled, and moved on when they come due.

A row waits until it has been delivered for the last time; what happens at its hour is the scheduler's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, delete, func, insert, or_, select, update

from trunkline.agent.scope import AccountId, PersonScope, Scope
from trunkline.gateway.state import links
from trunkline.gateway.state.records import Account, Session, SessionKey
from trunkline.gateway.state.schema import (
    account,
    inbox,
    message,
    outbox,
    person,
    reminder,
    room,
    session,
    stream,
)

Kind = Literal["text", "run"]
KEEP_DONE_MS = 7 * 86_400_000
"""For so long what is over can still be looked up, to be sent elsewhere or to be told to the model."""
MOST_DUE = 500
MAX_LISTED = 200


@dataclass(frozen=True, slots=True)
class NewReminder:
    """A reminder about to be made. `call` names the tool call that makes it, and is empty for a command."""

    account: AccountId
    stream: int
    key: SessionKey
    maker: str
    kind: Kind
    text: str
    due_ms: int
    cron: str
    zone: str
    language: str
    call: str = ""


@dataclass(frozen=True, slots=True)
class Reminder:
    """A row. `room` is the id of the room it was made in, None for a direct chat."""

    id: int
    account: AccountId
    room: int | None
    room_title: str
    key: SessionKey
    maker: str
    label: str
    kind: Kind
    text: str
    due_ms: int
    cron: str
    zone: str
    language: str
    state: str
    fired_ms: int


def add(connection: Connection, new: NewReminder, now_ms: int) -> int:
    """Stores a waiting reminder and returns its number."""
    key = new.key
    return int(
        connection.execute(
            insert(reminder)
            .values(
                account_id=new.account,
                stream_id=new.stream,
                platform=key.platform,
                tenant=key.tenant,
                chat=key.chat,
                thread=key.thread,
                member=key.member,
                maker=new.maker,
                kind=new.kind,
                content=new.text,
                due_ms=new.due_ms,
                cron=new.cron,
                timezone=new.zone,
                language=new.language,
                call=new.call,
                created_ms=now_ms,
            )
            .returning(reminder.c.id)
        ).scalar_one()
    )


def made_by(connection: Connection, call: str) -> Reminder | None:
    """The reminder that a tool call has made already."""
    return _first(connection, reminder.c.call == call) if call else None


def find(connection: Connection, number: int) -> Reminder | None:
    return _first(connection, reminder.c.id == number)


def count_waiting(connection: Connection, owner: Account) -> int:
    """How many wait of this account's person, or of the account where it has none."""
    mine = reminder.c.account_id == owner.id
    if owner.person is not None:
        mine = account.c.person_id == owner.person.id
    query = (
        select(func.count())
        .select_from(reminder.join(account, account.c.id == reminder.c.account_id))
        .where(mine, reminder.c.state == "waiting")
    )
    return int(connection.execute(query).scalar_one())


def waiting_in(connection: Connection, scope: Scope) -> tuple[Reminder, ...]:
    """What waits and may be seen in a scope, the next first: a room's own, or all that a person made."""
    query = _reminders().where(reminder.c.state == "waiting", _in_scope(connection, scope))
    rows = connection.execute(query.order_by(reminder.c.due_ms, reminder.c.id).limit(MAX_LISTED))
    return tuple(map(_reminder, rows))


def find_in(connection: Connection, scope: Scope, number: int) -> Reminder | None:
    """One by its number, in whatever state; None for what is out of scope."""
    return _first(connection, reminder.c.id == number, _in_scope(connection, scope))


def cancel(connection: Connection, number: int) -> bool:
    """Ends a waiting reminder; false when it didn't wait any more."""
    return _change(connection, reminder.c.id == number, state="cancelled")


def due(connection: Connection, now_ms: int) -> tuple[Reminder, ...]:
    """What waits and is due, the oldest first, at most `MOST_DUE`."""
    query = _reminders().where(reminder.c.state == "waiting", reminder.c.due_ms <= now_ms)
    return tuple(
        map(_reminder, connection.execute(query.order_by(reminder.c.due_ms, reminder.c.id).limit(MOST_DUE)))
    )


def next_due_ms(connection: Connection, after_ms: int) -> int | None:
    """When the next one comes due that is not due yet."""
    query = select(func.min(reminder.c.due_ms)).where(
        reminder.c.state == "waiting", reminder.c.due_ms > after_ms
    )
    return connection.execute(query).scalar()


def move_on(connection: Connection, one: Reminder, next_ms: int | None, fired_ms: int | None) -> bool:
    """Ends an occurrence: the next is at `next_ms`, or the reminder is done. `fired_ms`: it was delivered.

    False when another process has had this occurrence, or it was cancelled meanwhile.
    """
    values: dict[str, Any] = {"state": "done"} if next_ms is None else {"due_ms": next_ms}
    if fired_ms is not None:
        values["fired_ms"] = fired_ms
    same = and_(reminder.c.id == one.id, reminder.c.due_ms == one.due_ms)
    return _change(connection, same, **values)


def runs(connection: Connection, key_prefix: str) -> bool:
    """Whether a scheduled run whose inbox key begins so has not ended yet."""
    query = select(inbox.c.id).where(
        inbox.c.key.startswith(key_prefix, autoescape=True), inbox.c.state.in_(("received", "leased"))
    )
    return connection.execute(query.limit(1)).first() is not None


def fired_here(connection: Connection, key: SessionKey, since_ms: int) -> tuple[Reminder, ...]:
    """The plain reminders that were delivered under a key since then, oldest first, at most ten."""
    query = _reminders().where(
        reminder.c.platform == key.platform,
        reminder.c.tenant == key.tenant,
        reminder.c.chat == key.chat,
        reminder.c.thread == key.thread,
        reminder.c.kind == "text",
        reminder.c.fired_ms > since_ms,
    )
    rows = connection.execute(query.order_by(reminder.c.fired_ms.desc()).limit(10)).all()
    return tuple(map(_reminder, reversed(rows)))


def run_answers(connection: Connection, here: Session, most: int) -> list[str]:
    """What scheduled runs answered in a conversation's place since its last message, oldest first."""
    answer = (
        select(message.c.content)
        .where(message.c.session_id == session.c.id, message.c.role == "assistant", message.c.state == "live")
        .order_by(message.c.seq.desc())
        .limit(1)
        .correlate(session)
        .scalar_subquery()
    )
    key = here.key
    query = select(answer).where(
        session.c.stream_id == here.stream,
        session.c.origin == "scheduled",
        session.c.started_ms > here.last_ms,
        session.c.chat == key.chat,
        session.c.thread == key.thread,
        session.c.member == key.member,
    )
    rows = connection.execute(query.order_by(session.c.id.desc()).limit(most)).scalars().all()
    return [text for text in reversed(rows) if text]


def forget_done(connection: Connection, now_ms: int) -> None:
    """Deletes what has been over for a week."""
    before_ms = now_ms - KEEP_DONE_MS
    over = and_(reminder.c.state != "waiting", reminder.c.due_ms < before_ms, reminder.c.fired_ms < before_ms)
    connection.execute(delete(reminder).where(over))


def all_of(connection: Connection, scope: PersonScope) -> tuple[Reminder, ...]:
    """Every row of a person's, for their own copy."""
    rows = connection.execute(_reminders().where(_in_scope(connection, scope)).order_by(reminder.c.id))
    return tuple(map(_reminder, rows))


def erase(connection: Connection, accounts: Sequence[int], slugs: Sequence[str]) -> None:
    """Removes what these accounts, or the person of these slugs, made, and what was sent of it."""
    theirs = or_(reminder.c.account_id.in_(accounts), reminder.c.maker.in_(slugs))
    for number in connection.execute(select(reminder.c.id).where(theirs)).scalars().all():
        for source in (f"r:{number}:", f"d:r:{number}:"):
            connection.execute(delete(outbox).where(outbox.c.source.startswith(source)))
    connection.execute(delete(reminder).where(theirs))


def is_maker(connection: Connection, slug: str, one: Reminder) -> bool:
    """Whether the person of that slug made it, perhaps as the one they were before they were joined."""
    return one.maker == slug or one.maker in links.former_slugs(connection, slug)


def _change(connection: Connection, which: ColumnElement[bool], **values: Any) -> bool:
    """Whether it waited still."""
    query = update(reminder).where(which, reminder.c.state == "waiting").values(**values)
    return connection.execute(query).rowcount > 0


def _in_scope(connection: Connection, scope: Scope) -> ColumnElement[bool]:
    if isinstance(scope, PersonScope):
        # An account that changed hands brings nothing along of the person before.
        slugs = (scope.person, *links.former_slugs(connection, scope.person))
        return and_(person.c.slug == scope.person, reminder.c.maker.in_(slugs))
    return room.c.slug == scope.room


def _reminders() -> Select[Any]:
    return select(
        reminder,
        stream.c.room_id,
        room.c.title.label("room_title"),
        account.c.label.label("maker_label"),
    ).select_from(
        reminder.join(stream, stream.c.id == reminder.c.stream_id)
        .join(account, account.c.id == reminder.c.account_id)
        .outerjoin(person, person.c.id == account.c.person_id)
        .outerjoin(room, room.c.id == stream.c.room_id)
    )


def _first(connection: Connection, *where: ColumnElement[bool]) -> Reminder | None:
    row = connection.execute(_reminders().where(*where)).first()
    return None if row is None else _reminder(row)


def _reminder(row: Row[Any]) -> Reminder:
    return Reminder(
        id=row.id,
        account=AccountId(row.account_id),
        room=row.room_id,
        room_title=row.room_title or "",
        key=SessionKey(row.platform, row.tenant, row.chat, row.thread, row.member),
        maker=row.maker,
        label=row.maker_label,
        kind="run" if row.kind == "run" else "text",
        text=row.content,
        due_ms=row.due_ms,
        cron=row.cron,
        zone=row.timezone,
        language=row.language,
        state=row.state,
        fired_ms=row.fired_ms,
    )
