"""What every emulator shares: a server on loopback, a record of calls, waits, faults on order."""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

SHOWN_CHARS = 300
"""Of a call, in the message of a wait that was not met."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request that reached the emulator: the method's name, its arguments, and when."""

    method: str
    arguments: dict[str, Any]
    at: float = field(default_factory=time.monotonic)


@dataclass(slots=True)
class Fault:
    """What to do with the next call of a method instead of serving it.

    `status` and `body` answer it; `delay_s` waits first; `accept_then_drop` serves it and cuts the
    connection before the answer; `drop` cuts it without serving; `serve` only waits and then serves it.
    """

    status: int = 500
    body: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    drop: bool = False
    accept_then_drop: bool = False
    serve: bool = False


class Emulator:
    """A server on 127.0.0.1 with a port of its own. Subclasses add routes and record calls.

    `violations` collects every breach of a published API description, by the client or by the emulator
    itself; a test fails at the end when it isn't empty.
    """

    def __init__(self) -> None:
        self.app = web.Application(client_max_size=64 * 2**20)
        self.calls: list[Call] = []
        self.violations: list[str] = []
        self.faults: dict[str, deque[Fault]] = defaultdict(deque)
        self.port = 0
        self._changed = asyncio.Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def running(self, port: int = 0) -> AsyncIterator[Self]:
        runner = web.AppRunner(self.app, shutdown_timeout=0.2, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        try:
            yield self
        finally:
            await self.close_connections()
            await runner.cleanup()

    async def close_connections(self) -> None:
        """Ends long polls and sockets, so that the server stops at once."""

    def fail_next(self, method: str, fault: Fault, times: int = 1) -> None:
        self.faults[method].extend([fault] * times)

    def take_fault(self, method: str) -> Fault | None:
        queue = self.faults.get(method)
        return queue.popleft() if queue else None

    def calls_of(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method == method]

    async def record(self, method: str, arguments: dict[str, Any]) -> Call:
        call = Call(method, arguments)
        self.calls.append(call)
        await self.notify()
        return call

    async def notify(self) -> None:
        """Wakes every `wait_for`; call it after any change a test may wait on."""
        async with self._changed:
            self._changed.notify_all()

    async def wait_for(self, met: Callable[[], object], timeout_s: float = 60.0) -> None:
        """Returns when `met()` is true; fails with what did arrive when it isn't in time."""
        try:
            async with asyncio.timeout(timeout_s):
                async with self._changed:
                    await self._changed.wait_for(lambda: bool(met()))
        except TimeoutError:
            seen = [f"{call.method} {call.arguments}"[:SHOWN_CHARS] for call in self.calls[-12:]]
            raise AssertionError(f"not met within {timeout_s} s; last calls: {seen}") from None


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
