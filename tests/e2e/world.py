"""A whole small world on loopback: the emulators of every platform and of the model, and our program.

Titles are made by a model of their own, so that the script of the other one is the turns' alone.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.emulators.discord import DiscordEmulator
from tests.emulators.openai import OpenAIEmulator, Reply, ToolUse
from tests.emulators.slack import APP_TOKEN, BOT_TOKEN, SlackEmulator
from tests.emulators.telegram import TelegramEmulator
from tests.ports import free_port
from trunkline.adapters.base import CommandSpec
from trunkline.adapters.discord import DiscordAdapter
from trunkline.agent.scope import PersonId
from trunkline.gateway.app import (
    Platform,
    chat_platforms,
    command_specs,
    open_house,
    run_platforms,
    usable_skills,
    web_platform,
)
from trunkline.gateway.config import Config, parse_config
from trunkline.gateway.skills_menu import shared_commands
from trunkline.gateway.welcoming import suggest

ANA_TELEGRAM, ANA_SLACK = 1001, "UANA"
BO_TELEGRAM = 1002
WEB_TOKEN = "web-token-of-the-tests"
START_S = 60.0
"""For a start on a machine that has much else to do."""


class World:
    """Ana has an account on every platform, Bo on Telegram and Discord; anybody else is a stranger."""

    def __init__(
        self,
        home: Path,
        telegram: TelegramEmulator,
        discord: DiscordEmulator,
        slack: SlackEmulator,
        model: OpenAIEmulator,
        namer: OpenAIEmulator,
    ) -> None:
        self.home = home
        self.telegram = telegram
        self.discord = discord
        self.slack = slack
        self.model = model
        self.namer = namer
        self.web_port = free_port()
        self.discord_adapter: DiscordAdapter | None = None
        self.ana_discord, self.bo_discord = "2001", "2002"

    def config(self, **changes: Any) -> Config:
        settings: dict[str, Any] = {
            "model": {"name": "emulated", "base_url": self.model.base_url, "tool_calls": "native"},
            "auxiliary": {"title": {"name": "namer", "base_url": self.namer.base_url}},
            "platforms": {
                "telegram": {"base_url": self.telegram.url},
                "slack": {"base_url": self.slack.api_url},
                "web": {"port": self.web_port},
            },
            "people": {
                "ana": {
                    "role": "owner",
                    "name": "Ana",
                    "timezone": "Europe/Berlin",
                    "telegram": ANA_TELEGRAM,
                    "discord": self.ana_discord,
                    "slack": f"{self.slack.workspace.team}/{ANA_SLACK}",
                },
                "bo": {"name": "Bo", "telegram": BO_TELEGRAM, "discord": self.bo_discord},
            },
            "rooms": {f"discord/{self.discord.general}": {}},
            "access": {"messages_per_minute": 0, "welcome": False},
            "shutdown": {"grace": 5},
        }
        return parse_config(self.home, settings | changes, self.environment)

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "TELEGRAM_BOT_TOKEN": self.telegram.token,
            "DISCORD_BOT_TOKEN": self.discord.token,
            "SLACK_BOT_TOKEN": BOT_TOKEN,
            "SLACK_APP_TOKEN": APP_TOKEN,
            "OPENAI_API_KEY": "sk-emulated-key-0000000000000000",
        }

    @asynccontextmanager
    async def running(self, **changes: Any) -> AsyncIterator["World"]:
        """Our program, connected to every platform; ended like a killed one when the context ends."""
        async with asyncio.TaskGroup() as group:
            program = group.create_task(self._serve(self.config(**changes)))
            try:
                await self.telegram.wait_for(lambda: self.telegram.is_polled, START_S)
                await self.discord.connected(START_S)
                await self.slack.wait_for(lambda: self.slack.socket.sockets, START_S)
                yield self
            finally:
                program.cancel()

    async def _serve(self, config: Config) -> None:
        """What `serve` does, with discord.py led to the emulator; the program itself goes through a proxy."""
        async with open_house(config) as house:
            skills = await shared_commands(usable_skills(house))
            chats = chat_platforms(config, partial(suggest, house.database), skills)
            discord = Platform("discord", partial(self._discord_adapter, skills), repeats_safely=True)
            others = [platform for platform in chats if platform.name != "discord"]
            web = web_platform(house, PersonId("ana"), WEB_TOKEN)
            await run_platforms(house, [*others, discord, web])

    def _discord_adapter(self, skills: Sequence[CommandSpec]) -> DiscordAdapter:
        self.discord_adapter = DiscordAdapter(
            self.discord.token, commands=(*command_specs(), *skills), connector=self.discord.connector
        )
        return self.discord_adapter

    def answer(self, *texts: str) -> None:
        """The model's next answers, one for each request."""
        self.model.then(*(Reply(text) for text in texts))

    def call(self, name: str, /, **arguments: Any) -> None:
        """The model's next reply is this tool call."""
        self.model.then(Reply(tools=[ToolUse(name, json.dumps(arguments))]))

    def request(self, number: int = -1) -> dict[str, Any]:
        """One of the model requests, by its place."""
        return self.model.requests[number]

    def system(self, number: int = -1) -> str:
        return str(self.request(number)["messages"][0]["content"])

    def last_user(self, number: int = -1) -> str:
        said = [m["content"] for m in self.request(number)["messages"] if m["role"] == "user"]
        return str(said[-1])

    async def ana_on_telegram(self, text: str) -> None:
        await self.telegram.direct_message(ANA_TELEGRAM, text)

    async def ana_on_discord(self, text: str) -> None:
        await self.discord.direct_message(self.ana_discord, text)

    async def ana_on_slack(self, text: str) -> None:
        await self.slack.direct_message(ANA_SLACK, text)

    async def telegram_shows(self, text: str, chat: int = ANA_TELEGRAM) -> None:
        await self.telegram.wait_for(lambda: any(text in shown for shown in self.telegram.texts(chat)))

    async def discord_shows(self, text: str, channel: str | None = None) -> None:
        await self.discord.wait_for(lambda: any(text in shown for shown in self.discord.texts(channel)))


@asynccontextmanager
async def made_world(home: Path) -> AsyncIterator[World]:
    """The emulators, started; what they found wrong fails the test at the end."""
    async with AsyncExitStack() as stack:
        telegram = await stack.enter_async_context(TelegramEmulator().running())
        discord = await stack.enter_async_context(DiscordEmulator().running())
        slack = await stack.enter_async_context(SlackEmulator().running())
        model = await stack.enter_async_context(OpenAIEmulator().running())
        namer = await stack.enter_async_context(OpenAIEmulator().running())
        namer.responder = lambda _: Reply("A talk")
        yield World(home, telegram, discord, slack, model, namer)
        emulators = (telegram, discord, slack, model, namer)
        breaches = [breach for emulator in emulators for breach in emulator.violations]
        assert breaches == [], breaches
