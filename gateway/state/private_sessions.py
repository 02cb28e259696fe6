"""Queries on private sessions: begun in place of what is open, and erased down to an empty row.

The rows of the session and its turns stay, without a word: their ids must not be given to others, since
what the platforms know is named by them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, exists, or_, select, update

from trunkline.gateway.state import files, notes, people, sessions
from trunkline.gateway.state.inbox import is_of
from trunkline.gateway.state.records import Account, Session, SessionKey
from trunkline.gateway.state.schema import (
    account,
    embedding,
    inbox,
    message,
    outbox,
    session,
    stream,
    turn,
)

ERASED = "erased"
"""The end reason of a private session of which nothing is left."""
ENDING = "erasing"
"""The end reason of one whose last answer is still on its way."""


def begin(connection: Connection, key: SessionKey, owner: Account, model: str, now_ms: int) -> None:
    """Ends what is open under the key of a direct chat and opens a private session there."""
    sessions.end(connection, key, "private began", now_ms)
    own = people.stream_of(connection, account_id=owner.id, room_id=None)
    sessions.start(connection, key, own, prompt="", snapshot="{}", model=model, now_ms=now_ms, kind="private")


@dataclass(frozen=True, slots=True)
class Due:
    """A private session to erase: its time is over, or it ended and nobody told the person of it yet."""

    session: Session
    has_ended: bool
    is_told: bool


def to_erase(connection: Connection, started_before_ms: int) -> tuple[Due, ...]:
    """Private sessions that ended, or began too long ago, and in which no turn runs."""
    runs = exists().where(turn.c.session_id == session.c.id, turn.c.state == "running")
    query = select(session.c.id, session.c.ended_ms, session.c.end_reason).where(
        session.c.private,
        session.c.end_reason != ERASED,
        or_(session.c.ended_ms.is_not(None), session.c.started_ms < started_before_ms),
        ~runs,
    )
    return tuple(
        Due(sessions.load(connection, row.id), row.ended_ms is not None, row.end_reason == ENDING)
        for row in connection.execute(query).all()
    )


def erase(connection: Connection, session_id: int, now_ms: int) -> bool:
    """Removes everything that was said; false while something of it has yet to be delivered.

    What is not delivered stays until it is; call again then.
    """
    turns = select(turn.c.id).where(turn.c.session_id == session_id)
    messages = select(message.c.id).where(message.c.session_id == session_id)
    connection.execute(delete(embedding).where(embedding.c.message_id.in_(messages)))
    _drop_files(connection, turns, messages)
    notes.drop_of(connection, session_id)
    connection.execute(delete(message).where(message.c.session_id == session_id))
    connection.execute(update(inbox).where(inbox.c.turn_id.in_(turns)).values(payload=""))
    _blank_unanswered(connection, session_id)
    waits = outbox.c.state.in_(("planned", "sending"))
    connection.execute(update(outbox).where(outbox.c.turn_id.in_(turns), ~waits).values(payload=""))
    _blank_replies(connection, session_id)
    left = connection.execute(select(outbox.c.id).where(outbox.c.turn_id.in_(turns), waits).limit(1)).first()
    values: dict[str, Any] = {"title": "", "message_count": 0, "prompt_hash": None, "snapshot": "{}"}
    is_open = session.c.ended_ms.is_(None)
    connection.execute(update(session).where(session.c.id == session_id, is_open).values(ended_ms=now_ms))
    connection.execute(
        update(session)
        .where(session.c.id == session_id)
        .values(**values, end_reason=ERASED if left is None else ENDING)
    )
    return left is None


def _drop_files(connection: Connection, turns: Any, messages: Any) -> None:
    """All files but those that have yet to be delivered: they go at a later call."""
    waits = outbox.c.kind == "file", outbox.c.state.in_(("planned", "sending"))
    if connection.execute(select(outbox.c.id).where(outbox.c.turn_id.in_(turns), *waits).limit(1)).first():
        files.detach_sent(connection, turns)
        files.drop_of_messages(connection, messages)
        return
    files.drop_of_turns(connection, turns, messages=messages)


def erase_from_copy(connection: Connection, now_ms: int) -> None:
    """Leaves no word of a private session in a copy of the database, whatever waits to be delivered."""
    private = select(session.c.id).where(session.c.private, session.c.end_reason != ERASED)
    for session_id in connection.execute(private).scalars().all():
        turns = select(turn.c.id).where(turn.c.session_id == session_id)
        connection.execute(update(outbox).where(outbox.c.turn_id.in_(turns)).values(state="refused"))
        erase(connection, session_id, now_ms)


def _blank_unanswered(connection: Connection, session_id: int) -> None:
    """What came while the session lasted and was set aside without a turn of it keeps no words either."""
    place = sessions.load(connection, session_id)
    ended_ms = connection.execute(select(session.c.ended_ms).where(session.c.id == session_id)).scalar()
    during = [inbox.c.received_ms >= place.started_ms]
    if ended_ms is not None:
        during.append(inbox.c.received_ms <= ended_ms)
    set_aside = inbox.c.state.in_(("done", "failed", "dead", "noted"))
    connection.execute(update(inbox).where(*is_of(place.key), *during, set_aside).values(payload=""))


def _blank_replies(connection: Connection, session_id: int) -> None:
    """Replies to commands quote what was typed: those sent in this chat since the session began go too."""
    place = sessions.load(connection, session_id)
    connection.execute(
        update(outbox)
        .where(
            outbox.c.platform == place.key.platform,
            outbox.c.tenant == place.key.tenant,
            outbox.c.chat == place.key.chat,
            outbox.c.thread == place.key.thread,
            outbox.c.turn_id.is_(None),
            outbox.c.created_ms >= place.started_ms,
            outbox.c.state.not_in(("planned", "sending")),
        )
        .values(payload="")
    )


def language_of(connection: Connection, session_id: int) -> str:
    """The language of the person whose session it is; empty when it isn't known."""
    owner = (
        select(account.c.id)
        .join(stream, stream.c.account_id == account.c.id)
        .join(session, session.c.stream_id == stream.c.id)
        .where(session.c.id == session_id)
    )
    found: Sequence[Any] = connection.execute(owner).scalars().all()
    person = people.load_account(connection, found[0]).person if found else None
    return "" if person is None else person.language
