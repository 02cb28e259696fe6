"""What belongs together: the parts into which a client cut one long text, and the pictures of one album.

A message waits for others only when it looks like such a part; every other one is begun at once.
"""

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection

from trunkline.adapters.base import InboundMessage
from trunkline.agent.scope import AccountId
from trunkline.gateway.payloads import BadPayload, load_inbound
from trunkline.gateway.state import inbox
from trunkline.gateway.state.records import InboxRow, SessionKey

SPLIT_CHARS = {"telegram": 4000, "discord": 1950, "slack": 3900}
"""A text this long, in UTF-16 units as clients count, may be the first part of one that the client cut: a
little under each platform's limit."""
REST_MS = 1_500
"""For so long the rest of a text is waited for, and the next picture of an album."""


def lease_whole(
    connection: Connection,
    key: SessionKey,
    owner: str,
    now_ms: int,
    listening_ms: int = 0,
    *,
    at_once: bool = False,
) -> tuple[tuple[InboxRow, ...], float]:
    """The rows of the key's next turn, and for how many seconds their rest may still come: leased at 0.

    `at_once` waits for no rest. `listening_ms`: since when this process hears of the platform. What came
    before may be the beginning of something that the process before it did not live to hear out.
    """
    rows = _with_rest(connection, inbox.next_batch(connection, key, now_ms))
    wait_ms = 0 if at_once else _incomplete_ms(rows, now_ms, listening_ms)
    if wait_ms > 0:
        return rows, wait_ms / 1000
    inbox.take(connection, [row.id for row in rows], owner, now_ms)
    return rows, 0.0


def goes_on(
    connection: Connection, key: SessionKey, account: AccountId, message: InboundMessage, now_ms: int
) -> bool:
    """Whether a message continues what its author said to us: the rest of a cut text, the next picture of an
    album. In a room only the first part of either has our name in it."""
    row = inbox.newest_open(connection, key, account)
    return row is not None and _continues(message, now_ms, row)


def join(messages: Sequence[InboundMessage], texts: Sequence[str]) -> str:
    """The texts of messages as one: the parts of a cut text as lines, other messages as paragraphs."""
    return "".join(gap + text for gap, text in _pieces(messages, texts))


def places(messages: Sequence[InboundMessage], texts: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Where each message's text begins and ends in what `join` makes of them."""
    found: list[tuple[int, int]] = []
    at = 0
    for gap, text in _pieces(messages, texts):
        found.append((at + len(gap), at + len(gap) + len(text)))
        at += len(gap) + len(text)
    return tuple(found)


def _pieces(messages: Sequence[InboundMessage], texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each text, and what stands between it and the one before."""
    gap = ""
    for message, text in zip(messages, texts, strict=True):
        yield (gap if text else ""), text
        if text:
            gap = "\n" if is_cut(message) else "\n\n"


def is_cut(message: InboundMessage) -> bool:
    """Whether a message looks like the first part of a longer text."""
    units = len(message.text.encode("utf-16-le", "surrogatepass")) // 2
    return units >= SPLIT_CHARS.get(message.platform, units + 1)


def _with_rest(connection: Connection, rows: tuple[InboxRow, ...]) -> tuple[InboxRow, ...]:
    """The rows, and what of them stands behind somebody else's words: two people write at once in a room.

    Not where one of them failed: such a row is taken alone.
    """
    while rows and rows[-1].turn is None and rows[-1].attempts == 1 and _part(rows[-1]) is not None:
        following = inbox.next_said(connection, rows[-1])
        message = None if following is None or following.attempts > 1 else _loaded(following)
        if following is None or message is None or not _continues(message, following.received_ms, rows[-1]):
            break
        rows = (*rows, following)
    return rows


def _continues(message: InboundMessage, at_ms: int, row: InboxRow) -> bool:
    """Whether a message that came at `at_ms` is a further part of what its author began in a row."""
    part = _part(row)
    if part is None or message.album is not None:
        return part is not None and part.album == message.album
    return is_cut(part) and at_ms - row.received_ms <= REST_MS


def _incomplete_ms(rows: Sequence[InboxRow], now_ms: int, listening_ms: int) -> int:
    """How long to wait yet for what belongs to the last of these rows."""
    if not rows or rows[-1].turn is not None or _part(rows[-1]) is None:
        return 0
    return max(rows[-1].received_ms, listening_ms) + REST_MS - now_ms


def _part(row: InboxRow) -> InboundMessage | None:
    """The message of a row that looks like a part of something, else None."""
    if row.kind != "message":
        return None
    if 2 * len(row.payload) < min(SPLIT_CHARS.values()) and '"album"' not in row.payload:
        return None
    message = _loaded(row)
    is_part = message is not None and (is_cut(message) or message.album is not None)
    return message if is_part else None


def _loaded(row: InboxRow) -> InboundMessage | None:
    """None for one that can't be read: it is set aside when its turn comes."""
    try:
        return load_inbound(row.payload)
    except BadPayload:
        return None
