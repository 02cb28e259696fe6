"""Answers shown by the platforms' own means while they are written: whole, once, stopped like any other."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.e2e.test_amending import settled
from tests.e2e.world import ANA_SLACK, ANA_TELEGRAM, World
from tests.emulators.openai import Reply, ToolUse

PLATFORMS = ("telegram", "slack")
BEGUN, END = "The first words of it.", "And the end of it."
CHANNEL = f"D{ANA_SLACK[1:]}"


class Native:
    """A talk with Ana in which the program shows answers natively. Slack has streams only in threads."""

    def __init__(self, world: World, platform: str) -> None:
        self.world = world
        self.platform = platform
        self.held = asyncio.Event()
        self._thread: str | None = None
        world.model.responder = self._answer

    @property
    def settings(self) -> dict[str, Any]:
        platforms = self.world.config().platforms
        section = getattr(platforms, self.platform).model_copy(update={"streaming": "native"})
        return {"platforms": platforms.model_copy(update={self.platform: section}).model_dump()}

    def _answer(self, body: Mapping[str, Any]) -> Reply:
        if body["messages"][-1]["role"] == "tool":
            return Reply(END, held=self.held)
        return Reply(BEGUN, tools=[ToolUse("session_search", "{}")])

    async def say(self, text: str) -> None:
        if self.platform == "telegram":
            await self.world.ana_on_telegram(text)
            return
        if self._thread is None:
            self._thread = await self.world.slack.open_pane(ANA_SLACK)
        await self.world.slack.direct_message(ANA_SLACK, text.replace("/", "!", 1), thread=self._thread)

    async def asks(self) -> None:
        """Asks, and waits until the first words are shown and the rest is held."""
        await self.say("tell me")
        if self.platform == "telegram":
            await self.world.telegram.wait_for(lambda: BEGUN in self.world.telegram.drafts.values())
        else:
            await self.world.slack.wait_for(lambda: self.texts == [BEGUN])

    @property
    def texts(self) -> list[str]:
        """What the bot has said, without the word that it has stopped."""
        telegram, slack = self.world.telegram, self.world.slack
        here = self.platform == "telegram"
        said = telegram.texts(ANA_TELEGRAM) if here else slack.texts(CHANNEL, self._thread)
        return [text for text in said if text != "Stopped."]

    async def reads(self, text: str) -> None:
        """Returns when the only answer begins so."""
        emulator = self.world.telegram if self.platform == "telegram" else self.world.slack
        await emulator.wait_for(lambda: len(self.texts) == 1 and self.texts[0].startswith(text))

    @property
    def shown_natively(self) -> int:
        """The calls so far that showed something so."""
        calls = self.world.telegram.calls_of("sendMessageDraft")
        return len(calls) + len(self.world.slack.calls_of("chat.appendStream"))


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_killed_in_the_middle_it_is_answered_whole_and_once(world: World, platform: str) -> None:
    native = Native(world, platform)
    async with world.running(**native.settings):
        await native.asks()
    assert native.texts == ([] if platform == "telegram" else [BEGUN])

    native.held.set()
    async with world.running(**native.settings):
        await native.reads(f"{BEGUN}\n\n{END}")
        await settled(world, 1)

    assert native.texts == [f"{BEGUN}\n\n{END}"]
    assert not any(post.streaming for post in world.slack.sent(CHANNEL, native._thread))
    assert world.slack.workspace.statuses == {}


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_it_can_be_stopped_and_another_try_takes_its_place(world: World, platform: str) -> None:
    native = Native(world, platform)
    async with world.running(**native.settings):
        await native.asks()
        await native.say("/stop")
        await native.reads(f"{BEGUN}\n\n")
        await settled(world, 1)
        assert native.texts != [BEGUN]
        assert world.slack.workspace.statuses == {}
        shown = native.shown_natively

        native.held.set()
        await native.say("/retry")
        await native.reads(f"{BEGUN}\n\n{END}")
        await settled(world, 2)

    assert native.texts == [f"{BEGUN}\n\n{END}"]
    # The message that was there is what the new answer is written into.
    assert native.shown_natively == shown
