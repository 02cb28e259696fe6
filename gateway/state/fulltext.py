"""The full-text index in its two dialects: FTS5 on SQLite, tsvector with GIN on PostgreSQL.

It stores and finds tokens. What a token is belongs to `analyser`, what a hit is worth to `ranking`. Two
tables of one shape: `message_fts` holds what people and the assistant said, `tool_fts` what tools returned.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, text
from sqlalchemy.exc import DatabaseError, DBAPIError, SQLAlchemyError

STREAM_BITS = 32

# A tsvector keeps 256 positions of a lexeme, none above 16383, and is under 1 MB: long texts are stored in
# parts. Their overlap lets the longest phrase cross a border.
PART_WORDS = 2000
MAX_PHRASE_WORDS = 64

_SQLITE_TABLE = (
    "CREATE VIRTUAL TABLE {table} USING fts5(tokens, content='', columnsize=0, detail=full, "
    "tokenize=\"ascii tokenchars '-_./:@#+&=\\~'\")"
)
# FTS5's own tables as its source makes them, with the two records of an empty index.
_SQLITE_BLANK = (
    "CREATE TABLE IF NOT EXISTS {table}_data (id INTEGER PRIMARY KEY, block BLOB)",
    "CREATE TABLE IF NOT EXISTS {table}_idx (segid, term, pgno, PRIMARY KEY (segid, term)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS {table}_config (k PRIMARY KEY, v) WITHOUT ROWID",
    "REPLACE INTO {table}_config VALUES ('version', 4)",
    "REPLACE INTO {table}_data VALUES (1, x''), (10, x'00000000000000')",
)
_SQLITE_REMAINS = tuple(f"DROP TABLE IF EXISTS {{table}}_{part}" for part in ("data", "idx", "config"))
_POSTGRES_TABLE = (
    "CREATE TABLE {table} (id BIGINT NOT NULL, part INTEGER NOT NULL, tokens TSVECTOR NOT NULL, "
    "CONSTRAINT pk_{table} PRIMARY KEY (id, part))",
    "CREATE INDEX ix_{table}_tokens ON {table} USING gin (tokens)",
)
# FTS5 finds its way by the page, and from there reads over other streams' postings one by one. Measured in
# docs/benchmarks.md: with its own 4,050 bytes a word of the first stream took three times as long to read.
PAGE_BYTES = 1000
ID_BATCH = 500
STREAM_BATCH = 200  # SQLite compounds at most 500 SELECTs
MIN_SHARE = 20
SAMPLED_STREAMS = 20

# No such table comes as a plain error. Classes: undefined object, internal error with index corrupted.
_SQLITE_FAULTS = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_POSTGRES_FAULTS = ("42", "XX")
_COLUMNS = "m.id, m.session_id, m.seq, m.words, coalesce(m.account_id, 0), m.created_ms"
TABLES = ("message_fts", "tool_fts")

# What is asked of the newest matches in a stream. Their ids come as one text: a row for each takes longer.
_LISTED = "SELECT CAST({{limit}} AS BIGINT), {joined} FROM ({{branch}}) AS matching"
_SQLITE_LISTED = _LISTED.format(joined="group_concat(id)")
_POSTGRES_LISTED = _LISTED.format(joined="string_agg(CAST(id AS TEXT), ',')")
_COUNTED = (
    "SELECT count(*), CAST({limit} AS BIGINT), coalesce(min(id), 0), coalesce(max(id), 0) "
    "FROM ({branch}) AS matching"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One message's tokens: `words` have positions, `wholes` none. `is_tool` chooses the table."""

    id: int
    words: tuple[str, ...]
    wholes: tuple[str, ...]
    is_tool: bool


@dataclass(frozen=True, slots=True)
class Phrase:
    """At most MAX_PHRASE_WORDS tokens in a row; with `is_prefix` the last one may go on."""

    words: tuple[str, ...]
    is_prefix: bool = False


