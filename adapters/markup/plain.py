"""Markdown as plain text, for places that show no styles at all: notifications, pipes, logs of a terminal."""

from trunkline.adapters.markup.blocks import Block, Code
from trunkline.adapters.markup.links import spell_out_links
from trunkline.adapters.markup.parse import parse
from trunkline.adapters.markup.split import blank_line

_WIDTH_CHARS = 80


def render_plain(markdown: str, width: int | None = None) -> str:
    """The text without its marks, addresses of links in brackets. Tables keep within `width` columns (80).

    Whitespace-only input gives an empty text.
    """
    parts: list[str] = []
    above: Block | None = None
    blocks = parse(markdown, width or _WIDTH_CHARS)
    for block in spell_out_links(blocks, lambda text, address: False):
        if above is not None:
            parts.append(blank_line(above, block))
        parts.append(_write(block))
        above = block
    return "".join(parts)


def _write(block: Block) -> str:
    if isinstance(block, Code):
        return block.text
    quote = "> " if block.quote else ""
    margin = "\n" + quote + " " * (block.indent + len(block.lead))
    return quote + " " * block.indent + block.lead + block.text.replace("\n", margin)
