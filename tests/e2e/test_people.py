"""One person on three platforms by codes, and nobody else's business: over the real client libraries."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.world import ANA_SLACK, ANA_TELEGRAM, World
from tests.emulators.base import Emulator
from tests.emulators.openai import Reply
from trunkline.gateway import presence
from trunkline.gateway.state import codes, people
from trunkline.gateway.state.database import Database

CY_TELEGRAM, CY_DISCORD, CY_SLACK = 1003, "2003", "UCY"
ACKNOWLEDGED = ("answerCallbackQuery", "interaction_callback")
"""What a platform is told when a button was pressed or a slash command came, whoever did it."""


def code_in(texts: list[str]) -> str:
    words = re.findall(r"\b[A-Z2-9]{8}\b", "\n".join(texts))
    return next((word for word in reversed(words) if codes.looks_like_code(word)), "")


@contextmanager
def logged() -> Iterator[list[str]]:
    """Every line that our own code logs, at DEBUG."""
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    root, handler = logging.getLogger("trunkline"), Kept(logging.DEBUG)
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


async def test_a_stranger_is_let_in_links_three_platforms_by_codes_that_no_log_holds_and_unlinks_them(
    world: World,
) -> None:
    world.model.responder = lambda _: Reply("Of course.")
    with logged() as lines:
        async with world.running():
            await world.telegram.direct_message(CY_TELEGRAM, "hello")
            await world.telegram_shows("Your code is", CY_TELEGRAM)
            pairing = code_in(world.telegram.texts(CY_TELEGRAM))
            await world.ana_on_telegram(f"/approve {pairing}")
            await world.telegram_shows("You're in", CY_TELEGRAM)

            await world.telegram.direct_message(CY_TELEGRAM, "/link")
            await world.telegram_shows("good for ten minutes", CY_TELEGRAM)
            first = code_in(world.telegram.texts(CY_TELEGRAM))
            chat = world.discord.direct_chat(CY_DISCORD)
            await world.discord.slash(CY_DISCORD, "link", first, channel=chat)
            await world.discord_shows("on Telegram (1003)", chat)
            await world.telegram_shows("on Discord (2003)", CY_TELEGRAM)
            await world.discord.direct_message(CY_DISCORD, "yes")
            await world.discord_shows("Now write", chat)
            await world.telegram.direct_message(CY_TELEGRAM, "/link yes")
            await world.discord_shows("Linked", chat)

            await world.discord.slash(CY_DISCORD, "link", "", channel=chat)
            await world.discord.wait_for(lambda: code_in(world.discord.texts(chat)) not in ("", first))
            second = code_in(world.discord.texts(chat))
            await world.slack.direct_message(CY_SLACK, second)
            await world.slack.wait_for(lambda: "on Discord (2003)" in shown_on_slack(world))
            await world.slack.direct_message(CY_SLACK, "yes")
            await world.slack.wait_for(lambda: "Now write" in shown_on_slack(world))
            await world.discord.slash(CY_DISCORD, "link", "yes", channel=chat)
            await world.slack.wait_for(lambda: "Linked" in shown_on_slack(world))

            await world.telegram.direct_message(CY_TELEGRAM, "/whoami")
            await world.telegram_shows(CY_SLACK, CY_TELEGRAM)
            await world.telegram_shows(CY_DISCORD, CY_TELEGRAM)

            await world.slack.direct_message(CY_SLACK, "!unlink here")
            await world.slack.wait_for(lambda: f"({CY_SLACK}) is no longer yours" in shown_on_slack(world))
            await world.discord.slash(CY_DISCORD, "unlink", "here", channel=chat)
            await world.discord_shows(f"({CY_DISCORD}) is no longer yours", chat)
            await world.telegram.direct_message(CY_TELEGRAM, "/unlink here")
            await world.telegram_shows("no other account linked", CY_TELEGRAM)

    assert lines
    assert not [line for line in lines for code in (pairing, first, second) if code in line]


def shown_on_slack(world: World) -> str:
    return "\n".join(world.slack.texts(world.slack.workspace.direct_channel(CY_SLACK).id))


async def test_a_link_of_telegram_with_a_code_in_it_links(world: World) -> None:
    async with world.running():
        await world.ana_on_discord("/link")
        chat = world.discord.direct_chat(world.ana_discord)
        await world.discord_shows("good for ten minutes", chat)
        code = code_in(world.discord.texts(chat))

        await world.telegram.direct_message(CY_TELEGRAM, f"/start {code}")
        await world.telegram_shows("on Discord (2001)", CY_TELEGRAM)
        await world.telegram.direct_message(CY_TELEGRAM, "/link yes")
        await world.telegram_shows("Now write", CY_TELEGRAM)
        await world.ana_on_discord("/link yes")
        await world.telegram_shows("Linked", CY_TELEGRAM)
    assert world.telegram.texts(ANA_TELEGRAM) == []


# Strangers


async def settled(world: World) -> None:
    """Returns when a message of Ana's that came after all else is answered on each platform."""
    done = f"Done {len(world.model.requests)}."
    world.model.responder = lambda _: Reply(done)
    await world.ana_on_telegram("ready?")
    await world.ana_on_discord("ready?")
    await world.ana_on_slack("ready?")
    await world.telegram_shows(done)
    await world.discord_shows(done, world.discord.direct_chat(world.ana_discord))
    ana = world.slack.workspace.direct_channel(ANA_SLACK).id
    await world.slack.wait_for(lambda: done in world.slack.texts(ana))


