"""Deletes conversations silent for longer than `sessions.keep_days`, one by one, once a day.

Their rows are overwritten at once; `trunkline sessions prune` also rewrites the file, which chats would wait
for.
"""

import asyncio
import logging
from datetime import timedelta

from sqlalchemy.exc import DBAPIError

from trunkline.gateway.clock import now_ms
from trunkline.gateway.state import deletion
from trunkline.gateway.state.database import Database

log = logging.getLogger(__name__)

CHECK_S = 24 * 3600.0
RETRY_S = 600.0


async def watch(database: Database, keep_days: int) -> None:
    """Deletes what is too old at the start and then daily until cancelled."""
    while True:
        pause_s = CHECK_S
        try:
            gone = await delete_old(database, keep_days, now_ms())
            if gone:
                log.info("old conversations deleted: %d", gone)
        except DBAPIError as error:
            log.warning("old conversations not deleted: %s", type(error).__name__)
            pause_s = RETRY_S
        await asyncio.sleep(pause_s)


async def delete_old(database: Database, keep_days: int, stamp_ms: int) -> int:
    """Deletes the conversations without a message in the last `keep_days`; returns how many. What was
    answered outside of a conversation, or never, is forgotten as well.

    Each goes in a transaction of its own, so that chats are written to in between, and is looked at again
    there: a message may have come meanwhile.
    """
    before_ms = stamp_ms - int(timedelta(days=keep_days).total_seconds() * 1000)
    streams = await database.read(deletion.every_stream)
    gone = 0
    for public_id in await database.read(lambda c: deletion.sessions_before(c, streams, before_ms)):
        deleted = await database.write(
            lambda c, one=public_id: deletion.delete_session_before(c, streams, one, before_ms)  # type: ignore[misc]
        )
        gone += deleted.sessions
    await database.write(lambda c: deletion.forget_words_before(c, before_ms))
    return gone
