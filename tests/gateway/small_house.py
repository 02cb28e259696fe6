"""The program with one platform: Telegram's emulator, a scripted model, the database of the test's choice."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, func, select

from tests.adapters.telegram_house import FAST
from tests.emulators.openai import OpenAIEmulator, Reply, ToolUse
from tests.emulators.telegram import TelegramEmulator
from trunkline.adapters.telegram import TelegramAdapter
from trunkline.gateway.app import command_specs, open_house, run_platforms
from trunkline.gateway.config import Config, parse_config
from trunkline.gateway.platforms import Platform
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.schema import turn

ANA, BO, GUEST, ROOM = 1001, 1002, 1003, -100500


class SmallHouse:
    """Ana is the owner, Bo a member; anybody may talk in the one room there is."""

    def __init__(
        self,
        home: Path,
        telegram: TelegramEmulator,
        model: OpenAIEmulator,
        namer: OpenAIEmulator,
        database: Database,
        url: str,
    ) -> None:
        self.home = home
        self.telegram = telegram
        self.model = model
        self.namer = namer
        namer.responder = lambda body: Reply("A title")
        self.database = database
        self.url = url

    def config(self, **changes: Any) -> Config:
        settings: dict[str, Any] = {
            "model": {"name": "emulated", "base_url": self.model.base_url, "tool_calls": "native"},
            "people": {
                "ana": {"role": "owner", "name": "Ana", "telegram": ANA},
                "bo": {"name": "Bo", "telegram": BO, "language": "zh-CN"},
            },
            "rooms": {f"telegram/{ROOM}": {}},
            "memory": {"review_every": 0},
            "auxiliary": {"title": {"name": "namer", "base_url": self.namer.base_url}},
            "database": {"url": self.url},
            "access": {"messages_per_minute": 0, "welcome": False},
            "shutdown": {"grace": 5},
        }
        secrets = {"TELEGRAM_BOT_TOKEN": self.telegram.token, "OPENAI_API_KEY": "sk-emulated-0000000000"}
        return parse_config(self.home, settings | changes, secrets)

    def adapter(self) -> TelegramAdapter:
        return TelegramAdapter(
            self.telegram.token, commands=command_specs(), base_url=self.telegram.url, pacing=FAST
        )

    async def serve(self, *platforms: Platform, **changes: Any) -> int:
        async with open_house(self.config(**changes)) as house:
            chosen: Sequence[Platform] = platforms or [Platform("telegram", self.adapter)]
            return await run_platforms(house, chosen)

    @asynccontextmanager
    async def running(self, **changes: Any) -> AsyncIterator["SmallHouse"]:
        async with asyncio.TaskGroup() as group:
            program = group.create_task(self.serve(**changes))
            try:
                await self.telegram.wait_for(lambda: self.telegram.is_polled)
                yield self
            finally:
                program.cancel()

    def answer(self, *texts: str) -> None:
        self.model.then(*(Reply(text) for text in texts))

    def call(self, name: str, arguments: str | dict[str, Any]) -> None:
        self.model.then(Reply(tools=[ToolUse(name, arguments)]))

    async def say(self, text: str, user: int = ANA) -> None:
        await self.telegram.direct_message(user, text)

    async def shows(self, text: str, chat: int = ANA) -> None:
        await self.telegram.wait_for(lambda: any(text in shown for shown in self.telegram.texts(chat)))

    async def asked(self, times: int) -> None:
        await self.model.wait_for(lambda: len(self.model.requests) >= times)

    async def ended(self, turns: int) -> None:
        """Returns when so many turns have ended and been committed."""
        count = select(func.count()).select_from(turn).where(turn.c.state != "running")
        await self.comes_true(lambda c: c.execute(count).scalar_one() >= turns)

    def last_user(self, number: int = -1) -> str:
        said = [m["content"] for m in self.model.requests[number]["messages"] if m["role"] == "user"]
        return str(said[-1])

    async def rows(self, table: Table, *where: ColumnElement[bool]) -> list[Row[Any]]:
        query = select(table).where(*where).order_by(*table.primary_key.columns)
        return await self.database.read(lambda c: list(c.execute(query)))

    async def comes_true(self, met: Callable[[Connection], object], timeout_s: float = 60.0) -> None:
        """Returns when the database says so."""
        await eventually(partial(self.database.read, lambda c: bool(met(c))), timeout_s)


@asynccontextmanager
async def small_house(home: Path, database: Database, url: str) -> AsyncIterator[SmallHouse]:
    async with (
        TelegramEmulator().running() as telegram,
        OpenAIEmulator().running() as model,
        OpenAIEmulator().running() as namer,
    ):
        yield SmallHouse(home, telegram, model, namer, database, url)
        assert [*telegram.violations, *model.violations, *namer.violations] == []


async def eventually(met: Callable[[], Any], timeout_s: float = 60.0) -> None:
    """Returns when `met` gives something true."""
    async with asyncio.timeout(timeout_s):
        while not await met():  # noqa: ASYNC110  # what is awaited may be another process's doing
            await asyncio.sleep(0.02)
