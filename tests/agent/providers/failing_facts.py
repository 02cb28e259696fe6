"""A FactStore whose database can be out of order."""

import asyncio
from collections.abc import Sequence

from tests.emulators.provider import Outage
from trunkline.agent.providers.facts import Fact, FactStore, FactsUnavailable, NewFact, TermMatch
from trunkline.agent.scope import Scope


class FailingFacts:
    """Passes every call to the store behind, unless an outage is on; without a store it is always down."""

    def __init__(self, behind: FactStore | None = None) -> None:
        self.behind = behind
        self._outage: Outage | None = None
        self._lifted = asyncio.Event()

    def fail(self, outage: Outage | None) -> None:
        self._outage = outage
        if outage is None:
            self._lifted.set()
        else:
            self._lifted.clear()

    async def put(self, scope: Scope, fact: NewFact) -> Fact:
        return await (await self._pass()).put(scope, fact)

    async def get(self, scope: Scope, fact_id: int) -> Fact | None:
        return await (await self._pass()).get(scope, fact_id)

    async def by_key(self, scope: Scope, key: str) -> Fact | None:
        return await (await self._pass()).by_key(scope, key)

    async def find(self, scope: Scope, terms: Sequence[str], limit: int) -> tuple[TermMatch, ...]:
        return await (await self._pass()).find(scope, terms, limit)

    async def about(self, scope: Scope, entity: str, limit: int) -> tuple[Fact, ...]:
        return await (await self._pass()).about(scope, entity, limit)

    async def listed(self, scope: Scope, limit: int) -> tuple[Fact, ...]:
        return await (await self._pass()).listed(scope, limit)

    async def term_counts(self, scope: Scope, terms: Sequence[str]) -> dict[str, int]:
        return await (await self._pass()).term_counts(scope, terms)

    async def rate(self, scope: Scope, fact_id: int, change: float, *, helpful: bool) -> Fact | None:
        return await (await self._pass()).rate(scope, fact_id, change, helpful=helpful)

    async def remove(self, scope: Scope, fact_ids: Sequence[int]) -> int:
        return await (await self._pass()).remove(scope, fact_ids)

    async def remove_all(self, scope: Scope) -> int:
        return await (await self._pass()).remove_all(scope)

    async def count(self, scope: Scope) -> int:
        return await (await self._pass()).count(scope)

    async def _pass(self) -> FactStore:
        if self._outage == "slow":
            await self._lifted.wait()
        if self._outage == "down" or self.behind is None:
            raise FactsUnavailable("the state database can't be read")
        return self.behind
