"""How often a model saves the right thing, or nothing: the first step of a turn, over a table of sentences.

Each sentence of memory_judgement_table.json is asked as the product would ask it, with its own system
prompt, tools and memory blocks; the calls that come back are judged and never run. Any endpoint will do.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, ValidationError
from rich.console import Console
from rich.progress import track
from rich.table import Table

from trunkline.agent.loop import run_turn
from trunkline.agent.memory.entries import MemoryLimits
from trunkline.agent.memory.operations import Operation, apply_operations, check_operations
from trunkline.agent.memory.outcomes import Failed
from trunkline.agent.memory.snapshot import MemorySnapshot, render_blocks
from trunkline.agent.memory.store import FileMemoryStore
from trunkline.agent.messages import AssistantMessage, ToolCall, ToolMessage, Usage, UserMessage
from trunkline.agent.model import FailureKind, ModelFailure, TextDelta
from trunkline.agent.openai_client import OpenAIModel, ToolMode
from trunkline.agent.openai_client_sdk import Endpoint, Timeouts
from trunkline.agent.ports import Action, Target, TurnLost
from trunkline.agent.prompt import PromptParts, build_system_prompt, compose_user_text
from trunkline.agent.scope import PersonId, PersonScope
from trunkline.agent.tools.base import Tool
from trunkline.agent.tools.memory import MemoryArguments, memory_tool
from trunkline.agent.tools.session_search import SearchArguments, session_search_tool
from trunkline.agent.turn import TurnEnded, TurnLimits, TurnRequest
from trunkline.gateway.platform_hints import HINTS
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.journal import StoreJournal
from trunkline.gateway.state.search import StoreSearch

TABLE = Path(__file__).with_name("memory_judgement_table.json")
PLATFORM = "telegram"
SAID_AT = (2026, 5, 12, 9, 30)
PATIENT = Timeouts(first_token_s=3600.0, between_tokens_s=600.0, total_s=7200.0)
LIMITS = MemoryLimits()

HOPELESS = frozenset(
    {
        FailureKind.NOT_CONFIGURED,
        FailureKind.BAD_KEY,
        FailureKind.NO_CREDIT,
        FailureKind.UNKNOWN_MODEL,
        FailureKind.DOWN,
    }
)
"""Failures that the next sentence would meet too."""

Kind = Literal[
    "lasting_preference",
    "environment_fact",
    "one_off_constraint",
    "past_conversation",
    "extension",
    "correction",
    "chit_chat",
]
Language = Literal["en", "zh"]
Split = Literal["tune", "judge"]


class Strict(BaseModel):
    """What a table of a bench is made of."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class JudgedRow(Strict):
    """What every row of such a table has; `person` is one of this table's people."""

    id: str
    kind: str
    split: Split
    language: Language
    person: str


class MemoryCall(Strict):
    """A change of one entry. `entry` is a piece of the old one; the new one has a word of each group."""

    tool: Literal["memory"]
    action: Action
    target: Target
    entry: str = ""
    content: tuple[tuple[str, ...], ...]


class SearchCall(Strict):
    """A search whose query has a word of each group."""

    tool: Literal["session_search"]
    content: tuple[tuple[str, ...], ...]


class Row(JudgedRow):
    """A sentence that `person` says and the right call, or None where none is."""

    kind: Kind
    text: str
    call: MemoryCall | SearchCall | None


class Known(Strict):
    """Where a person lives, as a time zone, and what is remembered of them already."""

    zone: str
    user: tuple[str, ...]
    memory: tuple[str, ...]


class JudgementTable(Strict):
    people: dict[str, Known]
    rows: tuple[Row, ...]


class Judged(Protocol):
    """What became of a row. `did` is what the model did, for people to read."""

    @property
    def row(self) -> JudgedRow: ...
    @property
    def right(self) -> bool: ...
    @property
    def did(self) -> str: ...
    @property
    def failed(self) -> bool: ...
    @property
    def false_save(self) -> bool: ...
    @property
    def missed_save(self) -> bool: ...


