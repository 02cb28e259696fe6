"""Queries on attachments: the files that came with messages, and those that go out with an answer.

The contents lie in the file store under their hashes. A row that goes leaves its hash in `dropped_file`, so
that the content goes, too, once nothing refers to it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    and_,
    delete,
    exists,
    insert,
    or_,
    select,
    update,
)

from trunkline.agent.messages import Picture
from trunkline.gateway.state.schema import (
    account,
    attachment,
    dropped_file,
    inbox,
    message,
    outbox,
    session,
    stream,
    turn,
)


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file that came or goes out. `reason` says why it can't be used, and is empty where it can: a word of
    `sentences_files`, with a number where the sentence has one.

    `words` is its text, which the message holds once there is one. `shown` is the picture for models.
    """

    id: int
    kind: str
    name: str
    mime: str
    size_bytes: int | None
    sha256: str | None
    reason: str = ""
    words: str | None = None
    shown: Picture | None = None
    inbox_row: int | None = None
    place: int = 0


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file to be noted. `inbox_row` and `place` name one that came, `turn` and `call` one that goes out."""

    stream: int
    kind: str
    name: str
    mime: str
    size_bytes: int | None
    sha256: str | None
    created_ms: int
    reason: str = ""
    words: str | None = None
    shown: Picture | None = None
    inbox_row: int | None = None
    place: int = 0
    turn: int | None = None
    call: str = ""


def add(connection: Connection, new: NewFile) -> int:
    values = {
        "stream_id": new.stream,
        "kind": new.kind,
        "name": new.name,
        "mime": new.mime,
        "size_bytes": new.size_bytes,
        "sha256": new.sha256,
        "created_ms": new.created_ms,
        "reason": new.reason,
        "words": new.words,
        "shown_sha256": None if new.shown is None else new.shown.sha256,
        "shown_mime": "" if new.shown is None else new.shown.mime,
        "inbox_id": new.inbox_row,
        "place": new.place,
        "turn_id": new.turn,
        "call": new.call,
    }
    return int(
        connection.execute(insert(attachment).values(**values).returning(attachment.c.id)).scalar_one()
    )


def came_with(connection: Connection, inbox_rows: Iterable[int]) -> tuple[FileRow, ...]:
    """What was fetched of the messages in these inbox rows."""
    wanted = attachment.c.inbox_id.in_(list(inbox_rows))
    return _rows(connection, wanted)


def came_in(connection: Connection, turn_id: int) -> tuple[FileRow, ...]:
    """What came with the messages of a turn."""
    return _rows(connection, attachment.c.inbox_id.in_(select(inbox.c.id).where(inbox.c.turn_id == turn_id)))


def attach(connection: Connection, inbox_rows: Iterable[int], message_id: int) -> None:
    """Gives what came to the message that now holds its words."""
    wanted = attachment.c.inbox_id.in_(list(inbox_rows))
    connection.execute(update(attachment).where(wanted).values(message_id=message_id, words=None))


def going_out(connection: Connection, turn_id: int) -> tuple[FileRow, ...]:
    """What a turn's calls put there to be sent, in their order."""
    return _rows(connection, attachment.c.turn_id == turn_id)


def put_by(connection: Connection, turn_id: int, call: str) -> FileRow | None:
    """What this very call of the turn put there before."""
    found = _rows(connection, and_(attachment.c.turn_id == turn_id, attachment.c.call == call))
    return found[0] if found else None


def attach_sent(connection: Connection, turn_id: int, message_id: int) -> None:
    """Gives what goes out to the answer of the turn."""
    wanted = attachment.c.turn_id == turn_id
    connection.execute(update(attachment).where(wanted).values(message_id=message_id))


def stream_of_turn(connection: Connection, turn_id: int) -> int:
    """The stream that a turn's session belongs to. Raises LookupError."""
    query = select(session.c.stream_id).join(turn, turn.c.session_id == session.c.id)
    found = connection.execute(query.where(turn.c.id == turn_id)).scalar()
    if found is None:
        raise LookupError(f"no turn {turn_id}")
    return int(found)


