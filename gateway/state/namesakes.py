"""Tells people of one room apart who are called alike: names are anybody's to choose, and to change.

Who looks like somebody else there is shown to the model with a number of their own, which never changes.
"""

from collections import Counter
from collections.abc import Collection

from sqlalchemy import Connection, or_, select

from trunkline.agent.prompt import LABEL_CHARS, clean_label, named
from trunkline.gateway.labels import outline
from trunkline.gateway.state.records import Account
from trunkline.gateway.state.schema import account, message, room_member


def alike(connection: Connection, room_id: int, accounts: Collection[int]) -> frozenset[int]:
    """Those of these accounts whose names look like another one's: of these, or of whoever wrote there."""
    wrote_there = select(room_member.c.account_id).where(room_member.c.room_id == room_id)
    rows = connection.execute(
        select(account.c.id, account.c.label, account.c.user_id).where(
            or_(account.c.id.in_(wrote_there), account.c.id.in_(accounts))
        )
    )
    looks = {row.id: outline(clean_label(row.label or row.user_id, LABEL_CHARS)) for row in rows}
    times = Counter(looks.values())
    return frozenset(one for one in accounts if times[looks[one]] > 1)


def number_of(connection: Connection, room_id: int, one: Account, session_id: int) -> int | None:
    """An account's number where its name doesn't say who speaks: another one of the room has it now, or had
    it in this conversation. None where it does."""
    if alike(connection, room_id, [one.id]):
        return one.id
    had = select(message.c.id).where(
        message.c.session_id == session_id,
        message.c.role == "user",
        message.c.account_id != one.id,
        message.c.sent.contains(f"{named(one.label or one.user_id)}⟧", autoescape=True),
    )
    return one.id if connection.execute(had.limit(1)).first() is not None else None