V = TypeVar("V", bound=Judged)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`right_tool` leaves the arguments aside."""

    row: Row
    right: bool
    right_tool: bool
    saves: bool
    did: str
    failed: bool = False

    @property
    def false_save(self) -> bool:
        return self.saves and not isinstance(self.row.call, MemoryCall)

    @property
    def missed_save(self) -> bool:
        return not self.saves and isinstance(self.row.call, MemoryCall)


class HopelessModel(Exception):
    """The endpoint can't be asked at all; the argument says why."""


def main() -> None:
    given = options("memory_judgement", __doc__)
    table = load_table()
    rows = [row for row in table.rows if given.split in ("all", row.split)]
    asked = ask(table, rows, endpoint_of(given), given.model, given.tool_calls, quiet=given.json)
    tell(given, asked, score, lambda verdicts, figures: (_table(verdicts), _summary(figures)))


def tell(
    given: argparse.Namespace,
    work: Coroutine[None, None, list[V]],
    score: Callable[[Sequence[V], float], dict[str, float]],
    show: Callable[[Sequence[V], dict[str, float]], tuple[Table, str]],
) -> None:
    """Has the rows judged and tells what came of it: a table with a line under it, or JSON."""
    started = time.monotonic()
    try:
        verdicts = asyncio.run(work)
    except HopelessModel as error:
        sys.exit(f"The model can't be asked: {error}")
    figures = score(verdicts, time.monotonic() - started)
    for verdict in verdicts if given.wrong else ():
        if not verdict.right:
            print(f"{verdict.row.id}\n    {verdict.did}")
    if given.json:
        print(json.dumps(figures))
    else:
        Console().print(*show(verdicts, figures), sep="\n")


def load_table(file: Path = TABLE) -> JudgementTable:
    return JudgementTable.model_validate_json(file.read_text(encoding="utf-8"))


async def ask(
    table: JudgementTable,
    rows: Sequence[Row],
    endpoint: Endpoint,
    name: str,
    tool_calls: Literal["auto", "native", "schema"] = "auto",
    *,
    quiet: bool,
) -> list[Verdict]:
    """Asks every row once, in the table's order. Raises HopelessModel."""
    model = OpenAIModel(name, endpoint, tool_calls=tool_calls, timeouts=PATIENT)
    verdicts = []
    try:
        # The tools are the product's own over empty stores; nothing runs them.
        with tempfile.TemporaryDirectory() as folder, Database.sqlite(Path(folder) / "state.db") as database:
            tools = (
                memory_tool(FileMemoryStore(Path(folder), LIMITS, StoreJournal(database))),
                session_search_tool(StoreSearch(database), None),
            )
            for row in track(rows, "asking", disable=quiet or not sys.stderr.isatty()):
                known = table.people[row.person]
                outcome = await first_calls(model, opened_turn(row, known, tools))
                if isinstance(outcome, ModelFailure):
                    did = describe_failed(outcome)
                    verdicts.append(Verdict(row, False, right_tool=False, saves=False, did=did, failed=True))
                else:
                    verdicts.append(judge(row, known, outcome))
    finally:
        await model.aclose()
    return verdicts


def opened_turn(row: Row, known: Known, tools: tuple[Tool[Any], ...]) -> TurnRequest:
    """The turn that the sentence would open as the first message of a session."""
    now = datetime(*SAID_AT, tzinfo=ZoneInfo(known.zone))
    user = UserMessage(row.text, compose_user_text(row.text, now))
    scope = PersonScope(PersonId(row.person))
    return TurnRequest(scope, "bench", 1, system_prompt_of(known, tools), (), user, tools, PLATFORM, now)


def system_prompt_of(known: Known, tools: Sequence[Tool[Any]]) -> str:
    """The product's system prompt in the direct chat of somebody of whom that much is known."""
    return build_system_prompt(
        PromptParts(
            guidance=tuple(tool.guidance for tool in tools),
            platform_hint=HINTS[PLATFORM],
            memory_blocks=render_blocks(MemorySnapshot(known.memory, known.user), LIMITS),
        )
    )


