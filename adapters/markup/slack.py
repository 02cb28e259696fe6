"""Markdown for Slack: mrkdwn in which each `<…>` is ours and any other `& < >` is escaped, code included."""

import re
from functools import partial

from trunkline.adapters.base import Chunk
from trunkline.adapters.markup.blocks import Block, Code, is_blank
from trunkline.adapters.markup.links import spell_out_links
from trunkline.adapters.markup.marks import (
    INVISIBLE,
    Inner,
    Level,
    Marks,
    Spans,
    overheads_fit,
    quoted_joint,
    write_paragraph,
)
from trunkline.adapters.markup.parse import parse
from trunkline.adapters.markup.split import split

MESSAGE_BYTES = 3900
"""Slack: `chat.update` refuses more than 4000 bytes of UTF-8 (measured by peers); a little is kept free."""

TABLE_COLUMNS = 72

_SCHEMES = ("http://", "https://", "mailto:")
_OPENING_MARK = re.compile(r"(?<![^\W_])[*_~](?=\S)")
_QUOTE_START = re.compile(r"\s*(?=&gt;)")
_FENCE = re.compile("(?<=`)(?=`)")
_LIKE_A_BACKTICK = "\u02cb"
"""Stands for a backtick in prose: Slack has no way to write one that can't begin code."""

_BESIDE_A_MARK = " \t.,;:!?()[]{}\"'-–—/…" + INVISIBLE


def render_slack(markdown: str, limit_bytes: int = MESSAGE_BYTES) -> tuple[Chunk, ...]:
    """The whole text as messages of at most `limit_bytes` bytes of UTF-8."""
    keeps = partial(_keeps_link, limit_bytes // 2)
    blocks = (
        overheads_fit(_fenced(block), limit_bytes) if isinstance(block, Code) else block
        for block in spell_out_links(parse(markdown, TABLE_COLUMNS), keeps)
    )
    return split(blocks, _Slack(), limit_bytes)


def escape(text: str) -> str:
    """The three characters that Slack reads as control, as it wants them written everywhere."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _fenced(block: Code) -> Code:
    """Slack knows one fence and no language."""
    return Code(block.text, quote=block.quote, gap=block.gap)


def _keeps_link(address_bytes_most: int, text: str, address: str) -> bool:
    fits = address.startswith(_SCHEMES) and len(_in_link(address).encode()) <= address_bytes_most
    return fits and not is_blank(text)


class _Slack:
    entities_most = 0

    def size(self, text: str) -> int:
        return len(text) if text.isascii() else len(text.encode())

    def joint(self, above: Block, below: Block) -> str:
        return quoted_joint(above, below)

    def write(self, block: Block) -> Chunk:
        if isinstance(block, Code):
            return Chunk(f"```\n{_FENCE.sub(INVISIBLE, escape(block.text))}\n```")
        return Chunk(write_paragraph(block, block.lead, _write_line))


def _write_line(spans: Spans) -> str:
    line = _MARKS.write(spans)
    return _QUOTE_START.sub(r"\g<0>" + INVISIBLE, line, count=1) if _QUOTE_START.match(line) else line


def _escape_words(text: str) -> str:
    """Literal text in which no mark can open: the space after it keeps it from doing so."""
    inert = _OPENING_MARK.sub(r"\g<0>" + INVISIBLE, escape(text))
    return inert.replace("`", _LIKE_A_BACKTICK)


def _in_link(address: str) -> str:
    for char, code in (("<", "%3C"), (">", "%3E"), ("|", "%7C"), (" ", "%20")):
        address = address.replace(char, code)
    return address.replace("&", "&amp;")


def _styled(inner: Inner, sign: str) -> str:
    """Text that holds the very sign would end its style too early: it goes without."""
    return inner.written if sign in inner.raw else sign + inner.written + sign


def _link(inner: Inner, address: str) -> str:
    if inner.raw == address:
        return f"<{_in_link(address)}>"
    return f"<{_in_link(address)}|{inner.written}>"


def _code(inner: Inner, _: str) -> str:
    """A backtick can't stand in Slack's inline code: such code is shown as text."""
    if "`" in inner.raw or is_blank(inner.raw):
        return inner.written
    return f"`{escape(inner.raw)}`"


def _seam(left: str, right: str) -> str:
    """Slack reads a mark only beside a space or punctuation."""
    touching = left and right and left not in _BESIDE_A_MARK and right not in _BESIDE_A_MARK
    return INVISIBLE if touching else ""


_MARKS = Marks(
    (
        Level(lambda style: "*" if style.bold else "", _styled),
        Level(lambda style: "_" if style.italic else "", _styled),
        Level(lambda style: "~" if style.strike else "", _styled),
        Level(lambda style: style.link, _link),
        Level(lambda style: "`" if style.code and not style.link else "", _code),
    ),
    _escape_words,
    _seam,
)
