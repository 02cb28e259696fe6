"""Deletes what is too old once a day: conversations silent for longer than `sessions.keep_days`, one by one,
and what is over in the inbox and the outbox.

Rows are overwritten at once; `trunkline sessions prune` also rewrites the file, which chats would wait for.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from trunkline.gateway.clock import now_ms
from trunkline.gateway.state import deletion, pruning
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.pruning import Reached, Step

log = logging.getLogger(__name__)

CHECK_S = 24 * 3600.0
RETRY_S = 600.0
OVER_DAYS = 30
"""For so long it is known what came, so that nothing is answered twice: Telegram and Slack send again for a
day at most, and what was missed is read back for two weeks (`read_back.MAX_AGE_MS`)."""
STEP_PAUSE_S = 0.1
"""Between two steps of pruning, for the chats' writes."""


async def watch(database: Database, keep_days: int | None) -> None:
    """Deletes what is too old at the start and then daily until cancelled."""
    while True:
        pause_s = CHECK_S
        try:
            if keep_days is not None and (gone := await delete_old(database, keep_days, now_ms())):
                log.info("old conversations deleted: %d", gone)
            if gone := await prune(database, now_ms()):
                log.info("old rows of the inbox and the outbox deleted: %d", gone)
        except DBAPIError as error:
            log.warning("what is too old was not deleted: %s", type(error).__name__)
            pause_s = RETRY_S
        await asyncio.sleep(pause_s)


async def prune(database: Database, stamp_ms: int) -> int:
    """Removes what has been over for `OVER_DAYS` from the inbox and the outbox; returns how many rows."""
    before_ms = stamp_ms - int(timedelta(days=OVER_DAYS).total_seconds() * 1000)
    return await _walk(database, before_ms, pruning.look_at_inbox, pruning.remove_from_inbox) + await _walk(
        database, before_ms, pruning.look_at_outbox, pruning.remove_from_outbox
    )


async def _walk(
    database: Database,
    before_ms: int,
    look: Callable[[Connection, int, Reached], Step],
    remove: Callable[[Connection, Step], None],
) -> int:
    """Looks with a reader, which holds up nobody, and removes what was found in a short transaction."""
    removed, reached = 0, Reached()
    while True:
        step = await database.read(lambda c, since=reached: look(c, before_ms, since))  # type: ignore[misc]
        if step.reached is None:
            return removed
        if step.rows or step.words:
            await database.write(lambda c, step=step: remove(c, step))  # type: ignore[misc]
        removed, reached = removed + len(step.rows), step.reached
        await asyncio.sleep(STEP_PAUSE_S)


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
