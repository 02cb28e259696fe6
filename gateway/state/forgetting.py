"""Removes a forgotten fact from state.db: every copy that the machinery made, and on demand what was said.

A copy is found by its letters and digits alone, so that a change of quotes, spaces or markup does not hide
it. Taking the fact out of the memory files is the store's work.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError
from sqlalchemy import ColumnElement, Connection, Row, and_, delete, exists, or_, select, update

from trunkline.adapters.base import Chunk
from trunkline.agent.memory.entries import normalise, squeeze
from trunkline.agent.memory.snapshot import MemorySnapshot
from trunkline.agent.scope import PersonScope, RoomScope, Scope
from trunkline.agent.stream_text import FENCE_CLOSE, FENCE_OPEN
from trunkline.gateway.payloads import (
    BadPayload,
    dump_inbound,
    dump_outbound,
    load_inbound,
    load_outbound,
    words_in,
)
from trunkline.gateway.state import fulltext, kv, notes, people
from trunkline.gateway.state.journal import owner_of
from trunkline.gateway.state.messages import rewrite_message, set_message_state
from trunkline.gateway.state.outbox import is_private_answer_to
from trunkline.gateway.state.schema import (
    account,
    compaction,
    inbox,
    memory_journal,
    message,
    outbox,
    person,
    room,
    session,
    stream,
    system_prompt,
)

FORGOTTEN = "[forgotten]"
FORGOTTEN_TIMES = "memory.forgotten."
HEAD_CHARS = 24
"""So many letters and digits of a fact are enough to know a copy that was cut."""
MIN_PIECE_CHARS = 4
MIN_SAID_CHARS = 10
"""A fact shorter than this, in ASCII, may stand in a sentence by chance."""
BATCH = 500


@dataclass(frozen=True, slots=True)
class Fact:
    """What is to be forgotten: an entry of a memory store in every wording that it had."""

    wordings: tuple[str, ...]

    def stands_in(self, text: str) -> bool:
        """Whether the text holds the fact, or the beginning of it."""
        squeezed = squeeze(text)
        return any(head and head in squeezed for head in (squeeze(one)[:HEAD_CHARS] for one in self.wordings))

    def is_said_in(self, text: str) -> bool:
        """Whether a person's or the assistant's words repeat the fact."""
        squeezed = squeeze(text)
        wanted = (squeeze(one) for one in self.wordings)
        return any(len(one) >= _least_chars(one) and one in squeezed for one in wanted)

    def holds(self, piece: str) -> bool:
        """Whether the text is a piece of the fact, such as the few words by which a change named it."""
        squeezed = squeeze(piece)
        return len(squeezed) >= MIN_PIECE_CHARS and any(squeezed in squeeze(one) for one in self.wordings)

    def without(self, entries: Iterable[str]) -> list[str]:
        gone = {normalise(one) for one in self.wordings}
        return [entry for entry in entries if normalise(entry) not in gone]


def times(connection: Connection, scope: Scope) -> int:
    """How often something of this scope's memory was forgotten: a reader before and after can tell."""
    return int(kv.get_value(connection, f"{FORGOTTEN_TIMES}{owner_of(scope)}") or 0)


def count(connection: Connection, scope: Scope) -> None:
    """Notes that something is being forgotten, in the transaction that erases its copies."""
    key = f"{FORGOTTEN_TIMES}{owner_of(scope)}"
    kv.put_value(connection, key, str(times(connection, scope) + 1))


def _least_chars(squeezed: str) -> int:
    return MIN_SAID_CHARS if squeezed.isascii() else MIN_PIECE_CHARS


def lines_of(
    connection: Connection, scope: PersonScope, fact: Fact, sources: Iterable[int]
) -> tuple[int, ...]:
    """The messages of a person's own chats that a fact came from (`sources` are turns), or that repeat it."""
    turns = set(sources)
    query = select(message.c.id, message.c.turn_id, message.c.content).where(
        message.c.session_id.in_(_own_sessions(scope)), message.c.state != "redacted"
    )
    return tuple(
        row.id
        for row in connection.execute(query.order_by(message.c.id).execution_options(yield_per=BATCH))
        if row.turn_id in turns or fact.is_said_in(row.content)
    )


def redact_lines(connection: Connection, scope: PersonScope, lines: Sequence[int]) -> int:
    """Takes messages out of the transcript and the index; returns how many there were."""
    redacted = set_message_state(connection, scope, lines, "redacted")
    if redacted:
        fulltext.forget_removed(connection)
    return redacted


def erase_copies(connection: Connection, scope: Scope, fact: Fact) -> None:
    """Every copy of the fact but what people and the assistant said."""
    _erase_from_journal(connection, scope, fact)
    _erase_from_prompts(connection, scope, fact)
    _erase_from_notes(connection, scope, fact)
    _erase_from_messages(connection, scope, fact)
    if isinstance(scope, PersonScope):
        _erase_from_set_aside(connection, scope, fact)
        _erase_from_outbox(connection, scope, fact)


