"""A busy assistant: nobody's words are lost or mixed up, and what must never wait does not."""

import asyncio

from tests.e2e.test_steering import arrived, during_a_tool
from tests.e2e.world import ANA_TELEGRAM, World
from tests.emulators.openai import Reply
from tests.gateway.lanes import flood


async def test_two_people_in_a_room_within_a_second_are_two_turns_with_their_names(world: World) -> None:
    room = world.discord.general
    world.discord.world.add_user(world.ana_discord, "Ana")
    world.discord.world.add_user(world.bo_discord, "Bo")
    async with world.running():
        world.answer("Tea for Ana.", "Coffee for Bo.")
        await world.discord.channel_message(room, world.ana_discord, "I'd like tea", mention=True)
        await world.discord.channel_message(room, world.bo_discord, "I'd like coffee", mention=True)
        await world.discord_shows("Coffee for Bo.", room)

    assert world.discord.texts(room) == ["Tea for Ana.", "Coffee for Bo."]
    assert '⟦from "Ana"⟧' in world.last_user(0)
    assert "coffee" not in world.last_user(0)
    assert '⟦from "Bo"⟧' in world.last_user(1)
    assert "tea" not in world.last_user(1)


async def test_what_must_never_wait_is_answered_while_a_turn_runs(world: World) -> None:
    async with world.running():
        world.model.then(Reply("At last.", delay_s=60))
        await world.ana_on_telegram("take your time")
        await world.model.wait_for(lambda: world.model.requests)
        for command, expected in (
            ("/status", "I'm working on an answer here."),
            ("/help", "What you can type"),
            ("/usage", "You used nothing"),
            ("/whoami", "You are Ana"),
        ):
            await world.ana_on_telegram(command)
            await world.telegram_shows(expected)
        await world.ana_on_telegram("/stop")
        await world.telegram_shows("Stopped.")
        await world.model.wait_for(lambda: world.model.dropped == 1)

        world.answer("Fast now.")
        await world.ana_on_telegram("and again?")
        await world.telegram_shows("Fast now.")

    assert not [text for text in world.telegram.texts(ANA_TELEGRAM) if "At last." in text]


async def test_stop_ends_the_running_answer_and_says_what_comes_next(world: World) -> None:
    async with world.running(agent={"busy": "queue"}):
        world.model.then(Reply("Never.", delay_s=60), Reply("Second."), Reply("Third."))
        await world.ana_on_telegram("one")
        await world.model.wait_for(lambda: world.model.requests)
        await world.ana_on_telegram("/queue two")
        await world.ana_on_telegram("/queue three")
        await world.telegram.wait_for(lambda: len(world.telegram.texts(ANA_TELEGRAM)) >= 2)
        await arrived(world, 3)
        await world.ana_on_telegram("/stop")
        await world.telegram_shows("Stopped. I go on with the 2 messages that came meanwhile.")
        await world.telegram_shows("Third.")

    answers = [text for text in world.telegram.texts(ANA_TELEGRAM) if text in ("Second.", "Third.")]
    assert answers == ["Second.", "Third."]


async def test_stop_during_a_tool_ends_it_and_the_conversation_stays_whole(world: World) -> None:
    async with world.running():
        async with during_a_tool(world, world.ana_on_telegram):
            await world.ana_on_telegram("/stop")
            await world.telegram_shows("Stopped.")
        world.answer("Go on then.")
        await world.ana_on_telegram("never mind")
        await world.telegram_shows("Go on then.")

    assert [m["role"] for m in world.request()["messages"]] == ["system", "user", "assistant", "tool", "user"]


async def test_a_command_between_messages_comes_in_its_place(world: World) -> None:
    async with world.running():
        go_on = asyncio.Event()
        world.model.then(Reply("First.", held=go_on), Reply("Second."))
        await world.ana_on_telegram("one")
        await world.model.wait_for(lambda: world.model.requests)
        await world.ana_on_telegram("/new")
        await world.ana_on_telegram("two")
        await arrived(world, 3)
        go_on.set()
        await world.telegram_shows("Second.")

    shown = world.telegram.texts(ANA_TELEGRAM)
    assert [shown[0], shown[-1]] == ["First.", "Second."]
    assert "fresh conversation" in shown[1]
    assert "one" not in world.last_user()
    assert len([m for m in world.request()["messages"] if m["role"] == "user"]) == 1


async def test_a_flood_wait_on_one_platform_is_nothing_to_the_others(world: World) -> None:
    async with world.running():
        world.telegram.fail_next("sendMessage", flood(600), times=50)
        world.model.responder = lambda _: Reply("Here I am.")
        await world.ana_on_telegram("hello")
        await world.telegram.wait_for(lambda: world.telegram.calls_of("sendMessage"))
        await world.ana_on_discord("hello")
        await world.discord_shows("Here I am.")

    assert len(world.telegram.calls_of("sendMessage")) == 1
