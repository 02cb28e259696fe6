"""The fallback chain: another model answers where that can help, and never after a word was shown."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.emulators.openai import OpenAIEmulator, Reply
from trunkline.agent.messages import UserMessage
from trunkline.agent.model import FailureKind, ModelDone, ModelEvent, ModelFailure, ModelRequest, ToolSpec
from trunkline.agent.openai_client import OpenAIModel
from trunkline.agent.openai_client_sdk import Endpoint
from trunkline.gateway.config import parse_config
from trunkline.gateway.model_clients import Models
from trunkline.gateway.models import FallbackModel, NoModel
from trunkline.gateway.state.database import Database

REQUEST = ModelRequest("Be kind.", (UserMessage("hi", "hi"),))


@pytest.fixture
async def pair() -> AsyncIterator[tuple[OpenAIEmulator, OpenAIEmulator]]:
    async with OpenAIEmulator().running() as first, OpenAIEmulator().running() as second:
        yield first, second
        assert [*first.violations, *second.violations] == []


async def asked(*emulators: OpenAIEmulator) -> ModelEvent:
    """The last event of a call through the chain."""
    models = [OpenAIModel(f"m{n}", Endpoint(e.base_url, "sk-x")) for n, e in enumerate(emulators)]
    events = [event async for event in FallbackModel(models).stream(REQUEST)]
    for model in models:
        await model.aclose()
    assert sum(isinstance(event, ModelDone | ModelFailure) for event in events) == 1
    return events[-1]


@pytest.mark.parametrize(
    "failure",
    [
        Reply(status=401, code="invalid_api_key"),
        Reply(status=404, code="model_not_found"),
        Reply(status=429, code="insufficient_quota"),
        Reply(status=429, headers={"Retry-After": "600"}),
    ],
)
async def test_a_model_that_cannot_answer_is_stood_in_for(
    pair: tuple[OpenAIEmulator, OpenAIEmulator], failure: Reply
) -> None:
    pair[0].then(failure)
    pair[1].then(Reply("From the second."))

    last = await asked(*pair)

    assert isinstance(last, ModelDone)
    assert last.message.text == "From the second."
    assert last.model == "m1", "who answered is who is paid"


async def test_what_the_request_itself_causes_is_not_asked_of_another(
    pair: tuple[OpenAIEmulator, OpenAIEmulator],
) -> None:
    pair[0].then(Reply(status=400, code="context_length_exceeded", error="maximum context length is 10"))

    last = await asked(*pair)

    assert isinstance(last, ModelFailure)
    assert last.kind is FailureKind.CONTEXT_TOO_LONG
    assert pair[1].requests == []


async def test_an_answer_that_broke_after_its_first_words_is_not_begun_anew_by_another(
    pair: tuple[OpenAIEmulator, OpenAIEmulator],
) -> None:
    pair[0].then(Reply("A long answer that breaks off", cut_after=3))

    last = await asked(*pair)

    assert isinstance(last, ModelFailure)
    assert pair[1].requests == []


async def test_when_nobody_can_answer_the_last_failure_is_the_one_told(
    pair: tuple[OpenAIEmulator, OpenAIEmulator],
) -> None:
    pair[0].then(Reply(status=401, code="invalid_api_key"))
    pair[1].then(Reply(status=404, code="model_not_found"))

    last = await asked(*pair)

    assert isinstance(last, ModelFailure)
    assert last.kind is FailureKind.UNKNOWN_MODEL


async def test_without_a_model_every_call_says_so() -> None:
    (only,) = [event async for event in NoModel().stream(REQUEST)]

    assert only == ModelFailure(FailureKind.NOT_CONFIGURED)


async def test_what_is_known_of_a_model_file_holds_wherever_it_is_served(
    sqlite_database: Database, tmp_path: Path
) -> None:
    config = parse_config(tmp_path, {"model": {"file": str(tmp_path / "small.gguf")}}, {})

    def served_at(base_url: str) -> Models:
        choice = config.model.model_copy(update={"name": "small", "base_url": base_url})
        return Models(config.model_copy(update={"model": choice}), sqlite_database)

    def without_tools(body: dict[str, Any]) -> Reply:
        return Reply(status=400, error="small does not support tools") if "tools" in body else Reply("Hello.")

    tool = ToolSpec("note", "Writes a note.", {"type": "object", "properties": {}})
    tried = []
    for _ in range(2):
        async with OpenAIEmulator().running() as server, served_at(server.base_url) as models:
            server.responder = without_tools
            async with aclosing(models.main.stream(replace(REQUEST, tools=(tool,)))) as events:
                assert isinstance([event async for event in events][-1], ModelDone)
            tried.append(any("tools" in request for request in server.requests))

    assert tried == [True, False]
