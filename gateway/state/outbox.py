"""Queries on the outbox: each message of an answer is a row before it is sent, and keeps its outcome."""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Text,
    and_,
    case,
    cast,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)

from trunkline.gateway.state.records import OutboxRow, SessionKey
from trunkline.gateway.state.schema import account, inbox, outbox, person, turn

NONCE_HOLDS_MS = 180_000
"""How long a platform is trusted to know a nonce again. Discord says "the past few minutes"."""
PRIVATE = ":private"
"""Ends the source of a command's answer that only its asker may see: `i:<inbox row>:private`."""
FINDABLE_MS = 12 * 3600 * 1000
"""For how long what was being sent is looked for and sent again; later nobody waits for it any more."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the messages of one answer go. `source` and a message's place in `payloads` name its row."""

    source: str
    platform: str
    tenant: str
    chat: str
    thread: str
    turn: int | None = None


def notice(place: SessionKey) -> Plan:
    """For what is said of our own accord, each time anew."""
    return Plan(f"n:{uuid.uuid4()}", place.platform, place.tenant, place.chat, place.thread)


def plan(
    connection: Connection,
    where: Plan,
    payloads: Sequence[str],
    now_ms: int,
    *,
    shown: Mapping[int, str] = MappingProxyType({}),
    surplus: str = "",
    repeats_safely: bool = False,
    kind: str = "text",
) -> bool:
    """Plans the messages of a whole answer, in place of whatever was planned for it before.

    A preview keeps its row and its message id, and is edited to the final text, unless `shown` (payloads by
    place) says that it shows exactly that already; where only its buttons are others, its kind is `buttons`.
    One that the answer has no use for is deleted; where the platform can't do that, `surplus` is put in its
    place.
    One that may have arrived with this very text is `unknown` and stays so, unless the platform
    `repeats_safely`: nothing is sent twice. Returns whether there is such a one.
    """
    doubtful = False
    known = {row.seq: row for row in connection.execute(_of(where.source)).all()}
    for seq, payload in enumerate(payloads):
        old = known.get(seq)
        if old is None:
            connection.execute(insert(outbox).values(**_row(where, seq, kind, payload, now_ms)))
            continue
        if old.state == "unknown" and _same_but_buttons(old.payload, payload) and not repeats_safely:
            doubtful = True
            continue
        is_shown = old.message_id is not None and shown.get(seq) == payload
        new_kind = "buttons" if seq in shown and _same_but_buttons(shown[seq], payload) else "text"
        connection.execute(
            update(outbox)
            .where(outbox.c.id == old.id)
            .values(
                kind=old.kind if old.message_id is None else new_kind,
                payload=payload,
                state="sent" if is_shown else "planned",
                sent_ms=now_ms if is_shown else None,
                attempts=0,
                error="",
            )
        )
    if payloads and surplus:
        connection.execute(
            update(outbox)
            .where(
                outbox.c.source == where.source,
                outbox.c.seq >= len(payloads),
                outbox.c.kind == "preview",
                outbox.c.message_id.is_not(None),
            )
            .values(kind="delete", payload=surplus, state="planned")
        )
    return doubtful


def _same_but_buttons(one: str, other: str) -> bool:
    """Whether two payloads put the same into a chat, whatever can be pressed under it."""
    return one == other or _without_buttons(one) == _without_buttons(other)


def _without_buttons(payload: str) -> object:
    try:
        message = json.loads(payload)
    except ValueError:
        return payload  # nobody can read it: its sending will say so
    message.pop("buttons", None)
    return message


def begin_preview(connection: Connection, where: Plan, seq: int, payload: str, now_ms: int) -> OutboxRow:
    """A row for a preview about to be sent, so that a restart knows of it."""
    values = _row(where, seq, "preview", payload, now_ms) | {"state": "sending", "attempts": 1}
    return _outbox_row(connection.execute(insert(outbox).values(**values).returning(outbox)).one())


def drop_preview(connection: Connection, row_id: int) -> None:
    """Forgets a preview that the platform provably does not have."""
    connection.execute(delete(outbox).where(outbox.c.id == row_id, outbox.c.message_id.is_(None)))


def find(connection: Connection, source: str, seq: int) -> OutboxRow | None:
    row = connection.execute(_of(source).where(outbox.c.seq == seq)).first()
    return None if row is None else _outbox_row(row)


def is_private_answer_to(accounts: Any) -> ColumnElement[bool]:
    """Whether a row is a private answer to one of these accounts (ids, or their select), wherever it is."""
    sources = select(literal("i:") + cast(inbox.c.id, Text) + PRIVATE)
    return outbox.c.source.in_(sources.where(inbox.c.account_id.in_(accounts)))


def asked_by(connection: Connection, row_id: int) -> tuple[str, str]:
    """The language that the person chose whose turn a message answers, and the payload of their question."""
    question = select(inbox.c.payload).where(inbox.c.turn_id == outbox.c.turn_id).limit(1).scalar_subquery()
    query = (
        select(person.c.language, question)
        .select_from(outbox)
        .outerjoin(turn, turn.c.id == outbox.c.turn_id)
        .outerjoin(account, account.c.id == turn.c.account_id)
        .outerjoin(person, person.c.id == account.c.person_id)
        .where(outbox.c.id == row_id)
    )
    language, payload = connection.execute(query).one()
    return language or "", payload or ""


