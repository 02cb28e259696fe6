"""Takes known secrets out of text before it is stored. Which secrets there are belongs to config."""

from collections.abc import Iterable

MASK = "[secret]"

# Shorter values are no secrets, and would mask ordinary words.
MIN_SECRET_CHARS = 8


def mask_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text with every known secret replaced by MASK, the longest first, as one may hold another."""
    for secret in sorted(set(secrets), key=len, reverse=True):
        if len(secret) >= MIN_SECRET_CHARS:
            text = text.replace(secret, MASK)
    return text
