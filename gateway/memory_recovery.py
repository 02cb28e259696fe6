"""Settles, at start, the writes to memory that a crash left half recorded, by what the store holds."""

from datetime import UTC, datetime, timedelta

from trunkline.agent.memory.store import MemoryStore
from trunkline.gateway.state.journal import StoreJournal, scope_of

ALIVE_AFTER = timedelta(seconds=60)
"""A younger pending row may be a write that another process is in the middle of; no write takes longer."""


async def settle_journal(journal: StoreJournal, memory: MemoryStore) -> None:
    """Marks each old pending row done when the store holds what it wrote, abandoned when it does not.

    One of a store that is switched off waits until it is on again.
    """
    for row in await journal.pending():
        target = row.entry.target
        if datetime.now(UTC) - row.created < ALIVE_AFTER or not memory.limits.allows(target):
            continue
        scope = scope_of(row)
        known = await memory.read(scope)
        done = target not in known.unreadable and known.entries_of(target) == row.entry.after
        await journal.settle(scope, row.id, done=done)
