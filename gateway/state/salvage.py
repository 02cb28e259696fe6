"""Saves what can still be read of a damaged SQLite file into a new one that takes its place.

Blocks, and wants the file for itself. When that is done, and whom it is told, is `mending`'s.
"""

import logging
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Table, update

from trunkline.gateway.state import kv
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.messages import reindex
from trunkline.gateway.state.migrate import VERSIONS, migrate_now
from trunkline.gateway.state.schema import inbox, indexed_message, metadata, outbox, person, turn

log = logging.getLogger(__name__)

SALVAGED_AT = "state.salvaged_ms"
"""What was sent before may have been answered although nothing here says so."""
BATCH_ROWS = 500
BESIDE = ("", "-wal", "-shm")
"""How the names of a database's files end. The log may hold what the file has not got yet."""
REASON = "salvaged"
# Of these a lost row may mean that something is answered or sent that already was.
_ANSWERED = frozenset({"inbox", "outbox", "turn", "step", "message", "session"})
_REBUILT = frozenset({indexed_message.name})
_SPARED = frozenset({"turn", "system_prompt", "person"})
"""Parents that a row can do without. Without its account or room it would be nobody's, and never erased."""
_LAST_ROWID = 2**63 - 1

Row = tuple[object, ...]


class Hopeless(Exception):
    """Nobody would be known afterwards. The file is as it was."""


@dataclass(frozen=True, slots=True)
class Salvaged:
    """How many rows the new file has, and the tables of which something could not be read."""

    rows: int
    holes: tuple[str, ...]

    @property
    def forgot_answers(self) -> bool:
        return bool(_ANSWERED.intersection(self.holes))


Last = Callable[[Connection, Salvaged], None]


def salvage(
    file: Path, aside: Path, stamp_ms: int, last: Last = lambda connection, salvaged: None
) -> Salvaged:
    """Copies the damaged file to `aside`, and puts a new one in its place with every row that can be read.

    `last` may write into the new one what is to be known there. A death on the way leaves the damaged file,
    or is made good by `take_place`. Raises Hopeless, OSError, and errors of the new file, as of a full disk.
    """
    part = file.with_name(f".{file.name}.part")
    leftovers = [_beside(part, end) for end in (*BESIDE, "-journal")]
    for leftover in leftovers:
        leftover.unlink(missing_ok=True)
    try:
        _copy_aside(file, aside)
        with closing(_opened(aside)) as old:
            known = _tables(old)
        with Database(f"sqlite:///{part}", journal="delete") as new:
            migrate_now(new)
            salvaged = new.write_now(lambda connection: _fill(connection, aside, known, stamp_ms))
            reindex(new, lambda done, total: log.info("index rebuilt: %d of %d", done, total))
            new.write_now(lambda connection: last(connection, salvaged))
    except BaseException as error:
        for leftover in (*leftovers, *(_beside(aside, end) for end in BESIDE)):
            leftover.unlink(missing_ok=True)
        if isinstance(error, sqlite3.DatabaseError):
            raise Hopeless(str(error)) from error
        raise
    part.rename(_done(file))
    take_place(file)
    return salvaged


def _copy_aside(file: Path, aside: Path) -> None:
    aside.parent.mkdir(parents=True, exist_ok=True)
    for end in BESIDE[:2]:
        if (source := _beside(file, end)).exists():
            shutil.copy2(source, _beside(aside, end))


def take_place(file: Path) -> None:
    """Puts a file that was salvaged whole in place of the damaged one, whose log must not be read into it."""
    if not _done(file).exists():
        return
    for end in BESIDE[1:]:
        _beside(file, end).unlink(missing_ok=True)
    _done(file).replace(file)


def _done(file: Path) -> Path:
    return file.with_name(f".{file.name}.salvaged")


def _beside(file: Path, end: str) -> Path:
    return file.with_name(file.name + end)


def _opened(file: Path) -> sqlite3.Connection:
    os.chmod(file, 0o600)
    old = sqlite3.connect(file, isolation_level=None)
    old.text_factory = lambda raw: raw.decode("utf-8", "replace")
    old.execute("PRAGMA writable_schema = ON")  # else a file that was cut off is not even opened
    return old


def _tables(old: sqlite3.Connection) -> frozenset[str]:
    """The tables there are. Raises Hopeless where this version of the program can't know them."""
    known = frozenset(name for (name,) in old.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))
    with suppress(sqlite3.DatabaseError):
        if "alembic_version" in known:
            for (version,) in old.execute("SELECT version_num FROM alembic_version").fetchall():
                if version not in VERSIONS:
                    raise Hopeless(f"it is of a newer version of the program, schema {version}")
    return known


