"""What a person does with their own memory: see where facts come from, take changes back, decide, forget.

The commands and the command line word it. Everything is within one person's scope, and each write goes
through the store, under its lock.
"""

import hashlib
import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import TypeAdapter
from sqlalchemy import Connection

from trunkline.agent.memory.changes import Change, entry_changes
from trunkline.agent.memory.entries import fold_loosely, normalise
from trunkline.agent.memory.operations import Operation
from trunkline.agent.memory.outcomes import Failed, FailureKind, Outcome
from trunkline.agent.memory.snapshot import MemorySnapshot
from trunkline.agent.memory.store import MemoryStore
from trunkline.agent.ports import JournalEntry, Target, WriteOrigin
from trunkline.agent.scope import AccountId, PersonScope
from trunkline.gateway.clock import now_ms
from trunkline.gateway.state import forgetting, held, journal, kv, links, provider_rows, still_said
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.held import HeldWrite
from trunkline.gateway.state.journal import JournalRow

log = logging.getLogger(__name__)

JOURNAL_ROWS = 2_000
"""So far back a fact's origin is looked for."""
MAX_UNDO = 20
MOST_DIGITS = 9
TRIES = 3
"""A write by somebody else in between changes what there is to take back; then it is looked at anew."""
OFFER_MS = 3_600_000
"""So long a forgotten fact's number stays its own, for the offer to redact where it came from."""
ORDER: tuple[Target, Target] = ("user", "memory")


