"""The tools of Holographic: their arguments, what the model is told, and how facts are shown to it."""

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from trunkline.agent.providers.facts import Fact
from trunkline.agent.scope import Scope
from trunkline.agent.tools.base import Tool, ToolContext, ToolResult

HELPFUL, UNHELPFUL = 0.05, -0.10
"""What one word of feedback does to a fact's trust: it is lost faster than it is won."""
CONTENT_CHARS = 2_000

Mode = Literal["search", "probe", "related", "reason", "contradict", "list"]
Category = Literal["user_pref", "project", "tool", "general"]

SEARCH = """\
Looks into the store of facts, which holds more than your prompt shows. Modes: search = facts with the words \
of `query`; probe = all about one `entity` (a person, project, thing); related = what is connected with an \
`entity` by other facts; reason = what connects several `entities`; contradict = pairs of facts of which one \
may be out of date; list = the newest. Facts bear an id and a trust from 0 to 1."""
STORE = """\
Keeps a detailed fact for later in the store of facts: add `content`; update replaces the text of `fact_id`; \
remove deletes it. One fact in one sentence, with names spelt out. For what must be in every prompt use the \
tool memory instead; its entries are copied here by themselves."""
FEEDBACK = """\
Says whether a fact from the store helped: helpful raises its trust, unhelpful (wrong, out of date) \
lowers it."""


class FactLookup(Protocol):
    """What the tools ask of the facts. Raises ProviderDown."""

    async def search(self, scope: Scope, query: str, limit: int) -> list[tuple[Fact, float]]: ...

    async def probe(self, scope: Scope, entity: str, limit: int) -> list[Fact]: ...

    async def related(self, scope: Scope, entity: str, limit: int) -> list[Fact]: ...

    async def reason(self, scope: Scope, entities: Sequence[str], limit: int) -> list[Fact]: ...

    async def contradictions(self, scope: Scope, limit: int) -> list[tuple[Fact, Fact]]: ...

    async def listed(self, scope: Scope, limit: int) -> list[Fact]: ...

    async def add(self, scope: Scope, text: str, category: str, entities: Sequence[str]) -> Fact: ...

    async def change(self, scope: Scope, fact_id: int, text: str) -> Fact | None: ...

    async def rate(self, scope: Scope, fact_id: int, change: float, *, helpful: bool) -> Fact | None: ...

    async def drop(self, scope: Scope, fact_ids: Sequence[int]) -> int: ...


Content = Annotated[str | None, Field(max_length=CONTENT_CHARS)]


class SearchArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    mode: Mode = "search"
    query: Content = None
    entity: Content = None
    entities: Annotated[list[str], Field(max_length=8)] = []
    limit: Annotated[int, Field(ge=1, le=50)] = 10


class StoreArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    action: Literal["add", "update", "remove"] = "add"
    content: Content = None
    fact_id: int | None = None
    category: Category = "general"
    entities: Annotated[list[str], Field(max_length=20)] = []


class FeedbackArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    fact_id: int
    rating: Literal["helpful", "unhelpful"]


def holographic_tools(facts: FactLookup) -> tuple[Tool[Any], ...]:
    async def search(arguments: SearchArguments, context: ToolContext) -> ToolResult:
        return await _search(facts, arguments, context.scope)

    async def store(arguments: StoreArguments, context: ToolContext) -> ToolResult:
        return await _store(facts, arguments, context.scope)

    async def feedback(arguments: FeedbackArguments, context: ToolContext) -> ToolResult:
        return await _rate(facts, arguments, context.scope)

    return (
        Tool("holographic_search", SEARCH, SearchArguments, search, read_only=True, parallel=True),
        Tool("holographic_store", STORE, StoreArguments, store, idempotent=True),
        Tool("holographic_feedback", FEEDBACK, FeedbackArguments, feedback),
    )


async def _search(facts: FactLookup, arguments: SearchArguments, scope: Scope) -> ToolResult:
    limit, entity = arguments.limit, arguments.entity or arguments.query or ""
    match arguments.mode:
        case "list":
            return _shown(await facts.listed(scope, limit))
        case "contradict":
            pairs = await facts.contradictions(scope, limit)
            told = [{"newer": _told(newer), "older": _told(older)} for newer, older in pairs]
            return _reply({"success": True, "pairs": told})
        case "reason":
            return _shown(await facts.reason(scope, arguments.entities or [entity], limit))
    if not entity.strip():
        return _wrong(f"{arguments.mode} needs {'query' if arguments.mode == 'search' else 'entity'}.")
    if arguments.mode == "search":
        found = await facts.search(scope, arguments.query or entity, limit)
        return _shown([fact for fact, _ in found])
    if arguments.mode == "probe":
        return _shown(await facts.probe(scope, entity, limit))
    return _shown(await facts.related(scope, entity, limit))


async def _store(facts: FactLookup, arguments: StoreArguments, scope: Scope) -> ToolResult:
    content = (arguments.content or "").strip()
    if arguments.action != "remove" and not content:
        return _wrong("content is empty: give the fact in one sentence.")
    if arguments.action == "add":
        kept = await facts.add(scope, content, arguments.category, arguments.entities)
        return _reply({"success": True, "fact": _told(kept)})
    if arguments.fact_id is None:
        return _wrong(f"{arguments.action} needs fact_id; holographic_search shows the ids.")
    if arguments.action == "update":
        changed = await facts.change(scope, arguments.fact_id, content)
        return _reply({"success": True, "fact": _told(changed)}) if changed else _unknown(arguments.fact_id)
    removed = await facts.drop(scope, [arguments.fact_id])
    return _reply({"success": True, "removed": removed}) if removed else _unknown(arguments.fact_id)


async def _rate(facts: FactLookup, arguments: FeedbackArguments, scope: Scope) -> ToolResult:
    helpful = arguments.rating == "helpful"
    rated = await facts.rate(scope, arguments.fact_id, HELPFUL if helpful else UNHELPFUL, helpful=helpful)
    return _unknown(arguments.fact_id) if rated is None else _reply({"success": True, "fact": _told(rated)})


def _shown(facts: Sequence[Fact]) -> ToolResult:
    return _reply({"success": True, "facts": [_told(fact) for fact in facts]})


def _told(fact: Fact) -> dict[str, object]:
    return {"id": fact.id, "text": fact.text, "trust": fact.trust, "date": f"{fact.updated:%Y-%m-%d}"}


def _unknown(fact_id: int) -> ToolResult:
    return _wrong(f"There is no fact {fact_id} here.")


def _wrong(why: str) -> ToolResult:
    return _reply({"success": False, "error": why}, is_error=True)


def _reply(reply: dict[str, object], *, is_error: bool = False) -> ToolResult:
    return ToolResult(json.dumps(reply, ensure_ascii=False), is_error=is_error)
