"""The memory of each person and room: what a store of it is, and the one whose texts are files.

What a write does to the entries is decided in operations.py; whose scope a call gets, by the caller.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary

from filelock import FileLock, Timeout

from trunkline.agent.memory import outcomes
from trunkline.agent.memory.entries import MemoryLimits, join_entries
from trunkline.agent.memory.files import (
    FILE_NAMES,
    MemoryFolders,
    Unreadable,
    keep_original,
    make_folder,
    read_file,
    replace_memory,
)
from trunkline.agent.memory.operations import Operation, apply_operations, check_operations, describe_action
from trunkline.agent.memory.outcomes import Failed, FailureKind, Outcome, Unchanged, Written
from trunkline.agent.memory.snapshot import MemorySnapshot
from trunkline.agent.ports import JournalEntry, MemoryJournal, Target, WriteOrigin
from trunkline.agent.scope import PersonScope, Scope

_logger = logging.getLogger(__name__)

LOCK_TIMEOUT_S = 10.0
JOURNAL_TIMEOUT_S = 30.0

_T = TypeVar("_T")


class MemoryStore(Protocol):
    """The two texts of a scope. What can go wrong with a text is in the answer, not raised.

    Raises ValueError for a person or room without a name.
    """

    @property
    def limits(self) -> MemoryLimits: ...

    async def read(self, scope: Scope) -> MemorySnapshot:
        """Both texts as they are now; one that can't be read is named in `unreadable`."""
        ...

    async def apply(
        self, scope: Scope, target: Target, operations: Sequence[Operation], origin: WriteOrigin
    ) -> Outcome:
        """Applies all operations or none, journaled. A cancelled call leaves old or new text, whole.

        Raises what the journal raises; then a write may have happened that the journal calls pending.
        """
        ...

    async def erase_backups(self, scope: Scope) -> None:
        """Deletes the kept originals of hand-written texts, for a fact that must be forgotten everywhere."""
        ...

    async def erase_folder(self, scope: Scope) -> None:
        """Deletes all that lies in the scope's folder, for somebody who leaves. Its texts were emptied."""
        ...


class JournalFailed(Exception):
    """The journal did not answer in time or is out of reach; start-up settles what it left pending."""


@dataclass(frozen=True, slots=True)
class _Write:
    """A checked write on its way to one file."""

    scope: Scope
    target: Target
    operations: tuple[Operation, ...]
    origin: WriteOrigin
    path: Path


