"""Speed and size of state.db with many people in it: searches, batched writes, one turn's commit, the file.

Chats are made up (`bench.made_up_chats`), stored in a real SQLite file by the product's own functions in the
order in which they happened, and searched through `StoreSearch` by the person who has the most of them.

`python -m bench.search_speed [--messages N] [--json]`
"""

import argparse
import asyncio
import json
import math
import os
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path

from rich.progress import track
from sqlalchemy import Column, ColumnElement, Connection, LargeBinary, cast, func, insert, select

from bench.made_up_chats import MadeUpSession, MadeUpStream, Words, made_up_sessions, made_up_streams, name_of
from bench.report import report
from trunkline.agent.messages import AssistantMessage, Usage
from trunkline.agent.ports import SearchQuery
from trunkline.agent.prompt import compose_user_text
from trunkline.agent.scope import AccountId, PersonId, PersonScope
from trunkline.gateway.state import inbox, outbox, sessions, turns
from trunkline.gateway.state.candidates import MAX_KINDS
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.messages import NewMessage, add_message, add_messages
from trunkline.gateway.state.migrate import migrate_now
from trunkline.gateway.state.outbox import Plan
from trunkline.gateway.state.records import SessionKey
from trunkline.gateway.state.schema import (
    account,
    message,
    person,
    room,
    room_member,
    session,
    stream,
    system_prompt,
)
from trunkline.gateway.state.search import StoreSearch
from trunkline.gateway.state.stopwords import WORDS
from trunkline.gateway.state.turns import Spent, said

PEOPLE = 500
SEARCHES = 200
TURNS = 300
SESSIONS_PER_BATCH = 45
PROMPT_CHARS = 4000
RARE_TIMES = 20
COMMON_WORDS = 40
# Words for kinds of things, some things of each of which are in the made-up vocabulary.
KINDS = ("pet", "food", "music", "exercise", "weather", "instrument")
LIMIT = 3


@dataclass(slots=True)
class House:
    """The rows that messages hang on, and texts of the biggest talker to ask about."""

    accounts: list[int] = field(default_factory=list)
    streams: dict[int, int] = field(default_factory=dict)
    english: list[str] = field(default_factory=list)
    chinese: list[str] = field(default_factory=list)


def main() -> None:
    arguments = _arguments()
    words = Words()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "state.db"
        with Database.sqlite(path) as database:
            migrate_now(database)
            figures = measure(database, path, words, arguments.messages, quiet=arguments.json)
    report(figures, as_json=arguments.json)


def measure(database: Database, path: Path, words: Words, messages: int, *, quiet: bool) -> dict[str, float]:
    """Fills the database and measures everything. Times in ms of the clock; `cpu_` of the processor."""
    house = House()
    figures = fill(database, house, words, messages, quiet=quiet)
    asked = questions(house, words, messages)
    for kind, texts in asked.items():
        figures |= asyncio.run(time_searches(database, kind, texts))
    figures |= time_commits(database, path, house)
    asyncio.run(database.scrub())
    size, (held, exact) = path.stat().st_size, database.read_now(held_bytes)
    figures["file_mb"] = round(size / 1e6, 1)
    figures["file_ratio"] = round(size / held, 3)
    figures["file_ratio_without_exact"] = round((size - exact) / (held - exact), 3)
    figures["load_average"] = round(os.getloadavg()[0], 1)
    return figures


def fill(database: Database, house: House, words: Words, messages: int, *, quiet: bool) -> dict[str, float]:
    """Stores the chats, some sessions a transaction; making them up is not counted."""
    streams = made_up_streams(messages, PEOPLE)
    database.write_now(lambda connection: _people(connection, house, streams))
    chance = random.Random(4)
    planned = list(made_up_sessions(streams, words))
    cpu_s, walls = 0.0, list[float]()
    for start in track(range(0, len(planned), SESSIONS_PER_BATCH), "writing", disable=quiet):
        batch = planned[start : start + SESSIONS_PER_BATCH]
        rows = database.write_now(partial(_sessions, house=house, batch=batch))
        news = [
            new
            for one, row in zip(batch, rows, strict=True)
            for new in _messages(house, words, chance, one, row)
        ]
        began, began_cpu = time.perf_counter(), time.process_time()
        database.write_now(partial(add_messages, news=news))
        walls.append(time.perf_counter() - began)
        cpu_s += time.process_time() - began_cpu
    return {
        "messages": messages,
        "writes_per_s": round(messages / sum(walls)),
        "writes_per_cpu_s": round(messages / cpu_s),
        "batch_p50_ms": percentile([one * 1000 for one in walls], 50),
        "batch_max_ms": percentile([one * 1000 for one in walls], 100),
    }


