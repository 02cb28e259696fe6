"""The one owner of database connections: functions of a Connection, run on threads of ours.

SQLite: writes go one at a time to a single thread, each inside BEGIN IMMEDIATE; reads run on a few threads
whose connections refuse writes; one more thread moves the write-ahead log into the file. PostgreSQL: a small
pool, serializable writes, run again after a conflict. A cancelled await leaves a write to finish whole.
"""

import asyncio
import logging
import os
import random
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.engine.interfaces import IsolationLevel
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from trunkline.gateway.state.mounts import MOUNT_TABLE, network_kind

logger = logging.getLogger(__name__)

T = TypeVar("T")
Journal = Literal["wal", "delete"]

READERS = 3

LOG_EVERY_S = 0.1
LOG_PAGES = 16_384
"""At this length SQLite moves its log on the writer's own time; writes without a gap come to that."""
LOG_KEPT_BYTES = 8 * 2**20
"""What the log's file keeps of its longest when it begins anew."""

BUSY_TIMEOUT_MS = 5000

# How often a serializable write is tried before its conflict is the caller's.
MAX_TRIES = 40
MAX_PAUSE_S = 0.05
# Serialization failure and deadlock: PostgreSQL has rolled back and asks for another try.
_CONFLICTS = frozenset({"40001", "40P01"})
# Where statements see what others commit meanwhile, a row may be there after all that was just looked for.
_DOUBLE = "23505"
_LOCK_NOT_AVAILABLE = "55P03"

# A server that the network lost answers nothing: without these a thread would wait for it for many minutes.
_LOST_AFTER = {
    "connect_timeout": "10",
    "keepalives_idle": "20",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}

# Any number that other programs in the same PostgreSQL are unlikely to lock.
_ALONE_LOCK = 7_265_110_937


class DatabaseClosed(Exception):
    """The database was closed before this call."""


