"""Tool calls as they stand in a message's row."""

import json
from collections.abc import Sequence

from trunkline.agent.messages import ToolCall


def tool_calls_to_json(calls: Sequence[ToolCall]) -> str | None:
    """Escaped to ASCII, so that the arguments come back byte for byte whatever they hold."""
    listed = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls]
    return json.dumps(listed) if listed else None


def tool_calls_from_json(stored: str | None) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in json.loads(stored or "[]"))
