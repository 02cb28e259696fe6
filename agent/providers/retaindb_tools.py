"""The tools of RetainDB: their arguments, what the model is told, how results are shown to it."""

import json
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from trunkline.agent.providers.base import document_id
from trunkline.agent.providers.retaindb_wire import Kind, RetainDbWire
from trunkline.agent.scope import Scope
from trunkline.agent.tools.base import Tool, ToolContext, ToolResult

SEARCH = """\
Looks for what the wide memory store knows about this, from earlier conversations on every platform. Each \
memory comes with an id. Use it when the recalled memory of the message is not enough."""
CONTEXT = """\
Gives one text that the wide memory store packs from all it knows about a question. For single facts with \
their ids use retaindb_search."""
PROFILE = """\
Lists what the wide memory store holds about the person, without a question, the most important first."""
REMEMBER = """\
Keeps a fact about the person for later in the wide memory store: one plain statement, with names and dates \
spelt out. For what must stand in every prompt use the tool memory instead; its entries are copied here by \
themselves."""
FORGET = """\
Deletes a memory from the wide memory store, by the id that a search gave. Only when the person wants \
it gone."""
SHOWN = 50


class QueryArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    query: Annotated[str, Field(min_length=1, max_length=2_000)]


class SearchArguments(QueryArguments):
    limit: Annotated[int, Field(ge=1, le=20)] = 8


class ProfileArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RememberArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    content: Annotated[str, Field(min_length=1, max_length=4_000)]
    kind: Annotated[Kind, Field(description="What sort of fact it is.")] = "factual"


class ForgetArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: Annotated[str, Field(min_length=1, max_length=200)]


def retaindb_tools(wire: RetainDbWire, bank_of: Callable[[Scope], str]) -> tuple[Tool[Any], ...]:
    async def search(arguments: SearchArguments, context: ToolContext) -> ToolResult:
        found = await wire.search(bank_of(context.scope), arguments.query, arguments.limit)
        return _reply({"success": True, "results": [{"id": one.id, "text": one.text} for one in found]})

    async def packed(arguments: QueryArguments, context: ToolContext) -> ToolResult:
        return _reply(
            {"success": True, "context": await wire.context(bank_of(context.scope), arguments.query)}
        )

    async def profile(_: ProfileArguments, context: ToolContext) -> ToolResult:
        known = list((await wire.listed(bank_of(context.scope))).values())[:SHOWN]
        return _reply({"success": True, "memories": [{"id": one.id, "text": one.text} for one in known]})

    async def remember(arguments: RememberArguments, context: ToolContext) -> ToolResult:
        """The key is the call's, not the text's: what was forgotten in between must be kept anew."""
        bank = bank_of(context.scope)
        call = f"tool-{context.session}-{context.turn}-{context.step}-{context.call}"
        kept = await wire.keep(bank, document_id(bank, call), arguments.content.strip(), arguments.kind)
        return _reply({"success": True, "id": kept})

    async def forget(arguments: ForgetArguments, context: ToolContext) -> ToolResult:
        bank = bank_of(context.scope)
        if arguments.id not in await wire.listed(bank):
            return _reply({"success": False, "error": "There is no memory with this id."}, is_error=True)
        await wire.delete([arguments.id])
        await wire.purge(bank)
        return _reply({"success": True, "removed": 1})

    return (
        Tool("retaindb_search", SEARCH, SearchArguments, search, read_only=True, parallel=True),
        Tool("retaindb_context", CONTEXT, QueryArguments, packed, read_only=True, parallel=True),
        Tool("retaindb_profile", PROFILE, ProfileArguments, profile, read_only=True, parallel=True),
        Tool("retaindb_remember", REMEMBER, RememberArguments, remember, idempotent=True),
        Tool("retaindb_forget", FORGET, ForgetArguments, forget, idempotent=True),
    )


def _reply(reply: dict[str, object], *, is_error: bool = False) -> ToolResult:
    return ToolResult(json.dumps(reply, ensure_ascii=False), is_error=is_error)
