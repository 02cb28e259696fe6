"""What stands between the model and a person's memory: their pause, private conversations, and their yes.

What a person writes themselves (commands, import, undo) passes; the stores behind decide about the rest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from trunkline.adapters.base import Button, ChatRef, Chunk, OutboundMessage
from trunkline.agent.memory import outcomes
from trunkline.agent.memory.entries import MemoryLimits, preview
from trunkline.agent.memory.files import FILE_NAMES
from trunkline.agent.memory.operations import Operation, apply_operations, check_operations
from trunkline.agent.memory.outcomes import Failed, FailureKind, Held, Outcome, Unchanged
from trunkline.agent.memory.snapshot import MemorySnapshot
from trunkline.agent.memory.store import MemoryStore, with_entries
from trunkline.agent.ports import Target, WriteOrigin
from trunkline.agent.scope import PersonId, RoomScope, Scope
from trunkline.gateway.clock import now_ms
from trunkline.gateway.payloads import dump_outbound
from trunkline.gateway.sentences import say
from trunkline.gateway.sentences_memory import as_written
from trunkline.gateway.state import held, kv, outbox, people, sessions
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.records import Person, SessionKey

KEEP, DROP = "keep", "drop"
"""The actions of the buttons under a write that waits; their value is its mark."""
MAX_HELD = 50
"""Writes that may wait for one person or room at a time; beyond them the model is told to wait too."""
SHOWN_CHARS = 160

PAUSED = (
    "The person has paused memory, so nothing is saved now. Don't try again in this conversation; if they "
    "ask you to remember something, tell them that `/memory resume` switches it on again."
)
PRIVATE = (
    "This conversation is private, so nothing of it is saved. If the person asks you to remember something, "
    "tell them that `/memory add` saves what they write there."
)
FORGOTTEN = (
    "The person has just had something forgotten, so nothing of this conversation is saved by a review."
)
WAITS = (
    "The change was sent to the person and waits for their yes; it is not saved yet, and they were told how "
    "to approve it. Don't repeat it; go on with your answer."
)
TOO_MANY_WAIT = "Too many changes wait for the person's yes already. Propose no more until they decided."
NOBODY_DECIDES = (
    "Changes need the yes of the person who spoke, and this account belongs to nobody known. Nothing was "
    "saved."
)

Render = Callable[[str, str], tuple[Chunk, ...]]
"""A platform and a Markdown text to the platform's chunks."""


def as_it_is(_: str, text: str) -> tuple[Chunk, ...]:
    """For where no platform is connected."""
    return (Chunk(text),)


@dataclass(frozen=True, slots=True)
class _Asker:
    """Who a write would come from, and what stands against it."""

    person: Person | None
    refusal: str | None


