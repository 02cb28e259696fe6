"""The blocks an answer is made of: paragraphs with styled runs, and code. Values only, no markup."""

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Style:
    """How a run of text looks. `link` is the address it leads to, or empty."""

    bold: bool = False
    italic: bool = False
    strike: bool = False
    code: bool = False
    link: str = ""


PLAIN = Style()


@dataclass(frozen=True, slots=True)
class Run:
    """From `start` (code points into its paragraph) to the next run, the text has this style."""

    start: int
    style: Style


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Lines of styled text. Runs are in order and cover the text from 0.

    `lead` stands before the first line (a bullet, a number), `indent` is how many columns stand before
    that. `quote` is 0 or the number of the quotation it belongs to. `gap` asks for a blank line before
    it, `keeps_next` asks to stay with what follows (a heading).
    """

    text: str
    runs: tuple[Run, ...] = (Run(0, PLAIN),)
    lead: str = ""
    indent: int = 0
    quote: int = 0
    gap: bool = True
    keeps_next: bool = False

    def part(self, start: int, end: int) -> "Paragraph":
        """The text from `start` to `end`; only the first part keeps the lead and the gap."""
        if start == 0 and end == len(self.text):
            return self
        first = bisect_right(self.runs, start, key=_start_of) - 1
        last = bisect_right(self.runs, max(start, end - 1), key=_start_of)
        runs = tuple(Run(max(0, run.start - start), run.style) for run in self.runs[first:last])
        whole = replace(self, text=self.text[start:end], runs=runs, keeps_next=False)
        return whole if start == 0 else replace(whole, lead="")

    def style_at(self, index: int) -> Style:
        return self.runs[bisect_right(self.runs, index, key=_start_of) - 1].style

    def spans(self) -> Iterator[tuple[str, Style]]:
        """The runs as (text, style), empty ones left out."""
        for number, run in enumerate(self.runs):
            end = self.runs[number + 1].start if number + 1 < len(self.runs) else len(self.text)
            if end > run.start:
                yield self.text[run.start : end], run.style

    def lines(self) -> Iterator[tuple[tuple[str, Style], ...]]:
        """The spans of each line."""
        line: list[tuple[str, Style]] = []
        for text, style in self.spans():
            first, *others = text.split("\n")
            line.append((first, style))
            for other in others:
                yield tuple(span for span in line if span[0])
                line = [(other, style)]
        yield tuple(span for span in line if span[0])

    def bare(self, start: int) -> "Paragraph":
        """The text from `start` without anything that costs room: no styles, lead in the text."""
        return Paragraph((self.lead if start == 0 else "") + self.text[start:], gap=self.gap)


@dataclass(frozen=True, slots=True)
class Code:
    """Text to be shown byte for byte. `fence` is how many backticks a fence around it needs."""

    text: str
    language: str = ""
    quote: int = 0
    gap: bool = True
    fence: int = 3
    keeps_next: bool = False

    def part(self, start: int, end: int) -> "Code":
        return replace(self, text=self.text[start:end])

    def bare(self, start: int) -> Paragraph:
        return Paragraph(self.text[start:], gap=self.gap)


Block = Paragraph | Code


def _start_of(run: Run) -> int:
    return run.start


def paragraph_of(spans: Iterable[tuple[str, Style]]) -> Paragraph:
    """A paragraph from spans; neighbours of one style become one run."""
    texts: list[str] = []
    runs: list[Run] = []
    at = 0
    for text, style in spans:
        if not text:
            continue
        if not runs or runs[-1].style != style:
            runs.append(Run(at, style))
        texts.append(text)
        at += len(text)
    return Paragraph("".join(texts), tuple(runs) or (Run(0, PLAIN),))


def is_blank(text: str) -> bool:
    """True if nothing of the text can be seen: spaces, controls and zero-width marks only."""
    return all(char.isspace() or unicodedata.category(char) in ("Cc", "Cf") for char in text)
