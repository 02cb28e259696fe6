"""Takes turns back: what was said in them, their messages in the chat, and what they wrote to memory."""

from dataclasses import dataclass

from sqlalchemy import Connection

from trunkline.agent.memory.outcomes import Failed, FailureKind
from trunkline.agent.memory.store import MemoryStore
from trunkline.agent.ports import WriteOrigin
from trunkline.agent.scope import AccountId, Scope
from trunkline.gateway.clock import now_ms
from trunkline.gateway.memory_control import TRIES, reverse
from trunkline.gateway.state import journal, sessions, takeback
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.journal import JournalRow
from trunkline.gateway.state.records import SessionKey
from trunkline.gateway.state.takeback import PastTurn

MOST = 20
"""Turns that one command takes back."""


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The turns that are undone, newest first, and the chats in which messages are to be deleted.

    `memory` tells what became of their notes: none, undone, or kept in part since somebody changed them.
    """

    turns: tuple[PastTurn, ...]
    chats: tuple[tuple[str, str], ...] = ()
    memory: str = ""


async def take_back(
    database: Database,
    memory: MemoryStore,
    scope: Scope,
    key: SessionKey,
    count: int,
    *,
    by: AccountId,
    may_all: bool,
) -> TakenBack | None:
    """Undoes the last turns of the open session; None when one is another's and `may_all` is false."""

    def work(connection: Connection) -> TakenBack | None:
        session = sessions.find_open(connection, key)
        past = () if session is None else takeback.last_turns(connection, session.id, count)
        if not may_all and any(one.author != by for one in past):
            return None
        chats: list[tuple[str, str]] = []
        for one in past:
            takeback.take_back(connection, scope, one.id, "undone")
            chats += filter(None, [takeback.plan_removal(connection, one.id, now_ms())])
        return TakenBack(past, tuple(dict.fromkeys(chats)))

    found = await database.write(work)
    if found is None or not found.turns:
        return found
    ids = {one.id for one in found.turns}
    rows = await database.read(lambda c: journal.of_turns(c, scope, ids))
    outcomes = [await _undo(database, memory, scope, row, by) for row in rows]
    told = "" if not outcomes else "undone_memory" if all(outcomes) else "undone_memory_kept"
    return TakenBack(found.turns, found.chats, told)


async def _undo(
    database: Database, memory: MemoryStore, scope: Scope, row: JournalRow, by: AccountId
) -> bool:
    """Whether a write is taken back whole: not where the entry was changed since, or can't be written."""
    for _ in range(TRIES):
        snapshot = await memory.read(scope)
        target = row.entry.target
        if target in snapshot.unreadable:
            return False
        operations, undone = reverse(row.entry, snapshot.entries_of(target))
        if operations:
            origin = WriteOrigin("undo", row.origin.platform, account=by)
            outcome = await memory.apply(scope, target, operations, origin)
            if isinstance(outcome, Failed):
                if outcome.kind is FailureKind.NO_MATCH:
                    continue
                return False
        await database.write(lambda c: journal.mark_undone(c, scope, row.id))
        return not undone.conflicts
    return False
