"""A short soak: every question is answered once while the program holds no more than it did."""

from pathlib import Path

import pytest

from tests.chaos.soak import soak

MESSAGES = 300
LONGEST_S = 40.0


@pytest.mark.timeout(300)
async def test_the_program_holds_at_the_end_what_it_held_at_the_beginning(tmp_path: Path) -> None:
    outcome = await soak(tmp_path, MESSAGES, LONGEST_S)
    assert outcome.sent >= 90
    assert (outcome.answered, outcome.doubled) == (outcome.sent, 0)
    first, last = outcome.first, outcome.last
    # Ninety people at once are in one of several steps each: what grows with the messages would pass this.
    assert last.tasks <= first.tasks + 90
    assert last.handles <= first.handles + 90
    assert last.wal_mb <= 64