async def everything_on_telegram(world: World) -> None:
    """A stranger does all that one can do to a bot in a direct chat, and in a group nobody allowed."""
    for command in (
        "/start",
        "/help",
        "/link ABCDEFGH",
        "/approve ABCDEFGH",
        "/memory",
        "/delete-me",
        "/stop",
    ):
        await world.telegram.direct_message(CY_TELEGRAM, command)
    photo = world.telegram.photo(b"not looked at")
    said = await world.telegram.direct_message(CY_TELEGRAM, "look", **photo)
    await world.telegram.edit_message(CY_TELEGRAM, said.message_id, "look again")
    await world.telegram.react(CY_TELEGRAM, CY_TELEGRAM, said.message_id, "👍")
    for payload in ("admit:1", "stop:1", "retry:1", "keep:1", "x" * 64):
        await world.telegram.press_button(CY_TELEGRAM, CY_TELEGRAM, said.message_id, payload)
    await world.telegram.direct_message(CY_TELEGRAM, **world.telegram.voice(b"not listened to"))
    for file in (world.telegram.photo(b"one"), world.telegram.photo(b"two")):
        await world.telegram.direct_message(CY_TELEGRAM, media_group_id="7", **file)
    await world.telegram.direct_message(CY_TELEGRAM, contact={"first_name": "X", "phone_number": "1"})
    await world.telegram.direct_message(CY_TELEGRAM, "/start ABCDEFGH")
    asked = {"id": "1", "from": world.telegram.person(CY_TELEGRAM), "query": "tell me", "offset": ""}
    await world.telegram.push_raw("inline_query", asked)
    await world.telegram.group_message(-100777, CY_TELEGRAM, "hello")
    await world.telegram.group_message(-100777, CY_TELEGRAM, "/memory")
    await world.telegram.service_message(
        -100777, CY_TELEGRAM, new_chat_members=[world.telegram.person(CY_TELEGRAM)]
    )


async def everything_on_discord(world: World) -> None:
    file = world.discord.attachment("x.txt", b"not looked at", "text/plain")
    said = await world.discord.direct_message(CY_DISCORD, "hello", attachments=[file])
    chat = world.discord.direct_chat(CY_DISCORD)
    await world.discord.edit(chat, said, "hello again")
    await world.discord.react(CY_DISCORD, chat, said, "👍")
    await world.discord.direct_message(CY_DISCORD, "!link ABCDEFGH")
    await world.discord.slash(CY_DISCORD, "memory", "list", channel=chat)
    await world.discord.slash(CY_DISCORD, "export", channel=chat)
    closed = await world.discord.create_channel("closed")
    await world.discord.channel_message(closed, CY_DISCORD, "hello", mention=True)
    await world.discord.slash(CY_DISCORD, "help", channel=closed)
    thread = await world.discord.create_thread(closed, CY_DISCORD, "a thread")
    await world.discord.channel_message(thread, CY_DISCORD, "hello", mention=True)


