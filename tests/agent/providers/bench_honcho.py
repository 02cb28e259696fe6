"""Honcho through the vendor's SDK, on a loopback server that speaks its v3 API."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from tests.agent.providers.conformance import ServerBench
from tests.emulators.honcho import HonchoEmulator
from trunkline.agent.providers.base import bank_of
from trunkline.agent.scope import Scope

KEY = "hch_emulated_key_0000000000000000"


class HonchoBench(ServerBench):
    name = "honcho"
    lookup = ("honcho_search", "query")
    keep = ("honcho_conclude", "conclusion")

    @property
    def options(self) -> Mapping[str, object]:
        return {"base_url": self.server.url}

    @property
    def secrets(self) -> Mapping[str, str]:
        return {"HONCHO_API_KEY": KEY}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with HonchoEmulator(KEY).running() as self.server:
            yield
            assert not self.server.violations, sorted({*self.server.violations})

    async def stored(self, scope: Scope) -> list[str]:
        """What was sent: messages, and conclusions that were told and not drawn from messages."""
        place = self.server.workspaces.get(bank_of(scope, "trunkline"))
        if place is None:
            return []
        said = [one["content"] for session in place.sessions.values() for one in session.messages]
        told = [one["content"] for one in place.conclusions.values() if one["session_id"] is None]
        return [*said, *told, *place.card]
