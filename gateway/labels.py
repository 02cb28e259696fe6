"""Names that others chose, for sentences of ours: one plain line in which nothing is markup, link or mention.

Some sentences go out without being rendered, so escaping would show, and would not hold everywhere.
"""

import re

LABEL_CHARS = 40

_MARKUP = re.compile(r"[^\w .'’-]|_|\.(?=\w)")


def plain_label(text: str, max_chars: int = LABEL_CHARS) -> str:
    """Letters and digits of every script and what stands in names; empty when nothing of that is in it."""
    return " ".join(_MARKUP.sub(" ", text).split())[:max_chars]
