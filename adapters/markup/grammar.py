"""The Markdown we read (CommonMark, tables, strikethrough; HTML and entities are text), in linear time.

The library's own bounds leave texts of a few kilobytes that take seconds; ours are here.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML, RendererProtocol
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block import table as read_table
from markdown_it.token import Token

NESTING_MOST = 24
"""How deep containers may nest: each level is looked through again for each line that goes on in it."""

CHARS_MOST = 200_000
"""Nobody reads more in a chat: a longer text is shown as it was written."""

References = dict[str, dict[str, object]]
"""What the parser found defined, by label."""

_EMPTY_CELLS_FREE = 100
"""Cells that a table may have filled up beyond those that somebody wrote."""


def new_parser(
    renderer: Callable[[MarkdownIt], RendererProtocol] = RendererHTML, *, breaks: bool = False
) -> MarkdownIt:
    """A parser, ready to be used by several threads. With `breaks` each line end is drawn as one."""
    options = {"html": False, "breaks": breaks, "maxNesting": NESTING_MOST}
    parser = MarkdownIt("commonmark", options, renderer_cls=renderer)
    parser.enable(["table", "strikethrough"]).disable(["entity"])
    parser.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    # It compiles its rules when it is first used, which must not happen in two threads at once.
    parser.parse("a")
    return parser


def read_whole(parser: MarkdownIt, source: str, env: dict[str, References]) -> Sequence[Token] | None:
    """The tokens of a text; None where it is too long or nests too deep: not all would be in them."""
    if len(source) > CHARS_MOST:
        return None
    tokens = parser.parse(source, env)
    return None if any(token.level >= NESTING_MOST - 1 for token in tokens) else tokens


def unused_references(source: str, tokens: Sequence[Token], env: dict[str, References]) -> Iterator[str]:
    """The link definitions nothing refers to: they would vanish, yet somebody wrote them."""
    used = {
        str(token.attrs["href" if token.type == "link_open" else "src"])
        for inline in tokens
        for token in inline.children or ()
        if token.type in ("link_open", "image")
    }
    lines = re.split(r"\r\n|\r|\n", source)
    for reference in env.get("references", {}).values():
        where = reference.get("map")
        if reference.get("href") not in used and isinstance(where, list):
            yield " ".join(line.strip() for line in lines[where[0] : where[1]])


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """The library's rule, but a table that is mostly cells nobody wrote is text: two letters can ask for
    hundreds of them."""
    if not read_table(state, start, end, True):
        return False
    columns = _cells(state, start)
    written = filled_up = 0
    for line in range(start + 2, end):
        if state.isEmpty(line) or state.sCount[line] < state.blkIndent:
            break
        written += min(columns, _cells(state, line))
        filled_up += max(0, columns - _cells(state, line))
    if filled_up > max(_EMPTY_CELLS_FREE, written + columns):
        return False
    return silent or read_table(state, start, end, False)


def _cells(state: StateBlock, line: int) -> int:
    """How many cells a row has, to within the pipes at its ends."""
    return state.src.count("|", state.bMarks[line], state.eMarks[line]) + 1
