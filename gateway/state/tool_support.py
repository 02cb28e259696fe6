"""Remembers how each model's tool calls are had, so that it is found out once."""

from trunkline.agent.openai_client import ToolMode
from trunkline.gateway.state import kv
from trunkline.gateway.state.database import Database


class StoreToolSupport:
    """The model client's ToolSupport, kept in state.db."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def recall(self, base_url: str, model: str) -> ToolMode | None:
        stored = await self._database.read(lambda c: kv.get_value(c, _key(base_url, model)))
        return None if stored is None else ToolMode(stored)

    async def remember(self, base_url: str, model: str, mode: ToolMode) -> None:
        await self._database.write(lambda c: kv.put_value(c, _key(base_url, model), mode.value))


def _key(base_url: str, model: str) -> str:
    return f"tool_calls:{base_url}:{model}"
