"""Hindsight through the vendor's SDK, on a loopback server that speaks its HTTP API.

With TRUNKLINE_HINDSIGHT_SERVER set to the address of a real server the tests of test_conformance.py run on
that one too, through a relay.
"""

import os
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from tests.agent.providers.conformance import Bench
from tests.emulators.hindsight import HindsightEmulator
from tests.emulators.hindsight_relay import HindsightRelay
from tests.emulators.provider import Outage
from trunkline.agent.providers.base import bank_of
from trunkline.agent.scope import Scope

KEY = "hsk_emulated_key_0000000000000000"
REAL = os.environ.get("TRUNKLINE_HINDSIGHT_SERVER", "")


class HindsightBench(Bench):
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

    def fail(self, outage: Outage | None) -> None:
        self.server.fail(outage)

    async def stored(self, scope: Scope) -> list[str]:
        bank = self.server.banks.get(bank_of(scope, "trunkline"))
        return [] if bank is None else [document.text for document in bank.documents.values()]


class RealHindsightBench(Bench):
    """A real server, in a namespace of the test's own."""

    name = "hindsight"
    label = "hindsight-real"
    lookup = HindsightBench.lookup
    keep = HindsightBench.keep

    @property
    def options(self) -> Mapping[str, object]:
        return {"base_url": self.relay.url, "namespace": self.namespace, "timeout_s": 30}

    @property
    def secrets(self) -> Mapping[str, str]:
        return {"HINDSIGHT_API_KEY": KEY}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.namespace = f"t{uuid.uuid4().hex[:12]}"
        async with HindsightRelay(REAL).running() as self.relay:
            yield

    def fail(self, outage: Outage | None) -> None:
        self.relay.fail(outage)

    async def settled(self) -> None:
        await self.relay.settled(self.namespace)

    async def stored(self, scope: Scope) -> list[str]:
        return await self.relay.stored(bank_of(scope, self.namespace))
