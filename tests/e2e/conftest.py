"""The world that the stories happen in."""

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.world import World, made_world
from tests.migrated import put_migrated


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    # The platforms' locks are the machine's, by token; another run of these tests has the same tokens.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    home = tmp_path / "home"
    home.mkdir()
    put_migrated(home / "state.db")
    async with made_world(home) as made:
        yield made
