"""Every table of state.db is asked: what of a person's is in it, and is that gone once they have left?

The rows are made from the tables themselves, so a table or column that is added later takes part by itself,
or fails by name until somebody says how it is filled or why it stays.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Table, Text, and_, insert, select, update
from sqlalchemy.sql.sqltypes import LargeBinary

from tests.gateway.inbound import direct
from tests.gateway.linked import Town, town
from trunkline.adapters.base import ChatRef, Chunk, OutboundMessage
from trunkline.gateway.clock import now_ms
from trunkline.gateway.payloads import dump_outbound
from trunkline.gateway.state import inbox, people, sessions, turns
from trunkline.gateway.state.inbox import Arrival
from trunkline.gateway.state.messages import NewMessage, add_message
from trunkline.gateway.state.outbox import Plan
from trunkline.gateway.state.outbox import plan as plan_messages
from trunkline.gateway.state.records import SessionKey
from trunkline.gateway.state.schema import kv, metadata, outbox, usage
from trunkline.gateway.state.spent_today import DAY_MS, forget_old

CANARY = "zqleaverx"
BO = "101"
FACT = f"Likes {CANARY} tea."
HASH = "5e" * 32
NUMBER = 7_001
"""Given to what is numbered by hand."""

OF_ALL = {
    "room": "a room is everybody's in it",
    "dropped_file": "hashes of contents on their way out",
    "system_prompt": "only a session's row says whose it is; none is left without one (test_rights)",
    "kv": "small facts by name; those of a person are found by the end of their key (test_rights)",
}
MADE_BY_TALKING = ("account", "person", "stream", "turn", "message", "indexed_message")
SHELLS = {
    "account": "rows of rooms refer to it; nothing in it names anybody",
    "stream": "ids alone, to which messages of the account were numbered",
    "session": "the newest turn's, without a word: its id must not be given again",
    "turn": "the newest one's: its id must not be given again",
}
"""Tables whose rows may stay, emptied of everything that was the person's."""


@dataclass(frozen=True, slots=True)
class Ids:
    """What the rows of the person refer to, by table."""

    of: Mapping[str, Any]
    slug: str

    def row(self, table: Table, **known: Any) -> dict[str, Any]:
        """A row that is the person's in every column, with the canary in every text."""
        made = dict(known)
        for column in table.columns:
            if column.name in made or (column.primary_key and column.autoincrement is True):
                continue
            target = next(iter(column.foreign_keys), None)
            name = column.name.removesuffix("_id")
            if target is not None and target.column.table.name in self.of:
                made[column.name] = self.of[target.column.table.name]
            elif column.name == "owner":
                made[column.name] = f"person:{self.slug}"
            elif name in self.of and column.name.endswith("_id"):
                made[column.name] = self.of[name]
            elif name.endswith("sha256"):
                made[column.name] = HASH
            elif isinstance(column.type, Text):
                made[column.name] = CANARY
            elif isinstance(column.type, LargeBinary):
                made[column.name] = CANARY.encode()
        return made


def _said() -> str:
    return dump_outbound(OutboundMessage(ChatRef(BO), Chunk(CANARY)))


LISTS: Callable[[], dict[str, Any]] = lambda: {  # noqa: E731
    "before": json.dumps([CANARY]),
    "after": "[]",
    "operations": "",
    "state": "done",
}
KNOWN: dict[str, Callable[[], dict[str, Any]]] = {
    "step": lambda: {"n": NUMBER},
    "memory_journal": LISTS,
    "outbox": lambda: {
        "seq": NUMBER, "platform": "telegram", "tenant": "bot", "chat": BO, "payload": _said(),
        "kind": "text",
    },
    "inbox": lambda: {"platform": "telegram", "tenant": "bot", "chat": BO, "payload": ""},
    "session": lambda: {"platform": "telegram", "tenant": "bot", "chat": BO, "prompt_hash": None,
                        "snapshot": "{}", "skills": "", "ended_ms": 1, "parent_id": None},
    "person_alias": lambda: {"accounts": json.dumps({"source": "", "accounts": []}), "journal": "[]",
                             "writes": "[]"},
    "embedding": lambda: {"norm": 1.0},
    "fact": lambda: {"trust": 1.0},
    "provider_outbox": lambda: {
        "id": NUMBER, "provider": "shelf", "kind": "sync", "payload": json.dumps({"text": CANARY}),
    },
    "provider_mirror": lambda: {"provider": "shelf"},
}  # fmt: skip
"""What of a row must have a form of its own."""


async def ids_of(house: Town) -> Ids:
    """Bo with a conversation, a memory and a row of every table."""
    await house.let_in("Bo", BO)
    account = await house.account(BO)
    person = account.person
    assert person is not None

    def talk(connection: Connection) -> Ids:
        stream = people.stream_of(connection, account_id=account.id, room_id=None)
        key = SessionKey("telegram", "bot", BO)
        opened = sessions.start(
            connection, key, stream, prompt=CANARY, snapshot="{}", model="m", now_ms=now_ms()
        )
        turn = turns.begin(connection, opened.id, stream, account.id, "p", now_ms())
        said = add_message(
            connection,
            NewMessage(
                opened.id, "user", CANARY, account_id=account.id, turn_id=turn.key.turn, created_ms=now_ms()
            ),
        )
        turns.end(connection, turn.key, "done", "", now_ms())
        room = people.find_room(connection, "telegram", "", "-900")
        assert room is not None
        of = {
            "account": account.id, "person": person.id, "stream": stream, "session": opened.id,
            "turn": turn.key.turn, "message": said, "room": room.id, "fact": NUMBER,
        }  # fmt: skip
        return Ids(of, person.slug)

    return await house.house.database.write(talk)


