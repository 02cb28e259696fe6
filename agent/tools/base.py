"""What a tool is. Running one, with its time-out and bounds, is the turn loop's work."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Generic, TypeVar

from pydantic import BaseModel

from trunkline.agent.model import JsonSchema, ToolSpec
from trunkline.agent.scope import Scope

A = TypeVar("A", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The turn a call belongs to. `(turn, step, call)` is the call's key for idempotency.

    `session` is the public session id; `now` is aware, in the person's zone; `platform` is a label.
    """

    scope: Scope
    session: str
    turn: int
    step: int
    call: str
    platform: str
    now: datetime


@dataclass(frozen=True, slots=True)
class ToolResult:
    """`content` is what the model reads; `ends_calls` tells the loop to ask for an answer without tools."""

    content: str
    is_error: bool = False
    ends_calls: bool = False


@dataclass(frozen=True, slots=True)
class Tool(Generic[A]):
    """A function the model may call. The JSON schema it sees is made from `arguments`.

    `guidance` goes into the system prompt while the tool is present. A `read_only` or `idempotent` call
    may run again after a crash. `parallel` tools may run beside each other within a step. `examples` are
    pairs of what a person says and the call's arguments as JSON, for models that must be shown how.
    """

    name: str
    description: str
    arguments: type[A]
    run: Callable[[A, ToolContext], Awaitable[ToolResult]]
    guidance: str = ""
    parallel: bool = False
    read_only: bool = False
    idempotent: bool = False
    needs_person: bool = False
    timeout_s: float = 60.0
    examples: tuple[tuple[str, str], ...] = ()

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model sees it."""
        return ToolSpec(self.name, self.description, _schema_of(self.arguments), self.examples)


@lru_cache(maxsize=512)
def _schema_of(arguments: type[BaseModel]) -> JsonSchema:
    """Made once for each tool, since making it costs as much as the rest of a short turn."""
    return arguments.model_json_schema()
