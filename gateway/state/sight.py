"""Remembers which models take no pictures, so that it is found out once."""

from trunkline.gateway.state import kv
from trunkline.gateway.state.database import Database


class StoreSight:
    """The model client's SightMemory, kept in state.db."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def recall(self, base_url: str, model: str) -> bool | None:
        stored = await self._database.read(lambda c: kv.get_value(c, _key(base_url, model)))
        return None if stored is None else stored == "yes"

    async def remember(self, base_url: str, model: str, *, sees: bool) -> None:
        value = "yes" if sees else "no"
        await self._database.write(lambda c: kv.put_value(c, _key(base_url, model), value))


def _key(base_url: str, model: str) -> str:
    return f"vision:{base_url}:{model}"
