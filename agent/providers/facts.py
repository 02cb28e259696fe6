"""The port to a table of short facts, kept by the house in its own database. What they mean is Holographic's.

Every call is within one scope: a fact of another scope is like one that does not exist.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from trunkline.agent.scope import Scope


@dataclass(frozen=True, slots=True)
class NewFact:
    """A fact to keep. `key` is unique within its scope; `terms` are what it is found by, each once.

    `entities` are the names in it, folded, in their order. `trust` is 0 to 1. `source` says how it came.
    """

    key: str
    text: str
    category: str
    source: str
    trust: float
    terms: tuple[str, ...]
    entities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fact:
    """A kept fact. `updated` is aware UTC; `helpful` and `unhelpful` count the feedback."""

    id: int
    key: str
    text: str
    category: str
    source: str
    trust: float
    entities: tuple[str, ...]
    helpful: int
    unhelpful: int
    updated: datetime


@dataclass(frozen=True, slots=True)
class TermMatch:
    """A fact that bears some of the terms asked for, and which."""

    fact: Fact
    terms: tuple[str, ...]


class FactStore(Protocol):
    """Facts in the state database. Each call is one transaction. Raises FactsUnavailable."""

    async def put(self, scope: Scope, fact: NewFact) -> Fact:
        """Keeps a fact, in place of the one with the same key, whose trust and feedback then stay."""
        ...

    async def get(self, scope: Scope, fact_id: int) -> Fact | None: ...

    async def by_key(self, scope: Scope, key: str) -> Fact | None: ...

    async def find(self, scope: Scope, terms: Sequence[str], limit: int) -> tuple[TermMatch, ...]:
        """The facts that share most of the terms, most first, then the newest; order is nothing."""
        ...

    async def about(self, scope: Scope, entity: str, limit: int) -> tuple[Fact, ...]:
        """The facts that name the entity (folded), the most trusted first."""
        ...

    async def listed(self, scope: Scope, limit: int) -> tuple[Fact, ...]:
        """The newest facts first."""
        ...

    async def term_counts(self, scope: Scope, terms: Sequence[str]) -> dict[str, int]:
        """In how many facts of the scope each of the terms stands."""
        ...

    async def rate(self, scope: Scope, fact_id: int, change: float, *, helpful: bool) -> Fact | None:
        """Counts feedback and moves the trust, held within 0 and 1."""
        ...

    async def remove(self, scope: Scope, fact_ids: Sequence[int]) -> int:
        """Deletes facts with their terms and entities; returns how many there were."""
        ...

    async def remove_all(self, scope: Scope) -> int: ...

    async def count(self, scope: Scope) -> int: ...


class FactsUnavailable(Exception):
    """The database did not answer."""
