"""What the emulated servers of memory providers share: outages that last until they are lifted."""

import asyncio
from typing import Literal

from aiohttp import web

from tests.emulators.base import Emulator, Handler

Outage = Literal["down", "locked", "slow", "garbled", "cut"]

PAGE = "<!doctype html><title>Welcome</title><p>Please sign in to the network.</p>"


class ProviderServer(Emulator):
    """A vendor's server. `down` answers 503, `locked` 401; `slow` answers when the outage is lifted.

    `garbled` answers with a page, as a proxy in between may; `cut` closes the connection.
    """

    def __init__(self) -> None:
        super().__init__()
        self.app.middlewares.append(self._failing)
        self._outage: Outage | None = None
        self._lifted = asyncio.Event()
        self.waiting = 0
        self._until_lost = 0

    def fail(self, outage: Outage | None) -> None:
        """From now on every request fails like this; None lifts it."""
        self._outage = outage
        if outage is None:
            self._lifted.set()
        else:
            self._lifted.clear()

    def lose(self, number: int) -> None:
        """The answer to the request of this number from now on, 1 for the next, is lost; 0 loses none."""
        self._until_lost = number

    async def close_connections(self) -> None:
        self._lifted.set()

    @web.middleware
    async def _failing(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self._outage == "down":
            return web.json_response({"error": "out of order"}, status=503)
        if self._outage == "locked":
            return web.json_response({"error": "unknown key"}, status=401)
        if self._outage == "slow":
            self.waiting += 1
            await self.notify()
            await self._lifted.wait()
        if self._outage == "garbled":
            return web.Response(text=PAGE, content_type="text/html")
        if self._outage == "cut":
            return _cut(request)
        answer = await handler(request)
        self._until_lost -= 1
        return _cut(request) if self._until_lost == 0 else answer


def _cut(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
