"""The fallback chain: another model answers where that can help, and never after a word was shown."""

from collections.abc import AsyncIterator

import pytest

from tests.emulators.openai import OpenAIEmulator, Reply
from trunkline.agent.messages import UserMessage
from trunkline.agent.model import FailureKind, ModelDone, ModelEvent, ModelFailure, ModelRequest
from trunkline.agent.openai_client import OpenAIModel
from trunkline.agent.openai_client_sdk import Endpoint
from trunkline.gateway.models import FallbackModel, NoModel

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
