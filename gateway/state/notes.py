"""The notes that stand for the older part of a conversation: reading them, and spoiling them.

A note that tells of something that was since taken back, changed or forgotten is emptied at once, in the
same transaction; `compaction` has it made again.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, delete, select, update

from trunkline.gateway.state.schema import compaction, session

IN_USE = "in use"
REPLACED = "replaced"
SPOILT = "spoilt"
FAILED = "failed"


@dataclass(frozen=True, slots=True)
class StoredNote:
    """What a session has in place of its messages up to `last_seq`; without text when it is spoilt.

    `left_out` are messages that it must not tell of when it is made again.
    """

    id: int
    text: str
    last_seq: int
    left_out: tuple[int, ...]
    created_ms: int

    @property
    def is_spoilt(self) -> bool:
        return not self.text


def latest(connection: Connection, session_id: int) -> StoredNote | None:
    """The note of a session that the caller has found in its scope."""
    row = connection.execute(
        select(compaction)
        .where(compaction.c.session_id == session_id, compaction.c.state.in_((IN_USE, SPOILT)))
        .order_by(compaction.c.id.desc())
        .limit(1)
    ).first()
    if row is None:
        return None
    left_out = tuple(json.loads(row.left_out or "[]"))
    return StoredNote(row.id, row.note, row.last_seq, left_out, row.created_ms)


def spoil_about(connection: Connection, places: Iterable[tuple[int, int]]) -> None:
    """Empties the notes that tell of messages: of their session, and of those that grew from it.

    A place is the session's row and the message's number in it.
    """
    oldest: dict[int, int] = {}
    for session_id, seq in places:
        oldest[session_id] = min(seq, oldest.get(session_id, seq))
    for session_id, seq in oldest.items():
        _spoil(connection, and_(compaction.c.session_id == session_id, compaction.c.last_seq >= seq))
        _spoil(connection, compaction.c.session_id.in_(_grown_from(connection, session_id)))


def spoil(connection: Connection, note_id: int, left_out: Sequence[int]) -> None:
    """Empties one note, which must not tell of these messages again."""
    stored = connection.execute(select(compaction.c.left_out).where(compaction.c.id == note_id)).scalar_one()
    together = sorted({*json.loads(stored or "[]"), *left_out})
    _spoil(connection, compaction.c.id == note_id)
    connection.execute(
        update(compaction).where(compaction.c.id == note_id).values(left_out=json.dumps(together))
    )


def drop_of(connection: Connection, session_id: int) -> None:
    """Removes all notes of a session that goes."""
    connection.execute(delete(compaction).where(compaction.c.session_id == session_id))


def _spoil(connection: Connection, where: ColumnElement[bool]) -> None:
    in_use = and_(compaction.c.state == IN_USE, where)
    connection.execute(update(compaction).where(in_use).values(state=SPOILT, note=""))


def _grown_from(connection: Connection, session_id: int) -> list[int]:
    """The sessions that begin with what was said in this one, directly or by others in between."""
    tree = select(session.c.id).where(session.c.parent_id == session_id).cte("grown", recursive=True)
    tree = tree.union(select(session.c.id).join(tree, session.c.parent_id == tree.c.id))
    return list(connection.execute(select(tree.c.id)).scalars())
