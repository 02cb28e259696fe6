"""Sends what waits for the memory providers: turns, mirrored entries, deletions; again until it is taken.

The rows are written elsewhere, in the transaction of what they tell of. Of one owner they go to a provider in
their order, one at a time; owners go beside each other.
"""

import asyncio
import logging
import math
import random
from collections.abc import Sequence

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from trunkline.agent.providers.base import (
    CompletedTurn,
    Conversation,
    ForgetAll,
    ForgetFact,
    Forgotten,
    MemoryProvider,
    MemoryWrite,
    ProviderDown,
    ProviderError,
    ProviderLocked,
    ProviderRefused,
)
from trunkline.agent.providers.dispatch import Dispatcher, sendable
from trunkline.agent.stream_text import clean
from trunkline.gateway.clock import now_ms
from trunkline.gateway.state import provider_rows, provider_view
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.provider_payloads import OutboxRow, SessionEnded, ToForget, TurnSaid, Written
from trunkline.gateway.state.provider_view import Erasing

log = logging.getLogger(__name__)

LOOK_S = 2.0
SEND_TIMEOUT_S = 30.0
LEASE_MS = 45_000
"""A row that a dead process was sending is taken up again after this time."""
PARALLEL_OWNERS = 4
FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 600.0
LOCKED_PAUSE_S = 600.0
MOST_TRIES_OF_AN_END = 8
"""That a session has ended is told so often at most, for some minutes: what is said since waits behind it."""
DRAIN_S = 5.0
ERASE_LOOK_S = 0.05


class ProviderOutbox:
    """The rows of one process's providers. `run` owns the sending; what it is cancelled at is sent again."""

    def __init__(self, database: Database, dispatcher: Dispatcher) -> None:
        self._database = database
        self._dispatcher = dispatcher
        self._wake = {name: asyncio.Event() for name in dispatcher.names}

    def kick(self) -> None:
        """Something was written: look now instead of at the next look."""
        for event in self._wake.values():
            event.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for name in self._wake:
                group.create_task(self._keep_sending(name), name=f"provider outbox {name}")

    async def drain(self, timeout_s: float = DRAIN_S) -> None:
        """Sends what is due now, for so long at most."""
        try:
            async with asyncio.timeout(timeout_s), asyncio.TaskGroup() as group:
                for name in self._wake:
                    group.create_task(self._send_due(name))
        except TimeoutError:
            log.info("providers' outbox cut off: the next start goes on with it")

    async def erased(self, owners: Sequence[str], since_ms: int, timeout_s: float = DRAIN_S) -> Erasing:
        """How far the providers are with what they were told to erase since then, after a moment for it."""
        self.kick()
        loop = asyncio.get_running_loop()
        until_s = loop.time() + timeout_s
        while True:
            erasing = await self._database.read(lambda c: provider_view.erasing(c, owners, since_ms))
            if erasing.is_settled or loop.time() >= until_s:
                return erasing
            await asyncio.sleep(ERASE_LOOK_S)

    async def _keep_sending(self, name: str) -> None:
        try:
            await self._database.write(lambda c: provider_rows.wake(c, name))
        except DBAPIError as error:
            log.warning("providers' outbox not woken: %s", type(error).__name__)
        while True:
            self._wake[name].clear()
            await self._send_due(name)
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._wake[name].wait()
            except TimeoutError:
                continue

    async def _send_due(self, name: str) -> None:
        """Sends until nothing is due, or the provider has to be left alone."""
        while self._dispatcher.pause_s(name) == 0:
            try:
                rows = await self._database.write(
                    lambda c: provider_rows.take(c, name, now_ms(), LEASE_MS, PARALLEL_OWNERS)
                )
            except DBAPIError as error:
                log.warning("providers' outbox not read: %s", type(error).__name__)
                return
            if not rows:
                return
            await self._send_rows(rows)

    async def _send_rows(self, rows: Sequence[OutboxRow]) -> None:
        unsent = {row.id: row for row in rows}

        async def send_one(row: OutboxRow) -> None:
            try:
                await self._send(row)
            except DBAPIError as error:
                log.warning("providers' outbox not written: %s", type(error).__name__)
            del unsent[row.id]

        try:
            async with asyncio.TaskGroup() as group:
                for row in rows:
                    group.create_task(send_one(row))
        finally:
            if unsent:
                left = list(unsent.values())
                await self._database.write(lambda c: provider_rows.give_back(c, left))

    async def _send(self, row: OutboxRow) -> None:
        remotes = await self._database.read(lambda c: _remote_ids(c, row))
        stamp_ms = now_ms()
        try:
            remote, left = await self._dispatcher.carry_out(
                row.provider, lambda provider: _carry_out(provider, row, remotes), SEND_TIMEOUT_S
            )
        except ProviderRefused as error:
            reason = str(error)
            log.warning("memory provider refused a row: %s %s", row.provider, reason)
            await self._database.write(lambda c: provider_rows.set_aside(c, row, reason))
        except ProviderError as error:
            reason, due_ms = str(error), stamp_ms + int(_pause_s(error, row.attempts) * 1000)
            if isinstance(row.payload, SessionEnded) and row.attempts >= MOST_TRIES_OF_AN_END:
                log.warning("memory provider not told of a session's end: %s %s", row.provider, reason)
                await self._database.write(lambda c: provider_rows.set_aside(c, row, reason))
            else:
                await self._database.write(lambda c: provider_rows.retry(c, row, reason, due_ms))
        else:
            await self._database.write(lambda c: provider_rows.finish(c, row, remote, left, stamp_ms))


