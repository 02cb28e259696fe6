"""A DiscordAdapter at work against the emulator, for tests: what it delivered, and waits on both sides."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.emulators.discord import DiscordEmulator
from trunkline.adapters.base import ChatRef, Chunk, CommandSpec, InboundMessage, OutboundMessage
from trunkline.adapters.discord import DiscordAdapter

COMMANDS = (CommandSpec("help", "What it can do"), CommandSpec("search", "Finds old talk", "words"))
CONNECT_TIMEOUT_S = 60.0


@dataclass
class Live:
    emulator: DiscordEmulator
    adapter: DiscordAdapter
    received: list[InboundMessage] = field(default_factory=list)
    tenants: asyncio.Queue[str] = field(default_factory=lambda: asyncio.Queue(8))

    stop: Callable[[], object] = lambda: None

    async def deliver(self, message: InboundMessage) -> None:
        self.received.append(message)
        await self.emulator.notify()

    async def nth(self, count: int) -> InboundMessage:
        """The message number `count`, from 1, once it is here."""
        await self.emulator.wait_for(lambda: len(self.received) >= count)
        return self.received[count - 1]

    async def only(self) -> InboundMessage:
        """The one message delivered: a second one sent after all others marks the end."""
        await self.emulator.direct_message("999", "end of test")
        await self.emulator.wait_for(lambda: self.received and self.received[-1].text == "end of test")
        [message] = self.received[:-1]
        return message

    async def nothing(self) -> bool:
        """Whether nothing was delivered of all that happened so far."""
        await self.emulator.direct_message("999", "end of test")
        return (await self.nth(1)).text == "end of test"


@asynccontextmanager
async def live_adapter(
    emulator: DiscordEmulator,
    commands: Sequence[CommandSpec] = COMMANDS,
    adapter: DiscordAdapter | None = None,
) -> AsyncIterator[Live]:
    adapter = adapter or DiscordAdapter(emulator.token, commands=commands, connector=emulator.connector)
    live = Live(emulator, adapter)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(live.adapter.run(live.deliver, live.tenants.put_nowait))
        live.stop = running.cancel
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            await live.tenants.get()
        yield live
        running.cancel()


def outbound(
    text: str,
    to: ChatRef,
    *,
    nonce: str = "",
    reply_to: str | None = None,
    mention: str | None = None,
    ephemeral: bool = False,
    quiet: bool = False,
) -> OutboundMessage:
    return OutboundMessage(to, Chunk(text), nonce, reply_to, mention, ephemeral, quiet)
