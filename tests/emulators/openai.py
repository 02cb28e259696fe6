"""An OpenAI-compatible server on loopback, scripted reply by reply, that keeps to the live API's rules.

It can also play the endpoints people really point at: without tools, without streams, with odd deltas.
"""

import asyncio
import base64
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web

from tests.emulators.base import Emulator
from tests.emulators.openai_audio import Sounds
from tests.emulators.openai_spec import breaches

CHAT = "chat.completions"
MODELS = "models"
CREATED = 1_760_000_000

ORDER_RULE = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. The following tool_call_ids did not have response messages: {ids}"
)
ORPHAN_RULE = (
    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
    "'tool_calls'."
)
VLLM_RULE = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
PEG_RULE = "The model produced output that does not match the expected peg-native format"

Tools = Literal["yes", "refused", "vllm", "peg", "ignored"]
Deltas = Literal["openai", "one_index", "fresh_ids", "repeated_name", "two_in_first", "no_ids", "interleaved"]


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call the scripted model makes; `arguments` is JSON text, or a value that becomes it."""

    name: str
    arguments: str | dict[str, Any] = field(default_factory=dict)
    id: str = ""

    @property
    def text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True, slots=True)
class Reply:
    """One scripted answer. Chunks are counted from 0, the role chunk included, for the `*_after` fields.

    `deltas` says how tool calls are cut up; `raw` is sent as the body as it is, with `content_type` or the
    one that it looks like; `raw_deltas` are sent in place of what text and tools would give. `usage` is
    prompt, cached, completion. With `only_comments` a stream never holds anything else. `checked` is false
    for what no description allows. Nothing is said before `held` is set.
    """

    text: str = ""
    tools: Sequence[ToolUse] = ()
    reasoning: str = ""
    status: int = 200
    code: str | None = None
    error_type: str = "invalid_request_error"
    error: str = "scripted error"
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    held: asyncio.Event | None = None
    chunk_chars: int = 8
    chunk_delay_s: float = 0.0
    cut_after: int | None = None
    stall_after: int | None = None
    error_after: int | None = None
    error_event: dict[str, Any] | None = None
    raw: str | bytes | None = None
    content_type: str = ""
    only_comments: bool = False
    raw_deltas: Sequence[dict[str, Any]] = ()
    finish_reason: str | None = ""
    usage: tuple[int, int, int] = (100, 40, 20)
    deltas: Deltas = "openai"
    legacy: bool = False
    checked: bool = True


class Refused(Exception):
    """The request breaks a rule; becomes an error answer."""

    def __init__(self, message: str, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.reply = Reply(status=status, error=message, code=code)


class OpenAIEmulator(Emulator):
    """Serves /v1/chat/completions and /v1/models. `base_url` is what a client is pointed at.

    Replies come from `script` in order, or from `responder` when it is set; a request beyond the script is
    a violation. `dropped` counts streams whose client went away.
    """

    def __init__(self, *replies: Reply) -> None:
        super().__init__()
        self.script: deque[Reply] = deque(replies)
        self.responder: Callable[[dict[str, Any]], Reply] | None = None
        self.models: dict[str, str] = {"emulated": "openai"}
        self.listed_fields: dict[str, Any] = {}
        self.api_key = ""
        self.tools: Tools = "yes"
        self.formats: Literal["yes", "refused"] = "yes"
        self.usage_chunk: Literal["yes", "no", "refused"] = "yes"
        self.streaming: Literal["yes", "refused", "ignored"] = "yes"
        self.known_models_only = False
        self.sees = True
        self.dropped = 0
        self._stopping = asyncio.Event()
        self.app.router.add_post("/v1/chat/completions", self._chat)
        self.app.router.add_get("/v1/models", self._list)
        self.sounds = Sounds(self)

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The bodies of the chat completions asked for, in order."""
        return [call.arguments for call in self.calls_of(CHAT)]

    def then(self, *replies: Reply) -> None:
        self.script.extend(replies)

    async def close_connections(self) -> None:
        self._stopping.set()

    async def _list(self, request: web.Request) -> web.StreamResponse:
        await self.record(MODELS, {})
        if fault := self.take_fault(MODELS):
            await asyncio.sleep(fault.delay_s)
            return web.json_response(fault.body or {}, status=fault.status, headers=fault.headers)
        if refusal := self._wrong_key(request):
            return refusal
        listed = [
            {"id": model, "object": "model", "created": CREATED, "owned_by": owner, **self.listed_fields}
            for model, owner in self.models.items()
        ]
        answer = {"object": "list", "data": listed}
        self.violations += breaches("ListModelsResponse", answer)
        return web.json_response(answer)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        await self.record(CHAT, body)
        self.violations += breaches("CreateChatCompletionRequest", body)
        if refusal := self._wrong_key(request):
            return refusal
        try:
            self._check(body)
            reply = self._next(body)
        except Refused as refused:
            reply = refused.reply
        try:
            await self._pause(request, reply.delay_s)
            while reply.held is not None and not (reply.held.is_set() or self._stopping.is_set()):
                await self._pause(request, 0.01)
        except ConnectionResetError:
            await self._count_drop()
            return web.Response(status=499)
        if reply.raw is not None:
            return _as_it_is(reply, reply.raw)
        if reply.status != 200:
            return self._error(reply)
        if body.get("stream") and self.streaming == "yes":
            return await self._stream(request, body, reply)
        whole = _completion(body, reply)
        if reply.checked:
            self.violations += breaches("CreateChatCompletionResponse", whole)
        return web.json_response(whole)

    def _next(self, body: dict[str, Any]) -> Reply:
        if self.responder is not None:
            return self.responder(body)
        if not self.script:
            self.violations.append("a request came after the end of the script")
            return Reply(status=500, error="the script is at its end", error_type="server_error")
        return self.script.popleft()

    def _wrong_key(self, request: web.Request) -> web.Response | None:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not self.api_key or given == self.api_key:
            return None
        return self._error(
            Reply(status=401, code="invalid_api_key", error=f"Incorrect API key provided: {given}.")
        )

    def _error(self, reply: Reply) -> web.Response:
        error = {"message": reply.error, "type": reply.error_type, "param": None, "code": reply.code}
        self.violations += breaches("ErrorResponse", {"error": error})
        return web.json_response({"error": error}, status=reply.status, headers=reply.headers)

    def _check(self, body: dict[str, Any]) -> None:
        """Raises Refused for what the live API, or the endpoint being played, would not take."""
        if not body.get("model"):
            raise Refused("you must provide a model parameter")
        if self.known_models_only and body["model"] not in self.models:
            message = f"The model `{body['model']}` does not exist or you do not have access to it."
            raise Refused(message, 404, "model_not_found")
        check_messages(body.get("messages") or [])
        if not self.sees and pictures_of(body):
            raise Refused("Invalid content type. image_url is only supported by certain models.")
        if body.get("tools") and self.tools == "refused":
            raise Refused(f"{body['model']} does not support tools")
        if body.get("tools") and self.tools == "vllm":
            raise Refused(VLLM_RULE)
        if body.get("tools") and self.tools == "peg":
            raise Refused(PEG_RULE, 500)
        if body.get("stream_options") and self.usage_chunk == "refused":
            raise Refused("Unrecognized request argument supplied: stream_options")
        if body.get("stream") and self.streaming == "refused":
            raise Refused("stream=true is not supported by this endpoint")
        if body.get("response_format") and self.formats == "refused":
            raise Refused("Unrecognized request argument supplied: response_format")

    async def _stream(self, request: web.Request, body: dict[str, Any], reply: Reply) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **reply.headers})
        await response.prepare(request)
        try:
            async for event in self._events(request, body, reply):
                await response.write(event)
        except ConnectionResetError:
            await self._count_drop()
            return response
        if reply.cut_after is not None and request.transport is not None:
            request.transport.abort()
        return response

    async def _events(self, request: web.Request, body: dict[str, Any], reply: Reply) -> AsyncIterator[bytes]:
        while reply.only_comments and not self._stopping.is_set():
            yield b": still at work\n\n"
            await self._pause(request, 0.02)
        for at, chunk in enumerate(self._chunks(body, reply)):
            if reply.cut_after == at:
                return
            if reply.stall_after == at:
                await self._pause(request, None)
                return
            if reply.error_after == at:
                yield _event({"error": reply.error_event or {"message": reply.error, "code": reply.code}})
                return
            if reply.checked:
                self.violations += breaches("CreateChatCompletionStreamResponse", chunk)
            yield _event(chunk)
            await self._pause(request, reply.chunk_delay_s)
        yield b"data: [DONE]\n\n"

    def _chunks(self, body: dict[str, Any], reply: Reply) -> list[dict[str, Any]]:
        pieces = [{"role": "assistant", "content": ""}, *_deltas(reply, ignored=self.tools == "ignored")]
        chunks = [_chunk(body, delta, None) for delta in pieces]
        if reply.finish_reason is not None:
            chunks.append(_chunk(body, {}, _finish(reply, ignored=self.tools == "ignored")))
        if self.usage_chunk == "yes" and (body.get("stream_options") or {}).get("include_usage"):
            chunks.append(_chunk(body, None, None) | {"usage": _usage(reply)})
        return chunks

    async def _pause(self, request: web.Request, seconds: float | None) -> None:
        """Waits, for ever with None, unless the client goes away or the emulator stops."""
        loop = asyncio.get_running_loop()
        until = None if seconds is None else loop.time() + seconds
        while not self._stopping.is_set() and (until is None or loop.time() < until):
            if request.transport is None or request.transport.is_closing():
                raise ConnectionResetError
            rest_s = 0.01 if until is None else min(0.01, until - loop.time())
            await asyncio.sleep(max(rest_s, 0))

    async def _count_drop(self) -> None:
        self.dropped += 1
        await self.notify()


