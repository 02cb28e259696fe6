"""Runs Alembic from code, in a transaction of the caller's. Only `migrate` loads it."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Table
from sqlalchemy.schema import SchemaItem

from trunkline.gateway.state.fulltext import TABLES


def upgrade_to_head(connection: Connection) -> None:
    command.upgrade(configuration(connection), "head")


def configuration(connection: Connection) -> Config:
    """Alembic's configuration, with the connection that `env` uses."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def is_ours(
    item: SchemaItem, name: str | None, kind: str, _reflected: bool, _other: SchemaItem | None
) -> bool:
    """Leaves what the full-text index keeps for itself out of comparisons with the schema."""
    table = item.name if isinstance(item, Table) else getattr(getattr(item, "table", None), "name", "")
    return not str(table).startswith(TABLES)
