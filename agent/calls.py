"""Judges and runs the tool calls of one turn: arguments, time-outs, bounds, repeats. The loop records."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ValidationError

from trunkline.agent.history import REPEATED_RESULT_CHARS, SAME_RESULT, UNKNOWN_OUTCOME, lost_results
from trunkline.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage
from trunkline.agent.model import ToolSpec
from trunkline.agent.scope import PersonScope
from trunkline.agent.stream_text import clean
from trunkline.agent.tools.base import Tool, ToolContext, ToolResult
from trunkline.agent.turn import ToolFinished, ToolStarted, TurnLimits, TurnRequest

logger = logging.getLogger(__name__)

CUT_OFF = (
    "Not run: the call was cut off at the length limit. Make it again with shorter arguments, or in parts."
)
REPEATED = (
    "Not run again: this very call was already made in this turn, and its result stands above. "
    "Use that result, or answer."
)
SAME_AS_LATER = "The same as a later result, unchanged ({chars:,} characters)."
TOO_MANY = "Not run: too many calls at once. Make the rest of them in the next step."
NOT_STARTED = "Not run: the turn was stopped before this call began."
NO_MORE = " It has failed too often; no further calls will be run in this turn. Answer with what you have."

_ERRORS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class _Ready:
    call: ToolCall
    tool: Tool[Any]
    arguments: BaseModel
    key: tuple[str, str]


class CallRunner:
    """The tool calls of one turn. `stopped` tells that the model should answer without further calls."""

    def __init__(self, request: TurnRequest, limits: TurnLimits) -> None:
        self._request = request
        self._limits = limits
        in_person = isinstance(request.scope, PersonScope)
        self._tools = {tool.name: tool for tool in request.tools if in_person or not tool.needs_person}
        self._done: set[tuple[str, str]] = set()
        self._counted: set[tuple[str, str]] = set()
        self._failures: Counter[tuple[str, str]] = Counter()
        self._results: dict[str, ToolMessage] = {}
        self._started: set[str] = set()
        self.stopped = False
        self.tools_run: list[str] = []
        before = (*request.history, *request.recorded)
        # Where each result was given first: a step of this turn and the call's id, or 0 for before it.
        self._given = {one.content: (0, one.call_id) for one in before if isinstance(one, ToolMessage)}
        self._step = 0
        lost = {one.call_id for at in lost_results(before) if isinstance(one := before[at], ToolMessage)}
        for call in _succeeded(request.recorded):
            if call.id in lost:
                continue  # its result was put away, and can be had again
            with suppress(ValueError, RecursionError):
                if call.name in self._tools:  # a tool may be gone since, as a server that is down
                    self._done.add(_key(call, _json_object(call.arguments)))

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as the model sees them; those that need a person are left out in rooms."""
        return tuple(tool.spec for tool in self._tools.values())

    def may_repeat(self, call: ToolCall) -> bool:
        """Whether a call that may have run before a crash may run again."""
        tool = self._tools.get(call.name)
        return tool is not None and (tool.read_only or tool.idempotent)

    async def run(
        self, step: int, calls: Sequence[ToolCall], *, cut: bool = False
    ) -> AsyncGenerator[ToolStarted | ToolFinished]:
        """Runs a step's calls: beside each other when every tool allows it, else in order.

        Ends with a result for each call; `results` gives them. With `cut` nothing is run: the model's
        message ended at its length limit, and even whole-looking arguments may lack their end.
        """
        self._step, self._results, self._started, self._counted = step, {}, set(), set()
        ready = [judged for at, call in enumerate(calls) if (judged := self._judge(at, call, cut=cut))]
        if len(ready) > 1 and all(one.tool.parallel for one in ready):
            for one in ready:
                yield ToolStarted(step, one.call)
            await self._run_beside(step, ready)
            ready = []
        for one in ready:
            yield ToolStarted(step, one.call)
            await self._run_one(step, one)
            yield ToolFinished(step, one.call, self._results[one.call.id])
        finished_now = {one.call.id for one in ready}
        for call in calls:
            if call.id not in finished_now:
                yield ToolFinished(step, call, self._results[call.id])

    def results(self, calls: Sequence[ToolCall]) -> tuple[ToolMessage, ...]:
        """One result per call, in the order of the calls; what was stopped midway says so."""
        found = [self._results.get(call.id) or self._unfinished(call) for call in calls]
        return tuple(self._once(result) for result in found)

    def _once(self, result: ToolMessage) -> ToolMessage:
        """A long result that stands above already is named, not given and stored again."""
        if len(result.content) < REPEATED_RESULT_CHARS or result.is_error:
            return result
        here = (self._step, result.call_id)
        if self._given.setdefault(result.content, here) == here:
            return result
        return replace(result, content=SAME_RESULT.format(chars=len(result.content)))

    def _unfinished(self, call: ToolCall) -> ToolMessage:
        text = UNKNOWN_OUTCOME if call.id in self._started else NOT_STARTED
        return ToolMessage(call.id, call.name, text, is_error=True)

    def _judge(self, at: int, call: ToolCall, *, cut: bool) -> _Ready | None:
        """The call ready to run, or None with an error result that the model can read."""
        tool = self._tools.get(call.name)
        if cut:
            self._refuse(call, CUT_OFF, "cut")
        elif at >= self._limits.max_calls_per_step:
            self._refuse(call, TOO_MANY, "many")
        elif tool is None:
            names = ", ".join(sorted(self._tools)) or "none"
            self._refuse(
                call, f"There is no tool named {call.name!r:.80}. The tools are: {names}.", "unknown"
            )
        else:
            return self._judge_arguments(call, tool)
        return None

    def _judge_arguments(self, call: ToolCall, tool: Tool[Any]) -> _Ready | None:
        try:
            given = _json_object(call.arguments)
            arguments = tool.arguments.model_validate_json(json.dumps(given, ensure_ascii=False))
            key = _key(call, given)
        except (ValueError, RecursionError) as error:
            reason = _arguments_error(error) if isinstance(error, ValidationError) else str(error)
            self._refuse(call, f"Not run: the arguments of {call.name} are wrong. {reason}", "arguments")
            return None
        if key in self._done:
            self._refuse(call, REPEATED, key[1])
            return None
        self._done.add(key)
        return _Ready(call, tool, arguments, key)

    def _refuse(self, call: ToolCall, text: str, why: str) -> None:
        self._settle(call, (call.name, why), ToolResult(text, is_error=True))

    def _settle(self, call: ToolCall, key: tuple[str, str], result: ToolResult) -> None:
        content = self._bounded(clean(result.content))
        self.stopped = self.stopped or result.ends_calls
        if result.is_error and key[1] != "many":
            self._failures[key] += key not in self._counted
            self._counted.add(key)
            if self._failures[key] >= self._limits.failures_of_a_call:
                self.stopped = True
                content += NO_MORE
        self._results[call.id] = ToolMessage(call.id, call.name, content, result.is_error)

    async def _run_beside(self, step: int, ready: Sequence[_Ready]) -> None:
        places = asyncio.Semaphore(self._limits.parallel_calls)

        async def take_place(one: _Ready) -> None:
            async with places:
                await self._run_one(step, one)

        async with asyncio.TaskGroup() as group:
            for one in ready:
                group.create_task(take_place(one))

    async def _run_one(self, step: int, one: _Ready) -> None:
        self._started.add(one.call.id)
        result = await self._outcome(step, one)
        if result.is_error:
            self._done.discard(one.key)
        else:
            self.tools_run.append(one.tool.name)
            if not one.tool.read_only:
                self._done = {key for key in self._done if not self._tools[key[0]].read_only}
        self._settle(one.call, one.key, result)

    async def _outcome(self, step: int, one: _Ready) -> ToolResult:
        turn = self._request
        context = ToolContext(turn.scope, turn.session, turn.turn, step, one.call.id, turn.platform, turn.now)
        timer = asyncio.timeout(one.tool.timeout_s)
        try:
            async with timer:
                return await one.tool.run(one.arguments, context)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return _failed(one.tool, "it was cancelled from within")
        except Exception as error:  # boundary: tool call
            if timer.expired():
                text = f"{one.tool.name} took longer than {one.tool.timeout_s:g} s and was stopped."
                return ToolResult(f"{text} Whether it did its work is unknown.", is_error=True)
            logger.exception("Tool call failed tool=%s turn=%s step=%s", one.tool.name, turn.turn, step)
            return _failed(one.tool, type(error).__name__)

    def _bounded(self, content: str) -> str:
        limit = self._limits.result_chars
        if len(content) <= limit:
            return content
        tail = limit // 5
        mark = f"\n\n[… {len(content) - limit:,} characters left out of {len(content):,} …]\n\n"
        return content[: limit - tail] + mark + content[-tail:]


