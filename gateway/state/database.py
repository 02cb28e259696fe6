"""The one owner of database connections: functions of a Connection, run on threads of ours.

Writes go one at a time to a single thread, each inside BEGIN IMMEDIATE; reads run on a few threads whose
connections refuse writes. A cancelled await leaves a write to finish whole.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.pool import NullPool, QueuePool

T = TypeVar("T")

READERS = 3
BUSY_TIMEOUT_MS = 5000


class Database:
    """`url` is an SQLAlchemy URL, sqlite or postgresql+psycopg. Close it, or use it as a context."""

    def __init__(self, url: str) -> None:
        self.is_sqlite = make_url(url).get_backend_name() == "sqlite"
        self._writer_engine = _engine(url, read_only=False, size=1 if self.is_sqlite else READERS)
        self._reader_engine = (
            _engine(url, read_only=True, size=READERS) if self.is_sqlite else self._writer_engine
        )
        self._writers = ThreadPoolExecutor(1 if self.is_sqlite else READERS, "state-write")
        self._readers = ThreadPoolExecutor(READERS, "state-read")

    @classmethod
    def sqlite(cls, path: Path) -> Self:
        return cls(f"sqlite:///{path}")

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Runs `work` in one transaction and commits it; an exception rolls it back and is raised here.

        Raises sqlalchemy's OperationalError when another process holds the lock for over five seconds.
        A cancelled caller's work is committed all the same.
        """
        return await self._submit(self._writers, self._write, work)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Runs `work` on one consistent view of the data. A write raises."""
        return await self._submit(self._readers, self._read, work)

    def write_now(self, work: Callable[[Connection], T]) -> T:
        """`write` for callers without an event loop: the command line and start-up."""
        return self._writers.submit(self._write, work).result()

    def read_now(self, work: Callable[[Connection], T]) -> T:
        return self._readers.submit(self._read, work).result()

    def close(self) -> None:
        """Lets submitted work finish, then closes every connection. Idempotent."""
        self._writers.shutdown(wait=True)
        self._readers.shutdown(wait=True)
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
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(pool, run, work))

    def _write(self, work: Callable[[Connection], T]) -> T:
        with self._writer_engine.begin() as connection:
            return work(connection)

    def _read(self, work: Callable[[Connection], T]) -> T:
        with self._reader_engine.connect() as connection:
            if not self.is_sqlite:
                connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
            return work(connection)


def _engine(url: str, *, read_only: bool, size: int) -> Engine:
    if make_url(url).get_backend_name() != "sqlite":
        return create_engine(url, pool_size=size, max_overflow=0, pool_pre_ping=True)
    pool: type[QueuePool] | type[NullPool] = QueuePool
    engine = create_engine(
        url,
        poolclass=pool,
        pool_size=size,
        max_overflow=0,
        connect_args={"check_same_thread": False, "timeout": BUSY_TIMEOUT_MS / 1000},
    )

    def prepare(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        if not read_only:
            cursor.execute("PRAGMA journal_mode=WAL")
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
