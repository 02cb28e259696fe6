"""Has memory providers told that a session has ended, whatever ended it. Never of a private one."""

from sqlalchemy import Connection, func, select

from trunkline.gateway.state import kv, provider_rows
from trunkline.gateway.state.provider_payloads import SessionEnded
from trunkline.gateway.state.schema import account, person, room, session, stream

ENDED_MARK = "providers.ended_ms"
SETTLED_MS = 5_000
"""So long the commit of a session's end may take; later nothing comes in before the mark."""


def note_ended_sessions(connection: Connection, stamp_ms: int) -> bool:
    """Has the providers told of sessions that ended since the last look, SETTLED_MS ago and longer.

    Returns whether there were any.
    """
    mark = kv.get_value(connection, ENDED_MARK)
    if mark is None:
        latest = connection.execute(select(func.max(session.c.ended_ms))).scalar() or 0
        kv.put_value(connection, ENDED_MARK, str(latest))
        return False
    query = (
        select(session.c.public_id, session.c.platform, session.c.ended_ms, person.c.slug, room.c.slug)
        .join(stream, stream.c.id == session.c.stream_id)
        .outerjoin(account, account.c.id == stream.c.account_id)
        .outerjoin(person, person.c.id == account.c.person_id)
        .outerjoin(room, room.c.id == stream.c.room_id)
        .where(
            session.c.ended_ms > int(mark),
            session.c.ended_ms <= stamp_ms - SETTLED_MS,
            session.c.private.is_(False),
            session.c.message_count > 0,
        )
        .order_by(session.c.ended_ms)
    )
    rows = connection.execute(query).all()
    for public_id, platform, _, slug, room_slug in rows:
        owner = f"person:{slug}" if slug is not None else f"room:{room_slug}"
        if slug is not None or room_slug is not None:
            provider_rows.end_session(connection, owner, SessionEnded(public_id, platform), stamp_ms)
    if rows:
        kv.put_value(connection, ENDED_MARK, str(rows[-1].ended_ms))
    return bool(rows)
