"""Queries on making a conversation shorter: what there is to put away, doing it, and how often that was.

What is put away stays in the transcript and in searches; only the model is no longer shown it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update

from trunkline.agent.compaction import RESULT_CHARS, record_line
from trunkline.agent.messages import AssistantMessage, Message, ToolMessage
from trunkline.agent.scope import Scope
from trunkline.agent.tokens import estimate_message, estimate_messages, estimate_text
from trunkline.gateway.state import forgetting, notes, resuming, sessions
from trunkline.gateway.state.messages import message_of, set_message_state, streams_of
from trunkline.gateway.state.notes import FAILED, IN_USE, REPLACED, SPOILT, StoredNote
from trunkline.gateway.state.records import Session
from trunkline.gateway.state.schema import account, compaction, message, person, session, turn, usage
from trunkline.gateway.state.transcripts import author_of, when

ATTEMPTS = 8
"""So many of the last attempts tell how it fares with a session."""
LEAST_TURNS = 3
"""Between two attempts of its own accord; twice as many for each in a row that brought nothing."""
MOST_DOUBLINGS = 6
HELPED = 0.85
"""An attempt helped that left less than this share of the tokens."""
URGENT_TRIES = 3
"""Fruitless attempts in a row after which an endpoint's refusal is no reason for another at once."""
CHUNK = 500


@dataclass(frozen=True, slots=True)
class OldTurn:
    """One turn as the model is shown it: its messages' rows, its cost, and its text for the record.

    What a session has from one before it stands as one such turn without rows.
    """

    ids: tuple[int, ...]
    last_seq: int
    tokens: int
    text: str


@dataclass(frozen=True, slots=True)
class Past:
    """All of a conversation but the turn that runs. `forgotten` counts what was forgotten in its scope;
    tokens are those of `model`."""

    session: Session
    note: StoredNote | None
    turns: tuple[OldTurn, ...]
    forgotten: int
    newest_turn: int
    model: str

    @property
    def tokens(self) -> int:
        note = 0 if self.note is None else estimate_text(self.note.text, self.model)
        return note + sum(one.tokens for one in self.turns)


def load_past(connection: Connection, scope: Scope, session_id: int, model: str = "") -> Past | None:
    """None when the session has ended or is out of scope."""
    found = _open(connection, scope, session_id)
    if found is None:
        return None
    note = notes.latest(connection, session_id)
    inherited: list[OldTurn] = []
    if note is None:
        messages = resuming.load_inherited(connection, scope, found)
        if messages:
            text = "\n\n".join(map(_message_line, messages))
            inherited.append(OldTurn((), 0, estimate_messages(messages, model), text))
    rows = _rows(connection, session_id, ("live",))
    own = [_old_turn(group, model) for group in _by_turn(rows)]
    return Past(
        found,
        note,
        (*inherited, *own),
        forgetting.times(connection, scope),
        _newest_turn(connection, session_id),
        model,
    )


def put_away(
    connection: Connection,
    scope: Scope,
    past: Past,
    count: int,
    note: str,
    *,
    by_hand: bool,
    tokens: tuple[int, int],
    stamp_ms: int,
) -> bool:
    """Lets the note stand for the oldest `count` turns; false, and nothing done, when any of it has changed.

    `tokens` are those before and after. The session's next turn makes its prompt anew.
    """
    now = load_past(connection, scope, past.session.id, past.model)
    if now is None or now.forgotten != past.forgotten or now.note != past.note:
        return False
    if now.turns[:count] != past.turns[:count]:
        return False
    ids = [one for old in past.turns[:count] for one in old.ids]
    for start in range(0, len(ids), CHUNK):
        set_message_state(connection, scope, ids[start : start + CHUNK], "compacted")
    last_seq = max(
        [0 if past.note is None else past.note.last_seq, *(old.last_seq for old in past.turns[:count])]
    )
    left_out = () if past.note is None else past.note.left_out
    _replace(connection, past, note, last_seq, left_out, by_hand=by_hand, tokens=tokens, stamp_ms=stamp_ms)
    return True


