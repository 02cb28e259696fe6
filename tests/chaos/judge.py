"""The verdict: what reached people by the emulators' own record, and whether the transcripts are whole."""

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.chaos.places import Place
from tests.chaos.script import Part, begun_in, parts_in, questions_in


@dataclass(frozen=True, slots=True)
class Seen:
    """What a place shows of one question: the attempts of which all is there, and those that were begun.

    `repeated`: a part of one attempt is there twice. `stands` is where the first part of a whole one is.
    """

    whole: tuple[int, ...]
    begun: tuple[int, ...]
    repeated: bool
    stands: tuple[int, int] | None


@dataclass(slots=True)
class Verdict:
    """Counts over all questions. `faults` says of each that went wrong what was seen.

    `torn` counts whole answers beside which the beginning of an earlier attempt was left standing.
    """

    sent: int = 0
    answered: int = 0
    lost: int = 0
    doubled: int = 0
    unknown: int = 0
    disorder: int = 0
    torn: int = 0
    integrity_ok: bool = True
    transcripts_broken: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Nothing is lost or doubled, out of order or broken."""
        wrong = self.lost or self.doubled or self.disorder or self.transcripts_broken
        return not wrong and self.integrity_ok

    @property
    def good(self) -> bool:
        return self.whole and self.unknown * 50 <= self.sent


def judge(places: Iterable[Place], state: Path, in_flight: Collection[int]) -> Verdict:
    """`in_flight`: questions whose answer was on its way to Telegram when the program was killed.

    Telegram has no means to tell whether such a message arrived, so what went wrong with one is unknown.
    """
    verdict = Verdict()
    asked: list[int] = []
    for place in places:
        asked += place.asked
        _judge_place(verdict, place, in_flight)
    _judge_state(verdict, asked, state)
    return verdict


def _judge_place(verdict: Verdict, place: Place, in_flight: Collection[int]) -> None:
    seen = see(place.shown(), place.asked)
    begun: list[tuple[tuple[int, int], int]] = []
    for number in place.asked:
        verdict.sent += 1
        found = seen[number]
        if found.whole and set(found.begun) - set(found.whole):
            verdict.torn += 1
            verdict.faults.append(f"left over: {place.name} question {number}: {found}")
        if len(found.whole) == 1 and not found.repeated:
            verdict.answered += 1
            assert found.stands is not None
            begun.append((found.stands, number))
            continue
        what = "lost" if not found.whole else "doubled"
        verdict.faults.append(f"{what}: {place.name} question {number}: {found}")
        if place.platform == "telegram" and number in in_flight:
            verdict.unknown += 1
        elif found.whole:
            verdict.doubled += 1
        else:
            verdict.lost += 1
    if place.ordered:
        _judge_order(verdict, place, [number for _, number in sorted(begun)])


def _judge_order(verdict: Verdict, place: Place, answered: Sequence[int]) -> None:
    rank = {number: at for at, number in enumerate(place.asked)}
    for before, after in pairwise(answered):
        if rank[after] < rank[before]:
            verdict.disorder += 1
            verdict.faults.append(f"disorder: {place.name}: {before} was answered before {after}")


def see(shown: Sequence[str], asked: Collection[int]) -> dict[int, Seen]:
    """What is to be seen of each question, in the messages of one place."""
    found: dict[int, list[tuple[tuple[int, int], Part]]] = defaultdict(list)
    begun: dict[int, list[int]] = defaultdict(list)
    for row, text in enumerate(shown):
        for column, part in enumerate(parts_in(text)):
            found[part.question].append(((row, column), part))
        for number, attempt in begun_in(text):
            begun[number].append(attempt)
    return {number: _seen(found[number], begun[number]) for number in asked}


def _seen(found: Sequence[tuple[tuple[int, int], Part]], begun: Sequence[int]) -> Seen:
    parts = Counter(part for _, part in found)
    attempts = {part.attempt: part.of for part in parts}
    whole = tuple(
        attempt
        for attempt, of in sorted(attempts.items())
        if len({part.at for part in parts if part.attempt == attempt}) == of
    )
    stands = min((where for where, part in found if part.attempt in whole), default=None)
    repeated = any(count > 1 for count in parts.values())
    return Seen(whole, tuple(begun), repeated, stands)


def _judge_state(verdict: Verdict, asked: Sequence[int], state: Path) -> None:
    with closing(sqlite3.connect(state)) as connection:
        connection.row_factory = sqlite3.Row
        (result,) = connection.execute("PRAGMA integrity_check").fetchone()
        verdict.integrity_ok = result == "ok"
        broken = [*_asked_wrongly(connection, asked), *_unpaired_calls(connection)]
    broken += unfinished(state)
    verdict.transcripts_broken = len(broken)
    verdict.faults += broken


def _asked_wrongly(connection: sqlite3.Connection, asked: Sequence[int]) -> list[str]:
    rows = connection.execute("SELECT content FROM message WHERE role = 'user'")
    kept = Counter(number for row in rows for number in questions_in(row["content"]))
    return [f"transcript: question {n} stands there {kept[n]} times" for n in asked if kept[n] != 1]


def _unpaired_calls(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("SELECT * FROM message ORDER BY session_id, seq").fetchall()
    broken = []
    waiting: list[tuple[Any, ...]] = []
    for row in rows:
        if row["role"] == "tool":
            call = (row["session_id"], row["turn_id"], row["tool_call_id"])
            if call in waiting:
                waiting.remove(call)
            else:
                broken.append(f"transcript: a tool's result without its call: message {row['id']}")
            continue
        broken += [f"transcript: a call without its result: turn {call[1]}" for call in waiting]
        calls = json.loads(row["tool_calls"] or "[]")
        waiting = [(row["session_id"], row["turn_id"], call["id"]) for call in calls]
    return broken + [f"transcript: a call without its result: turn {call[1]}" for call in waiting]


def unfinished(state: Path) -> list[str]:
    """The rows that wait for something, or ended badly."""
    queries = {
        "inbox": "SELECT id, state FROM inbox WHERE state <> 'done'",
        "outbox": "SELECT id, state FROM outbox WHERE state IN ('planned', 'sending', 'refused')",
        "turn": "SELECT id, state FROM turn WHERE state <> 'done'",
    }
    with closing(sqlite3.connect(state)) as connection:
        return [
            f"unfinished: {table} {row} is {stands}"
            for table, query in queries.items()
            for row, stands in connection.execute(query)
        ]


def in_flight_to_telegram(state: Path, *states: str) -> set[int]:
    """The questions whose answer the program's own record says to be on its way to Telegram, or in doubt."""
    query = f"""SELECT message.content FROM outbox JOIN message USING (turn_id)
        WHERE outbox.platform = 'telegram' AND outbox.message_id IS NULL AND message.role = 'user'
        AND outbox.state IN ({",".join("?" * len(states))})"""
    with closing(sqlite3.connect(state)) as connection:
        return {number for (said,) in connection.execute(query, states) for number in questions_in(said)}