def _failed(tool: Tool[Any], why: str) -> ToolResult:
    return ToolResult(f"The tool {tool.name} failed ({why}). The log has the details.", is_error=True)


def _json_object(arguments: str) -> dict[str, Any]:
    """Raises ValueError with a sentence for the model: nothing is guessed, and nothing becomes {}."""
    if not arguments.strip():
        raise ValueError("They were empty; send a JSON object, {} when the tool takes nothing.")
    try:
        given = _cleaned(json.loads(arguments, object_pairs_hook=_each_once))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"They were no valid JSON: {error}.") from error
    if not isinstance(given, dict):
        kind = "null" if given is None else type(given).__name__
        raise ValueError(f"They must be a JSON object, not {kind}.")
    checked: dict[str, Any] = given
    return checked


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object as it is; of a name that is there twice nobody knows which value was meant."""
    given = dict(pairs)
    if len(given) < len(pairs):
        raise ValueError("a name stands in it twice")
    return given


def _cleaned(value: Any) -> Any:
    match value:
        case str():
            return clean(value)
        case list():
            return [_cleaned(item) for item in value]
        case dict():
            return {clean(key): _cleaned(item) for key, item in value.items()}
        case _:
            return value


def _key(call: ToolCall, given: dict[str, Any]) -> tuple[str, str]:
    return call.name, json.dumps(given, sort_keys=True)


def _succeeded(messages: Sequence[Message]) -> list[ToolCall]:
    """The calls among these messages that have a result which is no error."""
    good = {
        message.call_id for message in messages if isinstance(message, ToolMessage) and not message.is_error
    }
    said = [message for message in messages if isinstance(message, AssistantMessage)]
    return [call for message in said for call in message.tool_calls if call.id in good]


def _arguments_error(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    told = [f"{'.'.join(str(part) for part in fault['loc']) or 'object'}: {fault['msg']}" for fault in faults]
    return "; ".join(told[:_ERRORS_SHOWN])[:1000] + "."
