"""People of the chats beside ana (the owner) and dan, both of config.yaml: what they type, what is said."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select

from tests.gateway.inbound import command, direct
from trunkline.adapters.base import InboundMessage
from trunkline.agent.memory.operations import Operation
from trunkline.agent.ports import Target, WriteOrigin
from trunkline.agent.scope import PersonId, PersonScope
from trunkline.gateway import identity
from trunkline.gateway.app import OpenHouse, open_house
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands.catalogue import BY_NAME
from trunkline.gateway.commands.registry import CommandContext, House
from trunkline.gateway.config import parse_config
from trunkline.gateway.joining import Belongings
from trunkline.gateway.payloads import load_outbound
from trunkline.gateway.router import store
from trunkline.gateway.state import codes, inbox, people
from trunkline.gateway.state.inbox import Arrival
from trunkline.gateway.state.records import Account, Person, SessionKey
from trunkline.gateway.state.schema import outbox

SETTINGS: dict[str, Any] = {
    "people": {"ana": {"role": "owner", "telegram": 100, "discord": 200}, "dan": {"telegram": 104}},
    "rooms": {"telegram/-900": {}, "discord/-901": {}},
}


class NoTurns:
    """No turn runs."""

    def running_for(self, key: SessionKey) -> None:
        return None

    def stop(self, key: SessionKey) -> bool:
        return False

    def stop_gathering(self, key: SessionKey) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Town:
    """A house in which strangers can be let in and everybody types by platform and user id."""

    house: OpenHouse
    desk: House

    async def send(self, message: InboundMessage) -> None:
        await self.house.database.write(lambda c: store(c, message, self.house.config, now_ms()))

    async def type(self, text: str, user: str, platform: str = "telegram") -> str:
        """What a known account's command answers."""
        name, _, argument = text.removeprefix("/").partition(" ")
        account = await self.account(user, platform)
        message = replace(command(name, argument, user=user), platform=platform)

        def arrive(connection: Connection) -> int:
            key = SessionKey(platform, "bot", user)
            row = Arrival(key, message.key, account.id, "command", "", now_ms())
            return inbox.store(connection, row, now_ms())

        row = await self.house.database.write(arrive)
        context = replace(self.context(account, user), argument=argument, inbox_row=row)
        used = BY_NAME[name]
        assert used.allows(account), f"/{name} is not for {account.person}"
        return await used.run(context)

    def context(self, account: Account, chat: str) -> CommandContext:
        key = SessionKey(account.platform, "bot", chat)
        return CommandContext(self.desk, account, None, key, "", "en", 0)

    async def account(self, user: str, platform: str = "telegram") -> Account:
        found = await self.house.database.read(lambda c: people.find_account(c, platform, "", user))
        assert found is not None
        return found

    async def person(self, slug: str) -> Person | None:
        return await self.house.database.read(lambda c: people.find_person(c, slug))

    async def slug_of(self, user: str, platform: str = "telegram") -> str | None:
        person = (await self.account(user, platform)).person
        return None if person is None else person.slug

    async def let_in(self, name: str, user: str, platform: str = "telegram") -> None:
        """A stranger writes, and is let in by their code."""
        await self.send(direct("hello", user=user, platform=platform, name=name))
        code = code_in((await self.told(user, platform))[-1])
        await self.house.database.write(lambda c: identity.approve(c, code, now_ms(), typed_by=None))

    async def told(self, user: str, platform: str = "telegram") -> list[str]:
        """What the program has planned for a direct chat."""
        query = select(outbox.c.payload).where(outbox.c.platform == platform, outbox.c.chat == user)
        rows = await self.house.database.read(
            lambda c: c.execute(query.order_by(outbox.c.id)).scalars().all()
        )
        return [load_outbound(payload).chunk.text for payload in rows if payload]

    async def knows(self, slug: str, *entries: str, target: Target = "user") -> None:
        for entry in entries:
            origin = WriteOrigin("command", "telegram")
            await self.house.memory.apply(scope_of(slug), target, [Operation("add", entry)], origin)

    async def known(self, slug: str, target: Target = "user") -> tuple[str, ...]:
        return (await self.house.memory.read(scope_of(slug))).entries_of(target)


def scope_of(slug: str) -> PersonScope:
    return PersonScope(PersonId(slug))


def code_in(text: str) -> str:
    return next(word for word in re.findall(r"\b[A-Z2-9]{8}\b", text) if codes.looks_like_code(word))


@asynccontextmanager
async def town(
    home: Path, database_url: str, belongings: tuple[Belongings, ...] = (), **settings: Any
) -> AsyncIterator[Town]:
    config = parse_config(home, SETTINGS | settings, {"DATABASE_URL": database_url})
    async with open_house(config) as house:
        desk = House(
            house.database, house.memory, house.search, NoTurns(), "1", "model", str,
            settings=config, belongings=belongings, home=home,
        )  # fmt: skip
        yield Town(house, desk)
