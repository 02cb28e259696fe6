"""Taking an earlier conversation up again: a new session whose history begins with the end of the old one.

The old session stays as it is, on its own platform. What the model is shown of it is read from its rows at
each turn, up to the moment it was taken up: the same bytes every time, unless something was taken back.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlalchemy import Connection, Row, Select, func, or_, select, update

from trunkline.agent.compaction import note_messages
from trunkline.agent.messages import AssistantMessage, Message, UserMessage
from trunkline.agent.recall import disarm
from trunkline.agent.scope import AccountId, PersonScope, Scope
from trunkline.agent.stream_text import NOTE
from trunkline.gateway.state import notes, people, sessions, transcripts
from trunkline.gateway.state.messages import VISIBLE, load_history, streams_of
from trunkline.gateway.state.records import Session, SessionKey
from trunkline.gateway.state.schema import message, session, stream
from trunkline.gateway.state.session_titles import set_title

RESUMED = "resume"
"""The origin of such a session."""

BRANCHED = "branch"
"""The origin of a session that began as a copy of another."""

BRIDGE_CHARS = 24_000
MESSAGE_CHARS = 6_000
MAX_MESSAGES = 200
MAX_PARENTS = 8
MAX_TITLED = 2000

_NOTE = (
    f"{NOTE} this conversation goes on from one that was held on "
    "{platform}; its last messages follow, shortened, without the tools' part. The whole of it is session "
    "{session} for session_search.]"
)


@dataclass(frozen=True, slots=True)
class Resumed:
    """The session that goes on under the key now, and its title, empty where the old one had none."""

    session: Session
    title: str


Refusal = Literal["unknown", "room", "here"]
"""Why a session can't be taken up: it is out of scope, a room's, or goes on under this very key."""


def resume(
    connection: Connection,
    scope: PersonScope,
    key: SessionKey,
    account: AccountId,
    public_id: str,
    *,
    model: str,
    now_ms: int,
) -> Resumed | Refusal:
    """Ends what is open under the key of a direct chat and opens the successor of another session there.

    Only the person's own direct sessions can be taken up: what was said in a room stays there. The successor
    belongs to this chat's own stream, and its prompt is made at its first turn.
    """
    found = transcripts.find_session(connection, streams_of(connection, scope), public_id)
    if found is None:
        return "unknown"
    shared = select(stream.c.room_id).where(stream.c.id == found.stream_id)
    if connection.execute(shared).scalar_one() is not None:
        return "room"
    current = sessions.find_open(connection, key)
    if current is not None and current.id == found.id:
        return "here"
    sessions.end(connection, key, "resumed another", now_ms)
    own_stream = people.stream_of(connection, account_id=account, room_id=None)
    opened = sessions.start(connection, key, own_stream, prompt="", snapshot="{}", model=model, now_ms=now_ms)
    connection.execute(
        update(session).where(session.c.id == opened.id).values(parent_id=found.id, origin=RESUMED)
    )
    title = ""
    if found.title:
        title = set_title(connection, scope, opened.public_id, found.title) or ""
    return Resumed(sessions.load(connection, opened.id), title)


def branch(connection: Connection, key: SessionKey, now_ms: int) -> Session | None:
    """Ends the open session of a key and opens one that begins with the same history; None without one.

    What was said stands in the file once: the new session reads it from the old one, up to this moment.
    """
    old = sessions.find_open(connection, key)
    if old is None or old.private:
        return None
    sessions.end(connection, key, "branched", now_ms)
    opened = sessions.start(
        connection,
        key,
        old.stream,
        prompt=old.prompt,
        snapshot=old.snapshot,
        model=old.model,
        now_ms=now_ms,
    )
    connection.execute(
        update(session).where(session.c.id == opened.id).values(parent_id=old.id, origin=BRANCHED)
    )
    return opened


def find_by_title(connection: Connection, scope: PersonScope, words: str) -> tuple[str, ...]:
    """The public ids of the sessions that words may mean, newest first.

    Those whose title or id is exactly that, or else those with the words in their title.
    """
    rows = connection.execute(
        select(session.c.public_id, session.c.title)
        .where(
            session.c.stream_id.in_(streams_of(connection, scope)),
            session.c.private.is_(False),
            or_(session.c.title != "", session.c.public_id == words),
        )
        .order_by(session.c.last_ms.desc(), session.c.id.desc())
        .limit(MAX_TITLED)
    ).all()
    wanted = " ".join(words.split()).casefold()
    exact = [row.public_id for row in rows if wanted in (row.title.casefold(), row.public_id)]
    return tuple(exact or [row.public_id for row in rows if wanted and wanted in row.title.casefold()])


def load_conversation(connection: Connection, scope: Scope, of: Session) -> tuple[Message, ...]:
    """What the model is shown of a session before its next turn: the bridge to the old one, then its own."""
    return (*_before(connection, scope, of.id), *load_history(connection, scope, of.id))


def load_inherited(connection: Connection, scope: Scope, of: Session) -> tuple[Message, ...]:
    """What a session that was never made shorter is shown of those before it."""
    return _inherited(connection, scope, of.id)


def shown_before(
    connection: Connection, scope: Scope, session_id: int, depth: int = 0
) -> dict[int, list[int]]:
    """The messages of earlier sessions that the model is shown of a session, by the session they are in."""
    if notes.latest(connection, session_id) is not None:
        return {}
    row = _origin(connection, session_id)
    if not _is_branch(row, depth):
        _, kept = _bridged(connection, scope, session_id)
        shown: dict[int, list[int]] = {}
        for one in kept:
            shown.setdefault(one.session_id, []).append(one.id)
        return shown
    live = select(message.c.id).where(
        message.c.session_id == row.parent_id,
        message.c.state == "live",
        message.c.created_ms <= row.started_ms,
    )
    before = shown_before(connection, scope, row.parent_id, depth + 1)
    return {**before, row.parent_id: list(connection.execute(live).scalars())}


def _before(connection: Connection, scope: Scope, session_id: int, depth: int = 0) -> tuple[Message, ...]:
    """What is shown before a session's own messages: the note on what was put away, or what it inherited."""
    own = select(session.c.id).where(
        session.c.id == session_id, session.c.stream_id.in_(streams_of(connection, scope))
    )
    note = notes.latest(connection, session_id) if connection.execute(own).first() is not None else None
    return _inherited(connection, scope, session_id, depth) if note is None else note_messages(note.text)


