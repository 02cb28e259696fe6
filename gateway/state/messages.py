"""Messages: stored, numbered in their stream, indexed, loaded as history, and taken back.

Every function runs inside a transaction of the caller's. A broken index never stops a message from being
stored.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any, Literal

from sqlalchemy import Connection, Row, bindparam, case, delete, func, insert, or_, select, true, update
from sqlalchemy.exc import DatabaseError, SQLAlchemyError

from trunkline.agent.messages import AssistantMessage, Message, Picture, ToolCall, ToolMessage, UserMessage
from trunkline.agent.ports import Role
from trunkline.agent.scope import PersonScope, Scope
from trunkline.gateway.state import files, fulltext, notes
from trunkline.gateway.state.analyser import ANALYSER_VERSION, analyse, storable
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.kv import get_value, put_value, remove_value
from trunkline.gateway.state.schema import (
    account,
    embedding,
    indexed_message,
    kv,
    message,
    person,
    room,
    room_member,
    session,
    stream,
)
from trunkline.gateway.state.tool_calls import tool_calls_from_json, tool_calls_to_json

logger = logging.getLogger(__name__)

MessageState = Literal["live", "compacted", "undone", "redacted"]
VISIBLE: tuple[MessageState, ...] = ("live", "compacted")

INDEX_DEGRADED = "index.degraded"
INDEX_ANALYSER = "index.analyser"

REINDEX_BATCH = 500

# Tools return logs and whole files: what they are about stands at their beginning.
INDEXED_TOOL_CHARS = 20_000

# Made once: building a statement costs more than running it.
_ACCOUNTS = (
    select(account.c.id)
    .join(person, person.c.id == account.c.person_id)
    .where(person.c.slug == bindparam("slug"))
)
_ROOMS = select(room_member.c.room_id).where(
    room_member.c.account_id.in_(_ACCOUNTS), room_member.c.left_ms.is_(None)
)
_PERSON_STREAMS = (
    select(stream.c.id)
    .where(or_(stream.c.account_id.in_(_ACCOUNTS), stream.c.room_id.in_(_ROOMS)))
    .order_by(stream.c.id)
)
_ROOM_STREAMS = (
    select(stream.c.id)
    .where(stream.c.room_id.in_(select(room.c.id).where(room.c.slug == bindparam("slug"))))
    .order_by(stream.c.id)
)
_COUNT_IN_SESSION = (
    update(session)
    .where(session.c.id == bindparam("session_row"))
    .values(
        message_count=session.c.message_count + bindparam("size"),
        last_ms=case(
            (session.c.last_ms < bindparam("latest_ms"), bindparam("latest_ms")), else_=session.c.last_ms
        ),
    )
    .returning(session.c.stream_id, session.c.private)
)
_COUNT_IN_STREAM = (
    update(stream)
    .where(stream.c.id == bindparam("stream_row"))
    .values(last_n=stream.c.last_n + bindparam("size"))
    .returning(stream.c.last_n)
)
_LAST_SEQ = select(func.coalesce(func.max(message.c.seq), 0)).where(
    message.c.session_id == bindparam("session_row")
)
_COUNT_INDEXED = (
    update(stream)
    .where(stream.c.id == bindparam("stream_row"))
    .values(
        indexed_count=stream.c.indexed_count + bindparam("size"),
        indexed_words=stream.c.indexed_words + bindparam("words"),
    )
)
_DEGRADED = select(kv.c.key, kv.c.value).where(kv.c.key.in_([INDEX_DEGRADED, INDEX_ANALYSER]))


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to be stored. `session_id` is the session's row; secrets are masked already."""

    session_id: int
    role: Role
    content: str
    created_ms: int
    account_id: int | None = None
    turn_id: int | None = None
    step_n: int = 0
    sent: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    tool_name: str | None = None
    is_error: bool = False
    interrupted: bool = False
    finish_reason: str = ""
    platform_ids: tuple[str, ...] = ()
    heard_from: str | None = None
    """Whose lines stand in `sent` as overheard: `heard.whose`."""
    quoted_from: int | None = None


def add_message(connection: Connection, new: NewMessage) -> int:
    """Stores and indexes one message and returns its id. Raises LookupError for an unknown session."""
    return add_messages(connection, [new])[0]


