"""Markdown for Telegram: plain text plus entities in UTF-16 units, so that nothing fails to parse there."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from trunkline.adapters.base import Chunk, Entity
from trunkline.adapters.markup.blocks import Block, Code, Paragraph, Style
from trunkline.adapters.markup.links import spell_out_links
from trunkline.adapters.markup.marks import INVISIBLE
from trunkline.adapters.markup.parse import parse
from trunkline.adapters.markup.split import blank_line, split

MESSAGE_UNITS = 4096
"""Bot API: text of a message, in UTF-16 units after entities are parsed."""

ENTITIES_MOST = 100
"""Bot API: further entities of a message are ignored."""

TABLE_COLUMNS = 42
"""What a phone shows of monospaced text without wrapping."""

_MENTION = re.compile(r"(?<!\w)@(?=[A-Za-z]\w)")
"""What the server makes a mention of, wherever it stands outside code and addresses."""
_ADDRESS = re.compile(
    r"(?<![^\s(])https?://(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}(?::\d{1,4})?/[A-Za-z0-9_.~/%?=&#+@-]*"
)
"""The beginning of what the server surely takes for an address as a whole: in one, no name is called."""
_ADDRESS_CHARS = 300
"""How far before a name the beginning of an address is looked for."""
_SCHEMES = ("http://", "https://", "tg://")


def render_telegram(markdown: str, limit_units: int = MESSAGE_UNITS) -> tuple[Chunk, ...]:
    """The whole text as messages of at most `limit_units` UTF-16 units and 100 entities."""
    blocks = spell_out_links(parse(markdown, TABLE_COLUMNS), _keeps_link)
    return split(blocks, _Telegram(), limit_units)


def utf16_units(text: str) -> int:
    """The length of a text as Telegram counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def calling_nobody(chunk: Chunk) -> Chunk:
    """The same with every mention broken up: a model's words are to notify no member of a group.

    Code and addresses stay to the byte. A chunk that came from here comes back as it is.
    """
    text, entities = chunk.text, chunk.entities
    code = [one for one in entities if one.kind in ("code", "pre")]
    begins = [one.offset for one in code]
    broken, marks, seen, units = [], [], 0, 0
    for match in _MENTION.finditer(text):
        units += utf16_units(text[seen : match.end()])
        seen = match.end()
        before = bisect_left(begins, units)
        in_code = before > 0 and units < code[before - 1].offset + code[before - 1].length
        if not in_code and not _in_address(text, match.start()):
            broken.append(seen)
            marks.append(units)
    if not broken:
        return chunk
    edges = (0, *broken, len(text))
    whole = INVISIBLE.join(text[since:until] for since, until in pairwise(edges))
    return Chunk(whole, tuple(_moved(one, marks) for one in entities))


def _keeps_link(text: str, address: str) -> bool:
    return address.startswith(_SCHEMES)


class _Telegram:
    entities_most = ENTITIES_MOST

    def size(self, text: str) -> int:
        return utf16_units(text)

    def joint(self, above: Block, below: Block) -> str:
        return blank_line(above, below)

    def write(self, block: Block) -> Chunk:
        if isinstance(block, Code):
            units = utf16_units(block.text)
            inner: tuple[Entity, ...] = (Entity("pre", 0, units, language=block.language or None),)
            return Chunk(block.text, _quoted(block, units, inner))
        written = calling_nobody(Chunk(*_write_paragraph(block)))
        return Chunk(written.text, _quoted(block, utf16_units(written.text), written.entities))


def _quoted(block: Block, units: int, inner: tuple[Entity, ...]) -> tuple[Entity, ...]:
    return (Entity("blockquote", 0, units), *inner) if block.quote and units else inner


def _write_paragraph(block: Paragraph) -> tuple[str, tuple[Entity, ...]]:
    first = " " * block.indent + block.lead
    margin = "\n" + " " * (block.indent + len(block.lead))
    texts = [first]
    at = utf16_units(first)
    open_since: dict[str, tuple[int, Style]] = {}
    entities: list[Entity] = []
    for text, style in block.spans():
        written = text if style.code else text.replace("\n", margin)
        wanted = dict(_kinds(style))
        for kind, (since, opened) in tuple(open_since.items()):
            if kind not in wanted or (kind == "text_link" and opened.link != style.link):
                entities.append(_entity(kind, since, at, opened))
                del open_since[kind]
        for kind in wanted:
            open_since.setdefault(kind, (at, style))
        texts.append(written)
        at += utf16_units(written)
    entities += [_entity(kind, since, at, style) for kind, (since, style) in open_since.items()]
    return "".join(texts), tuple(sorted(entities, key=lambda one: (one.offset, -one.length)))


def _in_address(text: str, at: int) -> bool:
    begin = text.rfind("http", max(at - _ADDRESS_CHARS, 0), at)
    return begin >= 0 and _ADDRESS.fullmatch(text, begin, at) is not None


def _moved(entity: Entity, marks: Sequence[int]) -> Entity:
    """Where an entity stands once a mark of one unit is put in at each of these offsets."""
    since = entity.offset + bisect_left(marks, entity.offset + 1)
    until = entity.offset + entity.length
    until += bisect_left(marks, until)
    return replace(entity, offset=since, length=until - since)


def _kinds(style: Style) -> Iterator[tuple[str, Style]]:
    """The entities a style asks for; code stands alone, and inside a link it gives way."""
    if style.code and not style.link:
        yield "code", style
        return
    for wanted, kind in (
        (style.link, "text_link"),
        (style.bold, "bold"),
        (style.italic, "italic"),
        (style.strike, "strikethrough"),
    ):
        if wanted:
            yield kind, style


def _entity(kind: str, since: int, until: int, style: Style) -> Entity:
    return Entity(kind, since, until - since, url=style.link if kind == "text_link" else None)