def due(
    connection: Connection, platform: str, tenant: str, chat: str, now_ms: int, thread: str | None = None
) -> tuple[OutboxRow, int | None] | None:
    """The chat's next message and how many ms to wait before it may go; None when nothing is planned.

    `thread` narrows it to one conversation, where each is a process of its own (the terminal).
    """
    where = [*_planned_in(platform, tenant, chat), *_in_thread(thread)]
    row = connection.execute(select(outbox).where(*where).order_by(outbox.c.id).limit(1)).first()
    if row is None:
        return None
    wait_ms = row.not_before_ms - now_ms
    return _outbox_row(row), wait_ms if wait_ms > 0 else None


def is_before(connection: Connection, where: Plan) -> bool:
    """Whether another answer of this chat or thread is still to be sent as a new message."""
    query = select(outbox.c.id).where(
        outbox.c.platform == where.platform,
        outbox.c.tenant == where.tenant,
        outbox.c.chat == where.chat,
        outbox.c.thread == where.thread,
        outbox.c.source != where.source,
        outbox.c.message_id.is_(None),
        or_(outbox.c.state == "planned", and_(outbox.c.state == "sending", outbox.c.kind != "preview")),
    )
    return connection.execute(query.limit(1)).first() is not None


def count_since(connection: Connection, source: str, since_ms: int) -> int:
    """How many messages were planned since then whose source begins so."""
    query = select(func.count()).where(outbox.c.source.startswith(source), outbox.c.created_ms >= since_ms)
    return int(connection.execute(query).scalar_one())


def mark_sending(connection: Connection, row_id: int) -> None:
    connection.execute(
        update(outbox).where(outbox.c.id == row_id).values(state="sending", attempts=outbox.c.attempts + 1)
    )


def mark_sent(connection: Connection, row_id: int, message_id: str, payload: str, now_ms: int) -> None:
    connection.execute(
        update(outbox)
        .where(outbox.c.id == row_id)
        .values(state="sent", message_id=message_id, payload=payload, sent_ms=now_ms, error="")
    )


def mark_ended(connection: Connection, row_id: int, state: str, error: str) -> None:
    """`unknown` or `refused`: nobody sends it again by itself, and what it was to replace stays."""
    connection.execute(update(outbox).where(outbox.c.id == row_id).values(state=state, error=error))
    replaced = outbox.c.source.startswith(_replaced_by(row_id), autoescape=True)
    connection.execute(delete(outbox).where(replaced, outbox.c.state == "planned"))


def replan_as_new(connection: Connection, row: OutboxRow, emptied: str, error: str, now_ms: int) -> None:
    """Sends as a new message what could not be put in place of the old one, and then deletes that.

    It is made anew, so that its nonce is another than the old message's. `emptied`: its payload without text.
    """
    connection.execute(
        update(outbox)
        .where(outbox.c.id == row.id)
        .values(state="planned", kind="text", message_id=None, created_ms=now_ms, error=error)
    )
    source = f"{_replaced_by(row.id)}{row.message_id}"
    where = Plan(source, row.platform, row.tenant, row.chat, row.thread)
    old = _row(where, 0, "delete", emptied, now_ms) | {"message_id": row.message_id}
    connection.execute(insert(outbox).values(**old))


def replan_as_several(connection: Connection, row: OutboxRow, payloads: Sequence[str], now_ms: int) -> None:
    """Plans messages of their own for what was refused as one; none of them has its nonce."""
    values = {"payload": payloads[0], "state": "planned", "attempts": 0, "created_ms": now_ms}
    connection.execute(update(outbox).where(outbox.c.id == row.id).values(**values))
    known = connection.execute(_of(row.source)).all()
    turn = next(one.turn_id for one in known if one.id == row.id)
    where = Plan(row.source, row.platform, row.tenant, row.chat, row.thread, turn)
    for seq, payload in enumerate(payloads[1:], start=max(one.seq for one in known) + 1):
        connection.execute(insert(outbox).values(**_row(where, seq, row.kind, payload, now_ms)))


def replan_as_edit(connection: Connection, row_id: int, message_id: str) -> None:
    """Edits a preview that was found again under its nonce, since it shows the text of its time."""
    connection.execute(
        update(outbox)
        .where(outbox.c.id == row_id)
        .values(state="planned", kind="text", message_id=message_id)
    )


def redirect(connection: Connection, row_id: int, place: SessionKey, payload: str) -> None:
    """Plans a message that was refused for another chat of the same platform."""
    where = {"tenant": place.tenant, "chat": place.chat, "thread": place.thread}
    connection.execute(
        update(outbox)
        .where(outbox.c.id == row_id)
        .values(payload=payload, state="planned", attempts=0, not_before_ms=0, **where)
    )