def add_messages(connection: Connection, news: Sequence[NewMessage]) -> list[int]:
    """Stores and indexes messages in the order given and returns their ids. Raises as `add_message`."""
    if not news:
        return []
    places: dict[int, list[int]] = {}
    for place, new in enumerate(news):
        places.setdefault(new.session_id, []).append(place)
    ids = [0] * len(news)
    rows: list[dict[str, object]] = []
    searchable: list[_Searchable] = []
    for session_id, chosen in places.items():
        first = _allocate(connection, session_id, len(chosen), max(news[at].created_ms for at in chosen))
        for step, at in enumerate(chosen):
            new, ids[at] = news[at], first.id + step
            row = _row(new, ids[at], first.seq + step)
            rows.append(row)
            if not first.private:
                searchable.append(_searchable(row))
    # In the order of ids: an index entry below the one before costs FTS5 a segment.
    rows.sort(key=itemgetter("id"))
    searchable.sort(key=attrgetter("id"))
    connection.execute(insert(message), rows)
    _index(connection, searchable)
    return ids


def load_history(
    connection: Connection, scope: Scope, session_row_id: int, until_ms: int | None = None
) -> tuple[Message, ...]:
    """The live messages of a session in order, up to a time; empty when the session is out of scope."""
    rows = connection.execute(
        select(message)
        .join(session, session.c.id == message.c.session_id)
        .where(
            message.c.session_id == session_row_id,
            message.c.state == "live",
            session.c.stream_id.in_(streams_of(connection, scope)),
            true() if until_ms is None else message.c.created_ms <= until_ms,
        )
        .order_by(message.c.seq)
    )
    pictures = files.pictures_in(connection, session_row_id)
    return tuple(message_of(row, pictures.get(row.id, ())) for row in rows)


def set_message_state(connection: Connection, scope: Scope, ids: Iterable[int], state: MessageState) -> int:
    """Moves messages of the scope to a state and returns how many changed.

    What is undone or redacted leaves the index; a redacted message also loses its text, for good.
    """
    return _put_state(connection, _rows_in_scope(connection, scope, ids, state), state)


def redact_messages(connection: Connection, ids: Sequence[int]) -> int:
    """Takes the text of messages away that their platform says were deleted: that is asked of no scope."""
    query = select(message, session.c.private).join(session, session.c.id == message.c.session_id)
    rows = connection.execute(query.where(message.c.id.in_(ids), message.c.state != "redacted")).all()
    return _put_state(connection, rows, "redacted")


def _put_state(connection: Connection, rows: Sequence[Row[Any]], state: MessageState) -> int:
    if not rows:
        return 0
    kept = [row for row in rows if row.state in VISIBLE]
    if state not in VISIBLE:
        notes.spoil_about(connection, [(row.session_id, row.seq) for row in rows])
        _unindex(connection, [_searchable(dict(row._mapping)) for row in kept])
        connection.execute(delete(embedding).where(embedding.c.message_id.in_([row.id for row in kept])))
    values: dict[str, object] = {"state": state}
    if state == "redacted":
        values |= {"content": "", "sent": None, "tool_calls": None, "parts": None}
        files.drop_of_messages(connection, [row.id for row in rows])
    connection.execute(update(message).where(message.c.id.in_([row.id for row in rows])).values(values))
    if state in VISIBLE:
        back = [row for row in rows if row.state == "undone" and not row.private]
        _index(connection, [_searchable(dict(row._mapping)) for row in back])
    return len(rows)


def rewrite_message(
    connection: Connection, row: Row[Any], values: Mapping[str, object], *, forgets: bool = True
) -> None:
    """Puts other texts (content, sent, tool_calls) into a stored message, which `forgets` what it said."""
    indexed = connection.execute(select(indexed_message.c.id).where(indexed_message.c.id == row.id)).first()
    if forgets and set(values) != {"sent"}:
        notes.spoil_about(connection, [(row.session_id, row.seq)])
    changes_index = indexed is not None and "content" in values
    values = {"parts": None, **values} if "content" in values else values
    if changes_index:
        _unindex(connection, [_searchable(dict(row._mapping))])
    connection.execute(update(message).where(message.c.id == row.id).values(dict(values)))
    connection.execute(delete(embedding).where(embedding.c.message_id == row.id))
    if changes_index:
        _index(connection, [_searchable({**row._mapping, **values})])


def delete_messages_of(connection: Connection, session_row_id: int) -> int:
    """Removes all messages of a session that the caller has found in its scope, their index entries and
    embeddings; returns how many there were.

    The file keeps traces of them until `fulltext.forget_removed` and `Database.scrub`.
    """
    deleted = 0
    query = select(message).where(message.c.session_id == session_row_id).limit(REINDEX_BATCH)
    while rows := connection.execute(query).all():
        _delete(connection, rows)
        deleted += len(rows)
    return deleted


def streams_of(connection: Connection, scope: Scope) -> tuple[int, ...]:
    """The streams a scope may read.

    A person: the direct chats of their accounts, and the rooms where one of their accounts takes part.
    A room: its own stream only.
    """
    if isinstance(scope, PersonScope):
        rows = connection.execute(_PERSON_STREAMS, {"slug": scope.person})
    else:
        rows = connection.execute(_ROOM_STREAMS, {"slug": scope.room})
    return tuple(rows.scalars())


