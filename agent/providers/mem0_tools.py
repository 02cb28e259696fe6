"""The tools of Mem0: their arguments, what the model is told, how results are shown to it."""

import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from trunkline.agent.providers.base import digest, document_id
from trunkline.agent.providers.mem0_values import Memory, Wire
from trunkline.agent.scope import Scope
from trunkline.agent.tools.base import Tool, ToolContext, ToolResult

SEARCH = """\
Looks for memories about this in the wide memory store, from earlier conversations on every platform. Use it \
when the recalled memory of the message is not enough."""
ADD = """\
Keeps a memory in the wide memory store, word for word: one plain statement about the person, with names \
and dates spelt out. For what must stand in every prompt use the tool memory instead; its entries are copied \
here by themselves."""
UPDATE = """\
Corrects a memory of the wide memory store that has become wrong. Take the id from mem0_search; give the \
whole new statement."""
DELETE = """\
Deletes memories of the wide memory store for good, by the ids that mem0_search shows. Only what the person \
really wants gone."""
NONE_SUCH = "There is no memory with this id."


class SearchArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    query: Annotated[str, Field(min_length=1, max_length=2_000)]
    limit: Annotated[int, Field(ge=1, le=50)] = 10


class AddArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    content: Annotated[str, Field(min_length=1, max_length=4_000)]


class UpdateArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    memory_id: Annotated[str, Field(min_length=1, max_length=200)]
    text: Annotated[str, Field(min_length=1, max_length=4_000)]


class DeleteArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    memory_ids: Annotated[list[str], Field(min_length=1, max_length=20)]


def mem0_tools(wire: Wire, bank_of: Callable[[Scope], str]) -> tuple[Tool[Any], ...]:
    async def search(arguments: SearchArguments, context: ToolContext) -> ToolResult:
        found = await wire.search(bank_of(context.scope), arguments.query, arguments.limit)
        return _reply({"success": True, "results": _shown(found)})

    async def add(arguments: AddArguments, context: ToolContext) -> ToolResult:
        bank, content = bank_of(context.scope), arguments.content.strip()
        key = document_id(bank, f"tool-{digest(content)}")
        if not await wire.with_key(bank, key):
            await wire.add(bank, key, [("user", content)], as_it_is=True)
        return _reply({"success": True})

    async def update(arguments: UpdateArguments, context: ToolContext) -> ToolResult:
        if await wire.get(bank_of(context.scope), arguments.memory_id) is None:
            return _reply({"success": False, "error": NONE_SUCH}, is_error=True)
        await wire.update(arguments.memory_id, arguments.text.strip())
        return _reply({"success": True})

    async def delete(arguments: DeleteArguments, context: ToolContext) -> ToolResult:
        bank = bank_of(context.scope)
        mine = [one for one in arguments.memory_ids if await wire.get(bank, one) is not None]
        removed = [await wire.delete(one) for one in mine].count(True)
        return _reply({"success": removed > 0, "removed": removed}, is_error=removed == 0)

    return (
        Tool("mem0_search", SEARCH, SearchArguments, search, read_only=True, parallel=True),
        Tool("mem0_add", ADD, AddArguments, add, idempotent=True),
        Tool("mem0_update", UPDATE, UpdateArguments, update, idempotent=True),
        Tool("mem0_delete", DELETE, DeleteArguments, delete, idempotent=True),
    )


def _shown(found: Sequence[Memory]) -> list[dict[str, str]]:
    return [{"id": one.id, "text": one.text} for one in found]


def _reply(reply: dict[str, object], *, is_error: bool = False) -> ToolResult:
    return ToolResult(json.dumps(reply, ensure_ascii=False), is_error=is_error)