def blank_command(connection: Connection, inbox_row: int) -> None:
    """Takes the words out of a stored command that is being carried out; run again, it names nothing."""
    payload = connection.execute(select(inbox.c.payload).where(inbox.c.id == inbox_row)).scalar()
    if payload:
        blank = dump_inbound(replace(load_inbound(payload), text=""))
        connection.execute(update(inbox).where(inbox.c.id == inbox_row).values(payload=blank))


def _own_streams(scope: Scope) -> Any:
    """The person's direct chats, and no room; or the one room."""
    if isinstance(scope, RoomScope):
        return select(stream.c.id).where(
            stream.c.room_id.in_(select(room.c.id).where(room.c.slug == scope.room))
        )
    return select(stream.c.id).where(
        stream.c.account_id.in_(
            select(account.c.id)
            .join(person, person.c.id == account.c.person_id)
            .where(person.c.slug == scope.person)
        )
    )


def _own_sessions(scope: Scope) -> Any:
    return select(session.c.id).where(session.c.stream_id.in_(_own_streams(scope)))


def _may_hold_copies(connection: Connection, scope: Scope) -> ColumnElement[bool]:
    """The sessions that were told of a memory: the owner's, and those of accounts once theirs."""
    own = session.c.stream_id.in_(_own_streams(scope))
    if isinstance(scope, RoomScope):
        return own
    left = people.accounts_left(connection, scope.person)
    then = [
        and_(
            session.c.stream_id.in_(select(stream.c.id).where(stream.c.account_id == account_id)),
            session.c.id <= last,
        )
        for account_id, last in left
    ]
    return or_(own, *then)


def _erase_from_journal(connection: Connection, scope: Scope, fact: Fact) -> None:
    rows = connection.execute(select(memory_journal).where(memory_journal.c.owner == owner_of(scope))).all()
    for row in rows:
        if row.operations and fact.stands_in(" ".join(_strings(json.loads(row.operations)))):
            connection.execute(delete(memory_journal).where(memory_journal.c.id == row.id))
        else:
            _erase_from_record(connection, row, fact)


def _erase_from_record(connection: Connection, row: Row[Any], fact: Fact) -> None:
    before, after = json.loads(row.before or "[]"), json.loads(row.after or "[]")
    kept_before, kept_after = fact.without(before), fact.without(after)
    if (kept_before, kept_after) == (before, after):
        return
    where = memory_journal.c.id == row.id
    if kept_before == kept_after:  # the record was of nothing else
        connection.execute(delete(memory_journal).where(where))
    else:
        values = {"before": json.dumps(kept_before), "after": json.dumps(kept_after)}
        connection.execute(update(memory_journal).where(where).values(values))


def _erase_from_prompts(connection: Connection, scope: Scope, fact: Fact) -> None:
    """A prompt that holds the fact ends; the session's next turn makes a new one."""
    rows = connection.execute(
        select(session.c.id, session.c.title, session.c.snapshot, system_prompt.c.content)
        .outerjoin(system_prompt, system_prompt.c.hash == session.c.prompt_hash)
        .where(_may_hold_copies(connection, scope))
    ).all()
    for row in rows:
        values: dict[str, object] = {}
        if row.content is not None and fact.stands_in(row.content):
            values["prompt_hash"] = None
        if fact.stands_in(row.title):
            values["title"] = ""
        if fact.stands_in(row.snapshot):
            values["snapshot"] = _snapshot_without(row.snapshot, fact)
        if values:
            connection.execute(update(session).where(session.c.id == row.id).values(values))
    # Prompts that no session uses any more, whoever's they were, may hold it as well.
    unused = ~exists().where(session.c.prompt_hash == system_prompt.c.hash)
    connection.execute(delete(system_prompt).where(unused))


def _erase_from_notes(connection: Connection, scope: Scope, fact: Fact) -> None:
    """Spoils the notes on long conversations that tell of the fact, or of messages that repeat it.

    When they are made again they tell of those messages no more.
    """
    noted = select(compaction.c.session_id).where(compaction.c.state == notes.IN_USE)
    held = select(session.c.id).where(_may_hold_copies(connection, scope), session.c.id.in_(noted))
    for session_id in connection.execute(held).scalars().all():
        note = notes.latest(connection, session_id)
        put_away = select(message.c.id, message.c.content).where(
            message.c.session_id == session_id, message.c.state == "compacted"
        )
        repeat = [row.id for row in connection.execute(put_away) if fact.is_said_in(row.content)]
        if note is not None and (repeat or fact.stands_in(note.text)):
            notes.spoil(connection, note.id, repeat)


def _snapshot_without(stored: str, fact: Fact) -> str:
    try:
        snapshot = MemorySnapshot.from_json(stored)
    except ValidationError:
        return ""
    memory, user = fact.without(snapshot.memory), fact.without(snapshot.user)
    return replace(snapshot, memory=tuple(memory), user=tuple(user)).to_json()