def index_is_degraded(connection: Connection) -> bool:
    """Whether the index lacks messages, because it broke or was made by another analyser."""
    facts = dict(connection.execute(_DEGRADED).all())
    return INDEX_DEGRADED in facts or facts.get(INDEX_ANALYSER, ANALYSER_VERSION) != ANALYSER_VERSION


def mark_degraded(connection: Connection, error: SQLAlchemyError) -> None:
    """Notes that the index broke, for `index_is_degraded`; `reindex` mends it."""
    if get_value(connection, INDEX_DEGRADED) is None:
        cause = getattr(error, "orig", None) or error
        logger.error("index is broken, messages are stored without it: %s", type(cause).__name__)
        put_value(connection, INDEX_DEGRADED, str(cause)[:200])


def reindex(database: Database, progress: Callable[[int, int], None]) -> int:
    """Builds the full-text index anew from the messages and returns how many it holds.

    Blocks; for the command line. Chats go on meanwhile: it works in batches. `progress` gets done and total.
    """
    database.write_now(_start_reindex)
    bound = database.read_now(
        lambda connection: connection.execute(select(func.max(message.c.id))).scalar() or 0
    )
    total = database.read_now(
        lambda connection: connection.execute(select(func.count(message.c.id))).scalar_one()
    )
    after, done, indexed = 0, 0, 0
    while after < bound:

        def index_batch(connection: Connection, after: int = after) -> tuple[int, int, int]:
            return _index_batch(connection, after, bound)

        after, read, added = database.write_now(index_batch)
        done, indexed = done + read, indexed + added
        progress(done, total)
    database.write_now(lambda connection: remove_value(connection, INDEX_DEGRADED))
    return indexed


@dataclass(frozen=True, slots=True)
class _First:
    id: int
    seq: int
    private: bool


@dataclass(frozen=True, slots=True)
class _Searchable:
    id: int
    session_id: int
    seq: int
    role: str
    account_id: int | None
    content: str
    created_ms: int


def _allocate(connection: Connection, session_id: int, size: int, latest_ms: int) -> _First:
    owner = connection.execute(
        _COUNT_IN_SESSION, {"session_row": session_id, "size": size, "latest_ms": latest_ms}
    ).one_or_none()
    if owner is None:
        raise LookupError(f"no session {session_id}")
    last_n = connection.execute(_COUNT_IN_STREAM, {"stream_row": owner.stream_id, "size": size}).scalar_one()
    last_seq = connection.execute(_LAST_SEQ, {"session_row": session_id}).scalar_one()
    first_id = (owner.stream_id << fulltext.STREAM_BITS) + last_n - size + 1
    return _First(first_id, last_seq + 1, owner.private)


def _row(new: NewMessage, message_id: int, seq: int) -> dict[str, object]:
    return {
        "id": message_id,
        "session_id": new.session_id,
        "turn_id": new.turn_id,
        "step_n": new.step_n,
        "seq": seq,
        "role": new.role,
        "account_id": new.account_id,
        "content": storable(new.content),
        "sent": None if new.sent is None or new.sent == new.content else storable(new.sent),
        "tool_calls": tool_calls_to_json(new.tool_calls),
        "tool_call_id": new.tool_call_id,
        "tool_name": new.tool_name,
        "is_error": new.is_error,
        "interrupted": new.interrupted,
        "finish_reason": new.finish_reason,
        "platform_ids": json.dumps(new.platform_ids) if new.platform_ids else None,
        "heard_from": new.heard_from,
        "quoted_from": new.quoted_from,
        "state": "live",
        "created_ms": new.created_ms,
    }


def message_of(row: Row[Any], pictures: tuple[Picture, ...] = ()) -> Message:
    """A stored row as the model's history has it, with the pictures that came with it."""
    if row.role == "user":
        return UserMessage(row.content, row.content if row.sent is None else row.sent, pictures)
    if row.role == "tool":
        return ToolMessage(row.tool_call_id or "", row.tool_name or "", row.content, row.is_error)
    calls = tool_calls_from_json(row.tool_calls)
    return AssistantMessage(row.content, calls, row.finish_reason, row.interrupted)


def _rows_in_scope(
    connection: Connection, scope: Scope, ids: Iterable[int], state: MessageState
) -> list[Row[Any]]:
    """The messages of the scope that are not in `state` yet; redacted ones stay as they are."""
    query = (
        select(message, session.c.private)
        .join(session, session.c.id == message.c.session_id)
        .where(message.c.id.in_(list(ids)), session.c.stream_id.in_(streams_of(connection, scope)))
        .where(message.c.state.not_in([state, "redacted"]))
    )
    return list(connection.execute(query))


