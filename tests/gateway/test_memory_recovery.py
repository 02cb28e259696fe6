"""What a start makes of memory writes that a crash left half recorded."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import select

from tests.gateway.memory_desk import ANA, Typing, typing
from trunkline.agent.ports import JournalEntry, WriteOrigin
from trunkline.gateway.clock import now_ms
from trunkline.gateway.memory_recovery import ALIVE_AFTER
from trunkline.gateway.state import journal
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.schema import memory_journal

TEA, DOG = "User likes tea.", "User has a dog called Rex."
ORIGIN = WriteOrigin("tool", "discord", "s1", 1)
LONG_AGO_MS = int(ALIVE_AFTER.total_seconds() * 1000) + 1_000
HAPPENED = JournalEntry("user", "add", (TEA,), (TEA, DOG))
DID_NOT = JournalEntry("user", "remove", (TEA, DOG), (DOG,))
OTHERWISE = JournalEntry("user", "add", ("User likes rye.",), ("User likes rye.", DOG))


@pytest.fixture
def left_pending(tmp_path: Path, sqlite_database: Database) -> Path:
    """A home whose USER.md holds both facts, with three old rows of writes and one that has just begun."""
    path = tmp_path / "memories" / "ana" / "USER.md"
    path.parent.mkdir(parents=True)
    path.write_text(f"{TEA}\n§\n{DOG}\n§\n", encoding="utf-8")
    then = now_ms() - LONG_AGO_MS
    for entry, begun_ms in ((HAPPENED, then), (DID_NOT, then), (OTHERWISE, then), (HAPPENED, now_ms())):
        sqlite_database.write_now(lambda c, e=entry, ms=begun_ms: journal.begin(c, ANA, e, ORIGIN, ms))  # type: ignore[misc]
    return tmp_path


@pytest.fixture
async def desk(left_pending: Path, sqlite_url: str) -> AsyncIterator[Typing]:
    async with typing(left_pending, sqlite_url) as opened:
        yield opened


async def test_a_start_settles_old_writes_by_what_the_file_holds_and_leaves_young_ones(desk: Typing) -> None:
    query = select(memory_journal.c.state).order_by(memory_journal.c.id)

    states = await desk.house.database.read(lambda c: c.execute(query).scalars().all())

    assert states == ["done", "abandoned", "abandoned", "pending"]


async def test_a_write_that_a_crash_cut_off_after_it_happened_can_be_taken_back(desk: Typing) -> None:
    assert DOG in await desk.type("/memory undo")

    assert (await desk.house.memory.read(ANA)).user == (TEA,)
    assert "no change left" in await desk.type("/memory undo")
