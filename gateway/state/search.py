"""Finds past sessions within a scope: query, postings, ranking, filters, excerpts.

`query` reads the text, `fulltext` holds the postings, `ranking` weighs them, `transcripts` shows the result.
The work of one search is bounded, however common the words.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from typing import Any, Protocol, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sqlalchemy import Connection, Row, bindparam, select
from sqlalchemy.exc import SQLAlchemyError

from trunkline.agent.ports import (
    SearchFailed,
    SearchOutcome,
    SearchQuery,
    SessionCard,
    SessionHit,
    SessionView,
    TranscriptLine,
)
from trunkline.agent.scope import PersonScope, Scope
from trunkline.gateway.state import fulltext, transcripts
from trunkline.gateway.state.candidates import collect, leave_out, reach_of
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.dates import YEAR_ONLY, Day, asks_for_recent, named_days
from trunkline.gateway.state.fulltext import Reach
from trunkline.gateway.state.index_probe import is_blind
from trunkline.gateway.state.messages import index_is_degraded, mark_degraded, streams_of
from trunkline.gateway.state.query import Query, parse
from trunkline.gateway.state.ranking import SessionScore, Windows
from trunkline.gateway.state.schema import person, session
from trunkline.gateway.state.title_matches import with_titles

logger = logging.getLogger(__name__)

T = TypeVar("T")

MAX_SESSIONS = 30
MAX_DAY_SESSIONS = 500

# In units of inverse document frequency: a word of one message in 100 is worth about 4.6.
DAY_WEIGHT = 12.0
# For questions that ask for the latest.
RECENT_WEIGHT = 3.0
RECENT_HALVES_DAYS = 30
AUTOMATION_SHARE = 0.5
# With newest or oldest first, only sessions with this share of the best score take part.
SORTED_SHARE = 0.5

DAY_MS = 24 * 60 * 60 * 1000

EXCERPT_WINDOWS = 3
EXCERPT_CHARS = 500
EXCHANGE_CHARS = 240


# Made once: building a statement costs more than running it.
_DAYS = (
    select(session.c.id, session.c.public_id, session.c.started_ms, session.c.last_ms)
    .where(session.c.stream_id.in_(bindparam("streams", expanding=True)))
    .order_by(session.c.last_ms.desc())
    .limit(MAX_DAY_SESSIONS)
)
_ORIGINS = select(session.c.id, session.c.origin).where(
    session.c.id.in_(bindparam("ids", expanding=True)),
    session.c.stream_id.in_(bindparam("streams", expanding=True)),
    session.c.private.is_(False),
)
_TIMEZONE = select(person.c.timezone).where(person.c.slug == bindparam("slug"))


Move = Callable[[Connection, Reach, list[SessionScore], str | None], list[SessionScore]]
"""Moves the scores that words gave; gets the reach, the scores, and the session that it must not bring in."""


class Fusion(Protocol):
    """Another opinion on a search beside the words': that of meaning."""

    async def prepared(self, text: str) -> Move | None:
        """What is to be done to the scores of this query; None when words alone must do."""
        ...


