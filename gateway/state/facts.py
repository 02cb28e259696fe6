"""Holographic's facts in the state database: the agent's `FactStore`. What a fact means is not known here."""

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, delete, func, insert, select, update
from sqlalchemy.exc import DBAPIError

from trunkline.agent.providers.facts import Fact, FactsUnavailable, NewFact, TermMatch
from trunkline.agent.scope import Scope
from trunkline.gateway.clock import now_ms
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.journal import owner_of
from trunkline.gateway.state.schema import fact, fact_term
from trunkline.gateway.state.transcripts import when

T = TypeVar("T")

ENTITY = "@"
"""Begins the terms that are names; no other term holds it."""
MAX_CONDITIONS = 400
"""Values in one IN list: below what any SQLite allows."""


class StoreFacts:
    """`agent.providers.facts.FactStore` over a Database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, scope: Scope, new: NewFact) -> Fact:
        return await self._write(lambda c: put(c, owner_of(scope), new, now_ms()))

    async def get(self, scope: Scope, fact_id: int) -> Fact | None:
        return await self._read(lambda c: _one(c, owner_of(scope), fact.c.id == fact_id))

    async def by_key(self, scope: Scope, key: str) -> Fact | None:
        return await self._read(lambda c: _one(c, owner_of(scope), fact.c.key == key))

    async def find(self, scope: Scope, terms: Sequence[str], limit: int) -> tuple[TermMatch, ...]:
        return await self._read(lambda c: find(c, owner_of(scope), terms, limit))

    async def about(self, scope: Scope, entity: str, limit: int) -> tuple[Fact, ...]:
        return await self._read(lambda c: about(c, owner_of(scope), entity, limit))

    async def listed(self, scope: Scope, limit: int) -> tuple[Fact, ...]:
        return await self._read(lambda c: listed(c, owner_of(scope), limit))

    async def term_counts(self, scope: Scope, terms: Sequence[str]) -> dict[str, int]:
        return await self._read(lambda c: term_counts(c, owner_of(scope), terms))

    async def rate(self, scope: Scope, fact_id: int, change: float, *, helpful: bool) -> Fact | None:
        return await self._write(lambda c: rate(c, owner_of(scope), fact_id, change, helpful=helpful))

    async def remove(self, scope: Scope, fact_ids: Sequence[int]) -> int:
        return await self._write(lambda c: remove(c, owner_of(scope), fact_ids))

    async def remove_all(self, scope: Scope) -> int:
        return await self._write(lambda c: remove_all(c, owner_of(scope)))

    async def count(self, scope: Scope) -> int:
        return await self._read(lambda c: count(c, owner_of(scope)))

    async def _read(self, work: Callable[[Connection], T]) -> T:
        try:
            return await self._database.read(work)
        except DBAPIError as error:
            raise FactsUnavailable("the state database can't be read") from error

    async def _write(self, work: Callable[[Connection], T]) -> T:
        try:
            return await self._database.write(work)
        except DBAPIError as error:
            raise FactsUnavailable("the state database can't be written") from error


def put(connection: Connection, owner: str, new: NewFact, stamp_ms: int) -> Fact:
    values = {
        "content": new.text,
        "category": new.category,
        "source": new.source,
        "entities": json.dumps(list(new.entities)),
        "updated_ms": stamp_ms,
    }
    where = (fact.c.owner == owner, fact.c.key == new.key)
    fact_id = connection.execute(update(fact).where(*where).values(values).returning(fact.c.id)).scalar()
    if fact_id is None:
        made = insert(fact).values(owner=owner, key=new.key, trust=new.trust, created_ms=stamp_ms, **values)
        fact_id = connection.execute(made.returning(fact.c.id)).scalar_one()
    connection.execute(delete(fact_term).where(fact_term.c.fact_id == fact_id))
    terms = dict.fromkeys((*new.terms, *(ENTITY + entity for entity in new.entities)))
    rows = [{"owner": owner, "term": term, "fact_id": fact_id} for term in terms]
    if rows:
        connection.execute(insert(fact_term), rows)
    kept = _one(connection, owner, fact.c.id == fact_id)
    assert kept is not None
    return kept


def find(connection: Connection, owner: str, terms: Sequence[str], limit: int) -> tuple[TermMatch, ...]:
    wanted = list(dict.fromkeys(terms))[:MAX_CONDITIONS]
    matching = (
        select(fact_term.c.fact_id, func.count().label("hits"))
        .where(fact_term.c.owner == owner, fact_term.c.term.in_(wanted))
        .group_by(fact_term.c.fact_id)
        .subquery()
    )
    query = select(fact).join(matching, matching.c.fact_id == fact.c.id).where(fact.c.owner == owner)
    rows = connection.execute(query.order_by(matching.c.hits.desc(), fact.c.id.desc()).limit(limit)).all()
    found: dict[int, list[str]] = {row.id: [] for row in rows}
    of_them = select(fact_term.c.fact_id, fact_term.c.term).where(
        fact_term.c.fact_id.in_(found), fact_term.c.term.in_(wanted)
    )
    for fact_id, term in connection.execute(of_them):
        found[fact_id].append(term)
    return tuple(TermMatch(_fact(row), tuple(sorted(found[row.id]))) for row in rows)


def about(connection: Connection, owner: str, entity: str, limit: int) -> tuple[Fact, ...]:
    query = (
        select(fact)
        .join(fact_term, fact_term.c.fact_id == fact.c.id)
        .where(fact.c.owner == owner, fact_term.c.owner == owner, fact_term.c.term == ENTITY + entity)
    )
    return tuple(map(_fact, connection.execute(query.order_by(fact.c.trust.desc(), fact.c.id).limit(limit))))


def listed(connection: Connection, owner: str, limit: int) -> tuple[Fact, ...]:
    query = select(fact).where(fact.c.owner == owner).order_by(fact.c.id.desc()).limit(limit)
    return tuple(map(_fact, connection.execute(query)))


def term_counts(connection: Connection, owner: str, terms: Sequence[str]) -> dict[str, int]:
    wanted = list(dict.fromkeys(terms))[:MAX_CONDITIONS]
    query = select(fact_term.c.term, func.count()).where(
        fact_term.c.owner == owner, fact_term.c.term.in_(wanted)
    )
    rows = connection.execute(query.group_by(fact_term.c.term))
    return {row[0]: row[1] for row in rows}


def rate(connection: Connection, owner: str, fact_id: int, change: float, *, helpful: bool) -> Fact | None:
    known = _one(connection, owner, fact.c.id == fact_id)
    if known is None:
        return None
    counted = {"helpful": known.helpful + 1} if helpful else {"unhelpful": known.unhelpful + 1}
    trust = round(min(1.0, max(0.0, known.trust + change)), 4)
    connection.execute(update(fact).where(fact.c.id == fact_id).values(trust=trust, **counted))
    return _one(connection, owner, fact.c.id == fact_id)


def remove(connection: Connection, owner: str, fact_ids: Sequence[int]) -> int:
    removed = 0
    for fact_id in dict.fromkeys(fact_ids):
        if _one(connection, owner, fact.c.id == fact_id) is not None:
            connection.execute(delete(fact_term).where(fact_term.c.fact_id == fact_id))
            removed += connection.execute(delete(fact).where(fact.c.id == fact_id)).rowcount
    return removed


def remove_all(connection: Connection, owner: str) -> int:
    connection.execute(delete(fact_term).where(fact_term.c.owner == owner))
    return connection.execute(delete(fact).where(fact.c.owner == owner)).rowcount


def count(connection: Connection, owner: str) -> int:
    return connection.execute(
        select(func.count()).select_from(fact).where(fact.c.owner == owner)
    ).scalar_one()


def _one(connection: Connection, owner: str, which: ColumnElement[bool]) -> Fact | None:
    row = connection.execute(select(fact).where(fact.c.owner == owner, which)).one_or_none()
    return None if row is None else _fact(row)


def _fact(row: Row[Any]) -> Fact:
    return Fact(
        id=row.id,
        key=row.key,
        text=row.content,
        category=row.category,
        source=row.source,
        trust=row.trust,
        entities=tuple(json.loads(row.entities or "[]")),
        helpful=row.helpful,
        unhelpful=row.unhelpful,
        updated=when(row.updated_ms),
    )
