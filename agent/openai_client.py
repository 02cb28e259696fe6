"""The ModelClient for chat completions on any compatible endpoint: retries, dialects, ways of tool calls.

The SDK's work is in `openai_client_sdk`, wire shapes in `openai_client_wire`, decisions by schema in
`openai_client_schema`.
"""

import asyncio
import logging
import random
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol

from trunkline.agent.messages import AssistantMessage, Usage, UserMessage
from trunkline.agent.model import (
    FailureKind,
    ModelDone,
    ModelEvent,
    ModelFailure,
    ModelRequest,
    TextDelta,
    ToolSpec,
)
from trunkline.agent.openai_client_errors import Failed, failure
from trunkline.agent.openai_client_schema import (
    Decision,
    NotDecided,
    answer_request,
    decision_format,
    decision_request,
    read_decision,
    repeats_an_example,
)
from trunkline.agent.openai_client_sdk import (
    OPENAI_URL,
    Answer,
    Endpoint,
    Timeouts,
    complete,
    open_client,
    translated,
)
from trunkline.agent.openai_client_window import said_window
from trunkline.agent.openai_client_wire import NO_PICTURES, Dialect, wire_request
from trunkline.agent.sight import Sight, data_urls, says_no_pictures
from trunkline.agent.tokens import estimate_request

if TYPE_CHECKING:
    import openai

logger = logging.getLogger(__name__)

MAX_RETRY_WAIT_S = 30.0
BACK_OFF_CAP_S = 8.0
LOOK_UP_S = 3.0
PROBE_TOKENS = 1024
NEARLY_FULL = 0.87
"""The share of the window from which a failure of the server may be of the request's length."""

ADAPTABLE = frozenset({400, 404, 405, 422, 500, 501})

_NO_STREAMS = re.compile(r"stream\w*\W+(?:\w+\W+){0,4}(?:not supported|unsupported|not available|false)")
_NO_SYSTEM = re.compile(r"system (?:role|message|prompt)s?\W+(?:is |are )?not supported")
_BAD_IDS = re.compile(r"tool[ _]call[ _.]?id|\btool_calls?[\W\d]{0,8}id\b")

SILENT_DROPPERS = frozenset({"llamacpp", "organization_owner"})
"""What llama.cpp and LM Studio call themselves as owners in /v1/models: they take tools and may drop them."""

PROBE_TOOL = ToolSpec(
    name="write_note",
    description="Writes a short note down.",
    parameters={
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    },
    examples=(
        ("Note that the blue bowl is in the kitchen.", '{"text": "The blue bowl is in the kitchen."}'),
    ),
)
PROBE_TEXT = "Use the tool write_note now, with the text: ready"


class ToolMode(StrEnum):
    """How a model's tool calls are had. NONE: neither way works, so it only talks."""

    NATIVE = "native"
    SCHEMA = "schema"
    NONE = "none"


class ToolSupport(Protocol):
    """Keeps what was found out about tool calls, per base_url and model, over restarts."""

    async def recall(self, base_url: str, model: str) -> ToolMode | None: ...

    async def remember(self, base_url: str, model: str, mode: ToolMode) -> None: ...


class ForgetfulToolSupport:
    """Keeps it while the process lives."""

    def __init__(self) -> None:
        self._modes: dict[tuple[str, str], ToolMode] = {}

    async def recall(self, base_url: str, model: str) -> ToolMode | None:
        return self._modes.get((base_url, model))

    async def remember(self, base_url: str, model: str, mode: ToolMode) -> None:
        self._modes[(base_url, model)] = mode


