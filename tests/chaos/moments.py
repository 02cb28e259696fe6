"""When to kill: each moment is waited for, and a little longer, in which anything may be under way."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tests.e2e.installed import Installed
from tests.emulators.base import Call, Emulator
from tests.emulators.openai import CHAT

PATIENCE_S = 4.0
"""A moment that doesn't come by then is not waited for any longer."""
SENDS = ("sendMessage", "create_message", "chat.postMessage")
EDITS = ("editMessageText", "edit_message", "chat.update")


async def connected(program: Installed) -> None:
    """All three platforms are listened to by the process that was started after `forget_calls`."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_called(program.telegram, "getUpdates", 60))
        group.create_task(program.discord.connected(60))
        group.create_task(program.slack.wait_for(lambda: program.slack.socket.sockets, 60))


def forget_calls(program: Installed) -> None:
    """The record of calls begins anew; all that was said stays."""
    for emulator in (program.telegram, program.discord, program.slack, program.model):
        emulator.calls.clear()


class Moments:
    """The kinds of moment, drawn from `chance`."""

    def __init__(self, program: Installed, chance: random.Random) -> None:
        self._program = program
        self._chance = chance
        self._kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "booting": self._booting,
            "recovering": self._recovering,
            "receiving": lambda: self._after_call([program.telegram], ("getUpdates",), 0.6, skip=1),
            "asking": lambda: self._after_call([program.model], (CHAT,), 0.3),
            "streaming": lambda: self._after_call([program.model], (CHAT,), 2.0),
            "using a tool": lambda: self._after_call([program.model], (CHAT,), 0.2, met=_brings_a_result),
            "sending": lambda: self._after_call(self._platforms, SENDS, 0.06),
            "between chunks": lambda: self._after_call(self._platforms, SENDS, 0.3, skip=1),
            "editing": lambda: self._after_call(self._platforms, EDITS, 0.06),
            "any time": self._any_time,
        }

    @property
    def _platforms(self) -> Sequence[Emulator]:
        return (self._program.telegram, self._program.discord, self._program.slack)

    async def pass_one(self) -> str:
        """Returns after a moment of a random kind, with its name."""
        kind = self._chance.choice(list(self._kinds))
        await self._kinds[kind]()
        return kind

    async def _booting(self) -> None:
        await asyncio.sleep(self._chance.uniform(0.2, 2.5))

    async def _recovering(self) -> None:
        """Right after the first platform is up: the others, and the sweeps, are at work."""
        await _called(self._program.telegram, "getUpdates", 60)
        await asyncio.sleep(self._chance.uniform(0, 0.5))

    async def _any_time(self) -> None:
        await connected(self._program)
        await asyncio.sleep(self._chance.uniform(0, 3))

    async def _after_call(
        self,
        emulators: Sequence[Emulator],
        methods: Sequence[str],
        longest_s: float,
        *,
        skip: int = 0,
        met: Callable[[Call], bool] = lambda call: True,
    ) -> None:
        """After a call of one of the methods, or one more than `skip`, on any of the emulators."""
        await connected(self._program)
        wait_s = self._chance.uniform(0, longest_s)

        async def seen(emulator: Emulator) -> None:
            def enough() -> bool:
                found = [call for call in emulator.calls if call.method in methods and met(call)]
                return len(found) > skip

            await emulator.wait_for(enough, 60)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(seen(emulator)) for emulator in emulators]
            await asyncio.wait(tasks, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
        await asyncio.sleep(wait_s)


async def _called(emulator: Emulator, method: str, timeout_s: float) -> None:
    await emulator.wait_for(lambda: any(call.method == method for call in emulator.calls), timeout_s)


def _brings_a_result(call: Call) -> bool:
    messages: list[dict[str, Any]] = call.arguments["messages"]
    return bool(messages[-1]["role"] == "tool")
