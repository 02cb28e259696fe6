"""The web page as a browser asks for it: cookies kept, the page's own origin sent, its event stream read."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

DEADLINE_S = 60.0


class Page:
    """One browser. `get` and `post` return status and body, whatever they are."""

    def __init__(self, http: aiohttp.ClientSession, port: int) -> None:
        self._http = self.http = http
        self.base = f"http://127.0.0.1:{port}"

    async def open_link(self, token: str) -> tuple[int, str]:
        """Follows the link that is printed at start; the cookie stays."""
        return await self.get(f"/?token={token}")

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        async with self._http.get(self.base + path, headers=headers) as answer:
            return answer.status, await answer.text()

    async def post(self, thread: str, id: str, text: str, **headers: str) -> tuple[int, str]:
        sent = {"Origin": self.base, **headers}
        url = f"{self.base}/c/{thread}/messages"
        async with self._http.post(url, json={"id": id, "text": text}, headers=sent) as answer:
            return answer.status, await answer.text()

    async def place(self, thread: str) -> str:
        """Where the event stream goes on from what the page shows now."""
        _, shown = await self.get(f"/c/{thread}")
        return shown.split('data-place="')[1].split('"')[0]

    @asynccontextmanager
    async def follow(self, thread: str, after: str) -> AsyncIterator["Events"]:
        url = f"{self.base}/c/{thread}/events"
        async with self._http.get(url, headers={"Last-Event-ID": after}) as answer:
            yield Events(answer)


class Events:
    """A stream of server-sent events."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer
        self.bodies: list[str] = []

    async def until(self, text: str) -> str:
        """The first body of an answer that has this text; `bodies` keeps all states seen on the way."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                name, content = await self._next()
                if name == "message" and not content["by_person"]:
                    self.bodies.append(content["body"])
                    if text in content["body"]:
                        return self.bodies[-1]

    async def _next(self) -> tuple[str, dict[str, Any]]:
        fields: dict[str, str] = {}
        while True:
            raw = await self._answer.content.readline()
            if not raw:
                raise AssertionError(f"the event stream ended; seen: {self.bodies[-3:]}")
            line = raw.decode().rstrip("\n")
            if not line and "data" in fields:
                return fields.get("event", ""), json.loads(fields["data"])
            name, _, value = line.partition(": ")
            fields = {**fields, name: value} if line else {}


@asynccontextmanager
async def opened_page(port: int) -> AsyncIterator[Page]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        await _served(port)
        yield Page(http, port)


async def _served(port: int) -> None:
    """Returns when the port is listened to: the page comes up beside the platforms."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                await writer.wait_closed()
                return