def find(connection: Connection, scope_streams: Sequence[int], session_id: str, file: int) -> FileRow | None:
    """A kept file of these streams; one of a private session only from that session itself."""
    wanted = and_(
        attachment.c.id == file,
        attachment.c.stream_id.in_(scope_streams),
        attachment.c.sha256.is_not(None),
        attachment.c.message_id.is_not(None),
        ~exists().where(
            message.c.id == attachment.c.message_id,
            session.c.id == message.c.session_id,
            session.c.private,
            session.c.public_id != session_id,
        ),
    )
    found = _rows(connection, wanted)
    return found[0] if found else None


def is_at_hand(connection: Connection, session_id: str, file: int) -> bool:
    """Whether a file stands in the chat or thread of this session, or in a session that it goes on from."""
    line = select(session.c.id, session.c.parent_id).where(session.c.public_id == session_id)
    line_ids = line.cte("line", recursive=True)
    line_ids = line_ids.union(
        select(session.c.id, session.c.parent_id).where(session.c.id == line_ids.c.parent_id)
    )
    here = session.alias()
    same_place = (
        session.c[name] == here.c[name] for name in ("platform", "tenant", "chat", "thread", "member")
    )
    query = (
        select(attachment.c.id)
        .join(message, message.c.id == attachment.c.message_id)
        .join(session, session.c.id == message.c.session_id)
        .join(here, here.c.public_id == session_id)
        .where(attachment.c.id == file, or_(and_(*same_place), session.c.id.in_(select(line_ids.c.id))))
    )
    return connection.execute(query).first() is not None


def pictures_in(connection: Connection, session_row: int) -> Mapping[int, tuple[Picture, ...]]:
    """The pictures that the messages of a session show to models, by message."""
    in_session = select(message.c.id).where(message.c.session_id == session_row)
    return _pictures(connection, attachment.c.message_id.in_(in_session))


def pictures_of_turn(connection: Connection, turn_id: int) -> Mapping[int, tuple[Picture, ...]]:
    """The pictures that came with the messages of a turn, by message."""
    asked = select(message.c.id).where(message.c.turn_id == turn_id, message.c.role == "user")
    return _pictures(connection, attachment.c.message_id.in_(asked))


def sent_with(connection: Connection, messages: Sequence[int]) -> Mapping[int, tuple[tuple[str, str], ...]]:
    """Names and hashes of the files that went out with these messages, by message."""
    found: dict[int, tuple[tuple[str, str], ...]] = {}
    query = (
        select(attachment.c.message_id, attachment.c.name, attachment.c.sha256)
        .where(
            attachment.c.message_id.in_(messages),
            attachment.c.turn_id.is_not(None),
            attachment.c.sha256.is_not(None),
        )
        .order_by(*_ORDER)
    )
    for row in connection.execute(query):
        found[row.message_id] = (*found.get(row.message_id, ()), (row.name, row.sha256))
    return found


def is_in_session(connection: Connection, wanted: ColumnElement[bool], sha256: str) -> bool:
    """Whether a file of this content came to, or went out of, a session, which `wanted` names."""
    of_turn = or_(
        attachment.c.turn_id == turn.c.id,
        attachment.c.inbox_id.in_(select(inbox.c.id).where(inbox.c.turn_id == turn.c.id)),
    )
    query = (
        select(attachment.c.id)
        .select_from(attachment)
        .join(turn, of_turn)
        .join(session, session.c.id == turn.c.session_id)
        .join(stream, stream.c.id == session.c.stream_id)
        .join(account, account.c.id == stream.c.account_id)
        .where(wanted, attachment.c.sha256 == sha256)
    )
    return connection.execute(query.limit(1)).first() is not None


def drop(connection: Connection, *where: ColumnElement[bool]) -> None:
    """Removes rows of `attachment`, and notes their contents for the next clean-up."""
    rows = connection.execute(select(attachment.c.sha256, attachment.c.shown_sha256).where(*where)).all()
    hashes = {sha256 for row in rows for sha256 in row if sha256 is not None}
    known = set(
        connection.execute(select(dropped_file.c.sha256).where(dropped_file.c.sha256.in_(hashes))).scalars()
    )
    if hashes - known:
        connection.execute(insert(dropped_file), [{"sha256": one} for one in sorted(hashes - known)])
    connection.execute(delete(attachment).where(*where))


