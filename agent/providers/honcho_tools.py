"""The tools of Honcho: their arguments, what the model is told, how results are shown to it."""

import json
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from trunkline.agent.providers.honcho_conclusions import conclude_once, erase
from trunkline.agent.providers.honcho_values import Level, Place, Wire
from trunkline.agent.scope import Scope
from trunkline.agent.tools.base import Tool, ToolContext, ToolResult

PROFILE = """\
Shows the card that Honcho keeps of the person: short lasting facts, made over all conversations. Quick, and \
good at the beginning of something that should suit them."""
SEARCH = """\
Looks for what Honcho knows about something: conclusions about the person, and passages of what was said. No \
model is asked; you judge the results yourself."""
CONTEXT = """\
Gives the whole picture that Honcho has of the person, as far as it bears on a subject: conclusions, each \
with its time, and the card. Longer than honcho_profile; use it when one question is not enough."""
REASONING = """\
Asks Honcho to think about the person: why they want something, what they would rather have, how something \
has changed. It takes some seconds; for a plain fact use honcho_search."""
CONCLUDE = """\
Manages what Honcho is told about the person. Give exactly one of: `conclusion`, a plain lasting statement \
to be kept; `delete_id`, the id of one to be taken back with what was concluded from it; `list` as true to \
see the newest with their ids."""
REASONING_TIMEOUT_S = 90.0
LISTED = 30
ONE_OF = "Give exactly one of conclusion, delete_id and list."


class NoArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SearchArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    query: Annotated[str, Field(min_length=1, max_length=2_000)]
    limit: Annotated[int, Field(ge=1, le=30)] = 10


class ContextArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    subject: Annotated[str, Field(max_length=2_000)] = ""


class ReasoningArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    query: Annotated[str, Field(min_length=1, max_length=4_000)]
    effort: Annotated[Level | None, Field(description="How hard to think; more takes longer.")] = None


class ConcludeArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    conclusion: Annotated[str, Field(max_length=4_000)] = ""
    delete_id: Annotated[str, Field(max_length=200)] = ""
    list: bool = False


def honcho_tools(
    wire: Wire, place_of: Callable[[Scope], Place], changed: Callable[[Place], None], level: Level
) -> tuple[Tool[Any], ...]:
    """`changed` is called with a place where something was taken back."""

    async def profile(_: NoArguments, context: ToolContext) -> ToolResult:
        return _reply({"success": True, "card": list(await wire.card(place_of(context.scope)))})

    async def search(arguments: SearchArguments, context: ToolContext) -> ToolResult:
        place, limit = place_of(context.scope), arguments.limit
        concluded = await wire.query(place, arguments.query, limit)
        said = await wire.search(place, arguments.query, limit)
        return _reply(
            {
                "success": True,
                "conclusions": [{"id": one.id, "text": one.text} for one in concluded],
                "said": [{"by": one.peer, "text": one.text} for one in said],
            }
        )

    async def picture(arguments: ContextArguments, context: ToolContext) -> ToolResult:
        known = await wire.portrait(place_of(context.scope), arguments.subject)
        return _reply({"success": True, "conclusions": known.conclusions, "card": list(known.card)})

    async def reasoning(arguments: ReasoningArguments, context: ToolContext) -> ToolResult:
        place = place_of(context.scope)
        answer = await wire.ask(place, arguments.query, arguments.effort or level)
        return _reply({"success": True, "answer": answer or "Honcho knows nothing about that."})

    async def conclude(arguments: ConcludeArguments, context: ToolContext) -> ToolResult:
        place, text, gone = place_of(context.scope), arguments.conclusion.strip(), arguments.delete_id
        if [bool(text), bool(gone), arguments.list].count(True) != 1:
            return _reply({"success": False, "error": ONE_OF}, is_error=True)
        if text:
            return _reply({"success": True, "id": await conclude_once(wire, place, text)})
        if gone:
            removed = await erase(wire, place, [gone])
            changed(place)
            return _reply({"success": removed > 0, "removed": removed}, is_error=removed == 0)
        newest = await wire.conclusions(place, LISTED)
        return _reply({"success": True, "conclusions": [{"id": one.id, "text": one.text} for one in newest]})

    return (
        Tool("honcho_profile", PROFILE, NoArguments, profile, read_only=True, parallel=True),
        Tool("honcho_search", SEARCH, SearchArguments, search, read_only=True, parallel=True),
        Tool("honcho_context", CONTEXT, ContextArguments, picture, read_only=True, parallel=True),
        Tool(
            "honcho_reasoning",
            REASONING,
            ReasoningArguments,
            reasoning,
            read_only=True,
            parallel=True,
            timeout_s=REASONING_TIMEOUT_S,
        ),
        Tool("honcho_conclude", CONCLUDE, ConcludeArguments, conclude, idempotent=True),
    )


def _reply(reply: dict[str, object], *, is_error: bool = False) -> ToolResult:
    return ToolResult(json.dumps(reply, ensure_ascii=False), is_error=is_error)