def plant(connection: Connection, ids: Ids) -> list[tuple[Table, Any]]:
    """A row in every table but those that are nobody's; returns how each is found again."""
    planted: list[tuple[Table, Any]] = []
    for table in metadata.sorted_tables:
        if table.name in OF_ALL or table.name in MADE_BY_TALKING:
            continue
        values = ids.row(table, **KNOWN.get(table.name, dict)())
        if table.name == "fact":
            values["id"] = NUMBER
        made = connection.execute(insert(table).values(**values))
        key = made.inserted_primary_key
        assert key is not None, table.name
        columns = zip(table.primary_key.columns, key, strict=True)
        planted.append((table, and_(*(column == value for column, value in columns))))
    return planted


async def test_of_who_leaves_no_table_keeps_a_row(tmp_path: Path, database_url: str) -> None:
    async with town(tmp_path, database_url) as house:
        ids = await ids_of(house)
        database = house.house.database
        planted = await database.write(lambda c: plant(c, ids))
        asked = await house.type("/delete-me", BO)
        word = asked.split("/delete-me ")[1].split("`")[0]

        assert "deleted" in await house.type(f"/delete-me {word}", BO)

        def left(connection: Connection) -> dict[str, str]:
            found = {
                table.name: "its row is still there"
                for table, is_it in planted
                if table.name not in SHELLS and connection.execute(select(table).where(is_it)).first()
            }
            for table in metadata.sorted_tables:
                rows = connection.execute(select(table)).all()
                if any(CANARY in str(tuple(row)) for row in rows):
                    found[table.name] = "words of theirs are still there"
            return found

        assert await database.read(left) == {}


async def test_what_was_answered_privately_in_a_room_goes_with_the_person_and_with_the_fact(
    tmp_path: Path, sqlite_url: str
) -> None:
    """Such an answer lies under the room's chat, where other people's messages are."""
    async with town(tmp_path, sqlite_url) as house:
        await house.let_in("Bo", BO)
        for leave in ("/memory forget 1", "/delete-me"):
            await house.knows("bo", FACT)
            await house.type("/memory", BO)
            await answered_in_the_room(house)
            told = await house.type(leave, BO)
            if leave == "/delete-me":
                await house.type(f"/delete-me {told.split('/delete-me ')[1].split('`')[0]}", BO)

            query = select(outbox.c.payload)
            left = await house.house.database.read(lambda c: c.execute(query).scalars().all())  # noqa: B023
            assert not [payload for payload in left if CANARY in payload], leave


async def answered_in_the_room(house: Town) -> None:
    """A private answer that waits to be sent through an interaction, and one that was sent so."""
    account = await house.account(BO)

    def work(connection: Connection) -> None:
        for state in ("planned", "sent", "refused"):
            key = SessionKey("telegram", "bot", "-900")
            row = inbox.store(
                connection, Arrival(key, f"k{now_ms()}{state}", account.id, "command", "", 1), 1
            )
            said = OutboundMessage(ChatRef("-900"), Chunk(f"- {FACT}"), ephemeral=True, private=True)
            where = Plan(f"i:{row}:private", "telegram", "bot", "-900", "")
            plan_messages(connection, where, [dump_outbound(said)], now_ms())
            changed = update(outbox).where(outbox.c.source == where.source)
            connection.execute(changed.values(state=state))

    await house.house.database.write(work)


async def leave_after_spending(house: Town, user: str) -> None:
    account = await house.account(user)

    def spend(connection: Connection) -> None:
        for created_ms, tokens in ((now_ms(), 2000), (now_ms() - 3 * DAY_MS, 5)):
            row = {"account_id": account.id, "prompt_tokens": tokens, "created_ms": created_ms}
            connection.execute(insert(usage).values(**row))

    await house.house.database.write(spend)
    asked = await house.type("/delete-me", user)
    await house.type(f"/delete-me {asked.split('/delete-me ')[1].split('`')[0]}", user)


async def used(house: Town) -> list[int]:
    query = select(usage.c.prompt_tokens)
    return list(await house.house.database.read(lambda c: c.execute(query).scalars().all()))


@pytest.mark.parametrize("user", ["104", "777"], ids=["of the settings", "a guest"])
async def test_nobody_has_a_second_share_of_the_day_by_leaving_and_coming_back(
    user: str, tmp_path: Path, sqlite_url: str
) -> None:
    access = {"unknown": "open", "guest_daily_tokens": 1000, "daily_tokens": 1000}
    async with town(tmp_path, sqlite_url, access=access) as house:
        await house.send(direct("hello", user=user))
        await leave_after_spending(house, user)
        assert await used(house) == [2000]

        await house.send(direct("hello again", user=user))

        assert "today's share" in (await house.told(user))[-1]


async def test_what_who_left_had_used_is_forgotten_after_a_day(tmp_path: Path, sqlite_url: str) -> None:
    async with town(tmp_path, sqlite_url) as house:
        await house.let_in("Bo", BO)
        await leave_after_spending(house, BO)
        database = house.house.database

        await database.write(lambda c: forget_old(c, now_ms() + DAY_MS - 60_000))
        assert await used(house) == [2000]
        await database.write(lambda c: forget_old(c, now_ms() + DAY_MS + 60_000))

        assert await used(house) == []
        kept = select(kv.c.key).where(kv.c.key.startswith("spent."))
        assert not await database.read(lambda c: c.execute(kept).all())