def pictures_of(body: dict[str, Any]) -> list[tuple[str, bytes]]:
    """The pictures of a request: mime type and bytes. Raises Refused for what is no data URL of one."""
    found = []
    for message in body.get("messages") or ():
        parts = message["content"] if isinstance(message.get("content"), list) else []
        for part in parts:
            if part["type"] == "image_url":
                head, _, content = part["image_url"]["url"].partition(";base64,")
                mime = head.removeprefix("data:")
                if mime not in ("image/png", "image/jpeg", "image/webp", "image/gif") or not content:
                    raise Refused("You uploaded an unsupported image.", 400, "invalid_image_format")
                found.append((mime, base64.b64decode(content, validate=True)))
    return found


def check_messages(messages: Sequence[dict[str, Any]]) -> None:
    """The live API's rules of order, which no schema holds. Raises Refused with its words."""
    if not messages:
        raise Refused("Invalid 'messages': empty array. Expected an array with minimum length 1.")
    waiting: list[str] = []
    for message in messages:
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                raise Refused(ORPHAN_RULE)
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            break
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        _check_arguments(message)
    if waiting:
        raise Refused(ORDER_RULE.format(ids=", ".join(waiting)))


def _check_arguments(message: dict[str, Any]) -> None:
    for call in message.get("tool_calls") or ():
        try:
            whole = isinstance(json.loads(call["function"]["arguments"]), dict)
        except ValueError:
            whole = False
        if not whole:
            raise Refused("Invalid 'messages': tool call arguments must be a JSON object")


