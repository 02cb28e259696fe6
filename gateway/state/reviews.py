"""Queries for the background review: what of a session is due for it, and who reviews a person's now."""

from dataclasses import dataclass
from itertools import groupby

from sqlalchemy import Connection, func, select

from trunkline.agent.compaction import RESULT_CHARS, trim_results
from trunkline.agent.messages import Message, UserMessage
from trunkline.agent.scope import PersonId, Scope
from trunkline.agent.tokens import estimate_messages
from trunkline.gateway.state import notes, sessions, skill_reviews
from trunkline.gateway.state.journal import owner_of
from trunkline.gateway.state.kv import get_value, put_value, remove_value
from trunkline.gateway.state.messages import load_history, message_of, streams_of
from trunkline.gateway.state.records import Session
from trunkline.gateway.state.resuming import load_conversation
from trunkline.gateway.state.schema import account, memory_journal, message, outbox, person, session, turn

MAX_ENDED = 3
PUT_AWAY_TOKENS = 6_000
"""Of turns that were put away before a review saw them, it is shown so much, the newest: what is kept whole
leaves room for it in any window that the program is of use with."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a session is reviewed: the last turn covered, and the last turn at which a review was tried,
    which may be one of the session that followed."""

    reviewed: int = 0
    tried: int = 0


@dataclass(frozen=True, slots=True)
class Due:
    """A review that should run: of memory, of skills, or both. `history` ends with `turn`, and has what was
    put away and not yet reviewed in its place; `new` are the person's messages not yet reviewed.

    `session` is read now: its snapshot tells what of memory the conversation has been told.
    """

    session: Session
    mark: Mark
    turn: int
    history: tuple[Message, ...]
    new: tuple[UserMessage, ...]
    memory: bool = True
    skills: bool = False


@dataclass(frozen=True, slots=True)
class Stretch:
    """A session, by both its ids, and the turn up to which it is looked at."""

    session: int
    public_id: str
    turn: int


def ended_before(
    connection: Connection, session_id: int, turn_id: int, since_ms: int, again_after: int
) -> tuple[Stretch, ...]:
    """The conversations of the same chat that ended since then and have turns not reviewed, newest first, a
    few at most. One that was tried since it ended is left alone for so many turns of this session."""
    here = sessions.load(connection, session_id)

    def is_left(public_id: str, last_turn: int) -> bool:
        mark = load_mark(connection, public_id)
        if mark.reviewed >= last_turn:
            return False
        return (
            mark.tried <= last_turn
            or _count_turns(connection, session_id, mark.tried, turn_id) >= again_after
        )

    query = (
        select(session.c.id, session.c.public_id, func.max(turn.c.id).label("turn_id"))
        .join(turn, turn.c.session_id == session.c.id)
        .where(
            session.c.stream_id == here.stream,
            session.c.thread == here.key.thread,
            session.c.member == here.key.member,
            session.c.id != session_id,
            session.c.ended_ms >= since_ms,
            ~session.c.private,
            turn.c.state != "running",
        )
        .group_by(session.c.id, session.c.public_id)
        .order_by(func.max(turn.c.id).desc())
        .limit(MAX_ENDED)
    )
    return tuple(
        Stretch(row.id, row.public_id, row.turn_id)
        for row in connection.execute(query)
        if is_left(row.public_id, row.turn_id)
    )


def find_due(
    connection: Connection,
    scope: Scope,
    session_id: int,
    turn_id: int,
    every: int,
    rounds: int = 0,
    *,
    ended: bool = False,
) -> Due | None:
    """The session's review up to a turn that has ended, if `every` turns passed since the last one was tried
    and since the last memory write in the session, or `rounds` steps with tools since the last one of skills;
    0 is never. In a session that is over, turns count since the last review that came to its end. None for a
    private session, for one whose prompt has to be made anew (a fact in it was forgotten), and when nothing
    is new."""
    found = sessions.load(connection, session_id)
    if found.private or not found.prompt:
        return None
    mark = load_mark(connection, found.public_id)
    after = max(mark.reviewed if ended else mark.tried, _last_write(connection, scope, found.public_id))
    memory = every > 0 and _count_turns(connection, session_id, after, turn_id) >= every
    worked_since = skill_reviews.find_due(connection, session_id, found.public_id, turn_id, rounds)
    if not memory and worked_since is None:
        return None
    since = mark.reviewed if memory or worked_since is None else worked_since
    put_away = _put_away(connection, scope, session_id, (since, turn_id))
    new = _said_between(connection, session_id, since, turn_id)
    history = _history_until(connection, scope, session_id, turn_id, put_away)
    if not new or not history:
        return None
    said = tuple(one for one in put_away if isinstance(one, UserMessage))
    return Due(found, mark, turn_id, history, (*said, *new), memory, worked_since is not None)


def load_mark(connection: Connection, public_id: str) -> Mark:
    stored = get_value(connection, _mark_key(public_id))
    if stored is None:
        return Mark()
    reviewed, tried = stored.split()
    return Mark(int(reviewed), int(tried))


