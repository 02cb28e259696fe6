"""The messages a search may be about: counts and postings of the rarest terms, within bounds.

It reads the index and fills `ranking.Windows`; choosing and showing sessions belongs to `search`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from sqlalchemy import ColumnElement, Connection, bindparam, or_, select

from trunkline.agent.ports import SearchQuery
from trunkline.agent.scope import Scope
from trunkline.gateway.state import fulltext
from trunkline.gateway.state.analyser import storable, units
from trunkline.gateway.state.fulltext import Reach
from trunkline.gateway.state.kinds import things_of
from trunkline.gateway.state.query import Query, Term
from trunkline.gateway.state.ranking import Corpus, Windows, idf, strongest
from trunkline.gateway.state.resuming import shown_before
from trunkline.gateway.state.schema import (
    account,
    indexed_message,
    message,
    person,
    room,
    room_member,
    session,
    stream,
)

# Bounds of one search, as measured in docs/benchmarks.md: fewer terms lose recall, more cost only time.
RAREST_TERMS = 6
MOST_READ = 9
MAX_POSTINGS = 1500
ENOUGH_HITS = 400
COUNT_CAP = 1500
MAX_EXCLUDED = 20_000
MAX_MEMBERS = 2000
SAMPLED_MESSAGES = 2000
MAX_KINDS = 2
MAX_THINGS = 300

# What a thing of a kind is worth where the word for the kind was asked for.
THINGS_SHARE = 0.2
# No term of a query has this group: it counts for none of the words that must be there.
LOOSE_GROUP = 0


@dataclass(frozen=True, slots=True)
class _Found:
    """A term, the newest messages that hold it, and how many hold it or are by whom it names."""

    term: Term
    ids: set[int]
    frequency: int
    rarity: float


# Made once: building a statement costs more than running it.
_STREAMS = select(stream.c.id, stream.c.last_n, stream.c.indexed_count, stream.c.indexed_words).where(
    stream.c.id.in_(bindparam("streams", expanding=True))
)
_MEMBERS = (
    select(account.c.id, account.c.label, person.c.name)
    .outerjoin(person, person.c.id == account.c.person_id)
    .where(
        account.c.id.in_(
            select(room_member.c.account_id)
            .join(stream, stream.c.room_id == room_member.c.room_id)
            .where(stream.c.id.in_(bindparam("streams", expanding=True)))
            .limit(MAX_MEMBERS)
        )
    )
)


def reach_of(connection: Connection, streams: Sequence[int], query: SearchQuery) -> tuple[Reach, Corpus]:
    """Where the query may look, and how much was said there."""
    if query.platform is not None and streams:
        platform = storable(query.platform)
        streams = (
            connection.execute(
                select(stream.c.id)
                .outerjoin(account, account.c.id == stream.c.account_id)
                .outerjoin(room, room.c.id == stream.c.room_id)
                .where(
                    stream.c.id.in_(streams),
                    or_(account.c.platform == platform, room.c.platform == platform),
                )
            )
            .scalars()
            .all()
        )
    roles = tuple(sorted({fulltext.ROLES[role] for role in query.roles}))
    rows = connection.execute(_STREAMS, {"streams": streams}).all()
    reach = Reach(
        tuple(row.id for row in rows),
        roles,
        _ms(query.since),
        _ms(query.until),
        tuple(row.last_n for row in rows),
    )
    messages = sum(row.indexed_count for row in rows)
    return reach, Corpus(messages, sum(row.indexed_words for row in rows) / max(messages, 1))


def collect(connection: Connection, asked: Query, reach: Reach, corpus: Corpus) -> Windows:
    """The scored hits of the rarest terms: what the ids alone choose is read and weighed."""
    senders = _senders(connection, asked, reach.streams)
    found = _rarest(connection, asked, reach, corpus, senders)
    if asked.is_plain:
        found.extend(_loosened(connection, found, reach, corpus))
    found = sorted((one for one in found if one.frequency), key=lambda one: one.frequency)
    best = strongest([(one.ids, one.rarity) for one in found], ENOUGH_HITS)
    if not best:
        for one in found:
            best |= _written_by(connection, senders.get(one.term, frozenset()), reach)
    windows = Windows(corpus, fulltext.postings_of(connection, best, reach))
    for one in found:
        windows.add(one.ids, senders.get(one.term, frozenset()), one.rarity, one.term.group)
    return windows


def _loosened(
    connection: Connection, exact: Sequence[_Found], reach: Reach, corpus: Corpus
) -> Iterator[_Found]:
    """Less than was asked for: things of a kind that a word names, the beginning of a word nobody said.

    One word alone means itself, unless nobody said it.
    """
    kinds = 0
    for one in exact:
        things = things_of(one.term.pattern)
        if things and kinds < MAX_KINDS and (len(exact) > 1 or not one.frequency):
            kinds += 1
            ids, frequency = fulltext.matches(connection, things, reach, MAX_THINGS)
            share = THINGS_SHARE * idf(corpus.messages, frequency)
            yield _Found(Term(things, one.term.surfaces, LOOSE_GROUP), ids, frequency, share)
        begun = one.term.begun
        if begun and len(exact) > 1 and not one.frequency:
            ids, frequency = fulltext.matches(connection, begun, reach, MAX_POSTINGS)
            loose = Term(begun, (begun[0].words[0],), LOOSE_GROUP)
            yield _Found(loose, ids, frequency, idf(corpus.messages, frequency))


def _rarest(
    connection: Connection,
    asked: Query,
    reach: Reach,
    corpus: Corpus,
    senders: Mapping[Term, frozenset[int]],
) -> list[_Found]:
    """What holds the terms that say most; quoted ones always. Of many terms the common ones are not read."""
    terms: Sequence[Term] = asked.terms
    if len(terms) > MOST_READ:
        counted = [(fulltext.count(connection, term.pattern, reach, COUNT_CAP), term) for term in terms]
        said = sorted((pair for pair in counted if pair[0]), key=lambda pair: pair[0])
        terms = [term for place, (_, term) in enumerate(said) if place < MOST_READ or term.exact]
    found: list[_Found] = []
    for term in terms:
        ids, frequency = fulltext.matches(connection, term.pattern, reach, MAX_POSTINGS)
        if term in senders:
            frequency += _count_by(connection, senders[term], reach)
        found.append(_Found(term, ids, frequency, idf(corpus.messages, frequency)))
    if len(asked.terms) <= RAREST_TERMS:
        return found
    found = sorted((one for one in found if one.frequency), key=lambda one: one.frequency)
    return [one for place, one in enumerate(found) if place < RAREST_TERMS or one.term.exact]


def _senders(connection: Connection, asked: Query, streams: Sequence[int]) -> dict[Term, frozenset[int]]:
    """The terms that name somebody who writes in these streams, with that person's accounts."""
    if not asked.terms:
        return {}
    named: dict[str, set[int]] = {}
    for row in connection.execute(_MEMBERS, {"streams": streams}):
        for surface in _names_in(f"{row.label} {row.name or ''}"):
            named.setdefault(surface, set()).add(row.id)
    return {
        term: frozenset(named[term.surfaces[0]])
        for term in asked.terms
        if term.surfaces[0] in named and not term.exact
    }


