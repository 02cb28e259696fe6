"""The journal of memory writes: begun before, settled after, read by its owner only."""

import pytest

from tests.gateway.rows import add_person, person_scope, room_scope
from trunkline.agent.ports import JournalEntry, WriteOrigin
from trunkline.agent.scope import AccountId, Scope
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.journal import StoreJournal, scope_of

ANA, BO = person_scope("ana"), person_scope("bo")
ADDED = JournalEntry("memory", "add", ("a",), ("a", "b §\ud800\0"))
TOOL = WriteOrigin("tool", "telegram", "s1", 7)


@pytest.fixture
def journal(database: Database) -> StoreJournal:
    return StoreJournal(database)


async def states(journal: StoreJournal, scope: Scope) -> list[str]:
    return [row.state for row in await journal.entries(scope, 10)]


async def test_a_write_is_pending_until_it_is_settled(journal: StoreJournal) -> None:
    row = await journal.begin(ANA, ADDED, TOOL)
    assert [one.id for one in await journal.pending()] == [row]

    await journal.settle(ANA, row, done=True)

    assert await journal.pending() == ()
    assert await states(journal, ANA) == ["done"]


async def test_a_write_that_did_not_happen_is_abandoned_for_good(journal: StoreJournal) -> None:
    row = await journal.begin(ANA, ADDED, TOOL)
    await journal.settle(ANA, row, done=False)
    await journal.settle(ANA, row, done=True)

    assert await states(journal, ANA) == ["abandoned"]
    assert not await journal.mark_undone(ANA, row)


async def test_entries_and_origin_come_back_as_they_were(journal: StoreJournal, database: Database) -> None:
    account = AccountId(database.write_now(lambda connection: add_person(connection, "ana")))
    origin = WriteOrigin("command", "slack", None, None, account)
    row = await journal.begin(ANA, ADDED, origin)

    found = await journal.find(ANA, row)

    assert found is not None
    assert (found.entry, found.origin, found.owner) == (ADDED, origin, "person:ana")
    assert found.created.tzinfo is not None


async def test_the_newest_rows_come_first(journal: StoreJournal) -> None:
    rows = [await journal.begin(ANA, ADDED, TOOL) for _ in range(3)]

    assert [row.id for row in await journal.entries(ANA, 2)] == [rows[2], rows[1]]


async def test_a_row_is_undone_once(journal: StoreJournal) -> None:
    row = await journal.begin(ANA, ADDED, TOOL)
    await journal.settle(ANA, row, done=True)

    assert await journal.mark_undone(ANA, row)
    assert not await journal.mark_undone(ANA, row)


async def test_nobody_reads_or_settles_what_is_not_theirs(journal: StoreJournal) -> None:
    lab = room_scope("lab", 1)
    row = await journal.begin(lab, ADDED, TOOL)

    await journal.settle(BO, row, done=True)

    assert await journal.find(BO, row) is None
    assert await journal.entries(BO, 10) == ()
    assert await states(journal, lab) == ["pending"]
    assert not await journal.mark_undone(BO, row)


async def test_a_pending_row_knows_its_scope(journal: StoreJournal) -> None:
    await journal.begin(ANA, ADDED, TOOL)
    await journal.begin(room_scope("lab", 0), ADDED, TOOL)

    assert [scope_of(row) for row in await journal.pending()] == [ANA, room_scope("lab", 0)]
