"""Markdown for Discord: its own dialect, in which nothing the model wrote can ping or turn into markup."""

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

MESSAGE_CHARS = 2000
"""Discord: content of a bot's message, in code points; more is refused with code 50035."""

TABLE_COLUMNS = 60

_SPECIAL = re.compile(r"[\\*_~`|\[\]]")
_LINE_START = re.compile(r"(\s*)(#{1,3}\s|-#\s|>|[-+]\s|\d+(?=\.\s))")
_MASS_MENTION = re.compile(r"@(?=everyone|here)")
_SEQUENCE = re.compile(r"<(?=[@#:]|a:|t:|id:|/[^>]*:\d)")
_URL = re.compile(r"https?://[^\s<]+[^<.,:;\"')\]\s]")
_BACKTICKS = re.compile(r"`+")


def render_discord(markdown: str, limit_chars: int = MESSAGE_CHARS) -> tuple[Chunk, ...]:
    """The whole text as messages of at most `limit_chars` code points."""
    keeps = partial(_keeps_link, limit_chars // 2)
    blocks = (
        overheads_fit(block, limit_chars) if isinstance(block, Code) else block
        for block in spell_out_links(parse(markdown, TABLE_COLUMNS), keeps)
    )
    return split(blocks, _Discord(), limit_chars)


def _keeps_link(address_chars_most: int, text: str, address: str) -> bool:
    """Masked links lead to the web only, and Discord shows them raw when their text is an address."""
    fits = address.startswith(("http://", "https://")) and len(_in_link(address)) <= address_chars_most
    return fits and (text == address or "://" not in text) and not is_blank(text)


class _Discord:
    entities_most = 0

    def size(self, text: str) -> int:
        return len(text)

    def joint(self, above: Block, below: Block) -> str:
        return quoted_joint(above, below)

    def write(self, block: Block) -> Chunk:
        if isinstance(block, Code):
            fence = "`" * block.fence
            return Chunk(f"{fence}{block.language}\n{block.text}\n{fence}")
        lead = "- " + block.lead[2:] if block.lead.startswith("• ") else block.lead
        return Chunk(write_paragraph(block, lead, _write_line))


def _write_line(spans: Spans) -> str:
    line = _MARKS.write(spans)
    return _LINE_START.sub(_escape_line_start, line, count=1) if _LINE_START.match(line) else line


def _escape_line_start(match: re.Match[str]) -> str:
    space, sign = match.groups()
    return f"{space}{sign}\\" if sign.isdigit() else f"{space}\\{sign}"


def _escape(text: str) -> str:
    """Literal text with every mark made inert; addresses stay as they are, since Discord reads them first."""
    out: list[str] = []
    at = 0
    for match in _URL.finditer(text):
        out += [_escape_words(text[at : match.start()]), _MASS_MENTION.sub("%40", match[0])]
        at = match.end()
    out.append(_escape_words(text[at:]))
    return "".join(out)


def _escape_words(text: str) -> str:
    escaped = _SPECIAL.sub(r"\\\g<0>", text)
    return _SEQUENCE.sub("<" + INVISIBLE, _MASS_MENTION.sub("@" + INVISIBLE, escaped))


def _in_link(address: str) -> str:
    """An address as it may stand in brackets."""
    for char, code in (("(", "%28"), (")", "%29"), ("<", "%3C"), (">", "%3E"), (" ", "%20")):
        address = address.replace(char, code)
    return _MASS_MENTION.sub("%40", address)


def _link(inner: Inner, address: str) -> str:
    if inner.raw == address:
        return f"<{_MASS_MENTION.sub('%40', address)}>"
    return f"[{inner.written}]({_in_link(address)})"


def _bold(inner: Inner, _: str) -> str:
    return inner.written if _hides(inner, "*") else f"**{inner.written}**"


def _strike(inner: Inner, _: str) -> str:
    return inner.written if _hides(inner, "~") else f"~~{inner.written}~~"


def _hides(inner: Inner, sign: str) -> bool:
    """True if code or an address, which can't be escaped, has the sign that would end the style early."""
    return sign in inner.raw and ("`" in inner.written or "://" in inner.raw)


def _italic(inner: Inner, _: str) -> str:
    """Underscores, which can't be confused with bold, but only where no letter touches them."""
    sign = "*" if _is_word(inner.left) or _is_word(inner.right) else "_"
    return inner.written if _hides(inner, sign) else f"{sign}{inner.written}{sign}"


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _code(inner: Inner, _: str) -> str:
    """Code in as many backticks as its text needs; with three in it, only a fence could hold it."""
    longest = max((len(run) for run in _BACKTICKS.findall(inner.raw)), default=0)
    if longest > 1 or is_blank(inner.raw):
        return inner.written
    sign = "`" * (longest + 1)
    pad = " " if longest and (inner.raw[0] == "`" or inner.raw[-1] == "`") else ""
    return sign + pad + inner.raw + pad + sign


def _no_seam(left: str, right: str) -> str:
    return ""


def _close_address(text: str) -> str:
    """A bare address at the end in angle brackets: it would go on into whatever follows without a space."""
    *_, found = (None, *_URL.finditer(text))
    if found is None or not found.end() or re.search(r"[\s<>]", text[found.start() :]):
        return text
    return f"{text[: found.start()]}<{found[0]}>{text[found.end() :]}"


_MARKS = Marks(
    (
        Level(lambda style: style.link, _link),
        Level(lambda style: "bold" if style.bold else "", _bold),
        Level(lambda style: "strike" if style.strike else "", _strike),
        Level(lambda style: "italic" if style.italic else "", _italic),
        Level(lambda style: "code" if style.code else "", _code),
    ),
    _escape,
    _no_seam,
    _close_address,
)
