"""Sends what the outbox holds, chat by chat, and keeps each message's outcome.

One lane per chat: a wait or a failure in one delays no other. Retrying a send lives here and nowhere else.
"""

import asyncio
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trunkline.adapters.base import (
    Adapter,
    AdapterError,
    ChatRef,
    Chunk,
    OutboundMessage,
    RateLimited,
    Receipt,
    Rejected,
    Unavailable,
    Uncertain,
)
from trunkline.gateway.clock import now_ms
from trunkline.gateway.payloads import dump_outbound, load_outbound
from trunkline.gateway.state import outbox
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.outbox import Plan
from trunkline.gateway.state.records import OutboxRow

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 8
SEND_TIMEOUT_S = 60.0
FIRST_BACKOFF_S = 0.5
MAX_BACKOFF_S = 60.0


@dataclass(frozen=True, slots=True)
class Destination:
    """Where an answer goes on a platform. `reply_to` is quoted by its first message only."""

    platform: str
    tenant: str
    to: ChatRef
    reply_to: str | None = None
    mention: str | None = None
    ephemeral: bool = False
    group: bool = False

    def plan(self, source: str, turn: int | None = None) -> Plan:
        return Plan(source, self.platform, self.tenant, self.to.chat, self.to.thread or "", turn)


def payloads(where: Destination, chunks: Sequence[Chunk]) -> tuple[str, ...]:
    """The stored form of each chunk as a message to `where`."""
    return tuple(
        dump_outbound(
            OutboundMessage(
                to=where.to,
                chunk=chunk,
                reply_to=where.reply_to if seq == 0 else None,
                mention=where.mention,
                ephemeral=where.ephemeral,
            )
        )
        for seq, chunk in enumerate(chunks)
    )


def nonce_of(row_id: int) -> str:
    """Names an outbox row to the platform; at most 25 characters (Discord's limit)."""
    return f"tl{row_id}"


class Delivery:
    """The lanes of every connected platform. `run` owns their tasks until it is cancelled."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._adapters: dict[str, tuple[Adapter, str]] = {}
        self._lanes: dict[tuple[str, str], asyncio.Event] = {}
        self._lane_ended = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Owns the lanes until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            await asyncio.Event().wait()

    def adapter(self, platform: str) -> Adapter | None:
        """The platform's adapter while it is connected."""
        found = self._adapters.get(platform)
        return None if found is None else found[0]

    def render(self, platform: str, markdown: str) -> tuple[Chunk, ...]:
        """The text as the platform's chunks; the text itself while the platform is not connected."""
        adapter = self.adapter(platform)
        return (Chunk(markdown),) if adapter is None else adapter.render(markdown)

    def connect(self, adapter: Adapter, tenant: str) -> None:
        """Opens a platform's lanes; `sweep` starts those with something to send."""
        self._adapters[adapter.platform] = (adapter, tenant)

    @property
    def connected(self) -> dict[str, str]:
        """The tenant of each platform that has connected."""
        return {platform: tenant for platform, (_, tenant) in self._adapters.items()}

    async def drain(self, grace_s: float) -> None:
        """Waits until every lane has sent what it may send now, at most `grace_s` seconds."""
        loop = asyncio.get_running_loop()
        until = loop.time() + grace_s
        while self._lanes and loop.time() < until:
            self._lane_ended.clear()
            try:
                async with asyncio.timeout(until - loop.time()):
                    await self._lane_ended.wait()
            except TimeoutError:
                return

    async def sweep(self) -> None:
        """Starts the lanes of chats with planned messages: what other processes planned, above all."""
        for platform, (_, tenant) in list(self._adapters.items()):
            chats = await self._database.read(
                lambda c, p=platform, t=tenant: outbox.waiting_chats(c, p, t)  # type: ignore[misc]
            )
            for chat in chats:
                self.kick(platform, chat)

    def kick(self, platform: str, chat: str) -> None:
        """Tells the chat's lane that something is planned, starting the lane when it isn't running."""
        if self._group is None or platform not in self._adapters:
            return
        lane = self._lanes.get((platform, chat))
        if lane is not None:
            lane.set()
            return
        lane = asyncio.Event()
        self._lanes[(platform, chat)] = lane
        self._group.create_task(self._run_lane(platform, chat, lane), name=f"lane {platform}")

    async def _run_lane(self, platform: str, chat: str, kicked: asyncio.Event) -> None:
        """Sends the chat's planned messages in order, and ends when none is left."""
        try:
            while True:
                kicked.clear()
                adapter, tenant = self._adapters[platform]
                found = await self._database.read(
                    lambda c, t=tenant: outbox.due(c, platform, t, chat, now_ms())  # type: ignore[misc]
                )
                if found is None:
                    if kicked.is_set():
                        continue
                    return
                row, wait_ms = found
                if wait_ms is not None:
                    await asyncio.sleep(wait_ms / 1000)
                    continue
                await self._deliver(adapter, row)
        finally:
            self._lanes.pop((platform, chat), None)
            self._lane_ended.set()

    async def _deliver(self, adapter: Adapter, row: OutboxRow) -> None:
        await self._database.write(lambda c: outbox.mark_sending(c, row.id))
        try:
            message = load_outbound(row.payload)
            receipt = await self._call(adapter, row, message)
        except AdapterError as error:
            await self._settle_failure(adapter, row, error)
        except TimeoutError:
            await self._settle_failure(adapter, row, Uncertain("no answer in time"))
        except Exception as error:
            log.exception("delivery failed: row %s on %s", row.id, row.platform)
            await self._end(row, "refused", f"{type(error).__name__}: {error}")
        else:
            await self._database.write(
                lambda c: outbox.mark_sent(c, row.id, receipt.message_id, row.payload, now_ms())
            )

    async def _call(self, adapter: Adapter, row: OutboxRow, message: OutboundMessage) -> Receipt:
        async with asyncio.timeout(SEND_TIMEOUT_S):
            if row.message_id is not None:
                return await adapter.edit(row.message_id, message)
            return await adapter.send(replace(message, nonce=nonce_of(row.id)))

    async def _settle_failure(self, adapter: Adapter, row: OutboxRow, error: AdapterError) -> None:
        """Repeats only what is safe to repeat (spec: delivery, section 2)."""
        edits = row.message_id is not None
        if isinstance(error, RateLimited):
            until = now_ms() + int(error.retry_after_s * 1000)
            await self._database.write(lambda c: outbox.put_off(c, row.id, until, str(error)))
            await self._database.write(lambda c: outbox.hold_chat(c, row, until))
        elif isinstance(error, Rejected) and edits:
            # The message to edit is gone or too old: what it should say goes out as a new one.
            await self._database.write(lambda c: outbox.replan_as_new(c, row.id, str(error)))
        elif isinstance(error, Rejected):
            await self._end(row, "refused", str(error))
        elif isinstance(error, Uncertain) and not (edits or adapter.limits.nonce):
            await self._end(row, "unknown", str(error))
        elif isinstance(error, (Unavailable, Uncertain)) and row.attempts + 1 < MAX_ATTEMPTS:
            until = now_ms() + int(_backoff_s(row.attempts) * 1000)
            await self._database.write(lambda c: outbox.put_off(c, row.id, until, str(error)))
        else:
            await self._end(row, "refused", str(error))

    async def _end(self, row: OutboxRow, state: str, error: str) -> None:
        log.warning("message not delivered: row %s on %s is %s", row.id, row.platform, state)
        await self._database.write(lambda c: outbox.mark_ended(c, row.id, state, error))


def _backoff_s(attempts: int) -> float:
    longest = min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2.0**attempts)
    return random.uniform(longest / 2, longest)
