"""The block that tells the model what people in a room said to each other before somebody spoke to it."""

from collections.abc import Sequence
from dataclasses import dataclass

from trunkline.agent.memory.scan import clean_invisible
from trunkline.agent.prompt import named
from trunkline.agent.recall import disarm
from trunkline.agent.stream_text import HEARD_BEGINS, HEARD_ENDS


@dataclass(frozen=True, slots=True)
class HeardLine:
    """One message that was not meant for the assistant: its author's name, the local time, its text.

    `number`: the author's, where others of the room are called alike.
    """

    author: str
    time: str
    text: str
    number: int | None = None


def render_heard(lines: Sequence[HeardLine]) -> str:
    """The block; empty when nothing was heard. Nothing in a text or a name can pass for a line of ours."""
    if not lines:
        return ""
    told = (f"{author_mark(line.author, line.number)}{line.time}⟧ {one_line(line.text)}" for line in lines)
    return "\n".join([HEARD_BEGINS, *told, HEARD_ENDS])


def author_mark(name: str, number: int | None = None) -> str:
    """How each line of an author begins."""
    return f"{named(name, number)} at "


def one_line(text: str) -> str:
    """A text as it stands in the block."""
    return " ".join(disarm(clean_invisible(text)).split())
