"""What holds for any Markdown on any platform: all of it arrives, in order, fitting, code untouched."""

from collections.abc import Callable

import pytest
from hypothesis import example, given

from tests.adapters.markup_model import (
    PLATFORMS,
    ZERO_WIDTH,
    Renderer,
    Shown,
    any_markdown,
    assert_code_is_whole,
    code_lines,
    code_of,
    has_what_is_laid_out_anew,
    limits,
    paragraphs,
    squeezed,
    thorough,
    visible,
)
from trunkline.adapters.base import Chunk
from trunkline.adapters.markup.telegram import render_telegram


@pytest.mark.parametrize(("render", "size", "read"), PLATFORMS)
@thorough
@given(markdown=any_markdown, limit=limits)
@example(markdown="a" * 500 + "👨\u200d👩\u200d👧" * 60, limit=40)
@example(markdown="e" + "\u0301" * 500, limit=40)
@example(markdown="`" * 300, limit=41)
@example(markdown="[a](https://e.test/" + "x" * 500 + ")", limit=40)
@example(markdown="- " * 40 + "deep", limit=40)
@example(markdown=">" * 80 + " deep", limit=40)
def test_no_chunk_is_blank_or_over_the_limit(
    render: Renderer, size: Callable[[str], int], read: object, markdown: str, limit: int
) -> None:
    chunks = render(markdown, limit)

    assert all(size(chunk.text) <= limit and squeezed(chunk.text) for chunk in chunks)
    assert bool(chunks) or not squeezed(visible(markdown))


@pytest.mark.parametrize(("render", "size", "read"), PLATFORMS)
@thorough
@given(markdown=any_markdown, limit=limits)
@example(markdown="**a\\* b** c*", limit=100)
@example(markdown="***a** b*", limit=100)
@example(markdown="- - a\n\n      code", limit=100)
def test_everything_visible_in_the_source_is_shown_in_order(
    render: Renderer, size: object, read: Callable[[tuple[Chunk, ...]], Shown], markdown: str, limit: int
) -> None:
    if has_what_is_laid_out_anew(markdown):
        return

    shown = read(render(markdown, limit)).text

    assert squeezed(shown) == squeezed(visible(markdown))


@pytest.mark.parametrize(("render", "size", "read"), PLATFORMS)
@thorough
@given(code=code_lines, limit=limits, before=paragraphs)
def test_code_keeps_every_byte_over_any_number_of_parts(
    render: Renderer,
    size: object,
    read: Callable[[tuple[Chunk, ...]], Shown],
    code: str,
    limit: int,
    before: str,
) -> None:
    if render is not render_telegram:
        code = code.replace("`", "'")
    markdown = f"before\n\n~~~~~py\n{code}\n~~~~~\n\nafter"

    shown = read(render(markdown, limit))

    pieces = tuple(piece.replace(ZERO_WIDTH, "") for piece in shown.code)
    assert_code_is_whole(pieces, code_of(markdown))
