"""The undo record of memory writes, in state.db. What the entries mean belongs to agent/memory."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

from sqlalchemy import Connection, Row, func, insert, select, update

from trunkline.agent.ports import JournalEntry, Target, WriteOrigin
from trunkline.agent.scope import AccountId, PersonId, PersonScope, RoomId, RoomScope, Scope
from trunkline.gateway.clock import now_ms
from trunkline.gateway.state import provider_rows
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.schema import memory_journal
from trunkline.gateway.state.transcripts import when

JournalState = Literal["pending", "done", "abandoned", "undone", "held"]


@dataclass(frozen=True, slots=True)
class JournalRow:
    """One recorded write. `owner` is person:<slug> or room:<slug>; `created` is aware UTC."""

    id: int
    owner: str
    entry: JournalEntry
    origin: WriteOrigin
    state: JournalState
    created: datetime


class StoreJournal:
    """`agent.ports.MemoryJournal` over state.db, and reading for /memory and for start-up.

    Raises sqlalchemy's errors; a memory write that can't be journalled must not happen.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, scope: Scope, entry: JournalEntry, origin: WriteOrigin) -> int:
        return await self._database.write(
            lambda connection: begin(connection, scope, entry, origin, now_ms())
        )

    async def settle(self, scope: Scope, journal_id: int, *, done: bool) -> None:
        """Leaves a row alone that is settled already, or is none of the scope's."""
        await self._database.write(lambda connection: settle(connection, scope, journal_id, done=done))

    async def entries(self, scope: Scope, limit: int) -> tuple[JournalRow, ...]:
        """The newest rows of the scope's memory first, whatever became of them."""
        return await self._database.read(lambda connection: entries(connection, scope, limit))

    async def find(self, scope: Scope, journal_id: int) -> JournalRow | None:
        return await self._database.read(lambda connection: find(connection, scope, journal_id))

    async def mark_undone(self, scope: Scope, journal_id: int) -> bool:
        """Whether the row was done and is undone now."""
        return await self._database.write(lambda connection: mark_undone(connection, scope, journal_id))

    async def pending(self) -> tuple[JournalRow, ...]:
        """Every row a crash left unsettled, of all owners, oldest first; for start-up only."""
        return await self._database.read(pending)


def owner_of(scope: Scope) -> str:
    """Whose memory a scope writes."""
    return f"person:{scope.person}" if isinstance(scope, PersonScope) else f"room:{scope.room}"


def scope_of(row: JournalRow) -> Scope:
    """The scope a row was written in; the asker of a room is the account that wrote."""
    kind, _, slug = row.owner.partition(":")
    if kind == "person":
        return PersonScope(PersonId(slug))
    return RoomScope(RoomId(slug), row.origin.account or AccountId(0))


def begin(connection: Connection, scope: Scope, entry: JournalEntry, origin: WriteOrigin, now_ms: int) -> int:
    """A pending row. Of a write that forgets, only that it happened is kept, never the texts."""
    keeps = origin.actor != "forget"
    made = connection.execute(
        insert(memory_journal)
        .values(
            owner=owner_of(scope),
            target=entry.target,
            action=entry.action,
            before=_dumped(entry.before if keeps else ()),
            after=_dumped(entry.after if keeps else ()),
            state="pending",
            actor=origin.actor,
            account_id=origin.account,
            platform=origin.platform,
            session=origin.session or "",
            turn_id=origin.turn,
            created_ms=now_ms,
        )
        .returning(memory_journal.c.id)
    )
    return int(made.scalar_one())


def settle(connection: Connection, scope: Scope, journal_id: int, *, done: bool) -> None:
    """Settles a pending row; what a write really changed is mirrored to the memory providers."""
    owner = owner_of(scope)
    settled = connection.execute(
        update(memory_journal)
        .where(
            memory_journal.c.id == journal_id,
            memory_journal.c.owner == owner,
            memory_journal.c.state == "pending",
        )
        .values(state="done" if done else "abandoned")
    )
    row = find(connection, scope, journal_id) if done and settled.rowcount else None
    if row is not None:
        stamp_ms = int(row.created.timestamp() * 1000)
        asker = row.origin.account or 0
        provider_rows.mirror(connection, owner, row.entry, f"{row.id}-{stamp_ms}", stamp_ms, asker=asker)


def entries(connection: Connection, scope: Scope, limit: int) -> tuple[JournalRow, ...]:
    rows = connection.execute(
        select(memory_journal)
        .where(memory_journal.c.owner == owner_of(scope))
        .order_by(memory_journal.c.id.desc())
        .limit(limit)
    )
    return tuple(_journal_row(row) for row in rows)


def latest(connection: Connection, scope: Scope) -> tuple[int, bool]:
    """The id of the newest write to the scope's memory, and whether one is under way."""
    newest, running = connection.execute(
        select(
            func.max(memory_journal.c.id),
            func.count().filter(memory_journal.c.state == "pending"),
        ).where(memory_journal.c.owner == owner_of(scope))
    ).one()
    return newest or 0, running > 0


def of_turns(connection: Connection, scope: Scope, turns: Collection[int]) -> tuple[JournalRow, ...]:
    """What the models of these turns wrote to the memory of the scope and nobody took back, newest first."""
    rows = connection.execute(
        select(memory_journal)
        .where(
            memory_journal.c.owner == owner_of(scope),
            memory_journal.c.turn_id.in_(turns),
            memory_journal.c.state == "done",
            memory_journal.c.actor == "tool",
        )
        .order_by(memory_journal.c.id.desc())
    )
    return tuple(_journal_row(row) for row in rows)


def find(connection: Connection, scope: Scope, journal_id: int) -> JournalRow | None:
    row = connection.execute(
        select(memory_journal).where(
            memory_journal.c.id == journal_id, memory_journal.c.owner == owner_of(scope)
        )
    ).one_or_none()
    return None if row is None else _journal_row(row)


def mark_undone(connection: Connection, scope: Scope, journal_id: int) -> bool:
    changed = connection.execute(
        update(memory_journal)
        .where(
            memory_journal.c.id == journal_id,
            memory_journal.c.owner == owner_of(scope),
            memory_journal.c.state == "done",
        )
        .values(state="undone")
    )
    return changed.rowcount == 1


def pending(connection: Connection) -> tuple[JournalRow, ...]:
    rows = connection.execute(
        select(memory_journal).where(memory_journal.c.state == "pending").order_by(memory_journal.c.id)
    )
    return tuple(_journal_row(row) for row in rows)


def _journal_row(row: Row[Any]) -> JournalRow:
    return JournalRow(
        row.id,
        row.owner,
        JournalEntry(cast("Target", row.target), row.action, _loaded(row.before), _loaded(row.after)),
        WriteOrigin(
            row.actor,
            row.platform,
            row.session or None,
            row.turn_id,
            None if row.account_id is None else AccountId(row.account_id),
        ),
        row.state,
        when(row.created_ms),
    )


def _dumped(written: Sequence[str]) -> str:
    # Escaped to ASCII: an entry comes back as it was, lone surrogates included.
    return json.dumps(list(written))


def _loaded(stored: str) -> tuple[str, ...]:
    return tuple(json.loads(stored or "[]"))
