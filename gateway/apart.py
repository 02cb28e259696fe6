"""An event loop in a thread of its own for other packages' code: where that blocks, no chat waits.

All of it shares the one loop, so that a package may keep what is bound to a loop between its calls.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any, TypeVar

from trunkline.agent.tools.base import ToolContext, ToolResult

T = TypeVar("T")


class Apart:
    """The thread begins with the first call. It ends with the process, which waits for nobody's code."""

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Awaits `work` over there. Cancelling comes through to it, and is not held up by it.

        Raises RuntimeError where the work cancelled itself.
        """

        async def awaited() -> T:
            return await work()

        done = asyncio.run_coroutine_threadsafe(awaited(), self._loop)
        try:
            return await asyncio.wrap_future(done)
        except asyncio.CancelledError as error:
            asked = asyncio.current_task()
            if asked is not None and asked.cancelling():
                raise
            raise RuntimeError("it cancelled itself") from error

    def tool(self, run: Callable[[Any, ToolContext], Awaitable[ToolResult]]) -> Any:
        """The same tool's `run`, over there."""

        async def run_apart(arguments: Any, context: ToolContext) -> ToolResult:
            return await self.run(lambda: run(arguments, context))

        return run_apart

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, name="other packages", daemon=True).start()
        return loop