def load_spoilt(connection: Connection, scope: Scope, session_id: int, model: str = "") -> Past | None:
    """What a spoilt note is made from again: the turns it told of that may still be told of."""
    past = load_past(connection, scope, session_id, model)
    if past is None or past.note is None or not past.note.is_spoilt:
        return None
    rows = [
        row
        for row in _rows(connection, session_id, ("compacted",))
        if row.seq <= past.note.last_seq and row.id not in past.note.left_out
    ]
    messages = resuming.load_inherited(connection, scope, past.session)
    told = [] if not messages else [OldTurn((), 0, 0, "\n\n".join(map(_message_line, messages)))]
    told += [_old_turn(group, model) for group in _by_turn(rows)]
    return replace(past, turns=tuple(told))


def make_whole(connection: Connection, scope: Scope, past: Past, note: str, stamp_ms: int) -> bool:
    """Gives a session a note in place of its spoilt one; false when any of it has changed meanwhile."""
    now = load_spoilt(connection, scope, past.session.id, past.model)
    if now is None or now.note is None or now.turns != past.turns or now.forgotten != past.forgotten:
        return False
    tokens = (0, estimate_text(note, past.model))
    _replace(
        connection,
        past,
        note,
        now.note.last_seq,
        now.note.left_out,
        by_hand=True,
        tokens=tokens,
        stamp_ms=stamp_ms,
    )
    return True


def note_failure(connection: Connection, past: Past, *, by_hand: bool, stamp_ms: int) -> bool:
    """Counts an attempt without a note; whether it is the first since one that brought something."""
    if connection.execute(select(session.c.id).where(session.c.id == past.session.id)).first() is None:
        return False
    tries = select(compaction.c.state).where(compaction.c.session_id == past.session.id)
    last = connection.execute(tries.order_by(compaction.c.id.desc()).limit(1)).scalar()
    connection.execute(
        insert(compaction).values(
            session_id=past.session.id,
            state=FAILED,
            turn_id=past.newest_turn,
            by_hand=by_hand,
            before_tokens=past.tokens,
            after_tokens=past.tokens,
            created_ms=stamp_ms,
        )
    )
    return bool(last != FAILED)


def may_try(connection: Connection, session_id: int, *, urgent: bool) -> bool:
    """Whether an attempt of its own accord is due, by how the last ones went.

    An `urgent` one, after an endpoint refused what it was sent, needn't wait until several brought nothing.
    """
    rows = connection.execute(
        select(compaction)
        .where(compaction.c.session_id == session_id, ~compaction.c.by_hand)
        .order_by(compaction.c.id.desc())
        .limit(ATTEMPTS)
    ).all()
    if not rows:
        return True
    fruitless = 0
    for row in rows:
        if row.state != FAILED and row.after_tokens < HELPED * row.before_tokens:
            break
        fruitless += 1
    if urgent and fruitless < URGENT_TRIES:
        return True
    since: int = connection.execute(
        select(func.count()).where(turn.c.session_id == session_id, turn.c.id > rows[0].turn_id)
    ).scalar_one()
    wanted: int = LEAST_TURNS * 2 ** min(fruitless, MOST_DOUBLINGS)
    return since >= wanted


def used_tokens(connection: Connection, session_id: int, model: str) -> int | None:
    """What the context came to at the session's last call, as the provider counted it.

    None where nobody has counted since the session was last made shorter, or by another model.
    """
    row = connection.execute(
        select(usage.c.model, usage.c.prompt_tokens, usage.c.completion_tokens, usage.c.created_ms)
        .where(usage.c.session_id == session_id, usage.c.purpose == "turn")
        .order_by(usage.c.id.desc())
        .limit(1)
    ).first()
    if row is None or not row.prompt_tokens or row.model != model:
        return None
    made = connection.execute(
        select(func.max(compaction.c.created_ms)).where(
            compaction.c.session_id == session_id, compaction.c.state != FAILED
        )
    ).scalar()
    if made is not None and row.created_ms <= made:
        return None
    return int(row.prompt_tokens + row.completion_tokens)


