"""Supermemory through the vendor's SDK, on a loopback server that speaks the documented API."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from tests.agent.providers.conformance import ServerBench
from tests.emulators.supermemory import SupermemoryEmulator
from trunkline.agent.providers.base import bank_of
from trunkline.agent.scope import Scope

KEY = "sm_emulated_key_0000000000000000"


class SupermemoryBench(ServerBench):
    name = "supermemory"
    lookup = ("supermemory_search", "query")
    keep = ("supermemory_store", "content")

    @property
    def options(self) -> Mapping[str, object]:
        return {"base_url": self.server.url}

    @property
    def secrets(self) -> Mapping[str, str]:
        return {"SUPERMEMORY_API_KEY": KEY}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with SupermemoryEmulator(KEY).running() as self.server:
            yield
            assert self.server.violations == []

    async def stored(self, scope: Scope) -> list[str]:
        kept = self.server.documents[bank_of(scope, "trunkline")]
        return [document.content for document in kept.values()]