def _inherited(connection: Connection, scope: Scope, session_id: int, depth: int = 0) -> tuple[Message, ...]:
    """What a session has from those before it: a branch all of it, one that was taken up a bridge."""
    row = _origin(connection, session_id)
    if not _is_branch(row, depth):
        return _bridge(connection, scope, session_id)
    before = _before(connection, scope, row.parent_id, depth + 1)
    return (*before, *load_history(connection, scope, row.parent_id, until_ms=row.started_ms))


def _origin(connection: Connection, session_id: int) -> Row[Any, Any, Any]:
    columns = (session.c.parent_id, session.c.origin, session.c.started_ms)
    return connection.execute(select(*columns).where(session.c.id == session_id)).one()


def _is_branch(row: Row[Any, Any, Any], depth: int) -> bool:
    return row.origin == BRANCHED and row.parent_id is not None and depth < MAX_PARENTS


def _bridge(connection: Connection, scope: Scope, session_id: int) -> tuple[Message, ...]:
    """`_bridged` as the model is shown it."""
    first, kept = _bridged(connection, scope, session_id)
    if not kept or first is None:
        return ()
    opening, *rest = (_shown(row) for row in kept)
    note = _NOTE.format(platform=first.platform, session=first.public_id)
    assert isinstance(opening, UserMessage)
    return (replace(opening, sent=f"{note}\n\n{opening.sent}"), *rest)


def _bridged(connection: Connection, scope: Scope, session_id: int) -> tuple[Row[Any] | None, list[Row[Any]]]:
    """The session taken up, and the last messages before this one: BRIDGE_CHARS, from a question on."""
    streams = streams_of(connection, scope)
    kept: list[Row[Any]] = []
    first: Row[Any] | None = None
    budget_chars = BRIDGE_CHARS
    for before, until_ms in _ancestors(connection, streams, session_id):
        first = first or before
        for row in _said(connection, before.id, until_ms):
            budget_chars -= min(len(row.content), MESSAGE_CHARS)
            if budget_chars < 0:
                break
            kept.append(row)
        if budget_chars < 0:
            break
    kept.reverse()
    while kept and kept[0].role != "user":
        kept.pop(0)
    return first, kept


def _ancestors(
    connection: Connection, streams: Sequence[int], session_id: int
) -> Iterable[tuple[Row[Any], int]]:
    """The sessions taken up, nearest first, each with the time at which that was."""
    row: Row[Any] | None = connection.execute(select(session).where(session.c.id == session_id)).one()
    for _ in range(MAX_PARENTS):
        if row is None or row.parent_id is None or row.origin != RESUMED:
            return
        until_ms = row.started_ms
        row = connection.execute(
            select(session).where(
                session.c.id == row.parent_id,
                session.c.stream_id.in_(streams),
                session.c.private.is_(False),
            )
        ).one_or_none()
        if row is not None:
            yield row, until_ms


def _said(connection: Connection, session_id: int, until_ms: int) -> Sequence[Row[Any]]:
    """What was said in a session, newest first; what tools returned is left out."""
    query: Select[Any] = (
        select(
            message.c.id,
            message.c.session_id,
            message.c.role,
            func.substr(message.c.content, 1, MESSAGE_CHARS + 1).label("content"),
            func.substr(message.c.sent, 1, 200).label("sent"),
            message.c.interrupted,
        )
        .where(
            message.c.session_id == session_id,
            message.c.role.in_(("user", "assistant")),
            message.c.state.in_(VISIBLE),
            message.c.content != "",
            message.c.created_ms <= until_ms,
        )
        .order_by(message.c.seq.desc())
        .limit(MAX_MESSAGES)
    )
    return connection.execute(query).all()


def _shown(row: Row[Any]) -> Message:
    text = row.content if len(row.content) <= MESSAGE_CHARS else row.content[:MESSAGE_CHARS] + " […]"
    if row.role == "assistant":
        return AssistantMessage(text, interrupted=row.interrupted)
    date = (row.sent or "").partition("\n")[0]
    sent = f"{date}\n{disarm(text)}" if date.startswith("⟦") and date.endswith("⟧") else disarm(text)
    return UserMessage(text, sent)
