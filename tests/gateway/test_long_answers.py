"""Answers too long for a chat: what stays and what goes into the file show all there was, in order."""

import re
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from trunkline.adapters.base import Chunk
from trunkline.adapters.markup.telegram import render_telegram
from trunkline.gateway.long_answers import PARTS_MOST, split_long

POINTER = "More in the file."
LIMIT = 200


def render(markdown: str) -> Sequence[Chunk]:
    return render_telegram(markdown, LIMIT)


def visible(markdown: str) -> str:
    """Every letter that a reader sees, without the spaces between."""
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    texts = [token.content for token in tokens if token.type in ("inline", "fence", "code_block")]
    return re.sub(r"\s+", "", "".join(texts))


words = st.text("abcde ", min_size=1, max_size=120).map(lambda text: f"x{text.strip()}")
lines = st.lists(words, min_size=1, max_size=12)
blocks = st.one_of(
    lines.map("\n".join),
    lines.map(lambda some: "```py\n" + "\n".join(some) + "\n```"),
    lines.map(lambda some: "\n".join(f"- {one}" for one in some)),
    lines.map(lambda some: "\n".join(f"> {one}" for one in some)),
    words.map(lambda one: f"## {one}"),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(blocks, min_size=1, max_size=25).map("\n\n".join))
def test_chat_and_file_together_show_all_of_the_answer(markdown: str) -> None:
    split = split_long(markdown, render, POINTER)
    if split is None:
        return
    assert visible(split.head) + visible(split.rest) == visible(markdown)
    assert len(render(f"{split.head}\n\n{POINTER}")) <= PARTS_MOST


def test_what_fits_is_left_alone() -> None:
    assert split_long("short", render, POINTER) is None


def test_a_long_block_of_code_goes_on_in_the_file_as_code() -> None:
    code = [f"line_{n} = {n}" for n in range(200)]
    split = split_long("Here:\n\n```python\n" + "\n".join(code) + "\n```\n", render, POINTER)
    assert split is not None
    assert split.head.endswith("\n```")
    assert split.rest.startswith("```python\n")
    kept = [one for one in (split.head + "\n" + split.rest).splitlines() if one.startswith("line_")]
    assert kept == code


def test_a_cut_stands_between_blocks_where_little_is_lost_by_it() -> None:
    paragraphs = [f"Paragraph {n} " + "word " * 20 for n in range(30)]
    split = split_long("\n\n".join(paragraphs), render, POINTER)
    assert split is not None
    assert split.rest.startswith("Paragraph")


def test_an_answer_whose_links_stand_at_its_end_is_not_cut() -> None:
    markdown = "\n\n".join(["see [this][1] " + "word " * 30] * 20) + "\n\n[1]: https://example.com\n"
    assert split_long(markdown, render, POINTER) is None
