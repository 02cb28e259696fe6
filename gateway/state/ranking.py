"""What a hit is worth: BM25 over messages with the scope's own counts, spread to neighbours.

Pure arithmetic over postings; the design and its figures are those of docs/benchmarks.md (`bench.recall`).
"""

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

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


class Windows:
    """What of a scope was hit, weighed term by term; a hit counts for its neighbours too."""

    def __init__(self, corpus: Corpus, postings: Iterable[Posting] = ()) -> None:
        self.hits = {hit.id: hit for hit in postings}
        self._corpus = corpus
        self._weights = dict.fromkeys(self.hits, 0.0)
        self._groups = dict.fromkeys(self.hits, 0)  # a bit for each group
        self._scores: dict[int, float] = {}
        self._removed: list[Posting] = []

    def add(self, ids: Set[int], writers: Set[int], rarity: float, group: int) -> None:
        """Weighs one term, which these messages hold or these accounts wrote; `rarity` is its `idf`."""
        holding = ids & self.hits.keys()
        if writers:
            holding = holding | {hit.id for hit in self.hits.values() if hit.account_id in writers}
        weights, groups, bit = self._weights, self._groups, 1 << group
        for one in holding:
            weights[one] += rarity
            groups[one] |= bit

    def remove(self, ids: Iterable[int]) -> None:
        """Takes messages out of the result; for their neighbours they still count."""
        self._removed += [self.hits.pop(one) for one in ids if one in self.hits]

    def sessions(self, bonus: Mapping[int, float]) -> list[SessionScore]:
        """The best sessions with a hit, best first. `bonus` is added by message id, once for a session."""
        alone = self._alone()
        worth_of = alone.get
        scores = self._scores = {}
        worth: dict[int, float] = {}
        best: dict[int, float] = {}
        by_session: dict[int, list[Posting]] = {}
        for one, hit in self.hits.items():
            session_id = hit.session_id
            at = (session_id << _SEQ_BITS) | hit.seq
            value = alone[at] + NEIGHBOUR * (worth_of(at - 1, 0.0) + worth_of(at + 1, 0.0))
            scores[at] = value
            if bonus:
                value += bonus.get(one, 0.0)
            worth[one] = value
            if session_id not in best:
                best[session_id], by_session[session_id] = value, [hit]
                continue
            by_session[session_id].append(hit)
            if value > best[session_id]:
                best[session_id] = value
        leading = heapq.nlargest(MAX_SESSIONS, best, key=best.__getitem__)
        found = [self._session(one, by_session[one], worth, bonus) for one in leading]
        found.sort(key=lambda one: (-one.score, -one.best_ms))
        return found

    def _alone(self) -> dict[int, float]:
        """What each hit is worth without its neighbours, by its place."""
        top, flat = K1 + 1, 1 + K1 * (1 - B)
        by_length = K1 * B / max(self._corpus.mean_words, 1.0)
        weights = self._weights
        return {
            (session_id << _SEQ_BITS) | seq: weights[one] * top / (flat + by_length * words)
            for one, session_id, seq, words, _, _ in (*self.hits.values(), *self._removed)
        }

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
            hits |= ids & _with_neighbours(hits)
    if len(hits) <= limit:
        return hits
    alone = dict.fromkeys(hits, 0.0)
    for ids, rarity in found:
        for one in ids & hits:
            alone[one] += rarity
    value_of = alone.get
    worth = {
        one: value + NEIGHBOUR * (value_of(one - 1, 0.0) + value_of(one + 1, 0.0))
        for one, value in alone.items()
    }
    least = sorted(worth.values(), reverse=True)[limit - 1]
    best = {one for one, value in worth.items() if value > least}
    # Of equals the newest.
    equal = sorted((one for one, value in worth.items() if value == least), reverse=True)
    best.update(equal[: limit - len(best)])
    return _with_neighbours(best) & hits


def _with_neighbours(ids: Set[int]) -> set[int]:
    return {one + step for one in ids for step in (-1, 0, 1)}


def idf(messages: int, frequency: int) -> float:
    """Robertson's inverse document frequency, never below zero."""
    return math.log(1 + (max(messages - frequency, 0) + 0.5) / (frequency + 0.5))
