"""The tools of Hindsight: their arguments, what the model is told, how results are shown to it."""

import json
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from trunkline.agent.providers.base import digest, document_id
from trunkline.agent.providers.hindsight_values import Budget, Wire
from trunkline.agent.scope import Scope
from trunkline.agent.tools.base import Tool, ToolContext, ToolResult

RETAIN = """\
Keeps something for later in the wide memory store, which draws facts, people and dates out of it by itself: \
one or several plain sentences with names and dates spelt out. For what must stand in every prompt use the \
tool memory instead; its entries are copied here by themselves."""
RECALL = """\
Looks for what the wide memory store knows about this: facts from earlier conversations on every platform, \
and observations drawn from several of them. Use it when the recalled memory of the message is not enough."""
REFLECT = """\
Asks the wide memory store to think about a question and answer it from all it holds: patterns, changes over \
time, how things hang together. It takes some seconds; for a plain fact use hindsight_recall."""
REFLECT_TIMEOUT_S = 90.0


class RetainArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    content: Annotated[str, Field(min_length=1, max_length=8_000)]


class RecallArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    query: Annotated[str, Field(min_length=1, max_length=1_000)]
    depth: Annotated[Budget, Field(description="How much to search: low is quick, high is thorough.")] = "mid"


class ReflectArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    query: Annotated[str, Field(min_length=1, max_length=1_000)]


def hindsight_tools(
    wire: Wire, bank_of: Callable[[Scope], str], mission_of: Callable[[Scope], str], max_tokens: int
) -> tuple[Tool[Any], ...]:
    async def retain(arguments: RetainArguments, context: ToolContext) -> ToolResult:
        bank, content = bank_of(context.scope), arguments.content.strip()
        document = document_id(bank, f"tool-{digest(content)}")
        await wire.retain(bank, document, content, mission=mission_of(context.scope), date=context.now)
        return _reply({"success": True, "message": "Kept; it can be found in a moment."})

    async def recall(arguments: RecallArguments, context: ToolContext) -> ToolResult:
        bank = bank_of(context.scope)
        found = await wire.recall(bank, arguments.query, budget=arguments.depth, max_tokens=max_tokens)
        return _reply({"success": True, "results": [one.text for one in found]})

    async def reflect(arguments: ReflectArguments, context: ToolContext) -> ToolResult:
        return _reply(
            {
                "success": True,
                "answer": await wire.reflect(bank_of(context.scope), arguments.query, budget="low"),
            }
        )

    return (
        Tool("hindsight_retain", RETAIN, RetainArguments, retain, idempotent=True),
        Tool("hindsight_recall", RECALL, RecallArguments, recall, read_only=True, parallel=True),
        Tool(
            "hindsight_reflect",
            REFLECT,
            ReflectArguments,
            reflect,
            read_only=True,
            parallel=True,
            timeout_s=REFLECT_TIMEOUT_S,
        ),
    )


def _reply(reply: dict[str, object]) -> ToolResult:
    return ToolResult(json.dumps(reply, ensure_ascii=False))