def _remote_ids(connection: Connection, row: OutboxRow) -> tuple[str, ...]:
    match row.payload:
        case Written(before_hash=before) if before:
            return provider_rows.remote_ids(connection, row, [before])
        case ToForget(hashes=hashes) if hashes:
            return provider_rows.remote_ids(connection, row, hashes)
    return ()


async def _carry_out(provider: MemoryProvider, row: OutboxRow, remotes: Sequence[str]) -> tuple[str, str]:
    """The new entry's id at the provider, and what the provider could not erase; each mostly empty."""
    match row.payload:
        case TurnSaid() as said:
            await provider.sync(_completed(said), row.scope)
        case Written() as written:
            write = MemoryWrite(
                written.key,
                written.action,
                written.target,
                sendable(written.before),
                sendable(written.after),
                next(iter(remotes), ""),
            )
            return clean(await provider.on_memory_write(write, row.scope)), ""
        case ToForget() as forget:
            done = await _erase(provider, row, forget, remotes)
            return "", clean(done.left)
        case SessionEnded(session=session, platform=platform):
            await provider.on_session_end(Conversation(session, platform), row.scope)
    return "", ""


async def _erase(
    provider: MemoryProvider, row: OutboxRow, forget: ToForget, remotes: Sequence[str]
) -> Forgotten:
    if forget.all:
        return await provider.forget(ForgetAll(), row.scope)
    wordings = tuple(map(sendable, forget.wordings))
    return await provider.forget(ForgetFact(wordings, tuple(remotes), forget.turns), row.scope)


def _completed(said: TurnSaid) -> CompletedTurn:
    return CompletedTurn(
        said.key,
        Conversation(said.session, said.platform),
        said.author,
        sendable(said.user),
        sendable(said.assistant),
        said.created,
    )


def _pause_s(error: ProviderError, attempts: int) -> float:
    """How long a row waits after its failure: longer each time, or what the vendor asked for."""
    if isinstance(error, ProviderLocked):
        return LOCKED_PAUSE_S
    asked_s = error.retry_after_s if isinstance(error, ProviderDown) else None
    if asked_s is not None:
        return asked_s
    doubled_s = FIRST_PAUSE_S * math.pow(2, min(attempts - 1, 16))
    return min(LONGEST_PAUSE_S, doubled_s) * random.uniform(0.8, 1.2)
