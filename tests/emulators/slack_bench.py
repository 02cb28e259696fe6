"""A running SlackAdapter before the emulator, with an inbox that a test can hold or break."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.emulators.slack import APP_TOKEN, BOT_TOKEN, SlackEmulator
from trunkline.adapters.base import ChatRef, Chunk, CommandSpec, InboundMessage, OutboundMessage
from trunkline.adapters.slack import SlackAdapter, Timing

COMMANDS = (
    CommandSpec("help", "What I can do"),
    CommandSpec("stop", "Stop"),
    CommandSpec("model", "Model", "name"),
)
SOON_S = 0.6
QUICK = Timing(ping_s=0.2, connect_s=1.5, lost_after_s=3.0, check_s=0.05, call_s=5.0)


class Inbox:
    """Keeps what is delivered; `broken` times it fails first, as a database that can't commit."""

    def __init__(self) -> None:
        self.messages: list[InboundMessage] = []
        self.broken = 0
        self.attempts = 0
        self.held = asyncio.Event()
        self.held.set()
        self._arrived = asyncio.Condition()

    async def deliver(self, message: InboundMessage) -> None:
        self.attempts += 1
        await self.held.wait()
        if self.broken:
            self.broken -= 1
            raise OSError("disk full")
        self.messages.append(message)
        async with self._arrived:
            self._arrived.notify_all()

    async def holding(self, count: int) -> list[InboundMessage]:
        async with asyncio.timeout(60), self._arrived:
            await self._arrived.wait_for(lambda: len(self.messages) >= count)
        return self.messages

    @property
    def keys(self) -> set[str]:
        return {message.key for message in self.messages}


@dataclass(frozen=True, slots=True)
class Bench:
    slack: SlackEmulator
    adapter: SlackAdapter
    inbox: Inbox

    async def last(self) -> InboundMessage:
        """The newest message once everything sent so far is acknowledged."""
        await self.slack.all_acked()
        return self.inbox.messages[-1]


@asynccontextmanager
async def emulated() -> AsyncIterator[SlackEmulator]:
    """Slack with a channel C1; at the end nothing may have broken the published types.

    It waits long before it sends an event again: a test of that sets `ack_timeout_s` to SOON_S.
    """
    async with SlackEmulator(ack_timeout_s=60.0).running() as emulator:
        emulator.workspace.add_channel("C1", "channel", ("U1", "U2"))
        yield emulator
    assert emulator.violations == [], emulator.violations


def adapter_for(slack: SlackEmulator, bot_token: str = BOT_TOKEN, app_token: str = APP_TOKEN) -> SlackAdapter:
    return SlackAdapter(bot_token, app_token, commands=COMMANDS, base_url=slack.api_url, timing=QUICK)


@asynccontextmanager
async def running(
    slack: SlackEmulator, inbox: Inbox | None = None, adapter: SlackAdapter | None = None
) -> AsyncIterator[Bench]:
    inbox = inbox or Inbox()
    adapter = adapter or adapter_for(slack)
    ready = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(adapter.run(inbox.deliver, lambda _: ready.set()))
        async with asyncio.timeout(60):
            await ready.wait()
        yield Bench(slack, adapter, inbox)
        task.cancel()


def said(text: str, chat: str = "C1", thread: str | None = None, **more: object) -> OutboundMessage:
    return OutboundMessage(ChatRef(chat, thread), Chunk(text), **more)  # type: ignore[arg-type]
