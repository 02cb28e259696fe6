"""The commands of one person over open stores, without platforms: what is typed in, what is answered."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from tests.gateway.inbound import command
from tests.gateway.memory_shelves import write_by_hand
from trunkline.agent.memory.operations import Operation
from trunkline.agent.memory.outcomes import Outcome
from trunkline.agent.ports import Target, WriteOrigin
from trunkline.agent.scope import AccountId, PersonId, PersonScope, RoomScope, Scope
from trunkline.gateway.app import OpenHouse, guarded_memory, open_house
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands.catalogue import BY_NAME
from trunkline.gateway.commands.registry import CommandContext, House
from trunkline.gateway.config import parse_config
from trunkline.gateway.memory_approval import as_it_is
from trunkline.gateway.payloads import dump_inbound
from trunkline.gateway.state import inbox, people, sessions, turns
from trunkline.gateway.state.inbox import Arrival
from trunkline.gateway.state.messages import NewMessage, add_messages
from trunkline.gateway.state.records import Account, Room, Session, SessionKey

ANA, BO = PersonScope(PersonId("ana")), PersonScope(PersonId("bo"))
ACCOUNTS = {"ana": "100", "bo": "101"}
ROOM = "-900"
SETTINGS: dict[str, Any] = {
    "people": {
        "ana": {"role": "owner", "telegram": 100, "discord": 200, "timezone": "Europe/Berlin"},
        "bo": {"telegram": 101, "language": "zh-CN"},
    },
    "rooms": {f"telegram/{ROOM}": {}},
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
class Typing:
    """Ana and Bo at their Telegram chats."""

    house: OpenHouse
    desk: House

    async def type(self, text: str, who: str = "ana", *, language: str = "en", finish: bool = True) -> str:
        """What a command answers; its row stands in the inbox as it would, and is finished after it."""
        name, _, argument = text.removeprefix("/").partition(" ")
        message = command(name, argument, user=ACCOUNTS[who])
        account = await self.account(who)
        key = SessionKey("telegram", "bot", ACCOUNTS[who])

        def arrive(connection: Connection) -> int:
            row = Arrival(key, message.key, account.id, "command", dump_inbound(message), now_ms())
            return inbox.store(connection, row, now_ms())

        row = await self.house.database.write(arrive)
        person = account.person
        shown = person.language if person is not None and person.language else language
        context = CommandContext(self.desk, account, None, key, argument, shown, row)
        answer = await BY_NAME[name].run(context)
        if finish:
            await self.house.database.write(lambda c: inbox.finish(c, [row], "done", "", now_ms()))
        return answer

    async def account(self, who: str, platform: str = "telegram") -> Account:
        user = ACCOUNTS[who] if platform == "telegram" else "200"
        found = await self.house.database.read(lambda c: people.find_account(c, platform, "", user))
        assert found is not None
        return found

    async def room(self) -> Room:
        found = await self.house.database.read(lambda c: people.find_room(c, "telegram", "", ROOM))
        assert found is not None
        return found

    async def model_writes(
        self,
        *operations: Operation,
        scope: Scope = ANA,
        target: Target = "user",
        session: Session | None = None,
        turn: int | None = None,
        actor: Any = "tool",
    ) -> Outcome:
        """A write as the memory tool makes it."""
        account = scope.asker if isinstance(scope, RoomScope) else None
        public_id = None if session is None else session.public_id
        origin = WriteOrigin(actor, "discord", public_id, turn, account)
        return await guarded_memory(self.house, as_it_is).apply(scope, target, operations, origin)

    async def model_adds(self, *texts: str, target: Target = "user", **more: Any) -> None:
        for text in texts:
            await self.model_writes(Operation("add", text), target=target, **more)

    async def conversation(
        self, *messages: NewMessage, prompt: str = "", snapshot: str = "{}", private: bool = False
    ) -> tuple[Session, int]:
        """An open session of Ana's on Discord with one turn that has ended, and the turn."""
        account = await self.account("ana", "discord")

        def work(connection: Connection) -> tuple[Session, int]:
            key = SessionKey("discord", "bot", "dm-200")
            stream = people.stream_of(connection, account_id=account.id, room_id=None)
            opened = sessions.start(
                connection, key, stream, prompt=prompt, snapshot=snapshot, model="m", now_ms=now_ms(),
                kind="private" if private else "",
            )  # fmt: skip
            turn = turns.begin(connection, opened.id, stream, account.id, "p", now_ms())
            placed = [_placed(one, opened.id, turn.key.turn, account.id) for one in messages]
            add_messages(connection, placed)
            turns.end(connection, turn.key, "done", "", now_ms())
            return sessions.load(connection, opened.id), turn.key.turn

        return await self.house.database.write(work)

    async def by_hand(self, text: str, target: Target = "user") -> None:
        """Puts a text of Ana's where her editor would, or somebody who knows SQL."""
        home, database = self.house.config.home, self.house.database
        await write_by_hand(home, database, text, target, ANA, in_table=not database.is_sqlite)

    def file(self, who: str, name: str = "USER.md") -> Path:
        return self.house.config.home / "memories" / who / name


def _placed(one: NewMessage, session_id: int, turn: int, account: AccountId) -> NewMessage:
    values = {field: getattr(one, field) for field in one.__slots__}
    author = account if one.role == "user" else None
    return NewMessage(**values | {"session_id": session_id, "turn_id": turn, "account_id": author})


@asynccontextmanager
async def typing(home: Path, database_url: str, **memory: Any) -> AsyncIterator[Typing]:
    config = parse_config(home, SETTINGS | {"memory": memory}, {"DATABASE_URL": database_url})
    async with open_house(config) as house:
        desk = House(house.database, house.memory, house.search, NoTurns(), "1", "model", str)
        yield Typing(house, desk)
