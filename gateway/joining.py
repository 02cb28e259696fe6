"""Joins two people into one, memory included, and parts them again. Every write is in the journal.

Skills, provider banks and whatever else is kept of a person elsewhere follow by `Belongings`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from sqlalchemy import Connection

from trunkline.agent.memory.entries import count_chars, normalise
from trunkline.agent.memory.operations import Operation
from trunkline.agent.memory.outcomes import Failed, FailureKind, Written
from trunkline.agent.memory.scan import scan
from trunkline.agent.memory.snapshot import MemorySnapshot
from trunkline.agent.memory.store import MemoryStore
from trunkline.agent.ports import JournalEntry, Target, WriteOrigin
from trunkline.agent.scope import AccountId, PersonId, PersonScope
from trunkline.gateway import memory_approval
from trunkline.gateway.clock import now_ms
from trunkline.gateway.linking import Join, finish
from trunkline.gateway.memory_control import reverse
from trunkline.gateway.memory_files import TARGETS, erase_memory
from trunkline.gateway.state import journal, links, people
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.links import Alias
from trunkline.gateway.state.records import Person

Choice = Literal["", "1", "2"]
"""Which memory stays where both together are too long: that of the one kept, or that of the other."""


class Belongings(Protocol):
    """What a part of the house keeps of each person beside the memory files and state.db.

    A provider keeps both banks when two are joined and asks both (`links.former_slugs`), so joining and
    parting may have nothing to do.
    """

    async def join(self, kept: PersonId, gone: PersonId, /) -> None: ...

    async def part(self, kept: PersonId, gone: PersonId, /) -> None: ...

    async def erase(self, person: PersonId, /) -> None:
        """Removes everything of this slug, for good. May be called again after a failure."""
        ...

    async def export(self, person: PersonId, /) -> Mapping[str, bytes]:
        """Files for the person's own copy, by a relative path."""
        ...


@dataclass(frozen=True, slots=True)
class TooLong:
    """Both memories together are over the limit: the person chooses between these two."""

    kept: MemorySnapshot
    gone: MemorySnapshot


@dataclass(frozen=True, slots=True)
class Joined:
    """`left_out` entries did not pass the checks of today and stayed with the record of the join."""

    left_out: int = 0


@dataclass(frozen=True, slots=True)
class _Plan:
    operations: Mapping[Target, Sequence[Operation]]
    left_out: int


async def join(
    database: Database,
    memory: MemoryStore,
    belongings: Iterable[Belongings],
    wanted: Join,
    choice: Choice,
) -> Joined | TooLong | Failed:
    """Makes all that is `gone`'s `kept`'s. Repeated after a crash it goes on where it was."""
    gone = PersonScope(wanted.gone.slug)
    # What is still being said to the one who goes must not be noted where nobody will look.
    await database.write(lambda c: memory_approval.pause(c, gone.person, now_ms()))
    done = await _join(database, memory, belongings, wanted, choice)
    if not isinstance(done, Joined):
        await database.write(lambda c: memory_approval.resume(c, gone.person))
    return done


async def _join(
    database: Database,
    memory: MemoryStore,
    belongings: Iterable[Belongings],
    wanted: Join,
    choice: Choice,
) -> Joined | TooLong | Failed:
    kept, gone = PersonScope(wanted.kept.slug), PersonScope(wanted.gone.slug)
    brought = await database.read(lambda c: links.former_slugs(c, gone.person))
    ours, theirs = await memory.read(kept), await memory.read(gone)
    plan = _plan(memory, ours, theirs, choice)
    if plan is None:
        return TooLong(ours, theirs)
    origin = WriteOrigin("join", wanted.account.platform, account=wanted.account.id)
    writes = []
    for target, operations in plan.operations.items():
        outcome = await memory.apply(kept, target, operations, origin)
        if isinstance(outcome, Failed):
            return outcome
        writes += [outcome.journal_id] if isinstance(outcome, Written) else []
    for one in belongings:
        await one.join(kept.person, gone.person)
    if not await database.write(lambda c: _move(c, wanted, brought, theirs, writes, origin)):
        return Failed("memory", FailureKind.LOCKED, "one of the two was joined with somebody else meanwhile")
    await erase_memory(memory, gone)
    return Joined(plan.left_out)


def _plan(memory: MemoryStore, ours: MemorySnapshot, theirs: MemorySnapshot, choice: Choice) -> _Plan | None:
    """The writes that join the stores without doubles; None when it takes a choice that nobody made."""
    operations: dict[Target, Sequence[Operation]] = {}
    left_out = 0
    for target in TARGETS:
        if not memory.limits.allows(target):
            continue
        mine, added = ours.entries_of(target), theirs.entries_of(target)
        known = {normalise(entry) for entry in mine}
        fit = [entry for entry in added if scan(entry) is None]
        left_out += len(added) - len(fit)
        news = [entry for entry in fit if normalise(entry) not in known]
        if count_chars([*mine, *news]) <= memory.limits.chars_of(target):
            operations[target] = [Operation("add", content=entry) for entry in news]
        elif not choice:
            return None
        elif choice == "2":
            removed = [Operation("remove", old_text=entry) for entry in mine]
            operations[target] = [*removed, *(Operation("add", content=entry) for entry in fit)]
    return _Plan({target: some for target, some in operations.items() if some}, left_out)


