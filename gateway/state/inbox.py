"""Queries on the inbox: every inbound message once, leased by one process, done in order per session key."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, exists, func, insert, or_, select, update

from trunkline.agent.scope import AccountId
from trunkline.gateway.state.records import InboxRow, SessionKey
from trunkline.gateway.state.schema import inbox, room

LEASE_MS = 60_000
BATCH_ROWS = 100
"""What one turn may answer at most: far more than anybody says while another turn runs."""
QUEUE_ROWS = 20
"""So many messages that were queued one by one get a turn each; what is beyond is answered together."""
SAID = ("message", "queued")
"""Kinds of rows that are somebody's words; those of `queued` were asked to wait for a turn of their own."""
FAILURE_WEIGHT = 3
POISON_WEIGHT = 9
"""What `attempts` may weigh: three failures, or nine deaths of the process, which may die of anything."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message about to be stored. `state` is `received`, or `done` when it starts nothing."""

    key: SessionKey
    inbox_key: str
    account: AccountId
    kind: str
    payload: str
    sent_ms: int
    state: str = "received"
    reason: str = ""
    not_before_ms: int = 0


def is_known(connection: Connection, platform: str, tenant: str, inbox_key: str) -> bool:
    query = select(inbox.c.id).where(
        inbox.c.platform == platform, inbox.c.tenant == tenant, inbox.c.key == inbox_key
    )
    return connection.execute(query).first() is not None


def store(connection: Connection, arrival: Arrival, now_ms: int) -> int:
    """Inserts the message and returns its row id. The caller has checked `is_known` in this transaction."""
    key = arrival.key
    return int(
        connection.execute(
            insert(inbox)
            .values(
                platform=key.platform,
                tenant=key.tenant,
                key=arrival.inbox_key,
                chat=key.chat,
                thread=key.thread,
                member=key.member,
                account_id=arrival.account,
                kind=arrival.kind,
                payload=arrival.payload,
                state=arrival.state,
                reason=arrival.reason,
                sent_ms=arrival.sent_ms,
                not_before_ms=arrival.not_before_ms,
                received_ms=now_ms,
                done_ms=None if arrival.state == "received" else now_ms,
            )
            .returning(inbox.c.id)
        ).scalar_one()
    )


def last_place(connection: Connection, account: AccountId) -> SessionKey | None:
    """The direct chat in which an account wrote last."""
    is_room = exists().where(room.c.platform == inbox.c.platform, room.c.chat == inbox.c.chat)
    row = connection.execute(
        select(inbox.c.platform, inbox.c.tenant, inbox.c.chat, inbox.c.thread, inbox.c.member)
        .where(inbox.c.account_id == account, inbox.c.chat != "", ~is_room)
        .order_by(inbox.c.id.desc())
        .limit(1)
    ).first()
    return None if row is None else SessionKey(*row)


def has_written(connection: Connection, accounts: Sequence[AccountId]) -> bool:
    """Whether one of these accounts wrote something that was ever stored."""
    query = select(inbox.c.id).where(inbox.c.account_id.in_(accounts)).limit(1)
    return connection.execute(query).first() is not None


def newest_open(connection: Connection, key: SessionKey, account: AccountId) -> InboxRow | None:
    """What an account said last under a key, if its answer is not complete."""
    query = (
        select(inbox)
        .where(
            *is_of(key),
            inbox.c.state.in_(("received", "leased")),
            inbox.c.account_id == account,
            inbox.c.kind == "message",
        )
        .order_by(inbox.c.id.desc())
        .limit(1)
    )
    row = connection.execute(query).first()
    return None if row is None else inbox_row(row)


def next_said(connection: Connection, row: InboxRow) -> InboxRow | None:
    """The next message of a row's author under its key that waits, whoever wrote in between."""
    query = (
        select(inbox)
        .where(
            *is_of(row.key),
            inbox.c.state == "received",
            inbox.c.turn_id.is_(None),
            inbox.c.account_id == row.account,
            inbox.c.kind == "message",
            inbox.c.id > row.id,
        )
        .order_by(inbox.c.id)
        .limit(1)
    )
    found = connection.execute(query).first()
    return None if found is None else inbox_row(found)


def author_of(connection: Connection, row_id: int) -> AccountId | None:
    found = connection.execute(select(inbox.c.account_id).where(inbox.c.id == row_id)).scalar_one_or_none()
    return None if found is None else AccountId(found)


def lease(connection: Connection, key: SessionKey, owner: str, now_ms: int) -> tuple[InboxRow, ...]:
    """Takes what is to be done next under a key; empty when nothing waits."""
    rows = next_batch(connection, key, now_ms)
    take(connection, [row.id for row in rows], owner, now_ms)
    return rows


