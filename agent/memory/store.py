"""The memory files of each person and room: read whole, written whole, under a lock shared by all processes.

What a write does to the entries is decided in operations.py; whose scope a call gets, by the caller.
"""

import asyncio
import contextlib
import hashlib
import logging
import os
import re
import stat
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar
from weakref import WeakValueDictionary

from filelock import FileLock, Timeout

from trunkline.agent.memory import outcomes
from trunkline.agent.memory.entries import MemoryLimits, ParsedStore, join_entries, parse_entries
from trunkline.agent.memory.operations import Operation, apply_operations, check_operations, describe_action
from trunkline.agent.memory.outcomes import Failed, FailureKind, Outcome, Unchanged, Written
from trunkline.agent.memory.snapshot import MemorySnapshot
from trunkline.agent.ports import JournalEntry, MemoryJournal, Target, WriteOrigin
from trunkline.agent.scope import PersonScope, RoomScope, Scope

_logger = logging.getLogger(__name__)

FILE_NAMES: dict[Target, str] = {"memory": "MEMORY.md", "user": "USER.md"}
MAX_FILE_BYTES = 1_000_000
LOCK_TIMEOUT_S = 10.0
JOURNAL_TIMEOUT_S = 30.0

_PLAIN_FOLDER = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_T = TypeVar("_T")

FileState = Literal["before", "after", "other"]


class MemoryStore(Protocol):
    """The two stores of a scope. What can go wrong with a file is in the answer, not raised."""

    @property
    def limits(self) -> MemoryLimits: ...

    async def read(self, scope: Scope) -> MemorySnapshot:
        """Both stores as they are now; a store that can't be read is named in `unreadable`."""
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


class _Unreadable(Exception):
    """The file exists but holds nothing that may be trusted; the argument says why."""


class JournalFailed(Exception):
    """The journal did not answer in time or is out of reach; start-up settles what it left pending."""


@dataclass(frozen=True, slots=True)
class _File:
    """What a store's file held: its bytes, or None where there is no file."""

    raw: bytes | None
    store: ParsedStore


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
        self._root = home / "memories"
        self._limits = limits
        self._journal = journal
        self._lock_timeout_s = lock_timeout_s
        # Writers of one file wait here first, so that they do not fill the thread pool.
        self._queues: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()

    @property
    def limits(self) -> MemoryLimits:
        return self._limits

    def path_of(self, scope: Scope, target: Target) -> Path:
        """The file of a store. Raises ValueError for a room's user store and for an empty name."""
        match scope:
            case PersonScope(person):
                return self._root / folder_name(person) / FILE_NAMES[target]
            case RoomScope(room, _):
                if target == "user":
                    raise ValueError("a room has no user store")
                return self._root / "rooms" / folder_name(room) / FILE_NAMES[target]

    async def read(self, scope: Scope) -> MemorySnapshot:
        return await asyncio.to_thread(self._read, scope)

    async def apply(
        self, scope: Scope, target: Target, operations: Sequence[Operation], origin: WriteOrigin
    ) -> Outcome:
        checked = check_operations(scope, target, operations, self._limits)
        if isinstance(checked, Failed):
            return await asyncio.to_thread(self._with_entries, scope, checked)
        path = self.path_of(scope, target)
        queue = self._queues.setdefault(path, asyncio.Lock())
        async with queue:
            # The whole write is one thread's work: a cancelled caller leaves, the thread ends what it began.
            write = _Write(scope, target, checked, origin, path)
            return await asyncio.to_thread(self._write_locked, write, asyncio.get_running_loop())

    async def state_of(self, scope: Scope, entry: JournalEntry) -> FileState:
        """Whether the file holds what the journal row says it held before the write, or after it."""
        return await asyncio.to_thread(self._state_of, scope, entry)

    async def erase_backups(self, scope: Scope) -> None:
        """Deletes the kept originals of hand-written files, for a fact that must be forgotten everywhere."""
        await asyncio.to_thread(self._erase_backups, scope)

    def _read(self, scope: Scope) -> MemorySnapshot:
        found: dict[Target, tuple[str, ...]] = {}
        unreadable: list[Target] = []
        for target in self._targets_of(scope):
            try:
                found[target] = _read_file(self.path_of(scope, target)).store.entries
            except _Unreadable as error:
                _logger.error("memory file unreadable file=%s cause=%s", FILE_NAMES[target], error)  # noqa: TRY400
                unreadable.append(target)
        return MemorySnapshot(found.get("memory", ()), found.get("user", ()), tuple(unreadable))

    def _targets_of(self, scope: Scope) -> tuple[Target, ...]:
        own: tuple[Target, ...] = ("memory", "user") if isinstance(scope, PersonScope) else ("memory",)
        return tuple(target for target in own if self._limits.allows(target))

    def _with_entries(self, scope: Scope, failed: Failed) -> Failed:
        """Adds the store's entries to a refusal that they help with."""
        if failed.kind is not FailureKind.INVALID:
            return failed
        try:
            entries = _read_file(self.path_of(scope, failed.target)).store.entries
        except _Unreadable:
            return failed
        return Failed(failed.target, failed.kind, failed.error, entries)

    def _state_of(self, scope: Scope, entry: JournalEntry) -> FileState:
        try:
            entries = _read_file(self.path_of(scope, entry.target)).store.entries
        except _Unreadable:
            return "other"
        if entries == entry.after:
            return "after"
        return "before" if entries == entry.before else "other"

    def _erase_backups(self, scope: Scope) -> None:
        for target in self._targets_of(scope):
            path = self.path_of(scope, target)
            for backup in path.parent.glob(f"{path.name}.bak*"):
                backup.unlink(missing_ok=True)

    def _write_locked(self, write: _Write, loop: asyncio.AbstractEventLoop) -> Outcome:
        target, name = write.target, write.path.name
        try:
            _make_folder(write.path.parent)
            lock = FileLock(f"{write.path}.lock", timeout=self._lock_timeout_s, thread_local=False)
            with lock:
                return self._write(write, loop)
        except Timeout:
            return Failed(target, FailureKind.LOCKED, outcomes.locked(name, self._lock_timeout_s))
        except _Unreadable as error:
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
        found = _read_file(write.path)
        before = found.store.entries
        new = apply_operations(before, target, write.operations, self._limits.chars_of(target))
        if isinstance(new, Failed):
            return new
        if new.entries == before:
            return Unchanged(target, new.message, before)
        if found.store.free_form and found.raw is not None:
            _keep_original(write.path, found.raw)
        entry = JournalEntry(target, describe_action(write.operations), before, new.entries)
        journal_id = _call(loop, self._journal.begin(write.scope, entry, write.origin))
        replaced = False
        try:
            _replace_file(write.path, join_entries(new.entries).encode("utf-8"))
            replaced = True
        finally:
            _call(loop, self._journal.settle(write.scope, journal_id, done=replaced))
        return Written(target, new.message, before, new.entries, journal_id)