Pattern = tuple[Phrase, ...]
"""Alternatives: a message matches when any of its phrases stands in it."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Where a query may look: streams, kinds of message, and an optional span of time in ms.

    `sizes` are the streams' messages, by which they share a bound on work; without them they share evenly.
    """

    streams: tuple[int, ...]
    roles: tuple[int, ...]
    since_ms: int | None = None
    until_ms: int | None = None
    sizes: tuple[int, ...] = ()

    @property
    def tables(self) -> tuple[str, ...]:
        said = ("message_fts",) if any(role != TOOL for role in self.roles) else ()
        return (*said, "tool_fts") if TOOL in self.roles else said

    @property
    def is_narrowed(self) -> bool:
        """Whether it leaves out messages of its streams."""
        spoken = set(self.roles) == {USER, ASSISTANT}
        return not spoken or self.since_ms is not None or self.until_ms is not None

    def shares(self, bound: int) -> list[int]:
        """How much of a bound on the whole is each stream's."""
        sizes = self.sizes or (1,) * len(self.streams)
        total = max(sum(sizes), 1)
        return [max(MIN_SHARE, bound * size // total) for size in sizes]


USER, ASSISTANT, TOOL = 0, 1, 2
ROLES = {"user": USER, "assistant": ASSISTANT, "tool": TOOL}


class Posting(NamedTuple):
    """One message that holds a token, and what ranking needs of it. `account_id` is 0 without an author."""

    id: int
    session_id: int
    seq: int
    words: int
    account_id: int
    created_ms: int


def is_broken(error: SQLAlchemyError) -> bool:
    """Whether an error of the database says that the index is damaged or gone, not only busy."""
    if not isinstance(error, DBAPIError) or not any(table in (error.statement or "") for table in TABLES):
        return False
    if isinstance(error.orig, sqlite3.Error):
        return (error.orig.sqlite_errorcode & 0xFF) in _SQLITE_FAULTS
    return str(getattr(error.orig, "sqlstate", "")).startswith(_POSTGRES_FAULTS)


def create_tables(connection: Connection) -> None:
    for table in TABLES:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql(_SQLITE_TABLE.format(table=table))
            connection.exec_driver_sql(f"INSERT INTO {table}({table}, rank) VALUES ('pgsz', {PAGE_BYTES})")
        else:
            for statement in _POSTGRES_TABLE:
                connection.exec_driver_sql(statement.format(table=table))


def drop_tables(connection: Connection) -> None:
    """Removes the index, however damaged it is."""
    for table in TABLES:
        if connection.dialect.name == "sqlite":
            _blank(connection, table)
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS {table}")


def _blank(connection: Connection, table: str) -> None:
    """Makes FTS5's own tables those of an empty index: what it can't read it would not drop either."""
    known = text("SELECT 1 FROM sqlite_schema WHERE name = :table")
    exists = connection.execute(known, {"table": table}).first() is not None
    for statement in _SQLITE_BLANK if exists else _SQLITE_REMAINS:
        connection.exec_driver_sql(statement.format(table=table))


def insert_entries(connection: Connection, entries: Sequence[Entry]) -> None:
    """Adds messages that are not in the index yet."""
    for table, chosen in _by_table(entries):
        if connection.dialect.name == "sqlite":
            connection.execute(
                text(f"INSERT INTO {table}(rowid, tokens) VALUES (:id, :tokens)"),
                [{"id": entry.id, "tokens": _spaced(entry)} for entry in chosen],
            )
        else:
            connection.execute(
                text(f"INSERT INTO {table}(id, part, tokens) VALUES (:id, :part, CAST(:tokens AS tsvector))"),
                [
                    {"id": entry.id, "part": part, "tokens": tokens}
                    for entry in chosen
                    for part, tokens in enumerate(_vectors(entry))
                ],
            )


def remove_entries(connection: Connection, entries: Sequence[Entry]) -> None:
    """Takes messages out. Each entry must hold the very tokens that were inserted."""
    for table, chosen in _by_table(entries):
        if connection.dialect.name == "sqlite":
            connection.execute(
                text(f"INSERT INTO {table}({table}, rowid, tokens) VALUES ('delete', :id, :tokens)"),
                [{"id": entry.id, "tokens": _spaced(entry)} for entry in chosen],
            )
        else:
            connection.execute(
                text(f"DELETE FROM {table} WHERE id = :id"), [{"id": entry.id} for entry in chosen]
            )


def count(connection: Connection, pattern: Pattern, reach: Reach, cap: int) -> int:
    """How many messages of the streams match: about `cap` are counted, the rest is estimated."""
    total = 0
    for statement, values in _selects(connection, pattern, reach, _COUNTED, cap):
        for found, limit, oldest, newest in rows(connection, statement, values):
            total += _in_all(found, limit, oldest, newest)
    return total


def matches(connection: Connection, pattern: Pattern, reach: Reach, limit: int) -> tuple[set[int], int]:
    """The ids of about `limit` newest matching messages, and how many more or less there are in all."""
    shape = _SQLITE_LISTED if connection.dialect.name == "sqlite" else _POSTGRES_LISTED
    found: set[int] = set()
    total = 0
    for statement, values in _selects(connection, pattern, reach, shape, limit):
        for share, listed in rows(connection, statement, values):
            if listed:
                ids = json.loads(f"[{listed}]")
                found.update(ids)
                total += _in_all(len(ids), share, min(ids), max(ids))
    return found, total


def posting_ids(connection: Connection, pattern: Pattern, reach: Reach, limit: int) -> set[int]:
    """The ids of about `limit` newest matching messages."""
    return matches(connection, pattern, reach, limit)[0]


def _in_all(found: int, limit: int, oldest: int, newest: int) -> int:
    """A stream's matches, where the newest `found`, at most `limit`, have these ids."""
    if found < limit:
        return found
    # A stream numbers its messages from one: its newest stretch is taken to be like the rest.
    return found * (newest & ((1 << STREAM_BITS) - 1)) // (newest - oldest + 1)


def holds(connection: Connection, message_id: int, word: str, *, is_tool: bool) -> bool:
    """Whether the index has this word in this message."""
    table = TABLES[is_tool]
    where = f"{table} MATCH :match AND rowid = :id"
    if connection.dialect.name != "sqlite":
        where = "tokens @@ CAST(:match AS tsquery) AND id = :id"
    match = _match_text(connection, (Phrase((word,)),), message_id >> STREAM_BITS)
    found = rows(connection, f"SELECT 1 FROM {table} WHERE {where}", {"match": match, "id": message_id})
    return bool(found)


def postings_of(connection: Connection, ids: Set[int], reach: Reach) -> list[Posting]:
    """What ranking needs of these messages, as far as their role and time are asked for."""
    found: list[Posting] = []
    values: dict[str, str | int] = {}
    filters = _filters(reach, values)
    ordered = sorted(ids)
    for start in range(0, len(ordered), ID_BATCH):
        listed = ", ".join(str(one) for one in ordered[start : start + ID_BATCH])
        statement = f"SELECT {_COLUMNS} FROM indexed_message m WHERE m.id IN ({listed}){filters}"
        found.extend(map(Posting._make, rows(connection, statement, values)))
    return found


def share_by(connection: Connection, accounts: Set[int], reach: Reach, limit: int) -> float:
    """Which part of about `limit` newest messages of the reach's largest streams these accounts wrote."""
    values: dict[str, str | int] = {}
    filters = _filters(reach, values)
    branches = []
    shares = reach.shares(limit)
    listed = ", ".join(map(str, accounts))
    for place in sorted(range(len(shares)), key=lambda place: -shares[place])[:SAMPLED_STREAMS]:
        values[f"low{place}"], values[f"high{place}"] = span(reach.streams[place])
        values[f"limit{place}"] = shares[place]
        branches.append(
            f"SELECT count(*), count(CASE WHEN account_id IN ({listed}) THEN 1 END) FROM ("
            f"SELECT m.account_id FROM indexed_message m WHERE m.id BETWEEN :low{place} AND :high{place}"
            f"{filters} ORDER BY m.id DESC LIMIT :limit{place}) AS newest"
        )
    counted = rows(connection, " UNION ALL ".join(branches), values)
    read, written = (sum(column) for column in zip(*counted, strict=True))
    return float(written / max(read, 1))


def forget_removed(connection: Connection) -> None:
    """Rewrites the index so that its file holds no word of removed messages any more. Slow: for erasures."""
    if connection.dialect.name == "sqlite":
        for table in TABLES:
            connection.exec_driver_sql(f"INSERT INTO {table}({table}) VALUES ('optimize')")


def span(stream: int) -> tuple[int, int]:
    """The first and the last id that a stream's messages can have."""
    return stream << STREAM_BITS, ((stream + 1) << STREAM_BITS) - 1


def _by_table(entries: Iterable[Entry]) -> list[tuple[str, list[Entry]]]:
    said = [entry for entry in entries if not entry.is_tool]
    returned = [entry for entry in entries if entry.is_tool]
    return [(table, chosen) for table, chosen in zip(TABLES, (said, returned), strict=True) if chosen]


def _spaced(entry: Entry) -> str:
    return " ".join((*entry.words, *entry.wholes))


def _vectors(entry: Entry) -> list[str]:
    """The entry as tsvector literals, one for each part."""
    step, stream = PART_WORDS - MAX_PHRASE_WORDS, entry.id >> STREAM_BITS
    literals = []
    for start in range(0, max(len(entry.words), 1), step):
        positions: dict[str, list[int]] = {}
        for place, word in enumerate(entry.words[start : start + PART_WORDS], 1):
            positions.setdefault(word, []).append(place)
        lexemes = [f"{_lexeme(stream, word)}:{','.join(map(str, at))}" for word, at in positions.items()]
        share = (
            entry.wholes[start : start + step] if start + step < len(entry.words) else entry.wholes[start:]
        )
        lexemes.extend(_lexeme(stream, whole) for whole in set(share) if whole not in positions)
        literals.append(" ".join(lexemes))
    return literals


def _lexeme(stream: int, word: str) -> str:
    """A word as PostgreSQL stores it: with its stream, so that a query reads only that stream's postings."""
    doubled = word.replace("\\", "\\\\").replace("'", "''")
    return f"'{stream:x} {doubled}'"


def _match_text(connection: Connection, pattern: Pattern, stream: int) -> str:
    if connection.dialect.name == "sqlite":
        return " OR ".join(
            '"' + " ".join(phrase.words).replace('"', '""') + '"' + ("*" if phrase.is_prefix else "")
            for phrase in pattern
        )
    return " | ".join(
        "("
        + " <-> ".join(
            _lexeme(stream, word) + (":*" if phrase.is_prefix and place == len(phrase.words) else "")
            for place, word in enumerate(phrase.words, 1)
        )
        + ")"
        for phrase in pattern
    )


def rows(
    connection: Connection, statement: str, values: Mapping[str, str | int]
) -> Sequence[tuple[Any, ...]]:
    """The rows as plain tuples; on SQLite past SQLAlchemy, which costs more than the search for thousands."""
    if connection.dialect.name != "sqlite":
        return [tuple(row) for row in connection.execute(text(statement), values).all()]
    cursor = connection.connection.cursor()
    try:
        return cursor.execute(statement, values).fetchall()  # type: ignore[no-any-return]
    except sqlite3.Error as error:
        raise DatabaseError(statement, dict(values), error) from error
    finally:
        cursor.close()


def _selects(
    connection: Connection, pattern: Pattern, reach: Reach, shape: str, bound: int
) -> Iterator[tuple[str, dict[str, str | int]]]:
    """SELECTs over every stream of the reach, each cut at its share, a bounded number in a statement."""
    branch = _sqlite_branch if connection.dialect.name == "sqlite" else _postgres_branch
    shares = reach.shares(bound)
    for table in reach.tables:
        for start in range(0, len(reach.streams), STREAM_BATCH):
            values: dict[str, str | int] = {}
            filters = _filters(reach, values) if reach.is_narrowed else ""
            branches = []
            for place in range(start, min(start + STREAM_BATCH, len(reach.streams))):
                stream = reach.streams[place]
                values[f"low{place}"], values[f"high{place}"] = span(stream)
                values[f"match{place}"] = _match_text(connection, pattern, stream)
                values[f"limit{place}"] = shares[place]
                branches.append(shape.format(branch=branch(table, place, filters), limit=f":limit{place}"))
            yield " UNION ALL ".join(branches), values


def _sqlite_branch(table: str, place: int, filters: str) -> str:
    # The range on rowid makes FTS5 read that stream's postings only.
    joined = "CROSS JOIN indexed_message AS m ON m.id = f.rowid" if filters else ""
    return (
        f"SELECT f.rowid AS id FROM {table} AS f {joined} "
        f"WHERE {table} MATCH :match{place} AND f.rowid BETWEEN :low{place} AND :high{place}{filters} "
        f"ORDER BY f.rowid DESC LIMIT :limit{place}"
    )


def _postgres_branch(table: str, place: int, filters: str) -> str:
    where = f"f.tokens @@ CAST(:match{place} AS tsquery) AND f.id BETWEEN :low{place} AND :high{place}"
    newest = f"ORDER BY id DESC LIMIT :limit{place}"
    if not filters:
        return f"SELECT DISTINCT f.id FROM {table} f WHERE {where} {newest}"
    matching = f"SELECT f.id FROM {table} f WHERE {where}"
    return f"SELECT m.id FROM indexed_message m WHERE m.id IN ({matching}){filters} {newest}"


def _filters(reach: Reach, values: dict[str, str | int]) -> str:
    parts = ""
    if set(reach.roles) != {USER, ASSISTANT}:
        parts += f" AND m.role IN ({', '.join(str(role) for role in reach.roles)})"
    if reach.since_ms is not None:
        values["since"] = reach.since_ms
        parts += " AND m.created_ms >= :since"
    if reach.until_ms is not None:
        values["until"] = reach.until_ms
        parts += " AND m.created_ms <= :until"
    return parts
