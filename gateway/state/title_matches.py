"""Which sessions of a scope have a title with the words of a query in it."""

from collections.abc import Sequence

from sqlalchemy import Connection

from trunkline.gateway.state.analyser import fold
from trunkline.gateway.state.fulltext import rows
from trunkline.gateway.state.query import Query
from trunkline.gateway.state.ranking import SessionScore

TITLE_WEIGHT = 1.5

# Titles that are looked at, and the most sessions that only their title finds.
MAX_TITLES = 20_000
MAX_FOUND = 50


def titled(connection: Connection, streams: Sequence[int], asked: Query) -> list[SessionScore]:
    """The sessions whose title holds a word of the query, with what that is worth, best first."""
    if not asked.terms or not streams:
        return []
    listed = ", ".join(str(one) for one in streams)
    known = rows(
        connection,
        f"SELECT id, last_ms, title FROM session WHERE stream_id IN ({listed}) AND title != '' LIMIT :limit",
        {"limit": MAX_TITLES},
    )
    # Folded in one piece, which costs a small part of one by one.
    folded = fold("\n".join([title.replace("\n", " ") for _, _, title in known])).split("\n")
    groups: dict[int, set[int]] = {}
    for term in asked.terms:
        for surface in term.surfaces:
            for place, title in enumerate(folded):
                if surface in title:
                    groups.setdefault(place, set()).add(term.group)
    best = sorted(groups, key=lambda place: (-len(groups[place]), -known[place][1]))
    return [
        SessionScore(
            known[place][0],
            TITLE_WEIGHT * len(groups[place]),
            frozenset(),
            (),
            frozenset(groups[place]),
            known[place][1],
        )
        for place in best
    ]
