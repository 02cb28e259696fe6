"""What belongs together: the parts into which a client cut one long text, and the pictures of one album.

A message waits for others only when it looks like such a part; every other one is begun at once.
"""

from collections.abc import Sequence

from pydantic import ValidationError
from sqlalchemy import Connection

from trunkline.adapters.base import InboundMessage
from trunkline.gateway.payloads import load_inbound
from trunkline.gateway.state import inbox
from trunkline.gateway.state.records import InboxRow, SessionKey

SPLIT_CHARS = {"telegram": 4000, "discord": 1950, "slack": 3900}
"""A text this long may be the first part of one that the client cut: a little under each platform's limit."""
REST_MS = 1_500
"""For so long the rest of a text is waited for."""
ALBUM_MS = 800
"""For so long the next picture of an album is waited for; all of them come within a moment."""


def lease_whole(
    connection: Connection, key: SessionKey, owner: str, now_ms: int
) -> tuple[tuple[InboxRow, ...], float]:
    """The rows of the key's next turn, leased; or none, and for how many seconds the rest may still come."""
    rows = inbox.next_batch(connection, key, now_ms)
    wait_ms = _incomplete_ms(rows, now_ms)
    if wait_ms > 0:
        return (), wait_ms / 1000
    inbox.take(connection, [row.id for row in rows], owner, now_ms)
    return rows, 0.0


def join(messages: Sequence[InboundMessage], texts: Sequence[str]) -> str:
    """The texts of messages as one: the parts of a cut text as lines, other messages as paragraphs."""
    joined = ""
    apart = ""
    for message, text in zip(messages, texts, strict=True):
        if text:
            joined += apart + text if joined else text
            apart = "\n" if is_cut(message) else "\n\n"
    return joined


def is_cut(message: InboundMessage) -> bool:
    """Whether a message looks like the first part of a longer text."""
    return len(message.text) >= SPLIT_CHARS.get(message.platform, len(message.text) + 1)


def _incomplete_ms(rows: Sequence[InboxRow], now_ms: int) -> int:
    """How long to wait yet for what belongs to the last of these rows."""
    if not rows or rows[-1].kind != "message" or rows[-1].turn is not None:
        return 0
    row = rows[-1]
    if len(row.payload) < min(SPLIT_CHARS.values()) and '"album"' not in row.payload:
        return 0
    try:
        message = load_inbound(row.payload)
    except ValidationError:
        return 0  # set aside when its turn comes
    patience_ms = REST_MS if is_cut(message) else ALBUM_MS if message.album is not None else 0
    return row.received_ms + patience_ms - now_ms
