"""Things that come twice, late, out of order or by halves: each counts once, and the talk goes on."""

import asyncio

from tests.e2e.test_amending import settled
from tests.e2e.test_steering import arrived
from tests.e2e.test_surfaces import telegram_press
from tests.e2e.world import ANA_SLACK, ANA_TELEGRAM, World
from tests.emulators.base import Fault
from tests.emulators.openai import Reply, pictures_of
from tests.gateway.test_attachments import PNG


async def test_a_retry_button_pressed_twice_tries_once(world: World) -> None:
    async with world.running():
        world.answer("A dull answer.")
        await world.ana_on_telegram("tell me a joke")
        await world.telegram_shows("A dull answer.")
        await world.telegram.wait_for(
            lambda: any("↻ Retry" in dict(shown.buttons) for shown in world.telegram.sent(ANA_TELEGRAM))
        )
        await settled(world, 1)
        world.model.responder = lambda _: Reply("A better answer.", delay_s=0.5)
        await telegram_press(world, "↻ Retry")
        await telegram_press(world, "↻ Retry")
        await world.telegram_shows("A better answer.")
        world.model.responder = lambda _: Reply("And more.")
        await world.ana_on_telegram("and now?")
        await world.telegram_shows("And more.")

    assert len(world.model.requests) == 3


async def test_a_retry_of_a_question_with_a_picture_shows_the_picture_again(world: World) -> None:
    async with world.running():
        world.answer("A square.", "A red square.")
        photo = world.telegram.photo(PNG)
        await world.telegram.direct_message(ANA_TELEGRAM, "what is it?", media=photo)
        await world.telegram_shows("A square.")
        await world.ana_on_telegram("/retry")
        await world.telegram_shows("A red square.")

    first, second = world.model.requests
    assert pictures_of(first) == pictures_of(second) == [("image/png", PNG)]
    assert len(world.telegram.calls_of("file")) == 1
    assert world.telegram.texts(ANA_TELEGRAM) == ["A red square."]


async def test_an_undo_after_a_restart_takes_back_what_was_said_before_it(world: World) -> None:
    async with world.running():
        world.answer("Noted, blue.")
        await world.ana_on_telegram("my colour is blue")
        await world.telegram_shows("Noted, blue.")
        await settled(world, 1)
    async with world.running():
        await world.ana_on_telegram("/undo")
        await world.telegram_shows("Taken back")
        await world.telegram.wait_for(lambda: "Noted, blue." not in world.telegram.texts(ANA_TELEGRAM))
        world.answer("Which colour?")
        await world.ana_on_telegram("what is my colour?")
        await world.telegram_shows("Which colour?")

    assert "blue" not in str(world.request()["messages"][1:])


async def test_an_edit_of_one_of_two_messages_that_became_a_turn_corrects_that_turn(world: World) -> None:
    async with world.running(agent={"burst_window": 20}):
        world.model.then(Reply("Never seen.", delay_s=30), Reply("Cake."), Reply("Tea and cake."))
        first = await world.telegram.direct_message(ANA_TELEGRAM, "I would like coffee")
        await world.model.wait_for(lambda: world.model.requests)
        await world.ana_on_telegram("and cake")
        await world.telegram_shows("Cake.")
        await settled(world, 1)
        await world.telegram.edit_message(ANA_TELEGRAM, first.message_id, "I would like tea")
        await world.telegram_shows("Tea and cake.")

    asked = str(world.request()["messages"][1]["content"])
    assert "I would like tea" in asked
    assert "and cake" in asked
    assert world.telegram.texts(ANA_TELEGRAM) == ["Tea and cake."]
    assert len(world.model.requests) == 3


async def test_a_deletion_while_an_answer_is_written_leaves_the_answer_and_not_the_words(
    world: World,
) -> None:
    chat = world.discord.direct_chat(world.ana_discord)
    async with world.running():
        world.model.then(Reply("A long story is told here. " * 8, chunk_delay_s=0.1), Reply("Nothing."))
        asked = await world.discord.direct_message(world.ana_discord, "my pin is 90210")
        await world.discord.wait_for(lambda: world.discord.texts(chat))
        await world.discord.delete(chat, asked)
        await world.discord.wait_for(lambda: world.discord.texts(chat)[0].count("told here.") == 8)
        await world.ana_on_discord("what did I say?")
        await world.discord_shows("Nothing.", chat)

    assert "90210" not in str(world.request()["messages"])


async def test_a_deletion_that_comes_before_its_message_or_twice_harms_nothing(world: World) -> None:
    async with world.running():
        world.answer("Hello.")
        channel = world.slack.workspace.direct_channel(ANA_SLACK).id
        asked = await world.slack.direct_message(ANA_SLACK, "hi")
        await world.slack.wait_for(lambda: "Hello." in world.slack.texts(channel))
        await world.slack.message_deleted(channel, asked)
        await world.slack.all_acked()
        for delivery in list(world.slack.socket.deliveries):
            await world.slack.again(delivery)
        await world.slack.all_acked()
        world.answer("Still here.")
        await world.ana_on_slack("and now?")
        await world.slack.wait_for(lambda: "Still here." in world.slack.texts(channel))

    assert world.slack.texts(channel) == ["Hello.", "Still here."]
    assert len(world.model.requests) == 2


async def test_what_comes_while_a_file_is_answered_keeps_its_order(world: World) -> None:
    """A picture sent during a turn, then words: the words come with the picture's turn or after it."""
    async with world.running():
        go_on = asyncio.Event()
        world.model.then(Reply("One.", held=go_on))
        await world.ana_on_telegram("first")
        await world.model.wait_for(lambda: world.model.requests)
        world.model.responder = lambda _: Reply("Next.", delay_s=0.1)
        photo = world.telegram.photo(PNG)
        await world.telegram.direct_message(ANA_TELEGRAM, "second", media=photo)
        await world.ana_on_telegram("third")
        await arrived(world, 3)
        go_on.set()
        await world.model.wait_for(lambda: "third" in str(world.model.requests[-1]["messages"]))

    said = [str(m["content"]) for m in world.request()["messages"] if m["role"] == "user"]
    words = "\n".join(said)
    assert words.index("first") < words.index("second") < words.index("third")


async def test_a_photo_album_whose_second_picture_fails_is_still_one_question(world: World) -> None:
    items = [
        (world.telegram.photo(PNG + bytes([n]), f"photo-{n}"), "these?" if n == 0 else "") for n in (0, 1)
    ]
    world.telegram.fail_next("file", Fault(status=404))
    async with world.running():
        world.answer("One of them.")
        await world.telegram.album(ANA_TELEGRAM, ANA_TELEGRAM, items)
        await world.telegram_shows("One of them.")

    assert len(world.model.requests) == 1
    assert len(pictures_of(world.request())) == 1
