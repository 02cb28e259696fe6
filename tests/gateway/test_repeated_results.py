"""A tool that returns the same page in every turn: the file holds the page, not a copy for each turn."""

import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel
from sqlalchemy import Connection, select

from tests.gateway.rows import add_person, add_session, direct_stream, person_scope
from trunkline.agent.calls import SAME_AS_LATER
from trunkline.agent.loop import run_turn
from trunkline.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, Usage, UserMessage
from trunkline.agent.model import ModelDone, ModelEvent, ModelRequest
from trunkline.agent.scope import AccountId
from trunkline.agent.tools.base import Tool, ToolContext, ToolResult
from trunkline.agent.turn import TurnEnded, TurnLimits, TurnRequest
from trunkline.gateway.state import turns
from trunkline.gateway.state.checks import check
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.messages import NewMessage, add_message, load_history, set_message_state
from trunkline.gateway.state.schema import message
from trunkline.gateway.state.turns import StoreRecorder, TurnRow, said

ANA = person_scope("ana")
TURNS = 24
PUT_AWAY_EVERY = 12
PAGE_CHARS = 100_000
NOW = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)


class Nothing(BaseModel):
    pass


class Reader:
    """A model that reads the page in every turn, and then answers."""

    name = "reader"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        turn = sum(isinstance(one, UserMessage) for one in request.messages)
        if isinstance(request.messages[-1], ToolMessage):
            yield ModelDone(AssistantMessage(words(f"answer {turn}"), finish_reason="stop"), Usage())
        else:
            call = ToolCall(f"c{turn}", "page", "{}")
            yield ModelDone(AssistantMessage("", (call,), "tool_calls"), Usage())


def words(seed: str) -> str:
    """Some hundred words that no other seed gives."""
    chance = random.Random(seed)
    return " ".join(f"{chance.choice('bdfgklmnprst')}{chance.choice('aeiou')}{n}" for n in range(100))


PAGE = "".join(words(f"line {n}") + "\n" for n in range(200))[:PAGE_CHARS]


def tool(text: str) -> Tool[Nothing]:
    async def read(given: Nothing, context: ToolContext) -> ToolResult:
        return ToolResult(text)

    return Tool(name="page", description="Reads the page.", arguments=Nothing, run=read, read_only=True)


# What stands for a secret is stored in its place.
PAGE_WITH_A_SECRET = PAGE + "\nIts key is sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc" + ".\n"


async def test_the_same_long_result_in_every_turn_is_stored_once_whatever_compaction_puts_away(
    sqlite_database: Database, tmp_path: Path
) -> None:
    account = await sqlite_database.write(lambda c: add_person(c, "ana"))
    await sqlite_database.scrub()
    grown_bytes = []
    for name, text in (("short", "Nothing new."), ("long", PAGE), ("masked", PAGE_WITH_A_SECRET)):
        before_bytes = (tmp_path / "state.db").stat().st_size
        results = await converse(sqlite_database, account, name, tool(text))
        await sqlite_database.scrub()
        grown_bytes.append((tmp_path / "state.db").stat().st_size - before_bytes)
        assert len(results) == TURNS
        assert sum(len(one) > 1000 for one in results) == (name != "short")
        taken_over = SAME_AS_LATER.format(chars=max(map(len, results)))
        assert results.count(taken_over) == (0 if name == "short" else TURNS // PUT_AWAY_EVERY - 1)

    for grown in grown_bytes[1:]:
        assert grown - grown_bytes[0] < 1.5 * PAGE_CHARS
    # The index has lost the older copy, too.
    assert [one for one in check(sqlite_database) if not one.fine] == []


async def converse(database: Database, account: int, name: str, page: Tool[Nothing]) -> list[str]:
    """A conversation in every turn of which the page is read; returns what is stored of the results."""

    def begin(connection: Connection) -> tuple[int, int]:
        stream = direct_stream(connection, account)
        return add_session(connection, stream, name), stream

    where = await database.write(begin)
    for number in range(1, TURNS + 1):
        await one_turn(database, where, page, f"question {number} " + words(f"question {number}"))
        if number % PUT_AWAY_EVERY == 0 and number < TURNS:
            await database.write(lambda c: put_away(c, where[0]))
    stored = select(message.c.content).where(message.c.session_id == where[0], message.c.role == "tool")
    return list(await database.read(lambda c: c.execute(stored).scalars().all()))


async def one_turn(database: Database, where: tuple[int, int], page: Tool[Nothing], asked: str) -> None:
    def begin(connection: Connection) -> tuple[TurnRow, tuple[Message, ...]]:
        row = turns.begin(connection, *where, AccountId(1), "me", 1)
        history = load_history(connection, ANA, where[0])
        add_message(connection, NewMessage(where[0], "user", asked, 1, 1, row.key.turn))
        return row, history

    row, history = await database.write(begin)
    request = TurnRequest(
        scope=ANA,
        session="s1",
        turn=row.key.turn,
        system="You read pages.",
        history=history,
        user=UserMessage(asked, asked),
        tools=(page,),
        platform="telegram",
        now=NOW,
    )
    recorder = StoreRecorder(database, row, None, str)
    ended: TurnEnded | None = None
    async with aclosing(run_turn(request, model=Reader(), recorder=recorder, limits=TurnLimits())) as events:
        async for event in events:
            ended = event if isinstance(event, TurnEnded) else ended
    assert ended is not None
    answer = ended.message
    assert answer is not None

    def end(connection: Connection) -> None:
        add_message(connection, said(row, answer, 2, step_n=0, mask=str))
        turns.end(connection, row.key, "done", "done", 2)

    await database.write(end)


def put_away(connection: Connection, session_id: int) -> None:
    """Compaction, as far as messages go: the oldest are no longer shown to the model."""
    live = select(message.c.id).where(message.c.session_id == session_id, message.c.state == "live")
    ids = list(connection.execute(live.order_by(message.c.seq)).scalars())
    set_message_state(connection, ANA, ids[:-8], "compacted")
