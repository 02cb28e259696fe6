"""Reminders from people's side: rooms, another platform standing in, and a program that is killed."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import update

from tests.e2e.installed import DEADLINE_S, Installed, installed_program
from tests.e2e.world import ANA_TELEGRAM, World
from tests.emulators.base import Fault
from tests.emulators.openai import Reply
from trunkline.gateway.clock import now_ms
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.schema import reminder

SETTINGS = f"""
model: {{name: emulated, tool_calls: native}}
platforms: {{web: {{port: 0}}}}
shutdown: {{grace: 20}}
people:
  ana: {{role: owner, telegram: {ANA_TELEGRAM}}}
access: {{welcome: false}}
"""


@pytest.fixture
async def program(tmp_path: Path) -> AsyncIterator[Installed]:
    async with installed_program(tmp_path) as made:
        (tmp_path / "trunkline" / "config.yaml").write_text(SETTINGS, encoding="utf-8")
        yield made


async def make_due(home: Path) -> None:
    """The hours of what waits are over."""
    waiting = update(reminder).where(reminder.c.state == "waiting")
    with Database.sqlite(home / "state.db") as database:
        await database.write(lambda c: c.execute(waiting.values(due_ms=now_ms() - 1)))


async def test_who_blocked_the_bot_in_one_chat_is_reminded_in_their_home_chat(world: World) -> None:
    async with world.running():
        await world.ana_on_discord("/sethome")
        direct = world.discord.direct_chat(world.ana_discord)
        await world.discord_shows("This chat is your home now", direct)
        await world.ana_on_telegram("/remind in 2 hours call Mum")
        await world.telegram_shows("I'll remind you")
        await world.telegram.block(ANA_TELEGRAM)
        await make_due(world.home)

        await world.discord_shows("⏰ call Mum", direct)
        await world.discord_shows("I can't reach the chat where you asked for it", direct)

    assert not [text for text in world.telegram.texts(ANA_TELEGRAM) if "⏰" in text]


async def test_a_home_is_chosen_in_a_direct_chat_only(world: World) -> None:
    async with world.running():
        room = world.discord.general
        await world.discord.channel_message(room, world.ana_discord, "/sethome", mention=True)
        await world.discord_shows("That is private: ask me in a direct message", room)
        await world.ana_on_telegram("/sethome off")
        await world.telegram_shows("You have no chosen home any more")


async def test_a_scheduled_run_of_a_room_works_with_what_the_room_may_see(world: World) -> None:
    room = world.discord.general
    async with world.running():
        world.call("memory", target="user", action="add", content="Ana's secret plan.")
        world.answer("Noted.")
        await world.ana_on_telegram("remember my secret plan")
        await world.telegram_shows("Noted.")

        world.call("remind", text="Say what is planned", after="1s", do="run")
        world.answer("I'll do it here.")
        world.model.then(Reply("Nothing is planned here."))
        await world.discord.channel_message(room, world.ana_discord, "say the plan in a second", mention=True)
        await world.discord_shows("Nothing is planned here.", room)

    assert "begun by a schedule" in world.last_user()
    assert "secret plan" not in str(world.request())


@pytest.mark.blackbox
async def test_killed_before_one_is_due_or_while_it_is_sent_it_comes_after_all(program: Installed) -> None:
    telegram = program.telegram
    async with program.running() as running:
        await program.connected()
        await telegram.direct_message(ANA_TELEGRAM, "/remind in 2 hours call Mum")
        await shows(program, "I'll remind you")
        await running.kill()

    async with program.running() as running:
        await program.connected()
        await make_due(program.home / "trunkline")
        await shows(program, "⏰ call Mum")
        await telegram.direct_message(ANA_TELEGRAM, "/remind in 2 hours water the plants")
        await shows(program, "water the plants")
        sent = len(telegram.calls_of("sendMessage"))
        telegram.fail_next("sendMessage", Fault(delay_s=60))
        await make_due(program.home / "trunkline")
        await telegram.wait_for(lambda: len(telegram.calls_of("sendMessage")) > sent, DEADLINE_S)
        await running.kill()

    async with program.running():
        await program.connected()
        await shows(program, "⏰ water the plants")

    shown = telegram.texts(ANA_TELEGRAM)
    assert shown.count("⏰ call Mum") == shown.count("⏰ water the plants") == 1
    assert shown[-2] == "A reminder of mine may not have arrived, so here it is again:"


async def shows(program: Installed, text: str) -> None:
    await program.telegram.wait_for(
        lambda: any(text in shown for shown in program.telegram.texts(ANA_TELEGRAM)), DEADLINE_S
    )
