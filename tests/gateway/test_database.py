"""The owner of connections: whole transactions, patient with other processes, readers that can't write."""

import asyncio
import sqlite3
import stat
import threading
import uuid
from pathlib import Path
from traceback import format_exception

import psycopg
import pytest
from sqlalchemy import Connection, func, insert, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from tests.gateway.postgresql import written
from trunkline.gateway.state import checks
from trunkline.gateway.state.database import LOG_KEPT_BYTES, Database, DatabaseClosed
from trunkline.gateway.state.kv import get_value, put_value, remove_value
from trunkline.gateway.state.migrate import migrate_now
from trunkline.gateway.state.mounts import network_kind
from trunkline.gateway.state.schema import kv


async def test_a_write_is_committed_and_seen_by_readers(database: Database) -> None:
    await database.write(lambda connection: put_value(connection, "a", "1"))
    await database.write(lambda connection: put_value(connection, "a", "2"))

    assert await database.read(lambda connection: get_value(connection, "a")) == "2"

    await database.write(lambda connection: remove_value(connection, "a"))

    assert await database.read(lambda connection: get_value(connection, "a")) is None


async def test_what_a_failed_write_says_of_itself_has_no_words_of_anybodys(database: Database) -> None:
    words = "a secret plan"

    def twice(connection: Connection) -> None:
        for _ in range(2):
            connection.execute(insert(kv).values(key="a", value=words))

    with pytest.raises(DBAPIError) as failed:
        await database.write(twice)

    assert "INSERT INTO kv" in str(failed.value)
    assert "secret plan" not in "".join(format_exception(failed.value))


async def test_a_failed_write_leaves_nothing(database: Database) -> None:
    def work(connection: Connection) -> None:
        put_value(connection, "a", "1")
        raise LookupError("no such thing")

    with pytest.raises(LookupError):
        await database.write(work)

    assert await database.read(lambda connection: get_value(connection, "a")) is None


async def test_concurrent_read_modify_writes_keep_every_one(database: Database) -> None:
    def add_one(connection: Connection) -> None:
        put_value(connection, "count", str(int(get_value(connection, "count") or 0) + 1))

    await database.write(add_one)
    await asyncio.gather(*(database.write(add_one) for _ in range(199)))

    assert await database.read(lambda connection: get_value(connection, "count")) == "200"


async def test_reads_refuse_writes(database: Database) -> None:
    with pytest.raises(DBAPIError):
        await database.read(lambda connection: put_value(connection, "a", "1"))

    assert await database.read(lambda connection: get_value(connection, "a")) is None


@pytest.mark.parametrize(("wanted", "seconds"), [("", "10"), ("connect_timeout=4", "4")])
def test_a_server_that_is_lost_is_not_waited_for_long(
    migrated_postgresql_url: str, wanted: str, seconds: str
) -> None:
    def told_to_the_driver(connection: Connection) -> dict[str, str]:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        return driver.info.get_parameters()

    with Database(written(make_url(migrated_postgresql_url).update_query_string(wanted))) as opened:
        told = opened.read_now(told_to_the_driver)

    assert told["connect_timeout"] == seconds
    assert told["tcp_user_timeout"] == "30000"


async def test_a_read_sees_one_state_of_things(database: Database) -> None:
    began, written = threading.Event(), threading.Event()

    def work(connection: Connection) -> tuple[str | None, str | None]:
        first = get_value(connection, "a")
        began.set()
        assert written.wait(60)
        return first, get_value(connection, "a")

    async with asyncio.TaskGroup() as group:
        reading = group.create_task(database.read(work))
        await asyncio.to_thread(began.wait, 60)
        await database.write(lambda connection: put_value(connection, "a", "1"))
        written.set()

    assert reading.result() == (None, None)


async def test_a_cancelled_caller_leaves_its_write_whole_and_the_lock_free(
    database: Database, database_url: str
) -> None:
    for turn in range(20):
        entered, go_on = threading.Event(), threading.Event()

        def work(
            connection: Connection,
            turn: int = turn,
            entered: threading.Event = entered,
            go_on: threading.Event = go_on,
        ) -> None:
            put_value(connection, f"first{turn}", "1")
            entered.set()
            assert go_on.wait(60)
            put_value(connection, f"second{turn}", "1")

        async with asyncio.timeout(60):
            async with asyncio.TaskGroup() as group:
                task = group.create_task(database.write(work))
                await asyncio.to_thread(entered.wait, 60)
                task.cancel()
            go_on.set()
            await database.write(lambda connection: put_value(connection, "after", "1"))

    def count(connection: Connection) -> int:
        return int(connection.execute(select(func.count(kv.c.key))).scalar_one())

    # On PostgreSQL the cancelled writes may still be under way; closing lets them finish.
    database.close()
    with Database(database_url) as again:
        assert again.read_now(count) == 41


async def test_a_write_cancelled_while_it_waits_its_turn_still_happens(sqlite_database: Database) -> None:
    busy = threading.Event()

    async with asyncio.TaskGroup() as group:
        group.create_task(sqlite_database.write(lambda _connection: busy.wait(60)))
        waiting = group.create_task(
            sqlite_database.write(lambda connection: put_value(connection, "waited", "1"))
        )
        await asyncio.sleep(0)
        waiting.cancel()
        busy.set()

    await sqlite_database.write(lambda connection: None)
    assert await sqlite_database.read(lambda connection: get_value(connection, "waited")) == "1"


