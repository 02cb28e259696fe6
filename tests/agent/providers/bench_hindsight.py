"""Hindsight through the vendor's SDK, on a loopback server that speaks its HTTP API."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from tests.agent.providers.conformance import ServerBench
from tests.emulators.hindsight import HindsightEmulator
from trunkline.agent.providers.base import bank_of
from trunkline.agent.scope import Scope

KEY = "hsk_emulated_key_0000000000000000"


class HindsightBench(ServerBench):
    name = "hindsight"
    lookup = ("hindsight_recall", "query")
    keep = ("hindsight_retain", "content")

    @property
    def options(self) -> Mapping[str, object]:
        return {"base_url": self.server.url}

    @property
    def secrets(self) -> Mapping[str, str]:
        return {"HINDSIGHT_API_KEY": KEY}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with HindsightEmulator(KEY).running() as self.server:
            yield
            assert not self.server.violations, sorted({*self.server.violations})

    async def stored(self, scope: Scope) -> list[str]:
        bank = self.server.banks.get(bank_of(scope, "trunkline"))
        return [] if bank is None else [document.text for document in bank.documents.values()]
