"""Remembers which models take no pictures, so that it is found out once."""

from collections.abc import Mapping

from trunkline.gateway.state import kv
from trunkline.gateway.state.database import Database


class StoreSight:
    """The model client's SightMemory, kept in state.db.

    `places` are lasting names of addresses that change.
    """

    def __init__(self, database: Database, places: Mapping[str, str] | None = None) -> None:
        self._database = database
        self._places = places or {}

    async def recall(self, base_url: str, model: str) -> bool | None:
        stored = await self._database.read(lambda c: kv.get_value(c, self._key(base_url, model)))
        return None if stored is None else stored == "yes"

    async def remember(self, base_url: str, model: str, *, sees: bool) -> None:
        value = "yes" if sees else "no"
        await self._database.write(lambda c: kv.put_value(c, self._key(base_url, model), value))

    def _key(self, base_url: str, model: str) -> str:
        return f"vision:{self._places.get(base_url, base_url)}:{model}"
