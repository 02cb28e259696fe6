"""Vectors of what was said, and a search's scores moved by how near in meaning a session is.

Loaded only where `search.semantic` is on. What makes the vectors is `gateway.embedder`'s business; here they
are rows, never compared across models, and read within the scope of a search only. They are compared in
memory by `Shelf`, or by PostgreSQL where it has pgvector (`embedding_server`).
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from sqlalchemy import Connection, delete, exists, func, insert, or_, select

from trunkline.gateway.state import fulltext
from trunkline.gateway.state.fulltext import Reach
from trunkline.gateway.state.ranking import SessionScore
from trunkline.gateway.state.schema import (
    account,
    embedding,
    indexed_message,
    message,
    person,
    session,
    stream,
)

SAID = (fulltext.USER, fulltext.ASSISTANT)

# As much as 170,000 messages take with 384 numbers each.
SHELF_BYTES = 256 * 2**20

# Sessions that only their meaning brings in, and how many deviations above the scope's mean they must be.
MAX_BROUGHT = 10
MIN_DEVIATIONS = 1.0


@dataclass(frozen=True, slots=True)
class Passage:
    """What is embedded for one message: its words with its author, after some of what went before."""

    message_id: int
    text: str


@dataclass(frozen=True, slots=True)
class Meaning:
    """A query's vector, of length 1, and how much being near counts beside the words."""

    vector: Sequence[float]
    weight: float


class Near(NamedTuple):
    """A session's nearest message."""

    session_id: int
    closeness: float
    seq: int
    created_ms: int