def _as_it_is(reply: Reply, raw: str | bytes) -> web.Response:
    body = raw.encode() if isinstance(raw, str) else raw
    kind = "text/event-stream" if body.startswith((b"data:", b":")) else "application/json"
    return web.Response(
        body=body, status=reply.status, headers=reply.headers, content_type=reply.content_type or kind
    )


def _event(content: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(content).encode() + b"\n\n"


def _chunk(body: dict[str, Any], delta: dict[str, Any] | None, finish: str | None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {
        "id": "chatcmpl-emulated",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": body["model"],
        "choices": [] if delta is None else [choice],
    }


def _completion(body: dict[str, Any], reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.tools:
        message["tool_calls"] = [_whole_call(at, use) for at, use in enumerate(reply.tools)]
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply)}
    return {
        "id": "chatcmpl-emulated",
        "object": "chat.completion",
        "created": CREATED,
        "model": body["model"],
        "choices": [choice],
        "usage": _usage(reply),
    }


def _finish(reply: Reply, *, ignored: bool = False) -> str | None:
    if reply.finish_reason != "":
        return reply.finish_reason
    if not reply.tools or ignored:
        return "stop"
    return "function_call" if reply.legacy else "tool_calls"


def _usage(reply: Reply) -> dict[str, Any]:
    prompt, cached, completion = reply.usage
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def _deltas(reply: Reply, *, ignored: bool) -> list[dict[str, Any]]:
    if reply.raw_deltas:
        return list(reply.raw_deltas)
    pieces = [{"reasoning_content": piece} for piece in _cut(reply.reasoning, reply.chunk_chars)]
    pieces += [{"content": piece} for piece in _cut(reply.text, reply.chunk_chars)]
    if not ignored:
        pieces += _tool_deltas(reply)
    return pieces


def _tool_deltas(reply: Reply) -> list[dict[str, Any]]:
    if reply.legacy:
        use = reply.tools[0]
        parts = [{"name": use.name, "arguments": ""}]
        parts += [{"arguments": piece} for piece in _cut(use.text, reply.chunk_chars)]
        return [{"function_call": part} for part in parts]
    cut_up = [_fragments(reply, at, use) for at, use in enumerate(reply.tools)]
    if reply.deltas == "two_in_first":
        return [{"tool_calls": fragments} for fragments in cut_up]
    if reply.deltas == "interleaved":
        longest = max((len(fragments) for fragments in cut_up), default=0)
        ordered = [f[n] for n in range(longest) for f in reversed(cut_up) if n < len(f)]
        return [{"tool_calls": [fragment]} for fragment in ordered]
    return [{"tool_calls": [fragment]} for fragments in cut_up for fragment in fragments]


def _fragments(reply: Reply, at: int, use: ToolUse) -> list[dict[str, Any]]:
    if reply.deltas == "one_index":
        return [_whole_call(at, use) | {"index": 0}]
    opening: dict[str, Any] = _whole_call(at, ToolUse(use.name, "", use.id)) | {"index": at}
    if reply.deltas == "no_ids":
        opening.pop("id")
    fragments = [opening]
    for n, piece in enumerate(_cut(use.text, reply.chunk_chars)):
        fragment: dict[str, Any] = {"index": at, "function": {"arguments": piece}}
        if reply.deltas == "fresh_ids":
            fragment["id"] = f"fresh_{at}_{n}"
        if reply.deltas == "repeated_name":
            fragment["function"]["name"] = use.name
        fragments.append(fragment)
    return fragments


def _whole_call(at: int, use: ToolUse) -> dict[str, Any]:
    function = {"name": use.name, "arguments": use.text}
    return {"id": use.id or f"call_{at}", "type": "function", "function": function}


def _cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]
