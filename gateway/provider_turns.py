"""What of the conversations goes to memory providers: turns that ended well, and that a session has ended.

Never a private conversation, never a turn of somebody who paused memory, never one that was interrupted.
"""

from sqlalchemy import Connection, func, select

from trunkline.agent.scope import RoomScope
from trunkline.gateway.memory_approval import is_paused
from trunkline.gateway.opening import Opened
from trunkline.gateway.state import kv, provider_rows
from trunkline.gateway.state.journal import owner_of
from trunkline.gateway.state.provider_payloads import SessionEnded, TurnSaid, turn_key
from trunkline.gateway.state.schema import account, message, person, room, session, stream
from trunkline.gateway.state.transcripts import when

TURN_CHARS = 100_000
"""Of each side of a turn; more than any model answers or any platform lets people write at once."""
ENDED_MARK = "providers.ended_ms"


def keep_turn(connection: Connection, opened: Opened, answer: str, stamp_ms: int) -> None:
    """Has a turn that ended well sent to the providers, in the transaction that ends it."""
    if opened.session.private or not answer.strip() or not provider_rows.active(connection):
        return
    who = opened.account.person
    if who is not None and is_paused(connection, who.slug):
        return
    asked = select(message.c.content).where(
        message.c.turn_id == opened.row.key.turn, message.c.role == "user", message.c.state == "live"
    )
    user = "\n\n".join(connection.execute(asked.order_by(message.c.seq)).scalars())
    is_room = isinstance(opened.scope, RoomScope)
    said = TurnSaid(
        turn_key(opened.session.public_id, opened.row.key.turn),
        opened.session.public_id,
        opened.inbound.platform,
        str(opened.account.id) if is_room or who is None else who.slug,
        user[:TURN_CHARS],
        answer[:TURN_CHARS],
        when(stamp_ms),
    )
    asker = opened.account.id if is_room else 0
    provider_rows.keep_turn(connection, owner_of(opened.scope), asker, said, stamp_ms)


def note_ended_sessions(connection: Connection, stamp_ms: int) -> bool:
    """Has the providers told of sessions that ended since the last look; whether there were any."""
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
        .where(session.c.ended_ms > int(mark), session.c.private.is_(False), session.c.message_count > 0)
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