def _replace(
    connection: Connection,
    past: Past,
    note: str,
    last_seq: int,
    left_out: Sequence[int],
    *,
    by_hand: bool,
    tokens: tuple[int, int],
    stamp_ms: int,
) -> None:
    older = (compaction.c.session_id == past.session.id, compaction.c.state.in_((IN_USE, SPOILT)))
    connection.execute(update(compaction).where(*older).values(state=REPLACED, note="", left_out=""))
    connection.execute(
        insert(compaction).values(
            session_id=past.session.id,
            state=IN_USE,
            note=note,
            last_seq=last_seq,
            left_out=json.dumps(list(left_out)) if left_out else "",
            turn_id=past.newest_turn,
            by_hand=by_hand,
            before_tokens=tokens[0],
            after_tokens=tokens[1],
            created_ms=stamp_ms,
        )
    )
    connection.execute(update(session).where(session.c.id == past.session.id).values(prompt_hash=None))


def _open(connection: Connection, scope: Scope, session_id: int) -> Session | None:
    found = connection.execute(
        select(session.c.id).where(
            session.c.id == session_id,
            session.c.ended_ms.is_(None),
            session.c.stream_id.in_(streams_of(connection, scope)),
        )
    ).first()
    return None if found is None else sessions.load(connection, session_id)


def _newest_turn(connection: Connection, session_id: int) -> int:
    query = select(func.max(turn.c.id)).where(turn.c.session_id == session_id)
    return int(connection.execute(query).scalar() or 0)


def _rows(connection: Connection, session_id: int, states: Sequence[str]) -> Sequence[Row[Any]]:
    """The messages before the turn that runs, in order."""
    running = select(func.min(message.c.seq)).where(
        message.c.session_id == session_id,
        message.c.turn_id.in_(
            select(turn.c.id).where(turn.c.session_id == session_id, turn.c.state == "running")
        ),
    )
    begins = connection.execute(running).scalar()
    query = (
        select(message, account.c.label, person.c.name)
        .outerjoin(account, account.c.id == message.c.account_id)
        .outerjoin(person, person.c.id == account.c.person_id)
        .where(message.c.session_id == session_id, message.c.state.in_(states))
        .order_by(message.c.seq)
    )
    if begins is not None:
        query = query.where(message.c.seq < begins)
    return connection.execute(query).all()


def _by_turn(rows: Sequence[Row[Any]]) -> list[list[Row[Any]]]:
    """Messages without a turn, which came from elsewhere, are parted at each of a person's."""
    keys: list[tuple[int, int]] = []
    asked = 0
    for row in rows:
        asked += row.turn_id is None and row.role == "user"
        keys.append((row.turn_id or 0, asked))
    paired = groupby(zip(keys, rows, strict=True), key=lambda pair: pair[0])
    return [[row for _, row in group] for _, group in paired]


def _old_turn(rows: Sequence[Row[Any]], model: str) -> OldTurn:
    lines = "\n\n".join(filter(None, map(_row_line, rows)))
    tokens = sum(estimate_message(message_of(row), model) for row in rows)
    return OldTurn(tuple(row.id for row in rows), rows[-1].seq, tokens, lines)


def _row_line(row: Row[Any]) -> str:
    if not row.content:
        return ""
    moment = f"{when(row.created_ms):%Y-%m-%d %H:%M}"
    if row.role == "tool":
        return record_line(
            f"what {row.tool_name or 'a tool'} returned", row.content, moment, most_chars=RESULT_CHARS
        )
    who = author_of(row) if row.role == "user" else "assistant"
    return record_line(who, row.content, moment)


def _message_line(one: Message) -> str:
    match one:
        case AssistantMessage(text=text):
            return record_line("assistant", text)
        case ToolMessage(name=name, content=content):
            return record_line(f"what {name} returned", content, most_chars=RESULT_CHARS)
        case _:
            return record_line("user", one.text or one.sent)
