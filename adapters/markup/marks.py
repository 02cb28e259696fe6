"""What Discord's and Slack's markup have in common: styles as marks around text, written line by line."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from trunkline.adapters.markup.blocks import Block, Code, Paragraph, Style
from trunkline.adapters.markup.split import blank_line

INVISIBLE = "\u200b"
"""A zero-width space: breaks up what a platform would take for markup or for a mention."""

Spans = Sequence[tuple[str, Style]]


@dataclass(frozen=True, slots=True)
class Inner:
    """What a mark goes around: the text as written so far and as it was, and the characters beside it."""

    written: str
    raw: str
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Level:
    """One kind of mark. `of` gives a style's value for it (falsy: none), `around` puts the mark on."""

    of: Callable[[Style], str]
    around: Callable[[Inner, str], str]


@dataclass(frozen=True, slots=True)
class Marks:
    """A dialect's marks from the outermost in, how it escapes literal text, and what keeps marks apart.

    `seam(left, right)` gives what stands between two neighbours of which at least one carries a mark.
    `close` ends literal text that a mark follows, should the platform take the mark for a part of it.
    """

    levels: tuple[Level, ...]
    escape: Callable[[str], str]
    seam: Callable[[str, str], str]
    close: Callable[[str], str] = str

    def write(self, spans: Spans, depth: int = 0) -> str:
        """One line of spans, without line ends."""
        while depth < len(self.levels) and not any(self.levels[depth].of(style) for _, style in spans):
            depth += 1
        if depth == len(self.levels):
            return self.escape("".join(text for text, _ in spans))
        level = self.levels[depth]
        groups = [(value, list(group)) for value, group in groupby(spans, key=lambda one: level.of(one[1]))]
        inners = [self.write(group, depth + 1) for _, group in groups]
        out: list[str] = []
        last, marked_before, ends_plain = "", False, False
        for number, (value, group) in enumerate(groups):
            following = inners[number + 1][:1] if number + 1 < len(inners) else ""
            written = inners[number]
            if value:
                raw = "".join(text for text, _ in group)
                written = _outside_spaces(level, Inner(written, raw, last, following), value)
            if out and value and ends_plain:
                out[-1] = self.close(out[-1])
            if out and (value or marked_before):
                out.append(self.seam(last, written[:1]))
            out.append(written)
            last, marked_before = written[-1:] or last, bool(value)
            ends_plain = not any(deeper.of(group[-1][1]) for deeper in self.levels[depth:])
        return "".join(out)


def _outside_spaces(level: Level, inner: Inner, value: str) -> str:
    """The mark around the text without its outer spaces, which stay outside."""
    core = inner.written.strip()
    if not core:
        return inner.written
    before, _, after = inner.written.partition(core)
    left = " " if before else inner.left
    right = " " if after else inner.right
    return before + level.around(Inner(core, inner.raw, left, right), value) + after


def write_paragraph(block: Paragraph, lead: str, write_line: Callable[[Spans], str]) -> str:
    """A paragraph's lines with lead, indent and quotation marks before them."""
    quote = "> " if block.quote else ""
    first = quote + " " * block.indent + lead
    margin = "\n" + quote + " " * (block.indent + len(lead))
    return first + margin.join(write_line(line) for line in block.lines())


def quoted_joint(above: Block, below: Block) -> str:
    """The joint of a dialect that marks each line of a quotation; code stands outside it."""
    inside = above.quote != 0 and above.quote == below.quote
    if inside and below.gap and not isinstance(above, Code) and not isinstance(below, Code):
        return "\n> \n"
    return blank_line(above, below)


def overheads_fit(block: Code, limit: int) -> Block:
    """The code as it can be fenced within `limit`: without its language, or as plain text, if need be."""
    fences = 2 * block.fence + 2
    if fences > limit // 2:
        return block.bare(0)
    return (
        block
        if fences + len(block.language) <= limit // 2
        else Code(block.text, quote=block.quote, gap=block.gap, fence=block.fence)
    )
