"""Migrations: from nothing to exactly the schema, once, and never backwards."""

import asyncio
import multiprocessing
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from trunkline.gateway.state import fulltext
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.migrate import HEAD, VERSIONS, DatabaseTooNew, migrate, migrate_now
from trunkline.gateway.state.migrations.upgrade import configuration, is_ours
from trunkline.gateway.state.schema import metadata


def differences(connection: Connection) -> list[object]:
    options = {"include_object": is_ours, "compare_type": True}
    return list(compare_metadata(MigrationContext.configure(connection, opts=options), metadata))


def test_migrations_end_at_exactly_the_schema(database: Database) -> None:
    assert database.read_now(differences) == []


EARLIER_ROWS = (
    "INSERT INTO person (id, slug, name) VALUES (1, 'ana', 'Ana')",
    "INSERT INTO account (id, person_id, platform, user_id) VALUES (1, 1, 'telegram', '1001')",
    "INSERT INTO stream (id, account_id, last_n, indexed_count, indexed_words) VALUES (1, 1, 1, 1, 1)",
    "INSERT INTO session (id, public_id, stream_id, platform, tenant, chat) "
    "VALUES (1, 'one', 1, 'telegram', '9', '1001')",
    "INSERT INTO message (id, session_id, seq, role, content, created_ms) "
    f"VALUES ({(1 << 32) + 1}, 1, 1, 'user', 'a zebra', 1)",
    "INSERT INTO indexed_message (id, session_id, seq, role, words, account_id, created_ms) "
    f"VALUES ({(1 << 32) + 1}, 1, 1, 0, 1, 1, 1)",
)


def fill(connection: Connection) -> None:
    for statement in EARLIER_ROWS:
        connection.execute(text(statement))
    fulltext.insert_entries(connection, [fulltext.Entry((1 << 32) + 1, ("zebra",), (), is_tool=False)])


def zebras(connection: Connection) -> set[int]:
    reach = fulltext.Reach((1,), (fulltext.USER, fulltext.ASSISTANT))
    return fulltext.posting_ids(connection, (fulltext.Phrase(("zebra",)),), reach, 10)


@pytest.mark.parametrize("version", VERSIONS[:-1])
def test_a_database_of_every_earlier_version_keeps_its_rows(bare_url: str, version: str) -> None:
    with Database(bare_url) as database:
        database.write_alone_now(lambda connection: command.upgrade(configuration(connection), version))
        database.write_now(fill)

        assert migrate_now(database) == HEAD

        assert database.read_now(differences) == []
        assert database.read_now(zebras) == {(1 << 32) + 1}
        kept = database.read_now(lambda c: c.execute(text("SELECT content FROM message")).scalars().all())
        assert kept == ["a zebra"]


def test_an_index_that_is_damaged_keeps_no_database_from_being_migrated(tmp_path: Path) -> None:
    with Database.sqlite(tmp_path / "state.db") as database:
        database.write_alone_now(lambda connection: command.upgrade(configuration(connection), "0003"))
        database.write_now(lambda c: c.execute(text("UPDATE message_fts_data SET block = x'ff'")))

        assert migrate_now(database) == HEAD


STAYING = frozenset({"account", "room", "stream"})
"""Tables whose rows are hardly ever deleted."""


def test_whatever_refers_to_rows_that_are_deleted_is_found_by_an_index(sqlite_database: Database) -> None:
    def unfound(connection: Connection) -> set[str]:
        found, kinds = set(), inspect(connection)
        for table in metadata.tables:
            whole = [one for one in kinds.get_indexes(table) if not one["dialect_options"]]
            lists = [one["column_names"] for one in (*whole, *kinds.get_unique_constraints(table))]
            firsts = {
                columns[0] for columns in (*lists, kinds.get_pk_constraint(table)["constrained_columns"])
            }
            for key in kinds.get_foreign_keys(table):
                if key["referred_table"] not in STAYING and key["constrained_columns"][0] not in firsts:
                    found.add(f"{table}.{key['constrained_columns'][0]}")
        return found

    assert sqlite_database.read_now(unfound) == set()


def test_every_version_is_listed_once_and_the_last_is_the_head(database: Database) -> None:
    scripts = ScriptDirectory.from_config(database.read_now(configuration))

    assert tuple(one.revision for one in scripts.walk_revisions("base", "heads"))[::-1] == VERSIONS
    assert scripts.get_heads() == [HEAD]


async def test_a_migrated_database_is_left_alone(database: Database) -> None:
    assert await migrate(database) == HEAD


def test_a_database_of_a_newer_version_gets_a_clear_sentence(database: Database) -> None:
    database.write_now(
        lambda connection: connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    )

    with pytest.raises(DatabaseTooNew, match="newer Trunkline"):
        migrate_now(database)


def test_processes_that_start_at_once_migrate_once(bare_url: str) -> None:
    with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn")) as pool:
        versions = list(pool.map(migrate_url, [bare_url] * 3))

    assert versions == [HEAD] * 3
    with Database(bare_url) as database:
        assert database.read_now(differences) == []


def test_a_failed_migration_leaves_nothing_behind(bare_url: str) -> None:
    with Database(bare_url) as database:
        # In the way of the last step.
        database.write_now(lambda connection: connection.execute(text("CREATE TABLE tool_fts (id INTEGER)")))

        with pytest.raises(Exception, match="tool_fts"):
            migrate_now(database)

        assert database.read_now(lambda connection: inspect(connection).get_table_names()) == ["tool_fts"]


def test_the_index_of_the_migration_is_the_one_a_rebuild_makes(sqlite_database: Database) -> None:
    def definitions(connection: Connection) -> list[str]:
        made = "SELECT sql FROM sqlite_master WHERE name IN ('message_fts', 'tool_fts')"
        sizes = " UNION ALL ".join(
            f"SELECT '{table} ' || v FROM {table}_config WHERE k = 'pgsz'" for table in fulltext.TABLES
        )
        return sorted(connection.execute(text(f"{made} UNION ALL {sizes}")).scalars())

    before = sqlite_database.read_now(definitions)
    sqlite_database.write_now(fulltext.drop_tables)
    sqlite_database.write_now(fulltext.create_tables)

    assert sqlite_database.read_now(definitions) == before
    assert len(before) == 4


def test_nothing_loads_alembic_when_there_is_nothing_to_migrate(
    sqlite_database: Database, sqlite_url: str
) -> None:
    program = (
        "import sys; from trunkline.gateway.state.database import Database; "
        "from trunkline.gateway.state.migrate import migrate_now; "
        f"migrate_now(Database({sqlite_url!r})); sys.exit('alembic' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def migrate_url(url: str) -> str:
    with Database(url) as database:
        return asyncio.run(migrate(database))