async def test_a_lock_held_by_another_process_delays_a_write_and_loses_none(
    sqlite_database: Database, tmp_path: Path
) -> None:
    other = sqlite3.connect(tmp_path / "state.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0.01)

    async with asyncio.TaskGroup() as group:
        beating = group.create_task(beat())
        writing = group.create_task(sqlite_database.write(lambda connection: put_value(connection, "a", "1")))
        threading.Timer(2, other.rollback).start()
        await writing
        beating.cancel()

    assert await sqlite_database.read(lambda connection: get_value(connection, "a")) == "1"
    assert beats > 20
    other.close()


async def test_readers_do_not_wait_for_a_writer(database: Database) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def work(connection: Connection) -> None:
        put_value(connection, "a", "1")
        entered.set()
        assert go_on.wait(60)

    async with asyncio.TaskGroup() as group:
        group.create_task(database.write(work))
        await asyncio.to_thread(entered.wait, 60)
        assert await database.read(lambda connection: get_value(connection, "a")) is None
        go_on.set()


async def test_a_closed_database_says_so(database: Database) -> None:
    database.close()
    database.close()

    with pytest.raises(DatabaseClosed):
        await database.read(lambda connection: None)


def test_the_file_is_for_its_owner_only(sqlite_database: Database, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "state.db").stat().st_mode) == 0o600


def journal_mode(connection: Connection) -> str:
    return str(connection.execute(text("PRAGMA journal_mode")).scalar_one())


def test_what_was_acknowledged_survives_a_power_cut(sqlite_database: Database) -> None:
    def settings(connection: Connection) -> tuple[str, int]:
        return journal_mode(connection), connection.execute(text("PRAGMA synchronous")).scalar_one()

    assert sqlite_database.write_now(settings) == ("wal", 2)


async def test_the_log_is_moved_into_the_file_while_chats_go_on(
    sqlite_database: Database, tmp_path: Path
) -> None:
    sqlite_database.write_now(lambda c: put_value(c, "first", "zanthoxylum"))
    file = tmp_path / "state.db"

    async with asyncio.timeout(60):
        while b"zanthoxylum" not in await asyncio.to_thread(file.read_bytes):
            await sqlite_database.write(lambda c: put_value(c, "later", "anything"))


async def test_a_log_that_one_long_read_made_long_becomes_short_again(
    sqlite_database: Database, tmp_path: Path
) -> None:
    log = tmp_path / "state.db-wal"
    began, over = threading.Event(), threading.Event()

    def read_long(connection: Connection) -> None:
        get_value(connection, "n0")
        began.set()
        assert over.wait(60)

    async with asyncio.TaskGroup() as group:
        group.create_task(sqlite_database.read(read_long))
        await asyncio.to_thread(began.wait)
        for n in range(12):
            await sqlite_database.write(lambda c, n=n: put_value(c, f"n{n}", "x" * 2**20))  # type: ignore[misc]
        assert log.stat().st_size > LOG_KEPT_BYTES
        over.set()

    async with asyncio.timeout(60):
        while log.stat().st_size > LOG_KEPT_BYTES:
            await sqlite_database.write(lambda c: put_value(c, "later", str(uuid.uuid4())))


MOUNT = "27 1 0:40 / {folder} rw,relatime - nfs4 server:/box rw"


@pytest.mark.parametrize(("folder", "journal", "warnings"), [("{home}", "delete", 1), ("/srv/box", "wal", 0)])
def test_on_a_network_mount_there_is_one_warning_and_no_write_ahead_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, folder: str, journal: str, warnings: int
) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(MOUNT.format(folder=folder.format(home=tmp_path)))

    with Database(f"sqlite:///{tmp_path / 'state.db'}", mounts=table) as database:
        migrate_now(database)
        database.write_now(lambda c: put_value(c, "first", "stored"))
        # What `trunkline db stats` and `trunkline doctor` show.
        shown = database.read_now(checks.size).journal
        assert database.read_now(lambda c: get_value(c, "first")) == "stored"
        assert (tmp_path / "state.db-wal").exists() == (journal == "wal")

    assert shown == journal
    warned = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert len(warned) == warnings
    assert all("nfs4" in one for one in warned)


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/srv/box/state.db", "nfs4"), ("/srv/state.db", None), ("/srv/a b/state.db", "9p"), ("/x", None)],
)
def test_network_mounts_are_told_from_local_disks(tmp_path: Path, path: str, kind: str | None) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(
        "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
        "30 27 0:40 / /srv/box rw shared:1 - nfs4 server:/box rw\n"
        "31 27 0:41 / /srv/a\\040b rw - 9p share rw\n"
        "broken line\n"
    )

    assert network_kind(Path(path), table) == kind


def test_without_a_mount_table_a_path_counts_as_local(tmp_path: Path) -> None:
    assert network_kind(tmp_path, tmp_path / "absent") is None
