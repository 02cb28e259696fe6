"""A stand-in for the house in the Telegram adapter's tests: inboxes to deliver to, runs with an owner."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.emulators.telegram import TelegramEmulator
from trunkline.adapters.base import CommandSpec, InboundMessage
from trunkline.adapters.telegram import TelegramAdapter
from trunkline.adapters.telegram_faults import PollPacing

ANN = 1001
END = "that was all"
FAST = PollPacing(backoff_min_s=0.02, backoff_max_s=0.05)
COMMANDS = (
    CommandSpec("stop", "End what is running"),
    CommandSpec("delete-me", "Forget everything about me"),
)


@dataclass
class Inbox:
    """What was delivered, with waits; `refuse` makes deliveries fail as a full disk would."""

    messages: list[InboundMessage] = field(default_factory=list)
    tenants: list[str] = field(default_factory=list)
    refuse: Callable[[InboundMessage], bool] = lambda message: False
    arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def deliver(self, message: InboundMessage) -> None:
        if self.refuse(message):
            raise OSError("disk full")
        async with self.arrived:
            self.messages.append(message)
            self.arrived.notify_all()

    async def count(self, wanted: int) -> list[InboundMessage]:
        async with asyncio.timeout(60), self.arrived:
            await self.arrived.wait_for(lambda: len(self.messages) >= wanted)
        return self.messages

    async def next(self) -> InboundMessage:
        """The only message so far; taken out."""
        await self.count(1)
        assert len(self.messages) == 1, self.messages
        return self.messages.pop()

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.messages]


def adapter_for(telegram: TelegramEmulator, **options: object) -> TelegramAdapter:
    settings: dict[str, object] = {"base_url": telegram.url, "pacing": FAST, "commands": COMMANDS, **options}
    return TelegramAdapter(telegram.token, **settings)  # type: ignore[arg-type]


@asynccontextmanager
async def running(
    adapter: TelegramAdapter, inbox: Inbox, telegram: TelegramEmulator
) -> AsyncIterator[TelegramAdapter]:
    """The adapter connected and polling; cancelled at the end."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(adapter.run(inbox.deliver, inbox.tenants.append))
        await telegram.wait_for(lambda: telegram.is_polled)
        try:
            yield adapter
        finally:
            task.cancel()


class Heard:
    """A bot that only listens: `all()` is what arrived, the closing mark left out."""

    def __init__(self, telegram: TelegramEmulator) -> None:
        self._telegram = telegram
        self._messages: list[InboundMessage] = []
        self._complete = asyncio.Event()

    async def deliver(self, message: InboundMessage) -> None:
        if message.text == END:
            self._complete.set()
        else:
            self._messages.append(message)

    async def all(self) -> list[InboundMessage]:
        """Everything up to now: what is said is delivered in order, so a last word closes it."""
        self._complete.clear()
        await self._telegram.direct_message(9999, END)
        async with asyncio.timeout(60):
            await self._complete.wait()
        messages, self._messages = self._messages, []
        return messages

    async def one(self) -> InboundMessage:
        [message] = await self.all()
        return message


@asynccontextmanager
async def listening(telegram: TelegramEmulator) -> AsyncIterator[Heard]:
    heard = Heard(telegram)
    adapter = adapter_for(telegram)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(adapter.run(heard.deliver, lambda tenant: None))
        await telegram.wait_for(lambda: telegram.is_polled)
        yield heard
        task.cancel()
