"""OpenViking through the vendor's SDK, on a loopback server that speaks its API.

With TRUNKLINE_OPENVIKING_SERVER set to the address of a real server in its mode `dev` the same tests run on
that one, through a relay. Its bank must be empty; docs/memory-providers.md says how to start it.
"""

import os
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from tests.agent.providers.conformance import Bench
from tests.emulators.openviking import OpenVikingEmulator, OpenVikingRelay
from tests.emulators.provider import Outage
from trunkline.agent.providers.base import bank_of
from trunkline.agent.scope import Scope

KEY = "ovk_emulated_key_0000000000000000"
REAL = os.environ.get("TRUNKLINE_OPENVIKING_SERVER", "")


class OpenVikingBench(Bench):
    name = "openviking"
    lookup = ("openviking_search", "query")
    keep = ("openviking_remember", "content")

    @property
    def options(self) -> Mapping[str, object]:
        return {"base_url": self.server.url, "namespace": self.namespace}

    @property
    def secrets(self) -> Mapping[str, str]:
        return {"OPENVIKING_API_KEY": KEY}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.namespace = f"t{uuid.uuid4().hex[:12]}" if REAL else "trunkline"
        made: OpenVikingEmulator | OpenVikingRelay = (
            OpenVikingRelay(REAL) if REAL else OpenVikingEmulator(KEY)
        )
        async with made.running() as self.server:
            yield
            assert self.server.violations == []

    def fail(self, outage: Outage | None) -> None:
        self.server.fail(outage)

    async def settled(self) -> None:
        await self.server.settled()

    async def stored(self, scope: Scope) -> list[str]:
        return await self.server.stored(bank_of(scope, self.namespace))