class Database:
    """`url` is an SQLAlchemy URL, sqlite or postgresql+psycopg. Close it, or use it as a context.

    An SQLite file is made for its owner's eyes only; `journal` is the write-ahead log unless it lies on a
    network mount, where that log is not safe.
    """

    def __init__(self, url: str, journal: Journal | None = None, *, mounts: Path = MOUNT_TABLE) -> None:
        self.is_sqlite = make_url(url).get_backend_name() == "sqlite"
        if self.is_sqlite:
            journal = journal or _prepare_file(Path(make_url(url).database or ""), mounts)
            self._writer_engine = _sqlite_engine(url, read_only=False, size=1, journal=journal)
            self._reader_engine = _sqlite_engine(url, read_only=True, size=READERS + 1, journal=journal)
        else:
            self._writer_engine = self._reader_engine = _postgresql_engine(url)
        self._writers = ThreadPoolExecutor(1 if self.is_sqlite else READERS, "state-write")
        self._readers = ThreadPoolExecutor(READERS, "state-read")
        self._has_log = self.is_sqlite and journal == "wal"
        self._log_mover = ThreadPoolExecutor(1, "state-log")
        self._moving: Future[None] | None = None
        self._moved_s = 0.0

    @classmethod
    def sqlite(cls, path: Path) -> Self:
        return cls(f"sqlite:///{path}")

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Runs `work` in one transaction and commits it; an exception rolls it back and is raised here.

        On PostgreSQL a conflict with another writer runs `work` again, so it must have no effect outside of
        its connection. Raises sqlalchemy's OperationalError when another process holds SQLite's lock for over
        five seconds. A cancelled caller's work is committed all the same.
        """
        return await self._submit(self._writers, self._write, work)

    async def write_in_turn(self, work: Callable[[Connection], T], wait_s: float) -> T:
        """`write` for work that begins by locking the row that it changes, where many may want the same one.

        On PostgreSQL it waits for the row, for `wait_s` at most, and then sees what the one before committed,
        where `write` would have to be tried again. SQLite's writers wait for each other anyway. Raises what
        `gave_up_waiting` knows.
        """
        return await self._submit(self._writers, lambda one: self._write_in_turn(one, wait_s), work)

    async def write_alone(self, work: Callable[[Connection], T]) -> T:
        """`write`, while no other process of the program runs work of this kind: for migrations."""
        return await self._submit(self._writers, self._write_alone, work)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Runs `work` on one consistent view of the data. A write raises."""
        return await self._submit(self._readers, self._read, work)

    async def scrub(self) -> None:
        """Rewrites an SQLite file, so that it holds nothing that was deleted. Slow; for erasures."""
        if self.is_sqlite:
            await asyncio.shield(asyncio.wrap_future(self._started(self._writers, self._vacuum)))

    async def empty_log(self) -> bool:
        """Moves SQLite's write-ahead log into the file, so that neither holds what was deleted.

        False when readers were in the way for too long; the log then empties by itself, later.
        """
        if not self.is_sqlite:
            return True
        return await asyncio.shield(asyncio.wrap_future(self._started(self._writers, self._empty_log)))

    def backup_now(self, target: Path) -> None:
        """Copies an SQLite database, as it is at one moment, to a new file that only its owner can read.

        Chats go on meanwhile. Raises FileExistsError, OSError, or sqlite3's own error.
        """
        self._started(self._readers, lambda: self._backup(target)).result()

    def write_now(self, work: Callable[[Connection], T]) -> T:
        """`write` for callers without an event loop: the command line and start-up."""
        return self._start(self._writers, self._write, work).result()

    def write_alone_now(self, work: Callable[[Connection], T]) -> T:
        return self._start(self._writers, self._write_alone, work).result()

    def read_now(self, work: Callable[[Connection], T]) -> T:
        return self._start(self._readers, self._read, work).result()

    def close(self) -> None:
        """Lets submitted work finish, then closes every connection. Idempotent."""
        self._writers.shutdown(wait=True)
        self._readers.shutdown(wait=True)
        self._log_mover.shutdown(wait=True)
        self._writer_engine.dispose()
        self._reader_engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def _submit(
        self,
        pool: ThreadPoolExecutor,
        run: Callable[[Callable[[Connection], T]], T],
        work: Callable[[Connection], T],
    ) -> T:
        # A queued future that asyncio cancels would never run: shield it, so that the work ends whole.
        return await asyncio.shield(asyncio.wrap_future(self._start(pool, run, work)))

    def _start(
        self,
        pool: ThreadPoolExecutor,
        run: Callable[[Callable[[Connection], T]], T],
        work: Callable[[Connection], T],
    ) -> Future[T]:
        return self._started(pool, lambda: run(work))

    def _started(self, pool: ThreadPoolExecutor, task: Callable[[], T]) -> Future[T]:
        try:
            return pool.submit(task)
        except RuntimeError as error:
            raise DatabaseClosed("the database is closed") from error

    def _write(self, work: Callable[[Connection], T]) -> T:
        return self._write_isolated(work, "SERIALIZABLE", _CONFLICTS)

    def _write_in_turn(self, work: Callable[[Connection], T], wait_s: float) -> T:
        def locking(connection: Connection) -> T:
            if not self.is_sqlite:
                wait = {"wait": f"{round(wait_s * 1000)}ms"}
                connection.execute(text("SELECT set_config('lock_timeout', :wait, true)"), wait)
            return work(connection)

        return self._write_isolated(locking, "READ COMMITTED", _CONFLICTS | {_DOUBLE})

    def _write_isolated(
        self, work: Callable[[Connection], T], isolation: IsolationLevel, again: frozenset[str]
    ) -> T:
        if self.is_sqlite:
            with self._writer_engine.begin() as connection:
                done = work(connection)
            self._keep_log_short()
            return done
        for tried in range(1, MAX_TRIES):
            try:
                return self._write_once(work, isolation)
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) not in again:
                    raise
                time.sleep(random.uniform(0, MAX_PAUSE_S * tried / MAX_TRIES))
        return self._write_once(work, isolation)

    def _keep_log_short(self) -> None:
        """Has SQLite's log moved into the file now and then, by a thread that no write waits for."""
        is_due = time.monotonic() - self._moved_s > LOG_EVERY_S
        if self._has_log and is_due and (self._moving is None or self._moving.done()):
            self._moved_s = time.monotonic()
            self._moving = self._log_mover.submit(self._move_log)

    def _move_log(self) -> None:
        borrowed = self._reader_engine.raw_connection()
        try:
            cursor = borrowed.cursor()
            cursor.execute("PRAGMA wal_checkpoint(PASSIVE)")
            cursor.close()
        except sqlite3.Error as error:
            logger.warning("log not moved into the database: %s", type(error).__name__)
        finally:
            borrowed.close()

    def _write_once(self, work: Callable[[Connection], T], isolation: IsolationLevel) -> T:
        engine = self._writer_engine.execution_options(isolation_level=isolation)
        with engine.begin() as connection:
            return work(connection)

    def _write_alone(self, work: Callable[[Connection], T]) -> T:
        with self._writer_engine.begin() as connection:
            # SQLite's BEGIN IMMEDIATE is the lock already. Not serializable here: what is read after the wait
            # for the lock must be what the other process committed.
            if not self.is_sqlite:
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _ALONE_LOCK})
            return work(connection)

    def _backup(self, target: Path) -> None:
        with ExitStack() as unless_whole:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            unless_whole.callback(target.unlink)
            source = self._reader_engine.raw_connection()
            with closing(source), closing(sqlite3.connect(target)) as copy:
                source.driver_connection.backup(copy)  # type: ignore[union-attr]
                copy.execute("PRAGMA journal_mode=DELETE")  # the copy is one file, with no log beside it
            unless_whole.pop_all()

    def _await_move(self) -> None:
        """Two may not move the log at once. On the writer's thread, where no other move begins meanwhile."""
        if self._moving is not None:
            self._moving.result()

    def _empty_log(self) -> bool:
        self._await_move()
        borrowed = self._writer_engine.raw_connection()
        try:
            cursor = borrowed.cursor()
            busy, *_ = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            cursor.close()
            return not busy
        finally:
            borrowed.close()

    def _vacuum(self) -> None:
        self._await_move()
        borrowed = self._writer_engine.raw_connection()
        try:
            cursor = borrowed.cursor()
            cursor.execute("VACUUM")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            cursor.close()
        finally:
            borrowed.close()

    def _read(self, work: Callable[[Connection], T]) -> T:
        with self._reader_engine.connect() as connection:
            if not self.is_sqlite:
                connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
            return work(connection)


