"""What endpoints really send, one oddity at a time: none crashes a turn or shows what is private."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from aiohttp import web

from tests.agent.test_openai_client import NOTE, a_model, ask, done, events_of, failed, said
from tests.emulators.base import Emulator
from tests.emulators.openai import OpenAIEmulator, Reply, ToolUse
from trunkline.agent.history import mend
from trunkline.agent.messages import Usage
from trunkline.agent.model import FailureKind, ModelDone, TextDelta
from trunkline.agent.openai_client import OpenAIModel
from trunkline.agent.openai_client_errors import failure
from trunkline.agent.openai_client_events import MOST_EVENT_BYTES
from trunkline.agent.openai_client_sdk import MOST_ANSWER_CHARS, Endpoint, Timeouts
from trunkline.agent.openai_client_window import limit_in
from trunkline.agent.openai_client_wire import MOST_CALLS


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


def stream(*chunks: dict[str, Any] | str) -> str:
    """A body of these events; a text stands as it is."""
    parts = [one if isinstance(one, str) else f"data: {json.dumps(one)}\n\n" for one in chunks]
    return "".join([*parts, "data: [DONE]\n\n"])


def choice(delta: Any, finish: Any = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}]}


END = choice({}, "stop")


@pytest.mark.parametrize(
    "told",
    [
        "[{'type': 'missing', 'loc': ('body', 'n'), 'msg': 'Field required', 'input': {'text': 'zqsecret'}}]",
        '{"loc":["body","n"],"msg":"Field required","input":{"text":"zqsecret"}}',
        "1 error: messages.0 Field required [type=x, input_value={'text': 'zqsecret'}, input_type=dict]",
    ],
)
def test_a_request_that_an_error_repeats_is_not_for_the_log(told: str) -> None:
    detail = failure(FailureKind.BAD_REQUEST, told).detail

    assert "Field required" in detail
    assert "zqsecret" not in detail


@pytest.mark.parametrize(
    "chunks",
    [
        ({"choices": []}, choice({"content": "Hi"}), END),
        ({"choices": None}, choice({"content": "Hi"}), END),
        ({"id": "x"}, choice({"content": "Hi"}), END),
        (choice(None), choice({"content": "Hi"}), END),
        (choice({"content": None}), choice({"content": "Hi"}), choice({"content": None}, "stop")),
        (choice({"content": "Hi"}), choice({"content": ""}, ""), END),
        (choice({"content": "Hi", "tool_calls": None}), END),
        (choice({"content": "Hi", "tool_calls": []}), END),
        (choice({"content": "Hi", "tool_calls": [None]}), END),
        (choice({"content": [{"type": "text", "text": "Hi"}]}), END),
        (
            choice({"content": [{"type": "thinking", "thinking": [{"text": "plan"}]}]}),
            choice({"content": "Hi"}),
            END,
        ),
        (choice({"content": "Hi"}), END, {"choices": [], "usage": None}),
        (choice({"content": "Hi"}), END, {"choices": [], "usage": "none"}),
        (choice({"content": "Hi"}), END, {"choices": [], "usage": {"prompt_tokens": "many"}}),
        (choice({"content": "Hi"}), END, {"choices": [], "usage": {"prompt_tokens_details": []}}),
        (": at work\n\n", choice({"content": "Hi"}), ": at work\n\n", END),
        ("event: ping\ndata: {}\n\n", choice({"content": "Hi"}), END),
        ("retry: 3000\n\n", choice({"content": "Hi"}), "event: ping\n\n", END),
        ("id: 1\n\n", choice({"content": "Hi"}), "\n\n", "data:\n\n", "id: 2\nevent: ping\n\n", END),
        (
            choice({"content": "Hi"}),
            choice({"reasoning": "plan"}),
            choice({"reasoning_content": "plan"}),
            END,
        ),
        (choice({"content": "Hi", "reasoning_details": [{"text": "plan"}], "thinking": "plan"}), END),
        (choice({"content": "Hi"}), choice({}, "eos")),
        (choice({"content": "Hi"}), choice({}, "STOP")),
        (choice({"content": "Hi"}), choice({}, 1)),
        (choice({"content": "Hi"}), END, END),
        (choice({"role": "assistant", "content": "Hi", "audio": {"id": "a"}}), END),
    ],
    ids=lambda chunks: json.dumps(chunks)[:90],
)
async def test_an_odd_stream_is_the_answer_all_the_same(
    server: OpenAIEmulator, model: OpenAIModel, chunks: tuple[dict[str, Any] | str, ...]
) -> None:
    server.then(Reply(raw=stream(*chunks), content_type="text/event-stream"))

    events = await events_of(model)

    assert "".join(one.text for one in events if isinstance(one, TextDelta)) == "Hi"
    end = events[-1]
    assert isinstance(end, ModelDone)
    assert (end.message.text, end.message.tool_calls, end.message.finish_reason) == ("Hi", (), "stop")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("max_tokens", "length"), ("MAX_TOKENS", "length"), ("model_length", "length"), ("Length", "length")],
)
async def test_an_answer_that_ended_at_its_limit_says_so_in_any_words(
    server: OpenAIEmulator, model: OpenAIModel, finish: str, reason: str
) -> None:
    server.then(Reply(raw=stream(choice({"content": "Hi"}), choice({}, finish))))

    assert (await done(model)).message.finish_reason == reason


@pytest.mark.parametrize(
    ("finish", "kind", "asked"),
    [
        ("content-filter", FailureKind.REFUSED, 1),
        ("SAFETY", FailureKind.REFUSED, 1),
        ("sensitive", FailureKind.REFUSED, 1),
        ("insufficient_system_resource", FailureKind.BROKEN_STREAM, 3),
        ("abort", FailureKind.BROKEN_STREAM, 3),
        ("network_error", FailureKind.BROKEN_STREAM, 3),
    ],
)
async def test_an_end_that_is_none_is_a_failure_in_any_words(
    server: OpenAIEmulator, model: OpenAIModel, finish: str, kind: FailureKind, asked: int
) -> None:
    server.then(*[Reply(raw=stream(choice({}, finish)))] * asked)

    assert (await failed(model)).kind is kind
    assert len(server.requests) == asked


def call(**fragment: Any) -> dict[str, Any]:
    return {"tool_calls": [fragment]}


WHOLE = {"name": "note", "arguments": '{"text": "x"}'}


@pytest.mark.parametrize(
    ("deltas", "arguments"),
    [
        ([call(index=0, id=None, function=WHOLE)], ['{"text": "x"}']),
        ([call(index=0, id="", function=WHOLE)], ['{"text": "x"}']),
        ([call(index=0, id=7, function=WHOLE)], ['{"text": "x"}']),
        ([call(id="a", function=WHOLE)], ['{"text": "x"}']),
        ([call(index=None, id="a", function=WHOLE)], ['{"text": "x"}']),
        ([call(index="0", id="a", function=WHOLE)], ['{"text": "x"}']),
        (
            [call(index=0, id="a", function=WHOLE), call(index=1, id="a", function=WHOLE)],
            ['{"text": "x"}'] * 2,
        ),
        ([call(id="a", function=WHOLE), call(id="b", function=WHOLE)], ['{"text": "x"}'] * 2),
        ([call(index=3, id="a", function=WHOLE)], ['{"text": "x"}']),
        ([call(index=0, id="a", function={"name": "note", "arguments": {"text": "x"}})], ['{"text": "x"}']),
        ([call(index=0, id="a", function={"name": "note", "arguments": None})], [""]),
        ([call(index=0, id="a", function={"name": "note"})], [""]),
        ([call(index=0, id="a", function={"name": "note", "arguments": 5})], ["5"]),
        ([call(index=0, id="a", function={"name": "note", "arguments": True})], ["true"]),
        ([call(index=0, id="a", function=WHOLE), call(index=0, function=None)], ['{"text": "x"}']),
        ([call(index=0, id="a", type=None, function=WHOLE)], ['{"text": "x"}']),
        (
            [
                call(index=0, id="a", function={"name": "no"}),
                call(index=0, function={"name": "te", "arguments": "{}"}),
            ],
            ["{}"],
        ),
    ],
    ids=lambda value: json.dumps(value)[:90],
)
async def test_an_odd_call_is_a_call_with_an_id_of_its_own(
    server: OpenAIEmulator, model: OpenAIModel, deltas: list[dict[str, Any]], arguments: list[str]
) -> None:
    server.then(Reply(raw=stream(*map(choice, deltas), choice({}, "tool_calls"))))

    calls = (await done(model)).message.tool_calls

    assert [(one.name, one.arguments) for one in calls] == [("note", text) for text in arguments]
    assert len({one.id for one in calls if one.id}) == len(arguments)
    assert len(server.requests) == 1


async def test_a_stream_cut_in_the_middle_of_a_call_brings_no_call(
    server: OpenAIEmulator, model: OpenAIModel
) -> None:
    whole = ToolUse("note", {"text": "a long fact that is cut"})
    server.then(Reply(tools=[whole], cut_after=3), Reply(tools=[whole]))

    calls = (await done(model)).message.tool_calls

    assert [one.arguments for one in calls] == [whole.text], "the call is the second answer's"
    assert len(server.requests) == 2


async def test_a_stream_cut_in_a_call_after_words_is_not_asked_for_again(
    server: OpenAIEmulator, model: OpenAIModel
) -> None:
    pieces = [choice({"content": "I note it."}), choice(call(index=0, id="a", function={"name": "note"}))]
    body = "".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces)
    server.then(Reply(raw=body))

    failure = await failed(model)

    assert (failure.kind, failure.partial) == (FailureKind.BROKEN_STREAM, "I note it.")
    assert len(server.requests) == 1


async def test_more_calls_than_anybody_needs_are_cut_off_and_none_is_run(
    server: OpenAIEmulator, model: OpenAIModel
) -> None:
    many = [call(index=n, id=f"c{n}", function=WHOLE) for n in range(MOST_CALLS + 40)]
    server.then(Reply(raw=stream(*map(choice, many), choice({}, "tool_calls"))))

    message = (await done(model)).message

    assert len(message.tool_calls) == MOST_CALLS
    assert message.finish_reason == "length", "so that the model is told to make them again"


@pytest.mark.parametrize("kind", ["text", "arguments", "hidden"])
async def test_an_answer_without_end_is_cut_at_a_bound(
    server: OpenAIEmulator, model: OpenAIModel, kind: str
) -> None:
    piece = "words " * 20_000
    delta = {
        "text": {"content": piece},
        "arguments": call(index=0, id="a", function={"name": "note", "arguments": piece}),
        "hidden": {"content": f"<think>{piece}"},
    }[kind]
    server.then(Reply(raw=stream(*[choice(delta)] * 40, END)))

    message = (await done(model)).message

    assert message.finish_reason == "length"
    assert len(message.text) + sum(
        len(one.arguments) for one in message.tool_calls
    ) <= MOST_ANSWER_CHARS + len(piece)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"choices": [{"index": 0, "message": {"content": "Hi"',
        b'data: {"choices": [{"index": 0, "delta": {"content": "\xff\xfe"}}]}\n\ndata: [DONE]\n\n',
        b"data: \xc3\x28\n\n",
        b"data: null\n\ndata: [DONE]\n\n",
        b"data: 5\n\ndata: [DONE]\n\n",
        b'data: ["a"]\n\ndata: [DONE]\n\n',
        b"data: [DONE]\n\n",
        b"",
        b'{"choices": [{"index": 0, "message": {"content": "\xff"}, "finish_reason": "stop"}]}',
        b"[]",
        b'"text"',
    ],
)
async def test_what_is_no_answer_is_a_failure_and_no_crash(
    server: OpenAIEmulator, model: OpenAIModel, raw: bytes
) -> None:
    server.then(*[Reply(raw=raw, checked=False)] * 3)

    assert (await failed(model)).kind in (FailureKind.BROKEN_STREAM, FailureKind.DOWN)
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "flood",
    [
        b"data: " + b"x" * MOST_EVENT_BYTES,
        b"data: 1\n" * (MOST_EVENT_BYTES // 8 + 1),
        b"retry: 1\n\n" * (MOST_EVENT_BYTES // 10 + 1),
        b'{"choices": "' + b"x" * MOST_EVENT_BYTES,
    ],
    ids=["a line", "lines", "events of nothing", "a whole answer"],
)
async def test_an_event_without_end_is_left_at_a_bound_and_not_asked_for_again(
    server: OpenAIEmulator, model: OpenAIModel, flood: bytes
) -> None:
    kind = "application/json" if flood.startswith(b"{") else "text/event-stream"
    server.then(Reply(raw=flood, content_type=kind, checked=False))

    failure = await failed(model)

    assert (failure.kind, failure.detail) == (FailureKind.BROKEN_STREAM, "an event without end")
    assert len(server.requests) == 1


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
async def test_a_whole_answer_in_many_lines_is_read_under_any_name(
    server: OpenAIEmulator, model: OpenAIModel, kind: str
) -> None:
    whole = {"choices": [{"index": 0, "message": {"content": "Hi\nyou"}, "finish_reason": "stop"}]}
    server.then(Reply(raw=f"\r\n{json.dumps(whole, indent=2)}\n", content_type=kind, checked=False))

    assert (await done(model)).message.text == "Hi\nyou"


async def test_a_stream_under_a_wrong_name_is_read_all_the_same(
    server: OpenAIEmulator, model: OpenAIModel
) -> None:
    server.then(Reply(raw=stream(choice({"content": "Hi"}), END), content_type="application/json"))

    assert (await done(model)).message.text == "Hi"


async def test_an_error_in_place_of_an_answer_keeps_its_words(
    server: OpenAIEmulator, model: OpenAIModel
) -> None:
    whole = '{"error": "the model is still loading"}'
    server.then(*[Reply(raw=f"data: {whole}\n\n", checked=False)] * 3)
    assert "still loading" in (await failed(model)).detail
    server.then(*[Reply(raw=whole, checked=False)] * 3)

    failure = await failed(model)

    assert failure.kind is FailureKind.DOWN
    assert "still loading" in failure.detail


async def test_a_whole_answer_that_is_cut_on_the_way_is_asked_for_again() -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "900"})
        await response.prepare(request)
        await response.write(b'{"choices": [')
        tries.append(1)
        assert request.transport is not None
        request.transport.abort()
        return response

    tries: list[int] = []
    other = Emulator()
    other.app.router.add_post("/v1/chat/completions", cut)
    async with other.running():
        client = OpenAIModel(
            "any", Endpoint(f"{other.url}/v1"), tool_calls="native", timeouts=Timeouts(back_off_s=0.01)
        )
        assert (await failed(client)).kind is FailureKind.BROKEN_STREAM
        await client.aclose()
    assert len(tries) == 3


PAGE = "<!DOCTYPE html><html><head><title>Sign in to model hotspot</title></head><body>429</body></html>"


@pytest.mark.parametrize(
    ("status", "kind", "asked"),
    [
        (200, FailureKind.NOT_CONFIGURED, 1),
        (302, FailureKind.NOT_CONFIGURED, 1),
        (403, FailureKind.DOWN, 3),
        (404, FailureKind.NOT_CONFIGURED, 1),
        (429, FailureKind.RATE_LIMITED, 3),
        (502, FailureKind.DOWN, 3),
        (520, FailureKind.DOWN, 3),
    ],
)
async def test_a_web_page_in_place_of_an_answer_is_told_by_its_status(
    server: OpenAIEmulator, model: OpenAIModel, status: int, kind: FailureKind, asked: int
) -> None:
    server.then(*[Reply(status=status, raw=PAGE, content_type="text/html", checked=False)] * asked)

    failure = await failed(model)

    assert failure.kind is kind
    assert "<html" not in failure.detail.lower()
    assert len(server.requests) == asked


async def test_a_server_that_only_says_it_is_at_work_uses_up_one_budget(server: OpenAIEmulator) -> None:
    server.then(Reply(only_comments=True))
    model = a_model(server, "native", Timeouts(first_token_s=3, between_tokens_s=20, total_s=40))

    assert (await failed(model)).kind is FailureKind.TIMED_OUT
    assert len(server.requests) == 1
    await server.wait_for(lambda: server.dropped == 1)
    await model.aclose()


async def test_empty_pieces_without_end_use_up_the_whole_budget_and_no_more(server: OpenAIEmulator) -> None:
    server.then(Reply(raw_deltas=[{}] * 4_000, chunk_delay_s=0.01))
    model = a_model(server, "native", Timeouts(first_token_s=5, between_tokens_s=5, total_s=0.5))

    assert (await failed(model)).kind is FailureKind.TIMED_OUT
    await model.aclose()


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (400, None, "prompt is too long: 208310 tokens > 200000 maximum"),
        (400, None, "input length and `max_tokens` exceed context limit: 199000 + 20000 > 200000"),
        (
            400,
            None,
            "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
        ),
        (400, None, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
        (400, None, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097."),
        (400, None, "Range of input length should be [1, 30720]"),
        (400, None, "Invalid request: Your request exceeded model token limit: 8192"),
        (400, None, "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"),
        (400, None, "the request exceeds the available context size. try increasing the context size"),
        (400, None, "Input is too long for requested model."),
        (400, None, "Please reduce the length of the messages or completion."),
        (400, None, "too many tokens: total number of tokens in the prompt cannot exceed 4081"),
        (400, "string_above_max_length", "Invalid 'messages[1].content': string too long."),
        (413, None, "Request Entity Too Large"),
        (413, "tokens_limit_reached", "Request body too large for gpt-4o model. Max size: 8000 tokens."),
        (422, None, "invalid params, context window exceeds limit"),
        (400, None, "prompt too long; exceeded max context length by 4096 tokens"),
        (400, None, "Prompt 超长"),
        (400, None, "输入的总长度超过模型上下文限制"),
        (500, None, "Context size has been exceeded."),
        (502, None, '{"error":"upstream: maximum context length is 8192 tokens"}'),
    ],
)
async def test_a_context_that_is_too_long_is_known_by_any_words(
    server: OpenAIEmulator, model: OpenAIModel, status: int, code: str | None, words: str
) -> None:
    server.then(Reply(status=status, code=code, error=words))

    assert (await failed(model)).kind is FailureKind.CONTEXT_TOO_LONG
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 131_072),
        (
            "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
            1_048_576,
        ),
        ("prompt is too long: 208310 tokens > 200000 maximum", 200_000),
        ("input length and `max_tokens` exceed context limit: 199000 + 20000 > 200000", 200_000),
        ("Your request exceeded model token limit: 8192", 8_192),
        ("Range of input length should be [1, 30720]", 30_720),
        ("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097.", 4_097),
        ("too long by 20", None),
    ],
)
def test_the_limit_is_read_from_any_words(words: str, limit: int | None) -> None:
    assert limit_in(words) == limit


@pytest.mark.parametrize(
    "words",
    [
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens.",
        "temperature must be between 0 and 2",
        "messages: the maximum number of images is 20",
    ],
)
async def test_another_limit_is_not_taken_for_the_context(
    server: OpenAIEmulator, model: OpenAIModel, words: str
) -> None:
    server.then(Reply(status=400, error=words))

    assert (await failed(model)).kind is FailureKind.BAD_REQUEST


@pytest.mark.parametrize(
    ("headers", "words", "wanted_s"),
    [
        ({"Retry-After": "600"}, "Slow down", 600),
        ({"retry-after-ms": "600000"}, "Slow down", 600),
        ({"Retry-After": "DATE"}, "Slow down", 600),
        ({"Retry-After": "soon"}, "Slow down", None),
        ({"Retry-After": "-5"}, "Slow down", None),
        ({"Retry-After": "nan"}, "Slow down", None),
        ({}, "Rate limit reached. Please try again in 6m40s.", 400),
        ({}, "Rate limit reached. Please try again in 90.5s.", 90.5),
        ({}, "Please retry in 400 seconds", 400),
    ],
)
async def test_the_wish_to_wait_is_read_in_any_form(
    server: OpenAIEmulator,
    model: OpenAIModel,
    headers: dict[str, str],
    words: str,
    wanted_s: float | None,
) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=600), usegmt=True)
    sent = {name: date if value == "DATE" else value for name, value in headers.items()}
    tries = 3 if wanted_s is None else 1
    server.then(*[Reply(status=429, error=words, headers=sent)] * tries)

    failure = await failed(model)

    assert failure.kind is FailureKind.RATE_LIMITED
    if wanted_s is None:
        assert failure.retry_after_s is None
    else:
        assert failure.retry_after_s == pytest.approx(wanted_s, abs=30)
    assert len(server.requests) == tries


async def test_a_wish_of_milliseconds_is_no_wish_of_seconds(
    server: OpenAIEmulator, model: OpenAIModel
) -> None:
    server.then(
        Reply(status=429, error="Please try again in 120ms.", error_type="requests"), Reply("Here I am.")
    )

    assert (await done(model)).message.text == "Here I am."


@pytest.mark.parametrize(
    ("status", "code", "words", "kind"),
    [
        (429, "insufficient_quota", "You exceeded your current quota", FailureKind.NO_CREDIT),
        (403, None, "Your credit balance is too low to access the API", FailureKind.NO_CREDIT),
        (401, None, "Insufficient balance", FailureKind.NO_CREDIT),
        (400, None, "Arrearage: your account is in overdue payment", FailureKind.NO_CREDIT),
        (403, None, "Daily limit exceeded for this key", FailureKind.RATE_LIMITED),
        (403, None, "RESOURCE_EXHAUSTED: quota exceeded for requests per minute", FailureKind.RATE_LIMITED),
        (400, None, "API key not valid. Please pass a valid API key.", FailureKind.BAD_KEY),
        (529, "overloaded_error", "Overloaded", FailureKind.DOWN),
    ],
)
async def test_a_quota_is_no_wrong_key(
    server: OpenAIEmulator,
    model: OpenAIModel,
    status: int,
    code: str | None,
    words: str,
    kind: FailureKind,
) -> None:
    tries = 3 if kind in (FailureKind.RATE_LIMITED, FailureKind.DOWN) else 1
    server.then(*[Reply(status=status, code=code, error=words)] * tries)

    assert (await failed(model)).kind is kind
    assert len(server.requests) == tries


@pytest.mark.parametrize(
    "name", ["functions.note", "note ", "no te", "注意", "note<|channel|>json", "x" * 200, "", "a\x00b\ud800"]
)
async def test_a_call_under_an_odd_name_comes_back_and_can_be_sent_again(
    server: OpenAIEmulator, model: OpenAIModel, name: str
) -> None:
    server.then(Reply(raw_deltas=[call(index=0, id="a", function=WHOLE | {"name": name})], checked=False))
    server.then(Reply("Fine."))

    message = (await done(model)).message
    history = mend((said("hi"), message, said("and?"))).messages
    await done(model, ask(*history, tools=(NOTE,)))

    assert server.violations == []


async def test_usage_that_is_no_number_counts_nothing(server: OpenAIEmulator, model: OpenAIModel) -> None:
    usage = {"prompt_tokens": 12.0, "completion_tokens": -3, "prompt_tokens_details": {"cached_tokens": "x"}}
    server.then(Reply(raw=stream(choice({"content": "Hi"}), END, {"choices": [], "usage": usage})))

    assert (await done(model)).usage == Usage()


async def test_a_failure_of_a_nearly_full_request_is_not_repeated(server: OpenAIEmulator) -> None:
    """The server may have broken on its length: whoever asked makes it shorter before it is sent again."""
    model = a_model(server, "native", window=lambda: 1_000)
    server.then(Reply(status=502, raw="Bad Gateway", content_type="text/plain"))
    server.then(*[Reply(status=502, error="Bad Gateway")] * 3)

    assert (await failed(model, ask(said("word " * 950)))).kind is FailureKind.DOWN
    assert len(server.requests) == 1
    assert (await failed(model, ask(said("word " * 100)))).kind is FailureKind.DOWN
    assert len(server.requests) == 4
    await model.aclose()
