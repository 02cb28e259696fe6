"""Vectors of what was said, and a search's scores moved by how near in meaning a session is.

Loaded only where `search.semantic` is on. What makes the vectors is `gateway.embedder`'s business; here they
are rows, never compared across models, and read within the scope of a search only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, delete, exists, func, insert, or_, select, text

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

# A search compares the newest vectors of each of its streams, this many of them at most.
MAX_VECTORS = 60_000
# Sessions that only their meaning brings in, and how many deviations above the scope's mean they must be.
MAX_BROUGHT = 10
MIN_DEVIATIONS = 1.5


@dataclass(frozen=True, slots=True)
class Passage:
    """What is embedded for one message: its words with its author, after some of what went before."""

    message_id: int
    text: str


@dataclass(frozen=True, slots=True)
class Meaning:
    """A query's vector, of length 1, and how much being near counts beside the words."""

    model: str
    vector: Sequence[float]
    weight: float


class _Near(NamedTuple):
    """A session's nearest message."""

    session_id: int
    closeness: float
    seq: int
    created_ms: int


def count_lacking(connection: Connection, model: str) -> int:
    return connection.execute(select(func.count()).where(*_lacks(model))).scalar_one()


def passages_lacking(
    connection: Connection, model: str, after: int, limit: int, *, before: int, max_chars: int
) -> tuple[Passage, ...]:
    """The next messages above the id `after` without a vector of this model, each with `before` earlier ones.

    Of each message at most `max_chars` characters; what went before gets as many in all.
    """
    ids = connection.execute(
        select(indexed_message.c.id, indexed_message.c.session_id, indexed_message.c.seq)
        .where(*_lacks(model), indexed_message.c.id > after)
        .order_by(indexed_message.c.id)
        .limit(limit)
    ).all()
    return tuple(
        Passage(row.id, _passage(connection, row.session_id, row.seq, before, max_chars)) for row in ids
    )


def store(connection: Connection, model: str, vectors: Sequence[tuple[int, Sequence[float]]]) -> None:
    """Keeps vectors by message id. One of a message that was deleted meanwhile is dropped."""
    ids = [one for one, _ in vectors]
    kept = set(connection.execute(select(message.c.id).where(message.c.id.in_(ids))).scalars())
    connection.execute(delete(embedding).where(embedding.c.message_id.in_(ids), embedding.c.model == model))
    rows = []
    for one, values in vectors:
        vector = np.asarray(values, dtype=np.float32)
        norm = float(np.linalg.norm(vector))
        if one in kept and norm:
            unit = (vector / norm).astype(np.float32)
            rows.append({"message_id": one, "model": model, "vector": unit.tobytes(), "norm": norm})
    if rows:
        connection.execute(insert(embedding), rows)


def drop_others(connection: Connection, model: str) -> int:
    """Deletes the vectors of every other model; returns how many there were."""
    return connection.execute(delete(embedding).where(embedding.c.model != model)).rowcount


def last_numbers(connection: Connection) -> dict[int, int]:
    """The last message number of every stream."""
    return {row.id: row.last_n for row in connection.execute(select(stream.c.id, stream.c.last_n))}


def move_by_meaning(
    connection: Connection, meaning: Meaning, reach: Reach, found: list[SessionScore], without: str | None
) -> list[SessionScore]:
    """The scores of a search, each moved by how near its session is: best first.

    Both kinds of score are taken in deviations from their mean over the scope (words + weight x meaning), on
    the scale of the words. `without` is the public id of a session that meaning alone must not bring in.
    """
    near = _nearest(connection, meaning, reach)
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


def _nearest(connection: Connection, meaning: Meaning, reach: Reach) -> list[_Near]:
    rows: list[Any] = []
    for one in reach.streams:
        rows += _vectors(connection, meaning.model, one, reach)
    if not rows:
        return []
    question = np.asarray(meaning.vector, dtype=np.float32)
    matrix = np.frombuffer(b"".join([row[4] for row in rows]), dtype=np.float32).reshape(len(rows), -1)
    closeness = matrix @ question
    best: dict[int, int] = {}
    for place in np.argsort(closeness, kind="stable").tolist():  # later ones are nearer
        best[rows[place][1]] = place
    return [
        _Near(session_id, float(closeness[place]), rows[place][2], rows[place][3])
        for session_id, place in best.items()
    ]


def _vectors(connection: Connection, model: str, one: int, reach: Reach) -> Sequence[Any]:
    """The newest vectors of a stream. What was taken back has left the index, and so is not among them."""
    low, high = fulltext.span(one)
    values: dict[str, Any] = {"low": low, "high": high, "model": model, "limit": MAX_VECTORS}
    filters = ""
    for name, sign, bound in (("since", ">=", reach.since_ms), ("until", "<=", reach.until_ms)):
        if bound is not None:
            filters += f" AND m.created_ms {sign} :{name}"
            values[name] = bound
    roles = ", ".join(str(role) for role in reach.roles if role in SAID) or "-1"
    statement = (
        "SELECT m.id, m.session_id, m.seq, m.created_ms, e.vector FROM embedding e "
        f"JOIN indexed_message m ON m.id = e.message_id WHERE e.message_id BETWEEN :low AND :high "
        f"AND e.model = :model AND m.role IN ({roles}){filters} ORDER BY e.message_id DESC LIMIT :limit"
    )
    return connection.execute(text(statement), values).all()


def _lacks(model: str) -> tuple[Any, ...]:
    has = exists().where(embedding.c.message_id == indexed_message.c.id, embedding.c.model == model)
    return indexed_message.c.role.in_(SAID), indexed_message.c.words > 0, ~has


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
