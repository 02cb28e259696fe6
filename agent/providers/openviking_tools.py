"""The tools of OpenViking: their arguments, what the model is told, how results are shown to it."""

import json
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from trunkline.agent.providers.base import digest, document_id
from trunkline.agent.providers.openviking_values import Wire
from trunkline.agent.scope import Scope
from trunkline.agent.tools.base import Tool, ToolContext, ToolResult

SEARCH = """\
Looks in the wide memory store for notes and earlier turns that mean something like the question, from every \
platform. Each comes with an id and its beginning; openviking_read shows the whole of one."""
READ = """Shows the whole text of one note or turn of the wide memory store, by the id that a search gave."""
BROWSE = """Lists the ids of what the wide memory store holds, a page at a time."""
REMEMBER = """\
Keeps a fact for later in the wide memory store: plain sentences, with names and dates spelt out. For what \
must stand in every prompt use the tool memory instead; its entries are copied here by themselves."""
FORGET = """\
Deletes notes or turns from the wide memory store for good, by the ids that a search gave. Only when the \
person wants them gone."""
SHOWN_CHARS = 400
PAGE = 50
_ID = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,119}$")]


class SearchArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    query: Annotated[str, Field(min_length=1, max_length=1_000)]
    limit: Annotated[int, Field(ge=1, le=20)] = 8


class ReadArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: _ID


class BrowseArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    page: Annotated[int, Field(ge=1, le=1_000)] = 1


class RememberArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    content: Annotated[str, Field(min_length=1, max_length=8_000)]


class ForgetArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    ids: Annotated[list[_ID], Field(min_length=1, max_length=20)]


def openviking_tools(wire: Wire, bank_of: Callable[[Scope], str]) -> tuple[Tool[Any], ...]:
    async def search(arguments: SearchArguments, context: ToolContext) -> ToolResult:
        found = await wire.find(bank_of(context.scope), arguments.query, limit=arguments.limit)
        return _reply({"success": True, "results": [_shown(one.name, one.text) for one in found]})

    async def read(arguments: ReadArguments, context: ToolContext) -> ToolResult:
        text = await wire.read(bank_of(context.scope), arguments.id)
        if text is None:
            return _reply({"success": False, "error": "There is nothing with this id."}, is_error=True)
        return _reply({"success": True, "id": arguments.id, "text": text})

    async def browse(arguments: BrowseArguments, context: ToolContext) -> ToolResult:
        names = await wire.names(bank_of(context.scope))
        begin = (arguments.page - 1) * PAGE
        return _reply({"success": True, "total": len(names), "ids": names[begin : begin + PAGE]})

    async def remember(arguments: RememberArguments, context: ToolContext) -> ToolResult:
        bank, content = bank_of(context.scope), arguments.content.strip()
        name = document_id(bank, f"tool-{digest(content)}")
        await wire.write(bank, name, content)
        return _reply({"success": True, "id": name, "message": "Kept; it can be found in a moment."})

    async def forget(arguments: ForgetArguments, context: ToolContext) -> ToolResult:
        bank = bank_of(context.scope)
        known = [one for one in arguments.ids if await wire.read(bank, one) is not None]
        for one in known:
            await wire.delete(bank, one)
        return _reply({"success": bool(known), "removed": len(known)}, is_error=not known)

    return (
        Tool("openviking_search", SEARCH, SearchArguments, search, read_only=True, parallel=True),
        Tool("openviking_read", READ, ReadArguments, read, read_only=True, parallel=True),
        Tool("openviking_browse", BROWSE, BrowseArguments, browse, read_only=True, parallel=True),
        Tool("openviking_remember", REMEMBER, RememberArguments, remember, idempotent=True),
        Tool("openviking_forget", FORGET, ForgetArguments, forget, idempotent=True),
    )


def _shown(name: str, text: str) -> dict[str, str]:
    return {"id": name, "text": text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"}


def _reply(reply: dict[str, object], *, is_error: bool = False) -> ToolResult:
    return ToolResult(json.dumps(reply, ensure_ascii=False), is_error=is_error)
