"""What set-up and doctor ask of an endpoint: which models it has, whether it answers, how it takes tools."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass

from pydantic import BaseModel, ValidationError

from trunkline.agent.messages import UserMessage
from trunkline.agent.model import FailureKind, ModelDone, ModelFailure, ModelRequest
from trunkline.agent.openai_client import OpenAIModel, ToolMode, ToolSupport
from trunkline.agent.openai_client_errors import NO_MODEL_API, Failed, failure
from trunkline.agent.openai_client_sdk import OPENAI_URL, Endpoint, Timeouts, open_client, translated

CHECK_TIMEOUTS = Timeouts(connect_s=5.0, first_token_s=120.0, between_tokens_s=60.0, total_s=240.0)
CHECK_TEXT = "Reply with the one word: ready"

_CLIENT_LOG = logging.getLogger("trunkline.agent.openai_client")


class EndpointFailed(Exception):
    """The endpoint could not be asked; `failure.kind` has a sentence for a person."""

    def __init__(self, failure: ModelFailure) -> None:
        super().__init__(f"{failure.kind}: {failure.detail}")
        self.failure = failure


@dataclass(frozen=True, slots=True)
class EndpointCheck:
    """What one model of an endpoint can do. `failure` is set when it gave no answer, or tools were not tried.

    `tools` is NONE when the model only talks: it then can't note or look up anything by itself.
    """

    answers: bool
    tools: ToolMode | None = None
    failure: ModelFailure | None = None


class _Listed(BaseModel):
    """An entry of the list; what other endpoints add is of no use here."""

    id: object = None


class _ModelList(BaseModel):
    data: tuple[_Listed, ...] | None = None


async def list_models(
    base_url: str, api_key: str, *, proxy: str | None = None, timeout_s: float = 10.0
) -> tuple[str, ...]:
    """The ids that /v1/models names, sorted; empty where there is no such list. Raises EndpointFailed.

    Its kind is NOT_CONFIGURED where something else than a model API answers.
    """
    import httpx  # noqa: PLC0415

    endpoint = Endpoint(base_url, api_key, proxy)
    try:
        client = await open_client(endpoint, CHECK_TIMEOUTS)
        async with client:
            with translated():
                async with asyncio.timeout(timeout_s):
                    answer = await client.get("/models", cast_to=httpx.Response)
    except Failed as failed:
        if failed.status in (404, 405, 501):
            return ()
        raise EndpointFailed(failed.failure) from failed
    try:
        page = _ModelList.model_validate_json(answer.content)
    except ValidationError as error:
        kind = answer.headers.get("content-type", "").partition(";")[0]
        what = "a web page" if kind == "text/html" else "something unreadable"
        detail = NO_MODEL_API.format(what=what)
        raise EndpointFailed(failure(FailureKind.NOT_CONFIGURED, detail)) from error
    return tuple(sorted({model.id for model in page.data or () if isinstance(model.id, str)}))


async def check_endpoint(
    model: str,
    base_url: str = OPENAI_URL,
    api_key: str = "",
    *,
    proxy: str | None = None,
    timeouts: Timeouts = CHECK_TIMEOUTS,
    support: ToolSupport | None = None,
) -> EndpointCheck:
    """Has the model answer once and tries a tool; what it finds goes to `support`. Raises nothing."""
    client = OpenAIModel(model, Endpoint(base_url, api_key, proxy), timeouts=timeouts, support=support)
    said = UserMessage(CHECK_TEXT, CHECK_TEXT)
    try:
        ended = failure(FailureKind.BROKEN_STREAM)
        with _told_not_logged():
            async with aclosing(client.stream(ModelRequest("", (said,), purpose="probe"))) as events:
                async for event in events:
                    if isinstance(event, ModelDone):
                        return EndpointCheck(answers=True, tools=await client.probe_tools())
                    if isinstance(event, ModelFailure):
                        ended = event
        if ended.kind is FailureKind.BROKEN_STREAM:
            ended = await _no_model_api(base_url, api_key, proxy) or ended
        return EndpointCheck(answers=False, failure=ended)
    except Failed as failed:
        return EndpointCheck(answers=True, failure=failed.failure)
    finally:
        await client.aclose()


async def _no_model_api(base_url: str, api_key: str, proxy: str | None) -> ModelFailure | None:
    """Why there is no model API at an address whose answer had no proper end; None where there is one."""
    try:
        await list_models(base_url, api_key, proxy=proxy)
    except EndpointFailed as failed:
        return failed.failure if failed.failure.kind is FailureKind.NOT_CONFIGURED else None
    return None


@contextmanager
def _told_not_logged() -> Iterator[None]:
    """Keeps the client's log still: whoever asked for the check is told the failure itself."""
    before = _CLIENT_LOG.level
    _CLIENT_LOG.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        _CLIENT_LOG.setLevel(before)
