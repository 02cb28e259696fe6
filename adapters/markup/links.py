"""Links a platform can't hide behind their text: their address is spelled out after it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby

from trunkline.adapters.markup.blocks import Block, Paragraph, Style, paragraph_of


def spell_out_links(block: Block, keeps: Callable[[str, str], bool]) -> Block:
    """The block with each link that `keeps(text, address)` refuses written as `text (address)`."""
    if not isinstance(block, Paragraph) or not any(run.style.link for run in block.runs):
        return block
    spelled = paragraph_of(_spans(block, keeps))
    return replace(block, text=spelled.text, runs=spelled.runs)


def _spans(block: Paragraph, keeps: Callable[[str, str], bool]) -> Iterator[tuple[str, Style]]:
    for address, group in groupby(block.spans(), key=lambda span: span[1].link):
        spans = list(group)
        text = "".join(text for text, _ in spans)
        if not address or keeps(text, address):
            yield from spans
            continue
        yield from ((text, replace(style, link="")) for text, style in spans)
        if text not in (address, address.removeprefix("mailto:")):
            yield f" ({address})", replace(spans[-1][1], link="", code=False)
