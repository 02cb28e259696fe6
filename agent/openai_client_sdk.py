"""One chat completion over the openai SDK: opens the connection, reads the stream, names what went wrong.

Repeating a call, and what to send instead, is decided in `openai_client`.
"""

import asyncio
import importlib
import ipaddress
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from trunkline.agent.messages import AssistantMessage, Usage
from trunkline.agent.model import FailureKind, ModelDone
from trunkline.agent.openai_client_errors import (
    NO_MODEL_API,
    Failed,
    failure,
    from_event,
    from_status,
    refuse_error,
)
from trunkline.agent.openai_client_wire import CallAssembler, Choice, Chunk, Delta, finish_reason
from trunkline.agent.stream_text import ReasoningFilter, Scrubber

if TYPE_CHECKING:
    import openai

OPENAI_URL = "https://api.openai.com/v1"
MOST_ANSWER_CHARS = 1_000_000
"""Of text, hidden reasoning and arguments together; twice what models are able to write in one answer."""
NO_KEY = "none"
"""Sent where no key is set: the SDK insists on one, local servers ignore it."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is served. `proxy` overrides the environment's; loopback is never proxied."""

    base_url: str = OPENAI_URL
    api_key: str = field(default="", repr=False)
    proxy: str | None = None

    @property
    def is_loopback(self) -> bool:
        host = urlsplit(self.base_url).hostname or ""
        if host == "localhost":
            return True
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds; none may be left out or endless. `total_s` bounds one `stream` with all its tries, and
    `back_off_s` is the first wait between two of them, doubled each time."""

    connect_s: float = 10.0
    first_token_s: float = 180.0
    between_tokens_s: float = 60.0
    total_s: float = 900.0
    back_off_s: float = 0.5

    def __post_init__(self) -> None:
        for value in (
            self.connect_s,
            self.first_token_s,
            self.between_tokens_s,
            self.total_s,
            self.back_off_s,
        ):
            if not isinstance(value, int | float) or not isfinite(value) or value <= 0:
                raise ValueError(f"a time-out must be a positive number of seconds, not {value!r}")


class Answer:
    """What has arrived of one completion: the text that may be shown, calls, end, usage."""

    def __init__(self, *, opens_hidden: bool = False) -> None:
        self.usage = Usage()
        self.shown = ""
        self._scrubber = Scrubber()
        self._filter = ReasoningFilter(opens_hidden=opens_hidden)
        self._calls = CallAssembler()
        self._finish: str | None = None
        self._chars = 0

    @property
    def lone_close(self) -> bool:
        return self._filter.lone_close

    @property
    def is_full(self) -> bool:
        """More than a whole answer has come; nothing of the rest is wanted."""
        return self._chars > MOST_ANSWER_CHARS or self._calls.is_cut

    def add(self, chunk: Chunk) -> str:
        """Takes a chunk in and returns the visible text it brought."""
        if chunk.usage is not None:
            self.usage = chunk.usage.counted()
        text = "".join(self._add_choice(choice) for choice in chunk.choices or ())
        self.shown += text
        return text

    def end(self) -> str:
        """The text that was held back until the end."""
        rest = self._filter.feed(self._scrubber.finish()) + self._filter.finish()
        self.shown += rest
        return rest

    def done(self) -> ModelDone:
        """The whole message. Raises Failed when it has no proper end."""
        calls = self._calls.calls()
        if self.is_full:
            self._finish = "length"
        if self._finish is None:
            raise Failed(failure(FailureKind.BROKEN_STREAM, "ended without a finish_reason"), repeatable=True)
        reason = finish_reason(self._finish, called=bool(calls))
        if reason == "error":
            raise Failed(failure(FailureKind.BROKEN_STREAM, "finish_reason error"), repeatable=True)
        if reason == "content_filter":
            raise Failed(failure(FailureKind.REFUSED, "finish_reason content_filter"))
        return ModelDone(AssistantMessage(self._filter.visible, calls, reason), self.usage)

    def _add_choice(self, choice: Choice) -> str:
        whole = choice.message
        if whole is not None and self._finish is None:
            self._finish = choice.finish_reason or "stop"
        self._finish = choice.finish_reason or self._finish
        return self._add_delta(whole or choice.delta)

    def _add_delta(self, delta: Delta) -> str:
        for fragment in delta.tool_calls or ():
            self._calls.add(fragment)
            self._chars += len((fragment.function and fragment.function.arguments) or "")
        if delta.function_call is not None:
            self._calls.add_legacy(delta.function_call)
        text = (delta.content or "") + (delta.refusal or "")
        self._chars += len(text)
        return self._filter.feed(self._scrubber.feed(text))


async def open_client(endpoint: Endpoint, timeouts: Timeouts) -> "openai.AsyncOpenAI":
    """Loads the SDK on a thread, as that takes about a second, and opens a client that never retries.

    Raises Failed when the address can't be one.
    """
    return await asyncio.to_thread(_open_client, endpoint, timeouts)


def _open_client(endpoint: Endpoint, timeouts: Timeouts) -> "openai.AsyncOpenAI":
    import openai  # noqa: PLC0415

    from trunkline.agent.openai_client_events import TolerantClient  # noqa: PLC0415

    importlib.import_module("openai.resources.chat.completions")
    # The SDK looks into this module as soon as somebody has begun to load it; importing waits for its end.
    importlib.import_module("httpx")
    timeout = openai.Timeout(
        connect=timeouts.connect_s,
        read=timeouts.first_token_s + timeouts.between_tokens_s,
        write=timeouts.between_tokens_s,
        pool=timeouts.connect_s,
    )
    try:
        proxied: dict[str, Any] = {"trust_env": not endpoint.is_loopback}
        if endpoint.proxy and not endpoint.is_loopback:
            proxied["proxy"] = endpoint.proxy
        return TolerantClient(
            base_url=endpoint.base_url,
            api_key=endpoint.api_key.strip() or NO_KEY,
            timeout=timeout,
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(timeout=timeout, **proxied),
        )
    except (ValueError, TypeError, openai.OpenAIError) as error:
        raise Failed(failure(FailureKind.NOT_CONFIGURED, f"bad address or proxy: {error}")) from error


async def complete(
    client: "openai.AsyncOpenAI", body: dict[str, Any], answer: Answer, timeouts: Timeouts, deadline: float
) -> AsyncGenerator[str]:
    """Sends one completion and yields visible text while `answer` fills up. `deadline` is loop time.

    Raises Failed. Closing the iterator or cancelling closes the connection.
    """
    with translated():
        async with _within(timeouts.first_token_s, deadline):
            reply = await client.chat.completions.create(**body)
        if not body.get("stream"):
            answer_text = answer.add(_chunk(reply))
            yield answer_text + answer.end()
            return
        async with reply as stream:
            kind = stream.response.headers.get("content-type", "")
            if "text/html" in kind:
                raise Failed(failure(FailureKind.NOT_CONFIGURED, NO_MODEL_API.format(what="a web page")))
            patience_s = timeouts.first_token_s
            while True:
                try:
                    async with _within(patience_s, deadline):
                        event = await anext(stream)
                except StopAsyncIteration:
                    break
                patience_s = timeouts.between_tokens_s
                if text := answer.add(_chunk(event)):
                    yield text
                if answer.is_full:
                    break
            if rest := answer.end():
                yield rest


def _within(patience_s: float, deadline: float) -> asyncio.Timeout:
    return asyncio.timeout_at(min(asyncio.get_running_loop().time() + patience_s, deadline))


def _chunk(event: object) -> Chunk:
    """Parses a chunk or a whole completion. Raises Failed for an error that came as an answer."""
    raw = event.model_dump(warnings=False) if isinstance(event, BaseModel) else event
    refuse_error(raw)
    return Chunk.model_validate(raw)


@contextmanager
def translated() -> Iterator[None]:
    """Turns what the SDK and the parsers raise into Failed. Nothing else is caught."""
    import openai  # noqa: PLC0415

    try:
        yield
    except openai.APIStatusError as error:
        raise from_status(error) from error
    except openai.APITimeoutError as error:
        raise _timed_out(error) from error
    except openai.APIConnectionError as error:
        cause = type(error.__cause__ or error).__name__
        kind = FailureKind.BROKEN_STREAM if "Read" in cause or "Protocol" in cause else FailureKind.DOWN
        raise Failed(failure(kind, f"connection: {cause}"), repeatable=True) from error
    except openai.APIError as error:
        raise from_event(error) from error
    except UnicodeEncodeError as error:
        raise Failed(failure(FailureKind.BAD_KEY, "the key holds characters no key has")) from error
    except (json.JSONDecodeError, UnicodeDecodeError, ValidationError) as error:
        detail = f"unreadable answer: {type(error).__name__}"
        raise Failed(failure(FailureKind.BROKEN_STREAM, detail), repeatable=True) from error
    except TimeoutError as error:
        raise Failed(failure(FailureKind.TIMED_OUT, "no token in time")) from error


def _timed_out(error: "openai.APITimeoutError") -> Failed:
    if "Connect" in type(error.__cause__).__name__:
        return Failed(failure(FailureKind.DOWN, "no connection in time"), repeatable=True)
    return Failed(failure(FailureKind.TIMED_OUT, "no answer in time"))