def folder_name(slug: str) -> str:
    """A folder for a person's or room's slug, distinct for distinct slugs, never outside its parent.

    Raises ValueError for an empty slug. `rooms` is taken by the rooms' own folder.
    """
    if not slug:
        raise ValueError("a person or room without a name has no memory folder")
    if _PLAIN_FOLDER.fullmatch(slug) and slug != "rooms":
        return slug
    readable = re.sub(r"[^a-z0-9]+", "-", slug.lower()).strip("-")[:24]
    return f"{readable}~{hashlib.sha256(slug.encode('utf-8', 'surrogatepass')).hexdigest()[:20]}"


def _call(loop: asyncio.AbstractEventLoop, call: Coroutine[Any, Any, _T]) -> _T:
    """Runs a journal call on the event loop from this thread, and waits for it. Raises what it raises."""
    future = asyncio.run_coroutine_threadsafe(call, loop)
    try:
        return future.result(JOURNAL_TIMEOUT_S)
    except OSError as error:  # a time-out is one too; as itself it would pass for a failure of the file
        future.cancel()
        raise JournalFailed("the undo record of a memory write could not be kept") from error


def _read_file(path: Path) -> _File:
    """Raises _Unreadable; a file that is not there is an empty store."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # reading a pipe would never end
            raise _Unreadable("not a file")
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return _File(None, ParsedStore((), free_form=False))
    except OSError as error:
        raise _Unreadable(error.strerror or "I/O error") from error
    if len(raw) > MAX_FILE_BYTES:
        raise _Unreadable(f"larger than {MAX_FILE_BYTES:,} bytes")
    try:
        return _File(raw, parse_entries(raw.decode("utf-8")))
    except UnicodeDecodeError as error:
        raise _Unreadable(f"not UTF-8 at byte {error.start}") from error


def _make_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _keep_original(path: Path, raw: bytes) -> None:
    """Keeps a hand-written file's bytes beside it, never over an older original."""
    backup, number = path.with_name(f"{path.name}.bak"), 1
    while backup.exists():
        if backup.read_bytes() == raw:
            return
        backup, number = path.with_name(f"{path.name}.bak{number}"), number + 1
    _replace_file(backup, raw)


def _replace_file(path: Path, content: bytes) -> None:
    """Puts whole new content in place of the old, durably. The caller holds the lock, so the name is free.

    A link stays one: what it leads to is replaced.
    """
    path = path.resolve() if path.is_symlink() else path
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        mode = 0o600
    try:
        temporary.unlink(missing_ok=True)  # left by a crash; anything else there must not be written through
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    # Some file systems can't sync a folder; the new file is in place and whole either way.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
