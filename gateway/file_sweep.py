"""Takes contents off the disk that no message, no answer and nothing that waits refers to any more."""

import asyncio
import logging

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from trunkline.gateway.clock import now_ms
from trunkline.gateway.file_store import FileStore
from trunkline.gateway.state import files
from trunkline.gateway.state.database import Database

log = logging.getLogger(__name__)

LOOK_S = 30.0
FRESH_MS = 60_000
"""A content put down so lately may be about to get its row."""
STRAY_MS = 24 * 3_600_000
STRAY_LOOK_S = 3600.0


async def sweep_dropped(database: Database, store: FileStore, *, fresh_ms: int = FRESH_MS) -> int:
    """Removes the contents whose last reference has gone; returns how many there were."""
    removed = 0
    for sha256 in await database.read(files.dropped):
        removed += await database.write(lambda c: _settle(c, store, sha256, fresh_ms))  # noqa: B023
    return removed


async def sweep_strays(database: Database, store: FileStore) -> None:
    """Removes what belongs to nothing: files of messages that were never answered, contents without a row."""
    before_ms = now_ms() - STRAY_MS
    await database.write(lambda c: files.drop_stray(c, before_ms))
    for kept in await asyncio.to_thread(lambda: list(store.kept())):
        if kept.put_ms < before_ms:
            await database.write(lambda c: _settle(c, store, kept.sha256, FRESH_MS))  # noqa: B023
    await sweep_dropped(database, store)


async def watch(database: Database, store: FileStore) -> None:
    """Sweeps again and again until it is cancelled."""
    rounds = int(STRAY_LOOK_S / LOOK_S)
    at = 0
    while True:
        try:
            await (sweep_strays(database, store) if at % rounds == 0 else sweep_dropped(database, store))
        except (SQLAlchemyError, OSError) as error:
            log.warning("files not swept: %s", type(error).__name__)
        at += 1
        await asyncio.sleep(LOOK_S)


def _settle(connection: Connection, store: FileStore, sha256: str, fresh_ms: int) -> bool:
    """Removes one content unless it is used, or was put down again just now; within the one writer."""
    if files.is_used(connection, sha256):
        files.settle(connection, sha256)
        return False
    put_ms = store.put_ms(sha256)
    if put_ms is not None and put_ms > now_ms() - fresh_ms:
        return False
    store.remove(sha256)
    files.settle(connection, sha256)
    return put_ms is not None
