"""A person and what is remembered of them, over real client libraries, real files and a real database."""

import asyncio
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from sqlalchemy import select

from tests.e2e.installed import DEADLINE_S, TRUNKLINE
from tests.e2e.page import opened_page
from tests.e2e.world import ANA_TELEGRAM, BO_TELEGRAM, WEB_TOKEN, World
from tests.emulators.openai import Reply
from trunkline.gateway.clock import now_ms
from trunkline.gateway.private_mode import KEPT_MS, erase_due
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.schema import outbox

FACT, WORD = "User is allergic to zanthoxylum.", "zanthoxylum"
TEA = "User likes tea."


def user_file(world: World, person: str = "ana") -> Path:
    path = world.home / "memories" / person / "USER.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def files_with(world: World, word: str) -> list[str]:
    files = (path for path in world.home.rglob("*") if path.is_file())
    return sorted(path.name for path in files if word.encode() in path.read_bytes())


async def ask(world: World, text: str, answer: str) -> None:
    """A message of Ana's on Telegram, and the model's answer to it."""
    world.answer(answer)
    await world.ana_on_telegram(text)
    await world.telegram_shows(answer)


async def test_what_is_forgotten_on_one_platform_is_gone_everywhere_and_the_talk_goes_on(
    world: World,
) -> None:
    async with world.running():
        world.call("memory", action="add", target="user", content=FACT)
        world.answer("Noted, no more of that.")
        await world.ana_on_telegram(f"I can't stand {WORD}, remember that")
        await world.telegram_shows("Noted, no more of that.")
        await world.ana_on_discord("/new")
        world.answer("Hello on Discord.")
        await world.ana_on_discord("hello")
        await world.discord_shows("Hello on Discord.")
        assert FACT in world.system()

        await world.ana_on_slack("/memory")
        await world.slack.wait_for(lambda: any("(Telegram, " in text for text in slack_texts(world)))
        await world.ana_on_telegram("/memory forget 1 transcript")
        await world.telegram_shows("Forgotten for good")
        await world.telegram_shows("Removed from the conversation")

        assert files_with(world, WORD) == []
        world.answer("Still here.")
        await world.ana_on_discord("and now?")
        await world.discord_shows("Still here.")
        assert WORD not in str(world.request())
        assert world.system()
        assert "hello" in str(world.request())
        await ask(world, "what is left?", "Nothing of that.")
        assert WORD not in str(world.request())
        assert files_with(world, WORD) == []


def slack_texts(world: World) -> list[str]:
    return world.slack.texts(world.slack.workspace.direct_channel("UANA").id)


async def test_a_write_waits_for_its_person_on_whatever_platform_they_answer(world: World) -> None:
    async with world.running(memory={"write_approval": True}):
        world.call("memory", action="add", target="user", content=TEA)
        world.answer("I asked you.")
        await world.ana_on_telegram("I like tea, from now on offer it")
        await world.telegram_shows("I asked you.")
        await world.telegram_shows("/memory approve 1")
        results = [m for m in world.request()["messages"] if m["role"] == "tool"]
        assert '"held": true' in results[-1]["content"]
        assert not user_file(world).exists()

        await world.telegram.direct_message(BO_TELEGRAM, "/memory approve 1")
        await world.telegram_shows("Nothing waits for your yes.", BO_TELEGRAM)
        await world.ana_on_discord("/memory approve all")
        await world.discord_shows(f"Saved: “{TEA}”")

        assert TEA in user_file(world).read_text(encoding="utf-8")
        await ask(world, "so?", "Tea it is.")
        assert TEA in world.last_user()


