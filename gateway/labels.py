"""Names that others chose, for sentences of ours: one plain line in which nothing is markup, link or mention.

Some sentences go out without being rendered, so escaping would show, and would not hold everywhere.
"""

import re
import unicodedata
from functools import lru_cache

from trunkline.agent.memory.plain_text import compatible
from trunkline.agent.memory.scan import LOOKALIKES, strip_invisible

LABEL_CHARS = 40

_MARKUP = re.compile(r"[^\w .'’-]|_|\.(?=\w)")
_ONE_SCRIPT = str.maketrans(LOOKALIKES)
_ONE_SHAPE = str.maketrans("01iı", "olll")


def plain_label(text: str, max_chars: int = LABEL_CHARS) -> str:
    """Letters and digits of every script and what stands in names; empty when nothing of that is in it."""
    return " ".join(_MARKUP.sub(" ", text).split())[:max_chars]


@lru_cache(maxsize=4096)
def outline(name: str) -> str:
    """What a reader sees of a name at a glance: equal for names that may be taken for each other.

    Case, accents, signs and spaces don't count, nor do letters of other alphabets that look like Latin ones.
    """
    plain = unicodedata.normalize("NFKD", strip_invisible(compatible(name))).casefold()
    letters = "".join(filter(str.isalnum, plain))
    return letters.translate(_ONE_SCRIPT).translate(_ONE_SHAPE) or plain
