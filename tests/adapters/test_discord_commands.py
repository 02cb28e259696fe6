"""Slash commands of the Discord adapter: the menu, the deferral, private answers and their end."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.emulators.base import Fault
from tests.emulators.discord import DiscordEmulator
from tests.emulators.discord_live import COMMANDS, Live, live_adapter, outbound
from trunkline.adapters.base import ChatKind, ChatRef, CommandSpec, InboundKind, InboundMessage
from trunkline.adapters.discord import DiscordAdapter

MENU_CALLS = ("put_commands", "create_command", "delete_command")


@pytest.fixture
async def emulator() -> AsyncIterator[DiscordEmulator]:
    async with DiscordEmulator().running() as emulator:
        yield emulator
    assert emulator.violations == []


@pytest.fixture
async def live(emulator: DiscordEmulator) -> AsyncIterator[Live]:
    async with live_adapter(emulator) as live:
        yield live


def place(said: InboundMessage) -> ChatRef:
    return ChatRef(said.chat, said.thread, said.interaction, said.interaction_expires)


def menu_calls(emulator: DiscordEmulator) -> list[str]:
    return [call.method for call in emulator.calls if call.method in MENU_CALLS]


def names(emulator: DiscordEmulator) -> set[str]:
    return {command["name"] for command in emulator.world.commands.values()}


async def test_the_menu_is_registered_once_and_left_alone_while_unchanged(emulator: DiscordEmulator) -> None:
    async with live_adapter(emulator):
        await emulator.wait_for(lambda: names(emulator) == {"help", "search"})
    async with live_adapter(emulator) as live:
        await emulator.wait_for(lambda: len(emulator.calls_of("get_commands")) == 2)
        await emulator.gateway.reconnect()
        await emulator.wait_for(lambda: emulator.gateway.resumes == 1)
        await emulator.direct_message("77", "still here")
        await live.nth(1)

    assert menu_calls(emulator) == ["put_commands"]


async def test_a_changed_help_text_is_registered_anew(emulator: DiscordEmulator) -> None:
    async with live_adapter(emulator):
        await emulator.wait_for(lambda: names(emulator) == {"help", "search"})
    async with live_adapter(emulator, (replace(COMMANDS[0], help="All of it"), COMMANDS[1])):
        await emulator.wait_for(lambda: len(emulator.calls_of("put_commands")) == 2)

    assert "All of it" in {command["description"] for command in emulator.world.commands.values()}


async def test_at_the_limit_the_obsolete_goes_before_the_new_comes(emulator: DiscordEmulator) -> None:
    specs = [CommandSpec(f"c{number}", "one of many") for number in range(100)]
    async with live_adapter(emulator, specs):
        await emulator.wait_for(lambda: len(names(emulator)) == 100)
    async with live_adapter(emulator, [*specs[1:], CommandSpec("fresh", "new")]):
        await emulator.wait_for(lambda: "fresh" in names(emulator))

    assert menu_calls(emulator) == ["put_commands", "delete_command", "put_commands"]
    assert len(names(emulator)) == 100


async def test_commands_beyond_the_limit_work_as_text(emulator: DiscordEmulator) -> None:
    specs = [CommandSpec(f"c{number}", "one of many") for number in range(130)]
    async with live_adapter(emulator, specs) as live:
        await emulator.wait_for(lambda: len(names(emulator)) == 100)
        await emulator.direct_message("77", "/c129")
        said = await live.nth(1)

    assert (said.kind, said.command) == (InboundKind.COMMAND, "c129")


async def test_names_that_discord_does_not_take_work_as_text(emulator: DiscordEmulator) -> None:
    good, bad = ("help", "weekly-report", "周报"), ("x" * 33, "க்ஷ", "Loud")
    async with live_adapter(emulator, [CommandSpec(name, "one", "<words>") for name in good + bad]) as live:
        await emulator.wait_for(lambda: names(emulator) == set(good))
        await emulator.direct_message("77", f"/{bad[0]} now")
        said = await live.nth(1)

    assert (said.kind, said.command, said.text) == (InboundKind.COMMAND, bad[0], "now")


async def test_a_menu_that_fails_stops_nothing(emulator: DiscordEmulator) -> None:
    emulator.fail_next("get_commands", Fault(status=403, body={"message": "no", "code": 50001}))
    async with live_adapter(emulator) as live:
        await emulator.direct_message("77", "/help")

        assert (await live.nth(1)).command == "help"


async def test_a_slow_menu_delays_no_message(emulator: DiscordEmulator) -> None:
    emulator.fail_next("get_commands", Fault(delay_s=3600))
    async with live_adapter(emulator) as live:
        await emulator.direct_message("77", "hello")

        assert (await live.nth(1)).text == "hello"


async def test_a_slash_command_arrives_deferred_and_is_answered_privately(live: Live) -> None:
    channel = live.emulator.general
    await live.emulator.slash("77", "search", "old boats", channel=channel)
    said = await live.nth(1)

    first = await live.adapter.send(outbound("Found it.", place(said), ephemeral=True, nonce="t.0"))
    second = await live.adapter.send(outbound("And more.", place(said), ephemeral=True, nonce="t.1"))
    await live.adapter.edit(second.message_id, outbound("And much more.", place(said), ephemeral=True))

    assert (said.kind, said.command, said.text) == (InboundKind.COMMAND, "search", "old boats")
    assert (said.chat, said.chat_kind, said.sender.id, said.language) == (
        channel,
        ChatKind.GROUP,
        "77",
        "en-US",
    )
    assert said.key == f"e:{said.event_id}"
    answers = live.emulator.sent(channel)
    assert [(a.id, a.text, a.ephemeral) for a in answers] == [
        (first.message_id, "Found it.", True),
        (second.message_id, "And much more.", True),
    ]


async def test_a_slash_command_in_a_thread_and_in_a_direct_chat_knows_its_place(live: Live) -> None:
    thread = await live.emulator.create_thread(live.emulator.general, "77", "plans")
    await live.emulator.slash("77", "help", channel=thread)
    await live.nth(1)
    await live.emulator.slash("77", "help")

    in_thread, direct = await live.nth(1), await live.nth(2)

    assert (in_thread.chat, in_thread.thread, in_thread.chat_kind) == (
        live.emulator.general,
        thread,
        ChatKind.THREAD,
    )
    assert (direct.chat, direct.chat_kind) == (live.emulator.direct_chat("77"), ChatKind.DIRECT)


async def test_a_public_answer_goes_to_the_chat_and_clears_the_placeholder(live: Live) -> None:
    token = await live.emulator.slash("77", "help", channel=live.emulator.general)
    said = await live.nth(1)

    await live.adapter.send(outbound("For all.", place(said)))

    [answer] = live.emulator.sent(live.emulator.general)
    assert (answer.text, answer.ephemeral) == ("For all.", False)
    assert not live.emulator.world.interactions[token].loading


async def test_a_private_answer_whose_time_is_over_goes_to_the_chat(live: Live) -> None:
    await live.emulator.slash("77", "help", channel=live.emulator.general)
    said = await live.nth(1)
    past = replace(place(said), interaction_expires=datetime.now(UTC) - timedelta(seconds=1))

    await live.adapter.send(outbound("Late.", past, ephemeral=True))

    assert live.emulator.calls_of("followup") == []
    assert [(a.text, a.ephemeral) for a in live.emulator.sent()] == [("Late.", False)]


async def test_an_interaction_discord_has_forgotten_is_answered_in_the_chat(live: Live) -> None:
    live.emulator.rules.interaction_life_s = 0
    await live.emulator.slash("77", "help", channel=live.emulator.general)
    said = await live.nth(1)

    await live.adapter.send(outbound("Late.", place(said), ephemeral=True))

    assert [(a.text, a.ephemeral) for a in live.emulator.sent()] == [("Late.", False)]


async def test_the_interaction_ends_fifteen_minutes_after_it_began(live: Live) -> None:
    await live.emulator.slash("77", "help")
    said = await live.nth(1)

    assert said.interaction_expires == said.sent_at + timedelta(minutes=15)


async def test_a_command_too_late_to_defer_runs_once_and_is_answered_in_the_chat(live: Live) -> None:
    await live.emulator.slash("77", "help", channel=live.emulator.general, late=True)
    said = await live.nth(1)

    await live.adapter.send(outbound("Here.", place(said), ephemeral=True))

    assert (said.kind, said.interaction) == (InboundKind.COMMAND, None)
    assert live.emulator.texts(live.emulator.general) == ["Here."]
    assert len(live.received) == 1


async def test_a_deferral_whose_answer_got_lost_is_still_answered_privately(live: Live) -> None:
    live.emulator.fail_next("interaction_callback", Fault(accept_then_drop=True))
    await live.emulator.slash("77", "help", channel=live.emulator.general)
    said = await live.nth(1)

    await live.adapter.send(outbound("Psst.", place(said), ephemeral=True))

    assert [(a.text, a.ephemeral) for a in live.emulator.sent()] == [("Psst.", True)]


async def test_a_command_only_an_old_menu_shows_still_arrives(live: Live) -> None:
    await live.emulator.slash("77", "retired", "some words")

    said = await live.nth(1)

    assert (said.command, said.text) == ("retired", "some words")


async def test_commands_are_deferred_while_the_inbox_stands_still(emulator: DiscordEmulator) -> None:
    async def stuck(message: InboundMessage) -> None:
        await asyncio.Event().wait()

    adapter = DiscordAdapter(emulator.token, commands=COMMANDS, connector=emulator.connector)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(adapter.run(stuck, lambda tenant: None))
        await emulator.connected()
        await emulator.direct_message("77", "first")
        token = await emulator.slash("77", "help")
        await emulator.wait_for(lambda: emulator.world.interactions[token].answered)
        running.cancel()