def next_batch(connection: Connection, key: SessionKey, now_ms: int) -> tuple[InboxRow, ...]:
    """The rows that the key's next turn or command is about, still waiting.

    A command is alone. Messages are taken together while they are one author's; rows of an interrupted turn
    are taken as they were; one that failed is taken alone, so that it harms no other.
    """
    query = (
        select(inbox)
        .where(*is_of(key), inbox.c.state == "received", inbox.c.not_before_ms <= now_ms)
        .order_by(inbox.c.id)
        .limit(BATCH_ROWS)
    )
    rows = connection.execute(query).all()
    return tuple(inbox_row(row) for row in _together(rows))


def _together(rows: Sequence[Row[Any]]) -> Sequence[Row[Any]]:
    if not rows:
        return ()
    first = rows[0]
    if first.turn_id is not None:
        return [row for row in rows if row.turn_id == first.turn_id]
    batch = [first]
    for row in rows[1:] if first.kind in SAID else []:
        failed = max(first.attempts, row.attempts) >= FAILURE_WEIGHT
        other = row.kind not in SAID or (row.account_id, row.turn_id) != (first.account_id, None)
        apart = len(rows) <= QUEUE_ROWS and "queued" in (first.kind, row.kind)
        if failed or other or apart:
            break
        batch.append(row)
    return batch


def take(connection: Connection, rows: Sequence[int], owner: str, now_ms: int) -> None:
    """Leases waiting rows."""
    if rows:
        connection.execute(
            update(inbox)
            .where(inbox.c.id.in_(rows), inbox.c.state == "received")
            .values(
                state="leased",
                owner=owner,
                lease_until_ms=now_ms + LEASE_MS,
                attempts=inbox.c.attempts + 1,
            )
        )


def lease_one(connection: Connection, row_id: int, owner: str, now_ms: int) -> InboxRow | None:
    """Takes one waiting row by its id, whatever waits before it; None when it isn't waiting."""
    row = connection.execute(select(inbox).where(inbox.c.id == row_id, inbox.c.state == "received")).first()
    if row is None:
        return None
    connection.execute(
        update(inbox)
        .where(inbox.c.id == row_id)
        .values(state="leased", owner=owner, lease_until_ms=now_ms + LEASE_MS, attempts=row.attempts + 1)
    )
    return inbox_row(row)


def held_of(connection: Connection, rows: Sequence[int]) -> frozenset[int]:
    """Those of these rows that are leased still: what was deleted meanwhile is not."""
    query = select(inbox.c.id).where(inbox.c.id.in_(rows), inbox.c.state == "leased")
    return frozenset(connection.execute(query).scalars())


def attach_turn(connection: Connection, rows: Sequence[int], turn_id: int) -> None:
    connection.execute(update(inbox).where(inbox.c.id.in_(rows)).values(turn_id=turn_id))


def finish(connection: Connection, rows: Sequence[int], state: str, reason: str, now_ms: int) -> None:
    """Ends rows as done, failed or dead. The payload goes: the transcript holds what was said."""
    keeps_payload = state in ("failed", "dead")
    values: dict[str, Any] = {"state": state, "reason": reason, "done_ms": now_ms}
    if not keeps_payload:
        values["payload"] = ""
    connection.execute(update(inbox).where(_with_joined(rows)).values(**values))


def set_aside(connection: Connection, rows: Sequence[int], reason: str, now_ms: int) -> None:
    """Ends rows that nobody answers; what was said stays in them."""
    values = {"state": "done", "reason": reason, "done_ms": now_ms}
    connection.execute(update(inbox).where(_with_joined(rows)).values(**values))


def release(connection: Connection, rows: Sequence[int]) -> None:
    """Gives leased rows back after a failure, which weighs more than the lease that was counted already."""
    connection.execute(
        update(inbox)
        .where(_with_joined(rows), inbox.c.state == "leased")
        .values(state="received", owner="", attempts=inbox.c.attempts + FAILURE_WEIGHT - 1)
    )


def _with_joined(rows: Sequence[int]) -> ColumnElement[bool]:
    """These rows, and those that joined the turn they are in while it ran."""
    theirs = select(inbox.c.turn_id).where(inbox.c.id.in_(rows), inbox.c.turn_id.is_not(None))
    joined = and_(inbox.c.turn_id.in_(theirs), inbox.c.state == "leased")
    return or_(inbox.c.id.in_(rows), joined)


def reopen(connection: Connection, rows: Sequence[int]) -> None:
    """Lets leased rows wait again whose turn was taken from them (their account has another person now)."""
    connection.execute(
        update(inbox)
        .where(inbox.c.id.in_(rows), inbox.c.state == "leased", inbox.c.turn_id.is_(None))
        .values(state="received", owner="")
    )


def is_poison(row: InboxRow) -> bool:
    """Whether a leased row has had its tries."""
    return row.attempts > POISON_WEIGHT


def take_back(connection: Connection, platform: str, owner: str, thread: str | None = None) -> None:
    """At start: rows that other processes leased wait again. The caller holds the platform's lock.

    `thread` narrows it to one conversation, where each is a process of its own (the terminal).
    """
    where = [inbox.c.platform == platform, inbox.c.state == "leased", inbox.c.owner != owner]
    if thread is not None:
        where.append(inbox.c.thread == thread)
    connection.execute(update(inbox).where(*where).values(state="received", owner=""))


