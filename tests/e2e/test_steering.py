"""What a message does to an answer that is being written: it joins it, restarts it, waits, or stops it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from filelock import FileLock
from sqlalchemy import select

from tests.e2e.world import ANA_SLACK, ANA_TELEGRAM, World
from tests.emulators.openai import Reply
from tests.gateway.small_house import eventually
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.schema import inbox

Say = Callable[[str], Awaitable[object]]

STEERING = {"agent": {"burst_window": 0.001}}


def mouth(world: World, platform: str) -> Say:
    return {"telegram": world.ana_on_telegram, "discord": world.ana_on_discord, "slack": world.ana_on_slack}[
        platform
    ]


async def shows(world: World, platform: str, text: str) -> None:
    match platform:
        case "telegram":
            await world.telegram_shows(text)
        case "discord":
            await world.discord_shows(text)
        case _:
            channel = world.slack.workspace.direct_channel(ANA_SLACK).id
            await world.slack.wait_for(lambda: any(text in shown for shown in world.slack.texts(channel)))


@asynccontextmanager
async def during_a_tool(world: World, say: Say) -> AsyncIterator[None]:
    """While a turn's tool runs; it ends with the context."""
    folder = world.home / "memories" / "ana"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "USER.md.lock"):
        world.call("memory", action="add", target="user", content="Ana likes tea.")
        await say("remember that I like tea")
        await world.model.wait_for(lambda: world.model.requests)
        await eventually(lambda: _count(world, inbox.c.state == "leased"))
        with Database(f"sqlite:///{world.home / 'state.db'}") as database:
            await eventually(lambda: database.read(lambda c: c.exec_driver_sql("SELECT 1 FROM step").first()))
        yield


async def _count(world: World, *where: Any) -> int:
    with Database(f"sqlite:///{world.home / 'state.db'}") as database:
        return len(await database.read(lambda c: c.execute(select(inbox.c.id).where(*where)).all()))


async def arrived(world: World, messages: int) -> None:
    await eventually(lambda: _at_least(world, messages))


async def _at_least(world: World, messages: int) -> bool:
    return await _count(world) >= messages


async def test_nobody_speaks_into_an_answer_past_somebody_who_waits(world: World) -> None:
    room, ana, bo = world.discord.general, world.ana_discord, world.bo_discord
    asked: list[str] = []
    go_on = asyncio.Event()

    def answer(body: Mapping[str, Any]) -> Reply:
        asked.append(str(body["messages"][-1]["content"]).rpartition("\n")[2])
        return Reply(f"An answer to {asked[-1]}.", held=go_on)

    world.model.responder = answer
    async with world.running():
        await world.discord.channel_message(room, ana, "first-of-ana")
        await world.model.wait_for(lambda: asked)
        await world.discord.channel_message(room, bo, "first-of-bo")
        await arrived(world, 2)
        await world.discord.channel_message(room, ana, "second-of-ana")
        await arrived(world, 3)
        go_on.set()
        await world.discord_shows("An answer to second-of-ana.", room)
        await eventually(lambda: _all_done(world))

    assert world.discord.texts(room) == [
        "An answer to first-of-ana.",
        "An answer to first-of-bo.",
        "An answer to second-of-ana.",
    ]


@pytest.mark.parametrize("platform", ["telegram", "discord", "slack"])
async def test_words_said_during_a_tool_are_what_the_model_reads_next(world: World, platform: str) -> None:
    say = mouth(world, platform)
    async with world.running(**STEERING):
        async with during_a_tool(world, say):
            await say("with milk, I mean")
            await arrived(world, 2)
        world.answer("Tea with milk, noted.")
        await shows(world, platform, "Tea with milk, noted.")
        await eventually(lambda: _all_done(world))

    said = world.request()["messages"]
    assert [m["role"] for m in said] == ["system", "user", "assistant", "tool", "user"]
    assert said[-1]["content"].startswith("⟦")
    assert said[-1]["content"].endswith("with milk, I mean")
    assert len(world.model.requests) == 2


async def _all_done(world: World) -> bool:
    return not await _count(world, inbox.c.state != "done")


async def test_what_joined_a_turn_stays_in_its_place_in_the_history(world: World) -> None:
    async with world.running(**STEERING):
        async with during_a_tool(world, world.ana_on_telegram):
            await world.ana_on_telegram("with milk")
            await arrived(world, 2)
        world.answer("Noted.", "You're welcome.")
        await world.telegram_shows("Noted.")
        before = world.request()["messages"]
        await world.ana_on_telegram("thanks")
        await world.telegram_shows("You're welcome.")

    assert world.request()["messages"][: len(before)] == before


async def test_with_no_further_step_the_words_are_the_next_turn_and_the_person_hears_so(world: World) -> None:
    async with world.running(**STEERING):
        go_on = asyncio.Event()
        world.model.then(Reply("First.", held=go_on), Reply("Second."))
        await world.ana_on_telegram("one")
        await world.model.wait_for(lambda: world.model.requests)
        await world.ana_on_telegram("two")
        await world.telegram_shows("Got it.")
        go_on.set()
        await world.telegram_shows("Second.")

    shown = world.telegram.texts(ANA_TELEGRAM)
    assert [text for text in shown if text.startswith("Got it.")] == [shown[0]]
    assert shown[1:] == ["First.", "Second."]


