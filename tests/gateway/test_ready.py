"""A database that can't be worked with is one sentence at the start, with an exit code for the supervisor."""

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text

from trunkline.gateway.state.database import Database
from trunkline.gateway.state.migrate import migrate
from trunkline.gateway.state.ready import Unusable, find_damage, make_ready

PAGE_BYTES = 4096


def start(home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trunkline.gateway", "run"],
        env={"PATH": os.environ["PATH"], "TRUNKLINE_HOME": str(home), "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text("platforms: {web: {port: 0}}\n")
    return tmp_path / "state.db"


async def fill(state: Path) -> None:
    with Database.sqlite(state) as database:
        await migrate(database)
        words = text("INSERT INTO kv (key, value) VALUES (:key, :value)")
        rows = [{"key": f"n{n}", "value": "x" * 500} for n in range(400)]
        await database.write(lambda c: c.execute(words, rows))


def spoil(state: Path, first_page: int) -> None:
    with state.open("r+b") as file:
        for page in range(first_page, state.stat().st_size // PAGE_BYTES, 2):
            file.seek(page * PAGE_BYTES)
            file.write(b"\xa5" * PAGE_BYTES)


def test_a_file_that_is_no_database_ends_the_start_for_a_person_to_mend(state: Path) -> None:
    state.write_bytes(b"this is no database at all\n" * 1000)
    done = start(state.parent)

    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "The database is damaged: file is not a database. Restore a backup" in done.stderr
    assert state.read_bytes().startswith(b"this is no database")


def test_damaged_pages_are_found_before_anything_is_written(state: Path) -> None:
    asyncio.run(fill(state))
    spoil(state, 1)
    before = state.read_bytes()
    done = start(state.parent)

    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "The database is damaged" in done.stderr
    assert state.read_bytes() == before


async def test_a_whole_database_is_looked_over_and_ready_also_when_there_is_no_time(state: Path) -> None:
    await fill(state)
    with Database.sqlite(state) as database:
        await make_ready(database)
        assert await database.read(find_damage) == ""
        assert await database.read(lambda c: find_damage(c, look_s=-1)) == ""
        assert await database.read(lambda c: c.execute(text("SELECT count(*) FROM kv")).scalar_one()) == 400


async def test_a_database_of_a_newer_version_ends_the_start_for_a_person_to_mend(state: Path) -> None:
    with Database.sqlite(state) as database:
        await migrate(database)
        await database.write(lambda c: c.execute(text("UPDATE alembic_version SET version_num = '9999'")))
        with pytest.raises(Unusable, match="newer Trunkline") as found:
            await make_ready(database)
        assert not found.value.may_pass


async def test_a_server_out_of_reach_may_come_back() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with Database(f"postgresql+psycopg://nobody@127.0.0.1:{port}/nothing") as database:
        with pytest.raises(Unusable, match="can't be used now") as found:
            await make_ready(database)
        assert found.value.may_pass
