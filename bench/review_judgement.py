"""How often the background review saves what a conversation taught, and nothing else.

Each conversation of review_judgement_table.json is reviewed as the product would, to its end and with real
writes to a store of its own; what the stores hold then is judged. The people are memory_judgement's.
"""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

from rich.progress import track
from rich.table import Table

from bench.memory_judgement import (
    LIMITS,
    PATIENT,
    PLATFORM,
    SAID_AT,
    JudgedRow,
    Known,
    Strict,
    describe_failed,
    endpoint_of,
    figures_of,
    has_words,
    load_table,
    options,
    share,
    system_prompt_of,
    tell,
)
from trunkline.agent.memory.entries import join_entries
from trunkline.agent.memory.files import MemoryFolders
from trunkline.agent.memory.snapshot import MemorySnapshot
from trunkline.agent.memory.store import FileMemoryStore
from trunkline.agent.messages import AssistantMessage, Message, UserMessage
from trunkline.agent.model import ModelClient, ModelFailure
from trunkline.agent.openai_client import OpenAIModel
from trunkline.agent.openai_client_sdk import Endpoint
from trunkline.agent.ports import Target
from trunkline.agent.prompt import compose_user_text
from trunkline.agent.review import MEMORY_ONLY, Review, ReviewRequest, review_instruction
from trunkline.agent.scope import PersonId, PersonScope
from trunkline.agent.tools.memory import memory_tool
from trunkline.agent.tools.session_search import session_search_tool
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.journal import StoreJournal
from trunkline.gateway.state.migrate import migrate
from trunkline.gateway.state.search import StoreSearch

TABLE = Path(__file__).with_name("review_judgement_table.json")
TARGETS: tuple[Target, Target] = ("user", "memory")

Kind = Literal[
    "personal_detail",
    "expectation",
    "environment_fact",
    "correction",
    "known_already",
    "nothing_lasting",
    "not_the_persons_words",
]


class Save(Strict):
    """A fact to keep: the new entry has a word of each group; `entry` is a piece of the one it replaces."""

    target: Target
    entry: str = ""
    content: tuple[tuple[str, ...], ...]


class Row(JudgedRow):
    """A conversation, as pairs of what `person` said and what they were answered, and what it teaches."""

    kind: Kind
    said: tuple[tuple[str, str], ...]
    saves: tuple[Save, ...]


class ReviewTable(Strict):
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`right`: the stores hold exactly what they should. `found`: the fact is in them, whatever else changed.

    `lost` are entries that should have stayed; `did` is what changed, for people to read.
    """

    row: Row
    right: bool
    found: bool
    changed: bool
    lost: int
    did: str
    failed: bool = False

    @property
    def false_save(self) -> bool:
        return self.changed and not self.row.saves

    @property
    def missed_save(self) -> bool:
        return not self.changed and bool(self.row.saves)


def main() -> None:
    given = options("review_judgement", __doc__)
    rows = [row for row in load_rows() if given.split in ("all", row.split)]
    reviewed = review_all(rows, endpoint_of(given), given.model, given.tool_calls, quiet=given.json)
    tell(given, reviewed, score, lambda verdicts, figures: (_table(verdicts), _summary(figures)))


def load_rows(file: Path = TABLE) -> tuple[Row, ...]:
    return ReviewTable.model_validate_json(file.read_text(encoding="utf-8")).rows


async def review_all(
    rows: Sequence[Row],
    endpoint: Endpoint,
    name: str,
    tool_calls: Literal["auto", "native", "schema"] = "auto",
    *,
    quiet: bool,
) -> list[Verdict]:
    """Reviews every conversation once, in the table's order. Raises HopelessModel."""
    people = load_table().people
    model = OpenAIModel(name, endpoint, tool_calls=tool_calls, timeouts=PATIENT)
    verdicts = []
    try:
        with tempfile.TemporaryDirectory() as folder, Database.sqlite(Path(folder) / "state.db") as database:
            await migrate(database)
            for row in track(rows, "reviewing", disable=quiet or not sys.stderr.isatty()):
                home = Path(folder) / row.id
                verdicts.append(await _reviewed(row, people[row.person], model, database, home))
    finally:
        await model.aclose()
    return verdicts


