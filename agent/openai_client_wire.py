"""The wire shapes of chat completions: our messages out, a server's chunks in. Talks to nobody."""

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from trunkline.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, Usage, UserMessage
from trunkline.agent.model import ModelRequest, ToolSpec
from trunkline.agent.sight import unseen
from trunkline.agent.stream_text import clean

WireMessage = dict[str, Any]
CUT_MARK = "\n\n[This message was cut off here.]"
NO_PICTURES: Mapping[str, str] = MappingProxyType({})

_NAMELESS = re.compile(r"[^a-zA-Z0-9_-]")
_SHORT_ID_CHARS = 9
_ID_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one endpoint takes, as its refusals have taught.

    Without `system_role` the system prompt opens the first user message; `short_ids` are nine characters;
    without `sees` pictures are left out, and a line says so.
    """

    streams: bool = True
    counts_usage: bool = True
    system_role: bool = True
    short_ids: bool = False
    sees: bool = True
    length_field: str = "max_tokens"


def wire_request(
    request: ModelRequest, model: str, dialect: Dialect, pictures: Mapping[str, str] = NO_PICTURES
) -> dict[str, Any]:
    """The keyword arguments of one chat completion. `pictures` are data URLs by the pictures' names."""
    body: dict[str, Any] = {"model": model, "messages": wire_messages(request, dialect, pictures)}
    if request.tools:
        body["tools"] = [wire_tool(tool) for tool in request.tools]
    if request.max_tokens is not None:
        body[dialect.length_field] = request.max_tokens
    if dialect.streams:
        body["stream"] = True
        if dialect.counts_usage:
            body["stream_options"] = {"include_usage": True}
    return body


def wire_messages(
    request: ModelRequest, dialect: Dialect, pictures: Mapping[str, str] = NO_PICTURES
) -> list[WireMessage]:
    ids = _ShortIds() if dialect.short_ids else None
    shown = pictures if dialect.sees else NO_PICTURES
    sent = [_wire_message(message, ids, shown) for message in request.messages]
    if not request.system:
        return sent
    system = clean(request.system)
    if not dialect.system_role and sent and sent[0]["role"] == "user":
        return [{"role": "user", "content": _opened_by(system, sent[0]["content"])}, *sent[1:]]
    return [{"role": "system" if dialect.system_role else "user", "content": system}, *sent]


def wire_tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": clean(tool.description), "parameters": tool.parameters}
    return {"type": "function", "function": function}


def assistant_text(message: AssistantMessage) -> str:
    """What the model reads of its own earlier message; one that was cut off says so."""
    return clean(message.text + CUT_MARK if message.interrupted else message.text)


def wire_arguments(arguments: str) -> str:
    """Arguments as servers take them back: a JSON object. What wasn't one is quoted inside an object."""
    try:
        if isinstance(json.loads(arguments), dict):
            return clean(arguments)
    except (ValueError, RecursionError):
        pass
    return json.dumps({"not_a_json_object": clean(arguments)}, ensure_ascii=False)


def _opened_by(system: str, content: Any) -> Any:
    if isinstance(content, list):
        return [{"type": "text", "text": system}, *content]
    return f"{system}\n\n{content}"


def _user_content(message: UserMessage, pictures: Mapping[str, str]) -> str | list[dict[str, Any]]:
    """The text alone where it can be: some endpoints take no list of parts."""
    shown = [pictures[one.sha256] for one in message.pictures if one.sha256 in pictures]
    text = clean(message.sent)
    if len(shown) < len(message.pictures):
        text = f"{text}\n\n{unseen(len(message.pictures) - len(shown))}"
    if not shown:
        return text
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in shown]
    return [{"type": "text", "text": text}, *parts]


def _wire_message(message: Message, ids: "_ShortIds | None", pictures: Mapping[str, str]) -> WireMessage:
    match message:
        case UserMessage():
            return {"role": "user", "content": _user_content(message, pictures)}
        case ToolMessage():
            call_id = ids.of(message.call_id) if ids else message.call_id
            return {"role": "tool", "tool_call_id": clean(call_id), "content": clean(message.content)}
        case AssistantMessage(tool_calls=calls) if calls:
            wired = [_wire_call(call, ids) for call in calls]
            return {"role": "assistant", "content": assistant_text(message) or None, "tool_calls": wired}
        case AssistantMessage():
            return {"role": "assistant", "content": assistant_text(message)}


def _wire_call(call: ToolCall, ids: "_ShortIds | None") -> dict[str, Any]:
    name = _NAMELESS.sub("_", call.name)[:64] or "unnamed"
    function = {"name": name, "arguments": wire_arguments(call.arguments)}
    return {"id": clean(ids.of(call.id) if ids else call.id), "type": "function", "function": function}


