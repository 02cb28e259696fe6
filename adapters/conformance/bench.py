"""A stand-in for a platform as checks use it, and one for the house that an adapter delivers to."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Literal, NoReturn

from trunkline.adapters.base import (
    Adapter,
    AdapterError,
    ChatRef,
    Chunk,
    InboundMessage,
    NotStored,
    OutboundMessage,
    ReadsBack,
    Unauthorized,
)

DEADLINE_S = 10.0
"""For anything awaited. Nothing is timed: a slow machine passes, a hang fails."""
NONCE_CHARS = 25

Where = Literal["direct", "room", "thread"]
Author = Literal["person", "bot", "nobody"]
Call = Literal["send", "edit", "typing"]


class Unsupported(Exception):
    """The platform has nothing like that."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A message of the bot as people see it now. `pings_many`: it notified others than who asked."""

    text: str
    buttons: tuple[str, ...] = ()
    pings_many: bool = False


class AdapterBench(ABC):
    """A stand-in for one platform. Methods that are not overridden say that the platform lacks the thing.

    The same person writes everywhere. `write` and the like return when the platform has it, not when the
    adapter does; the ids are the platform's.
    """

    repeats_unstored = True
    """Whether a message that the house could not store comes again: from the platform, or from the writer,
    who hears that it failed and sends the same once more (`write` does that, under the same id)."""

    @abstractmethod
    def adapter(self) -> Adapter:
        """A new one, with a command `help` that takes an argument; not running."""

    @abstractmethod
    async def write(
        self,
        text: str,
        where: Where = "direct",
        *,
        mention: bool = True,
        by: Author = "person",
        reply_to: str | None = None,
    ) -> str:
        """Somebody writes; returns the message's id. `reply_to` is an id of a message of the bot."""

    @abstractmethod
    async def shown(self, to: ChatRef) -> Sequence[Shown]:
        """The bot's messages in a chat, oldest first, for everybody there to see."""

    async def ready(self) -> None:  # noqa: B027
        """Returns when what is written from now on reaches the adapter that said it is connected."""

    async def delivered(self, adapter: Adapter, message: InboundMessage) -> None:  # noqa: B027
        """Called for each message the adapter delivers; for platforms that wait for an answer."""

    def length(self, chunk: Chunk) -> int:
        """A chunk's length in the unit of `Limits.message_chars`."""
        return len(chunk.text)

    def adapter_with_bad_token(self) -> Adapter:
        unsupported()

    async def edit(self, message_id: str, text: str) -> None:
        """The person changes what they wrote in the direct chat."""
        unsupported()

    async def delete(self, message_id: str) -> None:
        """The person takes back what they wrote in the room."""
        unsupported()

    async def attach(self, name: str, content: bytes, text: str) -> str:
        """The person sends a file with some words in the direct chat; returns the message's id."""
        unsupported()

    async def files(self, to: ChatRef) -> Sequence[tuple[str, bytes]]:
        """The bot's files in a chat, oldest first, by name and content."""
        unsupported()

    async def call(self, command: str, argument: str) -> None:
        """The person uses a command in the direct chat, the platform's own way."""
        unsupported()

    async def press(self, to: ChatRef, message_id: str, label: str) -> None:
        """The person presses a button under a message of the bot."""
        unsupported()

    async def react(self, to: ChatRef, message_id: str, emoji: str) -> None:
        """The person puts a reaction on a message of the bot."""
        unsupported()

    async def repeat(self) -> None:
        """The platform tells of the last message once more, as it does when it is unsure."""
        unsupported()

    async def cut(self) -> None:
        """The connection breaks, and may be made again at once."""
        unsupported()

    def refuse_next(self, call: Call, kind: type[AdapterError]) -> None:
        """The platform answers the next such call so that it must raise this kind."""
        unsupported()


def unsupported() -> NoReturn:
    raise Unsupported


@dataclass
class House:
    """Stands for the house: runs the adapter, again when it ends, and takes what it delivers."""

    bench: AdapterBench
    adapter: Adapter
    received: list[InboundMessage] = field(default_factory=list)
    offered: list[str] = field(default_factory=list)
    tenants: list[str] = field(default_factory=list)
    fail_next: int = 0
    free: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: asyncio.TaskGroup | None = None
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def deliver(self, message: InboundMessage) -> None:
        """Commits, unless the disk is full; what is known by its key is committed once, as by the inbox."""
        self.offered.append(message.key)
        await self._notify()
        await self.free.wait()
        if self.fail_next:
            self.fail_next -= 1
            await self._notify()
            raise NotStored("the disk is full")
        if message.key not in {known.key for known in self.received}:
            self.received.append(message)
        await self._notify()
        await self.bench.delivered(self.adapter, message)

    async def run(self) -> None:
        """As a supervisor does: whatever but a wrong token ends the adapter, it is made and run anew."""
        while True:
            try:
                await self.adapter.run(self.deliver, self._connected)
                return
            except Unauthorized:
                raise
            except AdapterError:
                self.adapter = self.bench.adapter()

    async def until(self, met: Callable[[], object]) -> None:
        async with asyncio.timeout(DEADLINE_S), self._changed:
            await self._changed.wait_for(lambda: bool(met()))

    async def count(self, wanted: int) -> list[InboundMessage]:
        """The first so many messages, once they are here."""
        await self.until(lambda: len(self.received) >= wanted)
        return self.received[:wanted]

    async def one(self) -> InboundMessage:
        return (await self.count(1))[0]

    def _connected(self, tenant: str) -> None:
        self.tenants.append(tenant)
        self._wake.set()
        if self.received and isinstance(self.adapter, ReadsBack) and self.tasks is not None:
            self.tasks.create_task(self._read_back(self.adapter))

    async def _read_back(self, adapter: ReadsBack) -> None:
        """What was written since the last stored message, as the house asks after every break."""
        last = self.received[-1]
        if last.message_id is None:
            return
        for message in await adapter.read_back(ChatRef(last.chat, last.thread), last.message_id, 100):
            await self.deliver(message)

    async def connected(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            await self._wake.wait()
        await self.bench.ready()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def __post_init__(self) -> None:
        self._wake = asyncio.Event()
        self.free.set()


@asynccontextmanager
async def running(bench: AdapterBench) -> AsyncIterator[House]:
    """The adapter connected; cancelled at the end."""
    house = House(bench, bench.adapter())
    try:
        async with asyncio.TaskGroup() as tasks:
            house.tasks = tasks
            task = tasks.create_task(house.run())
            await house.connected()
            try:
                yield house
            finally:
                task.cancel()
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None


def message_to(asked: InboundMessage, text: str) -> OutboundMessage:
    return OutboundMessage(ChatRef(asked.chat, asked.thread), Chunk(text))


def rendered(house: House, asked: InboundMessage, text: str) -> OutboundMessage:
    (chunk,) = house.adapter.render(text)
    return replace(message_to(asked, text), chunk=chunk)
