"""When a conversation is reviewed, what of it is kept, and what the person is told."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, insert, select, update

from tests.gateway.inbound import direct, in_room
from tests.gateway.rows import add_person, add_room, add_session, direct_stream, person_scope, room_scope
from trunkline.agent.memory.entries import MemoryLimits
from trunkline.agent.memory.operations import Operation
from trunkline.agent.memory.outcomes import Written
from trunkline.agent.memory.store import FileMemoryStore
from trunkline.agent.messages import AssistantMessage, ToolCall, Usage, UserMessage
from trunkline.agent.model import FailureKind, ModelDone, ModelEvent, ModelFailure, ModelRequest
from trunkline.agent.ports import JournalEntry, Target, WriteOrigin
from trunkline.agent.scope import AccountId, PersonId, Scope
from trunkline.agent.tokens import estimate_messages
from trunkline.agent.tools.memory import memory_tool
from trunkline.gateway import memory_approval
from trunkline.gateway.clock import now_ms
from trunkline.gateway.delivery import Delivery
from trunkline.gateway.opening import Opened
from trunkline.gateway.payloads import load_outbound
from trunkline.gateway.review import ENDED_TURNS, Reviews, notice
from trunkline.gateway.settings import Memory
from trunkline.gateway.state import journal, notes, people, reviews, sessions
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.journal import StoreJournal
from trunkline.gateway.state.messages import NewMessage, add_message
from trunkline.gateway.state.reviews import Mark
from trunkline.gateway.state.schema import (
    compaction,
    message,
    outbox,
    session,
    system_prompt,
    turn,
    usage,
)
from trunkline.gateway.state.turns import TurnKey, TurnRow

EVERY = 3
NOTHING = AssistantMessage("Nothing to save.")
NOW = datetime(2026, 5, 3, 9, 0, tzinfo=UTC)


def saves(content: str, target: str = "user") -> AssistantMessage:
    arguments = json.dumps({"action": "add", "target": target, "content": content})
    return AssistantMessage("", (ToolCall("r1", "memory", arguments),), "tool_calls")


class ScriptedModel:
    """Answers with `answers` in order, then `Nothing to save.`; while `open` is not set, it thinks.

    It never comes back from the request number `hangs_at`.
    """

    name = "scripted"

    def __init__(self, *answers: AssistantMessage | ModelFailure) -> None:
        self.answers = list(answers)
        self.requests: list[ModelRequest] = []
        self.hangs_at = 0
        self.open = asyncio.Event()
        self.open.set()
        self.asked = asyncio.Condition()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.requests.append(request)
        async with self.asked:
            self.asked.notify_all()
        await self.open.wait()
        if len(self.requests) == self.hangs_at:
            await asyncio.Event().wait()
        answer = self.answers.pop(0) if self.answers else NOTHING
        yield answer if isinstance(answer, ModelFailure) else ModelDone(answer, Usage(100, 90, 5))

    async def is_asked(self, times: int) -> None:
        async with asyncio.timeout(60), self.asked:
            await self.asked.wait_for(lambda: len(self.requests) >= times)

    def instruction(self, number: int = -1) -> str:
        last = self.requests[number].messages[-1]
        assert isinstance(last, UserMessage)
        return last.text


class Chat:
    """One session: its turns happen here without a model."""

    def __init__(self, database: Database, scope: Scope, account: int, session_id: int) -> None:
        self.database = database
        self.scope = scope
        self.account = AccountId(account)
        self.session = session_id
        self.text = "hello"

    def talk(self, turns: int = 1, *, state: str = "done") -> Opened:
        """Turns that have come to their end; returns the last one."""
        for _ in range(turns):
            opened = self.database.write_now(lambda c: self._turn(c, state))
        return opened

    def _turn(self, connection: Connection, state: str) -> Opened:
        began = insert(turn).values(
            session_id=self.session, account_id=self.account, state=state, started_ms=1
        )
        turn_id = connection.execute(began.returning(turn.c.id)).scalar_one()
        sent = f"⟦line of turn {turn_id}⟧\n{self.text}"
        add_message(
            connection, NewMessage(self.session, "user", self.text, 1, self.account, turn_id, sent=sent)
        )
        if state == "done":
            add_message(connection, NewMessage(self.session, "assistant", "Yes.", 1, turn_id=turn_id))
        found = sessions.load(connection, self.session)
        account = people.load_account(connection, self.account)
        room = None if isinstance(self.scope, type(person_scope("x"))) else people.load_room(connection, 1)
        row = TurnRow(TurnKey(turn_id, 1), self.session, found.stream, self.account)
        inbound = direct(self.text) if room is None else in_room(self.text)
        user = UserMessage(self.text, sent)
        return Opened(row, found, self.scope, account, room, inbound, (), user, (), NOW, "en")


def start_chat(database: Database, slug: str, public_id: str, account: int | None = None) -> Chat:
    """A direct chat of a person, who is made when no account of theirs is given."""

    def work(connection: Connection) -> tuple[int, int]:
        owner = add_person(connection, slug) if account is None else account
        return owner, open_session(connection, direct_stream(connection, owner), public_id)

    owner, session_id = database.write_now(work)
    return Chat(database, person_scope(slug), owner, session_id)


def open_session(connection: Connection, stream: int, public_id: str, **values: object) -> int:
    known = select(system_prompt.c.hash).where(system_prompt.c.hash == "h")
    if connection.execute(known).first() is None:
        connection.execute(insert(system_prompt).values(hash="h", content="You are Trunkline."))
    return add_session(connection, stream, public_id, prompt_hash="h", snapshot="{}", **values)


def due(chat: Chat, opened: Opened, every: int = EVERY) -> reviews.Due | None:
    return chat.database.read_now(
        lambda c: reviews.find_due(c, chat.scope, chat.session, opened.row.key.turn, every)
    )


# What is due


def test_a_review_is_due_at_the_nth_turn_and_not_before(database: Database) -> None:
    chat = start_chat(database, "ana", "s1")

    assert due(chat, chat.talk(EVERY - 1)) is None
    found = due(chat, chat.talk())

    assert found is not None
    assert len(found.history) == 2 * EVERY
    assert len(found.new) == EVERY
    assert found.session.prompt == "You are Trunkline."


@pytest.mark.parametrize(("actor", "is_due"), [("tool", False), ("review", True), ("command", True)])
def test_a_write_by_the_model_itself_starts_the_count_anew(
    database: Database, actor: Any, is_due: bool
) -> None:
    chat = start_chat(database, "ana", "s1")
    wrote = chat.talk(EVERY - 1).row.key.turn

    def work(connection: Connection) -> None:
        entry = JournalEntry("user", "add", (), ("Likes tea.",))
        origin = WriteOrigin(actor, "telegram", "s1", wrote)
        row = journal.begin(connection, chat.scope, entry, origin, 1)
        journal.settle(connection, chat.scope, row, done=True)

    database.write_now(work)

    assert (due(chat, chat.talk()) is not None) is is_due
    later = due(chat, chat.talk(EVERY - 1))
    assert later is not None
    assert len(later.new) == 2 * EVERY - 1


def test_each_message_is_due_once(database: Database) -> None:
    chat = start_chat(database, "ana", "s1")
    last = chat.talk(EVERY).row.key.turn
    database.write_now(lambda c: reviews.put_mark(c, "s1", Mark(last, last)))
    chat.text = "something new"

    assert due(chat, chat.talk(EVERY - 1)) is None
    found = due(chat, chat.talk())

    assert found is not None
    assert [said.text for said in found.new] == ["something new"] * EVERY
    assert len(found.history) == 4 * EVERY


def test_after_a_failed_try_everything_is_due_again_after_as_many_turns(database: Database) -> None:
    chat = start_chat(database, "ana", "s1")
    tried = chat.talk(EVERY).row.key.turn
    database.write_now(lambda c: reviews.put_mark(c, "s1", Mark(0, tried)))

    assert due(chat, chat.talk(EVERY - 1)) is None
    found = due(chat, chat.talk())

    assert found is not None
    assert len(found.new) == 2 * EVERY


@pytest.mark.parametrize("values", [{"private": True}, {"prompt_hash": None}])
def test_a_private_session_and_one_whose_prompt_was_withdrawn_are_never_due(
    database: Database, values: dict[str, Any]
) -> None:
    chat = start_chat(database, "ana", "s1")
    database.write_now(lambda c: c.execute(update(session).values(**values)))

    assert due(chat, chat.talk(4 * EVERY)) is None


def test_what_was_taken_back_is_not_reviewed(database: Database) -> None:
    chat = start_chat(database, "ana", "s1")
    last = chat.talk(EVERY)
    database.write_now(lambda c: c.execute(update(message).values(state="undone")))

    assert due(chat, last) is None


def test_a_turn_that_runs_already_is_left_out(database: Database) -> None:
    chat = start_chat(database, "ana", "s1")
    ended = chat.talk(EVERY)
    chat.text = "and now this"
    chat.talk(state="running")

    found = due(chat, ended)

    assert found is not None
    assert len(found.history) == 2 * EVERY
    assert "and now this" not in str(found)


def test_one_process_at_a_time_may_review_a_person(database: Database) -> None:
    def claim(slug: str, process: str, now_ms: int) -> bool:
        return database.write_now(
            lambda c: reviews.claim(c, person_scope(slug), process, now_ms, now_ms + 100)
        )

    assert claim("ana", "one", 1_000)
    assert not claim("ana", "two", 1_050)
    assert claim("bo", "two", 1_050)
    assert claim("ana", "two", 1_100)

    database.write_now(lambda c: reviews.release(c, person_scope("ana"), "one"))
    assert not claim("ana", "one", 1_150)
    database.write_now(lambda c: reviews.release(c, person_scope("ana"), "two"))
    assert claim("ana", "one", 1_150)


# Reviews running


@pytest.fixture
def store(tmp_path: Path, sqlite_database: Database) -> FileMemoryStore:
    return FileMemoryStore(tmp_path, MemoryLimits(), StoreJournal(sqlite_database))


@asynccontextmanager
async def reviewing(
    database: Database, store: FileMemoryStore, model: ScriptedModel, **settings: Any
) -> AsyncIterator[Reviews]:
    """Reviews that run until the context ends, which cancels them."""
    tools = (memory_tool(store),)
    chosen = Memory(**{"review_every": EVERY, **settings})
    made = Reviews(database, store, Delivery(database), model, tools, chosen, "this process")
    async with asyncio.TaskGroup() as group:
        running = group.create_task(made.run())
        await asyncio.sleep(0)
        try:
            yield made
        finally:
            running.cancel()


async def ended() -> None:
    """Returns when no review is running or looked at any more."""
    tasks = [task for task in asyncio.all_tasks() if task.get_name() == "review"]
    _, late = await asyncio.wait(tasks, timeout=60) if tasks else (None, set())
    assert not late


def notices(database: Database) -> list[str]:
    rows = database.read_now(
        lambda c: c.execute(select(outbox.c.payload).order_by(outbox.c.id)).scalars().all()
    )
    return [load_outbound(row).chunk.text for row in rows]


def mark(database: Database, public_id: str = "s1") -> Mark:
    return database.read_now(lambda c: reviews.load_mark(c, public_id))


async def test_what_a_review_saves_is_told_quietly_in_one_line_with_how_to_undo_it(
    sqlite_database: Database, store: FileMemoryStore
) -> None:
    chat = start_chat(sqlite_database, "ana", "s1")
    model = ScriptedModel(saves("User is a nurse."))
    said_before = everything(sqlite_database)

    async with reviewing(sqlite_database, store, model) as running:
        last = chat.talk(EVERY)
        said_before = everything(sqlite_database)
        running.after_turn(last)
        await ended()

    (row,) = sqlite_database.read_now(lambda c: c.execute(select(outbox)).all())
    told = load_outbound(row.payload)
    assert told.chunk.text == "Noted: User is a nurse. — `/memory undo` takes it back."
    assert told.quiet
    assert (row.platform, row.chat, row.state) == ("telegram", "s1", "planned")
    assert (await store.read(chat.scope)).user == ("User is a nurse.",)
    assert everything(sqlite_database) == said_before
    assert mark(sqlite_database) == Mark(last.row.key.turn, last.row.key.turn)


def everything(database: Database) -> Sequence[Any]:
    """All messages, and what sessions tell of themselves in lists."""
    return database.read_now(
        lambda c: [
            c.execute(select(message).order_by(message.c.id)).all(),
            c.execute(select(session.c.message_count, session.c.last_ms, session.c.title)).all(),
        ]
    )


async def test_its_cost_is_counted_under_its_own_name(
    sqlite_database: Database, store: FileMemoryStore
) -> None:
    chat = start_chat(sqlite_database, "ana", "s1")
    async with reviewing(sqlite_database, store, ScriptedModel(saves("Likes tea."))) as running:
        running.after_turn(chat.talk(EVERY))
        await ended()

    rows = sqlite_database.read_now(lambda c: c.execute(select(usage)).all())
    assert [(row.purpose, row.account_id, row.session_id, row.cached_tokens) for row in rows] == [
        ("review", chat.account, chat.session, 90)
    ] * 2


async def test_nothing_is_said_when_nothing_changed(
    sqlite_database: Database, store: FileMemoryStore
) -> None:
    chat = start_chat(sqlite_database, "ana", "s1")
    origin = WriteOrigin("command", "telegram")
    await store.apply(chat.scope, "user", [Operation("add", "Likes tea.")], origin)
    async with reviewing(sqlite_database, store, ScriptedModel(saves("Likes tea."))) as running:
        running.after_turn(chat.talk(EVERY))
        await ended()

    assert notices(sqlite_database) == []
    assert mark(sqlite_database).reviewed > 0


async def test_notifications_can_be_switched_off(sqlite_database: Database, store: FileMemoryStore) -> None:
    chat = start_chat(sqlite_database, "ana", "s1")
    model = ScriptedModel(saves("Likes tea."))
    async with reviewing(sqlite_database, store, model, notifications=False) as running:
        running.after_turn(chat.talk(EVERY))
        await ended()

    assert notices(sqlite_database) == []
    assert (await store.read(chat.scope)).user == ("Likes tea.",)


@pytest.mark.parametrize("turns", [EVERY - 1, EVERY])
async def test_it_asks_the_model_only_when_a_review_is_due(
    turns: int, sqlite_database: Database, store: FileMemoryStore
) -> None:
    chat, model = start_chat(sqlite_database, "ana", "s1"), ScriptedModel()
    async with reviewing(sqlite_database, store, model) as running:
        running.after_turn(chat.talk(turns))
        await ended()

    assert len(model.requests) == (1 if turns == EVERY else 0)


async def test_reviews_can_be_switched_off(sqlite_database: Database, store: FileMemoryStore) -> None:
    chat, model = start_chat(sqlite_database, "ana", "s1"), ScriptedModel()
    async with reviewing(sqlite_database, store, model, review_every=0) as running:
        running.after_turn(chat.talk(EVERY))
        await ended()

    assert model.requests == []


async def test_the_next_review_begins_where_the_last_one_ended_also_after_a_restart(
    sqlite_database: Database, store: FileMemoryStore
) -> None:
    chat, model = start_chat(sqlite_database, "ana", "s1"), ScriptedModel()
    for turns in (EVERY, EVERY - 1, 1):
        async with reviewing(sqlite_database, store, model) as running:
            last = chat.talk(turns)
            running.after_turn(last)
            await ended()

    assert len(model.requests) == 2
    assert f"last {EVERY} messages" in model.instruction()
    assert f"⟦line of turn {last.row.key.turn - EVERY + 1}⟧" in model.instruction()
    assert len(model.requests[1].messages) == 4 * EVERY + 1


def end(chat: Chat, public_id: str) -> Chat:
    """Ends a conversation, as `/new` does, and begins another in the same chat."""

    def work(connection: Connection) -> int:
        ended = {"ended_ms": now_ms(), "end_reason": "new"}
        connection.execute(update(session).where(session.c.id == chat.session).values(ended))
        return open_session(connection, direct_stream(connection, chat.account), public_id)

    return Chat(chat.database, chat.scope, chat.account, chat.database.write_now(work))


async def test_what_is_left_at_a_conversations_end_is_reviewed_once_the_person_writes_again(
    sqlite_database: Database, store: FileMemoryStore
) -> None:
    chat, model = start_chat(sqlite_database, "ana", "s1"), ScriptedModel(saves("Plays the cello."))
    async with reviewing(sqlite_database, store, model, review_every=10) as running:
        last = chat.talk(ENDED_TURNS)
        running.after_turn(last)
        await ended()
        assert model.requests == []

        following = end(chat, "s2")
        for _ in range(2):
            running.after_turn(following.talk())
            await ended()

    assert len(model.requests) == 2
    assert f"last {ENDED_TURNS} messages" in model.instruction(0)
    assert len(model.requests[0].messages) == 2 * ENDED_TURNS + 1
    assert mark(sqlite_database).reviewed == last.row.key.turn
    assert (await store.read(chat.scope)).user == ("Plays the cello.",)
    assert len(notices(sqlite_database)) == 1


async def test_fewer_turns_at_a_conversations_end_are_left_at_that(
    sqlite_database: Database, store: FileMemoryStore
) -> None:
    chat, model = start_chat(sqlite_database, "ana", "s1"), ScriptedModel()
    chat.talk(ENDED_TURNS - 1)
    async with reviewing(sqlite_database, store, model) as running:
        running.after_turn(end(chat, "s2").talk())
        await ended()

    assert model.requests == []


async def test_a_review_of_an_ended_conversation_that_failed_is_tried_again_during_the_next_one(
    sqlite_database: Database, store: FileMemoryStore
) -> None:
    """MEM-14: what a model that was down at the wrong moment has not learnt is learnt later."""
    chat = start_chat(sqlite_database, "ana", "s1")
    model = ScriptedModel(ModelFailure(FailureKind.DOWN), saves("Plays the cello."))
    last = chat.talk(ENDED_TURNS)
    following = end(chat, "s2")
    async with reviewing(sqlite_database, store, model, review_every=10) as running:
        for asked in (1, *[1] * (ENDED_TURNS - 1), 3, 3):
            running.after_turn(following.talk())
            await ended()
            assert len(model.requests) == asked

    assert (await store.read(chat.scope)).user == ("Plays the cello.",)
    assert mark(sqlite_database).reviewed == last.row.key.turn


async def test_what_a_failed_review_left_is_reviewed_when_the_conversation_ends_soon_after(
    sqlite_database: Database, store: FileMemoryStore
) -> None:
    chat = start_chat(sqlite_database, "ana", "s1")
    model = ScriptedModel(ModelFailure(FailureKind.DOWN), saves("Plays the cello."))
    async with reviewing(sqlite_database, store, model) as running:
        running.after_turn(chat.talk(EVERY))
        await ended()
        running.after_turn(chat.talk())
        await ended()
        assert len(model.requests) == 1
        running.after_turn(end(chat, "s2").talk())
        await ended()

    assert f"last {EVERY + 1} messages" in model.instruction(1)
    assert (await store.read(chat.scope)).user == ("Plays the cello.",)


async def test_the_end_of_a_conversation_held_while_memory_was_paused_is_not_reviewed(
    sqlite_database: Database, store: FileMemoryStore
) -> None:
    chat, model = start_chat(sqlite_database, "ana", "s1"), ScriptedModel()
    chat.talk(ENDED_TURNS)
    sqlite_database.write_now(lambda c: memory_approval.pause(c, PersonId("ana"), 1))
    following = end(chat, "s2")
    async with reviewing(sqlite_database, store, model) as running:
        running.after_turn(following.talk())
        await ended()
        sqlite_database.write_now(lambda c: memory_approval.resume(c, PersonId("ana")))
        running.after_turn(following.talk())
        await ended()

    assert model.requests == []


async def test_a_failing_model_is_asked_again_after_as_many_turns_about_all_of_them(
    sqlite_database: Database, store: FileMemoryStore
) -> None:
    chat, model = start_chat(sqlite_database, "ana", "s1"), ScriptedModel(ModelFailure(FailureKind.DOWN))
    async with reviewing(sqlite_database, store, model) as running:
        for turns, asked in ((EVERY, 1), (EVERY - 1, 1), (1, 2)):
            running.after_turn(chat.talk(turns))
            await ended()
            assert len(model.requests) == asked

    assert f"last {2 * EVERY} messages" in model.instruction()
    assert mark(sqlite_database).reviewed > 0


async def test_two_sessions_of_a_person_are_reviewed_one_after_the_other(
    sqlite_database: Database, store: FileMemoryStore
) -> None:
    chat = start_chat(sqlite_database, "ana", "s1")
    other = start_chat(sqlite_database, "ana", "s2", chat.account)
    model = ScriptedModel()
    model.open.clear()
    async with reviewing(sqlite_database, store, model) as running:
        running.after_turn(chat.talk(EVERY))
        running.after_turn(other.talk(EVERY))
        await model.is_asked(1)
        await other_work(sqlite_database)
        assert len(model.requests) == 1
        model.open.set()
        await ended()

    assert len(model.requests) == 2


async def other_work(database: Database) -> None:
    """Long enough for whatever could have begun to have begun."""
    for _ in range(20):
        await database.read(lambda c: c.execute(select(message.c.id)).all())


async def test_two_people_are_reviewed_beside_each_other(
    sqlite_database: Database, store: FileMemoryStore
) -> None:
    ana, bo = start_chat(sqlite_database, "ana", "s1"), start_chat(sqlite_database, "bo", "s2")
    model = ScriptedModel()
    model.open.clear()
    async with reviewing(sqlite_database, store, model) as running:
        running.after_turn(ana.talk(EVERY))
        running.after_turn(bo.talk(EVERY))
        await model.is_asked(2)
        model.open.set()
        await ended()


async def test_a_person_whom_another_process_reviews_waits_for_a_later_turn(
    sqlite_database: Database, store: FileMemoryStore
) -> None:
    chat, model = start_chat(sqlite_database, "ana", "s1"), ScriptedModel()
    sqlite_database.write_now(lambda c: reviews.claim(c, chat.scope, "another process", 1, 10**15))
    async with reviewing(sqlite_database, store, model) as running:
        running.after_turn(chat.talk(EVERY))
        await ended()
        assert model.requests == []

        sqlite_database.write_now(lambda c: reviews.release(c, chat.scope, "another process"))
        running.after_turn(chat.talk())
        await ended()

    assert f"last {EVERY + 1} messages" in model.instruction()


async def test_a_review_cut_off_by_the_end_of_the_process_is_held_again_and_what_it_saved_told_once(
    sqlite_database: Database, store: FileMemoryStore
) -> None:
    chat, model = start_chat(sqlite_database, "ana", "s1"), ScriptedModel(saves("Likes tea."))
    model.hangs_at = 2
    async with reviewing(sqlite_database, store, model) as running:
        running.after_turn(chat.talk(EVERY))
        await model.is_asked(2)

    assert mark(sqlite_database) == Mark()
    assert sqlite_database.write_now(lambda c: reviews.claim(c, chat.scope, "another process", 1, 2))
    model.answers = [saves("Likes tea.")]
    async with reviewing(sqlite_database, store, model) as running:
        running.after_turn(chat.talk())
        await ended()

    assert f"last {EVERY + 1} messages" in model.instruction(2)
    assert mark(sqlite_database) == Mark(EVERY + 1, EVERY + 1)
    assert notices(sqlite_database) == ["Noted: Likes tea. — `/memory undo` takes it back."]


async def test_a_turn_that_ends_during_a_review_is_reviewed_after_it_when_due(
    sqlite_database: Database, store: FileMemoryStore
) -> None:
    chat, model = start_chat(sqlite_database, "ana", "s1"), ScriptedModel()
    model.open.clear()
    async with reviewing(sqlite_database, store, model, review_every=1) as running:
        running.after_turn(chat.talk())
        await model.is_asked(1)
        running.after_turn(chat.talk())
        model.open.set()
        await ended()

    assert [len(request.messages) for request in model.requests] == [3, 5]


async def test_in_a_room_only_the_rooms_memory_is_written_and_the_room_is_told(
    sqlite_database: Database, store: FileMemoryStore
) -> None:
    def work(connection: Connection) -> tuple[int, int]:
        ana = add_person(connection, "ana")
        stream = add_room(connection, "discord-1", ana)
        return ana, open_session(connection, stream, "s1", platform="discord", thread="plans")

    ana, session_id = sqlite_database.write_now(work)
    chat = Chat(sqlite_database, room_scope("discord-1", ana), ana, session_id)
    model = ScriptedModel(saves("Ana is a nurse."), saves("We meet on Mondays.", "memory"))
    async with reviewing(sqlite_database, store, model) as running:
        running.after_turn(chat.talk(EVERY))
        await ended()

    assert (await store.read(chat.scope)).memory == ("We meet on Mondays.",)
    assert not (await store.read(person_scope("ana"))).user
    (row,) = sqlite_database.read_now(lambda c: c.execute(select(outbox)).all())
    assert (row.platform, row.thread) == ("discord", "plans")
    assert notices(sqlite_database) == ["Noted: We meet on Mondays. — Tell me if that is wrong."]
    assert "shared room" in model.instruction(0)


async def test_what_was_learnt_elsewhere_meanwhile_is_told_to_the_reviewer(
    sqlite_database: Database, store: FileMemoryStore
) -> None:
    chat, model = start_chat(sqlite_database, "ana", "s1"), ScriptedModel()
    origin = WriteOrigin("tool", "discord", "s9")
    await store.apply(chat.scope, "user", [Operation("add", "Lives in Berlin.")], origin)
    async with reviewing(sqlite_database, store, model) as running:
        running.after_turn(chat.talk(EVERY))
        await ended()

    assert "Lives in Berlin." in model.instruction()


async def test_what_is_said_while_memory_is_paused_is_never_reviewed(
    sqlite_database: Database, store: FileMemoryStore
) -> None:
    chat, model = start_chat(sqlite_database, "ana", "s1"), ScriptedModel()
    chat.text = "said in the pause"
    slug = PersonId("ana")
    sqlite_database.write_now(lambda c: memory_approval.pause(c, slug, 1))
    async with reviewing(sqlite_database, store, model) as running:
        running.after_turn(chat.talk(EVERY))
        await ended()
        assert model.requests == []

        sqlite_database.write_now(lambda c: memory_approval.resume(c, slug))
        running.after_turn(chat.talk(EVERY - 1))
        await ended()
        assert model.requests == []
        running.after_turn(chat.talk())
        await ended()

    assert f"last {EVERY} messages" in model.instruction()
    assert f"⟦line of turn {EVERY + 1}⟧" in model.instruction()


class BrokenModel(ScriptedModel):
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        if not self.requests:
            self.requests.append(request)
            raise RuntimeError("a fault of ours")
        async for event in super().stream(request):
            yield event


async def test_a_fault_in_one_review_takes_no_other_with_it(
    sqlite_database: Database, store: FileMemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    ana, bo = start_chat(sqlite_database, "ana", "s1"), start_chat(sqlite_database, "bo", "s2")
    model = BrokenModel()
    async with reviewing(sqlite_database, store, model) as running:
        running.after_turn(ana.talk(EVERY))
        await ended()
        running.after_turn(bo.talk(EVERY))
        await ended()

    assert len(model.requests) == 2
    assert mark(sqlite_database, "s2").reviewed > 0
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        "review failed: RuntimeError"
    ]


async def test_more_sessions_than_can_be_reviewed_are_asked_for_again_by_their_next_turn(
    sqlite_database: Database, store: FileMemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    chat, model = start_chat(sqlite_database, "ana", "s1"), ScriptedModel()
    last = chat.talk(EVERY)
    many = [replace(last, session=replace(last.session, id=10_000 + n)) for n in range(64)]
    async with reviewing(sqlite_database, store, model) as running:
        caplog.set_level("CRITICAL", "trunkline.gateway.review")  # their sessions do not exist
        for one in many:
            running.after_turn(one)
        running.after_turn(last)
        await ended()
        assert model.requests == []

        running.after_turn(last)
        await ended()

    assert len(model.requests) == 1


# The notice


def wrote(target: Target, before: Sequence[str], after: Sequence[str]) -> Written:
    return Written(target, "", tuple(before), tuple(after), 1)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ([], None),
        ([wrote("user", [], ["a"])], "Noted: a — `/memory undo` takes it back."),
        ([wrote("user", ["a", "b"], ["a", "B!"])], "Updated: B! — `/memory undo` takes it back."),
        ([wrote("user", ["a", "b"], ["b"])], "Removed: a — `/memory undo` takes it back."),
        (
            [wrote("user", [], ["a"]), wrote("memory", ["x"], ["y"])],
            "Noted: a · Updated: y — `/memory undo 2` takes it back.",
        ),
        ([wrote("user", ["z"], ["z", "a"]), wrote("user", ["z", "a"], ["z"])], None),
        (
            [wrote("user", [], ["a"]), wrote("user", ["a"], ["b"])],
            "Noted: b — `/memory undo 2` takes it back.",
        ),
        (
            [wrote("user", [], ["one\nline " + "x" * 200])],
            f"Noted: one line {'x' * 110}… — `/memory undo` takes it back.",
        ),
        (
            [wrote("user", [], list("abcdefg"))],
            "Noted: a; b; c; d; and 3 more — `/memory undo` takes it back.",
        ),
    ],
)
def test_the_notice_tells_what_is_different_now(written: list[Written], told: str | None) -> None:
    assert notice(written, 0, "en", in_room=False) == told


def test_the_notice_speaks_chinese() -> None:
    told = notice([wrote("user", [], ["住在苏州"])], 0, "zh-CN", in_room=False)

    assert told == "记下了：住在苏州 — 用 `/memory undo` 可以撤销。"


def test_the_notice_names_what_waits_for_a_yes() -> None:
    told = notice([], 2, "en", in_room=False)

    assert told is not None
    assert "/memory approve" in told
    assert "2" in told


def put_away(chat: Chat, turns: Sequence[int], left_out: Sequence[int] = ()) -> None:
    """As if a summary had come to stand for these turns."""

    def work(connection: Connection) -> None:
        rows = connection.execute(select(message).where(message.c.turn_id.in_(turns))).all()
        chosen = update(message).where(message.c.turn_id.in_(turns))
        connection.execute(chosen.values(state="compacted"))
        connection.execute(
            insert(compaction).values(
                session_id=chat.session,
                state=notes.IN_USE,
                note="They spoke of boats.",
                last_seq=max(row.seq for row in rows),
                left_out=json.dumps([row.id for row in rows if row.turn_id in left_out]),
            )
        )

    chat.database.write_now(work)


def test_what_was_put_away_before_a_review_saw_it_is_reviewed_in_its_place(database: Database) -> None:
    chat = start_chat(database, "ana", "s1")
    reviewed = chat.talk().row.key.turn
    database.write_now(lambda c: reviews.put_mark(c, "s1", Mark(reviewed, reviewed)))
    chat.text = "My sister Clara lives in Bergen."
    gone = chat.talk().row.key.turn
    chat.text = "And this was forgotten since."
    forgotten = chat.talk().row.key.turn
    put_away(chat, [reviewed, gone, forgotten], [forgotten])
    chat.text = "And now?"

    found = due(chat, chat.talk())

    assert found is not None
    assert [said.text for said in found.new] == ["My sister Clara lives in Bergen.", "And now?"]
    texts = [one.sent if isinstance(one, UserMessage) else str(one) for one in found.history]
    assert "They spoke of boats." in texts[0]
    assert "Clara" in texts[2]
    assert "And now?" in texts[4]
    assert len(texts) == 6
    assert "forgotten since" not in str(found)


def test_of_much_that_was_put_away_the_newest_is_reviewed(database: Database) -> None:
    chat = start_chat(database, "ana", "s1")
    turns = []
    for number in range(40):
        chat.text = f"Number {number}: " + "a long story of boats and harbours " * 40
        turns.append(chat.talk().row.key.turn)
    put_away(chat, turns)
    chat.text = "And now?"

    found = due(chat, chat.talk())

    assert found is not None
    assert "Number 39:" in str(found.history)
    assert "Number 2:" not in str(found.history)
    assert estimate_messages(found.history) < reviews.PUT_AWAY_TOKENS + 500
    assert len(found.new) == sum("Number" in str(one) for one in found.history) + 1
