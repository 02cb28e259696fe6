"""What `trunkline sessions` and /sessions show: cards, a whole transcript, figures; within a scope."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, func, select

from trunkline.agent.ports import SessionCard, TranscriptLine
from trunkline.agent.scope import Scope
from trunkline.gateway.state import transcripts
from trunkline.gateway.state.messages import streams_of
from trunkline.gateway.state.schema import session


@dataclass(frozen=True, slots=True)
class SessionFigures:
    """Sums over a scope's sessions. Times are aware UTC, None without a session; cost is in millionths."""

    sessions: int
    messages: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_micros: int
    first: datetime | None
    last: datetime | None


def list_sessions(
    connection: Connection, scope: Scope, limit: int, platform: str | None = None
) -> tuple[SessionCard, ...]:
    """Newest first."""
    return transcripts.browse(connection, streams_of(connection, scope), limit, platform)


def show_session(connection: Connection, scope: Scope, public_id: str) -> SessionCard | None:
    row = transcripts.find_session(connection, streams_of(connection, scope), public_id)
    return None if row is None else transcripts.card(connection, row)


def session_lines(
    connection: Connection, scope: Scope, public_id: str, max_chars: int
) -> Iterator[TranscriptLine]:
    """Every line of a session in order, each at most `max_chars` long; none when it is out of scope."""
    row = transcripts.find_session(connection, streams_of(connection, scope), public_id)
    if row is not None:
        yield from transcripts.every_line(connection, row, max_chars)


def figures(connection: Connection, scope: Scope) -> SessionFigures:
    row = connection.execute(
        select(
            func.count(),
            func.coalesce(func.sum(session.c.message_count), 0),
            func.coalesce(func.sum(session.c.prompt_tokens), 0),
            func.coalesce(func.sum(session.c.cached_tokens), 0),
            func.coalesce(func.sum(session.c.completion_tokens), 0),
            func.coalesce(func.sum(session.c.cost_micros), 0),
            func.min(session.c.started_ms),
            func.max(session.c.last_ms),
        ).where(session.c.stream_id.in_(streams_of(connection, scope)))
    ).one()
    size, messages, prompt, cached, completion, cost = (int(value) for value in row[:6])
    first, last = (None if ms is None else transcripts.when(ms) for ms in row[6:])
    return SessionFigures(size, messages, prompt, cached, completion, cost, first, last)
