"""What somebody who left for good used in their last day: coming back gives nobody a second share of it.

Numbers and a digest of the account's id are kept, for a day, and no word.
"""

import hashlib
from collections.abc import Iterable

from sqlalchemy import Connection, delete, select, update

from trunkline.agent.scope import AccountId
from trunkline.gateway.state.kv import get_value, put_value
from trunkline.gateway.state.records import Account
from trunkline.gateway.state.schema import kv, usage

DAY_MS = 86_400_000
BEGINS = "spent."


def keep(connection: Connection, accounts: Iterable[Account], stamp_ms: int) -> None:
    """Notes which accounts left something in the usage; the caller takes all that names them away."""
    for one in accounts:
        recent = select(usage.c.id).where(
            usage.c.account_id == one.id, usage.c.created_ms > stamp_ms - DAY_MS
        )
        if connection.execute(recent.limit(1)).first() is not None:
            put_value(connection, _key(one.platform, one.realm, one.user_id), f"{one.id} {stamp_ms}")


def hand_over(connection: Connection, platform: str, realm: str, user_id: str, account_id: AccountId) -> None:
    """Gives a new account what the one before it under the same id had used."""
    key = _key(platform, realm, user_id)
    kept = get_value(connection, key)
    if kept is not None:
        old = int(kept.split()[0])
        connection.execute(update(usage).where(usage.c.account_id == old).values(account_id=account_id))
        connection.execute(delete(kv).where(kv.c.key == key))


def forget_old(connection: Connection, now_ms: int) -> None:
    """Ends what was kept of those who left over a day ago."""
    for key, kept in connection.execute(
        select(kv.c.key, kv.c.value).where(kv.c.key.startswith(BEGINS))
    ).all():
        old, left_ms = map(int, kept.split())
        if left_ms < now_ms - DAY_MS:
            connection.execute(delete(usage).where(usage.c.account_id == old))
            connection.execute(delete(kv).where(kv.c.key == key))


def _key(platform: str, realm: str, user_id: str) -> str:
    return BEGINS + hashlib.sha256("\0".join((platform, realm, user_id)).encode()).hexdigest()