async def first_calls(model: OpenAIModel, request: TurnRequest) -> tuple[ToolCall, ...] | ModelFailure:
    """The calls of the turn's first step, before any of them would run; none where the model answers."""
    recorder = _FirstStep()
    try:
        async with aclosing(run_turn(request, model=model, recorder=recorder, limits=TurnLimits())) as events:
            async for event in events:
                if isinstance(event, TextDelta) and model.tool_mode in (ToolMode.SCHEMA, ToolMode.NONE):
                    return ()  # the decision came before the text
                if isinstance(event, TurnEnded) and event.failure is not None:
                    return event.failure
    except TurnLost:
        return recorder.calls
    return ()


class _FirstStep:
    """A TurnRecorder that keeps the first calls and then claims that the turn was lost, so that none runs."""

    def __init__(self) -> None:
        self.calls: tuple[ToolCall, ...] = ()

    async def record_calls(self, step: int, message: AssistantMessage, usage: Usage, *, model: str) -> None:
        self.calls = message.tool_calls
        raise TurnLost

    async def record_results(
        self, step: int, results: Sequence[ToolMessage], *, last: bool = False
    ) -> tuple[UserMessage, ...]:
        raise TurnLost


def judge(row: Row, known: Known, calls: Sequence[ToolCall]) -> Verdict:
    """A search beside a right save is let pass; a save beside a search is not, for it stays."""
    called = {call.name for call in calls}
    match row.call:
        case None:
            right = right_tool = not calls
        case SearchCall() as wanted:
            right_tool = called == {"session_search"}
            right = right_tool and any(_searches(call, wanted) for call in calls)
        case MemoryCall() as wanted:
            right_tool = "memory" in called
            right = right_tool and _changes(calls, known, wanted)
    did = "; ".join(f"{call.name} {call.arguments}" for call in calls) or "answered"
    return Verdict(row, right, right_tool, "memory" in called, f"{row.text}\n    {did}")


def describe_failed(failure: ModelFailure) -> str:
    """What a call did that failed. Raises HopelessModel where the next one would, too."""
    if failure.kind in HOPELESS:
        raise HopelessModel(f"{failure.kind}: {failure.detail}")
    return f"failed: {failure.kind} {failure.detail}"


def _searches(call: ToolCall, wanted: SearchCall) -> bool:
    try:
        query = SearchArguments.model_validate_json(call.arguments).query
    except ValidationError:
        return False
    return has_words(query or "", wanted.content)


def _changes(calls: Sequence[ToolCall], known: Known, wanted: MemoryCall) -> bool:
    """Whether the calls together make of the stores what the one right call would make of them."""
    before: dict[Target, tuple[str, ...]] = {"user": known.user, "memory": known.memory}
    after = dict(before)
    for call in calls:
        if call.name == "memory" and not _applied(call, after):
            return False
    if any(after[target] != before[target] for target in before if target != wanted.target):
        return False
    old, new = before[wanted.target], after[wanted.target]
    gone = [entry for entry in old if entry not in new]
    come = [entry for entry in new if entry not in old]
    right_gone = not gone if wanted.action == "add" else len(gone) == 1 and wanted.entry in gone[0]
    if wanted.action == "remove":
        return right_gone and not come
    return right_gone and len(come) == 1 and has_words(come[0], wanted.content)


def _applied(call: ToolCall, stores: dict[Target, tuple[str, ...]]) -> bool:
    """Applies one call by the product's own rules; false where the tool would have refused it."""
    try:
        given = MemoryArguments.model_validate_json(call.arguments)
    except ValidationError:
        return False
    operations = [Operation(o.action, o.content or "", o.old_text or "") for o in given.operations or ()]
    if given.action is not None:
        operations.append(Operation(given.action, given.content or "", given.old_text or ""))
    checked = check_operations(PersonScope(PersonId("bench")), given.target, operations, LIMITS)
    if isinstance(checked, Failed):
        return False
    made = apply_operations(stores[given.target], given.target, checked, LIMITS.chars_of(given.target))
    if isinstance(made, Failed):
        return False
    stores[given.target] = made.entries
    return True