class Vectors(Protocol):
    """Where the vectors of one model are kept and compared. `model` is what their rows bear as its name."""

    @property
    def model(self) -> str: ...

    def add(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        """Inserts rows of the table `embedding`, whose vectors are float32 arrays of length 1."""
        ...

    def nearest(self, connection: Connection, question: Sequence[float], reach: Reach) -> list[Near]:
        """Of each session within reach that has a vector, the message nearest to one of length 1."""
        ...


def count_lacking(connection: Connection, model: str, streams: Sequence[int] | None) -> int:
    """How many messages have no vector of this model; in some streams, or with None in all."""
    return connection.execute(select(func.count()).where(*_lacks(model, streams))).scalar_one()


def passages_lacking(
    connection: Connection,
    model: str,
    streams: Sequence[int] | None,
    after: int,
    limit: int,
    *,
    before: int,
    max_chars: int,
) -> tuple[Passage, ...]:
    """The next messages above the id `after` without a vector of this model, each with `before` earlier ones.

    Of each message at most `max_chars` characters; what went before gets as many in all.
    """
    ids = connection.execute(
        select(indexed_message.c.id, indexed_message.c.session_id, indexed_message.c.seq)
        .where(*_lacks(model, streams), indexed_message.c.id > after)
        .order_by(indexed_message.c.id)
        .limit(limit)
    ).all()
    return tuple(
        Passage(row.id, _passage(connection, row.session_id, row.seq, before, max_chars)) for row in ids
    )


def store(connection: Connection, kept_in: Vectors, vectors: Sequence[tuple[int, Sequence[float]]]) -> None:
    """Keeps vectors by message id. One of a message that was taken back meanwhile is dropped."""
    ids, model = [one for one, _ in vectors], kept_in.model
    indexed = select(indexed_message.c.id).where(indexed_message.c.id.in_(ids))
    kept = set(connection.execute(indexed).scalars())
    connection.execute(delete(embedding).where(embedding.c.message_id.in_(ids), embedding.c.model == model))
    rows = []
    for one, values in vectors:
        vector = np.asarray(values, dtype=np.float32)
        norm = float(np.linalg.norm(vector))
        if one in kept and norm:
            unit = (vector / norm).astype(np.float32)
            rows.append({"message_id": one, "model": model, "vector": unit, "norm": norm})
    if rows:
        kept_in.add(connection, rows)


def drop_others(connection: Connection, model: str) -> int:
    """Deletes the vectors of every other model; returns how many there were."""
    return connection.execute(delete(embedding).where(embedding.c.model != model)).rowcount


def last_numbers(connection: Connection) -> dict[int, int]:
    """The last message number of every stream."""
    return {row.id: row.last_n for row in connection.execute(select(stream.c.id, stream.c.last_n))}


def move_by_meaning(
    connection: Connection,
    meaning: Meaning,
    vectors: Vectors,
    reach: Reach,
    found: list[SessionScore],
    without: str | None,
) -> list[SessionScore]:
    """The scores of a search, each moved by how near its session is: best first.

    Both kinds of score are taken in deviations from their mean over the scope (words + weight x meaning), on
    the scale of the words. `without` is the public id of a session that meaning alone must not bring in.
    """
    near = vectors.nearest(connection, meaning.vector, reach)
    if len(near) < 2:
        return found
    by_words = {one.session_id: one for one in found}
    closeness = np.array([one.closeness for one in near])
    deviations = (closeness - closeness.mean()) / (closeness.std() or 1.0)
    words = np.array([by_words[one.session_id].score if one.session_id in by_words else 0.0 for one in near])
    scale = meaning.weight * (float(words.std()) or 1.0)
    left_out = connection.execute(select(session.c.id).where(session.c.public_id == without)).scalar()
    moved: list[SessionScore] = []
    brought: list[SessionScore] = []
    for one, deviation in zip(near, deviations, strict=True):
        known = by_words.pop(one.session_id, None)
        if known is not None:
            moved.append(replace(known, score=known.score + scale * float(deviation)))
        elif deviation >= MIN_DEVIATIONS and one.session_id != left_out:
            score = scale * float(deviation)
            brought.append(
                SessionScore(one.session_id, score, frozenset(), (one.seq,), frozenset(), one.created_ms)
            )
    brought.sort(key=lambda one: -one.score)
    both = [*moved, *by_words.values(), *brought[:MAX_BROUGHT]]
    return sorted(both, key=lambda one: (-one.score, -one.best_ms))


@dataclass(frozen=True, slots=True)
class _Matrix:
    """The vectors of one stream by message id, with what a search needs of their messages, as arrays."""

    ids: Any
    sessions: Any
    seqs: Any
    times: Any
    roles: Any
    matrix: Any

    @classmethod
    def read(cls, connection: Connection, model: str, stream_id: int, after: int) -> "_Matrix":
        low, high = fulltext.span(stream_id)
        rows = fulltext.rows(
            connection,
            "SELECT m.id, m.session_id, m.seq, m.created_ms, m.role, e.vector FROM embedding e "
            "JOIN indexed_message m ON m.id = e.message_id WHERE e.message_id > :after "
            "AND e.message_id BETWEEN :low AND :high AND e.model = :model ORDER BY e.message_id",
            {"after": after, "low": low, "high": high, "model": model},
        )
        columns = list(zip(*rows, strict=True)) or [()] * 6
        ids, sessions, seqs, times, roles = [np.asarray(column, dtype=np.int64) for column in columns[:5]]
        matrix = np.frombuffer(b"".join(columns[5]), dtype=np.float32)
        matrix = matrix.reshape(len(rows), -1) if rows else matrix.reshape(0, 0)
        return cls(ids, sessions, seqs, times, roles, matrix)

    @property
    def last_id(self) -> int:
        return int(self.ids[-1]) if len(self.ids) else 0

    def followed_by(self, more: "_Matrix") -> "_Matrix":
        if not len(self.ids) or not len(more.ids):
            return self if len(self.ids) else more
        parts = ((getattr(self, name), getattr(more, name)) for name in self.__slots__)
        return _Matrix(*(np.concatenate(pair) for pair in parts))

    def within(self, reach: Reach) -> Any:
        """The places of those that a search may look at."""
        kept = np.isin(self.roles, [role for role in reach.roles if role in SAID])
        if reach.since_ms is not None:
            kept &= self.times >= reach.since_ms
        if reach.until_ms is not None:
            kept &= self.times <= reach.until_ms
        return np.flatnonzero(kept)


class Shelf:
    """The vectors of the streams that were searched last, in memory, so that a search reads only new ones.

    Holds for one model. A stream whose vectors became fewer or were made anew is read again.
    """

    def __init__(self, model: str, max_bytes: int = SHELF_BYTES) -> None:
        self.model = model
        self._max_bytes = max_bytes
        self._held: OrderedDict[int, tuple[_Matrix, tuple[int, ...]]] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        connection.execute(insert(embedding), [row | {"vector": row["vector"].tobytes()} for row in rows])

    def nearest(self, connection: Connection, question: Sequence[float], reach: Reach) -> list[Near]:
        asked = np.asarray(question, dtype=np.float32)
        near: list[Near] = []
        for one in reach.streams:
            held = self.vectors_of(connection, one)
            wanted = held.within(reach)
            if not len(wanted) or held.matrix.shape[1] != len(asked):
                continue
            closeness = (held.matrix @ asked)[wanted]
            of = held.sessions[wanted]
            order = np.lexsort((-closeness, of))
            for place in order[np.flatnonzero(np.diff(of[order], prepend=-1))].tolist():
                at = wanted[place]
                near.append(
                    Near(int(of[place]), float(closeness[place]), int(held.seqs[at]), int(held.times[at]))
                )
        return near

    def vectors_of(self, connection: Connection, stream_id: int) -> _Matrix:
        now = self._state(connection, stream_id)
        with self._lock:
            vectors, state = self._held.get(stream_id, (None, ()))
        if vectors is None:
            vectors = _Matrix.read(connection, self.model, stream_id, 0)
        elif state != now:
            vectors = vectors.followed_by(_Matrix.read(connection, self.model, stream_id, vectors.last_id))
            if len(vectors.ids) != now[0] or now[1] < state[1] or now[2] < state[2]:
                vectors = _Matrix.read(connection, self.model, stream_id, 0)
        self._keep(stream_id, vectors, now)
        return vectors

    def _state(self, connection: Connection, stream_id: int) -> tuple[int, ...]:
        """What changes with the vectors: how many there are, and what the index counts of the stream."""
        low, high = fulltext.span(stream_id)
        ((size, indexed, words),) = fulltext.rows(
            connection,
            "SELECT (SELECT count(*) FROM embedding WHERE message_id BETWEEN :low AND :high "
            "AND model = :model), indexed_count, indexed_words FROM stream WHERE id = :stream",
            {"low": low, "high": high, "model": self.model, "stream": stream_id},
        )
        return (size, indexed, words)

    def _keep(self, stream_id: int, vectors: _Matrix, state: tuple[int, ...]) -> None:
        with self._lock:
            self._held[stream_id] = (vectors, state)
            self._held.move_to_end(stream_id)
            held_bytes = sum(one.matrix.nbytes for one, _ in self._held.values())
            while held_bytes > self._max_bytes and len(self._held) > 1:
                _, (dropped, _) = self._held.popitem(last=False)
                held_bytes -= dropped.matrix.nbytes


def _lacks(model: str, streams: Sequence[int] | None) -> tuple[Any, ...]:
    has = exists().where(embedding.c.message_id == indexed_message.c.id, embedding.c.model == model)
    where = (indexed_message.c.role.in_(SAID), indexed_message.c.words > 0, ~has)
    if streams is None:
        return where
    return (*where, or_(*(indexed_message.c.id.between(*fulltext.span(one)) for one in streams)))


def _passage(connection: Connection, session_id: int, seq: int, before: int, max_chars: int) -> str:
    rows = connection.execute(
        select(message.c.role, message.c.content, account.c.label, person.c.name)
        .outerjoin(account, account.c.id == message.c.account_id)
        .outerjoin(person, person.c.id == account.c.person_id)
        .join(indexed_message, indexed_message.c.id == message.c.id)
        .where(
            message.c.session_id == session_id,
            message.c.seq <= seq,
            indexed_message.c.role.in_(SAID),
            or_(message.c.seq == seq, indexed_message.c.words > 0),
        )
        .order_by(message.c.seq.desc())
        .limit(before + 1)
    ).all()
    share = max_chars // before if before else 0
    lines = [
        f"{row.label or row.name or row.role}: {row.content[: share if place else max_chars]}"
        for place, row in enumerate(rows)
    ]
    return "\n".join(reversed(lines))
