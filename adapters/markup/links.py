"""Links a platform can't hide behind their text: their address is spelled out after it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from trunkline.adapters.markup.blocks import Block, Paragraph, Style, paragraph_of

ADDRESS_CHARS_MOST = 200
"""Of an address that is spelled out: more is nothing that people read or type."""


def spell_out_links(blocks: Iterable[Block], keeps: Callable[[str, str], bool]) -> Iterator[Block]:
    """The blocks of a text, each link that `keeps(text, address)` refuses written as `text (address)`.

    An address is spelled out once in a text, so that a short text stays one however often it refers to it.
    """
    told: set[str] = set()
    for block in blocks:
        yield _spell_out(block, keeps, told)


def _spell_out(block: Block, keeps: Callable[[str, str], bool], told: set[str]) -> Block:
    if not isinstance(block, Paragraph) or not any(run.style.link for run in block.runs):
        return block
    spelled = paragraph_of(_spans(block, keeps, told))
    return replace(block, text=spelled.text, runs=spelled.runs)


def _spans(
    block: Paragraph, keeps: Callable[[str, str], bool], told: set[str]
) -> Iterator[tuple[str, Style]]:
    for address, group in groupby(block.spans(), key=lambda span: span[1].link):
        spans = list(group)
        text = "".join(text for text, _ in spans)
        if not address or keeps(text, address):
            yield from spans
            continue
        yield from ((text, replace(style, link="")) for text, style in spans)
        if address not in told and text not in (address, address.removeprefix("mailto:")):
            shown = address if len(address) <= ADDRESS_CHARS_MOST else f"{address[:ADDRESS_CHARS_MOST]}…"
            yield f" ({shown})", replace(spans[-1][1], link="", code=False)
        told.add(address)
