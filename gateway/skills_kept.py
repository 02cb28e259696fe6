"""The skills of a person, when two are joined, one takes a copy away, or leaves (see joining.Belongings)."""

from collections.abc import Mapping

from trunkline.agent.scope import PersonId, PersonScope
from trunkline.agent.skills.store import SkillStore


class SkillBelongings:
    """Skills that have the same name stay where they are when two people are joined."""

    def __init__(self, store: SkillStore) -> None:
        self._store = store

    async def join(self, kept: PersonId, gone: PersonId) -> None:
        await self._store.join(PersonScope(kept), PersonScope(gone))

    async def part(self, kept: PersonId, gone: PersonId) -> None:
        await self._store.part(PersonScope(kept), PersonScope(gone))

    async def erase(self, person: PersonId) -> None:
        await self._store.erase(PersonScope(person))

    async def export(self, person: PersonId) -> Mapping[str, bytes]:
        return await self._store.export(PersonScope(person))
