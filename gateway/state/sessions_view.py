"""What `trunkline sessions` and /sessions show: cards, a whole transcript, figures; within a scope."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, func, select

from trunkline.agent.messages import ToolCall
from trunkline.agent.ports import SessionCard
from trunkline.agent.scope import Scope
from trunkline.gateway.state import transcripts
from trunkline.gateway.state.messages import streams_of
from trunkline.gateway.state.schema import session
from trunkline.gateway.state.tool_calls import tool_calls_from_json


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


@dataclass(frozen=True, slots=True)
class WholeMessage:
    """One message with all of its text. `calls` are the tool calls in it; times are aware UTC."""

    id: int
    role: str
    author: str
    text: str
    calls: tuple[ToolCall, ...]
    created: datetime


def whole_session(
    connection: Connection, scope: Scope, public_id: str
) -> tuple[SessionCard, tuple[WholeMessage, ...]] | None:
    """A session with every message that may be shown, uncut; None when it is out of scope."""
    row = transcripts.find_session(connection, streams_of(connection, scope), public_id)
    if row is None:
        return None
    messages = tuple(
        WholeMessage(
            one.id,
            one.role,
            transcripts.author_of(one),
            one.content,
            tool_calls_from_json(one.tool_calls),
            transcripts.when(one.created_ms),
        )
        for one in transcripts.every_row(connection, row)
    )
    return transcripts.card(connection, row), messages


def session_ids(connection: Connection, scope: Scope) -> tuple[str, ...]:
    """Every session of a scope that may be listed, oldest first."""
    query = select(session.c.public_id).where(
        session.c.stream_id.in_(streams_of(connection, scope)),
        session.c.private.is_(False),
        session.c.message_count > 0,
    )
    return tuple(connection.execute(query.order_by(session.c.started_ms, session.c.id)).scalars())
