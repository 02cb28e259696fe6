"""The memory of each person and room as texts in a table, where several machines share one database.

A write locks its row, and commits the new text together with its undo record: none is ever pending. A file
that lies where the file store would keep it is taken up into the table when that memory is next asked for.
"""

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

from sqlalchemy import Connection, select, text, update
from sqlalchemy.exc import DBAPIError

from trunkline.agent.memory import outcomes
from trunkline.agent.memory.entries import MemoryLimits, join_entries, normalise, parse_entries
from trunkline.agent.memory.files import FILE_NAMES, MemoryFolders, Unreadable, put_aside, read_file
from trunkline.agent.memory.operations import Operation, apply_operations, check_operations, describe_action
from trunkline.agent.memory.outcomes import Failed, FailureKind, Outcome, Unchanged, Written
from trunkline.agent.memory.snapshot import MemorySnapshot
from trunkline.agent.memory.store import LOCK_TIMEOUT_S, targets_of, with_entries
from trunkline.agent.ports import JournalEntry, Target, WriteOrigin
from trunkline.agent.scope import Scope
from trunkline.gateway.clock import now_ms
from trunkline.gateway.state import journal
from trunkline.gateway.state.database import Database, gave_up_waiting
from trunkline.gateway.state.journal import owner_of
from trunkline.gateway.state.schema import memory_text

log = logging.getLogger(__name__)

# Makes the row or waits for it; what comes back was committed by whoever held it last.
_LOCKED = text(
    "INSERT INTO memory_text (owner, target) VALUES (:owner, :target) "
    "ON CONFLICT (owner, target) DO UPDATE SET version = memory_text.version RETURNING content"
)


@dataclass(frozen=True, slots=True)
class _Found:
    """The texts of a scope, and why a file that should have become one can't be read."""

    texts: dict[Target, str]
    unreadable: dict[Target, str]

    @property
    def snapshot(self) -> MemorySnapshot:
        entries = {target: parse_entries(content).entries for target, content in self.texts.items()}
        return MemorySnapshot(entries.get("memory", ()), entries.get("user", ()), tuple(self.unreadable))


