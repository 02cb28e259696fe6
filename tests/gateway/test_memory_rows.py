"""Rows of research/field-issues.md about memory (MEM-*) that have no better place, told over a house."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select, update

from tests.agent.providers.scripted import Scripted
from tests.agent.providers.test_dispatch import Clock, Wish
from tests.emulators.openai import Reply, ToolUse
from tests.gateway.linked import scope_of, town
from tests.gateway.small_house import SmallHouse
from trunkline.agent.memory.operations import Operation
from trunkline.agent.ports import SearchQuery, WriteOrigin
from trunkline.agent.providers.base import CompletedTurn, Conversation
from trunkline.agent.providers.breaker import PAUSE_S
from trunkline.agent.providers.dispatch import Dispatcher
from trunkline.agent.scope import Scope
from trunkline.gateway.clock import now_ms
from trunkline.gateway.provider_outbox import MOST_TRIES_OF_AN_END, ProviderOutbox
from trunkline.gateway.state import kv, provider_rows
from trunkline.gateway.state.provider_sessions import ENDED_MARK, SETTLED_MS, note_ended_sessions
from trunkline.gateway.state.schema import message, provider_outbox, session

QUICK: dict[str, Any] = {"agent": {"burst_window": 0.001}}
NIGHT_MS = 11 * 3_600_000


async def ask(house: SmallHouse, text: str, answer: str) -> str:
    """What the model was sent for a message of Ana's, all of it."""
    asked = len(house.model.requests)
    house.answer(answer)
    await house.say(text)
    await house.shows(answer)
    await house.ended(asked + 1)
    return str(house.model.requests[-1]["messages"])


class BrokenEnd(Scripted):
    """A provider whose hook for the end of a session has a defect."""

    def __init__(self) -> None:
        super().__init__("one")
        self.ended: list[str] = []
        self.kept: list[str] = []

    async def on_session_end(self, conversation: Conversation, scope: Scope) -> None:
        self.ended.append(conversation.session)
        raise RuntimeError("a defect of the hook")

    async def sync(self, turn: CompletedTurn, scope: Scope) -> None:
        self.kept.append(turn.user)


def follow_ends(connection: Connection) -> None:
    provider_rows.set_active(connection, ["one"])
    kv.put_value(connection, ENDED_MARK, "0")


async def test_a_hook_that_fails_at_the_end_of_a_conversation_is_a_warning_and_a_new_one_begins(
    sqlite_house: SmallHouse, caplog: pytest.LogCaptureFixture
) -> None:
    """MEM-14.2."""
    house, provider, clock = sqlite_house, BrokenEnd(), Clock()
    outbox = ProviderOutbox(house.database, Dispatcher([provider], Wish(), clock=clock))
    async with house.running(**QUICK):
        house.database.write_now(follow_ends)
        await ask(house, "my boat is called Marigold", "A fine name.")
        await house.say("/new")
        await house.shows("A fresh conversation")
        assert house.database.write_now(lambda c: note_ended_sessions(c, now_ms() + SETTLED_MS))
        await outbox.drain()
        sent = await ask(house, "hello", "Good morning.")

    assert "Marigold" not in sent
    (broken,) = [record for record in caplog.records if "memory provider broken" in record.message]
    assert broken.levelname in ("WARNING", "ERROR")
    assert len(provider.ended) == 1
    assert provider.kept == ["my boat is called Marigold"]

    for _ in range(MOST_TRIES_OF_AN_END):
        clock.now_s += PAUSE_S
        house.database.write_now(lambda c: provider_rows.wake(c, "one"))
        await outbox.drain()
    assert len(provider.ended) == MOST_TRIES_OF_AN_END
    assert provider.kept == ["my boat is called Marigold", "hello"]
    assert [row.state for row in await house.rows(provider_outbox)] == ["dead"]


