"""The world that the stories happen in."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.world import World, made_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    home = tmp_path / "home"
    home.mkdir()
    async with made_world(home) as made:
        yield made