class TableMemoryStore:
    """`agent.memory.store.MemoryStore` over the table `memory_text`, in the text form of the files.

    One object serves one event loop; other processes may use the same database. `home` is where files may
    wait to be taken up.
    """

    def __init__(
        self, home: Path, limits: MemoryLimits, database: Database, lock_timeout_s: float = LOCK_TIMEOUT_S
    ) -> None:
        self._folders = MemoryFolders(home)
        self._limits = limits
        self._database = database
        self._lock_timeout_s = lock_timeout_s
        # Writers of one text wait here first, so that they do not hold the database's threads.
        self._queues: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()

    @property
    def limits(self) -> MemoryLimits:
        return self._limits

    async def read(self, scope: Scope) -> MemorySnapshot:
        return (await self._find(scope)).snapshot

    async def apply(
        self, scope: Scope, target: Target, operations: Sequence[Operation], origin: WriteOrigin
    ) -> Outcome:
        """As the protocol says. Raises sqlalchemy's error when the connection was lost on the way."""
        checked = check_operations(scope, target, operations, self._limits)
        if isinstance(checked, Failed) and checked.kind is not FailureKind.INVALID:
            return checked
        found = await self._find(scope)
        if isinstance(checked, Failed):
            return with_entries(checked, found.snapshot)
        name = FILE_NAMES[target]
        if target in found.unreadable:
            error = outcomes.unreadable(name, found.unreadable[target])
            return Failed(target, FailureKind.UNREADABLE, error)
        path = self._folders.path_of(scope, target)
        try:
            async with self._queues.setdefault(path, asyncio.Lock()):
                return await self._database.write_in_turn(
                    lambda c: self._write(c, scope, target, checked, origin), self._lock_timeout_s
                )
        except DBAPIError as error:
            if gave_up_waiting(error):
                return Failed(target, FailureKind.LOCKED, outcomes.locked(name, self._lock_timeout_s))
            if error.connection_invalidated:  # nobody knows whether it was committed
                raise
            # Not the database's own words: they may quote the row.
            cause = (
                f"the database refused with {getattr(error.orig, 'sqlstate', None) or type(error).__name__}"
            )
            log.error("memory write failed text=%s cause=%s", name, cause)  # noqa: TRY400
            return Failed(target, FailureKind.WRITE_FAILED, outcomes.write_failed(name, cause))

    async def erase_backups(self, scope: Scope) -> None:
        await asyncio.to_thread(self._folders.erase_backups, scope)

    async def erase_folder(self, scope: Scope) -> None:
        await asyncio.to_thread(self._folders.erase, scope)

    async def _find(self, scope: Scope) -> _Found:
        targets = targets_of(scope, self._limits)
        paths = {target: self._folders.path_of(scope, target) for target in targets}
        unreadable: dict[Target, str] = {}
        for target in await asyncio.to_thread(_lying, paths):
            try:
                await self._take_up(scope, target, paths[target])
            except Unreadable as error:
                log.error("memory file unreadable file=%s cause=%s", FILE_NAMES[target], error)  # noqa: TRY400
                unreadable[target] = str(error)
        texts = await self._database.read(lambda c: _texts(c, scope))
        return _Found({one: texts.get(one, "") for one in targets if one not in unreadable}, unreadable)

    async def _take_up(self, scope: Scope, target: Target, path: Path) -> None:
        """Adds what a file says to the text and puts the file aside. Raises Unreadable; the file stays."""

        def work(connection: Connection) -> None:
            known = parse_entries(_lock(connection, scope, target)).entries
            # Read under the lock: another machine may have put it aside, and a fact may be forgotten since.
            file = read_file(path)
            if file.raw is not None and b"\0" in file.raw:
                raise Unreadable("not text: it holds a zero byte")
            here = set(map(normalise, known))
            come = [entry for entry in file.store.entries if normalise(entry) not in here]
            _put(connection, scope, target, [*known, *come])

        await self._database.write_in_turn(work, self._lock_timeout_s)
        try:
            kept = await asyncio.to_thread(put_aside, path)
        except OSError as error:
            raise Unreadable(error.strerror or "I/O error") from error
        if kept is not None:
            log.info("memory file taken up into the database: file=%s kept=%s", path, kept)

    def _write(
        self,
        connection: Connection,
        scope: Scope,
        target: Target,
        operations: tuple[Operation, ...],
        origin: WriteOrigin,
    ) -> Outcome:
        before = parse_entries(_lock(connection, scope, target)).entries
        new = apply_operations(before, target, operations, self._limits.chars_of(target))
        if isinstance(new, Failed):
            return new
        if new.entries == before:
            return Unchanged(target, new.message, before)
        entry = JournalEntry(target, describe_action(operations), before, new.entries)
        journal_id = journal.begin(connection, scope, entry, origin, now_ms())
        _put(connection, scope, target, new.entries)
        journal.settle(connection, scope, journal_id, done=True)
        return Written(target, new.message, before, new.entries, journal_id)


def _lying(paths: Mapping[Target, Path]) -> tuple[Target, ...]:
    return tuple(target for target, path in paths.items() if os.path.lexists(path))


def _texts(connection: Connection, scope: Scope) -> dict[str, str]:
    query = select(memory_text.c.target, memory_text.c.content).where(memory_text.c.owner == owner_of(scope))
    return {row.target: row.content for row in connection.execute(query)}


def _lock(connection: Connection, scope: Scope, target: Target) -> str:
    """What the text says now; nobody else writes it until the transaction ends."""
    return str(connection.execute(_LOCKED, {"owner": owner_of(scope), "target": target}).scalar_one())


def _put(connection: Connection, scope: Scope, target: Target, entries: Sequence[str]) -> None:
    connection.execute(
        update(memory_text)
        .where(memory_text.c.owner == owner_of(scope), memory_text.c.target == target)
        .values(content=join_entries(entries), version=memory_text.c.version + 1, updated_ms=now_ms())
    )