def waiting_keys(
    connection: Connection,
    platform: str,
    tenant: str,
    thread: str | None = None,
    *,
    now_ms: int | None = None,
) -> tuple[SessionKey, ...]:
    """Keys with waiting rows: interrupted turns first, then the longest waiting. `thread` narrows it as in
    `take_back`.

    With `now_ms` without what is held back at that time.
    """
    where = [inbox.c.platform == platform, inbox.c.tenant == tenant, inbox.c.state == "received"]
    if now_ms is not None:
        where.append(inbox.c.not_before_ms <= now_ms)
    if thread is not None:
        where.append(inbox.c.thread == thread)
    query = (
        select(inbox.c.platform, inbox.c.tenant, inbox.c.chat, inbox.c.thread, inbox.c.member)
        .where(*where)
        .order_by(inbox.c.turn_id.is_(None), inbox.c.id)
    )
    return tuple(dict.fromkeys(SessionKey(*row) for row in connection.execute(query)))


@dataclass(frozen=True, slots=True)
class LastSeen:
    """The newest message stored of a chat, or of a thread in it."""

    chat: str
    thread: str
    message_id: str


def last_seen(
    connection: Connection, platform: str, tenant: str, since_ms: int, limit: int
) -> tuple[LastSeen, ...]:
    """The newest message of each place where one came since then, the liveliest places first.

    A message whose thread bears its own id has opened that thread: it stands in the chat itself, too.
    """
    known = [
        inbox.c.platform == platform,
        inbox.c.tenant == tenant,
        inbox.c.received_ms >= since_ms,
        inbox.c.kind.not_in(("edit", "deletion")),  # of a message that was seen before
    ]
    opening = inbox.c.key == "m:" + inbox.c.chat + ":" + inbox.c.thread + ":0"
    newest: dict[tuple[str, str], tuple[int, str]] = {}
    for place, where in (
        ((inbox.c.chat, inbox.c.thread), inbox.c.key.startswith("m:")),
        ((inbox.c.chat,), opening),
    ):
        groups = select(func.max(inbox.c.id)).where(*known, where).group_by(*place)
        query = select(inbox.c.id, inbox.c.chat, inbox.c.thread, inbox.c.key).where(inbox.c.id.in_(groups))
        for row in connection.execute(query.order_by(inbox.c.id.desc()).limit(limit)):
            thread = "" if len(place) == 1 else row.thread
            message_id = row.key.removeprefix(f"m:{row.chat}:").rpartition(":")[0]
            found = (row.id, message_id)
            newest[row.chat, thread] = max(found, newest.get((row.chat, thread), found))
    ordered = sorted(newest.items(), key=lambda one: one[1], reverse=True)[:limit]
    return tuple(LastSeen(chat, thread, message_id) for (chat, thread), (_, message_id) in ordered)


def is_retried(connection: Connection, key: SessionKey) -> bool:
    """Whether the last answer under a key is asked for again already."""
    query = select(inbox.c.id).where(
        *is_of(key), inbox.c.kind == "retry", inbox.c.state.in_(("received", "leased"))
    )
    return connection.execute(query.limit(1)).first() is not None


def count_waiting(connection: Connection, key: SessionKey) -> int:
    """How many messages under a key have not been begun."""
    query = select(func.count()).where(*is_of(key), inbox.c.state == "received", inbox.c.kind.in_(SAID))
    return int(connection.execute(query).scalar_one())


def amend_waiting(connection: Connection, platform: str, tenant: str, key_prefix: str, payload: str) -> bool:
    """Puts an edited message in place of one that still waits; false when none does."""
    result = connection.execute(
        update(inbox)
        .where(
            inbox.c.platform == platform,
            inbox.c.tenant == tenant,
            inbox.c.state == "received",
            inbox.c.kind.in_(SAID),
            inbox.c.turn_id.is_(None),
            or_(inbox.c.key == key_prefix, inbox.c.key.startswith(key_prefix + ":", autoescape=True)),
        )
        .values(payload=payload)
    )
    return result.rowcount > 0


def is_of(key: SessionKey) -> tuple[Any, ...]:
    return (
        inbox.c.platform == key.platform,
        inbox.c.tenant == key.tenant,
        inbox.c.chat == key.chat,
        inbox.c.thread == key.thread,
        inbox.c.member == key.member,
    )


def inbox_row(row: Row[Any]) -> InboxRow:
    return InboxRow(
        id=row.id,
        key=SessionKey(row.platform, row.tenant, row.chat, row.thread, row.member),
        account=AccountId(row.account_id),
        kind=row.kind,
        payload=row.payload,
        attempts=row.attempts + 1,
        turn=row.turn_id,
        sent_ms=row.sent_ms,
        received_ms=row.received_ms,
    )