async def _reviewed(row: Row, known: Known, model: ModelClient, database: Database, home: Path) -> Verdict:
    store, scope = FileMemoryStore(home, LIMITS, StoreJournal(database)), PersonScope(PersonId(row.person))
    before = MemorySnapshot(known.memory, known.user)
    for target in TARGETS:
        path = MemoryFolders(home).path_of(scope, target)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(join_entries(before.entries_of(target)), encoding="utf-8")
    tools = (memory_tool(store), session_search_tool(StoreSearch(database), None))
    history = tuple(_history(row, known))
    new = [message for message in history if isinstance(message, UserMessage)]
    request = ReviewRequest(
        scope=scope,
        session="bench",
        turn=len(new),
        system=system_prompt_of(known, tools),
        history=history,
        tools=tools,
        platform=PLATFORM,
        now=datetime(*SAID_AT, tzinfo=ZoneInfo(known.zone)),
        instruction=review_instruction(new, MEMORY_ONLY, in_room=False, changed=None),
    )
    failure = await Review(request, model, store).run()
    return judge(row, before, await store.read(scope), failure)


def _history(row: Row, known: Known) -> Iterator[Message]:
    now = datetime(*SAID_AT, tzinfo=ZoneInfo(known.zone)) - timedelta(minutes=2 * len(row.said))
    for said, answered in row.said:
        yield UserMessage(said, compose_user_text(said, now))
        yield AssistantMessage(answered)
        now += timedelta(minutes=2)


def judge(
    row: Row, before: MemorySnapshot, after: MemorySnapshot, failure: ModelFailure | None = None
) -> Verdict:
    """Compares what a review left in the stores with what it should have. Raises HopelessModel."""
    did = [] if failure is None else [describe_failed(failure)]
    gone = {target: _missing(before, after, target) for target in TARGETS}
    come = {target: _missing(after, before, target) for target in TARGETS}
    due = [entry for save in row.saves for entry in gone[save.target] if save.entry and save.entry in entry]
    lost = sum(map(len, gone.values())) - len(due)
    placed = [save for save in row.saves if any(has_words(one, save.content) for one in come[save.target])]
    anywhere = [one for entries in come.values() for one in entries]
    found = all(any(has_words(one, save.content) for one in anywhere) for save in row.saves)
    replaced = len(due) == sum(bool(save.entry) for save in row.saves)
    right = len(placed) == len(row.saves) == len(anywhere) and replaced and lost == 0 and failure is None
    did += [f"{target} - {entry}" for target in TARGETS for entry in gone[target]]
    did += [f"{target} + {entry}" for target in TARGETS for entry in come[target]]
    shown = "\n    ".join(did) or "nothing changed"
    return Verdict(row, right, found, bool(anywhere or lost or due), lost, shown, failed=failure is not None)


def _missing(one: MemorySnapshot, other: MemorySnapshot, target: Target) -> list[str]:
    return [entry for entry in one.entries_of(target) if entry not in other.entries_of(target)]


def score(verdicts: Sequence[Verdict], seconds: float) -> dict[str, float]:
    return figures_of(verdicts, seconds) | {
        "found": share([one.found for one in verdicts if one.row.saves]),
        "lost_entries": sum(one.lost for one in verdicts),
    }


def _table(verdicts: Sequence[Verdict]) -> Table:
    table = Table("class", "right", "found", box=None, pad_edge=False, header_style="bold")
    for kind in dict.fromkeys(one.row.kind for one in verdicts):
        of_kind = [one for one in verdicts if one.row.kind == kind]
        found = sum(one.found for one in of_kind) if of_kind[0].row.saves else None
        table.add_row(
            kind.replace("_", " "),
            f"{sum(one.right for one in of_kind)}/{len(of_kind)}",
            "" if found is None else f"{found}/{len(of_kind)}",
        )
    table.add_row("all", f"{sum(one.right for one in verdicts)}/{len(verdicts)}", "", style="bold")
    return table


def _summary(figures: dict[str, float]) -> str:
    return (
        f"right {figures['accuracy']:.0%}, facts found {figures['found']:.0%}; "
        f"false saves {figures['false_saves']:g}, missed saves {figures['missed_saves']:g}, "
        f"entries lost {figures['lost_entries']:g}, failed {figures['failed']:g}; "
        f"{figures['seconds_per_row']:g} s a row"
    )


if __name__ == "__main__":
    main()
