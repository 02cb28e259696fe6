"""One-time codes: issuing, redeeming, and the locks against guessing. Only salted hashes are stored."""

import hashlib
import hmac
import json
import re
import secrets
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, update

from trunkline.agent.scope import AccountId
from trunkline.gateway.state.schema import code, kv

ALPHABET = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"  # nothing that looks like something else
CODE_CHARS = 8
PURPOSES = ("pair", "link", "setup")
HOUR_MS = 3_600_000
REQUEST_GAP_MS = 600_000
WRONG_TRIES_PER_ACCOUNT = 5
WRONG_TRIES_IN_ALL = 50
MOST_WORDS = 100
"""Of a text that is looked through for codes."""
_BETWEEN_WORDS = re.compile("[^A-Za-z0-9-]+")


@dataclass(frozen=True, slots=True)
class Redeemed:
    """The code was right. `account` is the one it was issued to; None for the set-up code."""

    account: AccountId | None


@dataclass(frozen=True, slots=True)
class Refused:
    """The code was wrong, old or used, or tries are locked until `locked_until_ms`."""

    locked_until_ms: int = 0


def looks_like_code(text: str) -> bool:
    word = normalise(text)
    return len(word) == CODE_CHARS and all(char in ALPHABET for char in word)


def normalise(text: str) -> str:
    return text.strip().replace("-", "").replace(" ", "").upper()


def issue(
    connection: Connection,
    purpose: str,
    account: AccountId | None,
    now_ms: int,
    *,
    lasts_ms: int = HOUR_MS,
    gap_ms: int = REQUEST_GAP_MS,
) -> str | None:
    """A new code that replaces the account's active one, or None when it asked less than `gap_ms` ago.

    The set-up code (no account) is renewed at each start, whenever that is.
    """
    mine = (code.c.purpose == purpose, code.c.account_id == account, code.c.state == "active")
    latest = connection.execute(
        select(code.c.created_ms).where(*mine).order_by(code.c.created_ms.desc())
    ).scalar()
    if account is not None and latest is not None and now_ms - latest < gap_ms:
        return None
    connection.execute(update(code).where(*mine).values(state="replaced"))
    word = "".join(secrets.choice(ALPHABET) for _ in range(CODE_CHARS))
    salt = secrets.token_bytes(16)
    connection.execute(
        insert(code).values(
            purpose=purpose,
            account_id=account,
            salt=salt,
            hash=_digest(salt, word),
            created_ms=now_ms,
            expires_ms=now_ms + lasts_ms,
        )
    )
    return word


def redeem(
    connection: Connection, purpose: str, text: str, now_ms: int, *, typed_by: AccountId | None
) -> Redeemed | Refused:
    """Uses a code up. `typed_by` None is the operator at the command line, who is never locked out.

    Compares with every active code in the same time whether or not one fits; wrong tries are counted per
    purpose, per account and in all, and lock for an hour.
    """
    locked = 0 if typed_by is None else _locked_until(connection, purpose, typed_by, now_ms)
    word = normalise(text)
    rows = connection.execute(
        select(code.c.id, code.c.account_id, code.c.salt, code.c.hash).where(
            code.c.purpose == purpose, code.c.state == "active", code.c.expires_ms > now_ms
        )
    ).all()
    fitting = [row for row in rows if hmac.compare_digest(_digest(row.salt, word), row.hash)]
    if locked:
        return Refused(locked)
    if not fitting:
        if typed_by is not None and rows:  # with no code about there is nothing to guess
            _count_wrong_try(connection, purpose, typed_by, now_ms)
        return Refused()
    connection.execute(update(code).where(code.c.id == fitting[0].id).values(state="used"))
    return Redeemed(fitting[0].account_id)


def void(connection: Connection, text: str, now_ms: int) -> bool:
    """Ends codes that stand in a text which many can read, since any of them could come with it first;
    whether there was one. A pairing code stays: only an owner can do something with that."""
    pieces = _BETWEEN_WORDS.split(text)[:MOST_WORDS]
    words = {normalise(piece) for piece in pieces if looks_like_code(piece)}
    if not words:
        return False
    rows = connection.execute(
        select(code.c.id, code.c.salt, code.c.hash).where(
            code.c.purpose.in_(("link", "setup")), code.c.state == "active", code.c.expires_ms > now_ms
        )
    ).all()
    seen = [
        row.id
        for row in rows
        if any(hmac.compare_digest(_digest(row.salt, word), row.hash) for word in words)
    ]
    connection.execute(update(code).where(code.c.id.in_(seen)).values(state="used"))
    return bool(seen)


def spend(connection: Connection, purpose: str, account: AccountId) -> None:
    """An account's codes are of no more use: what they were for is decided."""
    mine = (code.c.purpose == purpose, code.c.account_id == account, code.c.state == "active")
    connection.execute(update(code).where(*mine).values(state="used"))


def waiting_accounts(connection: Connection, now_ms: int) -> tuple[AccountId, ...]:
    """Accounts that hold an active pairing code, oldest first."""
    query = (
        select(code.c.account_id)
        .where(code.c.purpose == "pair", code.c.state == "active", code.c.expires_ms > now_ms)
        .order_by(code.c.created_ms)
    )
    return tuple(AccountId(row.account_id) for row in connection.execute(query))


def _digest(salt: bytes, word: str) -> bytes:
    return hashlib.blake2b(word.encode(), key=salt).digest()


def _locked_until(connection: Connection, purpose: str, account: AccountId, now_ms: int) -> int:
    limits = (
        (_key(purpose, account), WRONG_TRIES_PER_ACCOUNT),
        (_key(purpose, None), WRONG_TRIES_IN_ALL),
    )
    locks = []
    for key, allowed in limits:
        tries, since_ms = _tries(connection, key)
        if tries >= allowed and since_ms + HOUR_MS > now_ms:
            locks.append(since_ms + HOUR_MS)
    return max(locks, default=0)


def _count_wrong_try(connection: Connection, purpose: str, account: AccountId, now_ms: int) -> None:
    for key in (_key(purpose, account), _key(purpose, None)):
        tries, since_ms = _tries(connection, key)
        if since_ms + HOUR_MS <= now_ms:
            tries = 0
        connection.execute(delete(kv).where(kv.c.key == key))
        connection.execute(insert(kv).values(key=key, value=json.dumps([tries + 1, now_ms])))


def _tries(connection: Connection, key: str) -> tuple[int, int]:
    stored = connection.execute(select(kv.c.value).where(kv.c.key == key)).scalar()
    if stored is None:
        return 0, 0
    tries, since_ms = json.loads(stored)
    return int(tries), int(since_ms)


def _key(purpose: str, account: AccountId | None) -> str:
    return f"wrong_codes:{purpose}" if account is None else f"wrong_codes:{purpose}:{account}"