def _fill(connection: Connection, aside: Path, known: frozenset[str], stamp_ms: int) -> Salvaged:
    with closing(_opened(aside)) as old:
        rows, holes = _copy_all(connection, old, known)
    if connection.execute(person.select().limit(1)).first() is None:
        raise Hopeless("no person could be read")
    holes |= _mend_references(connection)
    salvaged = Salvaged(rows, tuple(sorted(holes)))
    if salvaged.forgot_answers:
        _set_aside(connection, stamp_ms)
    return salvaged


def _copy_all(connection: Connection, old: sqlite3.Connection, known: frozenset[str]) -> tuple[int, set[str]]:
    """Returns how many rows there are, and the tables with holes."""
    connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
    rows, holes = 0, set[str]()
    for table in metadata.sorted_tables:
        if table.name in known and table.name not in _REBUILT:
            read, is_whole = _copy(connection, old, table)
            rows += read
            holes |= set() if is_whole else {table.name}
    return rows, holes


def _copy(connection: Connection, old: sqlite3.Connection, table: Table) -> tuple[int, bool]:
    """Returns how many rows were copied, and whether these are all."""
    there = {row[1] for row in old.execute(f"PRAGMA table_info('{table.name}')")}
    columns = [column.name for column in table.columns if column.name in there]
    listed = ", ".join(f'"{name}"' for name in columns)
    marks = ", ".join("?" * len(columns))
    copied, is_whole = 0, True
    connection.execute(table.delete())
    for batch in _readable(old, table.name, listed):
        if batch is None:
            is_whole = False
            continue
        # What breaks a rule of the table was read from a damaged place.
        added = connection.exec_driver_sql(
            f"INSERT OR IGNORE INTO {table.name} ({listed}) VALUES ({marks})", list(batch)
        ).rowcount
        is_whole = is_whole and added == len(batch)
        copied += added
    return copied, is_whole


def _readable(old: sqlite3.Connection, table: str, listed: str) -> Iterator[Sequence[Row] | None]:
    """The rows in order, some at a time; None for each stretch that can't be read."""
    query = f'SELECT rowid, {listed} FROM "{table}" NOT INDEXED WHERE rowid >= ? ORDER BY rowid LIMIT ?'
    start: int | None = 0
    while start is not None:
        rows, is_whole = _read(old, query, start, BATCH_ROWS)
        if rows:
            start = int(str(rows[-1][0])) + 1
            yield [row[1:] for row in rows]
        if not is_whole:
            yield None
            start = _past_hole(old, query, start)
        elif len(rows) < BATCH_ROWS:
            return


def _read(old: sqlite3.Connection, query: str, start: int, most: int) -> tuple[list[Row], bool]:
    rows: list[Row] = []
    try:
        rows.extend(old.execute(query, (start, most)))
    except sqlite3.DatabaseError:
        return rows, False
    return rows, True


def _past_hole(old: sqlite3.Connection, query: str, start: int) -> int | None:
    """The first place behind `start` from which reading works; None where there is none."""
    step = 1
    while not _read(old, query, start + step, 1)[1]:
        step *= 2
        if start + step > _LAST_ROWID:
            return None
    low, high = start + step // 2, start + step
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _read(old, query, middle, 1)[1] else (middle, high)
    return high


def _mend_references(connection: Connection) -> set[str]:
    """Empties references to lost rows where that may be, deletes the other rows, and theirs in turn.

    Returns their tables.
    """
    tables = set[str]()
    while loose := connection.exec_driver_sql("PRAGMA foreign_key_check").all():
        for name, parent, key in {(row[0], row[2], row[3]) for row in loose}:
            tables.add(name)
            listed = connection.exec_driver_sql(f"PRAGMA foreign_key_list('{name}')").all()
            column = next(one[3] for one in listed if one[0] == key)
            may_be_empty = parent in _SPARED and metadata.tables[name].c[column].nullable
            change = f"UPDATE {name} SET {column} = NULL" if may_be_empty else f"DELETE FROM {name}"
            ids = [(row[1],) for row in loose if (row[0], row[3]) == (name, key)]
            connection.exec_driver_sql(f"{change} WHERE rowid = ?", ids)
    return tables


def _set_aside(connection: Connection, stamp_ms: int) -> None:
    """Nothing that was under way goes on, since nobody knows any more how far it had come."""
    running = update(turn).where(turn.c.state == "running")
    connection.execute(running.values(state="failed", reason=REASON, ended_ms=stamp_ms))
    leased = update(inbox).where(inbox.c.state == "leased")
    connection.execute(leased.values(state="failed", reason=REASON, done_ms=stamp_ms))
    sending = update(outbox).where(outbox.c.state == "sending")
    connection.execute(sending.values(state="unknown", error=REASON))
    kv.put_value(connection, SALVAGED_AT, str(stamp_ms))
