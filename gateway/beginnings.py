"""How turns begin side by side: one after the other, since beginning one is work for the processor, and a
start that takes up many would keep `/stop` and new messages waiting.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from trunkline.gateway.clock import now_ms

PAUSE_S = 0.1
"""After the beginning of a turn that has waited since before the start: a little longer harms it least."""
LOOK_S = 0.01
LATE_S = 0.02
LOOKS = 10
"""After so many looks the next turn begins however busy the loop is."""


class Beginnings:
    """The place in which one turn at a time begins. It is free again when the loop is on time after that."""

    def __init__(self) -> None:
        self._place = asyncio.Lock()
        self._since_ms = now_ms()

    @asynccontextmanager
    async def one(self, received_ms: int) -> AsyncGenerator[None]:
        """Entered around the beginning of a turn, whose message came at `received_ms`."""
        await self._place.acquire()
        try:
            yield
        finally:
            pause_s = PAUSE_S if received_ms < self._since_ms else 0.0
            asyncio.get_running_loop().call_later(pause_s, self._look_later, LOOKS)

    def _look_later(self, looks: int) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time() + LOOK_S
        loop.call_at(due_s, self._look, due_s, looks - 1)

    def _look(self, due_s: float, looks: int) -> None:
        if looks and asyncio.get_running_loop().time() > due_s + LATE_S:
            self._look_later(looks)
        else:
            self._place.release()
