"""What goes to a model is legal whatever was stored: pairs, order, nothing anybody said dropped."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.emulators.openai import Refused, check_messages
from trunkline.agent.history import OPENING, UNKNOWN_OUTCOME, mend, unanswered
from trunkline.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from trunkline.agent.model import ModelRequest
from trunkline.agent.openai_client_wire import Dialect, wire_messages


def said(text: str) -> UserMessage:
    return UserMessage(text, f"[Monday] {text}")


def calling(*ids: str, text: str = "") -> AssistantMessage:
    return AssistantMessage(text, tuple(ToolCall(one, "note", "{}") for one in ids), "tool_calls")


def result(call_id: str, content: str = "ok") -> ToolMessage:
    return ToolMessage(call_id, "note", content)


def test_a_sound_history_is_left_as_it_is() -> None:
    sound = (
        said("hi"),
        calling("c1", "c2"),
        result("c1"),
        result("c2"),
        AssistantMessage("done"),
        said("ok"),
    )

    mended = mend(sound)

    assert mended.messages == sound
    assert mended.missing == ()


def test_a_call_without_a_result_gets_one_that_says_its_outcome_is_unknown() -> None:
    mended = mend((said("hi"), calling("c1", "c2"), result("c1"), said("still there?")))

    missing = ToolMessage("c2", "note", UNKNOWN_OUTCOME, is_error=True)
    assert mended.messages[2:4] == (result("c1"), missing)
    assert mended.missing == (missing,)


def test_results_stand_in_the_order_of_the_calls_right_after_them() -> None:
    mended = mend((said("hi"), calling("c1", "c2"), result("c2"), said("well?"), result("c1")))

    assert mended.messages[2:] == (result("c1"), result("c2"), said("well?"))


def test_results_without_a_call_and_second_results_are_dropped() -> None:
    mended = mend((result("c0"), said("hi"), calling("c1"), result("c1", "one"), result("c1", "two")))

    assert mended.messages == (said("hi"), calling("c1"), result("c1", "one"))


def test_two_messages_in_a_row_are_both_there_with_a_boundary_between() -> None:
    (joined,) = mend((said("first"), said("second"))).messages

    assert isinstance(joined, UserMessage)
    first, between, second = joined.sent.partition("\n\n[The message above was never answered.")
    assert (first, second[-15:]) == ("[Monday] first", "[Monday] second")
    assert between


def test_an_answer_after_a_cut_one_is_joined_to_it() -> None:
    mended = mend((said("hi"), AssistantMessage("I was", interrupted=True), AssistantMessage("Hello.")))

    assert mended.messages[1:] == (AssistantMessage("I was\n\nHello.", interrupted=True),)


def test_a_conversation_that_the_assistant_began_opens_with_a_user_message() -> None:
    mended = mend((AssistantMessage("Time for tea!"), said("thanks")))

    assert mended.messages[0] == UserMessage(OPENING, OPENING)


def test_an_answer_of_nothing_is_dropped() -> None:
    assert mend((said("hi"), AssistantMessage(" \n"))).messages == (said("hi"),)


def test_calls_still_open_are_those_of_the_last_step() -> None:
    assert [
        call.id for call in unanswered((calling("c1"), result("c1"), calling("c2", "c3"), result("c3")))
    ] == ["c2"]
    assert unanswered(()) == ()


_ids = st.sampled_from(["a", "b", "c"])
_messages = st.one_of(
    st.builds(said, st.sampled_from(["hi", "ho"])),
    st.builds(calling, _ids, _ids),
    st.builds(result, _ids),
    st.builds(AssistantMessage, st.sampled_from(["", "yes"])),
)


@given(st.lists(_messages, max_size=12))
def test_whatever_was_stored_a_strict_server_takes_it(stored: Sequence[Message]) -> None:
    messages = mend((*stored, said("now"))).messages

    wired = wire_messages(ModelRequest("", messages), Dialect())
    check_messages(wired)
    speakers = ["user" if message["role"] == "tool" else message["role"] for message in wired]
    assert speakers[0] == "user"
    assert all(one != other for one, other in pairwise(speakers) if one == "assistant")
    assert mend(messages).messages == messages


@pytest.mark.parametrize(
    "messages",
    [
        (),
        (said("hi"), calling("c1"), said("well?")),
        (said("hi"), calling("c1", "c2"), result("c1")),
        (said("hi"), result("c1")),
        (said("hi"), calling("c1"), result("c1"), result("c1")),
    ],
)
def test_the_server_that_judges_these_histories_is_strict(messages: Sequence[Message]) -> None:
    with pytest.raises(Refused):
        check_messages(wire_messages(ModelRequest("", tuple(messages)), Dialect()))
