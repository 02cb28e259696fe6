"""Takes away everything that a memory store holds of one person or room, originals of hand edits included."""

from trunkline.agent.memory.entries import normalise
from trunkline.agent.memory.operations import Operation
from trunkline.agent.memory.outcomes import Written
from trunkline.agent.memory.store import MemoryStore
from trunkline.agent.ports import Target, WriteOrigin
from trunkline.agent.scope import PersonScope

TARGETS: tuple[Target, Target] = ("user", "memory")


async def erase_memory(memory: MemoryStore, scope: PersonScope) -> int:
    """Empties both stores of a person without keeping a record, and deletes their folder.

    Returns how many entries went.
    """
    known = await memory.read(scope)
    gone = 0
    for target in TARGETS:
        entries = {normalise(entry): entry for entry in known.entries_of(target)}
        operations = [Operation("remove", old_text=entry) for entry in entries.values()]
        if operations:
            outcome = await memory.apply(scope, target, operations, WriteOrigin("forget", ""))
            gone += len(outcome.before) if isinstance(outcome, Written) else 0
    await memory.erase_folder(scope)
    return gone
