"""Copies of the database that we keep in the home folder, and damaged ones put aside, and their end: what is
forgotten ends there too.

A copy that the operator puts elsewhere is the operator's.
"""

import asyncio
import logging
import time
from pathlib import Path

from trunkline.gateway.clock import now_ms
from trunkline.gateway.state import private_sessions
from trunkline.gateway.state.database import Database

log = logging.getLogger(__name__)

FOLDER = "backups"
KEPT_DAYS = 30
CHECK_S = 3600.0
PART_KEPT_S = 86_400.0
"""A copy that is still unfinished after a day was left by a process that died."""


def make(database: Database, target: Path) -> None:
    """Copies an SQLite database to a new file, which never holds private conversations under that name.

    Raises FileExistsError, OSError, or the database's own error.
    """
    if target.exists():
        raise FileExistsError(target)
    part = target.with_name(f".{target.name}.part")
    part.unlink(missing_ok=True)
    database.backup_now(part)
    try:
        with Database(f"sqlite:///{part}", journal="delete") as copy:
            copy.write_now(lambda connection: private_sessions.erase_from_copy(connection, now_ms()))
        part.rename(target)
    finally:
        part.unlink(missing_ok=True)


def expire(home: Path, now_s: float) -> int:
    """Deletes our copies that are older than KEPT_DAYS, and what is left of unfinished ones.

    Returns how many. Raises OSError.
    """
    kept_s = {"state-*.db*": KEPT_DAYS * 86_400, ".state-*.part": PART_KEPT_S}
    old = [
        path
        for pattern, most_s in kept_s.items()
        for path in (home / FOLDER).glob(pattern)
        if now_s - path.stat().st_mtime > most_s
    ]
    for path in old:
        path.unlink(missing_ok=True)
    return len(old)


async def watch(home: Path) -> None:
    """Looks for old copies every hour until cancelled."""
    while True:
        try:
            gone = await asyncio.to_thread(expire, home, time.time())
            if gone:
                log.info("old backups deleted: %d", gone)
        except OSError as error:
            log.warning("old backups not deleted: %s", error.strerror)
        await asyncio.sleep(CHECK_S)
