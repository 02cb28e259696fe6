"""How much of a long conversation its summary keeps: planted names, numbers, decisions and open tasks.

Each conversation of summary_table.json is made long with talk that need not be kept, folded by the product's
own compaction, and the note is searched for what was planted. Any endpoint will do.
"""

import argparse
import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict
from rich.console import Console
from rich.progress import track
from rich.table import Table

from trunkline.agent.compaction import NotSummarised, record_line, summarise
from trunkline.agent.model import ModelClient
from trunkline.agent.openai_client import OpenAIModel
from trunkline.agent.openai_client_sdk import Endpoint, Timeouts
from trunkline.agent.tokens import estimate_text

TABLE = Path(__file__).with_name("summary_table.json")
PATIENT = Timeouts(first_token_s=1800.0, between_tokens_s=300.0, total_s=3600.0)

Language = Literal["en", "zh"]
Kind = Literal["name", "number", "identifier", "decision", "open", "fact", "corrected"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Told(_Strict):
    """What was said and answered. It is kept when the note has one wording of each group."""

    kind: Kind
    said: tuple[str, str]
    kept: tuple[tuple[str, ...], ...]


class Planted(_Strict):
    id: str
    split: Literal["tune", "judge"]
    language: Language
    told: tuple[Told, ...]


class SummaryTable(_Strict):
    fillers: dict[Language, tuple[tuple[str, str], ...]]
    conversations: tuple[Planted, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one conversation; without a note `note` is empty and `why` says why."""

    planted: Planted
    note: str
    lost: tuple[Told, ...]
    turns: int
    record_tokens: int
    seconds: float
    why: str = ""

    @property
    def kept(self) -> int:
        return len(self.planted.told) - len(self.lost)


def load_table() -> SummaryTable:
    return SummaryTable.model_validate_json(TABLE.read_text(encoding="utf-8"))


def lengthened(planted: Planted, table: SummaryTable, between: int) -> list[str]:
    """The turns as the record has them: `between` turns of other talk after each that tells something."""
    fillers = table.fillers[planted.language]
    pairs: list[tuple[str, str]] = []
    for place, told in enumerate(planted.told):
        pairs.append(told.said)
        pairs += [fillers[(place * between + n) % len(fillers)] for n in range(between)]
    return [f"{record_line('user', asked)}\n\n{record_line('assistant', said)}" for asked, said in pairs]


def lost_of(planted: Planted, note: str) -> tuple[Told, ...]:
    return tuple(
        told for told in planted.told if not all(any(words in note for words in group) for group in told.kept)
    )


async def fold(
    model: ModelClient, planted: Planted, table: SummaryTable, *, between: int, part_tokens: int
) -> Verdict:
    turns = lengthened(planted, table, between)
    began_s = time.monotonic()
    end = await summarise(
        model, turns, before="", focus="", part_tokens=part_tokens, timeout_s=PATIENT.total_s
    )
    seconds, tokens = time.monotonic() - began_s, sum(map(estimate_text, turns))
    if isinstance(end, NotSummarised):
        return Verdict(planted, "", planted.told, len(turns), tokens, seconds, end.why)
    why = "" if end.covered == len(turns) else f"only {end.covered} turns of {len(turns)}"
    return Verdict(planted, end.note, lost_of(planted, end.note), len(turns), tokens, seconds, why)


def score(verdicts: Sequence[Verdict]) -> dict[str, float]:
    told = sum(len(one.planted.told) for one in verdicts)
    lost = Counter(fact.kind for one in verdicts for fact in one.lost)
    figures: dict[str, float] = {
        "conversations": len(verdicts),
        "facts": told,
        "facts_kept": sum(one.kept for one in verdicts),
    }
    for language in ("en", "zh"):
        of = [one for one in verdicts if one.planted.language == language]
        if of:
            figures[f"kept_share_{language}"] = round(
                sum(one.kept for one in of) / sum(len(one.planted.told) for one in of), 3
            )
    figures |= {f"lost_{kind}": count for kind, count in sorted(lost.items())}
    figures["failed"] = sum(not one.note for one in verdicts)
    figures["record_tokens"] = sum(one.record_tokens for one in verdicts)
    figures["note_tokens"] = sum(estimate_text(one.note) for one in verdicts)
    figures["seconds"] = round(sum(one.seconds for one in verdicts), 1)
    return figures


async def measure(arguments: argparse.Namespace) -> list[Verdict]:
    table = load_table()
    key = os.environ.get(arguments.api_key_env, "") if arguments.api_key_env else ""
    model = OpenAIModel(
        arguments.model, Endpoint(arguments.base_url, key), tool_calls="native", timeouts=PATIENT
    )
    chosen = [
        one
        for one in table.conversations
        if arguments.split in ("all", one.split) and arguments.language in ("all", one.language)
    ]
    console = Console(stderr=True)
    try:
        return [
            await fold(model, one, table, between=arguments.between, part_tokens=arguments.part_tokens)
            for one in track(chosen, console=console, description="conversations")
        ]
    finally:
        await model.aclose()


def show(verdicts: Sequence[Verdict], *, notes: bool) -> None:
    table = Table("conversation", "turns", "tokens", "kept", "lost", "note", "seconds")
    for one in verdicts:
        lost = ", ".join(f"{fact.kind}: {fact.kept[0][0]}" for fact in one.lost) or "-"
        kept = f"{one.kept}/{len(one.planted.told)}"
        table.add_row(
            one.planted.id,
            str(one.turns),
            str(one.record_tokens),
            kept,
            one.why or lost,
            str(estimate_text(one.note)),
            f"{one.seconds:.0f}",
        )
    Console().print(table)
    if notes:
        for one in verdicts:
            print(f"\n=== {one.planted.id}\n{one.note}")


def main(asked: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.summary", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--base-url", required=True, help="an OpenAI-compatible endpoint")
    parser.add_argument("--model", required=True, help="the model's name there")
    parser.add_argument("--api-key-env", default="", help="the variable that holds its key")
    parser.add_argument("--split", choices=["tune", "judge", "all"], default="judge")
    parser.add_argument("--language", choices=["en", "zh", "all"], default="all")
    parser.add_argument("--between", type=int, default=4, help="turns of other talk after each planted one")
    parser.add_argument("--part-tokens", type=int, default=2_000, help="of the record that one call is shown")
    parser.add_argument("--notes", action="store_true", help="print the notes, too")
    parser.add_argument("--json", action="store_true", help="one JSON object of numbers as the last line")
    arguments = parser.parse_args(asked)
    verdicts = asyncio.run(measure(arguments))
    if not arguments.json or arguments.notes:
        show(verdicts, notes=arguments.notes)
    if arguments.json:
        print(json.dumps(score(verdicts)))


if __name__ == "__main__":
    main()