class StoreSearch:
    """`SessionSearch` over state.db. Every method raises SearchFailed when the store can't answer."""

    def __init__(self, database: Database, fusion: Fusion | None = None) -> None:
        self._database = database
        self._fusion = fusion

    async def browse(
        self,
        scope: Scope,
        limit: int,
        platform: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> tuple[SessionCard, ...]:
        def work(connection: Connection) -> tuple[SessionCard, ...]:
            streams = streams_of(connection, scope)
            return transcripts.browse(connection, streams, limit, platform, since, until)

        return await self._read(work)

    async def search(self, scope: Scope, query: SearchQuery) -> SearchOutcome:
        move = None if self._fusion is None else await self._fusion.prepared(query.text)
        return await self._read(lambda connection: search(connection, scope, query, move))

    async def read(self, scope: Scope, session: str, max_chars: int) -> SessionView | None:
        def work(connection: Connection) -> SessionView | None:
            row = transcripts.find_session(connection, streams_of(connection, scope), session)
            return None if row is None else transcripts.read(connection, row, max_chars)

        return await self._read(work)

    async def around(self, scope: Scope, session: str, message_id: int, window: int) -> SessionView | None:
        def work(connection: Connection) -> SessionView | None:
            row = transcripts.find_session(connection, streams_of(connection, scope), session)
            return None if row is None else transcripts.around(connection, row, message_id, window)

        return await self._read(work)

    async def context_of(self, scope: Scope, session: str, message_ids: Sequence[int], max_chars: int) -> str:
        def work(connection: Connection) -> str:
            row = transcripts.find_session(connection, streams_of(connection, scope), session)
            return "" if row is None else transcripts.context(connection, row, message_ids, max_chars)

        return await self._read(work)

    async def _read(self, work: Callable[[Connection], T]) -> T:
        try:
            return await self._database.read(work)
        except SQLAlchemyError as error:
            if fulltext.is_broken(error):
                await self._note_broken_index(error)
                raise SearchFailed(
                    "The search index is broken; `trunkline db reindex` makes it anew from the messages."
                ) from error
            raise SearchFailed("The search index can't be read; `trunkline doctor` says why.") from error

    async def _note_broken_index(self, fault: SQLAlchemyError) -> None:
        try:
            await self._database.write(lambda connection: mark_degraded(connection, fault))
        except SQLAlchemyError as error:
            logger.warning("index is broken and can't be marked so: %s", type(error).__name__)


def search(
    connection: Connection, scope: Scope, query: SearchQuery, move: Move | None = None
) -> SearchOutcome:
    """`StoreSearch.search` inside a read of the caller's. Raises the database's own errors."""
    degraded = index_is_degraded(connection)
    streams = streams_of(connection, scope)
    reach, corpus = reach_of(connection, streams, query)
    if not reach.streams or not reach.tables:
        return SearchOutcome((), degraded=degraded)
    zone: tzinfo = UTC
    days = named_days(query.text, datetime.now(zone).date())
    if days:
        zone = _timezone(connection, scope)
        days = named_days(query.text, datetime.now(zone).date())
    asked = parse(query.text)
    windows = collect(connection, asked, reach, corpus)
    if not windows.hits:
        degraded = degraded or is_blind(connection, reach)
    shown = leave_out(connection, scope, windows, asked, reach, query)
    found, relaxed = _narrow(windows.sessions(_day_bonus(windows, days, zone)), asked)
    whole = query.since is None and query.until is None and query.platform is None
    alone = whole and "tool" not in query.roles
    found = with_titles(connection, streams, found, asked, alone=alone)
    if days:
        found = _with_days(connection, streams, found, days, zone, query)
    if asks_for_recent(query.text):
        found = _recent_first(found)
    if move is not None and asked.is_plain:
        found = move(connection, reach, found, query.exclude_session)
    # What the model can see is found by words that were put away, not by its title or its day.
    found = [one for one in found if one.hits or one.session_id not in shown]
    ordered = _in_order(connection, streams, found[:MAX_SESSIONS], query)
    hits: list[SessionHit] = []
    while ordered and len(hits) < query.limit:
        lacking = query.limit - len(hits)
        best, ordered = ordered[:lacking], ordered[lacking:]
        rows = transcripts.sessions_by_row(connection, streams, [one.session_id for one in best])
        made = (_hit(connection, rows[one.session_id], one, asked, query) for one in best)
        hits.extend(hit for hit in made if hit is not None)
    return SearchOutcome(tuple(hits), relaxed=relaxed and bool(hits), degraded=degraded)


def _day_bonus(windows: Windows, days: Sequence[Day], zone: tzinfo) -> dict[int, float]:
    if not days:
        return {}
    bonus: dict[int, float] = {}
    for posting in windows.hits.values():
        written = datetime.fromtimestamp(posting.created_ms / 1000, zone).date()
        bonus[posting.id] = DAY_WEIGHT * max(day.closeness(written) for day in days)
    return bonus


def _recent_first(found: Sequence[SessionScore]) -> list[SessionScore]:
    """Adds a little for the recent: half as much for each RECENT_HALVES_DAYS before the newest."""
    newest_ms = max((one.best_ms for one in found), default=0)
    scored = [
        replace(
            one,
            score=one.score
            + RECENT_WEIGHT * 0.5 ** ((newest_ms - one.best_ms) / DAY_MS / RECENT_HALVES_DAYS),
        )
        for one in found
    ]
    return sorted(scored, key=lambda one: (-one.score, -one.best_ms))


def _narrow(found: list[SessionScore], asked: Query) -> tuple[list[SessionScore], bool]:
    """Keeps sessions with every quoted phrase (every word, after AND) if there are any; else says `relaxed`.

    A query of nothing but phrases is never relaxed.
    """
    every = {term.group for term in asked.terms}
    quoted = {term.group for term in asked.terms if term.exact}
    needed = every if asked.all_words else quoted
    kept = [one for one in found if needed <= one.groups]
    if not kept and needed and quoted != every:
        return found, True
    return kept, not any(every <= one.groups for one in kept)


def _with_days(
    connection: Connection,
    streams: Sequence[int],
    found: list[SessionScore],
    days: Sequence[Day],
    zone: tzinfo,
    query: SearchQuery,
) -> list[SessionScore]:
    """Adds the sessions of the days that a query names, although none of its words was found there."""
    if query.since is not None or query.until is not None or query.platform is not None:
        return found
    known = {one.session_id for one in found}
    rows = connection.execute(_DAYS, {"streams": streams})
    for row in rows:
        if row.id in known or row.public_id == query.exclude_session:
            continue
        dates = {datetime.fromtimestamp(ms / 1000, zone).date() for ms in (row.started_ms, row.last_ms)}
        closeness = max(day.closeness(one) for day in days for one in dates)
        if closeness > YEAR_ONLY:
            found.append(
                SessionScore(row.id, closeness * DAY_WEIGHT, frozenset(), (), frozenset(), row.last_ms)
            )
    return sorted(found, key=lambda one: (-one.score, -one.best_ms))


def _in_order(
    connection: Connection, streams: Sequence[int], found: Sequence[SessionScore], query: SearchQuery
) -> list[SessionScore]:
    """The sessions that may be shown, in the order asked for; scheduled runs rank below people."""
    ids = [one.session_id for one in found]
    origins = dict(connection.execute(_ORIGINS, {"streams": streams, "ids": ids}).all())
    shown = [
        replace(one, score=one.score * AUTOMATION_SHARE) if origins[one.session_id] == "scheduled" else one
        for one in found
        if one.session_id in origins
    ]
    shown.sort(key=lambda one: -one.score)
    if query.sort == "relevance" or not shown:
        return shown
    good = [one for one in shown if one.score >= SORTED_SHARE * shown[0].score]
    return sorted(good, key=lambda one: one.best_ms, reverse=query.sort == "newest")


def _hit(
    connection: Connection, row: Row[Any], one: SessionScore, asked: Query, query: SearchQuery
) -> SessionHit | None:
    """What is shown of a session; None when its matches turn out to be withdrawn."""
    is_current = row.public_id == query.exclude_session
    surfaces = tuple(surface for term in asked.terms for surface in term.surfaces)
    centres = _apart(one.centres)
    places = {seq + step for seq in centres for step in (-1, 0, 1)}
    lines = tuple(
        transcripts.line(found, matched=found.id in one.hits, max_chars=EXCERPT_CHARS, surfaces=surfaces)
        for found in transcripts.lines_at(connection, row, places, only_compacted=is_current)
        if found.role in query.roles or found.id in one.hits or found.role != "tool"
    )
    if one.hits and not any(line.matched for line in lines):
        return None
    opening: tuple[TranscriptLine, ...] = ()
    closing: tuple[TranscriptLine, ...] = ()
    if not is_current:
        opening, closing = transcripts.exchanges(connection, row, EXCHANGE_CHARS)
    return SessionHit(transcripts.card(connection, row, opening), one.score, lines, opening, closing)


def _apart(centres: Sequence[int]) -> list[int]:
    """The best few places that don't lie within each other's window."""
    chosen: list[int] = []
    for seq in centres:
        if all(abs(seq - other) > 2 for other in chosen):
            chosen.append(seq)
        if len(chosen) == EXCERPT_WINDOWS:
            break
    return chosen


def _timezone(connection: Connection, scope: Scope) -> tzinfo:
    if isinstance(scope, PersonScope):
        name = connection.execute(_TIMEZONE, {"slug": scope.person}).scalar_one_or_none()
        if name:
            try:
                return ZoneInfo(name)
            except (ZoneInfoNotFoundError, ValueError):
                return UTC
    return UTC
