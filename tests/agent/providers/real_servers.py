"""The real servers of memory providers: programs in environments of their own, which `make servers` installs.

test_real_servers.py starts them and runs the tests of every provider again with their addresses in the
environment, or with its path where it is no server; one that runs already can be named there by hand.
"""

import os
import sys
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from tests.agent.providers.conformance import ServerBench
from tests.emulators.provider_relay import HindsightRelay, OpenVikingRelay, ProviderRelay
from trunkline.agent.providers.base import bank_of
from trunkline.agent.scope import Scope

INSTALLED = Path(sys.prefix) / "servers"
KEY = "a-key-that-no-server-of-ones-own-asks-for"


def installed(server: str, program: str) -> Path:
    """A server's program, by a pattern. Where it isn't installed the test is skipped, but never in CI."""
    found = next((INSTALLED / server).glob(program), None)
    if found is None:
        told = f"The server of {server} is not installed here: `make servers` does it."
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)
    return found


def address_name(provider: str) -> str:
    """The variable with a real server's address."""
    return f"TRUNKLINE_{provider.upper()}_SERVER"


class RealBench(ServerBench):
    """A real server through a relay, in a namespace of the test's own."""

    server_kind: ClassVar[type[ProviderRelay]]
    server: ProviderRelay

    @property
    def options(self) -> Mapping[str, object]:
        return {"base_url": self.server.url, "namespace": self.namespace, "timeout_s": 60}

    @property
    def secrets(self) -> Mapping[str, str]:
        return {f"{self.name.upper()}_API_KEY": KEY}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.namespace = f"t{uuid.uuid4().hex[:12]}"
        async with self.server_kind(os.environ[address_name(self.name)]).running() as self.server:
            yield

    async def settled(self) -> None:
        await self.server.settled()

    async def stored(self, scope: Scope) -> list[str]:
        return await self.server.stored(bank_of(scope, self.namespace))


class RealHindsightBench(RealBench):
    name = "hindsight"
    label = "real-hindsight"
    lookup = ("hindsight_recall", "query")
    keep = ("hindsight_retain", "content")
    server_kind = HindsightRelay


class RealOpenVikingBench(RealBench):
    name = "openviking"
    label = "real-openviking"
    lookup = ("openviking_search", "query")
    keep = ("openviking_remember", "content")
    server_kind = OpenVikingRelay
