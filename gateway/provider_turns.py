"""What of the conversations goes to memory providers: turns that ended well.

Never a private conversation, never a turn of somebody who paused memory, never one that was interrupted.
"""

from sqlalchemy import Connection

from trunkline.agent.scope import RoomScope
from trunkline.gateway.memory_approval import is_paused
from trunkline.gateway.opening import Opened
from trunkline.gateway.state import provider_rows, turns
from trunkline.gateway.state.journal import owner_of
from trunkline.gateway.state.provider_payloads import TurnSaid, turn_key
from trunkline.gateway.state.transcripts import when

TURN_CHARS = 100_000
"""Of each side of a turn; more than any model answers or any platform lets people write at once."""


def keep_turn(connection: Connection, opened: Opened, answer: str, stamp_ms: int) -> None:
    """Has a turn that ended well sent to the providers, in the transaction that ends it."""
    if opened.session.private or not answer.strip() or not provider_rows.active(connection):
        return
    who = opened.account.person
    if who is not None and is_paused(connection, who.slug):
        return
    user = "\n\n".join(turns.asked(connection, opened.row.key.turn))
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
