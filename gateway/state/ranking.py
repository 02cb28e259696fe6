"""What a hit is worth: BM25 over messages with the scope's own counts, spread to neighbours.

Pure arithmetic over postings; the design and its figures are those of docs/benchmarks.md (`bench.recall`).
"""

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from trunkline.gateway.state.fulltext import Posting

# Tuned on the development questions of LoCoMo: chat messages are short, so their length counts little.
K1 = 0.6
B = 0.4
NEIGHBOUR = 0.3
# A session is its best window and a share of the next ones that don't lie beside a better one.
SHARES = (1.0, 0.4, 0.2, 0.1)

# Sessions beyond these by their best window don't come first by the rest.
MAX_SESSIONS = 30

_SEQ_BITS = 28


@dataclass(frozen=True, slots=True)
class Corpus:
    """How many messages the scope has in the index, and their mean length in words."""

    messages: int
    mean_words: float


@dataclass(frozen=True, slots=True)
class SessionScore:
    """One session: its matching messages, their places from the best on, the groups of terms it covers."""

    session_id: int
    score: float
    hits: frozenset[int]
    centres: tuple[int, ...]
    groups: frozenset[int]
    best_ms: int


@dataclass(slots=True)
class Windows:
    """Scores of messages and their neighbours, filled term by term."""

    corpus: Corpus
    hits: dict[int, Posting] = field(default_factory=dict)
    _scores: dict[int, float] = field(default_factory=dict)
    _groups: dict[int, int] = field(default_factory=dict)  # a bit for each group

    def add(self, postings: Iterable[Posting], rarity: float, group: int) -> None:
        """Scores one term's postings; `rarity` is the term's `idf`."""
        scores, hits, groups = self._scores, self.hits, self._groups
        bit, top, flat = 1 << group, rarity * (K1 + 1), 1 + K1 * (1 - B)
        by_length = K1 * B / max(self.corpus.mean_words, 1.0)
        for posting in postings:
            one, session_id, seq, words, _, _ = posting
            worth = top / (flat + by_length * words)
            at = (session_id << _SEQ_BITS) | seq
            spread = NEIGHBOUR * worth
            scores[at] = scores.get(at, 0.0) + worth
            scores[at - 1] = scores.get(at - 1, 0.0) + spread
            scores[at + 1] = scores.get(at + 1, 0.0) + spread
            hits[one] = posting
            groups[one] = groups.get(one, 0) | bit

    def remove(self, ids: Iterable[int]) -> None:
        """Takes messages out of the result."""
        for one in ids:
            self.hits.pop(one, None)

    def sessions(self, bonus: Mapping[int, float]) -> list[SessionScore]:
        """The best sessions with a hit, best first. `bonus` is added by message id, once for a session."""
        worth: dict[int, float] = {}
        best: dict[int, float] = {}
        by_session: dict[int, list[Posting]] = {}
        for one, hit in self.hits.items():
            value = self._scores[(hit.session_id << _SEQ_BITS) | hit.seq] + bonus.get(one, 0.0)
            worth[one] = value
            if value > best.get(hit.session_id, -1.0):
                best[hit.session_id] = value
            by_session.setdefault(hit.session_id, []).append(hit)
        leading = heapq.nlargest(MAX_SESSIONS, best, key=best.__getitem__)
        found = [self._session(one, by_session[one], worth, bonus) for one in leading]
        found.sort(key=lambda one: (-one.score, -one.best_ms))
        return found

    def _session(
        self,
        session_id: int,
        hits: list[Posting],
        worth: Mapping[int, float],
        bonus: Mapping[int, float],
    ) -> SessionScore:
        base = session_id << _SEQ_BITS
        ranked = sorted(hits, key=lambda hit: (-worth[hit.id], -hit.created_ms))
        extra = max([bonus.get(hit.id, 0.0) for hit in hits])
        windows = [self._scores[base | hit.seq] for hit in _apart(ranked)]
        best = sum(share * value for share, value in zip(SHARES, windows, strict=False))
        return SessionScore(
            session_id,
            extra + best,
            frozenset([hit.id for hit in hits]),
            tuple([hit.seq for hit in ranked]),
            self._covered(hits),
            ranked[0].created_ms,
        )

    def _covered(self, hits: Iterable[Posting]) -> frozenset[int]:
        bits = 0
        for hit in hits:
            bits |= self._groups[hit.id]
        return groups_of(bits)


def groups_of(bits: int) -> frozenset[int]:
    """The groups whose bits are set."""
    return frozenset([group for group in range(bits.bit_length()) if bits >> group & 1])


def _apart(ranked: Iterable[Posting]) -> list[Posting]:
    """The best hits of which none is the neighbour of another, as many as count."""
    chosen: list[Posting] = []
    for hit in ranked:
        if all(abs(hit.seq - other.seq) > 1 for other in chosen):
            chosen.append(hit)
            if len(chosen) == len(SHARES):
                break
    return chosen


def strongest(found: Sequence[tuple[Set[int], float]], limit: int) -> set[int]:
    """Of messages by term, with the term's rarity: the about `limit` ids worth most, and hits beside them.

    The first terms choose; once they have found `limit`, later ones only add to what is there or beside it.
    """
    hits: set[int] = set()
    for ids, _ in found:
        if len(hits) < limit:
            hits |= ids
        else:
            hits |= ids & {one + step for one in hits for step in (-1, 1)}
    if len(hits) <= limit:
        return hits
    alone = dict.fromkeys(hits, 0.0)
    for ids, rarity in found:
        for one in ids & hits:
            alone[one] += rarity
    worth = {
        one: value + NEIGHBOUR * (alone.get(one - 1, 0.0) + alone.get(one + 1, 0.0))
        for one, value in alone.items()
    }
    # The sort is stable: of equals the newest.
    best = sorted(sorted(hits, reverse=True), key=worth.__getitem__, reverse=True)[:limit]
    return {one + step for one in best for step in (-1, 0, 1)} & hits


def idf(messages: int, frequency: int) -> float:
    """Robertson's inverse document frequency, never below zero."""
    return math.log(1 + (max(messages - frequency, 0) + 0.5) / (frequency + 0.5))
