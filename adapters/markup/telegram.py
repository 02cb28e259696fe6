"""Markdown for Telegram: plain text plus entities in UTF-16 units, so that nothing fails to parse there."""

from collections.abc import Iterator

from trunkline.adapters.base import Chunk, Entity
from trunkline.adapters.markup.blocks import Block, Code, Paragraph, Style
from trunkline.adapters.markup.links import spell_out_links
from trunkline.adapters.markup.parse import parse
from trunkline.adapters.markup.split import blank_line, split

MESSAGE_UNITS = 4096
"""Bot API: text of a message, in UTF-16 units after entities are parsed."""

ENTITIES_MOST = 100
"""Bot API: further entities of a message are ignored."""

TABLE_COLUMNS = 42
"""What a phone shows of monospaced text without wrapping."""

_SCHEMES = ("http://", "https://", "tg://")


def render_telegram(markdown: str, limit_units: int = MESSAGE_UNITS) -> tuple[Chunk, ...]:
    """The whole text as messages of at most `limit_units` UTF-16 units (40 or more) and 100 entities."""
    blocks = spell_out_links(parse(markdown, TABLE_COLUMNS), _keeps_link)
    return split(blocks, _Telegram(), limit_units)


def utf16_units(text: str) -> int:
    """The length of a text as Telegram counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


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
        text, entities = _write_paragraph(block)
        return Chunk(text, _quoted(block, utf16_units(text), entities))


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
