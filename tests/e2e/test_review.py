"""Reviews of conversations in the background, over real client libraries, files and a real database."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from tests.e2e.world import ANA_TELEGRAM, BO_TELEGRAM, World
from tests.emulators.openai import Reply, ToolUse
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.schema import kv, message, usage

FACT = "User is a nurse on night shifts."
DEADLINE_S = 60.0
EVERY_3 = {"review_every": 3}


async def ask(world: World, text: str, answer: str) -> None:
    """A message of Ana's on Telegram, and the model's answer to it."""
    world.answer(answer)
    await world.ana_on_telegram(text)
    await world.telegram_shows(answer)


def is_review(body: dict[str, Any]) -> bool:
    said = [m["content"] for m in body["messages"] if m["role"] == "user"]
    return "review of this conversation" in said[-1]


def reviews(world: World) -> list[dict[str, Any]]:
    return [body for body in world.model.requests if is_review(body)]


def user_file(world: World, person: str = "ana") -> Path:
    return world.home / "memories" / person / "USER.md"


async def test_what_the_turns_missed_is_saved_after_the_nth_answer_and_told_and_can_be_taken_back(
    world: World,
) -> None:
    async with world.running(memory=EVERY_3):
        await ask(world, "I have just come from my night shift", "Sleep well soon.")
        await ask(world, "I am a nurse, it is always like this", "That is hard work.")
        world.answer("Chamomile.")
        world.call("memory", action="add", target="user", content=FACT)
        world.answer("Nothing to save.")
        await world.ana_on_telegram("which tea helps?")
        await world.telegram_shows(f"Noted: {FACT}")

        shown = world.telegram.texts(ANA_TELEGRAM)
        assert [text.partition(" — ")[0] for text in shown[-2:]] == ["Chamomile.", f"Noted: {FACT}"]
        assert world.telegram.calls_of("sendMessage")[-1].arguments.get("disable_notification")
        assert FACT in user_file(world).read_text(encoding="utf-8")
        turned, first, second = world.model.requests[2:]
        assert len(reviews(world)) == 2
        assert first["messages"][: len(turned["messages"])] == turned["messages"]
        assert [key for key in first if first[key] != turned.get(key)] == ["messages"]
        assert json.dumps(first["tools"]) == json.dumps(turned["tools"])
        assert second["messages"][: len(first["messages"])] == first["messages"]
        assert "last 3 messages of the person" in world.last_user(3)

        world.answer("Hello, night owl.")
        await world.ana_on_slack("hello")
        await world.model.wait_for(lambda: len(world.model.requests) == 6)
        assert FACT in world.system()
        await world.ana_on_telegram("/memory undo")
        await world.telegram.wait_for(lambda: FACT not in user_file(world).read_text(encoding="utf-8"))


async def test_a_review_leaves_the_conversation_and_the_search_as_they_were(world: World) -> None:
    async with world.running(memory={"review_every": 1}):
        world.answer("Chamomile.")
        world.call("memory", action="add", target="user", content=FACT)
        world.answer("Nothing to save.")
        await world.ana_on_telegram("which tea helps?")
        await world.telegram_shows(f"Noted: {FACT}")
        with Database.sqlite(world.home / "state.db") as database:
            query = select(message.c.role, message.c.content).order_by(message.c.id)
            kept = await database.read(lambda c: [tuple(row) for row in c.execute(query)])
            spent = await database.read(lambda c: c.execute(select(usage)).all())
        assert kept == [("user", "which tea helps?"), ("assistant", "Chamomile.")]
        assert sorted(row.purpose for row in spent if row.purpose != "title") == ["review", "review", "turn"]

        await world.ana_on_telegram("/search nothing save review")
        await world.telegram_shows("Nothing found")
        world.answer("You are welcome.", "Nothing to save.")
        await world.ana_on_telegram("thanks")
        await world.telegram_shows("You are welcome.")
        await world.model.wait_for(lambda: len(world.model.requests) == 5)
    # The next turn knows what was saved, and nothing of the review.
    assert FACT in world.last_user(3)
    assert "review of this conversation" not in str(world.request(3))
    assert "Nothing to save." not in str(world.request(3))


async def test_a_memory_write_in_the_conversation_puts_the_review_off(world: World) -> None:
    async with world.running(memory=EVERY_3):
        await ask(world, "one", "First.")
        world.call("memory", action="add", target="user", content="User likes tea.")
        await ask(world, "I like tea", "Second.")
        await ask(world, "three", "Third.")
        await ask(world, "four", "Fourth.")
        assert len(world.model.requests) == 5
        world.answer("Fifth.", "Nothing to save.")
        await world.ana_on_telegram("five")
        await world.model.wait_for(lambda: reviews(world))

    (review,) = reviews(world)
    assert "last 5 messages of the person" in review["messages"][-1]["content"]
    assert not any("Noted" in text for text in world.telegram.texts(ANA_TELEGRAM))


async def test_each_message_is_reviewed_once_also_over_a_restart(world: World) -> None:
    settings = {"review_every": 2}
    async with world.running(memory=settings):
        await ask(world, "one", "First.")
        world.answer("Second.", "Nothing to save.")
        await world.ana_on_telegram("two")
        await world.model.wait_for(lambda: len(reviews(world)) == 1)
        await reviewed(world, 1)
    async with world.running(memory=settings):
        await ask(world, "three", "Third.")
        world.answer("Fourth.", "Nothing to save.")
        await world.ana_on_telegram("four")
        await world.model.wait_for(lambda: len(reviews(world)) == 2)
        await reviewed(world, 2)

    assert len(world.model.requests) == 6
    again = world.request()["messages"]
    assert "last 2 messages of the person" in again[-1]["content"]
    assert str(again[5]["content"]).partition("\n")[0] in again[-1]["content"]


async def reviewed(world: World, calls: int) -> None:
    """Returns when reviews of so many model calls have come to their end."""
    spent: list[str] = []
    with Database.sqlite(world.home / "state.db") as database:
        try:
            async with asyncio.timeout(DEADLINE_S):
                while spent.count("review") < calls:
                    spent = list(await database.read(lambda c: c.execute(select(usage.c.purpose)).scalars()))
                    await asyncio.sleep(0.02)
        except TimeoutError:
            marks = await database.read(lambda c: c.execute(select(kv)).all())
            asked = [is_review(body) for body in world.model.requests]
            raise AssertionError(f"counted {spent}, asked {asked}, stored {marks}") from None


WRONG = [
    ToolUse("session_search", {"query": "birthday"}),
    ToolUse("format_disk", {}),
    ToolUse("memory", {"action": "add", "target": "user", "content": "Ana was born on 3 May."}),
    ToolUse("memory", {"action": "add", "target": "memory", "content": "x" * 100_000}),
    ToolUse("memory", {"action": "remove", "target": "memory", "old_text": "Mondays"}),
    ToolUse("memory", '{"action": "add", "targ'),
]


async def test_a_review_gone_wild_in_a_room_changes_nothing_anywhere(world: World) -> None:
    user_file(world).parent.mkdir(parents=True)
    user_file(world).write_text("Ana's birthday is on 3 May.\n§\n", encoding="utf-8")
    room = world.discord.general
    async with world.running(memory={"review_every": 1}):
        world.model.responder = lambda body: (
            Reply(tools=WRONG, checked=False) if is_review(body) else Reply("Here I am.")
        )
        await world.discord.channel_message(room, world.ana_discord, "I was born on 3 May", mention=True)
        await world.discord_shows("Here I am.", room)
        await world.model.wait_for(lambda: reviews(world))
        await reviewed(world, 2)

    assert len(reviews(world)) == 2
    results = [m["content"] for m in world.request()["messages"] if m["role"] == "tool"]
    assert not any('"success": true' in result for result in results)
    assert user_file(world).read_text(encoding="utf-8") == "Ana's birthday is on 3 May.\n§\n"
    assert list((world.home / "memories").rglob("MEMORY.md")) == []
    assert world.discord.texts(room)[-1] == "Here I am."


async def test_a_room_learns_for_itself_and_is_told(world: World) -> None:
    room = world.discord.general
    async with world.running(memory={"review_every": 1}):
        world.answer("See you then.")
        world.call("memory", action="add", target="memory", content="The room meets on Mondays.")
        world.answer("Nothing to save.")
        await world.discord.channel_message(room, world.bo_discord, "we meet on Mondays", mention=True)
        await world.discord_shows("Noted: The room meets on Mondays.", room)

    (kept,) = (world.home / "memories" / "rooms").rglob("MEMORY.md")
    assert "Mondays" in kept.read_text(encoding="utf-8")
    assert not user_file(world, "bo").exists()
    assert "shared room" in world.last_user(1)


async def test_neither_a_turn_nor_the_end_of_the_process_waits_for_a_review(world: World) -> None:
    settings = {"review_every": 1}
    async with world.running(memory=settings):
        world.model.responder = lambda body: Reply(stall_after=0) if is_review(body) else Reply("At once.")
        await world.ana_on_telegram("one")
        await world.model.wait_for(lambda: reviews(world))
        world.model.responder = lambda body: Reply(stall_after=0) if is_review(body) else Reply("Meanwhile.")
        await world.ana_on_telegram("two")
        await world.telegram_shows("Meanwhile.")
    assert len(reviews(world)) == 1

    async with world.running(memory=settings):
        world.model.responder = lambda body: Reply("Nothing to save." if is_review(body) else "Again.")
        await world.ana_on_telegram("three")
        await world.telegram_shows("Again.")
        await world.model.wait_for(lambda: len(reviews(world)) == 2)
    assert "last 3 messages of the person" in reviews(world)[-1]["messages"][-1]["content"]


async def test_a_failing_review_is_logged_once_troubles_nobody_and_is_tried_again_later(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async with world.running(memory={"review_every": 2}):
        refused = Reply(status=401, error="bad key", code="invalid_api_key")
        world.model.responder = lambda body: refused if is_review(body) else Reply("Fine.")
        for number in (1, 2, 3):
            await world.ana_on_telegram(f"message {number}")
            await world.telegram.wait_for(lambda n=number: answers(world) == ["Fine."] * n)  # type: ignore[misc]
            await world.model.wait_for(lambda n=number: len(world.model.requests) == n + (n > 1))  # type: ignore[misc]
        warnings = [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
        assert len([record for record in warnings if "review" in record.getMessage()]) == 1

        world.model.responder = lambda body: Reply("Nothing to save." if is_review(body) else "Fine.")
        await world.ana_on_telegram("message 4")
        await world.model.wait_for(lambda: len(reviews(world)) == 2)
        await world.telegram.wait_for(lambda: len(answers(world)) == 4)
        await reviewed(world, 1)

    assert "last 4 messages of the person" in reviews(world)[-1]["messages"][-1]["content"]
    assert answers(world) == ["Fine."] * 4


def answers(world: World) -> list[str]:
    return world.telegram.texts(ANA_TELEGRAM)


async def test_two_conversations_of_a_person_are_not_reviewed_at_once_and_two_people_may_be(
    world: World,
) -> None:
    async with world.running(memory={"review_every": 1}):
        world.model.responder = lambda body: Reply(stall_after=0) if is_review(body) else Reply("Fine.")
        await world.ana_on_telegram("here")
        await world.model.wait_for(lambda: len(reviews(world)) == 1)
        await world.ana_on_discord("and there")
        await world.discord_shows("Fine.")
        await world.telegram.direct_message(BO_TELEGRAM, "I am Bo")
        await world.model.wait_for(lambda: len(reviews(world)) == 2)

    assert "I am Bo" in str(reviews(world)[1])


async def test_the_review_runs_on_a_model_of_its_own_where_one_is_set(world: World) -> None:
    named = {"name": "reviewer", "base_url": world.namer.base_url}
    titles = {"name": "namer", "base_url": world.namer.base_url}
    world.namer.responder = lambda _: Reply("Nothing to save.")
    async with world.running(memory={"review_every": 1}, auxiliary={"title": titles, "review": named}):
        await ask(world, "one", "First.")
        await world.namer.wait_for(lambda: any(is_review(body) for body in world.namer.requests))

    assert [body["model"] for body in world.namer.requests if is_review(body)] == ["reviewer"]
    assert reviews(world) == []


async def test_a_private_conversation_is_not_reviewed(world: World) -> None:
    async with world.running(memory={"review_every": 1}):
        await world.ana_on_telegram("/private")
        await world.telegram.wait_for(lambda: answers(world))
        await ask(world, "between us", "Sure.")
        world.answer("Good morning.", "Nothing to save.")
        await world.ana_on_discord("hello")
        await world.model.wait_for(lambda: reviews(world))

    assert len(world.model.requests) == 3
    assert "between us" not in str(reviews(world))
