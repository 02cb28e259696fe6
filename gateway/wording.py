"""Puts other words of a person into the exact bytes that were sent to the model for a message of theirs."""

from collections.abc import Sequence

from trunkline.agent.recall import disarm
from trunkline.agent.stream_text import FENCE_OPEN


def with_lines(sent: str, lines: Sequence[str]) -> str:
    """The sent bytes with lines of ours at the end of what was said."""
    at = sent.rfind(f"\n\n{FENCE_OPEN}")
    said, fence = (sent, "") if at < 0 else (sent[:at], sent[at:])
    return "\n".join([said, *lines]) + fence


def with_text(sent: str, old: str, new: str) -> str:
    """The sent bytes of a message whose text was `old`; all that the system wrote around it stays."""
    piece = disarm(old)
    fence_at = sent.rfind(f"\n\n{FENCE_OPEN}")
    at = sent.rfind(piece, 0, fence_at if fence_at >= 0 else len(sent)) if piece else -1
    if at < 0:
        head, _, rest = sent.partition("\n")
        kept = f"\n\n{rest}" if rest and not piece else ""
        return f"{head}\n{disarm(new)}{kept}"
    return sent[:at] + disarm(new) + sent[at + len(piece) :]