class _ShortIds:
    """Nine letters or digits for each id of a request, the same ones each time the request is sent."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}

    def of(self, call_id: str) -> str:
        return self._of.setdefault(call_id, f"{len(self._of):0{_SHORT_ID_CHARS}d}")


class _Loose(BaseModel):
    model_config = ConfigDict(extra="ignore")


class FunctionFragment(_Loose):
    name: str | None = None
    arguments: str | None = None

    @field_validator("arguments", mode="before")
    @classmethod
    def _as_text(cls, value: object) -> object:
        return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class CallFragment(_Loose):
    index: int | None = None
    id: str | None = None
    function: FunctionFragment | None = None

    @field_validator("id", mode="before")
    @classmethod
    def _id_text(cls, value: object) -> object:
        return str(value) if isinstance(value, int) else value


class Delta(_Loose):
    """A piece of the answer, streamed or whole. Reasoning fields are not read."""

    content: str | None = None
    refusal: str | None = None
    tool_calls: list[CallFragment] | None = None
    function_call: FunctionFragment | None = None

    @field_validator("tool_calls", mode="before")
    @classmethod
    def _without_gaps(cls, value: object) -> object:
        return [one for one in value if one is not None] if isinstance(value, list) else value

    @field_validator("content", mode="before")
    @classmethod
    def _text_parts(cls, value: object) -> object:
        if not isinstance(value, list):
            return value
        parts = [part for part in value if isinstance(part, dict) and part.get("type") in ("text", None)]
        return "".join(str(part.get("text") or "") for part in parts)


class Choice(_Loose):
    delta: Delta = Field(default_factory=Delta)
    message: Delta | None = None
    finish_reason: str | None = None

    @field_validator("delta", mode="before")
    @classmethod
    def _no_delta(cls, value: object) -> object:
        return {} if value is None else value

    @field_validator("finish_reason", mode="before")
    @classmethod
    def _reason_text(cls, value: object) -> object:
        return str(value) if isinstance(value, int) else value


class PromptDetails(_Loose):
    cached_tokens: int | None = None


class WireUsage(_Loose):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None

    def counted(self) -> Usage:
        details = self.prompt_tokens_details
        cached = (details.cached_tokens if details else None) or 0
        return Usage(self.prompt_tokens or 0, cached, self.completion_tokens or 0)


class Chunk(_Loose):
    """One event of a stream, or a whole answer of a server that doesn't stream."""

    choices: list[Choice] | None = None
    usage: WireUsage | None = None

    @field_validator("usage", mode="wrap")
    @classmethod
    def _count_or_none(cls, value: object, handler: ValidatorFunctionWrapHandler) -> WireUsage | None:
        """A count that can't be read costs no answer."""
        try:
            counted: WireUsage | None = handler(value)
        except ValidationError:
            return None
        return counted


FINISH_REASONS = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "safety": "content_filter",
    "sensitive": "content_filter",
    "error": "error",
    "abort": "error",
    "network_error": "error",
    "insufficient_system_resource": "error",
}
"""What servers say, in OpenAI's words; anything else they invent means an ordinary end."""


def finish_reason(said: str, *, called: bool) -> str:
    reason = FINISH_REASONS.get(said.casefold().replace("-", "_"), "stop")
    return "tool_calls" if called and reason == "stop" else reason


@dataclass(slots=True)
class _Call:
    order: tuple[int, int]
    id: str = ""
    name: str = ""
    arguments: str = ""

    @property
    def is_whole(self) -> bool:
        try:
            json.loads(self.arguments)
        except (ValueError, RecursionError):
            return False
        return True


MOST_CALLS = 64
"""More calls in one answer are a model or a server gone wrong."""


@dataclass(slots=True)
class CallAssembler:
    """Puts tool calls together from fragments, whatever a server does with indexes, ids and names.

    A fragment belongs to the latest call of its index, unless it names a function under a new id when that
    call's arguments are already whole. `is_cut` tells that there were more than MOST_CALLS.
    """

    is_cut: bool = False
    _calls: list[_Call] = field(default_factory=list)
    _latest: dict[int, _Call] = field(default_factory=dict)

    def add(self, fragment: CallFragment) -> None:
        function = fragment.function or FunctionFragment()
        name, arguments = function.name or "", function.arguments or ""
        call = self._target(fragment, name, arguments)
        call.id = call.id or fragment.id or ""
        call.name = _joined_name(call, name)
        call.arguments += arguments

    def add_legacy(self, function: FunctionFragment) -> None:
        self.add(CallFragment(index=0, function=function))

    def calls(self) -> tuple[ToolCall, ...]:
        """The calls in the server's order, each with an id of its own."""
        taken: set[str] = set()
        result = []
        for call in sorted(self._calls, key=lambda call: call.order):
            call_id = call.id if call.id and call.id not in taken else new_call_id()
            taken.add(call_id)
            result.append(ToolCall(call_id, clean(call.name), clean(call.arguments)))
        return tuple(result)

    def _target(self, fragment: CallFragment, name: str, arguments: str) -> _Call:
        index = fragment.index
        if index is None:
            same = [call for call in self._calls if fragment.id and call.id == fragment.id]
            call = same[0] if same else (self._calls[-1] if self._calls else None)
            index = call.order[0] if call else 0
        else:
            call = self._latest.get(index)
            if call is None and not name and self._calls and not self._calls[-1].is_whole:
                return self._calls[-1]
        if call is None or _begins_another(call, fragment.id, name, arguments):
            call = _Call((index, len(self._calls)))
            if len(self._calls) >= MOST_CALLS:
                self.is_cut = True
                return call
            self._calls.append(call)
            self._latest[index] = call
        return call


def _begins_another(call: _Call, call_id: str | None, name: str, arguments: str) -> bool:
    if not name or not call.name or call_id == call.id:
        return False
    if not call_id:
        return call.is_whole and bool(arguments)
    if call.arguments:
        return call.is_whole
    return name != call.name or _Call((0, 0), arguments=arguments).is_whole


def _joined_name(call: _Call, name: str) -> str:
    """Servers send the name once, whole in every chunk, growing, or in pieces."""
    if not name or name == call.name or call.arguments:
        return call.name or name
    return name if name.startswith(call.name) else call.name + name


def new_call_id() -> str:
    return "call_" + "".join(secrets.choice(_ID_ALPHABET) for _ in range(24))