def _delete(connection: Connection, rows: Sequence[Row[Any]]) -> None:
    notes.spoil_about(connection, [(row.session_id, row.seq) for row in rows])
    _unindex(connection, [_searchable(dict(row._mapping)) for row in rows if row.state in VISIBLE])
    chosen = [row.id for row in rows]
    connection.execute(delete(embedding).where(embedding.c.message_id.in_(chosen)))
    files.drop_of_messages(connection, chosen)
    connection.execute(delete(message).where(message.c.id.in_(chosen)))


def _searchable(row: Mapping[str, Any]) -> _Searchable:
    return _Searchable(
        row["id"],
        row["session_id"],
        row["seq"],
        row["role"],
        row["account_id"],
        row["content"],
        row["created_ms"],
    )


def _index(connection: Connection, messages: Sequence[_Searchable]) -> None:
    if not messages:
        return
    try:
        with connection.begin_nested():
            _add_to_index(connection, messages)
    except DatabaseError as error:
        mark_degraded(connection, error)


def _unindex(connection: Connection, messages: Sequence[_Searchable]) -> None:
    # An index that can't be cleaned may still find the words; search checks each message's state as well.
    if not messages:
        return
    try:
        with connection.begin_nested():
            _take_from_index(connection, messages)
    except DatabaseError as error:
        mark_degraded(connection, error)


def _add_to_index(connection: Connection, messages: Sequence[_Searchable]) -> None:
    entries = [_entry(one) for one in messages]
    fulltext.insert_entries(connection, entries)
    connection.execute(
        insert(indexed_message),
        [
            {
                "id": one.id,
                "session_id": one.session_id,
                "seq": one.seq,
                "role": fulltext.ROLES[one.role],
                "account_id": one.account_id,
                "words": len(entry.words),
                "created_ms": one.created_ms,
            }
            for one, entry in zip(messages, entries, strict=True)
        ],
    )
    _count_entries(connection, entries, 1)


def _take_from_index(connection: Connection, messages: Sequence[_Searchable]) -> None:
    ids = [one.id for one in messages]
    indexed = set(
        connection.execute(select(indexed_message.c.id).where(indexed_message.c.id.in_(ids))).scalars()
    )
    entries = [_entry(one) for one in messages if one.id in indexed]
    if not entries:
        return
    fulltext.remove_entries(connection, entries)
    connection.execute(delete(indexed_message).where(indexed_message.c.id.in_(indexed)))
    _count_entries(connection, entries, -1)


def _entry(one: _Searchable) -> fulltext.Entry:
    is_tool = one.role == "tool"
    found = analyse(one.content[:INDEXED_TOOL_CHARS] if is_tool else one.content)
    return fulltext.Entry(one.id, found.words, found.wholes, is_tool)


def _count_entries(connection: Connection, entries: Sequence[fulltext.Entry], sign: int) -> None:
    """Keeps each stream's counts of what was said; tool output is left out of the averages."""
    sums: dict[int, tuple[int, int]] = {}
    for entry in entries:
        if not entry.is_tool:
            of = entry.id >> fulltext.STREAM_BITS
            size, words = sums.get(of, (0, 0))
            sums[of] = (size + 1, words + len(entry.words))
    if sums:
        connection.execute(
            _COUNT_INDEXED,
            [
                {"stream_row": of, "size": sign * size, "words": sign * words}
                for of, (size, words) in sums.items()
            ],
        )


def _start_reindex(connection: Connection) -> None:
    fulltext.drop_tables(connection)
    fulltext.create_tables(connection)
    connection.execute(delete(indexed_message))
    connection.execute(update(stream).values(indexed_count=0, indexed_words=0))
    put_value(connection, INDEX_ANALYSER, ANALYSER_VERSION)
    put_value(connection, INDEX_DEGRADED, "being built")


def _index_batch(connection: Connection, after: int, bound: int) -> tuple[int, int, int]:
    """Indexes the next messages above `after`; returns the last id, how many were read, how many added."""
    rows = list(
        connection.execute(
            select(message, session.c.private, indexed_message.c.id.label("indexed"))
            .join(session, session.c.id == message.c.session_id)
            .outerjoin(indexed_message, indexed_message.c.id == message.c.id)
            .where(message.c.id > after, message.c.id <= bound)
            .order_by(message.c.id)
            .limit(REINDEX_BATCH)
        )
    )
    wanted = [row for row in rows if row.state in VISIBLE and not row.private and row.indexed is None]
    if wanted:
        _add_to_index(connection, [_searchable(dict(row._mapping)) for row in wanted])
    return (rows[-1].id if rows else bound), len(rows), len(wanted)
