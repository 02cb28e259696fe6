"""The turn loop over a scripted model: what the person sees, what is recorded, what the model gets back."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from tests.emulators.openai import OpenAIEmulator, Reply, ToolUse
from trunkline.agent.history import SAME_RESULT, UNKNOWN_OUTCOME
from trunkline.agent.loop import MOST_PARTS, run_turn
from trunkline.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, Usage, UserMessage
from trunkline.agent.model import (
    FailureKind,
    ModelDone,
    ModelEvent,
    ModelFailure,
    ModelRequest,
    TextDelta,
)
from trunkline.agent.openai_client import OpenAIModel
from trunkline.agent.openai_client_sdk import Endpoint
from trunkline.agent.ports import TurnLost
from trunkline.agent.scope import AccountId, PersonId, PersonScope, RoomId, RoomScope, Scope
from trunkline.agent.tools.base import Tool, ToolContext, ToolResult
from trunkline.agent.turn import (
    StepText,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnEvent,
    TurnLimits,
    TurnRequest,
)

ANNA = PersonScope(PersonId("anna"))
NOW = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)


class Words(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: str


class Nothing(BaseModel):
    pass


Script = Sequence[ModelEvent]


class ScriptedModel:
    """Answers each call with the next script and keeps the requests."""

    name = "scripted"

    def __init__(self, *scripts: Script) -> None:
        self.scripts = list(scripts)
        self.requests: list[ModelRequest] = []
        self.closed = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.requests.append(request)
        try:
            for event in self.scripts.pop(0):
                yield event
            if not isinstance(event, ModelDone | ModelFailure):
                await asyncio.Event().wait()
        finally:
            self.closed.set()


@dataclass
class Recorder:
    """Keeps the order of what was committed; loses the turn at the commit number `lost_at`."""

    log: list[tuple[str, int, Any]] = field(default_factory=list)
    lost_at: int = -1
    joining: dict[int, tuple[UserMessage, ...]] = field(default_factory=dict)
    """What the person says while the step of this number runs."""

    async def record_calls(self, step: int, message: AssistantMessage, usage: Usage, *, model: str) -> None:
        self._commit("calls", step, message)

    async def record_results(
        self, step: int, results: Sequence[ToolMessage], *, last: bool = False
    ) -> tuple[UserMessage, ...]:
        self._commit("results", step, tuple(results))
        return () if last else self.joining.pop(step, ())

    def _commit(self, what: str, step: int, value: Any) -> None:
        if len(self.log) == self.lost_at:
            raise TurnLost
        self.log.append((what, step, value))

    @property
    def results(self) -> list[ToolMessage]:
        return [result for what, _, results in self.log if what == "results" for result in results]


def text(*pieces: str, finish: str = "stop") -> Script:
    deltas = [TextDelta(piece) for piece in pieces]
    return [*deltas, ModelDone(AssistantMessage("".join(pieces), finish_reason=finish), Usage(10, 5, 2))]


def calls(*uses: tuple[str, str], before: str = "", finish: str = "tool_calls") -> Script:
    made = tuple(ToolCall(f"c{n}-{name}", name, arguments) for n, (name, arguments) in enumerate(uses))
    deltas = [TextDelta(before)] if before else []
    return [*deltas, ModelDone(AssistantMessage(before, made, finish), Usage(10, 5, 2))]


def broken(*pieces: str, kind: FailureKind = FailureKind.BROKEN_STREAM) -> Script:
    return [*(TextDelta(piece) for piece in pieces), ModelFailure(kind, partial="".join(pieces))]


def arguments(value: str) -> str:
    return json.dumps({"text": value})


def tool(
    name: str = "note",
    run: Callable[[Any, ToolContext], Awaitable[ToolResult]] | None = None,
    takes: type[BaseModel] = Words,
    **flags: Any,
) -> Tool[Any]:
    async def keep(given: Words, context: ToolContext) -> ToolResult:
        return ToolResult(f"kept {given.text}")

    return Tool(name, f"The tool {name}.", takes, run or keep, **flags)


def turn(*tools: Tool[Any], scope: Scope = ANNA, **more: Any) -> TurnRequest:
    given: dict[str, Any] = {"history": (), "user": UserMessage("hi", "[09:00] hi")}
    return TurnRequest(
        scope=scope, session="s1", turn=7, system="sys", tools=tools or (tool(),), platform="web", now=NOW,
        **(given | more),
    )  # fmt: skip


async def run(
    model: ScriptedModel, request: TurnRequest | None = None, recorder: Recorder | None = None, **limits: Any
) -> list[TurnEvent]:
    events = run_turn(
        request or turn(), model=model, recorder=recorder or Recorder(), limits=TurnLimits(**limits)
    )
    async with aclosing(events):
        return [event async for event in events]


def ending(events: Sequence[TurnEvent]) -> TurnEnded:
    assert isinstance(events[-1], TurnEnded)
    assert not any(isinstance(event, TurnEnded) for event in events[:-1])
    return events[-1]


def seen(events: Sequence[TurnEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def last_results(model: ScriptedModel) -> list[ToolMessage]:
    return [message for message in model.requests[-1].messages if isinstance(message, ToolMessage)]


async def test_an_answer_streams_and_ends_the_turn() -> None:
    events = await run(ScriptedModel(text("Good ", "morning.")))

    assert events[:3] == [TextDelta("Good "), TextDelta("morning."), StepText(1, "Good morning.")]
    end = ending(events)
    assert (end.reason, end.answer, end.message) == (
        "done",
        "Good morning.",
        AssistantMessage("Good morning."),
    )
    assert [(spent.purpose, spent.model, spent.usage) for spent in end.usage] == [
        ("turn", "scripted", Usage(10, 5, 2))
    ]


async def test_a_call_is_recorded_before_it_runs_and_its_result_when_the_step_ends() -> None:
    recorder = Recorder()

    async def look(given: Words, context: ToolContext) -> ToolResult:
        assert [what for what, _, _ in recorder.log] == ["calls"]
        assert (context.turn, context.step, context.call, context.scope) == (7, 1, "c0-note", ANNA)
        return ToolResult("kept")

    model = ScriptedModel(calls(("note", arguments("tea")), before="One moment."), text("Noted."))
    events = await run(model, turn(tool(run=look)), recorder)

    call = ToolCall("c0-note", "note", arguments("tea"))
    result = ToolMessage("c0-note", "note", "kept")
    assert [(what, step) for what, step, _ in recorder.log] == [("calls", 1), ("results", 1)]
    assert [event for event in events if isinstance(event, ToolStarted | ToolFinished)] == [
        ToolStarted(1, call),
        ToolFinished(1, call, result),
    ]
    assert last_results(model) == [result]
    assert seen(events) == ending(events).answer == "One moment.\n\nNoted."
    assert ending(events).message == AssistantMessage("Noted.")
    assert ending(events).tools_run == ("note",)


async def test_parallel_tools_run_beside_each_other_and_answer_in_order() -> None:
    both = asyncio.Barrier(2)

    async def meet(given: Words, context: ToolContext) -> ToolResult:
        await both.wait()
        return ToolResult(given.text)

    model = ScriptedModel(calls(("a", arguments("1")), ("b", arguments("2"))), text("ok"))
    recorder = Recorder()

    await run(model, turn(tool("a", meet, parallel=True), tool("b", meet, parallel=True)), recorder)

    assert [result.content for result in recorder.results] == ["1", "2"]


async def test_one_tool_that_is_not_parallel_makes_the_step_go_in_order() -> None:
    running: list[str] = []

    async def alone(given: Words, context: ToolContext) -> ToolResult:
        running.append(given.text)
        await asyncio.sleep(0)
        assert running == [given.text]
        running.remove(given.text)
        return ToolResult("ok")

    model = ScriptedModel(calls(("a", arguments("1")), ("b", arguments("2"))), text("ok"))
    recorder = Recorder()

    await run(model, turn(tool("a", alone, parallel=True), tool("b", alone)), recorder)

    assert [result.is_error for result in recorder.results] == [False, False]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("", "were empty"),
        ("null", "not null"),
        ("[]", "not list"),
        ("7", "not int"),
        ('{"text": "half', "no valid JSON"),
        ("{}", "text: Field required"),
        ('{"text": "a", "more": 1}', "more:"),
        ('{"text": 5}', "text:"),
        ('"{\\"text\\": \\"a\\"}"', "not str"),
        ('{"text": "a",}', "no valid JSON"),
        ("{'text': 'a'}", "no valid JSON"),
        ('{"text": None}', "no valid JSON"),
        ('{"text": True}', "no valid JSON"),
        ('{"text": "a"} {"text": "b"}', "no valid JSON"),
        ('```json\n{"text": "a"}\n```', "no valid JSON"),
        ('{"text": "a", "text": "b"}', "twice"),
        ('{"text": NaN}', "wrong"),
        ('{"text": ' + "9" * 5_000 + "}", "wrong"),
        ("true", "not bool"),
    ],
)
async def test_wrong_arguments_come_back_as_an_error_and_are_never_run(given: str, told: str) -> None:
    async def never(words: Words, context: ToolContext) -> ToolResult:
        raise AssertionError("it ran")

    model = ScriptedModel(calls(("note", given)), text("Sorry."))

    await run(model, turn(tool(run=never)))

    (result,) = last_results(model)
    assert result.is_error
    assert told in result.content


async def test_empty_arguments_are_not_taken_for_none_even_by_a_tool_that_takes_nothing() -> None:
    async def never(given: Nothing, context: ToolContext) -> ToolResult:
        raise AssertionError("it ran")

    model = ScriptedModel(calls(("list", "")), text("Sorry."))

    await run(model, turn(tool("list", never, takes=Nothing)))

    assert last_results(model)[0].is_error


async def test_a_call_at_the_length_limit_is_not_run_however_whole_it_looks() -> None:
    async def never(given: Words, context: ToolContext) -> ToolResult:
        raise AssertionError("it ran")

    script = calls(("note", arguments("a")), ("note", '{"text": "ha'), finish="length")
    model = ScriptedModel(script, text("Sorry."))

    events = await run(model, turn(tool(run=never)))

    assert [(result.call_id, result.is_error) for result in last_results(model)] == [
        ("c0-note", True),
        ("c1-note", True),
    ]
    assert ending(events).reason == "done"


async def test_bad_json_three_times_ends_the_calls() -> None:
    bad = [calls(("note", '{"text": "' + "x" * n)) for n in range(3)]
    model = ScriptedModel(*bad, text("I could not note it."))

    events = await run(model)

    assert len(model.requests) == 4
    assert model.requests[-1].tools == ()
    assert ending(events).answer == "I could not note it."


async def test_an_unknown_tool_is_told_which_there_are() -> None:
    model = ScriptedModel(calls(("shell", "{}")), text("ok"))

    await run(model)

    assert "no tool named 'shell'" in last_results(model)[0].content
    assert "note" in last_results(model)[0].content


@pytest.mark.parametrize("error", [RuntimeError("secret"), TimeoutError(), asyncio.CancelledError()])
async def test_a_tool_that_raises_is_an_error_result(error: BaseException) -> None:
    async def fail(given: Words, context: ToolContext) -> ToolResult:
        raise error

    model = ScriptedModel(calls(("note", arguments("a"))), text("ok"))

    events = await run(model, turn(tool(run=fail)))

    (result,) = last_results(model)
    assert result.is_error
    assert "secret" not in result.content
    assert ending(events).reason == "done"


async def test_a_tool_that_hangs_is_stopped_at_its_timeout() -> None:
    async def hang(given: Words, context: ToolContext) -> ToolResult:
        await asyncio.Event().wait()
        raise AssertionError

    model = ScriptedModel(calls(("note", arguments("a"))), text("ok"))

    await run(model, turn(tool(run=hang, timeout_s=0.05)))

    assert "longer than 0.05 s" in last_results(model)[0].content


async def test_a_huge_result_is_bounded_and_says_so() -> None:
    async def flood(given: Words, context: ToolContext) -> ToolResult:
        return ToolResult("a" * 5_000_000 + "\x00\ud800end")

    model = ScriptedModel(calls(("note", arguments("a"))), text("ok"))

    await run(model, turn(tool(run=flood)), result_chars=1000)

    content = last_results(model)[0].content
    assert len(content) < 1100
    assert "characters left out" in content
    assert content.endswith("\ufffd\ufffdend")


async def test_a_long_result_that_stands_above_already_is_named_and_not_given_again() -> None:
    async def read(given: Words, context: ToolContext) -> ToolResult:
        return ToolResult("the whole page " * 200)

    history = (
        UserMessage("read it", "read it"),
        AssistantMessage("", (ToolCall("c0-note", "note", arguments("page")),), "tool_calls"),
        ToolMessage("c0-note", "note", "the whole page " * 200),
        AssistantMessage("Done."),
    )
    model = ScriptedModel(calls(("note", arguments("page"))), text("ok"))
    recorder = Recorder()

    await run(model, turn(tool(run=read), history=history), recorder)

    (again,) = recorder.results
    assert again.content == "The same as an earlier result that stands above, unchanged (3,000 characters)."
    assert [len(result.content) > 1000 for result in last_results(model)] == [True, False]


async def test_a_result_whose_equal_was_put_away_is_called_so_and_can_be_had_again() -> None:
    async def read(given: Words, context: ToolContext) -> ToolResult:
        return ToolResult("the whole page " * 200)

    named = SAME_RESULT.format(chars=3000)
    step = AssistantMessage("", (ToolCall("c0-note", "note", arguments("page")),), "tool_calls")
    model = ScriptedModel(calls(("note", arguments("page"))), text("ok"))

    await run(model, turn(tool(run=read), recorded=(step, ToolMessage("c0-note", "note", named))))

    assert [result.content[:40] for result in last_results(model)] == [
        "The same as an earlier result of 3,000 c",
        ("the whole page " * 200)[:40],
    ]


async def test_an_answer_that_is_left_where_it_goes_on_as_the_person_costs_what_it_may_have_cost() -> None:
    model = ScriptedModel([TextDelta("Yes.\n\n⟦2026-11-30 14:02, Monday⟧\nAnd now?"), TextDelta(" Now too.")])

    end = ending(await run(model, turn(user=UserMessage("", "so many words " * 100))))

    assert (end.answer, end.reason) == ("Yes.", "done")
    (spent,) = end.usage
    assert spent.usage.prompt_tokens > 300
    assert 0 < spent.usage.completion_tokens < 10


async def test_a_short_result_is_given_as_often_as_it_comes() -> None:
    model = ScriptedModel(calls(("note", arguments("a"))), calls(("note", arguments(" a"))), text("ok"))

    await run(model, turn(tool(run=lambda given, context: _said("fine"))))

    assert [result.content for result in last_results(model)] == ["fine", "fine"]


async def _said(words: str) -> ToolResult:
    return ToolResult(words)


async def test_a_call_repeated_after_its_result_is_not_run_again() -> None:
    ran: list[str] = []

    async def count(given: Words, context: ToolContext) -> ToolResult:
        ran.append(given.text)
        return ToolResult("kept")

    again = '{ "text":"tea" }'
    model = ScriptedModel(calls(("note", arguments("tea"))), calls(("note", again)), text("ok"))

    await run(model, turn(tool(run=count)))

    assert ran == ["tea"]
    assert "already made" in last_results(model)[-1].content


async def test_looking_again_after_a_change_is_no_repeat() -> None:
    looked: list[str] = []

    async def look(given: Words, context: ToolContext) -> ToolResult:
        looked.append(given.text)
        return ToolResult("seen")

    show = calls(("show", arguments("all")))
    model = ScriptedModel(show, calls(("note", arguments("tea"))), show, text("ok"))

    await run(model, turn(tool(), tool("show", look, read_only=True)))

    assert looked == ["all", "all"]


async def test_the_same_failing_call_is_tried_three_times() -> None:
    tries: list[str] = []

    async def fail(given: Words, context: ToolContext) -> ToolResult:
        tries.append(given.text)
        return ToolResult("the disk is full", is_error=True)

    model = ScriptedModel(*[calls(("note", arguments("tea")))] * 3, text("It can't be kept."))

    events = await run(model, turn(tool(run=fail)))

    assert len(tries) == 3
    assert model.requests[-1].tools == ()
    assert ending(events).answer == "It can't be kept."


async def test_a_result_that_ends_the_calls_is_followed_by_an_answer_without_tools() -> None:
    async def finish(given: Words, context: ToolContext) -> ToolResult:
        return ToolResult("that is all", ends_calls=True)

    model = ScriptedModel(calls(("note", arguments("a"))), text("Done."))

    events = await run(model, turn(tool(run=finish)))

    assert model.requests[1].tools == ()
    assert ending(events).reason == "done"


async def test_the_last_round_is_told_to_answer_without_tools() -> None:
    rounds = [calls(("note", arguments(str(n)))) for n in range(2)]
    model = ScriptedModel(*rounds, text("This far."))

    events = await run(model, max_rounds=3)

    assert ending(events).reason == "rounds"
    assert [bool(request.tools) for request in model.requests] == [True, True, False]
    last = model.requests[-1].messages[-1]
    assert isinstance(last, UserMessage)
    assert "no further tool calls" in last.sent


async def test_calls_made_in_the_last_round_all_the_same_are_not_run() -> None:
    model = ScriptedModel(calls(("note", arguments("a")), before="I would note it."))
    recorder = Recorder()

    events = await run(model, recorder=recorder, max_rounds=1)

    assert recorder.log == []
    assert ending(events).message == AssistantMessage("I would note it.", finish_reason="tool_calls")


async def test_too_many_calls_in_a_step_are_put_off() -> None:
    model = ScriptedModel(calls(*[("note", arguments(str(n))) for n in range(6)]), text("ok"))

    await run(model, max_calls_per_step=2)

    assert [result.is_error for result in last_results(model)] == [False] * 2 + [True] * 4
    assert model.requests[-1].tools


async def test_an_empty_answer_is_asked_for_once_more_with_a_note_that_is_not_kept() -> None:
    model = ScriptedModel(text("\n"), text("Here."))

    events = await run(model)

    assert seen(events) == ending(events).answer == "Here."
    asked = model.requests[1].messages
    assert len(asked) == 1
    assert isinstance(asked[0], UserMessage)
    assert "your last reply was empty" in asked[0].sent
    assert len(ending(events).usage) == 2


async def test_an_answer_that_stays_empty_after_tools_ran_tells_which_did() -> None:
    model = ScriptedModel(calls(("note", arguments("a"))), text(""), text(" "))

    end = ending(await run(model))

    assert end.reason == "failed"
    assert end.failure is not None
    assert end.failure.kind is FailureKind.EMPTY
    assert end.message is None
    assert end.tools_run == ("note",)


@pytest.mark.parametrize(
    "again",
    [
        ["four and five."],
        ["two and three ", "four and five."],
        ["e, two and thr", "ee four and five."],
        ["One two and ", "three, two and three four", " and five."],
    ],
    ids=["goes on", "repeats the end", "repeats from within a word", "begins anew"],
)
async def test_a_broken_answer_is_gone_on_with_and_nothing_is_doubled(again: list[str]) -> None:
    begun = "One two and three, two and three "
    model = ScriptedModel(broken(begun[:9], begun[9:]), text(*again))

    events = await run(model)

    assert seen(events) == begun + "four and five."
    assert ending(events).message == AssistantMessage(begun + "four and five.")
    shown, note = model.requests[1].messages[-2:]
    assert shown == AssistantMessage(begun)
    assert isinstance(note, UserMessage)


async def test_an_answer_that_breaks_twice_is_kept_and_marked() -> None:
    model = ScriptedModel(broken("One two "), broken("three "))

    end = ending(await run(model))

    assert (end.reason, end.answer) == ("failed", "One two three")
    assert end.message == AssistantMessage("One two three", finish_reason="error", interrupted=True)


async def test_an_answer_at_its_length_limit_is_gone_on_with_as_one() -> None:
    first = text("One, and then two and three ", finish="length")
    model = ScriptedModel(first, text("then two and three and four ", finish="length"), text("and five."))

    events = await run(model)

    whole = "One, and then two and three and four and five."
    assert seen(events) == whole
    end = ending(events)
    assert (end.reason, end.message) == ("done", AssistantMessage(whole))
    shown, note = model.requests[2].messages[-2:]
    assert shown == AssistantMessage("One, and then two and three and four ")
    assert isinstance(note, UserMessage)
    assert "length limit" in note.sent
    assert len(end.usage) == 3


async def test_an_answer_that_never_ends_is_left_at_a_few_parts_and_says_so() -> None:
    model = ScriptedModel(*[text(f"part {n} " * 3, finish="length") for n in range(9)])

    end = ending(await run(model))

    assert len(model.requests) == MOST_PARTS
    assert end.message is not None
    assert end.message.finish_reason == "length"
    assert (end.reason, end.answer) == ("done", end.message.text)


async def test_an_answer_of_hidden_thoughts_up_to_its_limit_is_asked_for_once_more() -> None:
    model = ScriptedModel(text(finish="length"), text("Here."))

    assert ending(await run(model)).answer == "Here."


async def test_a_failure_without_text_stores_nothing() -> None:
    model = ScriptedModel(broken(kind=FailureKind.BAD_KEY))

    end = ending(await run(model))

    assert (end.reason, end.answer, end.message) == ("failed", "", None)
    assert end.failure is not None
    assert end.failure.kind is FailureKind.BAD_KEY


# After a crash.


def crashed(*results: ToolMessage) -> tuple[Message, ...]:
    made = (ToolCall("c1", "note", arguments("tea")), ToolCall("c2", "look", arguments("all")))
    return (AssistantMessage("One moment.", made, "tool_calls"), *results)


async def test_a_resumed_turn_runs_again_only_what_may_be() -> None:
    async def never(given: Words, context: ToolContext) -> ToolResult:
        raise AssertionError("it ran twice")

    recorder = Recorder()
    model = ScriptedModel(text("Done."))
    request = turn(tool(run=never), tool("look", read_only=True), recorded=crashed())

    events = await run(model, request, recorder)

    assert recorder.log == [
        (
            "results",
            1,
            (
                ToolMessage("c1", "note", UNKNOWN_OUTCOME, is_error=True),
                ToolMessage("c2", "look", "kept all"),
            ),
        )
    ]
    assert seen(events) == ending(events).answer == "One moment.\n\nDone."
    assert StepText(2, "Done.") in events


async def test_a_resumed_turn_goes_on_after_its_last_whole_step() -> None:
    results = (ToolMessage("c1", "note", "kept"), ToolMessage("c2", "look", "seen"))
    recorder = Recorder()
    model = ScriptedModel(calls(("note", arguments("tea"))), text("Done."))

    await run(model, turn(tool(), tool("look"), recorded=crashed(*results)), recorder)

    assert [(what, step) for what, step, _ in recorder.log] == [("calls", 2), ("results", 2)]
    assert "already made" in recorder.results[0].content


async def test_a_resumed_turn_goes_on_when_a_tool_it_called_is_gone() -> None:
    results = (ToolMessage("c1", "note", "kept"), ToolMessage("c2", "look", "seen"))
    model = ScriptedModel(calls(("note", arguments("milk"))), text("Done."))

    events = await run(model, turn(tool(), recorded=crashed(*results)))

    assert ending(events).reason == "done"


async def test_history_with_a_lost_result_and_an_unanswered_message_is_sent_whole() -> None:
    history = (
        UserMessage("a", "a"),
        AssistantMessage("", (ToolCall("x", "note", "{}"),)),
        UserMessage("b", "b"),
    )
    model = ScriptedModel(text("ok"))

    await run(model, turn(history=history))

    roles = [type(message).__name__ for message in model.requests[0].messages]
    assert roles == ["UserMessage", "AssistantMessage", "ToolMessage", "UserMessage"]
    last = model.requests[0].messages[-1]
    assert isinstance(last, UserMessage)
    assert last.sent.startswith("b\n\n[")
    assert last.sent.endswith("[09:00] hi")


# Stopping and losing.


async def test_cancelling_ends_the_model_stream() -> None:
    model = ScriptedModel([TextDelta("One ")])
    shown = asyncio.Event()

    async def watch() -> None:
        events = run_turn(turn(), model=model, recorder=Recorder(), limits=TurnLimits())
        async with aclosing(events):
            async for _ in events:
                shown.set()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch())
        await shown.wait()
        task.cancel()

    assert task.cancelled()
    assert model.closed.is_set()


@pytest.mark.parametrize("parallel", [True, False])
async def test_cancelling_ends_the_tools_and_records_what_each_came_to(parallel: bool) -> None:
    hanging = asyncio.Event()

    async def quick(given: Words, context: ToolContext) -> ToolResult:
        return ToolResult("kept")

    async def hang(given: Words, context: ToolContext) -> ToolResult:
        hanging.set()
        await asyncio.Event().wait()
        raise AssertionError

    recorder = Recorder()
    tools = (tool("quick", quick, parallel=parallel), tool("hang", hang, parallel=parallel))
    model = ScriptedModel(calls(("quick", arguments("a")), ("hang", arguments("b"))))

    async with asyncio.TaskGroup() as group:
        task = group.create_task(run(model, turn(*tools), recorder))
        await hanging.wait()
        task.cancel()

    assert task.cancelled()
    assert [result.content for result in recorder.results] == ["kept", UNKNOWN_OUTCOME]


@pytest.mark.parametrize(("lost_at", "ran"), [(0, []), (1, ["a"])])
async def test_a_turn_that_was_taken_over_ends_at_once(lost_at: int, ran: list[str]) -> None:
    did: list[str] = []

    async def note(given: Words, context: ToolContext) -> ToolResult:
        did.append(given.text)
        return ToolResult("kept")

    model = ScriptedModel(calls(("note", arguments("a"))), text("never asked for"))

    with pytest.raises(TurnLost):
        await run(model, turn(tool(run=note)), Recorder(lost_at=lost_at))

    assert did == ran
    assert len(model.requests) == 1


# What the model must not repeat, and what it must not be offered.

FENCE = "<memory-context>\nRecalled: Anna drinks green tea in the morning, never coffee.\n</memory-context>"


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    ("spoken", "shown"),
    [
        (f"{FENCE}\nGreen tea, then.", "Green tea, then."),
        (f"Sure. {FENCE} Green tea.", "Sure.  Green tea."),
        (f"Sure.\n{FENCE[:70]}", "Sure."),
        ("The mark <memory-context> opens it and </memory-context> ends it.", None),
        ("```\n<memory-context>\nyours\n</memory-context>\n```", None),
        ("a < b, <memory and <memory-contexts>", None),
        ("<memory-context>\nsomething made up\n</memory-context>Hello.", "Hello."),
    ],
)
async def test_a_repeated_fence_is_removed_and_nothing_else(
    spoken: str, shown: str | None, size: int
) -> None:
    pieces = [spoken[at : at + size] for at in range(0, len(spoken), size)]
    user = UserMessage("tea?", f"tea?\n\n{FENCE}")

    events = await run(ScriptedModel(text(*pieces)), turn(user=user))

    expected = spoken if shown is None else shown
    assert ending(events).answer == expected
    assert seen(events).strip() == expected


async def test_an_answer_that_begins_to_play_the_person_is_ended_and_kept_without_it() -> None:
    date = "⟦2026-11-30 14:02, Monday, UTC+00:00⟧"
    endless = [TextDelta(f"{date}\nHello."), TextDelta(f"\n\n{date}\nAnd"), TextDelta(" you?")]
    model = ScriptedModel(endless)

    events = await run(model)

    assert seen(events).strip() == "Hello."
    assert (ending(events).reason, ending(events).answer) == ("done", "Hello.")
    assert ending(events).message == AssistantMessage("Hello.")
    assert model.closed.is_set()


async def test_an_answer_of_marks_alone_is_asked_for_again() -> None:
    model = ScriptedModel(text("⟦2026-11-30 14:02, Monday, UTC", "+00:00⟧\n"), text("Hello."))

    events = await run(model)

    assert (seen(events), ending(events).answer) == ("Hello.", "Hello.")


async def test_a_tool_that_needs_a_person_is_not_there_in_a_room() -> None:
    room = RoomScope(RoomId("team"), AccountId(1))
    model = ScriptedModel(calls(("mine", arguments("a"))), text("ok"))

    await run(model, turn(tool(), tool("mine", needs_person=True), scope=room))

    assert [spec.name for spec in model.requests[0].tools] == ["note"]
    assert last_results(model)[0].is_error


async def test_a_whole_turn_over_the_real_client_and_a_strict_server() -> None:
    uses = [ToolUse("note", {"text": "tea"}), ToolUse("note", '{"text": "ha')]
    async with OpenAIEmulator(Reply("One moment.", tools=uses), Reply("Noted.")).running() as server:
        model = OpenAIModel("emulated", Endpoint(server.base_url), tool_calls="native")
        events = run_turn(turn(), model=model, recorder=Recorder(), limits=TurnLimits())
        async with aclosing(events):
            seen_events = [event async for event in events]
        await model.aclose()

    assert ending(seen_events).answer == "One moment.\n\nNoted."
    assert server.violations == []
    assert server.requests[1]["messages"][-1]["role"] == "tool"


@pytest.mark.parametrize("depth", [480, 900, 50_000])
async def test_arguments_nested_beyond_reason_are_an_error_and_no_crash(depth: int) -> None:
    nested = '{"text": ' + "[" * depth + "]" * depth + "}"
    model = ScriptedModel(calls(("note", nested)), text("That was too deep."))

    events = await run(model)

    assert ending(events).answer == "That was too deep."
    assert last_results(model)[0].is_error


async def test_what_the_person_says_during_a_step_is_what_the_model_reads_after_its_results() -> None:
    model = ScriptedModel(calls(("note", arguments("tea"))), text("With milk, then."))
    said = UserMessage("with milk", "[09:01] with milk")
    end = ending(await run(model, recorder=Recorder(joining={1: (said,)})))

    assert end.reason == "done"
    assert model.requests[-1].messages[-1] == said
    assert [type(one) for one in model.requests[-1].messages] == [
        UserMessage,
        AssistantMessage,
        ToolMessage,
        UserMessage,
    ]


async def test_a_resumed_turn_has_what_joined_it_in_its_place() -> None:
    said = UserMessage("with milk", "[09:01] with milk")
    call = AssistantMessage("", (ToolCall("c1", "note", arguments("tea")),), "tool_calls")
    recorded = (call, ToolMessage("c1", "note", "kept tea"), said)
    model = ScriptedModel(text("With milk, then."))
    ending(await run(model, turn(recorded=recorded)))

    assert model.requests[0].messages[1:] == recorded
