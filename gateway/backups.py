"""Copies of the database that we keep in the home folder, and their end: what is forgotten ends there too.

A copy that the operator puts elsewhere is the operator's.
"""

import asyncio
import logging
import time
from pathlib import Path

log = logging.getLogger(__name__)

FOLDER = "backups"
KEPT_DAYS = 30
CHECK_S = 3600.0


def expire(home: Path, now_s: float) -> int:
    """Deletes our copies that are older than KEPT_DAYS; returns how many. Raises OSError."""
    old = [
        path
        for path in (home / FOLDER).glob("state-*.db")
        if now_s - path.stat().st_mtime > KEPT_DAYS * 86_400
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
