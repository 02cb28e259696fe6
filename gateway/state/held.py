"""Memory writes that wait for a person's yes: rows of the journal in the state `held`.

Who may decide is part of every query: the person whose memory it is, or who said it in a room.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Connection, Row, delete, func, insert, or_, select

from trunkline.agent.memory.operations import Operation, describe_action
from trunkline.agent.ports import Target, WriteOrigin
from trunkline.agent.scope import AccountId, PersonId, PersonScope, RoomId, RoomScope, Scope
from trunkline.gateway.state.journal import owner_of
from trunkline.gateway.state.schema import account, memory_journal, person


@dataclass(frozen=True, slots=True)
class _Stored:
    number: int
    operations: tuple[Operation, ...]
    mark: int = 0


_STORED = TypeAdapter(_Stored)


@dataclass(frozen=True, slots=True)
class HeldWrite:
    """A write that was not done yet. `scope` is where it was asked for.

    `number` is what its person calls it by; it stays the same while the write waits. `mark` is never another
    write's: a button under it names it by that, as rows and numbers are used again.
    """

    id: int
    number: int
    scope: Scope
    target: Target
    operations: tuple[Operation, ...]
    origin: WriteOrigin
    mark: int = 0


@dataclass(frozen=True, slots=True)
class Kept:
    """A write that has begun to wait, by what its person and a button call it."""

    number: int
    mark: int


def hold(
    connection: Connection,
    slug: PersonId,
    scope: Scope,
    target: Target,
    operations: Sequence[Operation],
    origin: WriteOrigin,
    now_ms: int,
) -> Kept:
    """Keeps a write until the person decides."""
    number = 1 + max((write.number for write in list_for(connection, slug)), default=0)
    mark = secrets.randbelow(10**15)
    connection.execute(
        insert(memory_journal).values(
            owner=owner_of(scope),
            target=target,
            action=describe_action(operations),
            operations=_STORED.dump_json(_Stored(number, tuple(operations), mark)).decode(),
            state="held",
            actor=origin.actor,
            account_id=origin.account,
            platform=origin.platform,
            session=origin.session or "",
            turn_id=origin.turn,
            created_ms=now_ms,
        )
    )
    return Kept(number, mark)


def count_of(connection: Connection, scope: Scope) -> int:
    """How many writes to the scope's memory wait."""
    query = select(func.count()).where(
        memory_journal.c.owner == owner_of(scope), memory_journal.c.state == "held"
    )
    return int(connection.execute(query).scalar_one())


def list_for(connection: Connection, slug: PersonId) -> tuple[HeldWrite, ...]:
    """What waits for this person, oldest first."""
    query = select(memory_journal).where(*_decided_by(slug)).order_by(memory_journal.c.id)
    return tuple(_held(row) for row in connection.execute(query))


def drop(connection: Connection, slug: PersonId, held_id: int) -> bool:
    """Takes away a write that the person has decided on; false when it does not wait for them."""
    gone = connection.execute(
        delete(memory_journal).where(memory_journal.c.id == held_id, *_decided_by(slug))
    )
    return gone.rowcount == 1


def _decided_by(slug: PersonId) -> tuple[ColumnElement[bool], ...]:
    theirs = (
        select(account.c.id).join(person, person.c.id == account.c.person_id).where(person.c.slug == slug)
    )
    return (
        memory_journal.c.state == "held",
        or_(
            memory_journal.c.owner == owner_of(PersonScope(slug)),
            memory_journal.c.owner.startswith("room:") & memory_journal.c.account_id.in_(theirs),
        ),
    )


def _held(row: Row[Any]) -> HeldWrite:
    kind, _, slug = row.owner.partition(":")
    by = None if row.account_id is None else AccountId(row.account_id)
    scope: Scope = (
        PersonScope(PersonId(slug)) if kind == "person" else RoomScope(RoomId(slug), by or AccountId(0))
    )
    stored = _STORED.validate_json(row.operations)
    return HeldWrite(
        row.id,
        stored.number,
        scope,
        cast("Target", row.target),
        stored.operations,
        WriteOrigin(row.actor, row.platform, row.session or None, row.turn_id, by),
        stored.mark,
    )