class OpenAIModel:
    """One named model of one endpoint. `aclose` when it is no longer needed.

    `max_tries` counts the sends of a request that may be repeated: 429, 5xx and lost connections, as long
    as no text was shown. `window` tells how many tokens fit, as far as that is known: a request that nearly
    fills it is not repeated after a 5xx, which may be how the endpoint says too long.
    """

    def __init__(
        self,
        model: str,
        endpoint: Endpoint,
        *,
        tool_calls: Literal["auto", "native", "schema"] = "auto",
        timeouts: Timeouts | None = None,
        max_tries: int = 3,
        support: ToolSupport | None = None,
        sight: Sight | None = None,
        window: Callable[[], int | None] | None = None,
    ) -> None:
        self._model = model
        self._endpoint = endpoint
        self._tool_calls = tool_calls
        self._timeouts = timeouts or Timeouts()
        self._max_tries = max_tries
        self._window = window
        self._support: ToolSupport = support or ForgetfulToolSupport()
        self._mode: ToolMode | None = None if tool_calls == "auto" else ToolMode(tool_calls)
        self._dialect = Dialect()
        if endpoint.base_url.startswith(OPENAI_URL):
            self._dialect = Dialect(length_field="max_completion_tokens")
        self._sight = sight or Sight()
        self._sight_recalled = self._sight.vision != "auto"
        self._dialect = replace(self._dialect, sees=self._sight.vision is not False)
        self._opens_hidden = False
        self._samples_coldly = True
        self._client: openai.AsyncOpenAI | None = None
        self._opening = asyncio.Lock()

    @property
    def name(self) -> str:
        return self._model

    @property
    def tool_mode(self) -> ToolMode | None:
        """How tool calls are had, None while 'auto' has not found out."""
        return self._mode

    @property
    def sees(self) -> bool:
        """False once it is known that the model takes no pictures."""
        return self._dialect.sees

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def prepare(self) -> None:
        """Loads the SDK ahead of the first call. Raises Failed when the address can't be one."""
        await self._opened()

    async def context_tokens(self) -> int | None:
        """How many tokens fit into the model's context, where its server says so; asks it anew each time."""
        try:
            return said_window(await self._listed(), self._model)
        except Failed:
            return None  # the address can't be one

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        deadline = asyncio.get_running_loop().time() + self._timeouts.total_s
        ended: ModelFailure | None = None
        try:
            async with aclosing(self._streamed(request, deadline)) as events:
                async for event in events:
                    yield event
        except Failed as failed:
            ended = replace(failed.failure, partial=failed.partial)
            logger.warning(
                "Model call failed model=%s purpose=%s kind=%s detail=%s",
                self._model,
                request.purpose,
                ended.kind,
                ended.detail,
            )
        if ended is not None:
            yield ended

    async def probe_tools(self) -> ToolMode:
        """Finds out with one or two small calls how tool calls are had, and remembers it.

        Raises Failed when the endpoint answers neither.
        """
        mode = await self._probed()
        await self._settle(mode)
        return mode

    async def _streamed(self, request: ModelRequest, deadline: float) -> AsyncGenerator[ModelEvent]:
        mode = await self._mode_for(request)
        events: AsyncGenerator[ModelEvent]
        if mode is ToolMode.SCHEMA:
            events = self._by_schema(request, deadline)
        elif mode is ToolMode.NONE:
            events = self._call(replace(request, tools=()), deadline)
        else:
            events = self._native(request, deadline)
        async with aclosing(events):
            async for event in events:
                yield event

    async def _mode_for(self, request: ModelRequest) -> ToolMode:
        if not request.tools:
            return ToolMode.NATIVE
        if self._mode is None:
            self._mode = await self._support.recall(self._endpoint.base_url, self._model)
        if self._mode is None and await self._may_drop_tools():
            try:
                await self.probe_tools()
            except Failed as failed:
                logger.info("Tool probe failed model=%s kind=%s", self._model, failed.failure.kind)
        return self._mode or ToolMode.NATIVE

    async def _native(self, request: ModelRequest, deadline: float) -> AsyncGenerator[ModelEvent]:
        try:
            async with aclosing(self._call(request, deadline)) as events:
                async for event in events:
                    if isinstance(event, ModelDone) and request.tools and self._mode is None:
                        await self._settle(ToolMode.NATIVE)
                    yield event
            return
        except Failed as failed:
            refused = failed
        if not request.tools or refused.partial:
            raise refused
        if refused.says_no_tools and self._tool_calls == "auto":
            logger.warning("Tools refused model=%s detail=%s", self._model, refused.failure.detail)
            await self._settle(ToolMode.SCHEMA)
        elif not refused.says_malformed_call:
            raise refused
        if self._tool_calls == "auto":
            instead = self._by_schema(request, deadline)
        else:
            instead = self._call(replace(request, tools=()), deadline)
        async with aclosing(instead):
            async for event in instead:
                yield event

    async def _by_schema(self, request: ModelRequest, deadline: float) -> AsyncGenerator[ModelEvent]:
        spent = Usage()
        try:
            decision, spent = await self._decide(request, deadline)
            if decision.call is not None and not repeats_an_example(decision.call, request):
                finish = "length" if decision.cut else "tool_calls"
                yield ModelDone(AssistantMessage("", (decision.call,), finish), spent)
                return
        except NotDecided:
            if self._tool_calls == "schema":
                detail = (
                    "the endpoint keeps no response_format, which tool_calls: schema needs; "
                    "set tool_calls: native, or use another endpoint"
                )
                raise Failed(failure(FailureKind.BAD_REQUEST, detail)) from None
            logger.warning("Model takes no tools in any way model=%s", self._model)
            await self._settle(ToolMode.NONE)
        async with aclosing(self._call(answer_request(request), deadline)) as events:
            async for event in events:
                yield replace(event, usage=event.usage + spent) if isinstance(event, ModelDone) else event

    async def _decide(self, request: ModelRequest, deadline: float) -> tuple[Decision, Usage]:
        """Raises NotDecided when the endpoint has no `response_format`, or does not keep to it."""
        more: dict[str, Any] = {"response_format": decision_format(request.tools)}
        if self._samples_coldly:
            more["temperature"] = 0  # a decision is looked up, not made up
        try:
            done = await self._whole(decision_request(request), deadline, **more)
        except Failed as failed:
            if self._samples_coldly and failed.status == 400 and "temperature" in failed.failure.detail:
                self._samples_coldly = False
                return await self._decide(request, deadline)
            if failed.status in (400, 404, 422, 501) and "response_format" in failed.failure.detail:
                raise NotDecided from failed
            raise
        return read_decision(done.message.text, cut=done.message.finish_reason == "length"), done.usage

    async def _whole(self, request: ModelRequest, deadline: float, **more: Any) -> ModelDone:
        async with aclosing(self._call(request, deadline, **more)) as events:
            async for event in events:
                if isinstance(event, ModelDone):
                    return event
        raise Failed(failure(FailureKind.BROKEN_STREAM, "no end of the answer"))

    async def _call(self, request: ModelRequest, deadline: float, **more: Any) -> AsyncGenerator[ModelEvent]:
        """Sends the request until it is answered or must not be sent again. Raises Failed."""
        client = await self._opened()
        pictures = await self._look_up(request)
        tries = 0
        while True:
            answer = Answer(opens_hidden=self._opens_hidden)
            body = wire_request(request, self._model, self._dialect, pictures) | more
            try:
                async with aclosing(complete(client, body, answer, self._timeouts, deadline)) as pieces:
                    async for text in pieces:
                        if text:
                            yield TextDelta(text)
                done = answer.done()
                self._opens_hidden = self._opens_hidden or answer.lone_close
                yield done
                return
            except Failed as caught:
                failed = caught
            failed.partial = answer.shown
            if self._adapt(failed) or (pictures and await self._unlearn_sight(failed)):
                continue
            if pictures and _may_mean_a_picture(failed):
                logger.info("Tried without pictures model=%s detail=%s", self._model, failed.failure.detail)
                pictures = NO_PICTURES
                continue
            tries += 1
            wait_s = self._wait_s(failed, tries, deadline)
            if wait_s is None or (failed.status >= 500 and await self._nearly_fills(request)):
                raise failed
            await asyncio.sleep(wait_s)

    def _wait_s(self, failed: Failed, tries: int, deadline: float) -> float | None:
        """How long to wait before the next try; None when there must be none."""
        if not failed.repeatable or failed.partial or tries >= self._max_tries:
            return None
        wished_s = failed.failure.retry_after_s
        if wished_s is not None and wished_s > MAX_RETRY_WAIT_S:
            return None
        back_off_s = min(self._timeouts.back_off_s * 2 ** (tries - 1), BACK_OFF_CAP_S)
        wait_s = max(wished_s or 0.0, back_off_s * random.uniform(0.5, 1.0))
        return None if asyncio.get_running_loop().time() + wait_s >= deadline else wait_s

    async def _nearly_fills(self, request: ModelRequest) -> bool:
        window = self._window() if self._window else None
        # In a thread, since a long history takes its time.
        if window is None:
            return False
        return await asyncio.to_thread(estimate_request, request, self._model) > NEARLY_FULL * window

    def _adapt(self, failed: Failed) -> bool:
        """Learns from the refusal of what not every endpoint takes; true when it taught something."""
        if failed.partial or failed.status not in ADAPTABLE:
            return False
        adapted = _adapted(self._dialect, failed.failure.detail)
        if adapted == self._dialect:
            return False
        logger.info("Dialect changed model=%s dialect=%s", self._model, adapted)
        self._dialect = adapted
        return True

    async def _look_up(self, request: ModelRequest) -> Mapping[str, str]:
        """The pictures of a request; none where the model is known not to see."""
        if not any(isinstance(message, UserMessage) and message.pictures for message in request.messages):
            return NO_PICTURES
        if not self._sight_recalled:
            sees = await self._sight.memory.recall(self._endpoint.base_url, self._model)
            self._dialect = replace(self._dialect, sees=sees is not False)
            self._sight_recalled = True
        return await data_urls(request.messages, self._sight.pictures) if self._dialect.sees else NO_PICTURES

    async def _unlearn_sight(self, failed: Failed) -> bool:
        """Whether the refusal was for the pictures; the model then gets none any more."""
        if self._sight.vision != "auto" or failed.partial or not self._dialect.sees:
            return False
        if not (400 <= failed.status < 600 and says_no_pictures(failed.failure.detail)):
            return False
        logger.info("Model takes no pictures model=%s detail=%s", self._model, failed.failure.detail)
        self._dialect = replace(self._dialect, sees=False)
        await self._sight.memory.remember(self._endpoint.base_url, self._model, sees=False)
        return True

    async def _opened(self) -> "openai.AsyncOpenAI":
        async with self._opening:
            if self._client is None:
                self._client = await open_client(self._endpoint, self._timeouts)
            return self._client

    async def _settle(self, mode: ToolMode) -> None:
        if self._tool_calls == "auto":
            self._mode = mode
            await self._support.remember(self._endpoint.base_url, self._model, mode)

    async def _may_drop_tools(self) -> bool:
        """Whether the server is of a kind that takes tools and may drop them without a word."""
        return any(str(getattr(model, "owned_by", "")) in SILENT_DROPPERS for model in await self._listed())

    async def _listed(self) -> "Sequence[openai.types.Model]":
        """The models that the server lists; none of OpenAI's own, whose list tells no more than names."""
        if self._endpoint.base_url.startswith(OPENAI_URL):
            return ()
        client = await self._opened()
        try:
            with translated():
                async with asyncio.timeout(LOOK_UP_S):
                    page = await client.models.list()
        except Failed:
            return ()
        return page.data or ()

    async def _probed(self) -> ToolMode:
        said = UserMessage(PROBE_TEXT, PROBE_TEXT)
        request = ModelRequest("", (said,), (PROBE_TOOL,), purpose="probe", max_tokens=PROBE_TOKENS)
        deadline = asyncio.get_running_loop().time() + self._timeouts.total_s
        try:
            done = await self._whole(request, deadline)
            if any(call.name == PROBE_TOOL.name for call in done.message.tool_calls):
                return ToolMode.NATIVE
        except Failed as failed:
            if not (failed.says_no_tools or failed.says_malformed_call):
                raise
        try:
            decision, _ = await self._decide(request, deadline)
        except NotDecided:
            return ToolMode.NONE
        return ToolMode.SCHEMA if decision.call is not None else ToolMode.NONE


def _may_mean_a_picture(failed: Failed) -> bool:
    """Whether one picture may be what was refused: a broken or odd one would stay in the history for good."""
    is_bad = failed.failure.kind is FailureKind.BAD_REQUEST and not failed.partial
    return is_bad and not failed.says_no_tools


def _adapted(dialect: Dialect, refusal: str) -> Dialect:
    """The dialect without what the refusal names; the same one when it names nothing that can be left out."""
    said = refusal.lower()
    if dialect.counts_usage and ("stream_options" in said or "include_usage" in said):
        return replace(dialect, counts_usage=False)
    if dialect.streams and _NO_STREAMS.search(said):
        return replace(dialect, streams=False)
    if dialect.length_field == "max_tokens" and "max_completion_tokens" in said:
        return replace(dialect, length_field="max_completion_tokens")
    if dialect.system_role and _NO_SYSTEM.search(said):
        return replace(dialect, system_role=False)
    if not dialect.short_ids and _BAD_IDS.search(said):
        return replace(dialect, short_ids=True)
    return dialect