def _erase_from_messages(connection: Connection, scope: Scope, fact: Fact) -> None:
    """The exact bytes that told the model of it, and its own calls of the memory tool."""
    rows = connection.execute(
        select(message)
        .where(
            message.c.session_id.in_(select(session.c.id).where(_may_hold_copies(connection, scope))),
            message.c.sent.contains(FENCE_OPEN)
            | message.c.tool_calls.contains('"memory"')
            | (message.c.tool_name == "memory"),
        )
        .order_by(message.c.id)
    ).all()
    for row in rows:
        values: dict[str, str] = {}
        if row.sent is not None and (sent := _without_recalled(row.sent, fact)) != row.sent:
            values["sent"] = sent
        if row.tool_calls is not None and (calls := _calls_without(row.tool_calls, fact)) != row.tool_calls:
            values["tool_calls"] = calls
        if row.tool_name == "memory" and (said := _json_without(row.content, fact)) != row.content:
            values["content"] = said
        if values:
            rewrite_message(connection, row, values)


def _without_recalled(sent: str, fact: Fact) -> str:
    """The text with the recalled block emptied where it told of the fact; the person's words stay."""
    pattern = re.compile(f"({re.escape(FENCE_OPEN)}\n)(.*?)(\n{re.escape(FENCE_CLOSE)})", re.DOTALL)

    def emptied(match: re.Match[str]) -> str:
        return f"{match[1]}{FORGOTTEN}{match[3]}" if fact.stands_in(match[2]) else match[0]

    return pattern.sub(emptied, sent)


def _calls_without(stored: str, fact: Fact) -> str:
    calls = json.loads(stored)
    for call in calls:
        if call["name"] == "memory":
            call["arguments"] = _json_without(call["arguments"], fact)
    return json.dumps(calls)


def _json_without(text: str, fact: Fact) -> str:
    """A JSON text whose strings hold the fact no more; a text that is no JSON is emptied whole."""
    try:
        found = json.loads(text)
    except ValueError:
        return "{}" if fact.stands_in(text) else text
    changed = _blanked(found, fact)
    return text if changed == found else json.dumps(changed, ensure_ascii=False)


def _blanked(value: Any, fact: Fact) -> Any:
    if isinstance(value, str):
        return FORGOTTEN if fact.stands_in(value) or _is_piece(value, fact) else value
    if isinstance(value, list):
        return [_blanked(one, fact) for one in value]
    if isinstance(value, dict):
        # The names of actions and targets are never words of a fact.
        return {
            key: one if key in ("action", "target", "success") else _blanked(one, fact)
            for key, one in value.items()
        }
    return value


def _is_piece(value: str, fact: Fact) -> bool:
    quoted = re.findall(r"'([^']+)'", value)
    return fact.holds(value) or any(fact.holds(one) for one in quoted)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _strings(one)


def _erase_from_set_aside(connection: Connection, scope: PersonScope, fact: Fact) -> None:
    """Messages that nobody answered, which stand in no transcript, lose their words when they repeat it."""
    asked = select(account.c.id).join(person, person.c.id == account.c.person_id)
    rows = connection.execute(
        select(inbox.c.id, inbox.c.payload).where(
            inbox.c.account_id.in_(asked.where(person.c.slug == scope.person)),
            inbox.c.state.in_(("done", "failed", "dead")),
            inbox.c.payload != "",
        )
    ).all()
    those = [row.id for row in rows if fact.is_said_in(words_in(row.payload))]
    connection.execute(update(inbox).where(inbox.c.id.in_(those)).values(payload=""))


def _erase_from_outbox(connection: Connection, scope: PersonScope, fact: Fact) -> None:
    """What was sent is on the platform and of no more use here; what is not sent yet loses the fact."""
    chats = (
        select(inbox.c.platform, inbox.c.chat)
        .join(account, account.c.id == inbox.c.account_id)
        .join(person, person.c.id == account.c.person_id)
        .where(person.c.slug == scope.person)
        .union(select(session.c.platform, session.c.chat).where(_may_hold_copies(connection, scope)))
        .subquery()
    )
    is_room = exists().where(and_(room.c.platform == outbox.c.platform, room.c.chat == outbox.c.chat))
    there = exists().where(and_(chats.c.platform == outbox.c.platform, chats.c.chat == outbox.c.chat))
    asked = select(account.c.id).join(person, person.c.id == account.c.person_id)
    private = is_private_answer_to(asked.where(person.c.slug == scope.person))
    theirs = or_(and_(there, ~is_room), private)
    connection.execute(update(outbox).where(theirs, outbox.c.state == "sent").values(payload=""))
    waiting = select(outbox.c.id, outbox.c.payload).where(theirs, outbox.c.payload != "")
    for row in connection.execute(waiting).all():
        payload = _payload_without(row.payload, fact)
        connection.execute(update(outbox).where(outbox.c.id == row.id).values(payload=payload))


def _payload_without(payload: str, fact: Fact) -> str:
    """A planned message that says it no more; nothing of one that can't be read and may say it."""
    try:
        planned = load_outbound(payload)
    except BadPayload:
        return "" if fact.stands_in(payload) else payload
    if not fact.stands_in(planned.chunk.text):
        return payload
    return dump_outbound(replace(planned, chunk=Chunk(FORGOTTEN)))
