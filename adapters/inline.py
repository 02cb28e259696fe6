"""Words that others chose, inside a line that an adapter writes: a name, a title, the question of a poll."""

import re
import unicodedata

NAME_CHARS = 64
TEXT_CHARS = 300

# Marks that turn the direction of writing, and letters that nobody sees.
_HIDDEN = re.compile("[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
_BRACKETS = str.maketrans("[]⟦⟧〚〛", "()()()")


def inline(text: str, max_chars: int = NAME_CHARS) -> str:
    """The text as one line that can't close the brackets around it; letters of all scripts and emoji stay."""
    spaced = "".join(" " if _breaks(char) else char for char in _HIDDEN.sub("", text))
    line = " ".join(spaced.split()).translate(_BRACKETS)
    return line if len(line) <= max_chars else f"{line[: max_chars - 1]}…"


def named(name: str | None, id: str) -> str:
    """Somebody or something called by name in a text: the id behind it tells namesakes apart."""
    line = inline(name or "")
    return id if line in ("", id) else f"{line} ({id})"


def _breaks(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Zl", "Zp", "Cs")
