"""Ends the access of those who left a room without our being told of it: it is asked once an hour.

Discord never tells; Telegram and Slack do, but neither in every room, nor for ever while we are away.
"""

import asyncio
import logging
from collections.abc import Callable

from sqlalchemy.exc import DBAPIError

from trunkline.adapters.base import Adapter, AdapterError, KnowsMembers, RateLimited, Rejected
from trunkline.gateway.clock import now_ms
from trunkline.gateway.state import people
from trunkline.gateway.state.database import Database

log = logging.getLogger(__name__)

PLATFORMS = ("discord", "telegram", "slack")
LOOK_S = 3600.0
FIRST_LOOK_S = 60.0
PAUSE_S = 0.2
"""Between two calls: a server of thousands is asked about over minutes."""
CALL_TIMEOUT_S = 20.0


async def watch(database: Database, adapter_of: Callable[[str], Adapter | None]) -> None:
    """Looks soon after the start and then every hour, until it is cancelled."""
    await asyncio.sleep(FIRST_LOOK_S)
    while True:
        for platform in PLATFORMS:
            adapter = adapter_of(platform)
            if isinstance(adapter, KnowsMembers):
                await look(database, platform, adapter)
        await asyncio.sleep(LOOK_S)


async def look(database: Database, platform: str, adapter: KnowsMembers, *, pause_s: float = PAUSE_S) -> int:
    """Asks about everybody who takes part in a room there; returns how many have left.

    A room that can't be asked about is passed over; where the platform doesn't answer, nothing changes until
    the next look.
    """
    left, refused = 0, set[int]()
    try:
        for room, account in await database.read(lambda c: people.members_on(c, platform)):
            if room.id in refused:
                continue
            try:
                is_in = await _is_in(adapter, room.chat, account.user_id)
            except Rejected as error:
                log.info("members of a room not known: %s on %s", type(error).__name__, platform)
                refused.add(room.id)
                continue
            if not is_in:
                await database.write(lambda c: people.note_left(c, room.id, account.id, now_ms()))  # noqa: B023
                left += 1
            await asyncio.sleep(pause_s)
    except (AdapterError, TimeoutError, DBAPIError) as error:
        log.info("look at members cut short: %s on %s", type(error).__name__, platform)
    return left


async def _is_in(adapter: KnowsMembers, chat: str, user: str) -> bool:
    try:
        async with asyncio.timeout(CALL_TIMEOUT_S):
            return await adapter.is_in(chat, user)
    except RateLimited as error:
        await asyncio.sleep(error.retry_after_s)
        async with asyncio.timeout(CALL_TIMEOUT_S):
            return await adapter.is_in(chat, user)
