"""Brings a database to the schema of this version: forward only, once, however many processes start at once.

Alembic is loaded only when there is something to do.
"""

import importlib
import logging
from collections.abc import Callable
from typing import cast

from sqlalchemy import Connection, inspect, text

from trunkline.gateway.state.database import Database

logger = logging.getLogger(__name__)

# Every version there was, oldest first; the last is the one this program works with.
VERSIONS = ("0001", "0002", "0003", "0004")
HEAD = VERSIONS[-1]


class DatabaseTooNew(Exception):
    """The database was written by a later version of the program. The message is a sentence for people."""


async def migrate(database: Database) -> str:
    """Migrates to the newest version and returns it. Raises DatabaseTooNew, or the database's own error."""
    if await database.read(current_version) == HEAD:
        return HEAD
    return await database.write_alone(_migrate)


def migrate_now(database: Database) -> str:
    """`migrate` for callers without an event loop."""
    if database.read_now(current_version) == HEAD:
        return HEAD
    return database.write_alone_now(_migrate)


def current_version(connection: Connection) -> str | None:
    """The version the database is at; None before the first migration. Raises DatabaseTooNew."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    version = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    if version is not None and version not in VERSIONS:
        raise DatabaseTooNew(
            f"This database is of a newer Trunkline (schema {version}; this one knows up to {HEAD}). "
            "Install that version again, or restore the backup made before the update."
        )
    return None if version is None else str(version)


def _migrate(connection: Connection) -> str:
    before = current_version(connection)
    if before != HEAD:
        module = importlib.import_module("trunkline.gateway.state.migrations.upgrade")
        cast("Callable[[Connection], None]", module.upgrade_to_head)(connection)
        logger.info("database migrated: from %s to %s", before or "nothing", HEAD)
    return HEAD