def put_mark(connection: Connection, public_id: str, mark: Mark) -> None:
    put_value(connection, _mark_key(public_id), f"{mark.reviewed} {mark.tried}")


def claim(connection: Connection, scope: Scope, process: str, now_ms: int, until_ms: int) -> bool:
    """Whether the process may review this person or room until then; false while another one does."""
    stored = get_value(connection, _claim_key(scope))
    if stored is not None:
        until, _, holder = stored.partition(" ")
        if holder != process and int(until) > now_ms:
            return False
    put_value(connection, _claim_key(scope), f"{until_ms} {process}")
    return True


def release(connection: Connection, scope: Scope, process: str) -> None:
    """Gives back what this process claimed."""
    stored = get_value(connection, _claim_key(scope))
    if stored is not None and stored.partition(" ")[2] == process:
        remove_value(connection, _claim_key(scope))


def authors_between(connection: Connection, session_id: int, after: int, until: int) -> tuple[PersonId, ...]:
    """Who wrote in the session after one turn and up to another."""
    query = (
        select(person.c.slug)
        .join(account, account.c.person_id == person.c.id)
        .join(message, message.c.account_id == account.c.id)
        .where(message.c.session_id == session_id, message.c.turn_id > after, message.c.turn_id <= until)
        .distinct()
    )
    return tuple(PersonId(slug) for slug in connection.execute(query).scalars())


def is_going_out(connection: Connection, turn_id: int) -> bool:
    """Whether some of a turn's answer still waits to be sent."""
    query = select(outbox.c.id).where(outbox.c.turn_id == turn_id, outbox.c.state.in_(("planned", "sending")))
    return connection.execute(query.limit(1)).first() is not None


# Sessions go by their public id here: a row's id may be given to another session after a deletion.


def _mark_key(public_id: str) -> str:
    return f"review.mark.{public_id}"


def _claim_key(scope: Scope) -> str:
    return f"review.claim.{owner_of(scope)}"


def _last_write(connection: Connection, scope: Scope, public_id: str) -> int:
    """The last turn of the session in which the model itself changed memory; 0 when there is none."""
    query = select(func.max(memory_journal.c.turn_id)).where(
        memory_journal.c.owner == owner_of(scope),
        memory_journal.c.session == public_id,
        memory_journal.c.actor == "tool",
        memory_journal.c.state.in_(("done", "undone")),
    )
    return connection.execute(query).scalar() or 0


def _count_turns(connection: Connection, session_id: int, after: int, until: int) -> int:
    query = select(func.count()).where(
        turn.c.session_id == session_id, turn.c.id > after, turn.c.id <= until, turn.c.state != "running"
    )
    return int(connection.execute(query).scalar_one())


def _said_between(connection: Connection, session_id: int, after: int, until: int) -> tuple[UserMessage, ...]:
    rows = connection.execute(
        select(message.c.content, message.c.sent)
        .where(
            message.c.session_id == session_id,
            message.c.role == "user",
            message.c.state == "live",
            message.c.turn_id > after,
            message.c.turn_id <= until,
        )
        .order_by(message.c.seq)
    )
    return tuple(UserMessage(row.content, row.content if row.sent is None else row.sent) for row in rows)


def _put_away(
    connection: Connection, scope: Scope, session_id: int, between: tuple[int, int]
) -> tuple[Message, ...]:
    """What was said after one turn and up to another and is no longer in the history: the newest turns of it.

    What must not be told of any more is not told here either.
    """
    note = notes.latest(connection, session_id)
    if note is None:
        return ()
    rows = connection.execute(
        select(message)
        .join(session, session.c.id == message.c.session_id)
        .where(
            message.c.session_id == session_id,
            message.c.state == "compacted",
            message.c.turn_id > between[0],
            message.c.turn_id <= between[1],
            message.c.id.not_in(note.left_out),
            session.c.stream_id.in_(streams_of(connection, scope)),
        )
        .order_by(message.c.seq)
    ).all()
    turns = [list(group) for _, group in groupby(rows, key=lambda row: row.turn_id)]
    kept: list[Message] = []
    for group in reversed(turns):
        together = [*trim_results([message_of(row) for row in group], RESULT_CHARS), *kept]
        if estimate_messages(together) > PUT_AWAY_TOKENS:
            break
        kept = together
    return tuple(kept)


def _history_until(
    connection: Connection, scope: Scope, session_id: int, turn_id: int, put_away: tuple[Message, ...]
) -> tuple[Message, ...]:
    """The live messages up to the end of a turn, without those of a turn that has begun since, and `put_away`
    between them and what stands for what was before them."""
    last = select(func.max(message.c.seq)).where(
        message.c.session_id == session_id, message.c.turn_id == turn_id
    )
    later = connection.execute(
        select(func.count()).where(
            message.c.session_id == session_id,
            message.c.state == "live",
            message.c.seq > last.scalar_subquery(),
        )
    ).scalar_one()
    history = load_conversation(connection, scope, sessions.load(connection, session_id))
    at = len(history) - len(load_history(connection, scope, session_id)) if put_away else 0
    return (*history[:at], *put_away, *history[at : len(history) - later])
