"""Makes a database ready for a start: looks it over, brings it to this version's schema, or says why not."""

import logging
import time

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, OperationalError

from trunkline.gateway.state.checks import RESTORE
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.migrate import DatabaseTooNew, migrate
from trunkline.gateway.state.schema import metadata

log = logging.getLogger(__name__)

LOOK_S = 10.0
"""How long a start looks for damage; `trunkline db check` looks at everything, however long it takes."""
_STEPS = 20_000
"""SQLite's steps between two looks at the clock: some milliseconds."""
_DAMAGED = frozenset({11, 26})
"""SQLite's codes SQLITE_CORRUPT and SQLITE_NOTADB."""


class Unusable(Exception):
    """The text is a sentence for people. `may_pass` tells that trying again later may help."""

    def __init__(self, sentence: str, *, may_pass: bool) -> None:
        super().__init__(sentence)
        self.may_pass = may_pass


class Damaged(Unusable):
    """`what` is SQLite's own word of the first fault."""

    def __init__(self, what: str) -> None:
        super().__init__(f"The database is damaged: {what}. {RESTORE}", may_pass=False)
        self.what = what


async def make_ready(database: Database) -> None:
    """Returns when the database can be worked with. Raises Unusable, and Damaged where a file is broken."""
    try:
        damage = await database.read(find_damage) if database.is_sqlite else ""
        if not damage:
            await migrate(database)
    except DatabaseTooNew as error:
        raise Unusable(str(error), may_pass=False) from error
    except DBAPIError as error:
        if getattr(error.orig, "sqlite_errorcode", None) not in _DAMAGED:
            raise Unusable(f"The database can't be used now ({error.orig}).", may_pass=True) from error
        damage = str(error.orig)
    if damage:
        raise Damaged(damage)


def find_damage(connection: Connection, look_s: float = LOOK_S) -> str:
    """The first fault of SQLite's file, or nothing; also nothing when the time is over before one is found.

    The search index is not looked at: when it is broken, everything but searching works.
    """
    until_s = time.monotonic() + look_s
    driver = connection.connection.driver_connection
    assert driver is not None
    driver.set_progress_handler(lambda: time.monotonic() > until_s, _STEPS)
    try:
        known = {row[0] for row in connection.exec_driver_sql("SELECT name FROM sqlite_master")}
        for table in metadata.sorted_tables:
            if table.name in known:
                found = connection.exec_driver_sql(f"PRAGMA quick_check('{table.name}')").scalar_one()
                if found != "ok":
                    return str(found).replace("\n", " ")
    except OperationalError as error:
        if time.monotonic() <= until_s:
            raise
        log.info("not looked over in time: %s", type(error).__name__)
    finally:
        driver.set_progress_handler(None, 0)
    return ""
