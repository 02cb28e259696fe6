"""What can be told of the database's health: damage, an index that lacks messages, size, journal.

Reads only, but for the index's own check, which SQLite words as a write.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import DatabaseError

from trunkline.gateway.state import fulltext
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.index_probe import newest_unfound
from trunkline.gateway.state.messages import VISIBLE, index_is_degraded
from trunkline.gateway.state.schema import indexed_message, message, metadata, session, stream

SHOWN_FAULTS = 20
SAMPLE_MESSAGES = 300

REINDEX = "`trunkline db reindex` builds the index anew; no message is lost."
RESTORE = (
    "Restore a backup; else the next start of the assistant saves what can be read, and puts the file aside."
)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. What is not `fine` says in its sentence what to do."""

    subject: str
    fine: bool
    sentence: str


@dataclass(frozen=True, slots=True)
class Size:
    """How big the database is. `journal` is the mode in force, empty on PostgreSQL."""

    rows: dict[str, int]
    file_bytes: int
    free_bytes: int
    journal: str
    engine: str


def check(database: Database) -> tuple[Check, ...]:
    """Everything that `trunkline db check` looks at. Blocks; for the command line."""
    try:
        checks = [database.read_now(_integrity), database.read_now(_references)]
    except DatabaseError as error:
        return (Check("file", False, f"The database can't be read ({error.orig}). {RESTORE}"),)
    return (*checks, _index(database))


def index_state(connection: Connection) -> Check:
    """Whether the index is known to lack messages; quick."""
    if index_is_degraded(connection):
        return Check("index", False, f"The search index lacks messages. {REINDEX}")
    return Check("index", True, "The search index is complete.")


def size(connection: Connection) -> Size:
    rows = {
        table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
        for table in metadata.sorted_tables
    }
    if connection.dialect.name != "sqlite":
        held = connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
        engine = connection.execute(text("SHOW server_version")).scalar_one()
        return Size(rows, int(held), 0, "", f"PostgreSQL {engine}")
    facts = {name: _pragma(connection, name) for name in ("page_count", "page_size", "freelist_count")}
    page_bytes = int(facts["page_size"])
    engine = connection.execute(text("SELECT sqlite_version()")).scalar_one()
    return Size(
        rows,
        int(facts["page_count"]) * page_bytes,
        int(facts["freelist_count"]) * page_bytes,
        journal_mode(connection),
        f"SQLite {engine}",
    )


def journal_mode(connection: Connection) -> str:
    """The journal in force, such as `wal` or `delete`; empty on PostgreSQL."""
    return "" if connection.dialect.name != "sqlite" else _pragma(connection, "journal_mode")


def _pragma(connection: Connection, name: str) -> str:
    return str(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())


def _integrity(connection: Connection) -> Check:
    if connection.dialect.name != "sqlite":
        return Check("file", True, "PostgreSQL looks after its own files.")
    found = [row[0] for row in connection.exec_driver_sql(f"PRAGMA integrity_check({SHOWN_FAULTS})")]
    if found == ["ok"]:
        return Check("file", True, "SQLite's integrity check finds nothing wrong.")
    return Check("file", False, f"The file is damaged: {'; '.join(found)}. {RESTORE}")


def _references(connection: Connection) -> Check:
    if connection.dialect.name != "sqlite":
        return Check("references", True, "PostgreSQL keeps references whole.")
    loose = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA foreign_key_check")]
    if not loose:
        return Check("references", True, "Every reference leads to a row.")
    named = ", ".join(sorted(set(loose)))
    return Check("references", False, f"{len(loose)} references lead nowhere, in {named}. {RESTORE}")


def _index(database: Database) -> Check:
    try:
        database.write_now(_ask_index)
        faults = database.read_now(_index_faults)
    except DatabaseError as error:
        return Check("index", False, f"The search index is broken ({error.orig}). {REINDEX}")
    if faults:
        return Check("index", False, f"The search index is wrong: {'; '.join(faults)}. {REINDEX}")
    return Check("index", True, "The search index holds every message that can be searched.")


def _ask_index(connection: Connection) -> None:
    if connection.dialect.name == "sqlite":
        for table in fulltext.TABLES:
            connection.exec_driver_sql(f"INSERT INTO {table}({table}) VALUES ('integrity-check')")


def _index_faults(connection: Connection) -> list[str]:
    faults = [] if index_state(connection).fine else ["it is marked as incomplete"]
    searchable = (
        select(message.c.id)
        .join(session, session.c.id == message.c.session_id)
        .where(message.c.state.in_(VISIBLE), session.c.private.is_(False))
        .subquery()
    )
    lacking = connection.execute(
        select(func.count())
        .select_from(searchable.outerjoin(indexed_message, indexed_message.c.id == searchable.c.id))
        .where(indexed_message.c.id.is_(None))
    ).scalar_one()
    strays = connection.execute(
        select(func.count())
        .select_from(indexed_message.outerjoin(searchable, indexed_message.c.id == searchable.c.id))
        .where(searchable.c.id.is_(None))
    ).scalar_one()
    faults += [f"{lacking} messages are not in it"] if lacking else []
    faults += [f"{strays} entries have no message"] if strays else []
    faults += ["its counts are wrong"] if _counted_wrong(connection) else []
    unfound = newest_unfound(connection, SAMPLE_MESSAGES)
    return faults + ([f"{unfound} of the newest messages are not found by their words"] if unfound else [])


def _counted_wrong(connection: Connection) -> bool:
    """Whether a stream's counts, which ranking goes by, differ from its entries."""
    of = indexed_message.c.id // (1 << fulltext.STREAM_BITS)
    rows = connection.execute(
        select(of, func.count(), func.sum(indexed_message.c.words))
        .where(indexed_message.c.role != fulltext.TOOL)
        .group_by(of)
    ).all()
    counted = {int(row[0]): (int(row[1]), int(row[2])) for row in rows}
    stored = connection.execute(select(stream.c.id, stream.c.indexed_count, stream.c.indexed_words)).all()
    return any(counted.get(row.id, (0, 0)) != (row.indexed_count, row.indexed_words) for row in stored)
