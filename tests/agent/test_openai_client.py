"""The model client on the real SDK over real HTTP, against the emulator."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Literal

import pytest
from aiohttp import web

from tests.emulators.base import Emulator, Fault
from tests.emulators.openai import MODELS, OpenAIEmulator, Reply, ToolUse
from tests.emulators.openai_spec import FILE, SPECS_VARIABLE, breaches, specs_folder
from trunkline.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, Usage, UserMessage
from trunkline.agent.model import (
    FailureKind,
    ModelDone,
    ModelEvent,
    ModelFailure,
    ModelRequest,
    TextDelta,
    ToolSpec,
)
from trunkline.agent.openai_client import ForgetfulToolSupport, OpenAIModel, ToolMode
from trunkline.agent.openai_client_sdk import Endpoint, Timeouts
from trunkline.agent.openai_client_setup import EndpointFailed, check_endpoint, list_models

NOTE = ToolSpec(
    "note",
    "Keeps a fact.",
    {
        "type": "object",
        "properties": {"text": {"$ref": "#/$defs/Text"}},
        "required": ["text"],
        "$defs": {"Text": {"type": "string"}},
    },
    examples=(("Note that tea is at four.", '{"text": "tea at four, in the garden"}'),),
)
PATIENT = Timeouts(first_token_s=20, between_tokens_s=20, total_s=40, back_off_s=0.01)


@pytest.fixture
async def server() -> AsyncIterator[OpenAIEmulator]:
    async with OpenAIEmulator().running() as emulator:
        yield emulator
        assert emulator.violations == []


@pytest.fixture
async def model(server: OpenAIEmulator) -> AsyncIterator[OpenAIModel]:
    client = a_model(server, "native")
    yield client
    await client.aclose()


def a_model(
    server: OpenAIEmulator,
    tool_calls: Literal["auto", "native", "schema"] = "auto",
    timeouts: Timeouts = PATIENT,
    support: ForgetfulToolSupport | None = None,
    api_key: str = "sk-test-key-1234567",
    window: Callable[[], int | None] | None = None,
) -> OpenAIModel:
    endpoint = Endpoint(server.base_url, api_key)
    return OpenAIModel(
        "emulated", endpoint, tool_calls=tool_calls, timeouts=timeouts, support=support, window=window
    )


def ask(*messages: Message, tools: tuple[ToolSpec, ...] = (NOTE,), **more: Any) -> ModelRequest:
    return ModelRequest("Be brief.", messages or (said("hello"),), tools, **more)


def said(text: str) -> UserMessage:
    return UserMessage(text, text)


async def events_of(model: OpenAIModel, request: ModelRequest | None = None) -> list[ModelEvent]:
    async with aclosing(model.stream(request or ask())) as events:
        return [event async for event in events]


async def done(model: OpenAIModel, request: ModelRequest | None = None) -> ModelDone:
    end = (await events_of(model, request))[-1]
    assert isinstance(end, ModelDone), end
    return end


async def failed(model: OpenAIModel, request: ModelRequest | None = None) -> ModelFailure:
    end = (await events_of(model, request))[-1]
    assert isinstance(end, ModelFailure), end
    return end


async def test_text_streams_and_ends_with_the_whole_message(
    server: OpenAIEmulator, model: OpenAIModel
) -> None:
    server.then(Reply("Good morning to you.", usage=(10, 4, 6)))

    events = await events_of(model)

    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert len(deltas) > 1
    assert "".join(deltas) == "Good morning to you."
    assert events[-1] == ModelDone(AssistantMessage("Good morning to you."), Usage(10, 4, 6))


@pytest.mark.parametrize(
    "reply",
    [
        Reply(deltas="openai"),
        Reply(deltas="one_index"),
        Reply(deltas="repeated_name"),
        Reply(deltas="two_in_first"),
        Reply(deltas="no_ids"),
        Reply(deltas="interleaved"),
        Reply(deltas="fresh_ids", chunk_chars=1),
    ],
    ids=lambda reply: reply.deltas,
)
async def test_three_calls_arrive_whole_however_they_are_cut_up(
    server: OpenAIEmulator, model: OpenAIModel, reply: Reply
) -> None:
    uses = [ToolUse("note", {"text": f"fact number {n}"}, f"id{n}") for n in range(3)]
    server.then(Reply(tools=uses, deltas=reply.deltas, chunk_chars=reply.chunk_chars))

    message = (await done(model)).message

    assert [(call.name, call.arguments) for call in message.tool_calls] == [
        ("note", use.text) for use in uses
    ]
    assert len({call.id for call in message.tool_calls}) == 3
    assert message.finish_reason == "tool_calls"


async def test_a_call_in_forty_nameless_pieces_with_fresh_ids_is_one_call(
    server: OpenAIEmulator, model: OpenAIModel
) -> None:
    arguments = json.dumps({"text": "x" * 28})
    pieces: list[dict[str, Any]] = [{"index": 0, "id": "a", "function": {"name": "note", "arguments": ""}}]
    pieces += [
        {"index": n, "id": f"b{n}", "function": {"arguments": char}} for n, char in enumerate(arguments)
    ]
    assert len(pieces) == 41
    server.then(Reply(raw_deltas=[{"tool_calls": [piece]} for piece in pieces], finish_reason="tool_calls"))

    calls = (await done(model)).message.tool_calls

    assert [(call.name, call.arguments) for call in calls] == [("note", arguments)]


async def test_calls_under_one_id_get_ids_of_their_own(server: OpenAIEmulator, model: OpenAIModel) -> None:
    server.then(Reply(tools=[ToolUse("note", {"text": text}, "same") for text in ("a", "b")]))

    first, second = (await done(model)).message.tool_calls

    assert first.id == "same"
    assert second.id not in ("", "same")


async def test_a_legacy_function_call_is_a_tool_call(server: OpenAIEmulator, model: OpenAIModel) -> None:
    server.then(Reply(tools=[ToolUse("note", {"text": "tea"})], legacy=True))

    message = (await done(model)).message

    assert [(call.name, call.arguments) for call in message.tool_calls] == [("note", '{"text": "tea"}')]
    assert message.finish_reason == "tool_calls"


@pytest.mark.parametrize("size", [1, 3, 500])
@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("<think>plan</think>Hi", "Hi"),
        ("<seed:think>plan</seed:think>\n\nHi", "Hi"),
        ("<thinking kind='x'>plan <b> </thinking>Hi", "Hi"),
        ("[THINK]plan[/THINK]Hi", "Hi"),
        ("<|channel|>analysis<|message|>plan<|end|><|start|>assistant<|channel|>final<|message|>Hi", "Hi"),
        ("Hi <think>plan that never ends", "Hi "),
        ("```\n<think>kept</think>\n```\nHi", "```\n<think>kept</think>\n```\nHi"),
        ("Write `<think>` here", "Write `<think>` here"),
        ("a < b and c <thin> d [x] <b>", "a < b and c <thin> d [x] <b>"),
    ],
)
async def test_reasoning_is_never_shown(
    server: OpenAIEmulator, model: OpenAIModel, text: str, visible: str, size: int
) -> None:
    server.then(Reply(text, reasoning="secret plan", chunk_chars=size))

    events = await events_of(model)

    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == visible
    assert isinstance(events[-1], ModelDone)
    assert events[-1].message.text == visible


async def test_a_template_that_opens_the_tag_itself_is_learnt(
    server: OpenAIEmulator, model: OpenAIModel
) -> None:
    server.then(Reply("plan one</think>Hi"), Reply("plan two</think>Ho"), Reply("plain"))

    first = await done(model)
    second = await events_of(model)
    third = await done(model)

    assert first.message.text == "Hi"
    assert [event.text for event in second if isinstance(event, TextDelta)] == ["Ho"]
    assert third.message.text == "plain"


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply(status=401, code="invalid_api_key", error="Incorrect API key"), FailureKind.BAD_KEY),
        (Reply(status=402, error="Payment required"), FailureKind.NO_CREDIT),
        (Reply(status=429, code="insufficient_quota", error="You exceeded it"), FailureKind.NO_CREDIT),
        (Reply(status=404, code="model_not_found", error="The model `x` does not exist"), "unknown_model"),
        (Reply(status=404, error="Not Found"), FailureKind.NOT_CONFIGURED),
        (Reply(status=400, code="context_length_exceeded", error="Too many"), FailureKind.CONTEXT_TOO_LONG),
        (Reply(status=400, error="exceeds the available context size"), FailureKind.CONTEXT_TOO_LONG),
        (Reply(status=400, code="content_policy_violation", error="no"), FailureKind.REFUSED),
        (Reply(status=400, error="temperature is odd"), FailureKind.BAD_REQUEST),
        (Reply(finish_reason="content_filter"), FailureKind.REFUSED),
    ],
    ids=lambda value: str(value.error if isinstance(value, Reply) else value),
)
async def test_a_refusal_has_its_kind_and_is_not_repeated(
    server: OpenAIEmulator, model: OpenAIModel, reply: Reply, kind: str
) -> None:
    server.then(reply)

    failure = await failed(model)

    assert failure.kind == kind
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply(status=429, error="Slow down"), FailureKind.RATE_LIMITED),
        (Reply(status=503, error="Loading model"), FailureKind.DOWN),
        (Reply("never seen", cut_after=1), FailureKind.BROKEN_STREAM),
        (Reply(raw="data: {not json}\n\n", checked=False), FailureKind.BROKEN_STREAM),
        (Reply(raw='{"choices": ', checked=False), FailureKind.BROKEN_STREAM),
        (Reply(error_after=1, error="upstream broke"), FailureKind.BROKEN_STREAM),
        (Reply(raw='{"error": {"message": "no provider"}}', checked=False), FailureKind.DOWN),
        (Reply("Hello", finish_reason=None, stall_after=None, cut_after=1), FailureKind.BROKEN_STREAM),
        (Reply(raw='data: {"choices": []}\n\ndata: [DONE]\n\n'), FailureKind.BROKEN_STREAM),
    ],
)
async def test_a_passing_failure_is_repeated_a_few_times_and_no_more(
    server: OpenAIEmulator, model: OpenAIModel, reply: Reply, kind: FailureKind
) -> None:
    server.then(reply, reply, reply)

    failure = await failed(model)

    assert failure.kind == kind
    assert failure.partial == ""
    assert len(server.requests) == 3


async def test_a_passing_failure_passes(server: OpenAIEmulator, model: OpenAIModel) -> None:
    server.then(Reply(status=429, headers={"Retry-After": "0.2"}), Reply("Here I am."))

    assert (await done(model)).message.text == "Here I am."
    first, second = server.calls
    assert second.at - first.at >= 0.2


async def test_a_long_wish_to_wait_is_handed_on_instead_of_waited(
    server: OpenAIEmulator, model: OpenAIModel
) -> None:
    server.then(Reply(status=429, headers={"Retry-After": "600"}))

    failure = await failed(model)

    assert (failure.kind, failure.retry_after_s) == (FailureKind.RATE_LIMITED, 600.0)


async def test_text_that_was_shown_is_never_sent_for_again(
    server: OpenAIEmulator, model: OpenAIModel
) -> None:
    server.then(Reply("One two three four five", cut_after=3))

    failure = await failed(model)

    assert failure.kind is FailureKind.BROKEN_STREAM
    assert failure.partial == "One two three fo"
    assert len(server.requests) == 1


async def test_a_stream_without_an_end_is_no_answer(server: OpenAIEmulator, model: OpenAIModel) -> None:
    server.then(Reply("Half an answ", finish_reason=None))

    failure = await failed(model)

    assert (failure.kind, failure.partial) == (FailureKind.BROKEN_STREAM, "Half an answ")


async def test_a_silent_server_uses_up_one_budget_only(server: OpenAIEmulator) -> None:
    server.then(Reply(stall_after=0))
    model = a_model(server, "native", Timeouts(first_token_s=0.2, between_tokens_s=5, total_s=10))

    failure = await failed(model)

    assert failure.kind is FailureKind.TIMED_OUT
    assert len(server.requests) == 1
    await server.wait_for(lambda: server.dropped == 1)
    await model.aclose()


async def test_a_stream_that_stalls_keeps_what_had_come(server: OpenAIEmulator) -> None:
    server.then(Reply("One two three four five", stall_after=3))
    model = a_model(server, "native", Timeouts(first_token_s=5, between_tokens_s=0.2, total_s=10))

    failure = await failed(model)

    assert (failure.kind, failure.partial) == (FailureKind.TIMED_OUT, "One two three fo")
    await model.aclose()


@pytest.mark.parametrize("value", [None, 0, -1, float("inf")])
def test_an_endless_timeout_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="positive number"):
        Timeouts(between_tokens_s=value)


async def test_nobody_at_the_address_is_down() -> None:
    async with OpenAIEmulator().running() as gone:
        address = gone.base_url
    model = OpenAIModel("m", Endpoint(address), tool_calls="native", timeouts=PATIENT, max_tries=2)

    assert (await failed(model)).kind is FailureKind.DOWN
    await model.aclose()


async def test_an_address_that_is_none_is_not_configured() -> None:
    model = OpenAIModel("m", Endpoint("http://["), tool_calls="native")

    assert (await failed(model)).kind is FailureKind.NOT_CONFIGURED


async def test_no_key_is_in_a_failure(server: OpenAIEmulator) -> None:
    server.api_key = "sk-right-key-7654321"
    model = a_model(server, "native", api_key="sk-wrong-key-1234567")

    failure = await failed(model)

    assert failure.kind is FailureKind.BAD_KEY
    assert "1234567" not in failure.detail
    await model.aclose()


async def test_cancelling_closes_the_connection_at_once(server: OpenAIEmulator, model: OpenAIModel) -> None:
    server.then(Reply("One two three four five", stall_after=3))
    seen = asyncio.Event()

    async def read() -> None:
        async with aclosing(model.stream(ask())) as events:
            async for _ in events:
                seen.set()

    async with asyncio.TaskGroup() as group:
        reading = group.create_task(read())
        await seen.wait()
        reading.cancel()

    await server.wait_for(lambda: server.dropped == 1)


async def test_closing_the_iterator_closes_the_connection(server: OpenAIEmulator, model: OpenAIModel) -> None:
    server.then(Reply("One two three four five", stall_after=3), Reply("next"))

    async with aclosing(model.stream(ask())) as events:
        await anext(events)

    await server.wait_for(lambda: server.dropped == 1)
    assert (await done(model)).message.text == "next"


async def test_text_that_no_server_takes_is_cleaned(server: OpenAIEmulator, model: OpenAIModel) -> None:
    server.then(Reply("ok"))

    await done(model, ask(said("a\ud83db\x00c \U0001f600")))

    assert server.requests[0]["messages"][-1]["content"] == "a\ufffdb\ufffdc \U0001f600"


async def test_halves_of_a_character_are_put_together(server: OpenAIEmulator, model: OpenAIModel) -> None:
    halves = [{"content": "so \ud83d"}, {"content": "\ude00 and \udc00\x00"}]
    server.then(Reply(raw_deltas=halves))

    assert (await done(model)).message.text == "so \U0001f600 and \ufffd\ufffd"


async def test_history_with_spoilt_calls_is_taken_by_a_strict_server(
    server: OpenAIEmulator, model: OpenAIModel
) -> None:
    server.then(Reply("fine"))
    calls = (ToolCall("c1", "functions.note", '{"text": "half'), ToolCall("c2", "note", "null"))
    history = (
        said("note it"),
        AssistantMessage("", calls, "tool_calls"),
        ToolMessage("c1", "note", "bad arguments", is_error=True),
        ToolMessage("c2", "note", "bad arguments", is_error=True),
        AssistantMessage("I was go", interrupted=True),
        said("well?"),
    )

    await done(model, ask(*history))

    sent = server.requests[0]["messages"]
    assert [message["role"] for message in sent] == [
        "system", "user", "assistant", "tool", "tool", "assistant", "user",
    ]  # fmt: skip
    assert sent[2]["tool_calls"][0]["function"]["name"] == "functions_note"
    assert sent[5]["content"].startswith("I was go\n\n[")


async def test_what_an_endpoint_refuses_is_left_out_from_then_on(
    server: OpenAIEmulator, model: OpenAIModel
) -> None:
    server.usage_chunk = server.streaming = "refused"
    server.then(Reply("one"), Reply("two"))

    assert (await done(model)).message.text == "one"
    assert (await done(model)).message.text == "two"
    asked = [(request.get("stream"), "stream_options" in request) for request in server.requests]
    assert asked == [(True, True), (True, False), (None, False), (None, False)]


async def test_an_answer_that_does_not_stream_is_read_whole(
    server: OpenAIEmulator, model: OpenAIModel
) -> None:
    server.streaming = "ignored"
    server.then(Reply("<think>plan</think>All at once.", tools=[ToolUse("note", {"text": "x"})]))

    events = await events_of(model)

    assert events[0] == TextDelta("All at once.")
    assert isinstance(events[-1], ModelDone)
    assert events[-1].message.tool_calls[0].name == "note"
    assert events[-1].usage == Usage(100, 40, 20)


async def test_a_server_without_a_usage_chunk_counts_nothing(
    server: OpenAIEmulator, model: OpenAIModel
) -> None:
    server.usage_chunk = "no"
    server.then(Reply("hi"))

    assert (await done(model)).usage == Usage()


async def test_ids_that_are_refused_are_shortened_once(server: OpenAIEmulator, model: OpenAIModel) -> None:
    refusal = Reply(status=400, error="Tool call id was chatcmpl-tool-77 but must be a-z, length of 9.")
    server.then(refusal, Reply("ok"))
    call = ToolCall("chatcmpl-tool-77", "note", '{"text": "x"}')
    history = (said("hi"), AssistantMessage("", (call,)), ToolMessage(call.id, "note", "done"))

    await done(model, ask(*history))

    _, _, asked, answered = server.requests[1]["messages"]
    assert asked["tool_calls"][0]["id"] == answered["tool_call_id"]
    assert len(answered["tool_call_id"]) == 9


async def test_ids_that_stay_refused_are_sent_once_more_and_no_more(
    server: OpenAIEmulator, model: OpenAIModel
) -> None:
    """LLM-04.4."""
    refusal = Reply(status=400, error="Duplicate value for 'tool_call_id' of call_1 in message[3]")
    server.then(refusal, refusal, refusal)
    call = ToolCall("call_1", "note", '{"text": "x"}')
    history = (said("hi"), AssistantMessage("", (call,)), ToolMessage(call.id, "note", "done"))

    assert (await failed(model, ask(*history))).kind is FailureKind.BAD_REQUEST
    assert len(server.requests) == 2
    assert (await failed(model, ask(*history))).kind is FailureKind.BAD_REQUEST
    assert len(server.requests) == 3, "what was tried once is not tried again"


async def test_the_token_limit_goes_under_the_name_the_endpoint_knows(
    server: OpenAIEmulator, model: OpenAIModel
) -> None:
    words = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    server.then(Reply(status=400, error=words), Reply("ok"))

    await done(model, ask(max_tokens=50))

    assert server.requests[1]["max_completion_tokens"] == 50
    assert "max_tokens" not in server.requests[1]


# Tool calls for models that have none.


@pytest.mark.parametrize("way", ["refused", "vllm"])
async def test_auto_goes_over_to_the_schema_where_tools_are_refused(
    server: OpenAIEmulator, way: Literal["refused", "vllm"]
) -> None:
    server.tools = way
    server.then(
        Reply('{"tool": "note", "arguments": {"text": "tea"}}'), Reply('{"tool": "answer"}'), Reply("Hi")
    )
    support = ForgetfulToolSupport()
    model = a_model(server, support=support)

    first = await done(model)
    second = await events_of(model)

    assert [(call.name, call.arguments) for call in first.message.tool_calls] == [("note", '{"text": "tea"}')]
    assert second[-1] == ModelDone(AssistantMessage("Hi"), Usage(200, 80, 40))
    assert await support.recall(server.base_url, "emulated") is ToolMode.SCHEMA
    assert [("tools" in request, "response_format" in request) for request in server.requests] == [
        (True, False), (False, True), (False, True), (False, False),
    ]  # fmt: skip
    await model.aclose()


async def test_what_was_found_out_is_not_found_out_again(server: OpenAIEmulator) -> None:
    support = ForgetfulToolSupport()
    await support.remember(server.base_url, "emulated", ToolMode.SCHEMA)
    server.then(Reply('{"tool": "answer"}'), Reply("Hi"))
    model = a_model(server, support=support)

    assert (await done(model)).message.text == "Hi"
    assert server.calls_of(MODELS) == []
    await model.aclose()


async def test_a_server_that_may_drop_tools_silently_is_probed_once(server: OpenAIEmulator) -> None:
    server.models = {"emulated": "llamacpp"}
    server.tools = "ignored"
    decision = '{"tool": "write_note", "arguments": {"text": "ready"}}'
    server.then(Reply("I can't."), Reply(decision), Reply('{"tool": "answer"}'), Reply("Hi"))
    server.then(Reply('{"tool": "answer"}'), Reply("Ho"))
    model = a_model(server)

    assert (await done(model)).message.text == "Hi"
    assert (await done(model)).message.text == "Ho"
    assert model.tool_mode is ToolMode.SCHEMA
    await model.aclose()


async def test_an_ordinary_server_is_not_probed(server: OpenAIEmulator) -> None:
    server.then(Reply("Hi"))
    model = a_model(server)

    assert (await done(model)).message.text == "Hi"
    assert model.tool_mode is ToolMode.NATIVE
    assert len(server.requests) == 1
    await model.aclose()


async def test_the_decision_shows_tools_examples_and_results_in_words(server: OpenAIEmulator) -> None:
    server.then(Reply('{"tool": "answer"}'), Reply("Noted."))
    model = a_model(server, "schema")
    call = ToolCall("c1", "note", '{"text": "tea"}')
    history = (said("note tea"), AssistantMessage("", (call,)), ToolMessage("c1", "note", "kept"))

    await done(model, ask(*history))

    decision, answer = server.requests
    words = json.dumps(decision["messages"])
    assert "Keeps a fact." in words
    assert "tea at four" in words
    assert {message["role"] for message in decision["messages"]} == {"system", "user", "assistant"}
    assert "kept" in decision["messages"][-1]["content"]
    choices = decision["response_format"]["json_schema"]["schema"]["anyOf"]
    assert choices[1]["properties"]["arguments"]["properties"]["text"] == {"type": "string"}
    assert answer["messages"][0]["content"] == "Be brief."
    assert "tea at four" not in json.dumps(answer)
    await model.aclose()


async def test_a_decision_that_repeats_an_example_is_no_call(server: OpenAIEmulator) -> None:
    server.then(
        Reply('{"tool": "note", "arguments": {"text": "tea at four, in the garden"}}'), Reply("Lima.")
    )
    model = a_model(server, "schema")

    message = (await done(model, ask(said("What is the capital of Peru?")))).message

    assert (message.text, message.tool_calls) == ("Lima.", ())
    await model.aclose()


async def test_a_decision_that_was_cut_comes_back_as_a_cut_call(server: OpenAIEmulator) -> None:
    server.then(Reply('{"tool": "note", "arguments": {"text": "very lo', finish_reason="length"))
    model = a_model(server, "schema")

    message = (await done(model)).message

    assert message.finish_reason == "length"
    assert message.tool_calls[0].name == "note"
    await model.aclose()


@pytest.mark.parametrize("formats", ["refused", "yes"])
async def test_the_schema_way_says_plainly_what_is_missing(
    server: OpenAIEmulator, formats: Literal["yes", "refused"]
) -> None:
    server.formats = formats
    server.then(Reply("Sure, I will note it!"))
    model = a_model(server, "schema")

    failure = await failed(model)

    assert failure.kind is FailureKind.BAD_REQUEST
    assert "response_format" in failure.detail
    await model.aclose()


async def test_a_model_without_any_tools_still_talks(server: OpenAIEmulator) -> None:
    server.tools = server.formats = "refused"
    server.then(Reply("Hello!"))
    model = a_model(server)

    assert (await done(model)).message.text == "Hello!"
    assert model.tool_mode is ToolMode.NONE
    await model.aclose()


async def test_a_call_the_server_could_not_read_is_had_by_schema(server: OpenAIEmulator) -> None:
    server.tools = "peg"
    server.then(Reply('{"tool": "answer"}'), Reply("Hi"))
    model = a_model(server)

    assert (await done(model)).message.text == "Hi"
    assert model.tool_mode is None
    await model.aclose()


async def test_a_call_the_server_could_not_read_is_left_out_where_only_native_is_wanted(
    server: OpenAIEmulator, model: OpenAIModel
) -> None:
    server.tools = "peg"
    server.then(Reply("Hi"))

    assert (await done(model)).message.text == "Hi"
    assert len(server.requests) == 2


# Set-up.


async def test_models_are_listed(server: OpenAIEmulator) -> None:
    server.models = {"b": "library", "a": "library"}

    assert await list_models(server.base_url, "") == ("a", "b")


async def test_an_endpoint_without_a_list_has_an_empty_one(server: OpenAIEmulator) -> None:
    server.fail_next(MODELS, Fault(status=404))

    assert await list_models(server.base_url, "") == ()


@pytest.mark.parametrize("page", ["<html>It works</html>", "[]", "null", '{"data": 3}', ""])
async def test_an_address_that_is_no_model_api_is_told_by_listing_and_by_checking(page: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=page, content_type="text/html" if "<" in page else "application/json")

    other = Emulator()
    other.app.router.add_route("*", "/{path:.*}", answer)
    async with other.running():
        with pytest.raises(EndpointFailed) as told:
            await list_models(f"{other.url}/html", "")
        check = await check_endpoint("any", f"{other.url}/html")

    assert told.value.failure.kind is FailureKind.NOT_CONFIGURED
    assert ("a web page" in told.value.failure.detail) is ("<" in page)
    assert check.failure == told.value.failure


async def test_a_check_that_fails_is_told_and_not_logged(
    server: OpenAIEmulator, caplog: pytest.LogCaptureFixture
) -> None:
    server.api_key = "right"

    check = await check_endpoint("emulated", server.base_url, "wrong")

    assert check.failure is not None
    assert caplog.records == []


async def test_a_wrong_key_is_told_while_listing(server: OpenAIEmulator) -> None:
    server.api_key = "right"

    with pytest.raises(EndpointFailed) as told:
        await list_models(server.base_url, "wrong")
    assert told.value.failure.kind is FailureKind.BAD_KEY


async def test_a_good_endpoint_is_found_good(server: OpenAIEmulator) -> None:
    server.then(Reply("ready"), Reply(tools=[ToolUse("write_note", {"text": "ready"})]))
    support = ForgetfulToolSupport()

    check = await check_endpoint("emulated", server.base_url, support=support)

    assert (check.answers, check.tools, check.failure) == (True, ToolMode.NATIVE, None)
    assert await support.recall(server.base_url, "emulated") is ToolMode.NATIVE


async def test_an_endpoint_that_only_talks_is_told(server: OpenAIEmulator) -> None:
    server.tools = server.formats = "refused"
    server.then(Reply("ready"))

    check = await check_endpoint("emulated", server.base_url)

    assert (check.answers, check.tools) == (True, ToolMode.NONE)


async def test_an_unknown_model_is_told(server: OpenAIEmulator) -> None:
    server.known_models_only = True

    check = await check_endpoint("other", server.base_url)

    assert not check.answers
    assert check.failure is not None
    assert check.failure.kind is FailureKind.UNKNOWN_MODEL


def test_the_published_description_judges_the_emulator() -> None:
    if specs_folder() is None:
        pytest.skip(f"{SPECS_VARIABLE} names no folder with {FILE}, so requests were not checked against it")

    request = {"model": "m", "messages": [{"role": "tool", "content": "no id"}], "temperature": 5}
    assert len(breaches("CreateChatCompletionRequest", request)) == 2
    assert breaches("ErrorResponse", {"error": "words"})


LOADS_AT_ONCE = """
import sys, threading
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from trunkline.agent.openai_client_sdk import Endpoint, Timeouts, _open_client

begun, opened, done = threading.Event(), [], threading.Event()

class Slowly(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "httpx._client":
            return None
        spec = PathFinder.find_spec(name, path)
        run = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (wait(), run(module))
        return spec

def wait():
    begun.set()
    while "trunkline.agent.openai_client_events" not in sys.modules:
        done.wait(0.01)
    done.wait(0.5)

def load():
    import httpx

def open_it():
    try:
        opened.append(_open_client(Endpoint("http://127.0.0.1:9/v1", ""), Timeouts()))
    finally:
        done.set()

assert "httpx" not in sys.modules
sys.meta_path.insert(0, Slowly())
loading = threading.Thread(target=load)
loading.start()
begun.wait()
open_it()
loading.join()
print(len(opened))
"""


def test_a_client_opened_while_a_platform_loads_the_same_library_waits_for_it() -> None:
    ended = subprocess.run([sys.executable, "-c", LOADS_AT_ONCE], capture_output=True, text=True, timeout=60)

    assert (ended.stdout.strip(), ended.stderr) == ("1", "")
