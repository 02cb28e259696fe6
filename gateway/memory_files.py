"""Takes away everything that a memory store holds of one person or room, originals of hand edits included."""

import asyncio
import shutil

from trunkline.agent.memory.operations import Operation
from trunkline.agent.memory.store import FileMemoryStore, MemoryStore
from trunkline.agent.ports import Target, WriteOrigin
from trunkline.agent.scope import PersonScope

TARGETS: tuple[Target, Target] = ("user", "memory")


async def erase_memory(memory: MemoryStore, scope: PersonScope) -> None:
    """Empties both stores of a person without keeping a record, and removes their folder if there is one."""
    known = await memory.read(scope)
    for target in TARGETS:
        operations = [Operation("remove", old_text=entry) for entry in known.entries_of(target)]
        if operations:
            await memory.apply(scope, target, operations, WriteOrigin("forget", ""))
    await memory.erase_backups(scope)
    if isinstance(memory, FileMemoryStore):
        folder = memory.path_of(scope, "memory").parent
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
