"""Deleting whole sessions: their rows everywhere, and what the file would still hold of them.

Takes the streams of a scope, like `transcripts`; a session outside of them is like one that does not exist.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, select, text, update

from trunkline.agent.scope import PersonScope
from trunkline.gateway.clock import now_ms
from trunkline.gateway.state import files, fulltext, notes, provider_rows
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.messages import delete_messages_of
from trunkline.gateway.state.schema import (
    account,
    inbox,
    kv,
    message,
    outbox,
    person,
    session,
    step,
    stream,
    system_prompt,
    turn,
    usage,
)
from trunkline.gateway.state.schema_over import INBOX_OVER, OUTBOX_OVER


@dataclass(frozen=True, slots=True)
class Deleted:
    """How much is gone."""

    sessions: int
    messages: int


_EMPTY = {
    "title": "",
    "prompt_hash": None,
    "snapshot": "",
    "parent_id": None,
    "private": True,  # listed nowhere
    "ended_ms": session.c.last_ms,
    "end_reason": "deleted",
    "message_count": 0,
}


def own_streams(connection: Connection, scope: PersonScope) -> tuple[int, ...]:
    """The streams of a person's direct chats, without the rooms they may read."""
    query = (
        select(stream.c.id)
        .join(account, account.c.id == stream.c.account_id)
        .join(person, person.c.id == account.c.person_id)
        .where(person.c.slug == scope.person)
    )
    return tuple(connection.execute(query).scalars())


def every_stream(connection: Connection) -> tuple[int, ...]:
    """All there are: for the operator's retention, which is nobody's scope."""
    return tuple(connection.execute(select(stream.c.id)).scalars())


def sessions_before(connection: Connection, streams: Sequence[int], before_ms: int) -> tuple[str, ...]:
    """The public ids of sessions whose last message is older, private ones included, oldest first."""
    query = select(session.c.public_id).where(session.c.stream_id.in_(streams), session.c.last_ms < before_ms)
    return tuple(connection.execute(query.order_by(session.c.last_ms)).scalars())


def delete_session(connection: Connection, streams: Sequence[int], public_id: str) -> Deleted:
    """Removes a session with all that was said in it; a turn that runs in it is lost, its cost stays counted.

    The file keeps traces until `leave_no_trace`.
    """
    found = connection.execute(
        select(session.c.id, session.c.prompt_hash).where(
            session.c.public_id == public_id, session.c.stream_id.in_(streams)
        )
    ).one_or_none()
    if found is None:
        return Deleted(0, 0)
    said = select(message.c.id).where(message.c.session_id == found.id)
    turns = select(turn.c.id).where(turn.c.session_id == found.id)
    files.drop_of_turns(connection, turns, messages=said)
    provider_rows.forget_turns(connection, connection.execute(turns).scalars().all(), now_ms())
    connection.execute(
        update(usage).where(usage.c.session_id == found.id).values(session_id=None, turn_id=None)
    )
    notes.drop_of(connection, found.id)
    messages = delete_messages_of(connection, found.id)
    keeps_row = _delete_turns(connection, found.id)
    connection.execute(update(session).where(session.c.parent_id == found.id).values(parent_id=None))
    own_row = session.c.id == found.id
    connection.execute(
        update(session).where(own_row).values(_EMPTY) if keeps_row else delete(session).where(own_row)
    )
    # Facts that other parts keep of a session bear its public id in their key.
    connection.execute(delete(kv).where(kv.c.key.endswith(public_id, autoescape=True)))
    if found.prompt_hash is not None:
        used = select(session.c.id).where(session.c.prompt_hash == system_prompt.c.hash)
        connection.execute(
            delete(system_prompt).where(system_prompt.c.hash == found.prompt_hash, ~used.exists())
        )
    return Deleted(1, messages)


def delete_session_before(
    connection: Connection, streams: Sequence[int], public_id: str, before_ms: int
) -> Deleted:
    """`delete_session`, unless a message has come since or a turn runs in it."""
    running = select(turn.c.id).where(turn.c.session_id == session.c.id, turn.c.state == "running")
    silent = select(session.c.id).where(
        session.c.public_id == public_id, session.c.last_ms < before_ms, ~running.exists()
    )
    if connection.execute(silent).first() is None:
        return Deleted(0, 0)
    return delete_session(connection, streams, public_id)


def forget_words_before(connection: Connection, before_ms: int) -> None:
    """Empties what is done with and older in the inbox and the outbox: replies to commands, notices, and
    messages that nobody answered. The rows stay a while, so that nothing is taken or sent a second time."""
    over = (text(INBOX_OVER), inbox.c.done_ms < before_ms)
    aside = (inbox.c.state.in_(("failed", "dead")), inbox.c.received_ms < before_ms)
    for came in (over, aside):
        connection.execute(update(inbox).where(*came, inbox.c.payload != "").values(payload=""))
    went = (text(OUTBOX_OVER), outbox.c.created_ms < before_ms)
    connection.execute(update(outbox).where(*went, outbox.c.payload != "").values(payload=""))


async def leave_no_trace(database: Database) -> None:
    """Rewrites the index and the file, so that their bytes hold nothing that was deleted. Slow."""
    await database.write(fulltext.forget_removed)
    await database.scrub()


def _delete_turns(connection: Connection, session_id: int) -> bool:
    """Removes the turns of a session, their steps, and what the inbox and the outbox hold for them.

    The newest turn of all keeps its empty row, which is true then: SQLite would give its id to the next one,
    and platforms drop what seems to be sent again under the same id.
    """
    turns = select(turn.c.id).where(turn.c.session_id == session_id)
    connection.execute(
        update(inbox)
        .where(inbox.c.turn_id.in_(turns), inbox.c.state.not_in(("done", "dead")))
        .values(state="done", reason="session deleted", done_ms=now_ms())
    )
    # The rows stay, so that a platform which sends a message again is not answered a second time.
    connection.execute(update(inbox).where(inbox.c.turn_id.in_(turns)).values(turn_id=None, payload=""))
    connection.execute(delete(outbox).where(outbox.c.turn_id.in_(turns)))
    connection.execute(delete(step).where(step.c.turn_id.in_(turns)))
    newest = connection.execute(select(func.max(turn.c.id))).scalar()
    connection.execute(delete(turn).where(turn.c.session_id == session_id, turn.c.id != newest))
    kept = update(turn).where(turn.c.session_id == session_id)
    return connection.execute(kept.values(state="done", reason="session deleted")).rowcount > 0
