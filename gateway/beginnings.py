"""How many turns begin at the same time: beginning one is work for the processor, so a start that takes up
many would keep `/stop` and new messages waiting. Instead the turns wait a little for each other.
"""

import asyncio

AT_ONCE = 1
LOOK_S = 0.01
LATE_S = 0.02
LOOKS = 10
"""After so many looks the next turn begins however busy the loop is."""


class Beginnings:
    """Entered around the beginning of a turn. The place is free again when the loop is on time after it."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(AT_ONCE)

    async def __aenter__(self) -> None:
        await self._places.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._look_later(LOOKS)

    def _look_later(self, looks: int) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time() + LOOK_S
        loop.call_at(due_s, self._look, due_s, looks - 1)

    def _look(self, due_s: float, looks: int) -> None:
        if looks and asyncio.get_running_loop().time() > due_s + LATE_S:
            self._look_later(looks)
        else:
            self._places.release()
