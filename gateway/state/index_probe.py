"""Whether the index finds what it holds: SQLite reads some damage as emptiness and raises no error.

It reads a few messages and asks for one word of each. Looking at all of the index belongs to `checks`.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, select

from trunkline.gateway.state import fulltext
from trunkline.gateway.state.analyser import analyse
from trunkline.gateway.state.fulltext import Reach
from trunkline.gateway.state.messages import INDEXED_TOOL_CHARS
from trunkline.gateway.state.schema import indexed_message, message

PROBES = 4
PROBED_CHARS = INDEXED_TOOL_CHARS

_INDEXED: Select[Any] = select(message.c.id, message.c.content, message.c.role).join(
    indexed_message, indexed_message.c.id == message.c.id
)
_LAST_SAID = (
    _INDEXED.where(
        indexed_message.c.id.between(bindparam("low"), bindparam("high")),
        indexed_message.c.role != fulltext.TOOL,
    )
    .order_by(indexed_message.c.id.desc())
    .limit(1)
)


def is_blind(connection: Connection, reach: Reach) -> bool:
    """Whether one of PROBES messages, spread over the reach's largest stream, is not found by its words."""
    size, stream = max(zip(reach.sizes, reach.streams, strict=True))
    low, _ = fulltext.span(stream)
    probed: list[Row[Any]] = []
    for part in range(1, PROBES + 1):
        probed += connection.execute(_LAST_SAID, {"low": low, "high": low + size * part // PROBES}).all()
    return bool(unfound(connection, probed))


def newest_unfound(connection: Connection, count: int) -> int:
    """How many of the newest messages in the index their own longest word does not find."""
    newest = _INDEXED.order_by(indexed_message.c.created_ms.desc()).limit(count)
    return unfound(connection, connection.execute(newest))


def unfound(connection: Connection, rows: Iterable[Row[Any]]) -> int:
    """How many of these messages (id, content, role) their own longest word does not find."""
    missed = 0
    for row in rows:
        words = analyse(row.content[:PROBED_CHARS]).words
        if len(row.content) > PROBED_CHARS:
            words = words[:-1]  # it may be cut in two
        if words:
            word = max(words, key=len)
            missed += not fulltext.holds(connection, row.id, word, is_tool=row.role == "tool")
    return missed