def leave_thread(connection: Connection, row_id: int, payload: str, error: str, now_ms: int) -> None:
    """Plans a message of a thread that is closed as a new one in the chat of that thread."""
    connection.execute(
        update(outbox)
        .where(outbox.c.id == row_id)
        .values(
            thread="",
            payload=payload,
            state="planned",
            kind=case((outbox.c.kind == "file", "file"), else_="text"),
            message_id=None,
            attempts=0,
            created_ms=now_ms,
            error=error,
        )
    )


def replan_as_filler(connection: Connection, row_id: int) -> None:
    """Edits a message that can't be deleted; where that is refused, too, it is left alone."""
    connection.execute(
        update(outbox).where(outbox.c.id == row_id).values(state="planned", kind="buttons", attempts=0)
    )


def put_off(connection: Connection, row_id: int, not_before_ms: int, error: str) -> None:
    connection.execute(
        update(outbox)
        .where(outbox.c.id == row_id)
        .values(state="planned", not_before_ms=not_before_ms, error=error)
    )


def hold_chat(connection: Connection, row: OutboxRow, not_before_ms: int) -> None:
    """Puts every planned message of a chat off: the platform told us to wait there."""
    connection.execute(
        update(outbox)
        .where(
            *_planned_in(row.platform, row.tenant, row.chat),
            outbox.c.not_before_ms < not_before_ms,
        )
        .values(not_before_ms=not_before_ms)
    )


def refuse_chat(connection: Connection, row: OutboxRow, error: str) -> None:
    """Ends the message, and all that is planned for a chat or thread that can't be written to any more."""
    mark_ended(connection, row.id, "refused", error)
    connection.execute(
        update(outbox)
        .where(*_planned_in(row.platform, row.tenant, row.chat), outbox.c.thread == row.thread)
        .values(state="refused", error=error)
    )


def take_back(
    connection: Connection,
    platform: str,
    *,
    repeats_safely: bool,
    now_ms: int,
    thread: str | None = None,
    repeatable_ms: int = NONCE_HOLDS_MS,
) -> tuple[OutboxRow, ...]:
    """At start: what was being sent when a process died. The caller holds the platform's lock.

    A message that is on the platform is edited again, which harms nobody. One without an id is sent again
    only where the platform refuses doubles or they are found, for `repeatable_ms`; elsewhere it may have
    arrived, so it becomes `unknown`. So does a preview: the turn that is resumed goes on with it. Returns the
    messages in doubt that no turn goes on with.
    """
    mine = [outbox.c.platform == platform, outbox.c.state == "sending", *_in_thread(thread)]
    is_final = outbox.c.kind != "preview"
    steps: list[tuple[tuple[Any, ...], str]] = [
        ((outbox.c.message_id.is_not(None), ~is_final), "sent"),
        ((outbox.c.message_id.is_not(None),), "planned"),
    ]
    if repeats_safely:
        steps.append(((is_final, outbox.c.created_ms > now_ms - repeatable_ms), "planned"))
    for extra, state in steps:
        connection.execute(update(outbox).where(*mine, *extra).values(state=state))
    in_doubt = connection.execute(update(outbox).where(*mine).values(state="unknown").returning(outbox)).all()
    return tuple(_outbox_row(row) for row in in_doubt if row.kind != "preview")


def waiting_chats(
    connection: Connection, platform: str, tenant: str, thread: str | None = None
) -> tuple[str, ...]:
    planned = (outbox.c.platform == platform, outbox.c.tenant == tenant, outbox.c.state == "planned")
    query = select(outbox.c.chat).where(*planned, *_in_thread(thread)).distinct()
    return tuple(connection.execute(query).scalars())


def _planned_in(platform: str, tenant: str, chat: str) -> tuple[Any, ...]:
    return (
        outbox.c.platform == platform,
        outbox.c.tenant == tenant,
        outbox.c.chat == chat,
        outbox.c.state == "planned",
    )


def _in_thread(thread: str | None) -> tuple[Any, ...]:
    return () if thread is None else (outbox.c.thread == thread,)


def _replaced_by(row_id: int) -> str:
    """Begins the source of what a row takes the place of; the old message's id follows."""
    return f"x:{row_id}:"


def _of(source: str) -> Any:
    return select(outbox).where(outbox.c.source == source)


def _row(where: Plan, seq: int, kind: str, payload: str, now_ms: int) -> dict[str, Any]:
    return {
        "source": where.source,
        "seq": seq,
        "turn_id": where.turn,
        "platform": where.platform,
        "tenant": where.tenant,
        "chat": where.chat,
        "thread": where.thread,
        "kind": kind,
        "payload": payload,
        "created_ms": now_ms,
    }


def _outbox_row(row: Row[Any]) -> OutboxRow:
    return OutboxRow(
        id=row.id,
        source=row.source,
        seq=row.seq,
        platform=row.platform,
        tenant=row.tenant,
        chat=row.chat,
        thread=row.thread,
        kind=row.kind,
        payload=row.payload,
        state=row.state,
        message_id=row.message_id,
        attempts=row.attempts,
        created_ms=row.created_ms,
    )
