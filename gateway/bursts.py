"""What belongs together: the parts into which a client cut one long text, and the pictures of one album.

A message waits for others only when it looks like such a part; every other one is begun at once.
"""

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection

from trunkline.adapters.base import InboundMessage
from trunkline.gateway.payloads import BadPayload, load_inbound
from trunkline.gateway.state import inbox
from trunkline.gateway.state.records import InboxRow, SessionKey

SPLIT_CHARS = {"telegram": 4000, "discord": 1950, "slack": 3900}
"""A text this long, in UTF-16 units as clients count, may be the first part of one that the client cut: a
little under each platform's limit."""
REST_MS = 1_500
"""For so long the rest of a text is waited for, and the next picture of an album."""


def lease_whole(
    connection: Connection, key: SessionKey, owner: str, now_ms: int, listening_ms: int = 0
) -> tuple[tuple[InboxRow, ...], float]:
    """The rows of the key's next turn, leased; or none, and for how many seconds the rest may still come.

    `listening_ms`: since when this process hears of the platform. What came before may be the beginning of
    something that the process before it did not live to hear out.
    """
    rows = inbox.next_batch(connection, key, now_ms)
    wait_ms = _incomplete_ms(rows, now_ms, listening_ms)
    if wait_ms > 0:
        return (), wait_ms / 1000
    inbox.take(connection, [row.id for row in rows], owner, now_ms)
    return rows, 0.0


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


def _incomplete_ms(rows: Sequence[InboxRow], now_ms: int, listening_ms: int) -> int:
    """How long to wait yet for what belongs to the last of these rows."""
    if not rows or rows[-1].kind != "message" or rows[-1].turn is not None:
        return 0
    row = rows[-1]
    if 2 * len(row.payload) < min(SPLIT_CHARS.values()) and '"album"' not in row.payload:
        return 0
    try:
        message = load_inbound(row.payload)
    except BadPayload:
        return 0  # set aside when its turn comes
    is_part = is_cut(message) or message.album is not None
    return max(row.received_ms, listening_ms) + REST_MS - now_ms if is_part else 0
