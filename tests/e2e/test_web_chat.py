"""The chats on this machine: the web page over real HTTP, and the terminal as a process in a pipe."""

import asyncio
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from tests.e2e.installed import DEADLINE_S, TRUNKLINE, echo
from tests.e2e.page import opened_page
from tests.e2e.world import WEB_TOKEN, World
from tests.emulators.openai import OpenAIEmulator, Reply

STORY = "Once upon a time there was a **boiler**. " + "It was warm. " * 60 + "The end."


async def test_a_message_on_the_page_is_answered_as_a_stream_and_is_there_after_a_reload(
    world: World,
) -> None:
    async with world.running(), opened_page(world.web_port) as page:
        assert (await page.open_link(WEB_TOKEN))[0] == 200
        world.model.then(Reply(STORY, chunk_chars=20, chunk_delay_s=0.05))
        async with page.follow("kitchen", await page.place("kitchen")) as events:
            assert (await page.post("kitchen", "posted-0001", "tell me a story"))[0] == 202
            answer = await events.until("The end.")
        assert "<strong>boiler</strong>" in answer
        assert len(set(events.bodies)) > 2
        assert "tell me a story" in world.last_user()

        _, reloaded = await page.get("/c/kitchen")
        assert reloaded.index("tell me a story") < reloaded.index("<strong>boiler</strong>")

        # What comes next is shown only when what was before it is stored.
        world.answer("You are welcome.")
        async with page.follow("kitchen", await page.place("kitchen")) as events:
            await page.post("kitchen", "posted-0002", "/whoami")
            await events.until("You are Ana")
            await page.post("kitchen", "posted-0003", "thanks")
            await events.until("You are welcome.")

    async with world.running(), opened_page(world.web_port) as page:
        await page.open_link(WEB_TOKEN)
        _, shown = await page.get("/c/kitchen")
        assert "tell me a story" in shown
        assert "The end." in shown
        assert shown.count("You are Ana") == 1
        assert "tell me a story" in (await page.get("/"))[1]


async def test_the_same_message_posted_twice_is_answered_once(world: World) -> None:
    async with world.running(), opened_page(world.web_port) as page:
        await page.open_link(WEB_TOKEN)
        world.answer("First answer.", "Second answer.")
        async with page.follow("hall", await page.place("hall")) as events:
            for _ in range(2):
                await page.post("hall", "posted-0001", "hello")
            await events.until("First answer.")
            await page.post("hall", "posted-0002", "hello again")
            await events.until("Second answer.")
        assert len(world.model.requests) == 2


async def test_what_is_remembered_on_the_page_is_known_on_telegram(world: World) -> None:
    async with world.running(), opened_page(world.web_port) as page:
        await page.open_link(WEB_TOKEN)
        world.call("memory", action="add", target="user", content="User has a cat called Pixel.")
        world.answer("Noted.")
        async with page.follow("cats", await page.place("cats")) as events:
            await page.post("cats", "posted-0001", "my cat is called Pixel")
            await events.until("Noted.")
        world.answer("Pixel!")
        await world.ana_on_telegram("what is my cat called?")
        await world.telegram_shows("Pixel!")
        assert "User has a cat called Pixel." in world.system()


@pytest.mark.blackbox
async def test_a_chat_in_a_pipe_answers_each_line_and_ends_with_the_input(tmp_path: Path) -> None:
    async with OpenAIEmulator().running() as model:
        model.responder = echo
        (tmp_path / "config.yaml").write_text(
            f"model: {{name: emulated, base_url: '{model.base_url}', tool_calls: native}}\n"
            "people: {ana: {role: owner}}\n",
            encoding="utf-8",
        )
        process = await asyncio.create_subprocess_exec(
            TRUNKLINE,
            "chat",
            env={"PATH": "/usr/bin:/bin", "TRUNKLINE_HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
        )
        async with asyncio.timeout(DEADLINE_S):
            said, complained = await process.communicate("what is it?\n\n/help\nund nun, größer?\n".encode())

        assert (process.returncode, complained.decode()) == (0, "")
        lines = said.decode().splitlines()
        assert lines[0] == "You said: what is it?"
        assert lines[-1] == "You said: und nun, größer?"
        assert any("/new" in line for line in lines)
        assert model.violations == []