def has_words(text: str, groups: Iterable[Iterable[str]]) -> bool:
    """Whether the text has a word of each group."""
    folded = text.casefold()
    return all(any(word.casefold() in folded for word in group) for group in groups)


def score(verdicts: Sequence[Verdict], seconds: float) -> dict[str, float]:
    return figures_of(verdicts, seconds) | {"accuracy_tool": share([one.right_tool for one in verdicts])}


def figures_of(verdicts: Sequence[Judged], seconds: float) -> dict[str, float]:
    """Shares of right rows from 0 to 1: of all, by class, by language; counts; time."""
    figures = {"accuracy": share([one.right for one in verdicts])}
    for kind in dict.fromkeys(one.row.kind for one in verdicts):
        figures[f"accuracy_{kind}"] = share([one.right for one in verdicts if one.row.kind == kind])
    for language in dict.fromkeys(one.row.language for one in verdicts):
        of_language = [one.right for one in verdicts if one.row.language == language]
        figures[f"accuracy_{language}"] = share(of_language)
    return figures | {
        "false_saves": sum(one.false_save for one in verdicts),
        "missed_saves": sum(one.missed_save for one in verdicts),
        "failed": sum(one.failed for one in verdicts),
        "n": len(verdicts),
        "seconds": round(seconds, 1),
        "seconds_per_row": round(seconds / max(len(verdicts), 1), 2),
    }


def share(holds: Sequence[bool]) -> float:
    return round(sum(holds) / max(len(holds), 1), 4)


def _table(verdicts: Sequence[Verdict]) -> Table:
    languages = list(dict.fromkeys(one.row.language for one in verdicts))
    table = Table("class", *languages, "all", box=None, pad_edge=False, header_style="bold")
    for kind in dict.fromkeys(one.row.kind for one in verdicts):
        of_kind = [one for one in verdicts if one.row.kind == kind]
        table.add_row(kind.replace("_", " "), *_counts(of_kind, languages))
    table.add_row("all", *_counts(verdicts, languages), style="bold")
    return table


def _counts(verdicts: Sequence[Verdict], languages: Sequence[Language]) -> list[str]:
    groups = [[one for one in verdicts if one.row.language == language] for language in languages]
    return [f"{sum(one.right for one in group)}/{len(group)}" for group in (*groups, verdicts)]


def _summary(figures: dict[str, float]) -> str:
    return (
        f"right {figures['accuracy']:.0%}, right tool {figures['accuracy_tool']:.0%}; "
        f"false saves {figures['false_saves']:g}, missed saves {figures['missed_saves']:g}, "
        f"failed calls {figures['failed']:g}; {figures['seconds_per_row']:g} s a row"
    )


def options(name: str, what: str | None) -> argparse.Namespace:
    """What both judgements of a model are asked with; `what` is their module's text."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.{name}", description=(what or "").splitlines()[0])
    parser.add_argument("--base-url", required=True, help="the endpoint, up to and with /v1")
    parser.add_argument("--model", required=True, help="the model's name there")
    parser.add_argument("--api-key-env", metavar="NAME", help="environment variable that holds the key")
    parser.add_argument("--tool-calls", choices=("auto", "native", "schema"), default="auto")
    parser.add_argument(
        "--split", choices=("tune", "judge", "all"), default="judge",
        help="texts are improved on 'tune'; 'judge' (the default) is what is published",
    )  # fmt: skip
    parser.add_argument("--wrong", action="store_true", help="list what went wrong, with what was done")
    parser.add_argument("--json", action="store_true", help="one JSON object of numbers as the last line")
    return parser.parse_args()


def endpoint_of(given: argparse.Namespace) -> Endpoint:
    return Endpoint(given.base_url, os.environ.get(given.api_key_env, "") if given.api_key_env else "")


if __name__ == "__main__":
    main()
