"""The messages a search may be about: counts and postings of the rarest terms, within bounds.

It reads the index and fills `ranking.Windows`; choosing and showing sessions belongs to `search`.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, func, or_, select

from trunkline.agent.ports import SearchQuery
from trunkline.gateway.state import fulltext
from trunkline.gateway.state.analyser import units
from trunkline.gateway.state.fulltext import Posting, Reach
from trunkline.gateway.state.query import Query, Term
from trunkline.gateway.state.ranking import Corpus, Windows
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
MAX_POSTINGS = 3000
ENOUGH_HITS = 400
COUNT_CAP = 20_000
MAX_MEMBERS = 2000


def reach_of(connection: Connection, streams: Sequence[int], query: SearchQuery) -> Reach:
    if query.platform is not None and streams:
        streams = (
            connection.execute(
                select(stream.c.id)
                .outerjoin(account, account.c.id == stream.c.account_id)
                .outerjoin(room, room.c.id == stream.c.room_id)
                .where(
                    stream.c.id.in_(streams),
                    or_(account.c.platform == query.platform, room.c.platform == query.platform),
                )
            )
            .scalars()
            .all()
        )
    roles = tuple(sorted({fulltext.ROLES[role] for role in query.roles}))
    return Reach(tuple(streams), roles, _ms(query.since), _ms(query.until))


def collect(connection: Connection, asked: Query, reach: Reach) -> Windows:
    """The scored hits of the rarest terms, rarest first; once there are enough, terms only add to them."""
    windows = Windows(_corpus(connection, reach.streams))
    senders = _senders(connection, asked, reach.streams)
    counted: list[tuple[int, Term]] = []
    for term in asked.terms:
        frequency = fulltext.count(connection, term.pattern, reach, COUNT_CAP)
        if term in senders:
            frequency += _count_by(connection, senders[term], reach)
        if frequency:
            counted.append((frequency, term))
    counted.sort(key=lambda pair: pair[0])
    chosen = counted[:RAREST_TERMS] + [pair for pair in counted[RAREST_TERMS:] if pair[1].exact]
    for frequency, term in chosen:
        if len(windows.hits) < ENOUGH_HITS:
            postings = fulltext.postings(connection, term.pattern, reach, MAX_POSTINGS)
        else:
            postings = _near(connection, windows, term, reach)
        if term in senders:
            known = {posting.id for posting in postings}
            written = _written_by(connection, windows, senders[term], reach)
            postings.extend(posting for posting in written if posting.id not in known)
        windows.add(postings, frequency, term.group)
    return windows


def _near(connection: Connection, windows: Windows, term: Term, reach: Reach) -> list[Posting]:
    """The postings of a common term that fall on the hits there are, or beside them."""
    ids = fulltext.posting_ids(connection, term.pattern, reach, MAX_POSTINGS)
    known = [windows.hits[one] for one in ids & windows.hits.keys()]
    beside = {one + step for one in windows.hits for step in (-1, 1)} & ids - windows.hits.keys()
    return known + fulltext.postings_of(connection, beside, reach)


def _corpus(connection: Connection, streams: Sequence[int]) -> Corpus:
    size, words = connection.execute(
        select(func.sum(stream.c.indexed_count), func.sum(stream.c.indexed_words)).where(
            stream.c.id.in_(streams)
        )
    ).one()
    # PostgreSQL sums into Decimal.
    return Corpus(int(size or 0), float(words or 0) / int(size or 1))


def _senders(connection: Connection, asked: Query, streams: Sequence[int]) -> dict[Term, frozenset[int]]:
    """The terms that name somebody who writes in these streams, with that person's accounts."""
    members = (
        select(room_member.c.account_id)
        .join(stream, stream.c.room_id == room_member.c.room_id)
        .where(stream.c.id.in_(streams))
        .limit(MAX_MEMBERS)
    )
    rows = connection.execute(
        select(account.c.id, account.c.label, person.c.name)
        .outerjoin(person, person.c.id == account.c.person_id)
        .where(account.c.id.in_(members))
    )
    named: dict[str, set[int]] = {}
    for row in rows:
        for unit in units(f"{row.label} {row.name or ''}"):
            named.setdefault(unit.surface, set()).add(row.id)
    return {
        term: frozenset(named[term.surfaces[0]])
        for term in asked.terms
        if term.surfaces[0] in named and not term.exact
    }


def _count_by(connection: Connection, accounts: frozenset[int], reach: Reach) -> int:
    return connection.execute(
        select(func.count()).where(_within(reach), indexed_message.c.account_id.in_(accounts))
    ).scalar_one()


def _written_by(
    connection: Connection, windows: Windows, accounts: frozenset[int], reach: Reach
) -> list[Posting]:
    """The messages these accounts wrote: of the hits there are, else the newest of the scope."""
    if windows.hits:
        return [posting for posting in windows.hits.values() if posting.account_id in accounts]
    rows = connection.execute(
        select(indexed_message.c.id)
        .where(_within(reach), indexed_message.c.account_id.in_(accounts))
        .order_by(indexed_message.c.created_ms.desc())
        .limit(ENOUGH_HITS)
    )
    return fulltext.postings_of(connection, set(rows.scalars()), reach)


def _within(reach: Reach) -> ColumnElement[bool]:
    return or_(*(indexed_message.c.id.between(*fulltext.span(one)) for one in reach.streams))


def leave_out(
    connection: Connection, windows: Windows, asked: Query, reach: Reach, query: SearchQuery
) -> None:
    """Takes out messages with words behind NOT, and what the model has in its context already."""
    for term in asked.excluded:
        windows.remove(fulltext.posting_ids(connection, term.pattern, reach, COUNT_CAP))
    if query.exclude_session is None:
        return
    current = select(session.c.id).where(session.c.public_id == query.exclude_session).scalar_subquery()
    live = select(message.c.id).where(message.c.session_id == current, message.c.state == "live")
    windows.remove(connection.execute(live).scalars())


def _ms(time: datetime | None) -> int | None:
    return None if time is None else int(time.timestamp() * 1000)
