"""The web adapter served over real HTTP to a client that does what a browser does, with a house behind it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import aiohttp

from trunkline.adapters.base import ChatRef, Chunk, InboundMessage, OutboundMessage
from trunkline.adapters.web.adapter import WebAdapter
from trunkline.adapters.web.conversations import Conversation, Said

TOKEN = "t0ken-of-the-link"
DEADLINE_S = 60


@dataclass
class House:
    """The gateway's side: takes messages, and may refuse to commit them."""

    inbox: asyncio.Queue[InboundMessage] = field(default_factory=asyncio.Queue)
    disk_is_full: bool = False
    said: tuple[Said, ...] = ()
    titles: dict[str, str] = field(default_factory=lambda: {"earlier": "Trip to <Basel>"})

    async def deliver(self, message: InboundMessage) -> None:
        if self.disk_is_full:
            raise OSError("no space left")
        await self.inbox.put(message)

    async def list(self, person: str) -> tuple[Conversation, ...]:
        at = datetime(2026, 1, 1, tzinfo=UTC)
        return tuple(Conversation(thread, title, at) for thread, title in self.titles.items())

    async def rename(self, person: str, thread: str, title: str) -> bool:
        known = thread in self.titles
        if known:
            self.titles[thread] = title
        return known

    async def delete(self, person: str, thread: str) -> None:
        self.titles.pop(thread, None)

    async def history(self, person: str, thread: str) -> tuple[Said, ...]:
        return self.said if (person, thread) == ("alice", "earlier") else ()


@dataclass
class Browser:
    """An HTTP client with a cookie jar that sends what a browser would."""

    adapter: WebAdapter
    house: House
    http: aiohttp.ClientSession

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.adapter.port}"

    async def sign_in(self) -> None:
        async with self.http.get(self.adapter.link) as answer:
            assert answer.status == 200

    async def get(self, path: str) -> tuple[int, str]:
        async with self.http.get(self.base + path) as answer:
            return answer.status, await answer.text()

    async def post(
        self, thread: str, body: object, origin: str | None = None, what: str = "messages"
    ) -> tuple[int, str]:
        headers = {"Origin": self.base if origin is None else origin}
        async with self.http.post(f"{self.base}/c/{thread}/{what}", json=body, headers=headers) as answer:
            return answer.status, await answer.text()

    @asynccontextmanager
    async def follow(self, thread: str, after: str) -> AsyncIterator["Events"]:
        async with self.http.get(
            f"{self.base}/c/{thread}/events", headers={"Last-Event-ID": after}
        ) as answer:
            yield Events(answer)

    async def place(self, thread: str) -> str:
        _, page = await self.get(f"/c/{thread}")
        return page.split('data-place="')[1].split('"')[0]


class Events:
    """Reads a stream of server-sent events."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer
        self.last_id = ""

    async def next(self, wanted: str = "message") -> dict[str, object]:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                fields = await self._read()
                self.last_id = fields.get("id", self.last_id)
                if fields.get("event") == wanted:
                    return dict(json.loads(fields["data"]))

    async def _read(self) -> dict[str, str]:
        fields: dict[str, str] = {}
        while line := (await self._answer.content.readline()).decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            fields[name] = value
        return fields


@asynccontextmanager
async def serving(adapter: WebAdapter, house: House) -> AsyncIterator[None]:
    ready = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(adapter.run(house.deliver, lambda _: ready.set()))
        async with asyncio.timeout(DEADLINE_S):
            await ready.wait()
        try:
            yield
        finally:
            running.cancel()


@asynccontextmanager
async def opened_browser() -> AsyncIterator[Browser]:
    house = House()
    adapter = WebAdapter("127.0.0.1", 0, "alice", TOKEN, conversations=house)
    jar = aiohttp.CookieJar(unsafe=True)
    async with serving(adapter, house), aiohttp.ClientSession(cookie_jar=jar) as http:
        yield Browser(adapter, house, http)


def answer_in(thread: str, text: str, nonce: str = "") -> OutboundMessage:
    return OutboundMessage(ChatRef("alice", thread), Chunk(text), nonce=nonce)
