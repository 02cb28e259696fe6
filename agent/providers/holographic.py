"""Holographic: facts with a measure of trust, kept in the state database; no account, no network, no model.

Facts come from the built-in memory, from its tools, and where `keep_messages` is set from what people write.
What is searched is words and names, so it finds what is worded alike; it does not paraphrase.
"""

import asyncio
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from typing import Annotated, Any

from pydantic import Field

from trunkline.agent.providers.base import (
    CompletedTurn,
    Conversation,
    Forget,
    ForgetAll,
    Forgotten,
    MemoryWrite,
    ProviderDown,
    ProviderKind,
    ProviderOptions,
    ProviderSetup,
    QuietHooks,
    Recalled,
    digest,
)
from trunkline.agent.providers.facts import Fact, FactStore, FactsUnavailable, NewFact
from trunkline.agent.providers.holographic_tools import FactLookup, holographic_tools
from trunkline.agent.providers.terms import entities_of, fold_entity, terms_of
from trunkline.agent.providers.texts import same, states
from trunkline.agent.scope import Scope
from trunkline.agent.tools.base import Tool

CANDIDATES = 60
LISTED = 500
"""So many of the newest facts are compared where every one would have to be."""
MIRROR_TRUST = 0.8
MESSAGE_TRUST = 0.4
MESSAGE_CHARS = 500
"""More of a person's message is not kept as a fact."""
NEAR_BEST = 0.35
"""A fact that scores less than this share of the best one answers another question."""
ALIKE = 0.4
"""Two facts that share so much of their terms speak of one thing."""


class HolographicOptions(ProviderOptions):
    """`recall_limit` facts come back on their own; those below `min_trust` only when asked for."""

    recall_limit: Annotated[int, Field(ge=1, le=50)] = 8
    default_trust: Annotated[float, Field(ge=0, le=1)] = 0.5
    min_trust: Annotated[float, Field(ge=0, le=1)] = 0.3
    keep_messages: bool = False


class Holographic(QuietHooks):
    """The provider over a FactStore."""

    name = "holographic"

    def __init__(self, facts: FactStore, options: HolographicOptions) -> None:
        self._facts = Facts(facts, options)
        self._options = options

    def available(self) -> tuple[str, ...]:
        return ()

    async def check(self) -> None:
        """There is nothing between us and the database to be checked."""

    def tools(self) -> tuple[Tool[Any], ...]:
        return holographic_tools(self._facts)

    async def prefetch(self, query: str, conversation: Conversation, scope: Scope) -> tuple[Recalled, ...]:
        found = await self._facts.search(scope, query, self._options.recall_limit)
        if not found:
            return ()
        best = found[0][1]
        return tuple(
            Recalled(fact.text, str(fact.id), score)
            for fact, score in found
            if score >= best * NEAR_BEST and fact.trust >= self._options.min_trust
        )

    async def sync(self, turn: CompletedTurn, scope: Scope) -> None:
        said = " ".join(turn.user.split())
        if self._options.keep_messages and said:
            await self._facts.keep(scope, _turn_key(turn.key), said[:MESSAGE_CHARS], "turn", MESSAGE_TRUST)

    async def on_memory_write(self, write: MemoryWrite, scope: Scope) -> str:
        kept = None
        if write.after:
            kept = await self._facts.keep(scope, f"memory:{write.key}", write.after, "memory", MIRROR_TRUST)
        gone = [int(write.remote_id)] if write.remote_id.isdecimal() else []
        if write.before:
            gone += await self._facts.stating(scope, (write.before,), whole=True)
        await self._facts.drop(scope, [one for one in gone if kept is None or one != kept.id])
        return "" if kept is None else str(kept.id)

    async def forget(self, what: Forget, scope: Scope) -> Forgotten:
        if isinstance(what, ForgetAll):
            return Forgotten(await self._facts.drop_all(scope))
        gone = await self._facts.stating(scope, what.wordings, whole=False)
        gone += [int(one) for one in what.remote_ids if one.isdecimal()]
        gone += await self._facts.with_keys(scope, [_turn_key(turn) for turn in what.turns])
        return Forgotten(await self._facts.drop(scope, gone))

    async def count(self, scope: Scope) -> int:
        return await self._facts.count(scope)


