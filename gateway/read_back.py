"""Reads back what people wrote while nobody listened, on platforms that don't keep it for us.

What is read of a chat is stored before anything newer of that chat, so that answers keep the order of the
questions. Whether a message is ours, and known already, is the router's to say.
"""

import asyncio
import logging
from dataclasses import dataclass, field

from sqlalchemy.exc import SQLAlchemyError

from trunkline.adapters.base import (
    Adapter,
    AdapterError,
    ChatRef,
    Deliver,
    InboundMessage,
    NotStored,
    RateLimited,
    ReadsBack,
    Rejected,
    Unauthorized,
)
from trunkline.gateway.clock import now_ms
from trunkline.gateway.state import inbox
from trunkline.gateway.state.database import Database

log = logging.getLogger(__name__)

MAX_CHATS = 200
MAX_AGE_MS = 14 * 24 * 3600 * 1000
"""Chats where nothing was said to us for so long are not asked."""
MAX_MESSAGES = 1000
"""What one chat may have gathered; of more, the rest is left unread."""
READ_S = 120.0
READ_AT_ONCE = 30
PACE_S = 1.5
"""Slack lets about fifty such calls a minute pass. Chats where somebody writes now don't wait their turn."""
TRIES = 5
FIRST_PAUSE_S = 1.0
MAX_PAUSE_S = 60.0
STORE_PAUSE_S = 5.0
"""Before what was read back is offered again to a database that did not take it."""

Place = tuple[str, str]
"""A chat, and a thread in it or nothing."""


@dataclass(slots=True)
class Gap:
    """A place not read back yet, and the last message known of it."""

    after: str
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class CatchUp:
    """One platform's gaps, from connection to connection. `take` is the adapter's Deliver.

    The group owns the reading; whatever goes wrong with it, new messages are taken all the same.
    """

    def __init__(self, database: Database, accept: Deliver, group: asyncio.TaskGroup) -> None:
        self._database = database
        self._accept = accept
        self._group = group
        self._adapter: ReadsBack | None = None
        self._gaps: dict[Place, Gap] = {}
        self._known = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None

    def connected(self, adapter: Adapter, tenant: str) -> None:
        """To be called at each connection that may have missed something."""
        self.lost()
        if isinstance(adapter, ReadsBack):
            self._adapter = adapter
            self._reading = self._group.create_task(self._read_all(adapter, tenant), name="read back")
        else:
            self._known.set()

    def lost(self) -> None:
        """The connection is gone: what was not read yet is asked for at the next one."""
        if self._reading is not None:
            self._reading.cancel()
        self._reading = self._adapter = None
        self._gaps = {}
        self._known.clear()

    async def take(self, message: InboundMessage) -> None:
        """Stores a new message after what is missing before it in its chat and thread."""
        await self._known.wait()
        for place in ((message.chat, ""), (message.chat, message.thread or "")):
            await self._fill(place)
        await self._accept(message)

    async def _read_all(self, adapter: ReadsBack, tenant: str) -> None:
        platform, since_ms = adapter.platform, now_ms() - MAX_AGE_MS
        try:
            seen = await self._database.read(
                lambda c: inbox.last_seen(c, platform, tenant, since_ms, MAX_CHATS)
            )
            self._gaps = {(one.chat, one.thread): Gap(one.message_id) for one in seen}
            self._known.set()
            read = 0
            while self._gaps:
                try:
                    await self._fill(next(iter(self._gaps)))
                except NotStored:
                    log.warning("reading back waits for the database on %s", platform)
                    await asyncio.sleep(STORE_PAUSE_S)
                    continue
                read += 1
                if read >= READ_AT_ONCE:
                    await asyncio.sleep(PACE_S)
        except SQLAlchemyError as error:
            log.warning("not all read back: %s on %s", type(error).__name__, platform)
            self._known.set()  # not when cancelled: what the next connection missed is not known yet

    async def _fill(self, place: Place) -> None:
        gap = self._gaps.get(place)
        adapter = self._adapter
        if gap is None or adapter is None:
            return
        async with gap.lock:
            if self._gaps.get(place) is not gap:
                return
            missed = await self._ask(adapter, place, gap.after)
            for message in missed:
                if message.thread and message.thread == message.message_id:
                    self._gaps.setdefault((message.chat, message.thread), Gap(message.message_id))
                await self._accept(message)
            if self._gaps.get(place) is gap:  # else the next connection has a gap of its own there
                del self._gaps[place]
        if missed:
            log.info("read back: %d messages of a chat on %s", len(missed), adapter.platform)

    async def _ask(self, adapter: ReadsBack, place: Place, after: str) -> tuple[InboundMessage, ...]:
        chat, thread = place
        for tried in range(TRIES):
            wait_s = FIRST_PAUSE_S * 2**tried
            try:
                async with asyncio.timeout(READ_S):
                    return await adapter.read_back(ChatRef(chat, thread or None), after, MAX_MESSAGES)
            except (Rejected, Unauthorized) as error:
                log.info("chat not read back: %s on %s", type(error).__name__, adapter.platform)
                return ()
            except RateLimited as error:
                wait_s = max(wait_s, error.retry_after_s)
            except (AdapterError, TimeoutError) as error:
                log.debug("chat not read back yet: %s on %s", type(error).__name__, adapter.platform)
            except Exception:  # boundary: adapter supervisor
                log.exception("chat not read back: %s", adapter.platform)
                return ()
            await asyncio.sleep(min(wait_s, MAX_PAUSE_S))
        log.warning("chat not read back after %d tries on %s", TRIES, adapter.platform)
        return ()
