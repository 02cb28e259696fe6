"""Where an answer too long for a chat is cut: what is written there, and what goes along as a file."""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from markdown_it.token import Token

from trunkline.adapters.base import Chunk
from trunkline.adapters.markup.grammar import new_parser

PARTS_MOST = 5
"""Messages of one answer; what is longer goes on in a file."""
NAME = "answer.md"
_WHOLE_BLOCKS = 0.6
"""A cut between blocks is taken where it leaves at least this much of what would fit."""
_UNDERLINE = re.compile(r"\s*(=+|-+)\s*")

_parser = new_parser()

Render = Callable[[str], Sequence[Chunk]]


@dataclass(frozen=True, slots=True)
class Split:
    """The Markdown for the chat, and that for the file. Together they show what the answer shows."""

    head: str
    rest: str


def split_long(markdown: str, render: Render, pointer: str) -> Split | None:
    """None where the answer fits, or can't be cut. `pointer` is the sentence that goes under the head.

    Blocks for as long as rendering the head a dozen times takes.
    """
    if len(render(markdown)) <= PARTS_MOST:
        return None
    env: dict[str, Any] = {}
    tokens = _parser.parse(markdown, env)
    if env.get("references"):
        return None  # links would lose their addresses
    lines = markdown.splitlines(keepends=True)
    fences = {
        token.map[0]: token for token in tokens if token.type == "fence" and token.map and not token.level
    }
    whole = sorted(_block_starts(tokens))
    finer = sorted({*whole, *_line_starts(tokens, lines)})

    def fits(at: int) -> bool:
        return len(render(f"{_cut(lines, at, fences).head}\n\n{pointer}")) <= PARTS_MOST

    best = _last(finer, fits)
    if best is None:
        return None
    between = _last([at for at in whole if at <= best], fits)
    if between is not None and _chars(lines, between) >= _WHOLE_BLOCKS * _chars(lines, best):
        best = between
    return _cut(lines, best, fences)


def _last(places: Sequence[int], fits: Callable[[int], bool]) -> int | None:
    """The last place up to which everything fits."""
    found = bisect_left(places, 1, key=lambda at: 0 if fits(at) else 1)
    return places[found - 1] if found else None


def _cut(lines: Sequence[str], at: int, fences: dict[int, Token]) -> Split:
    """Cuts before a line; a code block that it is in is closed and opened again."""
    head, rest = "".join(lines[:at]), "".join(lines[at:])
    for start, fence in fences.items():
        if fence.map and start < at < fence.map[1]:
            return Split(f"{head}{fence.markup}", f"{lines[start]}{rest}")
    return Split(head.rstrip(), rest)


def _block_starts(tokens: Sequence[Token]) -> set[int]:
    return {
        token.map[0]
        for token in tokens
        if token.map
        and token.map[0]
        and (not token.level or (token.type, token.level) == ("list_item_open", 1))
    }


def _line_starts(tokens: Sequence[Token], lines: Sequence[str]) -> set[int]:
    """Lines within code blocks and paragraphs that a cut may stand before."""
    found: set[int] = set()
    for token in tokens:
        if token.level or not token.map:
            continue
        if token.type == "fence":
            found.update(range(token.map[0] + 2, token.map[1] - 1))
        elif token.type == "paragraph_open":
            inner = range(token.map[0] + 1, token.map[1])
            found.update(at for at in inner if not _UNDERLINE.fullmatch(lines[at]))
    return found


def _chars(lines: Sequence[str], at: int) -> int:
    return sum(map(len, lines[:at]))