@lru_cache(maxsize=4096)
def _names_in(text: str) -> tuple[str, ...]:
    return tuple(unit.surface for unit in units(text))


def _count_by(connection: Connection, accounts: frozenset[int], reach: Reach) -> int:
    """About how many messages these accounts wrote: their share of the newest ones holds for all."""
    return int(fulltext.share_by(connection, accounts, reach, SAMPLED_MESSAGES) * sum(reach.sizes))


def _written_by(connection: Connection, accounts: frozenset[int], reach: Reach) -> set[int]:
    """The newest messages these accounts wrote."""
    if not accounts:
        return set()
    rows = connection.execute(
        select(indexed_message.c.id)
        .where(_within(reach), indexed_message.c.account_id.in_(accounts))
        .order_by(indexed_message.c.id.desc())
        .limit(ENOUGH_HITS)
    )
    return set(rows.scalars())


def _within(reach: Reach) -> ColumnElement[bool]:
    return or_(*(indexed_message.c.id.between(*fulltext.span(one)) for one in reach.streams))


def leave_out(
    connection: Connection, scope: Scope, windows: Windows, asked: Query, reach: Reach, query: SearchQuery
) -> set[int]:
    """Takes out messages with words behind NOT, and what the model has in its context already.

    Returns the sessions that are in its context, or parts of them.
    """
    for term in asked.excluded:
        windows.remove(fulltext.posting_ids(connection, term.pattern, reach, MAX_EXCLUDED))
    if query.exclude_session is None:
        return set()
    named = select(session.c.id).where(session.c.public_id == storable(query.exclude_session))
    current = connection.execute(named).scalar()
    if current is None:
        return set()
    live = select(message.c.id).where(message.c.session_id == current, message.c.state == "live")
    windows.remove(connection.execute(live).scalars())
    before = shown_before(connection, scope, current)
    for ids in before.values():
        windows.remove(ids)
    return {current, *before}


def _ms(time: datetime | None) -> int | None:
    return None if time is None else int(time.timestamp() * 1000)