def _move(
    connection: Connection,
    wanted: Join,
    brought: Sequence[PersonId],
    theirs: MemorySnapshot,
    writes: list[int],
    origin: WriteOrigin,
) -> bool:
    """The transaction of a join: accounts, journal and former names become the kept person's.

    Both sides may have said the last yes at once: the second finds it done. False, to be tried again, when
    one of the two was joined with somebody else meanwhile: `brought` are those whom the one who goes had
    taken in when `theirs` was read.
    """
    kept, gone, stamp_ms = wanted.kept, wanted.gone, now_ms()
    alias = links.find_alias(connection, gone.slug)
    if alias is not None:
        return alias.person_id == kept.id
    if any(_is_gone(connection, person.slug) for person in (kept, gone)):
        return False
    if links.former_slugs(connection, gone.slug) != brought:
        return False
    accounts = people.accounts_of(connection, gone.id)
    for account in accounts:
        people.give_account(connection, account.id, kept.id, "local" if account.source == "local" else "link")
    moved = links.give_journal(connection, gone.slug, kept.slug, None)
    records = []
    for target in TARGETS:
        before = theirs.entries_of(target)
        if before:
            entry = JournalEntry(target, "join", before, ())
            scope = PersonScope(kept.slug)
            row = journal.begin(connection, scope, entry, origin, stamp_ms)
            journal.settle(connection, scope, row, done=True)
            journal.mark_undone(connection, scope, row)  # a record, nothing that /memory undo takes back
            records.append(row)
    links.move_aliases(connection, gone.id, kept.id)
    sources = tuple((int(account.id), account.source) for account in accounts)
    alias = Alias(gone.slug, kept.id, gone.source, sources, moved, (*writes, *records))
    links.add_alias(connection, alias, stamp_ms)
    people.change_person(connection, gone.id, suspended=True, source="joined")
    finish(connection, wanted.request, wanted.account, stamp_ms)
    return True


def _is_gone(connection: Connection, slug: PersonId) -> bool:
    found = people.find_person(connection, slug)
    return found is None or found.source == "joined"


@dataclass(frozen=True, slots=True)
class Parted:
    """Two people again. `lost` entries could not be given back, since there is no longer room for them."""

    person: Person
    lost: int


async def part(
    database: Database, memory: MemoryStore, belongings: Iterable[Belongings], slug: str, by: AccountId | None
) -> Parted | None:
    """Takes a join back: accounts, memory and belongings; None when nobody of this slug was joined.

    What was said and noted since then stays with the person who was kept.
    """
    found = await database.read(lambda c: _joined(c, slug))
    if found is None:
        return None
    alias, kept, gone = found
    rows = await database.read(
        lambda c: [journal.find(c, PersonScope(kept.slug), one) for one in alias.writes]
    )
    origin = WriteOrigin("undo", "", account=by)
    lost = 0
    for row in rows:
        if row is None:  # a fact in it was forgotten, and the row was of nothing else
            continue
        if row.state == "done":
            scope = PersonScope(kept.slug)
            now = (await memory.read(scope)).entries_of(row.entry.target)
            operations = reverse(row.entry, now)[0]
        else:
            scope = PersonScope(gone.slug)
            operations = tuple(Operation("add", content=entry) for entry in row.entry.before)
        if operations:
            outcome = await memory.apply(scope, row.entry.target, operations, origin)
            lost += len(operations) if isinstance(outcome, Failed) else 0
    for one in belongings:
        await one.part(kept.slug, gone.slug)
    await database.write(lambda c: _give_back(c, alias, kept, gone))
    return Parted(gone, lost)


def _joined(connection: Connection, slug: str) -> tuple[Alias, Person, Person] | None:
    alias, gone = links.find_alias(connection, slug), people.find_person(connection, slug)
    if alias is None or gone is None:
        return None
    kept = next(one for one in people.list_people(connection) if one.id == alias.person_id)
    return alias, kept, gone


def _give_back(connection: Connection, alias: Alias, kept: Person, gone: Person) -> None:
    for account_id, source in alias.accounts:
        account = people.load_account(connection, AccountId(account_id))
        if account.person is not None and account.person.id == kept.id and account.source != "config":
            people.give_account(connection, account.id, gone.id, source)
    links.give_journal(connection, kept.slug, gone.slug, alias.journal)
    memory_approval.resume(connection, gone.slug)
    links.remove_alias(connection, alias.slug, alias.writes)
    people.change_person(connection, gone.id, suspended=False, source=alias.source)