class FileMemoryStore:
    """Memory files under the home folder: `memories/<person>/USER.md`, `memories/rooms/<room>/MEMORY.md`.

    One object serves one event loop; other processes may use the same files.
    """

    def __init__(
        self, home: Path, limits: MemoryLimits, journal: MemoryJournal, lock_timeout_s: float = LOCK_TIMEOUT_S
    ) -> None:
        self._folders = MemoryFolders(home)
        self._limits = limits
        self._journal = journal
        self._lock_timeout_s = lock_timeout_s
        # Writers of one file wait here first, so that they do not fill the thread pool.
        self._queues: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()

    @property
    def limits(self) -> MemoryLimits:
        return self._limits

    async def read(self, scope: Scope) -> MemorySnapshot:
        return await asyncio.to_thread(self._read, scope)

    async def apply(
        self, scope: Scope, target: Target, operations: Sequence[Operation], origin: WriteOrigin
    ) -> Outcome:
        checked = check_operations(scope, target, operations, self._limits)
        if isinstance(checked, Failed):
            known = await self.read(scope) if checked.kind is FailureKind.INVALID else None
            return checked if known is None else with_entries(checked, known)
        path = self._folders.path_of(scope, target)
        queue = self._queues.setdefault(path, asyncio.Lock())
        async with queue:
            # The whole write is one thread's work: a cancelled caller leaves, the thread ends what it began.
            write = _Write(scope, target, checked, origin, path)
            return await asyncio.to_thread(self._write_locked, write, asyncio.get_running_loop())

    async def erase_backups(self, scope: Scope) -> None:
        await asyncio.to_thread(self._folders.erase_backups, scope)

    async def erase_folder(self, scope: Scope) -> None:
        await asyncio.to_thread(self._folders.erase, scope)

    def _read(self, scope: Scope) -> MemorySnapshot:
        found: dict[Target, tuple[str, ...]] = {}
        unreadable: list[Target] = []
        for target in targets_of(scope, self._limits):
            try:
                found[target] = read_file(self._folders.path_of(scope, target)).store.entries
            except Unreadable as error:
                _logger.error("memory file unreadable file=%s cause=%s", FILE_NAMES[target], error)  # noqa: TRY400
                unreadable.append(target)
        return MemorySnapshot(found.get("memory", ()), found.get("user", ()), tuple(unreadable))

    def _write_locked(self, write: _Write, loop: asyncio.AbstractEventLoop) -> Outcome:
        target, name = write.target, write.path.name
        try:
            make_folder(write.path.parent)
            lock = FileLock(f"{write.path}.lock", timeout=self._lock_timeout_s, thread_local=False)
            with lock:
                return self._write(write, loop)
        except Timeout:
            return Failed(target, FailureKind.LOCKED, outcomes.locked(name, self._lock_timeout_s))
        except Unreadable as error:
            _logger.error("memory file unreadable file=%s cause=%s", name, error)  # noqa: TRY400
            return Failed(target, FailureKind.UNREADABLE, outcomes.unreadable(name, str(error)))
        except OSError as error:
            _logger.error("memory write failed file=%s cause=%s", name, error.strerror)  # noqa: TRY400
            return Failed(
                target, FailureKind.WRITE_FAILED, outcomes.write_failed(name, error.strerror or "I/O error")
            )

    def _write(self, write: _Write, loop: asyncio.AbstractEventLoop) -> Outcome:
        """Runs under the lock. Raises OSError with the old bytes in place, and what the journal raises."""
        target = write.target
        found = read_file(write.path)
        before = found.store.entries
        new = apply_operations(before, target, write.operations, self._limits.chars_of(target))
        if isinstance(new, Failed):
            return new
        if new.entries == before:
            return Unchanged(target, new.message, before)
        if found.store.free_form and found.raw is not None:
            keep_original(write.path, found.raw)
        entry = JournalEntry(target, describe_action(write.operations), before, new.entries)
        journal_id = _call(loop, self._journal.begin(write.scope, entry, write.origin))
        replaced = False
        try:
            replace_memory(write.path, join_entries(new.entries).encode("utf-8"))
            replaced = True
        finally:
            _call(loop, self._journal.settle(write.scope, journal_id, done=replaced))
        return Written(target, new.message, before, new.entries, journal_id)


def targets_of(scope: Scope, limits: MemoryLimits) -> tuple[Target, ...]:
    """The texts that a scope has, without those that are switched off."""
    own: tuple[Target, ...] = ("memory", "user") if isinstance(scope, PersonScope) else ("memory",)
    return tuple(target for target in own if limits.allows(target))


def with_entries(failed: Failed, known: MemorySnapshot) -> Failed:
    """A refusal with the store's entries, where they could be read."""
    target = failed.target
    return failed if target in known.unreadable else replace(failed, entries=known.entries_of(target))


def _call(loop: asyncio.AbstractEventLoop, call: Coroutine[Any, Any, _T]) -> _T:
    """Runs a journal call on the event loop from this thread, and waits for it. Raises what it raises."""
    future = asyncio.run_coroutine_threadsafe(call, loop)
    try:
        return future.result(JOURNAL_TIMEOUT_S)
    except OSError as error:  # a time-out is one too; as itself it would pass for a failure of the file
        future.cancel()
        raise JournalFailed("the undo record of a memory write could not be kept") from error
