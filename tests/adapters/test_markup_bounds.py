"""Texts made to cost time: the work grows with the text and no faster, and all of it is shown."""

import html
import re
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType

import pytest
from hypothesis import example, given

from tests.adapters.markup_model import (
    PLATFORMS,
    Renderer,
    Shown,
    any_markdown,
    has_what_is_laid_out_anew,
    squeezed,
    thorough,
    visible,
)
from trunkline.adapters.base import Chunk
from trunkline.adapters.markup.discord import render_discord
from trunkline.adapters.markup.grammar import CHARS_MOST, NESTING_MOST
from trunkline.adapters.markup.plain import render_plain
from trunkline.adapters.markup.slack import render_slack
from trunkline.adapters.markup.telegram import render_telegram
from trunkline.adapters.web.markdown import to_html

LIMIT = 60
"""Small, so that short texts already need many parts."""


def repeated(piece: str, chars: int) -> str:
    return piece * (chars // len(piece))


def table(columns: int, rows: int) -> str:
    """A table of which each row but the head has one cell written."""
    return "|" + "a|" * columns + "\n|" + "-|" * columns + "\n" + "a\n" * rows + "\n"


BOMBS: dict[str, Callable[[int], str]] = {
    "brackets": lambda n: "[" * n,
    "pictures": lambda n: repeated("![", n),
    "links that never close": lambda n: repeated("[a](", n),
    "brackets within brackets": lambda n: "[" * (n // 2) + "a" + "]" * (n // 2),
    "stars": lambda n: repeated("*a **b ", n),
    "bold and bold": lambda n: repeated("**a** ", n),
    "struck and struck": lambda n: repeated("~~a", n),
    "backticks": lambda n: "a " + "`" * n,
    "runs of backticks": lambda n: "".join("`" * i + " " for i in range(1, int((2 * n) ** 0.5))),
    "backslashes": lambda n: "\\" * n,
    "lines that a deep quotation goes on in": lambda n: "> " * 20 + "a\n" + repeated("a\n", n),
    "quotations": lambda n: repeated("> a\n\n", n),
    "lists": lambda n: repeated("- a\n", n),
    "headings": lambda n: repeated("# a\n", n),
    "definitions": lambda n: "\n".join(f"[{i}]: /u{i}" for i in range(n // 12)),
    "uses of a definition": lambda n: "[a]: u\n\n" + repeated("[a] ", n),
    "tables of cells nobody wrote": lambda n: repeated(table(40, 40), max(n, 250)),
    "a column's long name": lambda n: "|a|" + "b" * (n // 2) + "|\n|-|-|\n" + repeated("|x|y|\n", n // 2),
    "flags": lambda n: "🇨" * n,
    "accents": lambda n: "e" + "\u0301" * n,
    "joiners": lambda n: repeated("a\u200d", n),
    "spaces": lambda n: "a" + " " * n + "a",
    "one long address": lambda n: "https://e.test/" + "a" * n,
    "addresses": lambda n: repeated("https://e.test/a ", n),
    "mass mentions": lambda n: repeated("@everyone ", n),
    "code and names": lambda n: repeated("`c` @bob ", n),
    "names in an address": lambda n: "https://e.test/" + repeated("@bob/", n),
}
DRAWN: dict[str, Callable[[str], object]] = {
    "telegram": partial(render_telegram, limit_units=LIMIT),
    "discord": partial(render_discord, limit_chars=LIMIT),
    "slack": partial(render_slack, limit_bytes=LIMIT),
    "plain": render_plain,
    "web": to_html,
}


def calls_made(draw: Callable[[str], object], text: str) -> int:
    """How many functions are entered and left while `text` is drawn: the work, however busy the machine."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        draw(text)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_twice_the_text_is_twice_the_work(bomb: Callable[[int], str], draw: Callable[[str], object]) -> None:
    draw("What is made once is **made** before.")
    short, long = bomb(600), bomb(1200)

    few, many = calls_made(draw, short), calls_made(draw, long)

    assert many <= 1.35 * few * len(long) / len(short) + 1000
    assert many <= 1000 * len(long)


def test_a_table_of_cells_that_nobody_wrote_is_text() -> None:
    (chunk,) = render_telegram(table(30, 30))

    assert chunk.text == table(30, 30).strip()
    assert not chunk.entities


def test_a_table_with_some_cells_left_out_is_a_table() -> None:
    (chunk,) = render_telegram("| a | b | c |\n|---|---|---|\n| 1 |\n| 1 | 2 |")

    assert chunk.text == "a  b  c\n─  ─  ─\n1\n1  2"


def test_the_long_name_of_a_column_is_said_whole_once() -> None:
    name = "a very long name of a column " * 4
    (chunk,) = render_telegram(f"| what | {name} |\n|---|---|\n| one | 1 |\n| two | 2 |")

    assert chunk.text.count(name.strip()) == 1
    assert chunk.text.endswith(f"two\n• {name[:40]}…: 2")


@pytest.mark.parametrize(("render", "size", "read"), PLATFORMS)
def test_what_nests_too_deep_or_is_too_long_is_shown_as_it_was_written(
    render: Renderer, size: object, read: Callable[[tuple[Chunk, ...]], Shown]
) -> None:
    deep = "before **it**\n\n" + "> " * (NESTING_MOST + 1) + "deep\n\nafter it"
    long = "**a** " * (CHARS_MOST // 6) + "the end"

    assert squeezed(read(render(deep, 2000)).text) == squeezed(deep)
    assert squeezed("".join(chunk.text for chunk in render(long, 2000))).endswith("theend")


def words_of(page: str) -> str:
    return squeezed(html.unescape(re.sub(r"<[^>]*>", "", page)))


@thorough
@given(markdown=any_markdown)
@example(markdown="before\n\n" + "> " * 80 + "deep")
@example(markdown="- " * 40 + "deep")
@example(markdown="a\n\n[b]: https://e.test/unused")
def test_everything_visible_in_the_source_is_on_the_page(markdown: str) -> None:
    if has_what_is_laid_out_anew(markdown):
        return

    assert words_of(to_html(markdown)) == squeezed(visible(markdown, drawn=False))


@pytest.mark.parametrize(
    "markdown", ["before\n\n" + "> " * 80 + "deep", "- " * 40 + "deep", "a\n\n[b]: https://e.test/unused"]
)
def test_nothing_of_an_answer_is_missing_from_the_page(markdown: str) -> None:
    shown = words_of(to_html(markdown))

    assert all(word in shown for word in re.findall(r"[a-z]{3,}", markdown))