def detach_sent(connection: Connection, turns: Any) -> None:
    """Takes what goes out of these turns from messages that are about to be removed."""
    connection.execute(update(attachment).where(attachment.c.turn_id.in_(turns)).values(message_id=None))


def drop_of_messages(connection: Connection, messages: Any) -> None:
    """Removes the files of these messages (ids, or a select of them)."""
    drop(connection, attachment.c.message_id.in_(messages))


def drop_of_turns(connection: Connection, turns: Any, *, messages: Any) -> None:
    """Removes what came with, or goes out of, these messages and turns (selects of ids)."""
    came = select(inbox.c.id).where(inbox.c.turn_id.in_(turns))
    drop(
        connection,
        or_(
            attachment.c.message_id.in_(messages),
            attachment.c.turn_id.in_(turns),
            attachment.c.inbox_id.in_(came),
        ),
    )


def drop_stray(connection: Connection, before_ms: int) -> None:
    """Removes what came with messages that never became part of a conversation."""
    waits = exists().where(inbox.c.id == attachment.c.inbox_id, inbox.c.state.in_(("received", "leased")))
    runs = exists().where(turn.c.id == attachment.c.turn_id, turn.c.state == "running")
    drop(
        connection,
        attachment.c.message_id.is_(None),
        attachment.c.created_ms < before_ms,
        ~waits,
        ~runs,
    )


def dropped(connection: Connection) -> tuple[str, ...]:
    return tuple(connection.execute(select(dropped_file.c.sha256)).scalars())


def settle(connection: Connection, sha256: str) -> None:
    """The content was dealt with."""
    connection.execute(delete(dropped_file).where(dropped_file.c.sha256 == sha256))


def is_used(connection: Connection, sha256: str) -> bool:
    """Whether a file, a message that waits, or one that is still to be sent refers to the content."""
    uses = (
        select(attachment.c.id).where(
            or_(attachment.c.sha256 == sha256, attachment.c.shown_sha256 == sha256)
        ),
        select(inbox.c.id).where(inbox.c.state.in_(("received", "leased")), inbox.c.payload.contains(sha256)),
        select(outbox.c.id).where(
            outbox.c.state.in_(("planned", "sending")),
            outbox.c.kind == "file",
            outbox.c.payload.contains(sha256),
        ),
    )
    return any(connection.execute(query.limit(1)).first() is not None for query in uses)


_ORDER = (attachment.c.inbox_id, attachment.c.place, attachment.c.id)


def _rows(connection: Connection, wanted: ColumnElement[bool]) -> tuple[FileRow, ...]:
    return tuple(_row(row) for row in connection.execute(select(attachment).where(wanted).order_by(*_ORDER)))


def _row(row: Row[Any]) -> FileRow:
    shown = None if row.shown_sha256 is None else Picture(row.shown_sha256, row.shown_mime)
    return FileRow(
        id=row.id,
        kind=row.kind,
        name=row.name,
        mime=row.mime,
        size_bytes=row.size_bytes,
        sha256=row.sha256,
        reason=row.reason,
        words=row.words,
        shown=shown,
        inbox_row=row.inbox_id,
        place=row.place,
    )


def _pictures(connection: Connection, wanted: ColumnElement[bool]) -> dict[int, tuple[Picture, ...]]:
    found: dict[int, tuple[Picture, ...]] = {}
    query = (
        select(attachment.c.message_id, attachment.c.shown_sha256, attachment.c.shown_mime)
        .where(wanted, attachment.c.shown_sha256.is_not(None), attachment.c.turn_id.is_(None))
        .order_by(*_ORDER)
    )
    for row in connection.execute(query):
        found[row.message_id] = (*found.get(row.message_id, ()), Picture(row.shown_sha256, row.shown_mime))
    return found
