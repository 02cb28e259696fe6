"""Reads Markdown (CommonMark, tables, strikethrough) into blocks. HTML and entities stay literal text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from markdown_it.tree import SyntaxTreeNode

from trunkline.adapters.markup.blocks import PLAIN, Block, Code, Paragraph, Style, is_blank, paragraph_of
from trunkline.adapters.markup.grammar import References, new_parser, read_whole, unused_references
from trunkline.adapters.markup.tables import Cell, Table, lay_out

RULE = "─" * 10
"""What a horizontal rule becomes."""

_INDENT_CHARS_MOST = 8
_LANGUAGE = re.compile(r"[A-Za-z0-9_+\-.#]{1,32}\Z")
_BACKTICKS = re.compile(r"`+")

_parser = new_parser()


def parse(markdown: str, table_columns: int) -> tuple[Block, ...]:
    """The blocks of a text. Tables wider than `table_columns` become lists, others aligned code.

    A text that is too long or nests too deep is shown as it was written.
    """
    source = _without_lone_surrogates(markdown)
    env: dict[str, References] = {}
    tokens = read_whole(_parser, source, env)
    if tokens is None:
        return (Paragraph(source.strip("\n")),) if not is_blank(source) else ()
    flattener = _Flattener(table_columns)
    for child in SyntaxTreeNode(tokens).children:
        flattener.block(child)
    for line in unused_references(source, tokens, env):
        flattener.emit(Paragraph(line, gap=False))
    return tuple(flattener.blocks)


def _without_lone_surrogates(text: str) -> str:
    """Pairs become the character they mean, halves become the replacement mark."""
    if text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def fence_for(text: str) -> int:
    """How many backticks a fence around `text` needs."""
    return max(3, 1 + max((len(run) for run in _BACKTICKS.findall(text)), default=0))


def inline_spans(node: SyntaxTreeNode, style: Style = PLAIN) -> Iterator[tuple[str, Style]]:
    """The styled text of an inline node and everything in it."""
    match node.type:
        case "text" | "text_special":
            yield node.content, style
        case "softbreak" | "hardbreak":
            yield "\n", style
        case "code_inline":
            yield node.content, replace(style, code=True)
        case "image":
            address = str(node.attrs.get("src", ""))
            text = "".join(text for child in node.children for text, _ in inline_spans(child))
            yield text or address, replace(style, link=style.link or address)
        case _:
            inner = _inner_style(node, style)
            for child in node.children:
                yield from inline_spans(child, inner)


def _inner_style(node: SyntaxTreeNode, style: Style) -> Style:
    match node.type:
        case "strong":
            return replace(style, bold=True)
        case "em":
            return replace(style, italic=True)
        case "s":
            return replace(style, strike=True)
        case "link":
            return replace(style, link=str(node.attrs.get("href", "")))
        case _:
            return style


@dataclass(slots=True)
class _Flattener:
    """Turns the tree into a row of blocks; lists and quotes become leads, indents and quote numbers."""

    table_columns: int
    blocks: list[Block] = field(default_factory=list)
    _lead: str = ""
    _indent: int = 0
    _quote: int = 0
    _quotes_seen: int = 0
    _tight: bool = False

    def emit(self, block: Block) -> None:
        """Adds a block in the present surroundings."""
        if isinstance(block, Paragraph):
            block = replace(block, lead=self._lead, indent=min(self._indent, _INDENT_CHARS_MOST))
            self._lead = ""
            if is_blank(block.lead + block.text):
                return
        elif is_blank(block.text):
            return
        else:
            self._emit_pending_lead()
        self.blocks.append(replace(block, quote=self._quote, gap=block.gap and not self._tight))

    def block(self, node: SyntaxTreeNode) -> None:
        match node.type:
            case "paragraph":
                self.emit(paragraph_of(self._spans_of(node)))
            case "heading":
                spans = ((text, replace(style, bold=True)) for text, style in self._spans_of(node))
                self.emit(replace(paragraph_of(spans), keeps_next=True))
            case "fence" | "code_block":
                self._code(node)
            case "hr":
                self.emit(Paragraph(RULE))
            case "table":
                self._table(node)
            case "blockquote":
                self._quotation(node)
            case "bullet_list" | "ordered_list":
                self._list(node)
            case _:
                for child in node.children:
                    self.block(child)

    def _spans_of(self, node: SyntaxTreeNode) -> Iterator[tuple[str, Style]]:
        for child in node.children:
            yield from inline_spans(child)

    def _code(self, node: SyntaxTreeNode) -> None:
        language, _, caption = node.info.strip().partition(" ")
        if not _LANGUAGE.match(language):
            language, caption = "", node.info.strip()
        if caption.strip():
            self.emit(replace(Paragraph(caption.strip()), keeps_next=True))
        text = node.content.removesuffix("\n")
        self.emit(Code(text, language, fence=fence_for(text), gap=not caption.strip()))

    def _table(self, node: SyntaxTreeNode) -> None:
        rows = [
            tuple(
                Cell(
                    tuple(self._spans_of(cell)), str(cell.attrs.get("style", "")).removeprefix("text-align:")
                )
                for cell in row.children
            )
            for part in node.children
            for row in part.children
        ]
        for block in lay_out(Table(rows[0], tuple(rows[1:])), self.table_columns):
            self.emit(replace(block, fence=fence_for(block.text)) if isinstance(block, Code) else block)

    def _quotation(self, node: SyntaxTreeNode) -> None:
        outer, tight = self._quote, self._tight
        if not outer:
            self._quotes_seen += 1
            self._quote = self._quotes_seen
        self._tight = False
        for child in node.children:
            self.block(child)
        self._quote, self._tight = outer, tight

    def _list(self, node: SyntaxTreeNode) -> None:
        tight, indent = self._tight, self._indent
        number = int(node.attrs.get("start", 1))
        for item in node.children:
            lead = "• " if node.type == "bullet_list" else f"{number}. "
            number += 1
            self._lead += lead
            self._indent = indent
            for position, child in enumerate(item.children):
                if position:
                    self._indent = indent + len(lead)
                self.block(child)
                self._tight = _is_tight(item)
            self._emit_pending_lead()
            self._tight = _is_tight(item)
        self._tight, self._indent = tight, indent

    def _emit_pending_lead(self) -> None:
        if self._lead:
            self.emit(Paragraph("", gap=not self._tight))


def _is_tight(item: SyntaxTreeNode) -> bool:
    return any(child.type == "paragraph" and child.hidden for child in item.children) or not item.children
