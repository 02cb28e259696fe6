"""Who may use a tool that is not of the house: the people its settings name, everyone, or else the owner."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from trunkline.agent.scope import PersonScope, Scope
from trunkline.agent.tools.base import Tool, ToolContext, ToolResult

EVERYONE = "everyone"
NOT_ALLOWED = "Not run: this tool is not allowed to the person who asks, or not in this place."


def may_use(scope: Scope, allowed: Collection[str], owner: str | None) -> bool:
    """Whoever is named may in their direct chats; in rooms only what everyone may."""
    if EVERYONE in allowed:
        return True
    if not isinstance(scope, PersonScope):
        return False
    return scope.person in allowed if allowed else scope.person == owner


def limited(tool: Tool[Any], allowed: Collection[str], owner: str | None) -> Tool[Any]:
    """The tool for those alone who may use it, whatever list it comes to stand in."""

    async def run(arguments: Any, context: ToolContext) -> ToolResult:
        if not may_use(context.scope, allowed, owner):
            return ToolResult(NOT_ALLOWED, is_error=True)
        result: ToolResult = await tool.run(arguments, context)
        return result

    return replace(tool, run=run, needs_person=tool.needs_person or EVERYONE not in allowed)
