"""The tools of ByteRover: their arguments, what the model is told, how results are shown to it."""

import asyncio
import json
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from trunkline.agent.providers.base import ProviderDown, ProviderLocked, ProviderRefused, digest, document_id
from trunkline.agent.providers.byterover_cli import Answer, Brv
from trunkline.agent.providers.byterover_tree import NOTES, Trees, disk_reported
from trunkline.agent.scope import Scope
from trunkline.agent.tools.base import Tool, ToolContext, ToolResult

SEARCH = """\
Looks for notes and earlier turns in the wide memory store, from every platform, by the words they share \
with the question. Each comes with an id."""
REMEMBER = """\
Keeps a fact for later in the wide memory store: plain sentences, with names and dates spelt out. For what \
must stand in every prompt use the tool memory instead; its entries are copied here by themselves."""
FORGET = """\
Deletes notes or turns from the wide memory store for good, by the ids that a search gave. Only when the \
person wants them gone."""
QUERY = """\
Asks the wide memory store a question and gets an answer that its own model writes from all its notes. It \
takes up to minutes and costs tokens; for a plain fact use byterover_search."""
CURATE = """\
Hands a longer text to the wide memory store, whose own model sorts it into topics. It takes up to minutes \
and costs tokens; for a single fact use byterover_remember."""
SHORTEST_WAIT_S = 10
"""The program takes no shorter time-out than this; ours may end it earlier."""
QUIET = "Its model stored nothing of this."


class SearchArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    query: Annotated[str, Field(min_length=1, max_length=1_000)]
    limit: Annotated[int, Field(ge=1, le=20)] = 8


class RememberArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    content: Annotated[str, Field(min_length=1, max_length=8_000)]


class ForgetArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    ids: Annotated[list[Annotated[str, Field(max_length=300)]], Field(min_length=1, max_length=20)]


class QueryArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    question: Annotated[str, Field(min_length=1, max_length=2_000)]


class CurateArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    content: Annotated[str, Field(min_length=1, max_length=16_000)]


def byterover_tools(
    trees: Trees, brv: Brv, bank_of: Callable[[Scope], str], model_timeout_s: float
) -> tuple[Tool[Any], ...]:
    async def search(arguments: SearchArguments, context: ToolContext) -> ToolResult:
        with disk_reported():
            found = await asyncio.to_thread(
                trees.search, bank_of(context.scope), arguments.query, arguments.limit
            )
        return _reply({"success": True, "results": [{"id": one.id, "text": one.text} for one in found]})

    async def remember(arguments: RememberArguments, context: ToolContext) -> ToolResult:
        bank, content = bank_of(context.scope), arguments.content.strip()
        name = f"{NOTES}/{document_id(bank, f'tool-{digest(content)}')}"
        with disk_reported():
            await asyncio.to_thread(trees.write, bank, name, content)
        return _reply({"success": True, "id": name})

    async def forget(arguments: ForgetArguments, context: ToolContext) -> ToolResult:
        with disk_reported():
            removed = await asyncio.to_thread(trees.remove, bank_of(context.scope), arguments.ids)
        return _reply({"success": removed > 0, "removed": removed}, is_error=removed == 0)

    async def ask(command: str, text: str, scope: Scope) -> Answer:
        """The store's model is no part of the store: that it fails is no reason to leave recall alone."""
        try:
            with disk_reported():
                folder = await asyncio.to_thread(trees.project, bank_of(scope))
            wait = f"{max(model_timeout_s, SHORTEST_WAIT_S):.0f}"
            arguments = (command, "--format", "json", "--timeout", wait, "--", text)
            return await brv.run(arguments, folder, model_timeout_s)
        except (ProviderDown, ProviderLocked) as error:
            raise ProviderRefused(str(error)) from error

    async def query(arguments: QueryArguments, context: ToolContext) -> ToolResult:
        answer = await ask("query", arguments.question, context.scope)
        return _reply({"success": True, "answer": answer.result})

    async def curate(arguments: CurateArguments, context: ToolContext) -> ToolResult:
        changes = (await ask("curate", arguments.content, context.scope)).changes
        if not (changes.created or changes.updated):
            return _reply({"success": False, "error": QUIET}, is_error=True)
        return _reply({"success": True, "topics": len(changes.created) + len(changes.updated)})

    wait_s = model_timeout_s + 5
    return (
        Tool("byterover_search", SEARCH, SearchArguments, search, read_only=True, parallel=True),
        Tool("byterover_remember", REMEMBER, RememberArguments, remember, idempotent=True),
        Tool("byterover_forget", FORGET, ForgetArguments, forget, idempotent=True),
        Tool("byterover_query", QUERY, QueryArguments, query, idempotent=True, timeout_s=wait_s),
        Tool("byterover_curate", CURATE, CurateArguments, curate, timeout_s=wait_s),
    )


def _reply(reply: dict[str, object], *, is_error: bool = False) -> ToolResult:
    return ToolResult(json.dumps(reply, ensure_ascii=False), is_error=is_error)