async def test_what_was_saved_a_moment_before_a_new_conversation_is_known_in_it(house: SmallHouse) -> None:
    """MEM-14.3 and MEM-10.2, on the files and on the table."""
    async with house.running(**QUICK):
        house.call("memory", {"action": "add", "target": "user", "content": "Ana likes tea."})
        house.answer("Noted.")
        await house.say("I like tea")
        await house.ended(1)
        await house.say("/new")
        await house.shows("A fresh conversation")
        house.answer("Hello.")
        await house.say("hello")
        await house.ended(2)

    sent = str(house.model.requests[-1]["messages"][1:])
    first, _, last = [str(request["messages"][0]["content"]) for request in house.model.requests]
    assert "Ana likes tea." not in first
    assert "Ana likes tea." in last
    assert "I like tea" not in sent


def pass_the_night(connection: Connection) -> None:
    connection.execute(update(message).values(created_ms=message.c.created_ms - NIGHT_MS))
    times = {"started_ms": session.c.started_ms - NIGHT_MS, "last_ms": session.c.last_ms - NIGHT_MS}
    connection.execute(update(session).values(times))


async def test_what_was_talked_of_in_the_evening_goes_on_in_the_morning(sqlite_house: SmallHouse) -> None:
    """MEM-14.4, with the settings as they come; the program was started anew in the night."""
    house = sqlite_house
    async with house.running(**QUICK):
        await ask(house, "my boat is called Marigold", "A fine name.")
    house.database.write_now(pass_the_night)
    async with house.running(**QUICK):
        sent = await ask(house, "what is it called?", "Marigold.")

    assert "my boat is called Marigold" in sent
    assert len(await house.rows(session)) == 1
    assert house.telegram.texts(1001) == ["A fine name.", "Marigold."]


async def test_where_silence_ends_a_conversation_both_are_told_how_to_find_it(
    sqlite_house: SmallHouse,
) -> None:
    """MEM-14.4, where the operator has set that a night ends a conversation."""
    house = sqlite_house
    settings = {**QUICK, "sessions": {"idle_reset_hours": 8}}
    async with house.running(**settings):
        await ask(house, "my boat is called Marigold", "A fine name.")
    house.database.write_now(pass_the_night)
    (evening,) = await house.rows(session)
    async with house.running(**settings):
        house.call("session_search", {"session_id": evening.public_id})
        house.answer("Marigold.")
        await house.say("what is it called?")
        await house.shows("Marigold.")
        first, second = house.model.requests[1:]

    assert f"session_search has the whole of it as session {evening.public_id}" in str(first["messages"])
    assert "my boat is called Marigold" in str(second["messages"][-1]["content"])
    assert any("this is a fresh conversation" in text for text in house.telegram.texts(1001))


async def test_no_request_of_a_long_talk_is_without_its_system_text(sqlite_house: SmallHouse) -> None:
    """MEM-09.3: turns, tools, reviews, titles, other tries, and prompts that are made anew."""
    house = sqlite_house
    (house.home / "memories" / "ana").mkdir(parents=True)
    (house.home / "memories" / "ana" / "USER.md").write_text("Likes tea.\n§\n", encoding="utf-8")
    calls = iter(
        [ToolUse("session_search", {"query": "tea"}), ToolUse("memory", {"action": "add", "content": "?"})]
    )

    def respond(body: dict[str, Any]) -> Reply:
        last = str(body["messages"][-1]["content"])
        if "review of this conversation" in last:
            return Reply("Nothing to save.")
        if "number" in last and "5" in last:
            return next((Reply(tools=[call], checked=False) for call in calls), Reply("Done."))
        return Reply(f"To {sum(m['role'] == 'user' for m in body['messages'])}.")

    house.model.responder = respond
    async with house.running(**QUICK, memory={"review_every": 4}):
        for number in range(1, 21):
            await house.say(f"number {number}")
            await house.ended(number)
            if number == 7:
                await house.say("/new")
                await house.shows("A fresh conversation")
            if number == 14:
                await house.say("/memory forget 1")
                await house.shows("Forgotten for good")
        asked = len(house.model.requests)
        await house.say("/retry")
        await house.asked(asked + 1)
        await house.model.wait_for(lambda: "review of this conversation" in str(house.model.requests))
        await house.namer.wait_for(lambda: house.namer.requests)

    requests = [*house.model.requests, *house.namer.requests]
    assert len(requests) > 20
    assert [body for body in requests if body["messages"][0]["role"] != "system"] == []
    assert all(len(str(body["messages"][0]["content"])) > 100 for body in requests)


