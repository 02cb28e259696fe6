"""OpenViking through the vendor's SDK, on a loopback server that speaks its API."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from tests.agent.providers.conformance import ServerBench
from tests.emulators.openviking import OpenVikingEmulator
from trunkline.agent.providers.base import bank_of
from trunkline.agent.scope import Scope

KEY = "ovk_emulated_key_0000000000000000"


class OpenVikingBench(ServerBench):
    name = "openviking"
    lookup = ("openviking_search", "query")
    keep = ("openviking_remember", "content")

    @property
    def options(self) -> Mapping[str, object]:
        return {"base_url": self.server.url}

    @property
    def secrets(self) -> Mapping[str, str]:
        return {"OPENVIKING_API_KEY": KEY}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with OpenVikingEmulator(KEY).running() as self.server:
            yield
            assert self.server.violations == []

    async def stored(self, scope: Scope) -> list[str]:
        return self.server.stored(bank_of(scope, "trunkline"))
