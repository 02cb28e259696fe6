"""How fast one person may write: what comes faster is kept, and answered together a little later."""

from sqlalchemy import Connection, and_, func, or_, select

from trunkline.gateway.state import people
from trunkline.gateway.state.records import Account, SessionKey
from trunkline.gateway.state.schema import inbox

WINDOW_MS = 60_000
COUNTED = ("message", "queued", "retry")
BOT_WINDOW_MS = 600_000
BOT_MESSAGES_MOST = 10
"""What of one bot is answered in that time: two that answer each other would never end."""


def held_until(connection: Connection, account: Account, key: SessionKey, limit: int, now_ms: int) -> int:
    """Until when a new message of this person has to wait; 0 when it has not. A `limit` of 0 is none.

    All that is held back under one key waits for the same moment, so that it keeps its order.
    """
    if limit == 0:
        return 0
    theirs = inbox.c.account_id.in_(_accounts(connection, account))
    held = select(func.max(inbox.c.not_before_ms)).where(
        theirs,
        inbox.c.received_ms > now_ms - 2 * WINDOW_MS,
        inbox.c.state == "received",
        inbox.c.chat == key.chat,
        inbox.c.thread == key.thread,
        inbox.c.not_before_ms > now_ms,
    )
    until_ms = connection.execute(held).scalar()
    if until_ms is not None:
        return int(until_ms)
    # A command that is a turn, as it calls a skill; of those that wait nobody knows yet.
    may_be_turn = or_(inbox.c.turn_id.is_not(None), inbox.c.state == "received")
    is_counted = or_(inbox.c.kind.in_(COUNTED), and_(inbox.c.kind == "command", may_be_turn))
    count, first_ms = connection.execute(
        select(func.count(), func.min(inbox.c.received_ms)).where(
            theirs, inbox.c.received_ms > now_ms - WINDOW_MS, is_counted
        )
    ).one()
    return int(first_ms) + WINDOW_MS if count >= limit else 0


def goes_on_and_on(connection: Connection, account: Account, now_ms: int) -> bool:
    """Whether a bot has been answered so often lately that it may be answering us."""
    count = select(func.count()).where(
        inbox.c.account_id == account.id,
        inbox.c.received_ms > now_ms - BOT_WINDOW_MS,
        inbox.c.kind.in_(COUNTED),
    )
    return int(connection.execute(count).scalar_one()) >= BOT_MESSAGES_MOST


def _accounts(connection: Connection, account: Account) -> list[int]:
    if account.person is None:
        return [account.id]
    return [one.id for one in people.accounts_of(connection, account.person.id)]
