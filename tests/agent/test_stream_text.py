"""The filters give the same text however a stream is cut up, and lose nothing that is to be seen."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.agent.history import UNANSWERED
from trunkline.agent.loop import EMPTY_ANSWER
from trunkline.agent.prompt import compose_user_text
from trunkline.agent.stream_text import (
    ContinuationFilter,
    FenceFilter,
    MarkFilter,
    OwnTextFilter,
    ReasoningFilter,
    Scrubber,
    clean,
)

SENT = "tea?\n<memory-context>\nAnna likes green tea and the sea in winter.\n</memory-context>"
TAGS = """<think> </think> <seed:thinking> </seed:thinking> [THINK] [/THINK] <|end|> <|start|>assistant
    <|channel|>analysis<|message|> <|channel|>final<|message|> ◁think▷ ◁/think▷ <memory-context>
    </memory-context> ``` ` ~~~ < [ think a </ |> é \ud83d \ude00 \x00"""
DATE = compose_user_text("", datetime(2026, 11, 30, 14, 2, tzinfo=UTC)).strip()
MARKS = [DATE, '⟦from "Bo"⟧', '⟦attached: "a.txt"⟧', "⟦end of the quote⟧", UNANSWERED, EMPTY_ANSWER]
PIECES = [
    *TAGS.split(),
    *MARKS,
    "⟦",
    "⟧",
    UNANSWERED[:9],
    EMPTY_ANSWER[:50],
    "\n",
    " ",
    "\nAnna likes green tea and the sea in winter.\n",
]


class Filter(Protocol):
    def feed(self, text: str) -> str: ...

    def finish(self) -> str: ...


MAKERS: dict[str, Callable[[], Filter]] = {
    "reasoning": ReasoningFilter,
    "opened by the template": lambda: ReasoningFilter(opens_hidden=True),
    "fence": lambda: FenceFilter((SENT,)),
    "marks": MarkFilter,
    "fence and marks": lambda: OwnTextFilter((SENT,)),
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


def test_a_huge_piece_takes_time_in_proportion_to_its_length() -> None:
    """A filter that copies the rest at each character would be at this for longer than a test may take."""
    text = "[x](y) <b>1 < 2</b> ⟦z⟧ `c` [Note] " * 15_000

    assert streamed(OwnTextFilter((SENT,)), [text]) == text
    assert streamed(ContinuationFilter(f"And now: {text}"), [f"Well, {text}"]) == f"Well, {text}"
    assert len(streamed(ContinuationFilter(text), [text[1:]])) >= len(text) - len(SENT) - 2_000


@given(st.text(alphabet="ab <>[]/|`~\n.é", max_size=200))
def test_text_without_tags_passes_unchanged(text: str) -> None:
    assert streamed(ReasoningFilter(), list(text)) == text
    assert streamed(OwnTextFilter((SENT,)), list(text)) == text


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


@pytest.mark.parametrize("mark", MARKS)
def test_a_copied_mark_of_the_system_is_not_shown(mark: str) -> None:
    assert streamed(MarkFilter(), list(f"{mark}\nHello.")) == "Hello."
    assert streamed(MarkFilter(), list(f"Hello. {mark} Go on.")) == "Hello.  Go on."
    assert streamed(MarkFilter(), [mark]) == ""


def test_an_answer_that_goes_on_as_the_person_ends_there() -> None:
    one = MarkFilter()

    shown = streamed(one, list(f'{DATE}\nYes.\n\n{UNANSWERED}\n\n{DATE}\n⟦from "Bo"⟧\nAnd now?\n\nNow too.'))

    assert (shown.strip(), one.ended) == ("Yes.", True)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("The meaning ⟦e⟧ρ of [a] term, ⟦from here", None),
        (f"```\n{UNANSWERED}\n{EMPTY_ANSWER}\n```", None),
        (f"```\n{DATE}\n  x\n```", "```\n  x\n```"),
        (f"Yes.\n{EMPTY_ANSWER[:-1]}\n\nNo.", "Yes.\nNo."),
        ("Yes.\n⟦2026-11-30 14:02, Mon\nNo.", "Yes.\n"),
    ],
    ids=["other brackets", "sentences in code", "a mark in code", "an open note", "an open date"],
)
def test_only_what_the_system_writes_is_taken_out(text: str, shown: str | None) -> None:
    assert streamed(MarkFilter(), list(text)) == (text if shown is None else shown)
