"""The memory stores there are, each over a database and a home folder of the test's own."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from trunkline.agent.memory.entries import MemoryLimits
from trunkline.agent.memory.files import MemoryFolders
from trunkline.agent.memory.operations import Operation
from trunkline.agent.memory.outcomes import Failed, Outcome
from trunkline.agent.memory.store import FileMemoryStore, MemoryStore
from trunkline.agent.ports import Action, Target, WriteOrigin
from trunkline.agent.scope import AccountId, PersonId, PersonScope, RoomId, RoomScope, Scope
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.journal import JournalRow, StoreJournal, owner_of
from trunkline.gateway.state.memory_texts import TableMemoryStore
from trunkline.gateway.state.schema import memory_text

ANA = PersonScope(PersonId("ana"))
ROOM = RoomScope(RoomId("discord-789"), AccountId(7))
ORIGIN = WriteOrigin("tool", "telegram", session="s1", turn=1)
SMALL = MemoryLimits(memory_chars=200, user_chars=100)


@dataclass(frozen=True, slots=True)
class Shelf:
    """One kind of store, made as often as a test needs it over the same texts."""

    home: Path
    database: Database
    url: str
    in_table: bool

    def store(self, limits: MemoryLimits = SMALL, lock_timeout_s: float = 60) -> MemoryStore:
        if self.in_table:
            return TableMemoryStore(self.home, limits, self.database, lock_timeout_s)
        return FileMemoryStore(self.home, limits, StoreJournal(self.database), lock_timeout_s)

    async def by_hand(self, text: str, target: Target = "user", scope: Scope = ANA) -> None:
        await write_by_hand(self.home, self.database, text, target, scope, in_table=self.in_table)

    async def journal(self, scope: Scope = ANA) -> tuple[JournalRow, ...]:
        """Oldest first."""
        return (await StoreJournal(self.database).entries(scope, 1_000))[::-1]

    async def shown(self) -> str:
        """Everything that is stored of Ana, as it is stored."""
        if self.in_table:
            query = select(memory_text.c.content).where(memory_text.c.owner == owner_of(ANA))
            return "\n".join(await self.database.read(lambda c: c.execute(query).scalars().all()))
        folder = MemoryFolders(self.home).folder_of(ANA)
        return "\n".join(path.read_text("utf-8") for path in sorted(folder.glob("*.md")))


async def write_by_hand(
    home: Path, database: Database, text: str, target: Target, scope: Scope, *, in_table: bool
) -> None:
    """Puts a text where a person's editor would, or somebody who knows SQL."""
    if not in_table:
        path = MemoryFolders(home).path_of(scope, target)
        path.parent.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(path.write_text, text, "utf-8")
        return
    its = {"owner": owner_of(scope), "target": target}

    def work(connection: Connection) -> None:
        connection.execute(delete(memory_text).filter_by(**its))
        connection.execute(insert(memory_text).values(content=text, **its))

    await database.write(work)


async def apply(
    store: MemoryStore, *operations: tuple[Action, str, str], target: Target = "user", scope: Scope = ANA
) -> Outcome:
    return await store.apply(scope, target, [Operation(*operation) for operation in operations], ORIGIN)


async def add(store: MemoryStore, *texts: str, **where: Any) -> Outcome:
    return await apply(store, *(("add", text, "") for text in texts), **where)


def failed(outcome: Outcome) -> Failed:
    assert isinstance(outcome, Failed), outcome
    return outcome
