"""Holographic's facts as a person's belongings: a part of their own copy of what is kept of them.

Erasing them is the state database's, like all that bears an owner there; joined people keep both banks.
"""

import json
from collections.abc import Mapping

from trunkline.agent.scope import PersonId, PersonScope
from trunkline.gateway.state.facts import StoreFacts

MOST_FACTS = 100_000


class FactBelongings:
    """`joining.Belongings` for the facts of the state database."""

    def __init__(self, facts: StoreFacts) -> None:
        self._facts = facts

    async def join(self, kept: PersonId, gone: PersonId, /) -> None:
        return

    async def part(self, kept: PersonId, gone: PersonId, /) -> None:
        return

    async def erase(self, person: PersonId, /) -> None:
        await self._facts.remove_all(PersonScope(person))

    async def export(self, person: PersonId, /) -> Mapping[str, bytes]:
        facts = await self._facts.listed(PersonScope(person), MOST_FACTS)
        told = [
            {"text": one.text, "trust": one.trust, "source": one.source, "date": one.updated.isoformat()}
            for one in facts
        ]
        return {"facts.json": json.dumps(told, ensure_ascii=False, indent=2).encode()} if told else {}