class Facts(FactLookup):
    """What can be asked of the facts of a scope. Raises ProviderDown."""

    def __init__(self, store: FactStore, options: HolographicOptions) -> None:
        self._store = store
        self._options = options

    async def search(self, scope: Scope, query: str, limit: int) -> list[tuple[Fact, float]]:
        """The facts that share words with the query, rare words first; trust weighs in."""
        terms = terms_of(query)
        if not terms:
            return []
        with _reported():
            total = await self._store.count(scope)
            counts = await self._store.term_counts(scope, terms)
            matches = await self._store.find(scope, terms, CANDIDATES)
        weights = {term: math.log(1 + total / number) for term, number in counts.items()}
        scored = [
            (match.fact, sum(weights.get(term, 0.0) for term in match.terms) * (0.5 + match.fact.trust))
            for match in matches
        ]
        return sorted(scored, key=lambda pair: -pair[1])[:limit]

    async def probe(self, scope: Scope, entity: str, limit: int) -> list[Fact]:
        """The facts that name the entity; without one, those that use its words."""
        with _reported():
            found = list(await self._store.about(scope, fold_entity(entity), limit))
        return found or [fact for fact, _ in await self.search(scope, entity, limit)]

    async def related(self, scope: Scope, entity: str, limit: int) -> list[Fact]:
        """The facts about what stands together with the entity, but don't name it."""
        near = await self.probe(scope, entity, CANDIDATES)
        seen = {fact.id for fact in near}
        found: dict[int, Fact] = {}
        for name in dict.fromkeys(name for fact in near for name in fact.entities):
            with _reported():
                for fact in await self._store.about(scope, name, CANDIDATES):
                    if fact.id not in seen:
                        found.setdefault(fact.id, fact)
            if len(found) >= limit:
                break
        return list(found.values())[:limit]

    async def reason(self, scope: Scope, entities: Sequence[str], limit: int) -> list[Fact]:
        """The facts that connect the entities: those that name the most of them first, at least two."""
        counted: dict[int, tuple[int, Fact]] = {}
        for entity in dict.fromkeys(entities):
            for fact in await self.probe(scope, entity, CANDIDATES):
                named = counted[fact.id][0] if fact.id in counted else 0
                counted[fact.id] = (named + 1, fact)
        ranked = sorted(counted.values(), key=lambda pair: (-pair[0], -pair[1].trust))
        return [fact for number, fact in ranked if number > 1][:limit]

    async def contradictions(self, scope: Scope, limit: int) -> list[tuple[Fact, Fact]]:
        """Pairs that speak of one thing in different words, the newer fact first: one may be out of date."""
        with _reported():
            facts = await self._store.listed(scope, LISTED)
        return (await asyncio.to_thread(_alike, facts))[:limit]

    async def listed(self, scope: Scope, limit: int) -> list[Fact]:
        with _reported():
            return list(await self._store.listed(scope, limit))

    async def add(self, scope: Scope, text: str, category: str, entities: Sequence[str]) -> Fact:
        """Keeps a fact once, however often it is added."""
        key = f"tool:{digest(' '.join(text.split()).casefold())}"
        return await self.keep(scope, key, text, "tool", self._options.default_trust, category, entities)

    async def change(self, scope: Scope, fact_id: int, text: str) -> Fact | None:
        with _reported():
            known = await self._store.get(scope, fact_id)
        if known is None:
            return None
        return await self.keep(scope, known.key, text, known.source, known.trust, known.category)

    async def keep(
        self,
        scope: Scope,
        key: str,
        text: str,
        source: str,
        trust: float,
        category: str = "general",
        entities: Sequence[str] = (),
    ) -> Fact:
        named = tuple(filter(None, map(fold_entity, entities)))
        names = tuple(dict.fromkeys((*named, *entities_of(text))))
        with _reported():
            return await self._store.put(
                scope, NewFact(key, text.strip(), category, source, trust, terms_of(text), names)
            )

    async def rate(self, scope: Scope, fact_id: int, change: float, *, helpful: bool) -> Fact | None:
        with _reported():
            return await self._store.rate(scope, fact_id, change, helpful=helpful)

    async def stating(self, scope: Scope, wordings: Sequence[str], *, whole: bool) -> list[int]:
        """The facts that are one of the wordings, and without `whole` those that hold one."""
        found: list[int] = []
        for wording in wordings:
            with _reported():
                terms = terms_of(wording)
                near = [match.fact for match in await self._store.find(scope, terms, LISTED)]
                near += [] if terms else await self._store.listed(scope, LISTED)
            found += [
                fact.id
                for fact in near
                if same(fact.text, wording) or (not whole and states(fact.text, (wording,)))
            ]
        return found

    async def with_keys(self, scope: Scope, keys: Iterable[str]) -> list[int]:
        with _reported():
            found = [await self._store.by_key(scope, key) for key in keys]
        return [fact.id for fact in found if fact is not None]

    async def drop(self, scope: Scope, fact_ids: Sequence[int]) -> int:
        with _reported():
            return await self._store.remove(scope, fact_ids)

    async def drop_all(self, scope: Scope) -> int:
        with _reported():
            return await self._store.remove_all(scope)

    async def count(self, scope: Scope) -> int:
        with _reported():
            return await self._store.count(scope)


@contextmanager
def _reported() -> Iterator[None]:
    """Turns the store's error into the providers' own."""
    try:
        yield
    except FactsUnavailable as error:
        raise ProviderDown(str(error)) from error


def _turn_key(key: str) -> str:
    return f"turn:{key}"


def _alike(facts: Sequence[Fact]) -> list[tuple[Fact, Fact]]:
    """Pairs of many words in common that don't say the same, those of the most first."""
    terms = {fact.id: frozenset(terms_of(fact.text)) for fact in facts}
    measured = (
        (_overlap(terms[newer.id], terms[older.id]), newer, older) for newer, older in combinations(facts, 2)
    )
    alike = [
        (overlap, newer, older)
        for overlap, newer, older in measured
        if overlap >= ALIKE and not same(newer.text, older.text)
    ]
    return [(newer, older) for _, newer, older in sorted(alike, key=lambda pair: -pair[0])]


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one and other else 0.0


def make(setup: ProviderSetup[HolographicOptions]) -> Holographic:
    return Holographic(setup.facts, setup.options)


KIND = ProviderKind(
    name="holographic", title="Holographic (local facts)", options=HolographicOptions, make=make
)