@pytest.mark.parametrize(
    ("off", "knows"),
    [
        (("memory_enabled", "user_profile_enabled"), ()),
        (("memory_enabled",), ("USER PROFILE",)),
        (("user_profile_enabled",), ("MEMORY (",)),
    ],
)
async def test_a_store_that_is_switched_off_is_unknown_to_the_model_and_both_take_the_tool_along(
    sqlite_house: SmallHouse, off: tuple[str, ...], knows: tuple[str, ...]
) -> None:
    house = sqlite_house
    (house.home / "memories" / "ana").mkdir(parents=True)
    for name in ("USER.md", "MEMORY.md"):
        (house.home / "memories" / "ana" / name).write_text("Likes tea.\n§\n", encoding="utf-8")
    async with house.running(**QUICK, memory={"review_every": 0, **dict.fromkeys(off, False)}):
        await ask(house, "hello", "Hello.")

    (request,) = house.model.requests
    system = str(request["messages"][0]["content"])
    assert tuple(one for one in ("USER PROFILE", "MEMORY (") if one in system) == knows
    offered = [tool["function"]["name"] for tool in request["tools"]]
    assert ("memory" in offered) is bool(knows)
    assert ("Two small stores outlive every session" in system) is bool(knows)


MANY = [f"Fact number {number} of Cy's." for number in range(250)]
FEW = [f"Fact number {number} of Dan's." for number in range(3)]


async def test_of_many_entries_none_stays_when_their_person_leaves_and_others_keep_theirs(
    tmp_path: Path, database_url: str
) -> None:
    """MEM-13.1."""
    async with town(tmp_path, database_url, memory={"user_char_limit": 50_000}) as house:
        await house.let_in("Cy", "105")
        many = [Operation("add", fact) for fact in MANY]
        await house.house.memory.apply(scope_of("cy"), "user", many, WriteOrigin("command", "telegram"))
        await house.knows("dan", *FEW)
        assert len(await house.known("cy")) == len(MANY)
        asked = await house.type("/delete-me", "105")

        told = await house.type(f"/delete-me {asked.split('/delete-me ')[1].split('`')[0]}", "105")

        assert "Everything of yours is deleted here" in told
        assert f"entries of memory: {len(MANY)}, conversations: 0, messages: 0." in told
        assert await house.known("cy") == ()
        assert list(await house.known("dan")) == FEW
        for scope in map(scope_of, ("cy", "dan", "ana")):
            assert not (await house.house.search.search(scope, SearchQuery("Cy's"))).hits
        left = await house.house.database.read(lambda c: rows_with(c, "of Cy's."))
        assert left == {}


def rows_with(connection: Connection, words: str) -> dict[str, int]:
    """How many rows of each table hold the words, where any do."""
    tables: Sequence[Any] = session.metadata.sorted_tables
    counts = {}
    for table in tables:
        rows = connection.execute(select(table)).all()
        if found := sum(words in str(tuple(row)) for row in rows):
            counts[table.name] = found
    return counts


async def test_a_person_with_a_linked_account_is_known_by_both_and_nobody_else_is(
    tmp_path: Path, sqlite_url: str
) -> None:
    """MEM-08.3: Ana's accounts are one person; Cy, who is known on one platform only, is another."""
    async with town(tmp_path, sqlite_url) as house:
        await house.let_in("Cy", "205", "discord")
        await house.type("/memory add I prefer trains", "100")
        await house.type("/memory add I prefer boats", "205", "discord")

        assert "trains" in await house.type("/memory", "200", "discord")
        assert "trains" in await house.type("/memory", "100")
        cy = await house.type("/memory", "205", "discord")
        assert "boats" in cy
        assert "trains" not in cy
        assert "boats" not in await house.type("/memory", "200", "discord")