async def everything_on_slack(world: World) -> None:
    file = world.slack.store_file("x.txt", "text/plain", b"not looked at")
    stamp = await world.slack.direct_message(CY_SLACK, "hello", files=[file])
    channel = world.slack.workspace.direct_channel(CY_SLACK).id
    await world.slack.message_changed(channel, stamp, "hello again")
    await world.slack.react(CY_SLACK, channel, stamp, "thumbsup")
    await world.slack.slash(CY_SLACK, channel, "memory")
    await world.slack.open_pane(CY_SLACK)
    await world.slack.channel_message("CCLOSED", CY_SLACK, "hello", mention=True)
    await world.slack.member_joined("CCLOSED", CY_SLACK)


def calls_for_others(world: World, since: dict[str, int]) -> list[tuple[str, str]]:
    """Every call to a platform since then that isn't for Ana: none is needed to keep silent."""
    own = (
        str(ANA_TELEGRAM),
        world.discord.direct_chat(world.ana_discord),
        "DANA",
        ANA_SLACK,
        world.ana_discord,
    )
    # Whole ids: four digits stand in many a nonce.
    for_ana = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, own))})(?!\w)")
    found = []
    for name, emulator in emulators(world).items():
        for call in emulator.calls[since[name] :]:
            if call.method not in ("getUpdates", *ACKNOWLEDGED):
                shown = str(call.arguments)
                found += [] if for_ana.search(shown) else [(name, f"{call.method} {shown}")]
    return found


def emulators(world: World) -> dict[str, Emulator]:
    return {"telegram": world.telegram, "discord": world.discord, "slack": world.slack}


async def test_strangers_who_are_ignored_cause_no_call_to_any_platform_and_no_model_call(
    world: World,
) -> None:
    async with world.running(access={"unknown": "ignore"}):
        await settled(world)
        since = {name: len(emulator.calls) for name, emulator in emulators(world).items()}
        asked = len(world.model.requests)

        await everything_on_telegram(world)
        await everything_on_discord(world)
        await everything_on_slack(world)
        await settled(world)

        assert calls_for_others(world, since) == []
        assert len(world.model.requests) == asked + 3


async def test_strangers_get_one_code_each_and_cause_no_other_call(world: World) -> None:
    async with world.running():
        await settled(world)
        since = {name: len(emulator.calls) for name, emulator in emulators(world).items()}
        asked = len(world.model.requests)

        await everything_on_telegram(world)
        await everything_on_discord(world)
        await everything_on_slack(world)
        await world.telegram_shows("Your code is", CY_TELEGRAM)
        await world.discord_shows("Your code is", world.discord.direct_chat(CY_DISCORD))
        await world.slack.wait_for(lambda: "Your code is" in shown_on_slack(world))
        await settled(world)

        found = calls_for_others(world, since)
        assert [name for name, _ in found] == ["telegram", "discord", "slack"], found
        assert all("Your code is" in shown for _, shown in found)
        assert len(world.model.requests) == asked + 3


@pytest.mark.parametrize("how", ["left the server", "sees the channel no more"])
async def test_who_left_a_room_of_discord_is_found_to_have_left(how: str, world: World) -> None:
    general, bo = world.discord.general, world.bo_discord
    if how != "left the server":
        hidden = {"id": bo, "type": 1, "allow": "0", "deny": "1024"}
        world.discord.world.channels[general]["permission_overwrites"] = [hidden]
    async with world.running():
        world.answer("Hi Bo.", "Hi Ana.")
        await world.discord.channel_message(general, bo, "hello", mention=True)
        await world.discord_shows("Hi Bo.")
        await world.discord.channel_message(general, world.ana_discord, "hello", mention=True)
        await world.discord_shows("Hi Ana.")
        if how == "left the server":
            world.discord.world.gone.add(bo)

        with Database.sqlite(world.home / "state.db") as database:
            adapter = world.discord_adapter
            assert adapter is not None
            assert await presence.look(database, "discord", adapter, pause_s=0) == 1
            members = await database.read(lambda c: people.members_on(c, "discord"))
            assert [account.user_id for _, account in members] == [world.ana_discord]
            assert await presence.look(database, "discord", adapter, pause_s=0) == 0