async def test_what_is_known_is_listed_on_every_platform_with_where_it_came_from(world: World) -> None:
    known = f"{TEA} (Telegram, "
    async with world.running(), opened_page(world.web_port) as page:
        world.call("memory", action="add", target="user", content=TEA)
        await ask(world, "I like tea", "Noted.")
        await world.ana_on_telegram("/memory")
        await world.telegram_shows(known)
        await world.ana_on_discord("/memory")
        await world.discord_shows(known)
        await world.ana_on_slack("/memory")
        await world.slack.wait_for(lambda: any(known in text for text in slack_texts(world)))
        await page.open_link(WEB_TOKEN)
        async with page.follow("hall", await page.place("hall")) as events:
            await page.post("hall", "posted-0001", "/memory")
            await events.until(known)


@pytest.mark.blackbox
async def test_what_is_known_is_listed_in_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("people: {ana: {role: owner}}\n", encoding="utf-8")
    (tmp_path / "memories" / "ana").mkdir(parents=True)
    (tmp_path / "memories" / "ana" / "USER.md").write_text(f"{TEA}\n§\n", encoding="utf-8")
    environment = {"PATH": "/usr/bin:/bin", "TRUNKLINE_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}

    chat = await asyncio.create_subprocess_exec(
        TRUNKLINE, "chat", env=environment, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    async with asyncio.timeout(DEADLINE_S):
        said, _ = await chat.communicate(b"/memory\n")

    assert chat.returncode == 0
    assert f"1. {TEA} (by hand)" in said.decode()


async def test_memory_is_answered_in_private_only(world: World) -> None:
    user_file(world).write_text(f"{TEA}\n§\n", encoding="utf-8")
    room = world.discord.general
    async with world.running():
        await world.discord.channel_message(room, world.ana_discord, "/memory", mention=True)
        await world.discord_shows("ask me in a direct message", room)

        assert not any("tea" in text for text in world.discord.texts(room))


async def test_a_private_conversation_leaves_nothing_behind(world: World) -> None:
    async with world.running():
        await ask(world, "an ordinary question", "An ordinary answer.")
        await world.ana_on_telegram("/private")
        await world.telegram_shows("This conversation is private now")
        world.call("memory", action="add", target="user", content=FACT)
        await ask(world, f"between us: {WORD}", f"I see, {WORD}.")
        assert "ordinary" not in str(world.request())
        refused = [m for m in world.request()["messages"] if m["role"] == "tool"]
        assert "private" in refused[-1]["content"]
        await ask(world, "go on", "I go on.")
        assert f"between us: {WORD}" in str(world.request())

        await world.ana_on_telegram("/private off")
        await world.telegram_shows("The private conversation is erased.")
        assert files_with(world, WORD) == []
        await ask(world, "what did I say?", "I don't know.")
        assert WORD not in str(world.request())


async def test_a_private_conversation_is_erased_by_the_clock_and_the_person_told(world: World) -> None:
    async with world.running():
        await world.ana_on_telegram("/private")
        await world.telegram_shows("This conversation is private now")
        await ask(world, f"between us: {WORD}", "I see.")
        with Database.sqlite(world.home / "state.db") as other_process:
            await erase_due(other_process, now_ms() + KEPT_MS + 1000)

        await world.telegram_shows("24 hours are over")
        await ask(world, "hello again", "Hello.")
        assert WORD not in str(world.request())


async def test_a_pause_keeps_the_model_from_saving_until_the_person_resumes(world: World) -> None:
    async with world.running():
        await world.ana_on_telegram("/memory pause")
        await world.telegram_shows("Paused")
        world.call("memory", action="add", target="user", content=TEA)
        await ask(world, "I like tea", "Memory is paused.")
        assert not user_file(world).exists()

        await world.ana_on_discord("/memory resume")
        await world.discord_shows("I remember again")
        world.call("memory", action="add", target="user", content=TEA)
        await ask(world, "I like tea", "Now I know.")
        assert TEA in user_file(world).read_text(encoding="utf-8")

        await world.ana_on_telegram("/memory undo")
        await world.telegram_shows(f"Taken out again: {TEA}")
        assert TEA not in user_file(world).read_text(encoding="utf-8")


FREE_FORM = """\
# About Ana

Lives in Lisbon, near the river,
with two cats.

* plays the cello
* is allergic to zanthoxylum

1) tea at five
"""


async def test_a_hand_written_file_is_known_shown_and_loses_only_what_is_removed(world: World) -> None:
    user_file(world).write_text(FREE_FORM, encoding="utf-8")
    async with world.running():
        await ask(world, "hello", "Hello Ana.")
        for fact in ("near the river", "two cats", "plays the cello", "tea at five"):
            assert fact in world.system()
        await world.ana_on_telegram("/memory")
        await world.telegram_shows("plays the cello (by hand)")

        world.call("memory", action="remove", target="user", old_text="plays the cello")
        await ask(world, "I sold the cello", "I took it out.")

    left = user_file(world).read_text(encoding="utf-8")
    assert "cello" not in left
    for kept in ("About Ana", "near the river,\nwith two cats.", f"allergic to {WORD}", "tea at five"):
        assert kept in left
    assert user_file(world).with_name("USER.md.bak").read_text(encoding="utf-8") == FREE_FORM


async def test_a_file_that_was_there_first_is_in_the_first_request_on_every_platform(world: World) -> None:
    """MEM-09.1."""
    user_file(world).write_text(f"{TEA}\n§\n", encoding="utf-8")
    mouths = (world.ana_on_telegram, world.ana_on_discord, world.ana_on_slack)
    world.model.responder = lambda _: Reply("Hello.")
    async with world.running():
        for asked, mouth in enumerate(mouths, 1):
            await mouth("hello")
            await world.model.wait_for(lambda n=asked: len(world.model.requests) == n)  # type: ignore[misc]

    assert [TEA in world.system(number) for number in range(len(mouths))] == [True] * len(mouths)


async def test_an_edit_by_hand_while_a_session_runs_is_told_once_as_a_change(world: World) -> None:
    user_file(world).write_text(f"{TEA}\n§\n", encoding="utf-8")
    async with world.running():
        await ask(world, "hello", "One.")
        system = world.system()
        user_file(world).write_text("User likes coffee.\n§\n", encoding="utf-8")

        await ask(world, "and now?", "Two.")
        assert "User likes coffee." in world.last_user()
        await ask(world, "and then?", "Three.")

    assert "coffee" not in world.last_user()
    assert world.system() == system


async def test_a_file_that_cannot_be_read_is_said_and_never_written_over(world: World) -> None:
    broken = b"\xff\xfe not text \x00" + TEA.encode()
    user_file(world).write_bytes(broken)
    async with world.running():
        world.call("memory", action="add", target="user", content=FACT)
        await ask(world, "remember something", "I could not.")
        results = [m for m in world.request()["messages"] if m["role"] == "tool"]
        assert '"success": false' in results[-1]["content"]
        await world.ana_on_telegram("/memory")
        await world.telegram_shows("can't read your memory file")
        await world.ana_on_discord("/memory add tea")
        await world.discord_shows("I changed nothing")

        assert user_file(world).read_bytes() == broken
        user_file(world).write_text(f"{TEA}\n§\n", encoding="utf-8")
        await ask(world, "I mended it", "Good.")
        assert TEA in world.last_user()


async def test_a_reply_that_quotes_a_private_command_leaves_nothing_behind(world: World) -> None:
    async with world.running():
        await world.ana_on_telegram("/private")
        await world.telegram_shows("private")
        await world.ana_on_telegram("/search SECRETWORD")
        await world.telegram_shows("SECRETWORD")
        shown = len(world.telegram.texts(ANA_TELEGRAM))
        await world.ana_on_telegram("/private off")
        await world.telegram.wait_for(lambda: len(world.telegram.texts(ANA_TELEGRAM)) > shown)

    with Database.sqlite(world.home / "state.db") as database:
        payloads = await database.read(lambda c: c.execute(select(outbox.c.payload)).scalars().all())
    assert "SECRETWORD" not in str(payloads)