@dataclass(frozen=True, slots=True)
class Fact:
    """An entry with the number it is shown by. `source` is the write it came with, None for a hand edit."""

    number: int
    target: Target
    text: str
    source: JournalRow | None


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a person, in the order of its numbers. A number is not used again for another fact."""

    known: tuple[Fact, ...]
    unreadable: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Undone:
    """What one step of undoing did: entries put back and taken out again, and what no longer fitted.

    `failed` says why nothing was written; then the change still stands.
    """

    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    failed: Failed | None = None


@dataclass(frozen=True, slots=True)
class Forgotten:
    """`lines` messages that the fact came from are still in the transcripts; `redacted` were taken out.

    `reminders` are the numbers of those that wait and still say it. `left_accounts`: there are conversations
    of the person's that are no longer theirs.
    """

    lines: int = 0
    redacted: int = 0
    reminders: tuple[int, ...] = ()
    left_accounts: bool = False
    failed: Failed | None = None


@dataclass(frozen=True, slots=True)
class _Slot:
    """What a number stands for: an entry by its hash, or the transcript lines of one that was forgotten."""

    target: Literal["user", "memory", ""] = ""
    digest: str = ""
    lines: tuple[int, ...] = ()
    forgotten_ms: int = 0


_SLOTS = TypeAdapter(tuple[_Slot, ...])


class MemoryControl:
    """One person's control of what is remembered of them, asked for from `platform` and `account`."""

    def __init__(
        self,
        store: MemoryStore,
        database: Database,
        scope: PersonScope,
        platform: str,
        account: AccountId | None = None,
    ) -> None:
        self._store = store
        self._database = database
        self._scope = scope
        self._platform = platform
        self._account = account

    async def facts(self, *, renumber: bool = False) -> Facts:
        """All there is. `renumber` counts from 1 again, for a list that is shown whole."""
        snapshot = await self._store.read(self._scope)
        return await self._database.write(lambda c: self._numbered(c, snapshot, renumber))

    async def write(self, target: Target, *operations: Operation) -> Outcome:
        """A change by the person's own hand."""
        return await self._store.apply(self._scope, target, operations, self._origin("command"))

    async def undo(self) -> Undone | None:
        """Takes the latest change back that was not taken back yet; None when there is none."""
        row = await self._database.read(self._latest_change)
        if row is None:
            return None
        undone = Undone()
        for _ in range(TRIES):
            undone = await self._undo(row)
            if undone.failed is None or undone.failed.kind is not FailureKind.NO_MATCH:
                break
        if undone.failed is None:
            await self._database.write(lambda c: journal.mark_undone(c, self._scope, row.id))
        return undone

    async def forget(self, fact: Fact, *, transcript: bool, inbox_row: int | None = None) -> Forgotten:
        """Removes a fact and every copy of it for good; with `transcript` also the messages it came from.

        `inbox_row` is the stored command that asked for it, whose words go too.
        """
        failed = await self._remove(fact)
        if failed is not None:
            return Forgotten(failed=failed)
        await self._store.erase_backups(self._scope)
        left = await self._store.read(self._scope)
        done = await self._database.write(lambda c: self._erase(c, fact, left, transcript, inbox_row))
        await self._empty_log()
        return done

    async def forget_lines(self, number: int) -> int | None:
        """Redacts the messages that an already forgotten fact came from; None when nothing has the number."""

        def work(connection: Connection) -> int | None:
            slots = list(self._slots(connection))
            if not 0 < number <= len(slots) or slots[number - 1].target or not slots[number - 1].lines:
                return None
            redacted = forgetting.redact_lines(connection, self._scope, slots[number - 1].lines)
            slots[number - 1] = _Slot()
            self._keep_slots(connection, slots)
            return redacted

        redacted = await self._database.write(work)
        if redacted is not None:
            await self._empty_log()
        return redacted

    async def waiting(self) -> tuple[HeldWrite, ...]:
        """The writes that wait for this person's yes, oldest first."""
        return await self._database.read(lambda c: held.list_for(c, self._scope.person))

    async def approve(self, write: HeldWrite) -> Outcome:
        """Does a held write, by the rules of this moment; one that fails goes on waiting.

        The write comes first: after a crash in between it waits still, and doing it again changes nothing.
        """
        outcome = await self._store.apply(write.scope, write.target, write.operations, write.origin)
        if not isinstance(outcome, Failed):
            await self.reject(write)
        return outcome

    async def reject(self, write: HeldWrite) -> None:
        await self._database.write(lambda c: held.drop(c, self._scope.person, write.id))

    async def _remove(self, fact: Fact) -> Failed | None:
        """Takes the fact out of both stores, wherever it stands; why not, when a store can't be written."""
        known = await self._store.read(self._scope)
        operation = Operation("remove", old_text=fact.text)
        for target in ORDER:
            stands = normalise(fact.text) in map(normalise, known.entries_of(target))
            if not stands and target not in known.unreadable:
                continue
            outcome = await self._store.apply(self._scope, target, [operation], self._origin("forget"))
            if isinstance(outcome, Failed) and outcome.kind is not FailureKind.NO_MATCH:
                return outcome
        return None

    async def _undo(self, row: JournalRow) -> Undone:
        snapshot = await self._store.read(self._scope)
        target = row.entry.target
        if target in snapshot.unreadable:
            return Undone(failed=Failed(target, FailureKind.UNREADABLE, "the store can't be read"))
        operations, undone = reverse(row.entry, snapshot.entries_of(target))
        if not operations:
            return undone
        outcome = await self._store.apply(self._scope, target, operations, self._origin("undo"))
        return Undone(failed=outcome) if isinstance(outcome, Failed) else undone

    def _latest_change(self, connection: Connection) -> JournalRow | None:
        rows = journal.entries(connection, self._scope, JOURNAL_ROWS)
        return next((row for row in rows if _is_change(row)), None)

    def _origin(self, actor: Literal["command", "undo", "forget"]) -> WriteOrigin:
        return WriteOrigin(actor, self._platform, account=self._account)

    def _erase(
        self,
        connection: Connection,
        fact: Fact,
        left: MemorySnapshot,
        transcript: bool,
        inbox_row: int | None,
    ) -> Forgotten:
        rows = journal.entries(connection, self._scope, JOURNAL_ROWS)
        wordings, sources = lineage(rows, fact, (*left.user, *left.memory))
        gone = forgetting.Fact(wordings)
        lines = forgetting.lines_of(connection, self._scope, gone, sources)
        forgetting.erase_copies(connection, self._scope, gone)
        self._forget_elsewhere(connection, wordings, lines)
        forgetting.count(connection, self._scope)
        redacted = forgetting.redact_lines(connection, self._scope, lines) if transcript else 0
        if inbox_row is not None:
            forgetting.blank_command(connection, inbox_row)
        slots = list(self._slots(connection))
        offered = () if transcript else lines
        slots[fact.number - 1] = _Slot(lines=offered, forgotten_ms=now_ms() if offered else 0)
        self._keep_slots(connection, slots)
        return Forgotten(
            lines=0 if transcript else len(lines),
            redacted=redacted,
            reminders=still_said.settle_reminders(connection, self._scope, gone, sources),
            left_accounts=still_said.has_left_accounts(connection, self._scope),
        )

    def _forget_elsewhere(
        self, connection: Connection, wordings: Sequence[str], lines: Sequence[int]
    ) -> None:
        """Has the memory providers erase it, also those banks that were another person's before a join."""
        for slug in (self._scope.person, *links.former_slugs(connection, self._scope.person)):
            owner = journal.owner_of(PersonScope(slug))
            provider_rows.forget_fact(connection, owner, wordings, lines, now_ms())

    async def _empty_log(self) -> None:
        if not await self._database.empty_log():
            log.warning("write-ahead log not emptied: readers are in the way")

    # What was shown keeps its number until the next list, so that `forget 3` means what the person saw.

    def _numbered(self, connection: Connection, snapshot: MemorySnapshot, renumber: bool) -> Facts:
        slots = list(self._slots(connection))
        if renumber:
            slots = _offers(slots, now_ms() - OFFER_MS)
        rows = journal.entries(connection, self._scope, JOURNAL_ROWS)
        found = []
        for target in ORDER:
            sources = origins(rows, target)
            for text in snapshot.entries_of(target):
                slot = _Slot(target, _digest(text))
                if slot not in slots:
                    _place(slots, slot, fill=renumber)
                found.append(Fact(slots.index(slot) + 1, target, text, sources.get(normalise(text))))
        self._keep_slots(connection, slots)
        return Facts(tuple(sorted(found, key=lambda fact: fact.number)), snapshot.unreadable)

    def _slots(self, connection: Connection) -> tuple[_Slot, ...]:
        stored = kv.get_value(connection, f"memory.numbers.{self._scope.person}")
        return () if stored is None else _SLOTS.validate_json(stored)

    def _keep_slots(self, connection: Connection, slots: Sequence[_Slot]) -> None:
        kv.put_value(
            connection, f"memory.numbers.{self._scope.person}", _SLOTS.dump_json(tuple(slots)).decode()
        )


