"""What goes into a turn and what comes out of it. The loop that runs it is in `loop`."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from trunkline.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, Usage, UserMessage
from trunkline.agent.model import ModelFailure, TextDelta
from trunkline.agent.scope import Scope
from trunkline.agent.tools.base import Tool

EndReason = Literal["done", "stopped", "failed", "rounds"]


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """One turn. `session` is the public session id; `now` is aware, in the person's zone.

    `history` ends before `user`; `recorded` are the steps of this very turn that were committed before a
    crash: assistant and tool messages in their order.
    """

    scope: Scope
    session: str
    turn: int
    system: str
    history: tuple[Message, ...]
    user: UserMessage
    tools: tuple[Tool[Any], ...]
    platform: str
    now: datetime
    recorded: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """Bounds of one turn. `max_rounds` counts model calls; the last is told to answer without tools."""

    max_rounds: int = 24
    max_calls_per_step: int = 16
    parallel_calls: int = 8
    failures_of_a_call: int = 3
    result_chars: int = 40_000


@dataclass(frozen=True, slots=True)
class CallUsage:
    """What one model call of the turn cost, as the provider counted it."""

    purpose: str
    model: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class StepText:
    """A step's text is whole; the deltas before it, since the last boundary, were its parts."""

    step: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    step: int
    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolFinished:
    step: int
    call: ToolCall
    result: ToolMessage


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The last event. `answer` is all text the person should see in the end, of every step.

    `message` is what is still to be stored: the last assistant message, or None when nothing more was said;
    after a failure it is marked interrupted. `tools_run` names the tools that did something, for the
    sentence that goes with a failure. `reason` is never stopped: a stop is a cancellation, and its caller
    builds this event from what it saw.
    """

    reason: EndReason
    answer: str
    message: AssistantMessage | None
    usage: tuple[CallUsage, ...]
    failure: ModelFailure | None = None
    tools_run: tuple[str, ...] = ()


TurnEvent = TextDelta | StepText | ToolStarted | ToolFinished | TurnEnded
