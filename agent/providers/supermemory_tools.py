"""The tools of Supermemory: their arguments, what the model is told, how results are shown to it."""

import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from trunkline.agent.providers.base import digest, document_id
from trunkline.agent.providers.supermemory_values import Found, Wire
from trunkline.agent.scope import Scope
from trunkline.agent.tools.base import Tool, ToolContext, ToolResult

STORE = """\
Keeps a fact about the person for later in the wide memory store: one plain statement, with names and dates \
spelt out. Only what will matter in later conversations. For what must stand in every prompt use the tool \
memory instead; its entries are copied here by themselves."""
SEARCH = """\
Looks for what the wide memory store knows about this: memories drawn from earlier conversations on every \
platform, and passages of them. Use it when the recalled memory of the message is not enough."""
FORGET = """\
Takes memories out of the wide memory store. First give `query`: it shows what would go, with ids, and \
removes nothing. Then give the `ids` that the person really wants gone."""
PROFILE = """\
Shows what the wide memory store holds for certain about the person: lasting facts, and what goes on now."""


class StoreArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    content: Annotated[str, Field(min_length=1, max_length=4_000)]


class SearchArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    query: Annotated[str, Field(min_length=1, max_length=2_000)]
    limit: Annotated[int, Field(ge=1, le=20)] = 10


class ForgetArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    query: Annotated[str, Field(max_length=2_000)] = ""
    ids: Annotated[list[str], Field(max_length=50)] = []


class ProfileArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


def supermemory_tools(wire: Wire, bank_of: Callable[[Scope], str]) -> tuple[Tool[Any], ...]:
    async def store(arguments: StoreArguments, context: ToolContext) -> ToolResult:
        bank, content = bank_of(context.scope), arguments.content.strip()
        await wire.add(bank, document_id(bank, f"tool-{digest(content)}"), content)
        return _reply({"success": True, "message": "Kept; it can be found in a moment."})

    async def search(arguments: SearchArguments, context: ToolContext) -> ToolResult:
        bank = bank_of(context.scope)
        found = await wire.search(bank, arguments.query, limit=arguments.limit, mode="hybrid")
        return _reply({"success": True, "results": _listed(found)})

    async def forget(arguments: ForgetArguments, context: ToolContext) -> ToolResult:
        bank = bank_of(context.scope)
        if arguments.ids:
            removed = await wire.forget_memories(bank, arguments.ids)
            return _reply({"success": removed > 0, "removed": removed}, is_error=removed == 0)
        if not arguments.query.strip():
            return _reply({"success": False, "error": "Give query or ids."}, is_error=True)
        would_go = await wire.find_to_forget(bank, arguments.query)
        return _reply({"success": True, "removed": 0, "would_remove": _listed(would_go)})

    async def profile(_: ProfileArguments, context: ToolContext) -> ToolResult:
        lasting, current = await wire.profile(bank_of(context.scope))
        told = {"lasting": [one.text for one in lasting], "current": [one.text for one in current]}
        return _reply({"success": True, **told})

    return (
        Tool("supermemory_store", STORE, StoreArguments, store, idempotent=True),
        Tool("supermemory_search", SEARCH, SearchArguments, search, read_only=True, parallel=True),
        Tool("supermemory_forget", FORGET, ForgetArguments, forget, idempotent=True),
        Tool("supermemory_profile", PROFILE, ProfileArguments, profile, read_only=True, parallel=True),
    )


def _listed(found: Sequence[Found]) -> list[dict[str, str]]:
    """Passages have no id here: what they are from is deleted by /memory forget."""
    return [{"id": one.id, "text": one.text} if one.is_memory else {"text": one.text} for one in found]


def _reply(reply: dict[str, object], *, is_error: bool = False) -> ToolResult:
    return ToolResult(json.dumps(reply, ensure_ascii=False), is_error=is_error)
