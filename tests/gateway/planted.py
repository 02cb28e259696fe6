"""A row of a person's in every table of state.db, made from the tables themselves.

A table or column that is added later takes part by itself, or fails by name until somebody says how it is
filled, or why nothing of anybody is in it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, Text, and_, insert
from sqlalchemy.sql.sqltypes import LargeBinary

from tests.gateway.inbound import direct
from tests.gateway.linked import Town
from trunkline.adapters.base import ChatRef, Chunk, OutboundMessage
from trunkline.gateway.clock import now_ms
from trunkline.gateway.payloads import dump_inbound, dump_outbound
from trunkline.gateway.state import people, sessions, turns
from trunkline.gateway.state.messages import NewMessage, add_message
from trunkline.gateway.state.records import SessionKey
from trunkline.gateway.state.schema import metadata

CANARY = "zqleaverx"
BO = "101"
HASH = "5e" * 32
NUMBER = 7_001
"""Given to what is numbered by hand."""

OF_ALL = {
    "room": "a room is everybody's in it",
    "dropped_file": "hashes of contents on their way out",
    "system_prompt": "only a session's row says whose it is; none is left without one (test_rights)",
    "early_deletion": "ids of messages that were gone before they came, for an hour",
    "kv": "small facts by name; those of a person are found by their key (test_leaving)",
}


def canary_of(table: str) -> str:
    """What stands in every text of the person's row of a table."""
    return f"{CANARY}{table.replace('_', '')}q"


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
        """A row that is the person's in every column, with the table's own canary in every text."""
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
                made[column.name] = canary_of(table.name)
            elif isinstance(column.type, LargeBinary):
                made[column.name] = CANARY.encode()
        return made


KNOWN: dict[str, Callable[[str], dict[str, Any]]] = {
    "step": lambda _: {"n": NUMBER},
    "memory_journal": lambda canary: {
        "before": json.dumps([canary]), "after": "[]", "operations": "", "state": "done",
    },
    "outbox": lambda canary: {
        "seq": NUMBER, "platform": "telegram", "tenant": "bot", "chat": BO, "kind": "text",
        "payload": dump_outbound(OutboundMessage(ChatRef(BO), Chunk(canary))),
    },
    "inbox": lambda canary: {
        "platform": "telegram", "tenant": "bot", "chat": BO, "payload": dump_inbound(direct(canary, user=BO)),
    },
    "session": lambda _: {
        "platform": "telegram", "tenant": "bot", "chat": BO, "prompt_hash": None, "snapshot": "{}",
        "skills": "", "ended_ms": 1, "parent_id": None, "message_count": 1,
    },
    "person_alias": lambda _: {
        "accounts": json.dumps({"source": "", "accounts": []}), "journal": "[]", "writes": "[]",
    },
    "embedding": lambda _: {"norm": 1.0},
    "fact": lambda _: {"trust": 1.0, "entities": "[]"},
    "provider_outbox": lambda canary: {
        "id": NUMBER, "provider": "shelf", "kind": "sync", "payload": json.dumps({"text": canary}),
    },
    "provider_mirror": lambda _: {"provider": "shelf"},
    "reminder": lambda _: {"kind": "text", "maker": "bo", "cron": "", "timezone": "UTC"},
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
        known = KNOWN[table.name](canary_of(table.name)) if table.name in KNOWN else {}
        values = ids.row(table, **known)
        if table.name == "fact":
            values["id"] = NUMBER
        made = connection.execute(insert(table).values(**values))
        key = made.inserted_primary_key
        assert key is not None, table.name
        columns = zip(table.primary_key.columns, key, strict=True)
        planted.append((table, and_(*(column == value for column, value in columns))))
    return planted