def gave_up_waiting(error: DBAPIError) -> bool:
    """Whether nothing was done, since another writer held what was needed for too long."""
    if getattr(error.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
        return True
    return getattr(error.orig, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def sqlite_file(url: str) -> Path | None:
    """The file that a database URL names; None for PostgreSQL."""
    made = make_url(url)
    return Path(made.database) if made.get_backend_name() == "sqlite" and made.database else None


def _prepare_file(path: Path, mounts: Path) -> Journal:
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    kind = network_kind(path, mounts)
    if kind is None:
        return "wal"
    logger.warning("database on a network mount: %s, no write-ahead log, expect slow writes", kind)
    return "delete"


def _postgresql_engine(url: str) -> Engine:
    """What the URL says goes before. It imports no driver before it is made, so none is needed for SQLite."""
    wanted = make_url(url)
    return create_engine(
        wanted.set(query={**_LOST_AFTER, **wanted.query}),
        pool_size=2 * READERS,
        max_overflow=0,
        pool_pre_ping=True,
        hide_parameters=True,
    )


def _sqlite_engine(url: str, *, read_only: bool, size: int, journal: str) -> Engine:
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=size,
        max_overflow=0,
        hide_parameters=True,  # what people said would stand in the log with the error of a statement
        connect_args={"check_same_thread": False, "timeout": BUSY_TIMEOUT_MS / 1000},
    )

    def prepare(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        if not read_only:
            cursor.execute(f"PRAGMA journal_mode={journal}")
            cursor.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES}")
            cursor.execute(f"PRAGMA journal_size_limit={LOG_KEPT_BYTES}")
            cursor.execute("PRAGMA secure_delete=ON")  # what is deleted is overwritten, for people who forget
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        if read_only:
            cursor.execute("PRAGMA query_only=ON")
        cursor.close()

    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", begin)
    return engine
