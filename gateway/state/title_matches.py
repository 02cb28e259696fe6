"""What the titles of a scope's sessions add to a search: words of the query that stand in them."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate

from sqlalchemy import Connection

from trunkline.gateway.state.analyser import fold, stem
from trunkline.gateway.state.fulltext import rows
from trunkline.gateway.state.query import Query, Term
from trunkline.gateway.state.ranking import SessionScore, groups_of

# What a word in a title is worth, in the units of a word in a message.
TITLE_WEIGHT = 1.5

# The most sessions that only their title finds.
MAX_FOUND = 50

MIN_VARIED_CHARS = 4

_WORD = re.compile(r"[^\W_]+")

# All titles as one text: SQLite and Python hand over one row sooner than thousands.
_SQLITE = (
    "SELECT group_concat(id, ' '), group_concat(last_ms, ' '), "
    "group_concat(replace(title, char(10), ' '), char(10)) FROM session WHERE stream_id IN ({streams}) "
    "AND title != ''"
)
_POSTGRES = (
    "SELECT string_agg(CAST(id AS TEXT), ' '), string_agg(CAST(last_ms AS TEXT), ' '), "
    "string_agg(replace(title, chr(10), ' '), chr(10)) FROM session WHERE stream_id IN ({streams}) "
    "AND title != ''"
)


def with_titles(
    connection: Connection,
    streams: Sequence[int],
    found: Sequence[SessionScore],
    asked: Query,
    *,
    alone: bool,
) -> list[SessionScore]:
    """What is found, with what its titles are worth; with `alone` also what only its title finds."""
    titles = _titled(connection, streams, asked)
    if not titles:
        return list(found)
    scored: list[SessionScore] = []
    for one in found:
        _, bits = titles.pop(one.session_id, (0, 0))
        score = one.score + TITLE_WEIGHT * bits.bit_count()
        scored.append(replace(one, score=score, groups=one.groups | groups_of(bits)))
    if alone:
        best = sorted(
            titles, key=lambda session_id: (-titles[session_id][1].bit_count(), -titles[session_id][0])
        )
        for session_id in best[:MAX_FOUND]:
            last_ms, bits = titles[session_id]
            score = TITLE_WEIGHT * bits.bit_count()
            scored.append(SessionScore(session_id, score, frozenset(), (), groups_of(bits), last_ms))
    return sorted(scored, key=lambda one: (-one.score, -one.best_ms))


def _titled(connection: Connection, streams: Sequence[int], asked: Query) -> dict[int, tuple[int, int]]:
    """By session whose title holds words of the query: its last time, and a bit for each group of words."""
    if not asked.terms or not streams:
        return {}
    statement = _SQLITE if connection.dialect.name == "sqlite" else _POSTGRES
    listed = ", ".join(str(one) for one in streams)
    ((ids, times, titles),) = rows(connection, statement.format(streams=listed), {})
    folded, ends = _folded(titles or "")
    places = [(at, 1 << term.group) for term in asked.terms for at in _places_of(term, folded)]
    if not places:
        return {}
    found: dict[int, int] = {}
    for at, bit in places:
        place = bisect_right(ends, at)
        found[place] = found.get(place, 0) | bit
    session_ids, last = ids.split(), times.split()
    return {int(session_ids[place]): (int(last[place]), bits) for place, bits in found.items()}


@lru_cache(maxsize=16)
def _folded(titles: str) -> tuple[str, list[int]]:
    """Titles, one a line, folded; and where each line ends. Who searches once mostly searches again."""
    lines = [title.lower() if title.isascii() else fold(title) for title in titles.split("\n")]
    return "\n".join(lines), list(accumulate(len(line) + 1 for line in lines))


def _places_of(term: Term, text: str) -> Iterator[int]:
    """Where a term stands in folded titles: an English word as a word in any of its forms.

    Looks for the letters first, since reading every word of thousands of titles takes a search's whole time.
    """
    phrase, surface = term.pattern[0], term.surfaces[0]
    wanted = phrase.words[0]
    if len(phrase.words) > 1 or not (wanted.isascii() and wanted.isalnum()):
        yield from _occurrences(surface, text)
        return
    # The last sign of a stem may differ from the word's: `stori` is of `story`.
    begun = wanted if phrase.is_prefix or len(wanted) < MIN_VARIED_CHARS else wanted[:-1]
    beginnings = (begun,) if phrase.is_prefix or surface.startswith(begun) else (begun, surface)
    for beginning in beginnings:
        for at in _occurrences(beginning, text):
            if at and text[at - 1].isalnum():
                continue
            word = _WORD.match(text, at)
            if word is not None and (phrase.is_prefix or stem(word[0]) == wanted):
                yield at


def _occurrences(letters: str, text: str) -> Iterator[int]:
    at = text.find(letters)
    while at >= 0:
        yield at
        at = text.find(letters, at + 1)
