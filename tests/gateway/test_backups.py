"""Our copies of the database end; what somebody else keeps is theirs."""

import asyncio
import os
import sqlite3
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from tests.gateway.rows import add_person, add_session, direct_stream, say
from tests.gateway.small_house import SmallHouse, eventually
from trunkline.gateway.backups import KEPT_DAYS, expire, make
from trunkline.gateway.state.database import Database

NOW_S = 1_800_000_000.0


def copy(folder: Path, name: str, age_days: float) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(b"a copy")
    os.utime(path, (NOW_S - age_days * 86_400,) * 2)
    return path


def test_an_old_copy_of_ours_is_deleted_and_nothing_else(tmp_path: Path) -> None:
    old = copy(tmp_path / "backups", "state-20260101-000000.db", KEPT_DAYS + 1)
    young = copy(tmp_path / "backups", "state-20260201-000000.db", KEPT_DAYS - 1)
    unfinished = copy(tmp_path / "backups", ".state-20260202-000000.db.part", 2)
    running = copy(tmp_path / "backups", ".state-20260203-000000.db.part", 0.1)
    foreign = copy(tmp_path / "backups", "mine.db", 400)
    database = copy(tmp_path, "state.db", 400)

    assert expire(tmp_path, NOW_S) == 2

    assert not old.exists()
    assert not unfinished.exists()
    assert running.exists()
    assert young.exists()
    assert foreign.exists()
    assert database.exists()


async def test_the_running_assistant_looks_after_old_copies(sqlite_house: SmallHouse) -> None:
    old = copy(sqlite_house.home / "backups", "state-20250101-000000.db", 400)

    async with sqlite_house.running():
        await eventually(partial(asyncio.to_thread, lambda: not old.exists()), 60)


def test_a_home_without_copies_is_fine(tmp_path: Path) -> None:
    assert expire(tmp_path, NOW_S) == 0


def test_a_copy_that_could_not_be_cleared_of_private_words_is_not_left_behind(
    sqlite_database: Database, tmp_path: Path
) -> None:
    sqlite_database.write_now(lambda c: c.execute(text("ALTER TABLE session RENAME TO away")))
    folder = tmp_path / "copies"
    folder.mkdir()

    with pytest.raises(OperationalError):
        make(sqlite_database, folder / "copy.db")

    assert list(folder.iterdir()) == []


def test_what_a_killed_copy_left_is_in_nobodys_way(sqlite_database: Database, tmp_path: Path) -> None:
    def work(connection: Connection) -> None:
        stream = direct_stream(connection, add_person(connection, "ana"))
        say(connection, add_session(connection, stream, "kept"), "an open word")
        say(connection, add_session(connection, stream, "hidden", private=True), "a private word")

    sqlite_database.write_now(work)
    folder = tmp_path / "copies"
    folder.mkdir()
    (folder / ".copy.db.part").write_bytes(b"half a copy with a private word")

    make(sqlite_database, folder / "copy.db")

    assert [path.name for path in folder.iterdir()] == ["copy.db"]
    assert b"a private word" not in (folder / "copy.db").read_bytes()
    with sqlite3.connect(folder / "copy.db") as copied:
        assert copied.execute("SELECT content FROM message").fetchall() == [("an open word",)]
    copied.close()


def test_a_file_that_is_there_is_not_overwritten(sqlite_database: Database, tmp_path: Path) -> None:
    there = copy(tmp_path, "mine.db", 1)

    with pytest.raises(FileExistsError):
        make(sqlite_database, there)

    assert there.read_bytes() == b"a copy"
