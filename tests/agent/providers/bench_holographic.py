"""Holographic: the state database is all it talks to."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from tests.agent.providers.conformance import Bench
from tests.agent.providers.failing_facts import FailingFacts
from tests.emulators.provider import Outage
from tests.migrated import put_migrated
from trunkline.agent.providers.facts import FactStore
from trunkline.agent.scope import Scope
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.facts import StoreFacts


class HolographicBench(Bench):
    name = "holographic"
    lookup = ("holographic_search", "query")
    keep = ("holographic_store", "content")
    outages = ("down", "slow")

    @property
    def options(self) -> Mapping[str, object]:
        return {"keep_messages": True}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        put_migrated(self.folder / "facts.db")
        with Database.sqlite(self.folder / "facts.db") as database:
            self._behind = StoreFacts(database)
            self._store = FailingFacts(self._behind)
            yield

    def facts(self) -> FactStore:
        return self._store

    def fail(self, outage: Outage | None) -> None:
        self._store.fail(outage)

    async def stored(self, scope: Scope) -> list[str]:
        return [fact.text for fact in await self._behind.listed(scope, 1000)]
