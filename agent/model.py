"""The seam to a language model: one request in, events out. Failures are events, not exceptions."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from trunkline.agent.messages import AssistantMessage, Message, Usage

JsonSchema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it.

    `examples` are pairs of what a person says and the arguments' JSON, for models that need to be shown.
    """

    name: str
    description: str
    parameters: JsonSchema
    examples: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What one model call sends. With `tools` empty the model answers in text only.

    `purpose` names the call for the usage table: turn, title, session_search, review, compaction, probe.
    """

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    purpose: str = "turn"
    max_tokens: int | None = None


class FailureKind(StrEnum):
    """Why a model call ended without an answer; each has one sentence for a person."""

    NOT_CONFIGURED = "not_configured"
    BAD_KEY = "bad_key"
    NO_CREDIT = "no_credit"
    RATE_LIMITED = "rate_limited"
    UNKNOWN_MODEL = "unknown_model"
    CONTEXT_TOO_LONG = "context_too_long"
    REFUSED = "refused"
    DOWN = "down"
    TIMED_OUT = "timed_out"
    BROKEN_STREAM = "broken_stream"
    BAD_REQUEST = "bad_request"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Visible text as it arrives; reasoning never comes this way."""

    text: str


@dataclass(frozen=True, slots=True)
class ModelDone:
    """The call's whole message. `finish_reason` is stop, tool_calls, length or content_filter.

    `model` is who answered where that isn't the client's own name: one that stood in for another.
    """

    message: AssistantMessage
    usage: Usage
    model: str = ""


@dataclass(frozen=True, slots=True)
class ModelFailure:
    """The call ended without a usable message. `detail` is for the log, free of secrets.

    `partial` is the visible text that had arrived; `retry_after_s` is the server's own wish.
    """

    kind: FailureKind
    detail: str = ""
    partial: str = ""
    retry_after_s: float | None = None


ModelEvent = TextDelta | ModelDone | ModelFailure


class ModelClient(Protocol):
    """One named model. `stream` ends with exactly one ModelDone or ModelFailure and raises nothing but
    CancelledError; closing the iterator or cancelling closes the connection at once."""

    @property
    def name(self) -> str: ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]: ...
