"""Queries on requests to link two accounts, and on the former slugs of people who were joined."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, or_, select, update

from trunkline.agent.scope import AccountId, PersonId
from trunkline.gateway.state.schema import link_request, memory_journal, person, person_alias


@dataclass(frozen=True, slots=True)
class Request:
    """`other` typed the code of `asker`; what each of them has said to it so far."""

    id: int
    asker: AccountId
    other: AccountId
    asker_yes: bool
    other_yes: bool


@dataclass(frozen=True, slots=True)
class Alias:
    """Somebody who was joined with the person `person_id`, and what parting them again gives back.

    `source` is how they had come; `accounts` are theirs, with how each had come; `journal` are the rows of
    their memory's journal; `writes` the journal rows of the join itself.
    """

    slug: PersonId
    person_id: int
    source: str
    accounts: tuple[tuple[int, str], ...]
    journal: tuple[int, ...]
    writes: tuple[int, ...]


def add_request(
    connection: Connection, asker: AccountId, other: AccountId, now_ms: int, lasts_ms: int
) -> None:
    """An open request, in place of any other that one of the two takes part in."""
    mine = or_(*(column.in_((asker, other)) for column in (link_request.c.asker_id, link_request.c.other_id)))
    connection.execute(
        update(link_request).where(mine, link_request.c.state == "open").values(state="refused")
    )
    connection.execute(
        insert(link_request).values(
            asker_id=asker, other_id=other, created_ms=now_ms, expires_ms=now_ms + lasts_ms
        )
    )


def open_request(connection: Connection, account: AccountId, now_ms: int) -> Request | None:
    """The request that waits for an account's word, or for the other side's."""
    row = connection.execute(
        select(link_request)
        .where(
            or_(link_request.c.asker_id == account, link_request.c.other_id == account),
            link_request.c.state == "open",
            link_request.c.expires_ms > now_ms,
        )
        .order_by(link_request.c.id.desc())
        .limit(1)
    ).first()
    if row is None:
        return None
    return Request(row.id, AccountId(row.asker_id), AccountId(row.other_id), row.asker_yes, row.other_yes)


def say_yes(connection: Connection, request: Request, account: AccountId, until_ms: int) -> Request:
    """Notes one side's yes, and waits for the other side's until then."""
    values = {"asker_yes": True} if account == request.asker else {"other_yes": True}
    connection.execute(
        update(link_request).where(link_request.c.id == request.id).values(**values, expires_ms=until_ms)
    )
    return Request(
        request.id,
        request.asker,
        request.other,
        request.asker_yes or account == request.asker,
        request.other_yes or account == request.other,
    )


def close_request(connection: Connection, request: Request, state: str) -> None:
    connection.execute(update(link_request).where(link_request.c.id == request.id).values(state=state))


# Former slugs


def former_slugs(connection: Connection, slug: str) -> tuple[PersonId, ...]:
    """The slugs under which parts of this person's belongings may still be kept."""
    query = (
        select(person_alias.c.slug)
        .join(person, person.c.id == person_alias.c.person_id)
        .where(person.c.slug == slug)
        .order_by(person_alias.c.slug)
    )
    return tuple(PersonId(one) for one in connection.execute(query).scalars())


def add_alias(connection: Connection, alias: Alias, now_ms: int) -> None:
    connection.execute(
        insert(person_alias).values(
            slug=alias.slug,
            person_id=alias.person_id,
            accounts=json.dumps({"source": alias.source, "accounts": alias.accounts}),
            journal=json.dumps(alias.journal),
            writes=json.dumps(alias.writes),
            created_ms=now_ms,
        )
    )


def find_alias(connection: Connection, slug: str) -> Alias | None:
    row = connection.execute(select(person_alias).where(person_alias.c.slug == slug)).first()
    return None if row is None else _alias(row)


def latest_alias(connection: Connection, person_id: int) -> Alias | None:
    """Who was joined with this person last."""
    row = connection.execute(
        select(person_alias)
        .where(person_alias.c.person_id == person_id)
        .order_by(person_alias.c.created_ms.desc(), person_alias.c.slug)
        .limit(1)
    ).first()
    return None if row is None else _alias(row)


def remove_alias(connection: Connection, slug: str, writes: Sequence[int]) -> None:
    """Ends a join; its own journal rows hold what is no longer the kept person's, and go."""
    connection.execute(delete(memory_journal).where(memory_journal.c.id.in_(writes)))
    connection.execute(delete(person_alias).where(person_alias.c.slug == slug))


def move_aliases(connection: Connection, old_person: int, new_person: int) -> None:
    connection.execute(
        update(person_alias).where(person_alias.c.person_id == old_person).values(person_id=new_person)
    )


def give_journal(connection: Connection, old: str, new: str, rows: Sequence[int] | None) -> tuple[int, ...]:
    """Makes journal rows of one slug another's (all of them, or those in `rows`); returns which."""
    query = select(memory_journal.c.id).where(memory_journal.c.owner == f"person:{old}")
    if rows is not None:
        query = query.where(memory_journal.c.id.in_(rows))
    found = tuple(connection.execute(query).scalars())
    connection.execute(
        update(memory_journal).where(memory_journal.c.id.in_(found)).values(owner=f"person:{new}")
    )
    return found


def _alias(row: Row[Any]) -> Alias:
    kept = json.loads(row.accounts)
    accounts = tuple((int(one), str(source)) for one, source in kept["accounts"])
    return Alias(
        PersonId(row.slug),
        row.person_id,
        kept["source"],
        accounts,
        tuple(json.loads(row.journal)),
        tuple(json.loads(row.writes)),
    )
