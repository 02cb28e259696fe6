"""Vectors kept and compared by PostgreSQL's extension pgvector, so that no process holds them in memory.

Its table is made here, beside the schema of all installs, since few servers have the extension. A row of it
goes with its row of `embedding`, which holds everything but the numbers.
"""

import logging
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, insert, text
from sqlalchemy.exc import DBAPIError

from trunkline.gateway.state import fulltext
from trunkline.gateway.state.embedding import SAID, Near
from trunkline.gateway.state.fulltext import Reach
from trunkline.gateway.state.schema import embedding

logger = logging.getLogger(__name__)

_HAS = "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'"
_PREPARED = (
    "CREATE EXTENSION IF NOT EXISTS vector",
    "CREATE TABLE IF NOT EXISTS embedding_vector (message_id BIGINT, model TEXT, vector VECTOR NOT NULL, "
    "CONSTRAINT pk_embedding_vector PRIMARY KEY (message_id, model), "
    "CONSTRAINT fk_embedding_vector FOREIGN KEY (message_id, model) REFERENCES embedding ON DELETE CASCADE)",
)
_ADD = text(
    "INSERT INTO embedding_vector (message_id, model, vector) "
    "VALUES (:message_id, :model, CAST(:vector AS vector))"
)
# No index of neighbours: it would be one of all people's, and what is asked for are one person's. Each stream
# is a stretch of the primary key.
_NEAREST = text(
    """
    SELECT DISTINCT ON (session_id) session_id, closeness, seq, created_ms
    FROM (
        SELECT m.session_id, m.seq, m.created_ms,
            CASE WHEN vector_dims(v.vector) = :size THEN -(v.vector <#> CAST(:question AS vector)) END
                AS closeness
        FROM unnest(CAST(:lows AS bigint[]), CAST(:highs AS bigint[])) AS reach (low, high)
        JOIN embedding_vector v ON v.message_id BETWEEN reach.low AND reach.high
        JOIN indexed_message m ON m.id = v.message_id
        WHERE v.model = :model AND m.role = ANY(:roles)
            AND m.created_ms BETWEEN :since AND :until
    ) AS near
    WHERE closeness IS NOT NULL
    ORDER BY session_id, closeness DESC
    """
)
_EVER_MS = (-(1 << 63), (1 << 63) - 1)


def prepare(connection: Connection) -> bool:
    """Makes extension and table where they are not there yet; false where the server can't have them."""
    if not connection.execute(text(_HAS)).scalar_one():
        return False
    try:
        with connection.begin_nested():
            for statement in _PREPARED:
                connection.execute(text(statement))
    except DBAPIError as error:
        logger.info("vectors are compared without pgvector: %s", type(error.orig).__name__)
        return False
    return True


class ServerVectors:
    """The vectors of one model in `embedding_vector`. Use only where `prepare` was true.

    The model's name differs from that of vectors kept as bytes, so that a change of place embeds anew.
    """

    def __init__(self, model: str) -> None:
        self.model = f"{model} (pgvector)"

    def add(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        connection.execute(insert(embedding), [row | {"vector": b""} for row in rows])
        connection.execute(
            _ADD,
            [
                {
                    "message_id": row["message_id"],
                    "model": row["model"],
                    "vector": _written(row["vector"].tolist()),
                }
                for row in rows
            ],
        )

    def nearest(self, connection: Connection, question: Sequence[float], reach: Reach) -> list[Near]:
        spans = [fulltext.span(one) for one in reach.streams]
        since, until = _EVER_MS
        rows = connection.execute(
            _NEAREST,
            {
                "lows": [low for low, _ in spans],
                "highs": [high for _, high in spans],
                "roles": [role for role in reach.roles if role in SAID],
                "since": since if reach.since_ms is None else reach.since_ms,
                "until": until if reach.until_ms is None else reach.until_ms,
                "model": self.model,
                "size": len(question),
                "question": _written(question),
            },
        )
        return [Near(row.session_id, row.closeness, row.seq, row.created_ms) for row in rows]


def _written(vector: Sequence[float]) -> str:
    return f"[{','.join(map(str, vector))}]"
