"""Delivery at work over a real adapter, for its tests and the preview's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import select

from tests.adapters.telegram_house import Inbox, adapter_for, running
from tests.emulators.base import Fault
from tests.emulators.discord import DiscordEmulator
from tests.emulators.discord_live import live_adapter
from tests.emulators.telegram import TelegramEmulator
from tests.gateway.small_house import eventually
from trunkline.adapters.base import Adapter, ChatRef
from trunkline.gateway.clock import now_ms
from trunkline.gateway.delivery import Delivery, Destination, Line, payloads
from trunkline.gateway.state import outbox
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.schema import outbox as outbox_table

ANA, BO = 1001, 1002


class Lanes:
    """One connected platform whose bot's id is `bot`."""

    def __init__(self, database: Database, delivery: Delivery, adapter: Adapter) -> None:
        self.database = database
        self.delivery = delivery
        self.adapter = adapter

    def to(self, chat: str | int, thread: str | None = None) -> Destination:
        return Destination(self.adapter.platform, "bot", ChatRef(str(chat), thread))

    async def plan(self, where: Destination, text: str, source: str = "n:1", **more: Any) -> None:
        """Plans a text as a whole answer and tells its lane."""
        planned = payloads(where, self.adapter.render(text))
        await self.database.write(lambda c: outbox.plan(c, where.plan(source), planned, now_ms(), **more))
        self.delivery.kick(where.platform, where.to.chat)

    async def states(self) -> list[str]:
        query = select(outbox_table.c.state).order_by(outbox_table.c.id)
        return await self.database.read(lambda c: list(c.execute(query).scalars()))

    async def become(self, *states: str, timeout_s: float = 60.0) -> None:
        """Returns when the rows of the outbox are in these states."""

        async def met() -> bool:
            return await self.states() == list(states)

        try:
            await eventually(met, timeout_s)
        except TimeoutError:
            raise AssertionError(f"not {states} but {await self.states()}") from None


@asynccontextmanager
async def lanes(database: Database, adapter: Adapter) -> AsyncIterator[Lanes]:
    delivery = Delivery(database)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(delivery.run())
        await asyncio.sleep(0)
        delivery.connect(Line(adapter, "bot"))
        try:
            yield Lanes(database, delivery, adapter)
        finally:
            task.cancel()


@asynccontextmanager
async def telegram_lanes(database: Database, telegram: TelegramEmulator) -> AsyncIterator[Lanes]:
    for person in (ANA, BO):
        telegram.private_chat(person)
    async with running(adapter_for(telegram), Inbox(), telegram) as adapter, lanes(database, adapter) as made:
        yield made


@asynccontextmanager
async def discord_lanes(database: Database, discord: DiscordEmulator) -> AsyncIterator[Lanes]:
    async with live_adapter(discord) as live, lanes(database, live.adapter) as made:
        yield made


def flood(seconds: int) -> Fault:
    body = {
        "ok": False,
        "error_code": 429,
        "description": f"Too Many Requests: retry after {seconds}",
        "parameters": {"retry_after": seconds},
    }
    return Fault(status=429, body=body)


def refusal(code: int, description: str) -> Fault:
    return Fault(status=code, body={"ok": False, "error_code": code, "description": description})
