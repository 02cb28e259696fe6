"""Mem0 hosted, through the vendor's SDK on a loopback server; and its real engine, with an embedder there."""

import pickle
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing

from tests.agent.providers.conformance import ServerBench
from tests.emulators.mem0 import EmbeddingsEmulator, Mem0Emulator
from trunkline.agent.providers.base import bank_of
from trunkline.agent.scope import Scope

KEY = "m0-emulated-key-0000000000000000"
EMBEDDER_KEY = "sk-emulated-embedder-key-000000000"
DIMENSIONS = 512


class Mem0Bench(ServerBench):
    name = "mem0"
    lookup = ("mem0_search", "query")
    keep = ("mem0_add", "content")

    @property
    def options(self) -> Mapping[str, object]:
        return {"base_url": self.server.url}

    @property
    def secrets(self) -> Mapping[str, str]:
        return {"MEM0_API_KEY": KEY}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with Mem0Emulator(KEY).running() as self.server:
            yield
            assert not self.server.violations, sorted({*self.server.violations})

    async def stored(self, scope: Scope) -> list[str]:
        bank = bank_of(scope, "trunkline")
        return [one.text for one in self.server.memories.values() if one.user == bank]


class Mem0LocalBench(ServerBench):
    """The real engine: Qdrant in a folder. An outage is one of the embedder."""

    name = "mem0"
    label = "mem0-local"
    lookup = ("mem0_search", "query")
    keep = ("mem0_add", "content")

    @property
    def options(self) -> Mapping[str, object]:
        return {
            "mode": "local",
            "embedder_url": f"{self.server.url}/v1",
            "embedder_model": "by-words",
            "embedder_dimensions": DIMENSIONS,
        }

    @property
    def secrets(self) -> Mapping[str, str]:
        return {"MEM0_EMBEDDER_KEY": EMBEDDER_KEY}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with EmbeddingsEmulator(EMBEDDER_KEY, DIMENSIONS).running() as self.server:
            yield

    async def stored(self, scope: Scope) -> list[str]:
        """From Qdrant's file, which the provider holds open."""
        bank = bank_of(scope, "trunkline")
        found = []
        home = self.folder.parent if self.folder.name == "bench" else self.folder
        for path in home.rglob("collection/memories/storage.sqlite"):
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
                for (point,) in database.execute("SELECT point FROM points"):
                    payload = pickle.loads(point).payload
                    if payload["user_id"] == bank:
                        found.append(payload["data"])
        return found