class GuardedMemory:
    """A MemoryStore for the model's tools. With `approval` each write waits for the person, who is told."""

    def __init__(
        self, store: MemoryStore, database: Database, *, approval: bool, render: Render = as_it_is
    ) -> None:
        self._store = store
        self._database = database
        self._approval = approval
        self._render = render

    @property
    def limits(self) -> MemoryLimits:
        return self._store.limits

    async def read(self, scope: Scope) -> MemorySnapshot:
        return await self._store.read(scope)

    async def erase_backups(self, scope: Scope) -> None:
        await self._store.erase_backups(scope)

    async def erase_folder(self, scope: Scope) -> None:
        await self._store.erase_folder(scope)

    async def apply(
        self, scope: Scope, target: Target, operations: Sequence[Operation], origin: WriteOrigin
    ) -> Outcome:
        if origin.actor not in ("tool", "review"):
            return await self._store.apply(scope, target, operations, origin)
        asker = await self._database.read(lambda c: _asker(c, scope, origin))
        if asker.refusal is not None:
            return Failed(target, FailureKind.NOT_HERE, asker.refusal)
        if not self._approval:
            return await self._store.apply(scope, target, operations, origin)
        return await self._hold(scope, target, operations, origin, asker.person)

    async def _hold(
        self,
        scope: Scope,
        target: Target,
        operations: Sequence[Operation],
        origin: WriteOrigin,
        person: Person | None,
    ) -> Outcome:
        """Checks the write as if it were done now, so that the model can mend it, then keeps it."""
        known = await self._store.read(scope)
        entries = known.entries_of(target)
        checked = check_operations(scope, target, operations, self.limits)
        if isinstance(checked, Failed):
            return with_entries(checked, known) if checked.kind is FailureKind.INVALID else checked
        if person is None:
            return Failed(target, FailureKind.NOT_HERE, NOBODY_DECIDES)
        if target in known.unreadable:
            unreadable = outcomes.unreadable(FILE_NAMES[target], "the log says why")
            return Failed(target, FailureKind.UNREADABLE, unreadable)
        new = apply_operations(entries, target, checked, self.limits.chars_of(target))
        if isinstance(new, Failed):
            return new
        if new.entries == entries:
            return Unchanged(target, new.message, entries)
        kept = await self._database.write(lambda c: self._keep(c, scope, target, checked, origin, person))
        if not kept:
            return Failed(target, FailureKind.INVALID, TOO_MANY_WAIT)
        return Held(target, WAITS, entries)

    def _keep(
        self,
        connection: Connection,
        scope: Scope,
        target: Target,
        operations: Sequence[Operation],
        origin: WriteOrigin,
        person: Person,
    ) -> bool:
        if held.count_of(connection, scope) >= MAX_HELD:
            return False
        stamp_ms = now_ms()
        kept = held.hold(connection, person.slug, scope, target, operations, origin, stamp_ms)
        place = _place_for(connection, scope, origin, person)
        if origin.actor == "tool" and place is not None:  # a review tells what it held itself, in one line
            text = say(
                "held", person.language, change=describe(operations, person.language), number=kept.number
            )
            to = ChatRef(place.chat, place.thread or None)
            *first, last = self._render(place.platform, text)
            asked = [
                *(OutboundMessage(to, chunk) for chunk in first),
                OutboundMessage(to, last, buttons=_buttons(kept.mark, person.language)),
            ]
            outbox.plan(
                connection,
                outbox.notice(place),
                [dump_outbound(message) for message in asked],
                stamp_ms,
            )
        return True


def _buttons(mark: int, language: str) -> tuple[Button, ...]:
    return (
        Button(KEEP, say("button_keep", language), str(mark)),
        Button(DROP, say("button_drop", language), str(mark)),
    )


def describe(operations: Sequence[Operation], language: str) -> str:
    """What a write would do, on one line."""
    return "; ".join(
        say(
            f"held_{operation.action}",
            language,
            content=as_written(preview(operation.content, SHOWN_CHARS)),
            old=as_written(preview(operation.old_text, SHOWN_CHARS)),
        )
        for operation in operations
    )


# The pause is a person's own; in a room it keeps out what that person says there.


def pause(connection: Connection, slug: PersonId, since_ms: int) -> None:
    """Switches off what the model and the review save of what this person says."""
    kv.put_value(connection, _pause_key(slug), str(since_ms))


def resume(connection: Connection, slug: PersonId) -> None:
    kv.remove_value(connection, _pause_key(slug))


def is_paused(connection: Connection, slug: PersonId) -> bool:
    return kv.get_value(connection, _pause_key(slug)) is not None


def _pause_key(slug: PersonId) -> str:
    return f"memory.paused.{slug}"


def _asker(connection: Connection, scope: Scope, origin: WriteOrigin) -> _Asker:
    person = people.person_of(connection, scope)
    standing = sessions.standing(connection, origin.session)
    if standing is not None and standing.private:
        return _Asker(person, PRIVATE)
    if standing is not None and standing.forgotten and origin.actor == "review":
        return _Asker(person, FORGOTTEN)  # it reads a history in which the forgotten fact still stands
    paused = person is not None and is_paused(connection, person.slug)
    return _Asker(person, PAUSED if paused else None)


def _place_for(
    connection: Connection, scope: Scope, origin: WriteOrigin, person: Person
) -> SessionKey | None:
    """Where to ask: the conversation itself, or for a room the person's own chat."""
    if isinstance(scope, RoomScope):
        return sessions.home_of(connection, person.id)
    standing = sessions.standing(connection, origin.session)
    return sessions.home_of(connection, person.id) if standing is None else standing.key