def questions(house: House, words: Words, messages: int) -> dict[str, list[str]]:
    """What the biggest talker asks, by kind; words come from their own messages."""
    chance = random.Random(5)
    ranks = {word: rank for rank, word in enumerate(words.english)}
    rare_from = words.rank_seen_at_most(RARE_TIMES, messages)
    english = [_words_of(text) for text in house.english]
    topical = [[one for one in said if one not in WORDS] for said in english]
    rare = [one for said in english for one in said if ranks.get(one, 0) >= rare_from]
    common = [word for word in words.english[:400] if word not in WORDS and word.isalpha()][:COMMON_WORDS]
    known = set(words.chinese)
    pairs = [one for text in house.chinese for one in _pairs_of(text) if one in known]
    return {
        "question": [_question(chance, said) for said in topical if len(said) > 5][:SEARCHES],
        "kind": [_of_kinds(chance, said) for said in topical if len(said) > 5][:SEARCHES],
        "rare": chance.sample(rare, min(SEARCHES, len(rare))),
        "common": [" ".join(chance.sample(common, chance.randrange(1, 4))) for _ in range(SEARCHES)],
        "chinese": chance.sample(pairs, min(SEARCHES, len(pairs))),
    }


async def time_searches(database: Database, kind: str, texts: Sequence[str]) -> dict[str, float]:
    search, scope = StoreSearch(database), PersonScope(PersonId("p0"))
    wall_ms, cpu_ms, hits = [], [], 0
    for text in (*texts[:5], *texts):
        began, began_cpu = time.perf_counter(), time.process_time()
        outcome = await search.search(scope, SearchQuery(text, limit=LIMIT))
        wall_ms.append((time.perf_counter() - began) * 1000)
        cpu_ms.append((time.process_time() - began_cpu) * 1000)
        hits += bool(outcome.hits)
    return {
        f"p95_ms_{kind}": percentile(wall_ms[5:], 95),
        f"p50_ms_{kind}": percentile(wall_ms[5:], 50),
        f"cpu_p95_ms_{kind}": percentile(cpu_ms[5:], 95),
        f"found_{kind}": round(hits / (len(texts) + 5), 3),
    }


def time_commits(database: Database, path: Path, house: House) -> dict[str, float]:
    """One turn's last transaction, as the gateway makes it, by turns with a bare fsync of as many bytes.

    `transaction` is all of it, from the call to its return; `commit` the part after the last statement: the
    index flushed, the log written and synced.
    """
    key = SessionKey("telegram", "bench", "commits")
    made = database.write_now(
        lambda connection: sessions.start(
            connection, key, house.streams[0], prompt="", snapshot="", model="made-up", now_ms=0
        )
    )
    texts = islice(house.english * (1 + (TURNS + 20) * 2 // len(house.english)), (TURNS + 20) * 2)
    pairs = list(zip(texts, texts, strict=False))
    asyncio.run(database.empty_log())
    begun = [_begin_turn(database, house, made.id, asked) for asked, _ in pairs]
    asyncio.run(database.empty_log())
    log = path.with_name(path.name + "-wal")
    for row, (_, answer) in zip(begun[:20], pairs, strict=False):
        _finish_turn(database, row, answer)
    commit_bytes = log.stat().st_size // 20
    transactions, commits, syncs = [], [], []
    with path.with_name("bare").open("wb", buffering=0) as bare:
        for row, (_, answer) in zip(begun[20:], pairs[20:], strict=True):
            began = time.perf_counter()
            worked = _finish_turn(database, row, answer)
            middle = time.perf_counter()
            bare.write(bytes(commit_bytes))
            os.fsync(bare.fileno())
            transactions.append((middle - began) * 1000)
            commits.append((middle - worked) * 1000)
            syncs.append((time.perf_counter() - middle) * 1000)
    return {
        "commit_bytes": commit_bytes,
        "transaction_p50_ms": percentile(transactions, 50),
        "transaction_p95_ms": percentile(transactions, 95),
        "transaction_max_ms": percentile(transactions, 100),
        "commit_p95_ms": percentile(commits, 95),
        "fsync_p50_ms": percentile(syncs, 50),
        "fsync_p95_ms": percentile(syncs, 95),
        "commit_to_fsync_p95": round(percentile(commits, 95) / percentile(syncs, 95), 2),
        "transaction_to_fsync_p95": round(percentile(transactions, 95) / percentile(syncs, 95), 2),
    }


def held_bytes(connection: Connection) -> tuple[int, int]:
    """The bytes that people and models put in: all of it, and of that the exact texts sent to the model."""
    columns = (message.c.content, message.c.tool_calls, message.c.sent)
    texts = connection.execute(select(*map(_total_bytes, columns))).one()
    prompts = connection.execute(select(_total_bytes(system_prompt.c.content))).scalar_one()
    return int(sum(texts) + prompts), int(texts[-1])


def percentile(values: Sequence[float], percent: int) -> float:
    ordered = sorted(values)
    return round(ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)], 2)


def _total_bytes(column: Column[str]) -> ColumnElement[int]:
    return func.coalesce(func.sum(func.length(cast(column, LargeBinary))), 0)


