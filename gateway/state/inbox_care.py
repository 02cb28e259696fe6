"""What an operator does with messages that were set aside: look at the rows, let one be tried again, drop it.

What the messages say is not shown: that is between the person and the assistant.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select, update

from trunkline.agent.scope import AccountId
from trunkline.gateway.state import people
from trunkline.gateway.state.messages import set_message_state
from trunkline.gateway.state.records import Account, Room, scope_of
from trunkline.gateway.state.schema import account, inbox, message, outbox, room, session, stream, turn

SET_ASIDE = ("dead", "failed")
OPEN = ("received", "leased")


@dataclass(frozen=True, slots=True)
class InboxLine:
    """One row as it is listed: whose, where, in which state and why. Times are ms since 1970 UTC."""

    id: int
    platform: str
    author: str
    kind: str
    state: str
    reason: str
    attempts: int
    sent_ms: int


@dataclass(frozen=True, slots=True)
class InboxStanding:
    """What is left of a message that was set aside: its text as stored, and the turn it was in."""

    payload: str
    turn_id: int | None


def lines(connection: Connection, states: Sequence[str], limit: int) -> tuple[InboxLine, ...]:
    """The rows in one of the states, oldest first."""
    query = (
        select(inbox, account.c.label, account.c.user_id)
        .outerjoin(account, account.c.id == inbox.c.account_id)
        .where(inbox.c.state.in_(states))
        .order_by(inbox.c.id)
        .limit(limit)
    )
    return tuple(
        InboxLine(
            row.id,
            row.platform,
            row.label or row.user_id or "",
            row.kind,
            row.state,
            row.reason,
            row.attempts,
            row.sent_ms,
        )
        for row in connection.execute(query)
    )


def retry(connection: Connection, row_id: int) -> bool:
    """Lets a message that was set aside wait again, as if it had just come; false when there is none such.

    What its turn had said so far is undone, so that the transcript has it once; an answer under way is not
    sent any more.
    """
    row = _set_aside(connection, row_id)
    if row is None or not row.payload:
        return False
    if row.turn_id is not None:
        _undo_turn(connection, row.turn_id)
    connection.execute(
        update(inbox)
        .where(inbox.c.id == row_id)
        .values(state="received", reason="", owner="", attempts=0, turn_id=None, done_ms=None)
    )
    return True


def drop(connection: Connection, row_id: int, now_ms: int) -> bool:
    """Ends a message that was set aside, and forgets what it said; false when there is none such.

    The row stays, so that a platform which sends the message again does not start it anew.
    """
    if _set_aside(connection, row_id) is None:
        return False
    connection.execute(
        update(inbox)
        .where(inbox.c.id == row_id)
        .values(state="done", reason="dropped", payload="", done_ms=now_ms)
    )
    return True


def _set_aside(connection: Connection, row_id: int) -> InboxStanding | None:
    row = connection.execute(
        select(inbox.c.payload, inbox.c.turn_id).where(inbox.c.id == row_id, inbox.c.state.in_(SET_ASIDE))
    ).first()
    return None if row is None else InboxStanding(row.payload, row.turn_id)


def _undo_turn(connection: Connection, turn_id: int) -> None:
    said = connection.execute(select(message.c.id).where(message.c.turn_id == turn_id)).scalars().all()
    who = _whose(connection, turn_id)
    if who is not None and (who[1] is not None or who[0].person is not None):
        set_message_state(connection, scope_of(*who), said, "undone")
    connection.execute(
        update(outbox)
        .where(outbox.c.turn_id == turn_id, outbox.c.state == "planned")
        .values(state="refused", error="its message is answered anew")
    )


def _whose(connection: Connection, turn_id: int) -> tuple[Account, Room | None] | None:
    """The account that asked, and the room where it did."""
    found = connection.execute(
        select(turn.c.account_id, room.c.platform, room.c.realm, room.c.chat)
        .join(session, session.c.id == turn.c.session_id)
        .join(stream, stream.c.id == session.c.stream_id)
        .outerjoin(room, room.c.id == stream.c.room_id)
        .where(turn.c.id == turn_id)
    ).first()
    if found is None:
        return None
    where = None
    if found.chat is not None:
        where = people.find_room(connection, found.platform, found.realm, found.chat)
    return people.load_account(connection, AccountId(found.account_id)), where
