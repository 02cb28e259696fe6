"""Queries for the part of a review that is about skills: whether the work since the last one calls for it."""

from sqlalchemy import Connection, func, select

from trunkline.gateway.state.kv import get_value, put_value
from trunkline.gateway.state.schema import message


def find_due(
    connection: Connection, session_id: int, public_id: str, turn_id: int, rounds: int
) -> int | None:
    """The last turn reviewed for skills, if the turns since had so many steps with tool calls; else None.

    Counts from the last change that the model itself made to a skill in this session, too. 0 rounds is never.
    """
    if rounds == 0:
        return None
    reviewed = load_mark(connection, public_id)
    after = max(reviewed, _last_change(connection, session_id))
    steps = select(func.count()).where(
        message.c.session_id == session_id,
        message.c.role == "assistant",
        message.c.tool_calls.is_not(None),
        message.c.turn_id > after,
        message.c.turn_id <= turn_id,
    )
    return reviewed if connection.execute(steps).scalar_one() >= rounds else None


def load_mark(connection: Connection, public_id: str) -> int:
    return int(get_value(connection, _mark_key(public_id)) or 0)


def put_mark(connection: Connection, public_id: str, turn_id: int) -> None:
    put_value(connection, _mark_key(public_id), str(turn_id))


def _mark_key(public_id: str) -> str:
    return f"review.skills.{public_id}"


def _last_change(connection: Connection, session_id: int) -> int:
    query = select(func.max(message.c.turn_id)).where(
        message.c.session_id == session_id,
        message.c.role == "tool",
        message.c.tool_name == "skill_manage",
        ~message.c.is_error,
    )
    return connection.execute(query).scalar() or 0