def _people(connection: Connection, house: House, streams: Sequence[MadeUpStream]) -> None:
    for number in range(PEOPLE):
        name = name_of(number)
        owner = insert(person).values(slug=f"p{number}", name=name).returning(person.c.id)
        row = {"platform": "telegram", "user_id": str(number), "label": name, "source": "open"}
        made = insert(account).values(person_id=connection.execute(owner).scalar_one(), **row)
        house.accounts.append(connection.execute(made.returning(account.c.id)).scalar_one())
    for one in streams:
        values = {"account_id": house.accounts[one.members[0]]}
        if one.is_room:
            slug = f"room{one.number}"
            opened = insert(room).values(slug=slug, platform="telegram", chat=slug).returning(room.c.id)
            values = {"room_id": connection.execute(opened).scalar_one()}
            joined = [{**values, "account_id": house.accounts[member]} for member in one.members]
            connection.execute(insert(room_member), joined)
        house.streams[one.number] = connection.execute(
            insert(stream).values(**values).returning(stream.c.id)
        ).scalar_one()
    prompts = [{"hash": str(n), "content": f"{n} " + "prompt " * (PROMPT_CHARS // 7)} for n in range(PEOPLE)]
    connection.execute(insert(system_prompt), prompts)


def _sessions(connection: Connection, house: House, batch: Sequence[MadeUpSession]) -> list[int]:
    return [
        connection.execute(
            insert(session)
            .values(
                public_id=sessions.new_public_id(),
                stream_id=house.streams[one.stream.number],
                platform="telegram",
                tenant="bench",
                chat=str(one.stream.number),
                title=one.title,
                model="made-up",
                snapshot="[]",
                prompt_hash=str(one.stream.members[0]),
                started_ms=one.started_ms,
                ended_ms=one.started_ms,
            )
            .returning(session.c.id)
        ).scalar_one()
        for one in batch
    ]


def _messages(
    house: House, words: Words, chance: random.Random, one: MadeUpSession, row: int
) -> Iterator[NewMessage]:
    for place in range(one.messages):
        text = words.text(chance, is_chinese=one.is_chinese)
        author = house.accounts[chance.choice(one.stream.members)]
        if 0 in one.stream.members and place == 3:
            (house.chinese if one.is_chinese else house.english).append(text)
        is_answer = place % 2 == 1
        created_ms = one.started_ms + place * 1000
        written = datetime.fromtimestamp(created_ms / 1000, UTC)
        yield NewMessage(
            session_id=row,
            role="assistant" if is_answer else "user",
            content=text,
            sent=None if is_answer else compose_user_text(text, written),
            created_ms=created_ms,
            account_id=None if is_answer else author,
            finish_reason="stop" if is_answer else "",
            platform_ids=() if is_answer else (str(1_000_000 + one.number * 50 + place),),
        )


def _begin_turn(database: Database, house: House, session_id: int, asked: str) -> turns.TurnRow:
    def work(connection: Connection) -> turns.TurnRow:
        owner = AccountId(house.accounts[0])
        row = turns.begin(connection, session_id, house.streams[0], owner, "bench", 1)
        add_message(connection, NewMessage(session_id, "user", asked, 1, owner, row.key.turn))
        return row

    return database.write_now(work)


def _finish_turn(database: Database, row: turns.TurnRow, answer: str) -> float:
    """Commits the end of a turn; returns when the work was done and COMMIT began."""
    where = Plan(f"t:{row.key.turn}", "telegram", "bench", "commits", "", row.key.turn)

    def work(connection: Connection) -> float:
        turns.end(connection, row.key, "done", "done", 2)
        answered = AssistantMessage(answer, finish_reason="stop")
        add_message(connection, said(row, answered, 2, step_n=0, mask=str))
        outbox.plan(connection, where, [json.dumps({"text": answer})], 2)
        inbox.finish(connection, [row.key.turn], "done", "done", 2)
        turns.add_usage(connection, row, [Spent("chat", "made-up", Usage(900, 800, 60))], None, 2)
        return time.perf_counter()

    return database.write_now(work)


def _question(chance: random.Random, topical: Sequence[str]) -> str:
    about = chance.sample(sorted(set(topical)), min(len(set(topical)), chance.randrange(3, 7)))
    return f"What did {name_of(chance.randrange(5))} say about the {' and the '.join(about)}?"


def _of_kinds(chance: random.Random, topical: Sequence[str]) -> str:
    """Names as many kinds as a search looks up, beside words of a message."""
    asked = [*chance.sample(KINDS, MAX_KINDS), *dict.fromkeys(topical[:2])]
    return f"What did {name_of(chance.randrange(5))} say about the {' and the '.join(asked)}?"


def _words_of(text: str) -> list[str]:
    return [word.strip(".").lower() for word in text.split()]


def _pairs_of(text: str) -> Iterator[str]:
    return (text[place : place + 2] for place in range(len(text) - 1))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.search_speed", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--messages", type=int, default=1_000_000, help="how many there are in the file")
    parser.add_argument("--folder", type=Path, help="where to make the file; the system's temporary one else")
    parser.add_argument("--json", action="store_true", help="one JSON object of numbers as the last line")
    return parser.parse_args()


if __name__ == "__main__":
    main()
