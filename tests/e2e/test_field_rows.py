"""Rows of research/field-issues.md told over the whole house, and their siblings on the other platforms."""

import asyncio

import pytest
from sqlalchemy import select

from tests.e2e.test_amending import database, settled
from tests.e2e.test_steering import arrived
from tests.e2e.world import ANA_SLACK, ANA_TELEGRAM, World
from tests.emulators.base import Fault
from tests.emulators.openai import Reply
from tests.gateway.lanes import flood, refusal
from tests.gateway.small_house import eventually
from trunkline.gateway.state.schema import outbox

STYLED = "\n\n".join(f"# Part {number}\n\n" + f"word{number} " * 600 for number in range(3))
BAD_KEY = Reply(status=401, error="bad key", code="invalid_api_key")
REFUSED = refusal(400, "Bad Request: can't parse entities: unsupported start tag at byte offset 7")


async def test_a_part_whose_styles_are_refused_arrives_as_plain_text_in_its_place(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """TG-01.2: of three parts only the second is refused."""
    world.telegram.fail_next("sendMessage", Fault(serve=True))
    world.telegram.fail_next("sendMessage", REFUSED)
    async with world.running():
        world.model.then(Reply(STYLED, chunk_chars=20_000))
        await world.ana_on_telegram("tell me")
        await world.telegram_shows("word2")
        await settled(world, 1)

    first, second, third = world.telegram.sent(ANA_TELEGRAM)
    assert second.entities == ()
    assert second.text.startswith("Part 1\n\nword1")
    assert first.entities
    assert third.entities
    words = [word for shown in (first, second, third) for word in shown.text.split() if "word" in word]
    assert words == [f"word{number}" for number in range(3) for _ in range(600)]
    assert [record.message for record in caplog.records if "styles refused" in record.message] == [
        "styles refused, sent as plain text: Can't parse entities: unsupported start tag at byte offset 7"
    ]


async def test_an_edit_whose_styles_are_refused_is_made_as_plain_text(world: World) -> None:
    """TG-01.2, for the text that a streamed answer ends with."""
    async with world.running():
        world.model.then(Reply("Here it comes. **It is here.**", chunk_chars=16, chunk_delay_s=0.2))
        world.telegram.fail_next("editMessageText", REFUSED, times=1)
        await world.ana_on_telegram("tell me")
        await world.telegram_shows("It is here.")
        await settled(world, 1)

    assert world.telegram.texts(ANA_TELEGRAM) == ["Here it comes. It is here."]


async def test_emoji_that_the_client_cut_are_one_message(world: World) -> None:
    """TG-03.3: 2048 characters outside the basic plane fill a message of 4096 units."""
    first, rest = "🦀" * 2048, "🦀 and that is all"
    async with world.running():
        world.answer("Read it all.")
        await world.ana_on_telegram(first)
        await arrived(world, 1)
        await world.ana_on_telegram(rest)
        await world.telegram_shows("Read it all.")

    assert len(world.model.requests) == 1
    assert world.last_user().endswith(f"{first}\n{rest}")


async def test_stop_is_obeyed_at_once_while_the_rest_of_a_long_text_is_waited_for(world: World) -> None:
    """TG-17.4: what had come of the text is not answered, what comes afterwards is."""
    world.model.responder = lambda body: (
        Reply("Better so.") if "something else" in str(body) else Reply("Never.", held=asyncio.Event())
    )
    async with world.running():
        await world.ana_on_telegram("a" * 4096)
        await world.ana_on_telegram("/stop")
        await settled(world, 1)
        await world.ana_on_telegram("something else")
        await world.telegram_shows("Better so.")
        await settled(world, 2)

    assert world.telegram.texts(ANA_TELEGRAM) == ["Stopped.", "Better so."]


async def test_what_a_model_fails_at_in_a_thread_is_told_there_and_its_sign_is_gone(world: World) -> None:
    """TG-10.1, TG-16.3 and SL-09.2 on a failing turn."""
    slack, discord, telegram = world.slack, world.discord, world.telegram
    forum = -1_002_000_000_002
    telegram.group(forum, topics=(11,))
    slack.workspace.add_channel("C1", "channel", (ANA_SLACK,))
    rooms = {f"telegram/{forum}": {}, f"discord/{discord.general}": {}, "slack/T0TEAM/C1": {}}
    world.model.responder = lambda _: BAD_KEY
    async with world.running(rooms=rooms):
        await telegram.group_message(forum, ANA_TELEGRAM, "hello", thread=11)
        await world.telegram_shows("refused my key", forum)
        thread = await discord.create_thread(discord.general, world.ana_discord, "plans")
        await discord.channel_message(thread, world.ana_discord, "hello", mention=True)
        await world.discord_shows("refused my key", thread)
        root = await slack.channel_message("C1", ANA_SLACK, "hello")
        await slack.wait_for(lambda: slack.texts("C1", root))
        await settled(world, 3)
        await slack.wait_for(lambda: not slack.workspace.statuses)
        signs = len(telegram.calls_of("sendChatAction")), len(discord.calls_of("typing"))
        world.model.responder = lambda _: Reply("All is well.")
        await world.ana_on_telegram("and now?")
        await world.telegram_shows("All is well.")

    assert [shown.thread for shown in telegram.sent(forum)] == [11]
    assert discord.texts(discord.general) == []
    assert slack.texts("C1") == []
    later = telegram.calls_of("sendChatAction")[signs[0] :]
    assert all(call.arguments["chat_id"] == ANA_TELEGRAM for call in later)
    assert len(discord.calls_of("typing")) == signs[1]


async def test_an_alert_that_is_nothing_but_an_embed_is_read_where_its_webhook_is_named(world: World) -> None:
    """DC-07.3; of a webhook that nobody named not a word is read."""
    discord, room, hook = world.discord, world.discord.general, "900000000000000001"
    alert = {"type": "rich", "title": "Disk full", "description": "/var on host-3 is at 98%"}
    async with world.running(rooms={f"discord/{room}": {"free": True, "listen": True, "bots": hook}}):
        world.answer("I see it.")
        await discord.webhook_message(room, "Spam", "", embeds=[{**alert, "title": "Buy now"}])
        await discord.webhook_message(room, "Alerts", "", hook=hook, embeds=[alert])
        await world.discord_shows("I see it.", room)
        await settled(world, 1)

    assert world.last_user().endswith("Disk full\n/var on host-3 is at 98%")
    assert '⟦from "Alerts"⟧' in world.last_user()
    assert "Buy now" not in str(world.model.requests)
    assert len(world.model.requests) == 1


async def test_an_answer_that_nobody_confirmed_is_not_repeated_with_the_next(world: World) -> None:
    """GW-01.2."""
    async with world.running():
        world.answer("One.", "Two.")
        world.telegram.fail_next("sendMessage", Fault(accept_then_drop=True))
        await world.ana_on_telegram("first")
        await world.telegram_shows("may not have arrived")
        await world.ana_on_telegram("second")
        await world.telegram_shows("Two.")
        await settled(world, 2)

    shown = world.telegram.texts(ANA_TELEGRAM)
    assert (shown.count("One."), shown.count("Two.")) == (1, 1)
    assert shown[-1] == "Two."


async def test_an_answer_that_has_to_wait_outlives_the_process_and_nothing_is_sent_meanwhile(
    world: World,
) -> None:
    """TG-05.3."""
    telegram = world.telegram
    telegram.fail_next("sendMessage", flood(4))
    async with world.running():
        world.answer("At last.")
        await world.ana_on_telegram("hello")
        await eventually(lambda: _is_put_off(world))
    async with world.running():
        await world.telegram_shows("At last.")
        await settled(world, 1)

    refused, sent = telegram.calls_of("sendMessage")
    assert sent.at - refused.at >= 4
    chat_calls = [call for call in telegram.calls if call.arguments.get("chat_id") == ANA_TELEGRAM]
    assert [call for call in chat_calls if refused.at < call.at < refused.at + 4] == []


async def _is_put_off(world: World) -> bool:
    query = select(outbox.c.id).where(outbox.c.state == "planned", outbox.c.not_before_ms > 0)
    with database(world) as state:
        return bool(await state.read(lambda c: c.execute(query).all()))
