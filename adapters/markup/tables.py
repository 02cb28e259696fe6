"""Lays tables out for platforms that have none: aligned columns in code, or a list when that is too wide."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rich.cells import cell_len

from trunkline.adapters.markup.blocks import PLAIN, Block, Code, Style, paragraph_of

_BETWEEN = "  "

_NAME_CHARS_MOST = 40
"""Of a column's name, each time after the first that a list of rows says it."""


@dataclass(frozen=True, slots=True)
class Cell:
    """`align` is left, right, center or empty."""

    spans: tuple[tuple[str, Style], ...]
    align: str = ""

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.spans).replace("\n", " ")

    @property
    def has_link(self) -> bool:
        return any(style.link and style.link != text for text, style in self.spans)


@dataclass(frozen=True, slots=True)
class Table:
    head: tuple[Cell, ...]
    body: tuple[tuple[Cell, ...], ...]


def lay_out(table: Table, columns_most: int) -> Iterator[Block]:
    """Aligned code if it fits `columns_most` columns and hides no link, else a list of its rows."""
    rows = (table.head, *table.body)
    widths = [max(cell_len(row[column].text) for row in rows) for column in range(len(table.head))]
    total = sum(widths) + len(_BETWEEN) * (len(widths) - 1)
    if total > columns_most or any(cell.has_link for row in rows for cell in row):
        yield from _as_list(table)
        return
    lines = [_line(table.head, widths), _BETWEEN.join("─" * width for width in widths).rstrip()]
    lines += [_line(row, widths) for row in table.body]
    yield Code("\n".join(lines))


def _line(row: tuple[Cell, ...], widths: list[int]) -> str:
    cells = [_padded(cell, width) for cell, width in zip(row, widths, strict=True)]
    return _BETWEEN.join(cells).rstrip()


def _padded(cell: Cell, width: int) -> str:
    room = width - cell_len(cell.text)
    left = room if cell.align == "right" else room // 2 if cell.align == "center" else 0
    return " " * left + cell.text + " " * (room - left)


def _as_list(table: Table) -> Iterator[Block]:
    """A row is its first cell in bold, then a line for each further cell, named by its column."""
    if not table.body:
        yield paragraph_of(_joined(table.head))
    for number, row in enumerate(table.body):
        spans: list[tuple[str, Style]] = []
        for column, (name, cell) in enumerate(zip(table.head, row, strict=True)):
            if column:
                spans.append(("\n• ", PLAIN))
            if column and name.text:
                spans += [*(_shortened(name) if number else name.spans), (": ", PLAIN)]
            spans += cell.spans if column else _bold(cell)
        yield paragraph_of(
            (text.replace("\n", " ") if text != "\n• " else text, style) for text, style in spans
        )


def _shortened(name: Cell) -> tuple[tuple[str, Style], ...]:
    if len(name.text) > _NAME_CHARS_MOST:
        return ((f"{name.text[:_NAME_CHARS_MOST]}…", PLAIN),)
    return tuple((text, replace(style, link="")) for text, style in name.spans)


def _bold(cell: Cell) -> list[tuple[str, Style]]:
    return [(text, replace(style, bold=True)) for text, style in cell.spans]


def _joined(cells: tuple[Cell, ...]) -> Iterator[tuple[str, Style]]:
    for column, cell in enumerate(cells):
        if column:
            yield " · ", PLAIN
        yield from _bold(cell)