async def test_a_second_message_at_once_restarts_the_turn_with_both(world: World) -> None:
    async with world.running(agent={"burst_window": 5}):
        world.model.then(Reply("Too early.", delay_s=30), Reply("Both at once."))
        await world.ana_on_telegram("what is")
        await world.model.wait_for(lambda: world.model.requests)
        await world.ana_on_telegram("two and two?")
        await world.telegram_shows("Both at once.")
        await eventually(lambda: _all_done(world))

    assert "what is\n\ntwo and two?" in world.last_user()
    assert len([m for m in world.request()["messages"] if m["role"] == "user"]) == 1
    assert world.telegram.texts(ANA_TELEGRAM) == ["Both at once."]


async def test_interrupt_stops_the_answer_and_begins_with_the_new_message(world: World) -> None:
    async with world.running(agent={"busy": "interrupt", "burst_window": 0.001}):
        world.model.then(Reply("word " * 400, chunk_chars=5, chunk_delay_s=0.05), Reply("The other thing."))
        await world.ana_on_telegram("a long story")
        await world.telegram_shows("word word")
        await world.ana_on_telegram("no, something else")
        await world.telegram_shows("The other thing.")
        await eventually(lambda: _all_done(world))

    shown = world.telegram.texts(ANA_TELEGRAM)
    assert len(shown) == 2
    assert shown[0].endswith("(stopped here)")


async def test_three_follow_ups_in_queue_mode_get_one_notice_and_all_are_answered(world: World) -> None:
    async with world.running(agent={"busy": "queue", "burst_window": 0.001}):
        async with during_a_tool(world, world.ana_on_telegram):
            for word in ("alpha", "beta", "gamma"):
                await world.ana_on_telegram(word)
            await arrived(world, 4)
            await world.telegram_shows("Got it. I'll answer that when I'm done with this.")
        world.answer("Noted.", "All three.")
        await world.telegram_shows("All three.")

    assert "alpha\n\nbeta\n\ngamma" in world.last_user()
    assert [text[:7] for text in world.telegram.texts(ANA_TELEGRAM)] == ["Got it.", "Noted.", "All thr"]


async def test_queued_words_are_turns_of_their_own_and_never_join_one(world: World) -> None:
    async with world.running(**STEERING):
        async with during_a_tool(world, world.ana_on_telegram):
            await world.ana_on_telegram("/queue the second question")
            await world.ana_on_telegram("/queue the third question")
            await world.telegram_shows("Queued")
            await arrived(world, 3)
        world.answer("Noted.", "To the second.", "To the third.")
        await world.telegram_shows("To the third.")

    assert "second" in world.last_user(2)
    assert "third" not in world.last_user(2)
    assert "third" in world.last_user(3)


async def test_in_a_room_another_persons_message_waits_and_joins_nothing(world: World) -> None:
    room = world.discord.general
    world.discord.world.add_user(world.ana_discord, "Ana")
    world.discord.world.add_user(world.bo_discord, "Bo")
    async with world.running(agent={"busy": "interrupt", "burst_window": 5}):
        go_on = asyncio.Event()
        world.model.then(Reply("For Ana.", held=go_on), Reply("For Bo."))
        await world.discord.channel_message(room, world.ana_discord, "tea", mention=True)
        await world.model.wait_for(lambda: world.model.requests)
        await world.discord.channel_message(room, world.bo_discord, "coffee", mention=True)
        await arrived(world, 2)
        go_on.set()
        await world.discord_shows("For Bo.", room)

    assert world.discord.texts(room) == ["For Ana.", "For Bo."]


async def test_who_writes_too_fast_is_told_and_answered_later(world: World) -> None:
    async with world.running(access={"messages_per_minute": 3}, **STEERING):
        world.model.responder = lambda _: Reply("Here.")
        for number in range(3):
            await world.ana_on_telegram(f"thought {number}")
            await arrived(world, number + 1)
        await world.ana_on_telegram("thought 3")
        await world.ana_on_telegram("thought 4")
        await world.telegram_shows("Those were 3 messages within a minute.")
        await arrived(world, 5)
        await eventually(lambda: _waits(world, 2))

    assert len([text for text in world.telegram.texts(ANA_TELEGRAM) if "within a minute" in text]) == 1


async def _waits(world: World, messages: int) -> bool:
    return await _count(world, inbox.c.state == "received", inbox.c.not_before_ms > 0) == messages


async def test_what_joined_survives_a_crash_and_is_answered_once(world: World) -> None:
    async with world.running(**STEERING):
        async with during_a_tool(world, world.ana_on_telegram):
            await world.ana_on_telegram("with milk")
            await arrived(world, 2)
        world.model.then(Reply("Never seen.", delay_s=60))
        await world.model.wait_for(lambda: len(world.model.requests) == 2)
    world.answer("After the crash.")
    async with world.running(**STEERING):
        await world.telegram_shows("After the crash.")
        await eventually(lambda: _all_done(world))

    said = [m["content"] for m in world.request()["messages"] if m["role"] == "user"]
    assert [text.rpartition("\n")[2] for text in said] == ["remember that I like tea", "with milk"]
    assert world.telegram.texts(ANA_TELEGRAM) == ["After the crash."]
