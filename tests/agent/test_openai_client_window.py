"""What servers say of a model's context is read; what they don't say is not guessed."""

from contextlib import aclosing
from typing import Any

import pytest

from tests.emulators.base import Fault
from tests.emulators.openai import MODELS, OpenAIEmulator
from trunkline.agent.openai_client import OpenAIModel
from trunkline.agent.openai_client_sdk import OPENAI_URL, Endpoint
from trunkline.agent.openai_client_window import limit_in


@pytest.mark.parametrize(
    ("fields", "window"),
    [
        ({"max_model_len": 8192}, 8192),
        ({"context_length": 131072}, 131072),
        ({"context_window": 131072}, 131072),
        ({"max_context_length": 32768, "loaded_context_length": 4096}, 4096),
        ({"meta": {"n_ctx_train": 32768, "n_ctx": 4096}}, 4096),
        ({"meta": {"n_ctx_train": 32768}}, None),
        ({"context_length": "large"}, None),
        ({"context_length": 0}, None),
        ({}, None),
    ],
)
async def test_the_list_of_models_tells_the_window(fields: dict[str, Any], window: int | None) -> None:
    async with OpenAIEmulator().running() as server:
        server.listed_fields = fields
        endpoint = Endpoint(server.base_url, "k")
        model, unlisted = OpenAIModel("emulated", endpoint), OpenAIModel("other", endpoint)
        async with aclosing(model), aclosing(unlisted):
            assert await model.context_tokens() == window
            assert await unlisted.context_tokens() is None


async def test_a_server_without_a_list_says_nothing() -> None:
    async with OpenAIEmulator().running() as server:
        server.fail_next(MODELS, Fault(status=404, body={"error": {"message": "no"}}))
        model = OpenAIModel("emulated", Endpoint(server.base_url, "k"))
        assert await model.context_tokens() is None
        await model.aclose()


async def test_openai_is_not_asked() -> None:
    assert await OpenAIModel("m", Endpoint(OPENAI_URL, "k")).context_tokens() is None


@pytest.mark.parametrize(
    ("refusal", "limit"),
    [
        (
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001.",
            8192,
        ),
        ("the request exceeds the available context size (4,096 tokens), try increasing it", 4096),
        ("prompt is too long: 208310 tokens > 200000 maximum", 200_000),
        ("the model is loaded with context length of only 4096 tokens", 4096),
        ("Request too large", None),
        ("maximum context length is 12", None),
    ],
)
def test_a_refusal_may_name_the_limit(refusal: str, limit: int | None) -> None:
    assert limit_in(refusal) == limit
