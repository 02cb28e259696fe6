"""Buttons under an answer in a group are for whom it answers: others who may talk there press in vain."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from tests.e2e.world import ANA_SLACK, ANA_TELEGRAM, BO_TELEGRAM, World
from tests.emulators.openai import Reply

GROUP, CHANNEL, BO_SLACK = -1002000000001, "C0ROOM", "U0BO"
STOP, RETRY = "■ Stop", "↻ Retry"


class Group(Protocol):
    """A group of one platform. `told` is what pressers alone were told."""

    @property
    def key(self) -> str: ...

    async def ask(self, text: str) -> None: ...

    async def press(self, label: str, *, bo: bool = False) -> None:
        """Presses the newest button of that label, as Ana or as Bo."""
        ...

    def shown(self) -> list[tuple[str, tuple[str, ...]]]:
        """Each message of the bot that the group sees, with the labels under it."""
        ...

    def told(self) -> list[str]: ...

    async def until(self, met: Callable[[], object]) -> None: ...


@dataclass(frozen=True, slots=True)
class OnTelegram:
    world: World

    @property
    def key(self) -> str:
        return f"telegram/{GROUP}"

    async def ask(self, text: str) -> None:
        await self.world.telegram.group_message(GROUP, ANA_TELEGRAM, text)

    async def press(self, label: str, *, bo: bool = False) -> None:
        message, payload = next(
            (one.message_id, payload)
            for one in reversed(self.world.telegram.sent(GROUP))
            for text, payload in one.buttons
            if text == label
        )
        user = BO_TELEGRAM if bo else ANA_TELEGRAM
        await self.world.telegram.press_button(user, GROUP, message, payload)

    def shown(self) -> list[tuple[str, tuple[str, ...]]]:
        sent = self.world.telegram.sent(GROUP)
        return [(one.text, tuple(label for label, _ in one.buttons)) for one in sent]

    def told(self) -> list[str]:
        return list(self.world.telegram.answered_queries.values())

    async def until(self, met: Callable[[], object]) -> None:
        await self.world.telegram.wait_for(met)


@dataclass(frozen=True, slots=True)
class OnDiscord:
    world: World

    @property
    def key(self) -> str:
        return f"discord/{self.world.discord.general}"

    async def ask(self, text: str) -> None:
        discord = self.world.discord
        await discord.channel_message(discord.general, self.world.ana_discord, text, mention=True)

    async def press(self, label: str, *, bo: bool = False) -> None:
        message = next(one.id for one in reversed(self.world.discord.sent()) if label in one.buttons)
        user = self.world.bo_discord if bo else self.world.ana_discord
        await self.world.discord.press(user, message, label)

    def shown(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(one.text, one.buttons) for one in self.world.discord.sent() if not one.ephemeral]

    def told(self) -> list[str]:
        return [one.text for one in self.world.discord.sent() if one.ephemeral]

    async def until(self, met: Callable[[], object]) -> None:
        await self.world.discord.wait_for(met)


@dataclass(frozen=True, slots=True)
class OnSlack:
    world: World

    @property
    def key(self) -> str:
        return f"slack/{self.world.slack.workspace.team}/{CHANNEL}"

    async def ask(self, text: str) -> None:
        self.world.slack.workspace.add_channel(CHANNEL, "channel", (ANA_SLACK, BO_SLACK))
        await self.world.slack.channel_message(CHANNEL, ANA_SLACK, text)

    async def press(self, label: str, *, bo: bool = False) -> None:
        ts, value = next(
            (post.ts, button["value"])
            for post in reversed(self._posts())
            for button in post.buttons
            if button["text"]["text"] == label
        )
        await self.world.slack.press(BO_SLACK if bo else ANA_SLACK, CHANNEL, ts, value, value)

    def shown(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(one.text, tuple(button["text"]["text"] for button in one.buttons)) for one in self._posts()]

    def told(self) -> list[str]:
        return [whisper.text for whisper in self.world.slack.whispers]

    async def until(self, met: Callable[[], object]) -> None:
        await self.world.slack.wait_for(met)

    def _posts(self) -> list[Any]:
        channel = self.world.slack.workspace.channels.get(CHANNEL)
        return [] if channel is None else [one for one in channel.posts.values() if one.bot_id]


@pytest.mark.parametrize("group_on", [OnTelegram, OnDiscord, OnSlack])
async def test_another_ones_press_is_refused_and_the_button_stays_for_its_own_person(
    group_on: Callable[[World], Group], world: World
) -> None:
    group = group_on(world)
    team = world.slack.workspace.team
    people = {
        "ana": {
            "role": "owner",
            "telegram": ANA_TELEGRAM,
            "discord": world.ana_discord,
            "slack": f"{team}/{ANA_SLACK}",
        },
        "bo": {"telegram": BO_TELEGRAM, "discord": world.bo_discord, "slack": f"{team}/{BO_SLACK}"},
    }
    async with world.running(rooms={group.key: {}}, people=people):
        world.model.then(Reply("A long story begins here. " * 4, stall_after=8))
        await group.ask("tell me a story")
        await group.until(lambda: any(STOP in labels for _, labels in group.shown()))
        await group.press(STOP, bo=True)
        await group.until(lambda: any("an admin or the owner can stop" in text for text in group.told()))
        assert world.model.dropped == 0
        assert any(STOP in labels for _, labels in group.shown())
        await group.press(STOP)
        await group.until(lambda: any("(stopped here)" in text for text, _ in group.shown()))

        world.answer("A dull answer.")
        await group.ask("tell me a joke")
        await group.until(lambda: any("dull" in text and RETRY in under for text, under in group.shown()))
        await group.press(RETRY, bo=True)
        await group.until(lambda: any("Only the person I answered" in text for text in group.told()))
        assert any("dull" in text and RETRY in under for text, under in group.shown())
        world.answer("A better answer.")
        await group.press(RETRY)
        await group.until(lambda: any("A better answer." in text for text, _ in group.shown()))

    assert len(world.model.requests) == 3
