"""RetainDB over HTTP, on a loopback server that speaks its API."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import ClassVar

from tests.agent.providers.conformance import ServerBench
from tests.emulators.retaindb import Edition, RetainDbEmulator
from trunkline.agent.providers.base import bank_of
from trunkline.agent.scope import Scope

KEY = "rdb_emulated_key_0000000000000000"


class RetainDbBench(ServerBench):
    name = "retaindb"
    lookup = ("retaindb_search", "query")
    keep = ("retaindb_remember", "content")
    edition: ClassVar[Edition] = "admin"

    @property
    def options(self) -> Mapping[str, object]:
        return {"base_url": self.server.url}

    @property
    def secrets(self) -> Mapping[str, str]:
        return {"RETAINDB_API_KEY": KEY}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with RetainDbEmulator(KEY, self.edition).running() as self.server:
            yield
            assert self.server.violations == []

    async def stored(self, scope: Scope) -> list[str]:
        kept = self.server.projects.get(bank_of(scope, "trunkline"), [])
        return [memory.content for memory in kept]
