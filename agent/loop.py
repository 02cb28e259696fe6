"""Runs one turn: asks the model, runs its tool calls, asks again, until there is an answer.

Knows no platform and no database: values come in, events go out, and a TurnRecorder keeps the steps.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace

from trunkline.agent.calls import CallRunner
from trunkline.agent.history import UNKNOWN_OUTCOME, mend, unanswered
from trunkline.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, Usage, UserMessage
from trunkline.agent.model import (
    FailureKind,
    ModelClient,
    ModelDone,
    ModelFailure,
    ModelRequest,
    TextDelta,
)
from trunkline.agent.ports import TurnLost, TurnRecorder
from trunkline.agent.stream_text import NOTE, ContinuationFilter, OwnTextFilter
from trunkline.agent.tokens import estimate_request, estimate_text
from trunkline.agent.turn import (
    CallUsage,
    EndReason,
    StepText,
    TurnEnded,
    TurnEvent,
    TurnLimits,
    TurnRequest,
)

PARTS = "\n\n"
"""Stands between the texts of two steps, in the stream as in the answer."""

LAST_ROUND = (
    f"{NOTE} no further tool calls can be made in this turn. Answer now "
    "with what you have, and say what could not be done.]"
)
EMPTY_ANSWER = f"{NOTE} your last reply was empty. Write your answer now.]"
CUT_ANSWER = (
    f"{NOTE} the connection broke in the middle of your message above. "
    "Go on exactly where it ends, and repeat nothing of it.]"
)
LONG_ANSWER = (
    f"{NOTE} your message above reached the length limit of one message. "
    "Go on exactly where it ends, and repeat nothing of it.]"
)
MOST_PARTS = 4
"""Of an answer that reaches the length limit: a model that repeats itself for ever is left at that."""


async def run_turn(
    request: TurnRequest, *, model: ModelClient, recorder: TurnRecorder, limits: TurnLimits
) -> AsyncGenerator[TurnEvent]:
    """Yields what happens, and a TurnEnded last. Iterate under `aclosing`.

    The text deltas together are what the person sees; a caller that may stop the turn keeps them. On
    cancellation the model's stream and the tools end at once, the results of a step under way are recorded,
    and CancelledError goes on. TurnLost of the recorder goes on too: nothing of the turn may then be stored.
    """
    async with aclosing(_Turn(request, model, recorder, limits).events()) as events:
        async for event in events:
            yield event


class _Turn:
    def __init__(
        self, request: TurnRequest, model: ModelClient, recorder: TurnRecorder, limits: TurnLimits
    ) -> None:
        self._request = request
        self._model = model
        self._recorder = recorder
        self._limits = limits
        self._runner = CallRunner(request, limits)
        self._specs = self._runner.specs
        self._messages = [*request.history, request.user, *request.recorded]
        self._step = 0
        self._rounds = 0
        self._texts: list[str] = []
        self._shown = ""
        self._usage: list[CallUsage] = []
        self._outcome: ModelDone | ModelFailure = ModelFailure(FailureKind.EMPTY)

    async def events(self) -> AsyncGenerator[TurnEvent]:
        async with aclosing(self._resumed()) as resumed:
            async for event in resumed:
                yield event
        while True:
            self._step += 1
            spent_before = len(self._usage)
            async with aclosing(self._asked()) as deltas:
                async for delta in deltas:
                    yield delta
            done = self._outcome
            if isinstance(done, ModelFailure):
                yield self._failed(done)
                return
            said = done.message
            if said.text:
                self._texts.append(said.text)
                yield StepText(self._step, said.text)
            if not said.tool_calls:
                reason: EndReason = "rounds" if self._rounds >= self._limits.max_rounds else "done"
                yield self._ended(reason, said)
                return
            spent = sum((call.usage for call in self._usage[spent_before:]), Usage())
            await self._recorder.record_calls(self._step, said, spent, model=self._usage[-1].model)
            self._messages.append(said)
            cut = said.finish_reason == "length"
            async with aclosing(self._ran(said.tool_calls, cut=cut)) as calls:
                async for event in calls:
                    yield event

    async def _resumed(self) -> AsyncGenerator[TurnEvent]:
        """Replays the text of the recorded steps and settles the calls that a crash left open."""
        for message in self._request.recorded:
            if isinstance(message, AssistantMessage):
                self._step += 1
                self._rounds += 1
                if message.text:
                    self._shown = ""
                    yield self._say(message.text)
                    self._texts.append(message.text)
                    yield StepText(self._step, message.text)
        open_calls = unanswered(self._request.recorded)
        if not open_calls:
            return
        again = tuple(call for call in open_calls if self._runner.may_repeat(call))
        unknown = [
            ToolMessage(call.id, call.name, UNKNOWN_OUTCOME, is_error=True)
            for call in open_calls
            if call not in again
        ]
        async with aclosing(self._ran(again, settled=unknown)) as events:
            async for event in events:
                yield event

    async def _ran(
        self, calls: Sequence[ToolCall], *, cut: bool = False, settled: Sequence[ToolMessage] = ()
    ) -> AsyncGenerator[TurnEvent]:
        """Runs and records a step's calls; `settled` are results that need no running."""
        try:
            async with aclosing(self._runner.run(self._step, calls, cut=cut)) as events:
                async for event in events:
                    yield event
        except (asyncio.CancelledError, GeneratorExit):
            with suppress(TurnLost):
                results = (*settled, *self._runner.results(calls))
                await self._recorder.record_results(self._step, results, last=True)
            raise
        results = (*settled, *self._runner.results(calls))
        joined = await self._recorder.record_results(self._step, results)
        self._messages += [*results, *joined]

    async def _asked(self) -> AsyncGenerator[TextDelta]:
        """Asks until the model has said something, and leaves the end in `_outcome`.

        An empty answer is asked for again once; an answer whose stream broke is once gone on with, and one
        that reached the length limit until it has MOST_PARTS parts.
        """
        self._shown = ""
        notes: tuple[Message, ...] = ()
        nudged = continued = False
        parts = 1
        while True:
            self._rounds += 1
            async with aclosing(self._streamed(notes)) as deltas:
                async for delta in deltas:
                    yield delta
            end = self._outcome
            if isinstance(end, ModelFailure):
                broken = end.kind is FailureKind.BROKEN_STREAM and self._shown.strip()
                if not broken or continued or self._out_of_rounds():
                    return
                continued = True
                notes = (AssistantMessage(self._shown), UserMessage(CUT_ANSWER, CUT_ANSWER))
                continue
            self._usage.append(CallUsage("turn", end.model or self._model.name, end.usage))
            said = self._said(end.message, continued=continued or parts > 1)
            self._outcome = ModelDone(said, end.usage)
            if self._reached_limit(said) and parts < MOST_PARTS:
                parts += 1
                notes = (AssistantMessage(self._shown), UserMessage(LONG_ANSWER, LONG_ANSWER))
                continue
            if said.text or said.tool_calls:
                return
            if nudged or self._out_of_rounds():
                self._outcome = ModelFailure(FailureKind.EMPTY, "the model said nothing")
                return
            nudged = True
            notes = (UserMessage(EMPTY_ANSWER, EMPTY_ANSWER),)

    async def _streamed(self, notes: Sequence[Message]) -> AsyncGenerator[TextDelta]:
        """One model call. Its text passes the filters; its end is left in `_outcome`."""
        own, repeat, request = self._own_filter(), ContinuationFilter(self._shown), self._next_request(notes)
        self._outcome = ModelFailure(FailureKind.BROKEN_STREAM, "the stream had no end")
        async with aclosing(_closable(self._model, request)) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    if text := self._visible(repeat.feed(own.feed(event.text))):
                        yield self._say(text)
                    if own.ended:
                        break
                else:
                    self._outcome = event
        if text := self._visible(repeat.feed(own.finish()) + repeat.finish()):
            yield self._say(text)
        if own.ended:
            # Left midway, so no count comes of it; in a thread, since a long history takes its time.
            sent = await asyncio.to_thread(estimate_request, request, self._model.name)
            spent = Usage(sent, 0, estimate_text(self._shown, self._model.name))
            self._outcome = ModelDone(AssistantMessage(self._shown, finish_reason="stop"), spent)

    def _next_request(self, notes: Sequence[Message]) -> ModelRequest:
        messages = list(mend(self._messages).messages)
        for note in notes:
            _add_note(messages, note)
        tools = self._specs
        if self._out_of_rounds():
            tools = ()
            if self._step > 1:
                _add_note(messages, UserMessage(LAST_ROUND, LAST_ROUND))
        return ModelRequest(self._request.system, tuple(messages), tools)

    def _out_of_rounds(self) -> bool:
        return self._rounds >= self._limits.max_rounds or self._runner.stopped

    def _said(self, message: AssistantMessage, *, continued: bool) -> AssistantMessage:
        """The message as it is kept: filtered like the stream, and without calls that may not be run."""
        own = self._own_filter()
        text = self._shown if continued else own.feed(message.text) + own.finish()
        calls = () if self._out_of_rounds() else message.tool_calls
        return replace(message, text=text.strip(), tool_calls=calls)

    def _reached_limit(self, said: AssistantMessage) -> bool:
        is_cut = said.finish_reason == "length" and not said.tool_calls
        return is_cut and bool(self._shown.strip()) and not self._out_of_rounds()

    def _own_filter(self) -> OwnTextFilter:
        return OwnTextFilter(tuple(m.sent for m in self._messages if isinstance(m, UserMessage)))

    def _visible(self, text: str) -> str:
        return text if self._shown else text.lstrip()

    def _say(self, text: str) -> TextDelta:
        """Counts text as shown, and sets the first text of a step apart from the step before it."""
        apart = PARTS if self._texts and not self._shown else ""
        self._shown += text
        return TextDelta(apart + text)

    def _failed(self, failure: ModelFailure) -> TurnEnded:
        shown = self._shown.strip()
        message = AssistantMessage(shown, finish_reason="error", interrupted=True) if shown else None
        if message is not None:
            self._texts.append(shown)
        return self._ended("failed", message, failure)

    def _ended(
        self, reason: EndReason, message: AssistantMessage | None, failure: ModelFailure | None = None
    ) -> TurnEnded:
        answer = PARTS.join(self._texts)
        ran = tuple(dict.fromkeys(self._runner.tools_run))
        return TurnEnded(reason, answer, message, tuple(self._usage), failure, ran)


async def _closable(
    model: ModelClient, request: ModelRequest
) -> AsyncGenerator[TextDelta | ModelDone | ModelFailure]:
    """The model's stream as something that can be closed, whatever kind of iterator it is."""
    events = model.stream(request)
    try:
        async for event in events:
            yield event
    finally:
        if isinstance(events, AsyncGenerator):
            await events.aclose()


def _add_note(messages: list[Message], note: Message) -> None:
    """Appends a message that is sent but never stored; a note after a user message becomes a part of it."""
    last = messages[-1] if messages else None
    if isinstance(last, UserMessage) and isinstance(note, UserMessage):
        messages[-1] = replace(last, sent=f"{last.sent}{PARTS}{note.sent}")
    else:
        messages.append(note)
