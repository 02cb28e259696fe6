"""A memory provider that does what a test tells it."""

import asyncio
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from trunkline.agent.providers.base import (
    CompletedTurn,
    Conversation,
    Forget,
    Forgotten,
    MemoryWrite,
    QuietHooks,
    Recalled,
)
from trunkline.agent.scope import Scope
from trunkline.agent.tools.base import Tool, ToolContext, ToolResult


class Words(BaseModel):
    text: str = ""


class Scripted(QuietHooks):
    """`recall` answers prefetches, after `gate` is open; an exception in its place is raised."""

    def __init__(self, name: str = "scripted", *passages: str) -> None:
        self.name = name
        self.recall: Callable[[str], tuple[str, ...]] | Exception = lambda _: passages
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked: list[tuple[str, Scope]] = []
        self.warmed: list[str] = []
        self.block = ""
        self.tool_names = (f"{name}_read", f"{name}_write")
        self.result: ToolResult | Exception = ToolResult("done")

    def available(self) -> tuple[str, ...]:
        return ()

    async def check(self) -> None:
        return

    def system_block(self, scope: Scope) -> str:
        return self.block

    async def prefetch(self, query: str, conversation: Conversation, scope: Scope) -> tuple[Recalled, ...]:
        self.asked.append((query, scope))
        await self.gate.wait()
        if isinstance(self.recall, Exception):
            raise self.recall
        return tuple(map(Recalled, self.recall(query)))

    async def queue_prefetch(self, query: str, conversation: Conversation, scope: Scope) -> None:
        self.warmed.append(query)

    def tools(self) -> tuple[Tool[Any], ...]:
        async def run(arguments: Words, context: ToolContext) -> ToolResult:
            if isinstance(self.result, Exception):
                raise self.result
            return self.result

        return tuple(
            Tool(name, "Does what it is told.", Words, run, read_only=name.endswith("_read"))
            for name in self.tool_names
        )

    async def sync(self, turn: CompletedTurn, scope: Scope) -> None:
        return

    async def on_memory_write(self, write: MemoryWrite, scope: Scope) -> str:
        return ""

    async def forget(self, what: Forget, scope: Scope) -> Forgotten:
        return Forgotten(0)

    async def count(self, scope: Scope) -> int | None:
        return None
