"""Settles, at start, the memory writes that a crash left half recorded, by looking at the files."""

from datetime import UTC, datetime, timedelta

from trunkline.agent.memory.store import FileMemoryStore
from trunkline.gateway.state.journal import StoreJournal, scope_of

ALIVE_AFTER = timedelta(seconds=60)
"""A younger pending row may be a write that another process is in the middle of; no write takes longer."""


async def settle_journal(journal: StoreJournal, memory: FileMemoryStore) -> None:
    """Marks each old pending row done when the file holds what it wrote, abandoned when it does not."""
    for row in await journal.pending():
        if datetime.now(UTC) - row.created < ALIVE_AFTER:
            continue
        scope = scope_of(row)
        state = await memory.state_of(scope, row.entry)
        await journal.settle(scope, row.id, done=state == "after")
