"""The filters give the same text however a stream is cut up, and lose nothing that is to be seen."""

from collections.abc import Callable
from typing import Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.agent.stream_text import ContinuationFilter, FenceFilter, ReasoningFilter, Scrubber, clean

SENT = "tea?\n<memory-context>\nAnna likes green tea and the sea in winter.\n</memory-context>"
TAGS = """<think> </think> <seed:thinking> </seed:thinking> [THINK] [/THINK] <|end|> <|start|>assistant
    <|channel|>analysis<|message|> <|channel|>final<|message|> ◁think▷ ◁/think▷ <memory-context>
    </memory-context> ``` ` ~~~ < [ think a </ |> é \ud83d \ude00 \x00"""
PIECES = [*TAGS.split(), "\n", " ", "\nAnna likes green tea and the sea in winter.\n"]


class Filter(Protocol):
    def feed(self, text: str) -> str: ...

    def finish(self) -> str: ...


MAKERS: dict[str, Callable[[], Filter]] = {
    "reasoning": ReasoningFilter,
    "opened by the template": lambda: ReasoningFilter(opens_hidden=True),
    "fence": lambda: FenceFilter((SENT,)),
    "continuation": lambda: ContinuationFilter("a think\n```a think a "),
    "scrubber": Scrubber,
}


def streamed(one: Filter, pieces: list[str]) -> str:
    return "".join(one.feed(piece) for piece in pieces) + one.finish()


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=14))
def test_how_a_stream_is_cut_up_does_not_matter(make: Callable[[], Filter], pieces: list[str]) -> None:
    text = "".join(pieces)
    filters = [make(), make(), make()]

    shown = [streamed(one, cut) for one, cut in zip(filters, ([text], pieces, list(text)), strict=True)]

    kept = [one.visible for one in filters if isinstance(one, ReasoningFilter)]
    if not any(isinstance(one, ReasoningFilter) and one.lone_close for one in filters):
        assert shown[0] == shown[1] == shown[2]
        assert kept in ([], shown)
    assert len(set(kept)) <= 1


@given(st.text(alphabet="ab <>[]/|`~\n.é", max_size=200))
def test_text_without_tags_passes_unchanged(text: str) -> None:
    assert streamed(ReasoningFilter(), list(text)) == text
    assert streamed(FenceFilter((SENT,)), list(text)) == text


@given(st.text(alphabet="ab\n ", max_size=60), st.text(alphabet="cd\n ", max_size=60))
def test_what_stands_between_the_tags_is_never_shown(before: str, secret: str) -> None:
    shown = streamed(ReasoningFilter(), list(f"{before}<think>{secret}Z</think>after"))

    assert "Z" not in shown
    assert shown.endswith("after")


def test_text_is_shown_as_soon_as_it_can_be_no_tag() -> None:
    one = ReasoningFilter()

    assert [one.feed(piece) for piece in ("a ", "<", "b>", " c")] == ["a ", "", "<b>", " c"]


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain é 字 \U0001f600", "plain é 字 \U0001f600"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\ude00a\x00", "\ufffda\ufffd"),
    ],
)
def test_what_no_encoder_takes_is_replaced(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned
    assert clean(text).encode()
