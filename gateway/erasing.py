"""A person leaves for good: everything of theirs goes, in an order that can be begun again after a crash."""

import asyncio
import logging
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from trunkline.agent.memory.operations import Operation
from trunkline.agent.memory.outcomes import Written
from trunkline.agent.memory.store import MemoryStore
from trunkline.agent.ports import WriteOrigin
from trunkline.agent.scope import PersonScope
from trunkline.gateway import memory_approval
from trunkline.gateway.clock import now_ms
from trunkline.gateway.exporting import folder_of
from trunkline.gateway.file_store import FileStore
from trunkline.gateway.file_sweep import sweep_dropped
from trunkline.gateway.joining import Belongings
from trunkline.gateway.memory_files import erase_memory
from trunkline.gateway.state import erasure, links, people
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.erasure import RoomFact
from trunkline.gateway.state.records import Person, SessionKey

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Erased:
    """What went: `entries` of memory, `conversations`, and the `messages` in them and in rooms.

    `keeps_entry`: config.yaml still names the person, so that they stay.
    """

    keeps_entry: bool
    entries: int
    conversations: int
    messages: int


async def erase_person(
    database: Database,
    memory: MemoryStore,
    belongings: Iterable[Belongings],
    home: Path,
    person: Person,
    *,
    stop: Callable[[SessionKey], object],
    command_row: int | None = None,
) -> Erased:
    """Removes all that is kept of a person.

    `stop` ends a running turn. What is sent to the platforms is theirs; our backups end by themselves.
    """
    keeps_entry = person.source == "config"
    slugs = (person.slug, *await database.read(lambda c: links.former_slugs(c, person.slug)))
    keys, facts = await database.write(lambda c: _close(c, person))
    for key in keys:
        stop(key)
    entries = sum([await _take_out(memory, fact) for fact in facts])
    for one in belongings:
        for slug in slugs:
            await one.erase(slug)
    for slug in slugs:  # before the journal goes, since this writes there that it happened
        entries += await erase_memory(memory, PersonScope(slug))
        await asyncio.to_thread(shutil.rmtree, folder_of(home, slug), ignore_errors=True)

    def work(connection: Connection) -> tuple[int, int]:
        counts = erasure.count(connection, person)
        erasure.erase(connection, person, facts, command_row, keeps_entry=keeps_entry)
        return counts

    conversations, messages = await database.write(work)
    await sweep_dropped(database, FileStore(home / "files"), fresh_ms=0)
    await database.empty_log()
    log.info("person erased: entry stays %s", keeps_entry)
    return Erased(keeps_entry, entries, conversations, messages)


def _close(connection: Connection, person: Person) -> tuple[tuple[SessionKey, ...], tuple[RoomFact, ...]]:
    """No new turn and no new memory from now on; returns what runs, and what they brought into rooms."""
    memory_approval.pause(connection, person.slug, now_ms())
    if person.source != "config":
        people.change_person(connection, person.id, suspended=True)
    accounts = people.accounts_of(connection, person.id)
    return erasure.running(connection, accounts), erasure.facts_in_rooms(connection, accounts)


async def _take_out(memory: MemoryStore, fact: RoomFact) -> bool:
    """An entry of a room's memory; one that is gone or was changed since is left as it is."""
    origin = WriteOrigin("forget", "")
    outcome = await memory.apply(fact.scope, "memory", [Operation("remove", old_text=fact.text)], origin)
    await memory.erase_backups(fact.scope)
    return isinstance(outcome, Written)
