"""Discord's buttons and reactions, over the real library against the emulator."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.emulators.discord import DiscordEmulator
from tests.emulators.discord_live import Live, live_adapter, outbound
from trunkline.adapters.base import Button, ChatRef, InboundKind, InboundMessage, Rejected

STOP, AGAIN = Button("stop", "■ Stop", "7"), Button("retry", "↻ Again", "7")


@pytest.fixture
async def live() -> AsyncIterator[Live]:
    async with DiscordEmulator().running() as emulator:
        async with live_adapter(emulator) as live:
            yield live
        assert emulator.violations == []


def place(press: InboundMessage) -> ChatRef:
    return ChatRef(press.chat, press.thread, press.interaction, press.interaction_expires)


async def test_buttons_stand_under_a_message_until_an_edit_takes_them_away(live: Live) -> None:
    to = ChatRef(live.emulator.general)

    sent = await live.adapter.send(replace(outbound("Working", to), buttons=(STOP, AGAIN)))
    shown = live.emulator.sent()[0].buttons
    await live.adapter.edit(sent.message_id, outbound("Done", to))

    assert shown == ("■ Stop", "↻ Again")
    assert (live.emulator.texts(), live.emulator.sent()[0].buttons) == (["Done"], ())


async def test_a_press_arrives_and_is_answered_for_its_presser_alone(live: Live) -> None:
    to = ChatRef(live.emulator.general)
    sent = await live.adapter.send(replace(outbound("Working", to), buttons=(STOP,)))

    await live.emulator.press("77", sent.message_id, "■ Stop")
    press = await live.nth(1)
    await live.adapter.send(replace(outbound("Not yours.", place(press), ephemeral=True), private=True))

    assert (press.kind, press.text, press.sender.id) == (InboundKind.BUTTON, "stop:7", "77")
    assert press.reply_to is not None
    assert press.reply_to.message_id == sent.message_id
    assert [(a.text, a.ephemeral) for a in live.emulator.sent()] == [("Working", False), ("Not yours.", True)]


async def test_a_press_too_late_to_defer_arrives_without_an_interaction(live: Live) -> None:
    sent = await live.adapter.send(replace(outbound("Hm", ChatRef(live.emulator.general)), buttons=(STOP,)))

    await live.emulator.press("77", sent.message_id, "■ Stop", late=True)

    press = await live.nth(1)
    assert (press.text, press.interaction) == ("stop:7", None)


async def test_what_is_private_is_refused_when_its_time_is_over(live: Live) -> None:
    await live.emulator.slash("77", "help", channel=live.emulator.general)
    said = await live.nth(1)
    past = replace(place(said), interaction_expires=datetime.now(UTC) - timedelta(seconds=1))

    with pytest.raises(Rejected):
        await live.adapter.send(replace(outbound("Secret.", past, ephemeral=True), private=True))

    assert live.emulator.sent() == []


async def test_a_reaction_names_its_message_and_its_author(live: Live) -> None:
    general = live.emulator.general
    sent = await live.adapter.send(outbound("Done.", ChatRef(general)))

    await live.emulator.react("77", general, sent.message_id, "👍")
    await live.emulator.react("77", general, sent.message_id, "👍", taken=True)

    put, taken = await live.nth(1), await live.nth(2)
    assert (put.kind, put.text, put.sender.id) == (InboundKind.REACTION, "👍", "77")
    assert put.reply_to is not None
    assert (put.reply_to.message_id, put.reply_to.is_own) == (sent.message_id, True)
    assert (taken.text, taken.key != put.key) == ("", True)


async def test_the_bot_puts_a_reaction_on_a_message(live: Live) -> None:
    said = await live.emulator.direct_message("77", "hello")

    await live.adapter.react(ChatRef(live.emulator.direct_chat("77")), said, "👀")

    assert live.emulator.world.reactions == [(said, "👀")]
