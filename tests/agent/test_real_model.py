"""The wire to a real llama.cpp server with a very small model: shapes, ends and errors, never wording."""

import asyncio
import importlib.util
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from trunkline.agent.messages import Usage, UserMessage
from trunkline.agent.model import (
    FailureKind,
    ModelDone,
    ModelEvent,
    ModelFailure,
    ModelRequest,
    TextDelta,
    ToolSpec,
)
from trunkline.agent.openai_client import OpenAIModel, ToolMode
from trunkline.agent.openai_client_sdk import Endpoint, Timeouts
from trunkline.agent.openai_client_setup import list_models
from trunkline.gateway.local_model import SMOLLM2, LocalModelFailed, ServedModel, fetch, serving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

PATIENT = Timeouts(first_token_s=180, between_tokens_s=120, total_s=300)
CONTEXT_TOKENS = 2048
KEEP = ToolSpec(
    "keep",
    "Keeps a fact.",
    {"type": "object", "properties": {"text": {"type": "string", "maxLength": 40}}, "required": ["text"]},
)


def unavailable(why: str) -> None:
    """In CI a missing model is a failure; on a laptop it is a reason to skip."""
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("xllamacpp") is None:
        unavailable("the extra `local` is not installed: `make local`")
    kept = os.environ.get("TRUNKLINE_TEST_MODELS")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("models")
    try:
        return asyncio.run(fetch(SMOLLM2, folder))
    except LocalModelFailed as failed:
        unavailable(str(failed))
        raise


@pytest.fixture(scope="module")
def served(weights: Path) -> Iterator[ServedModel]:
    with asyncio.Runner() as runner:
        server = serving(weights, context_tokens=CONTEXT_TOKENS, threads=1)
        try:
            model = runner.run(server.__aenter__())
        except LocalModelFailed as failed:
            unavailable(str(failed))
            raise
        yield model
        runner.run(server.__aexit__(None, None, None))


@pytest.fixture
async def model(served: ServedModel) -> AsyncIterator[OpenAIModel]:
    client = OpenAIModel(served.model, Endpoint(served.base_url), tool_calls="native", timeouts=PATIENT)
    yield client
    await client.aclose()


def ask(text: str, **more: object) -> ModelRequest:
    given: dict[str, object] = {"max_tokens": 24}
    return ModelRequest("You are brief.", (UserMessage(text, text),), **(given | more))  # type: ignore[arg-type]


async def events_of(model: OpenAIModel, request: ModelRequest) -> list[ModelEvent]:
    async with aclosing(model.stream(request)) as events:
        return [event async for event in events]


async def test_an_answer_streams_ends_and_is_counted(model: OpenAIModel) -> None:
    events = await events_of(model, ask("Count from one to fifty."))

    end = events[-1]
    assert isinstance(end, ModelDone)
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert len(deltas) > 5
    assert "".join(deltas) == end.message.text
    assert end.message.finish_reason in ("stop", "length")
    assert end.usage.prompt_tokens > 10
    assert 5 < end.usage.completion_tokens <= 24


async def test_a_second_turn_is_read_from_the_cache(model: OpenAIModel) -> None:
    long = "The harbour has nine boats and one old crane. " * 20
    await events_of(model, ask(long, max_tokens=2))

    end = (await events_of(model, ask(long, max_tokens=2)))[-1]

    assert isinstance(end, ModelDone)
    assert end.usage.cached_tokens > end.usage.prompt_tokens // 2


async def test_a_closed_stream_frees_the_server(model: OpenAIModel) -> None:
    async with aclosing(model.stream(ask("Tell me a long story.", max_tokens=1500))) as events:
        assert isinstance(await anext(events), TextDelta)

    async with asyncio.timeout(60):
        end = (await events_of(model, ask("Hello.", max_tokens=2)))[-1]
    assert isinstance(end, ModelDone)


async def test_a_prompt_over_the_context_is_told_as_such(model: OpenAIModel) -> None:
    end = (await events_of(model, ask("word " * 2 * CONTEXT_TOKENS)))[-1]

    assert isinstance(end, ModelFailure)
    assert end.kind is FailureKind.CONTEXT_TOO_LONG


async def test_text_that_encoders_refuse_gets_through(model: OpenAIModel) -> None:
    end = (await events_of(model, ask("a\ud83d b\x00 c \U0001f600", max_tokens=2)))[-1]

    assert isinstance(end, ModelDone)


async def test_tools_that_are_dropped_without_a_word_are_found_out(served: ServedModel) -> None:
    model = OpenAIModel(served.model, Endpoint(served.base_url), timeouts=PATIENT)

    end = (await events_of(model, ask("Hello.", tools=(KEEP,))))[-1]
    await model.aclose()

    assert isinstance(end, ModelDone)
    assert end.usage != Usage()
    assert model.tool_mode in (ToolMode.SCHEMA, ToolMode.NONE)


async def test_the_model_is_listed(served: ServedModel) -> None:
    assert await list_models(served.base_url, "") == (served.model,)
