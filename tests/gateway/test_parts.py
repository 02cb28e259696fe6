"""Which part of a question that came as several messages is whose, through edits and deletions."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.inbound import direct
from trunkline.gateway.parts import Question, joined, of_stored

TEXTS = st.lists(st.text(alphabet="ab \n⟧", max_size=6), min_size=2, max_size=5)


def question(*texts: str) -> Question:
    inbound = [replace(direct(text), message_id=str(n)) for n, text in enumerate(texts)]
    return joined(inbound, texts, lambda text: text)


@given(texts=TEXTS, at=st.integers(0, 4), new=st.text(alphabet="xyz\n", max_size=6))
def test_a_change_of_one_part_leaves_the_others_as_they_were(texts: list[str], at: int, new: str) -> None:
    at %= len(texts)
    before = question(*texts)
    after = before.changed(str(at), new)
    assert [before.said(str(n)) for n in range(len(texts))] == texts
    assert [after.said(str(n)) for n in range(len(texts))] == [
        new if n == at else text for n, text in enumerate(texts)
    ]
    assert of_stored(after.text, [str(n) for n in range(len(texts))], after.dump()) == after


@given(texts=TEXTS, at=st.integers(0, 4))
def test_without_one_part_only_its_words_are_missing(texts: list[str], at: int) -> None:
    at %= len(texts)
    left = question(*texts).without(str(at))
    assert left.text == "\n\n".join(text for n, text in enumerate(texts) if n != at and text)
    assert not left.has(str(at))


def test_what_is_said_later_is_a_part_of_its_own() -> None:
    longer = question("one", "two").longer("9", "three")
    assert longer.text == "one\n\ntwo\n\nthree"
    assert longer.changed("1", "TWO").text == "one\n\nTWO\n\nthree"
    assert longer.said("9") == "three"


def test_of_a_text_that_was_rewritten_meanwhile_nobody_knows_the_parts() -> None:
    kept = question("one", "two").dump()
    assert of_stored("one\n\ntwo", ["0", "1"], kept).has("1")
    assert not of_stored("one\n\n[forgotten]", ["0", "1"], kept).has("1")
    assert not of_stored("one\n\ntwo", ["0", "1"], None).has("1")


def test_a_single_message_is_the_whole_of_its_question() -> None:
    assert of_stored("hello", ["7"], None).changed("7", "bye").text == "bye"


@pytest.mark.parametrize("secret", ["sk-1\n\nsk-2"])
def test_a_secret_across_two_messages_leaves_no_parts(secret: str) -> None:
    inbound = [replace(direct(text), message_id=str(n)) for n, text in enumerate(("a sk-1", "sk-2 b"))]
    masked = joined(inbound, ["a sk-1", "sk-2 b"], lambda text: text.replace(secret, "***"))
    assert masked == Question("a *** b")