def find(facts: Iterable[Fact], wanted: str) -> tuple[Fact, ...]:
    """The facts meant by a number or by some of their words, the whole text first; several when unclear."""
    facts = tuple(facts)
    if wanted.isdecimal():
        return tuple(fact for fact in facts if fact.number == number_in(wanted))
    whole = tuple(fact for fact in facts if normalise(fact.text) == normalise(wanted))
    return whole or tuple(fact for fact in facts if fold_loosely(wanted) in fold_loosely(fact.text))


def number_in(text: str) -> int | None:
    """The number that a text is, None for any other text and for one beyond all numbers there are."""
    return int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else None


def search(facts: Iterable[Fact], words: str) -> tuple[Fact, ...]:
    """The facts that hold every word."""
    wanted = fold_loosely(words).split()
    return tuple(fact for fact in facts if all(word in fold_loosely(fact.text) for word in wanted))


def origins(rows: Sequence[JournalRow], target: Target) -> dict[str, JournalRow]:
    """The write that last brought each entry (by its normal form). `rows` are newest first."""
    found: dict[str, JournalRow] = {}
    for row in rows:
        if row.entry.target == target and _is_change(row):
            before = {normalise(entry) for entry in row.entry.before}
            for entry in row.entry.after:
                if normalise(entry) not in before:
                    found.setdefault(normalise(entry), row)
    return found


def lineage(
    rows: Sequence[JournalRow], fact: Fact, current: Iterable[str]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Every wording that the fact had, this one first, and the turns that wrote one.

    `rows` are newest first. A wording that is an entry of its own by now (`current`) is another fact.
    """
    others = {normalise(entry) for entry in current}
    wordings = {normalise(fact.text): fact.text}
    turns = []
    for row in rows:
        for change in changes_of(row.entry):
            if change.new is None or normalise(change.new) not in wordings:
                continue
            if row.origin.turn is not None:
                turns.append(row.origin.turn)
            if change.old is not None and normalise(change.old) not in others:
                wordings.setdefault(normalise(change.old), change.old)
    return tuple(wordings.values()), tuple(turns)


def changes_of(entry: JournalEntry) -> tuple[Change, ...]:
    """What a write did, entry by entry."""
    return entry_changes(entry.before, entry.after)


def reverse(entry: JournalEntry, current: Sequence[str]) -> tuple[tuple[Operation, ...], Undone]:
    """What takes a write back as far as it still fits the entries there are now."""
    here = {normalise(one) for one in current}
    operations: list[Operation] = []
    restored: list[str] = []
    removed: list[str] = []
    conflicts: list[str] = []
    for change in changes_of(entry):
        if change.new is not None and normalise(change.new) not in here:
            conflicts.append(change.new)  # changed or removed since: what is there now is the later word
            continue
        old_is_here = change.old is not None and normalise(change.old) in here
        if change.new is None:
            if change.old is not None and not old_is_here:
                operations.append(Operation("add", content=change.old))
                restored.append(change.old)
        elif change.old is None:
            operations.append(Operation("remove", old_text=change.new))
            removed.append(change.new)
        else:
            operations.append(Operation("replace", content=change.old, old_text=change.new))
            restored.append(change.old)
            removed.append(change.new)
    return tuple(operations), Undone(tuple(restored), tuple(removed), tuple(conflicts))


def exported(snapshot: MemorySnapshot) -> str:
    """Both stores as JSON, in the form that `trunkline memory import` reads."""
    return json.dumps({"user": snapshot.user, "memory": snapshot.memory}, ensure_ascii=False, indent=2)


def _offers(slots: Sequence[_Slot], since_ms: int) -> list[_Slot]:
    """The numbers with an offer that was made since then; all others are free."""
    kept = [slot if slot.lines and slot.forgotten_ms >= since_ms else _Slot() for slot in slots]
    while kept and not kept[-1].lines:
        kept.pop()
    return kept


def _place(slots: list[_Slot], slot: _Slot, *, fill: bool) -> None:
    """Gives an entry the first free number when all are given anew, else the next after the last."""
    if fill and _Slot() in slots:
        slots[slots.index(_Slot())] = slot
    else:
        slots.append(slot)


def _is_change(row: JournalRow) -> bool:
    return row.state == "done" and row.origin.actor not in ("undo", "forget", "join")


def _digest(text: str) -> str:
    return hashlib.sha256(normalise(text).encode("utf-8", "surrogatepass")).hexdigest()[:20]
