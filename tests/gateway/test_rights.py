"""What is a person's own: a copy of it all, and leaving for good, with every trace gone."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pytest
from sqlalchemy import Connection, select

from tests.gateway.inbound import direct, in_room
from tests.gateway.linked import Town, code_in, town
from trunkline.agent.memory.operations import Operation
from trunkline.agent.messages import ToolCall
from trunkline.agent.ports import WriteOrigin
from trunkline.agent.scope import PersonId, RoomScope
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands.rights import MAX_SENT_BYTES
from trunkline.gateway.file_store import FileStore
from trunkline.gateway.late_answers import OF_COMMANDS
from trunkline.gateway.payloads import load_outbound
from trunkline.gateway.state import kv, people, sessions, takeback, turns
from trunkline.gateway.state.messages import NewMessage, add_messages
from trunkline.gateway.state.records import Account, Room, SessionKey
from trunkline.gateway.state.schema import kv as kv_table
from trunkline.gateway.state.schema import message, metadata, outbox

CANARY = "zqcanaryx"
"""Stands in everything that is Bo's."""
OTHER = "zqsparrowx"
"""Stands in what others said, which stays."""


async def room_of(house: Town) -> Room:
    found = await house.house.database.read(lambda c: people.find_room(c, "telegram", "", "-900"))
    assert found is not None
    return found


async def talk(house: Town, account: Account, text: str, room: Room | None = None) -> None:
    """A conversation with a tool call and an answer, as it is stored."""

    def work(connection: Connection) -> None:
        chat = account.user_id if room is None else room.chat
        key = SessionKey(account.platform, "bot", chat)
        stream = people.stream_of(
            connection, account_id=account.id, room_id=None if room is None else room.id
        )
        opened = sessions.find_open(connection, key)
        if opened is None:
            opened = sessions.start(
                connection, key, stream, prompt=f"You know: The party is at {CANARY}. I am {chat}.",
                snapshot="{}", model="m", now_ms=now_ms(),
            )  # fmt: skip
        turn = turns.begin(connection, opened.id, stream, account.id, "p", now_ms())
        call = ToolCall("1", "look", json.dumps({"at": text}))
        shared = {"turn_id": turn.key.turn, "created_ms": now_ms()}
        add_messages(
            connection,
            [
                NewMessage(opened.id, "user", text, account_id=account.id, sent=f"sent {text}", **shared),
                NewMessage(opened.id, "assistant", "", tool_calls=(call,), **shared),
                NewMessage(opened.id, "tool", f"found {text if room is None else '-'}", **shared),
                NewMessage(opened.id, "assistant", "Well.", **shared),
            ][: 1 if room is not None else 4],
        )
        turns.end(connection, turn.key, "done", "", now_ms())

    await house.house.database.write(work)


async def fill(house: Town) -> None:
    """Bo on two platforms, with memory, conversations, words and facts in a room, and a message waiting."""
    await house.let_in(f"Bo {CANARY}", "101")
    bo = await house.account("101")
    await house.knows(await slug(house), f"Likes {CANARY} tea.")
    await house.knows(await slug(house), f"Works at {CANARY}.", target="memory")
    code = code_in(await house.type("/link", "101"))
    await house.send(replace(direct(code, user="301", platform="discord"), text=code))
    await house.send(direct("yes", user="301", platform="discord"))
    await house.type("/link yes", "101")
    await talk(house, bo, f"My password is {CANARY}.")
    await talk(house, await house.account("301", "discord"), f"On Discord: {CANARY}.")
    room = await room_of(house)
    await house.send(in_room("hello", user="100", room="-900"))
    await talk(house, bo, f"In the room: {CANARY}.", room)
    await talk(house, await house.account("100"), f"From Ana: {OTHER}.", room)
    for who, entry in ((bo, f"The party is at {CANARY}."), (await house.account("100"), f"Bring {OTHER}.")):
        scope = RoomScope(room.slug, who.id)
        origin = WriteOrigin("tool", "telegram", account=who.id)
        await house.house.memory.apply(scope, "memory", [Operation("add", entry)], origin)
    await house.send(direct(f"Still waiting: {CANARY}", user="101", name=f"Bo {CANARY}"))
    await house.send(in_room(f"In the room, waiting: {CANARY}", user="101"))


async def slug(house: Town) -> str:
    found = await house.slug_of("101")
    assert found is not None
    return found


def bytes_of(home: Path) -> bytes:
    """Everything that the home folder holds, names of files included."""
    paths = [path for path in home.rglob("*") if path.is_file()]
    return b"\n".join(
        [*(str(path).encode() for path in home.rglob("*")), *(path.read_bytes() for path in paths)]
    )


def contents(home: Path) -> list[Path]:
    """The files that were sent and got."""
    return [path for path in (home / "files").rglob("*") if path.is_file()]


async def text_of(house: Town) -> str:
    """Every row of every table, for a database that is no file of ours."""

    def work(connection: Connection) -> str:
        return "\n".join(
            str(tuple(row)) for table in metadata.sorted_tables for row in connection.execute(table.select())
        )

    return await house.house.database.read(work)


async def test_who_leaves_for_good_leaves_nothing_and_what_others_said_stays(
    tmp_path: Path, database_url: str
) -> None:
    async with town(tmp_path, database_url) as house:
        await fill(house)
        assert CANARY in await text_of(house)
        await house.type("/export", "101")
        assert contents(tmp_path)
        before = await house.person(await slug(house))
        asked = await house.type("/delete-me", "101")
        word = asked.split("/delete-me ")[1].split("`")[0]
        assert CANARY in await text_of(house), "nothing goes before the word came back"

        told = await house.type(f"/delete-me {word.lower()}", "301", "discord")

        assert "Deleted for good: entries of memory: 3, conversations: 2, messages: 9." in told
        left = await text_of(house)
        assert CANARY not in left
        assert OTHER in left
        assert contents(tmp_path) == []
        assert before is not None
        assert await house.person(before.slug) is None
        room = await room_of(house)
        known = await house.house.memory.read(RoomScope(room.slug, (await house.account("100")).id))
        assert known.memory == (f"Bring {OTHER}.",)
        await house.house.database.empty_log()
        assert CANARY.encode() not in bytes_of(tmp_path)


async def test_who_comes_back_after_leaving_is_a_stranger(tmp_path: Path, sqlite_url: str) -> None:
    async with town(tmp_path, sqlite_url) as house:
        await fill(house)
        await leave(house, "101")

        await house.send(direct("hello again", user="101"))

        assert (await house.account("101")).person is None
        assert "Your code is" in (await house.told("101"))[-1]


async def leave(house: Town, user: str) -> str:
    word = (await house.type("/delete-me", user)).split("/delete-me ")[1].split("`")[0]
    return await house.type(f"/delete-me {word}", user)


async def test_a_wrong_word_or_none_deletes_nothing(tmp_path: Path, sqlite_url: str) -> None:
    async with town(tmp_path, sqlite_url) as house:
        await fill(house)
        for text in ("/delete-me", "/delete-me yes", "/delete-me AAAAA"):
            assert "If you are sure" in await house.type(text, "101")
        assert await house.known(await slug(house)) != ()


async def test_a_person_of_the_settings_stays_there_with_nothing_kept_of_them(
    tmp_path: Path, sqlite_url: str
) -> None:
    async with town(tmp_path, sqlite_url) as house:
        dan = await house.account("104")
        await house.knows("dan", f"Likes {CANARY}.")
        await talk(house, dan, f"I am {CANARY}.")

        told = await leave(house, "104")

        assert "config.yaml" in told
        assert CANARY not in await text_of(house)
        assert await house.slug_of("104") == "dan"
        assert await house.known("dan") == ()
        await house.knows("dan", "Afresh.")
        assert await house.known("dan") == ("Afresh.",)


async def test_somebody_joined_leaves_under_both_names(tmp_path: Path, sqlite_url: str) -> None:
    gone: list[str] = []

    class Bank:
        async def join(self, kept: PersonId, joined: PersonId, /) -> None: ...
        async def part(self, kept: PersonId, joined: PersonId, /) -> None: ...
        async def export(self, person: PersonId, /) -> Mapping[str, bytes]:
            return {}

        async def erase(self, person: PersonId, /) -> None:
            gone.append(person)

    async with town(tmp_path, sqlite_url, (Bank(),)) as house:
        await house.let_in("Bo", "101")
        await house.let_in("Bobby", "301", "discord")
        await house.knows("bobby", f"Has {CANARY}.")
        code = code_in(await house.type("/link", "101"))
        await house.type(f"/link {code}", "301", "discord")
        await house.type("/link yes", "101")
        await house.type("/link yes", "301", "discord")

        await leave(house, "101")

        assert gone == ["bo", "bobby"]
        assert CANARY not in await text_of(house)
        assert await house.person("bobby") is None


async def test_every_table_with_an_account_or_an_owner_is_thought_of(tmp_path: Path, sqlite_url: str) -> None:
    """After leaving, no row of any table refers to the account, but turns in rooms and the stream's shell."""
    async with town(tmp_path, sqlite_url) as house:
        await fill(house)
        bo, own = await house.account("101"), await slug(house)
        await leave(house, "101")

        def referring(connection: Connection) -> dict[str, int]:
            found = {}
            for table in metadata.sorted_tables:
                if "account_id" in table.c:
                    rows = connection.execute(select(table).where(table.c.account_id == bo.id)).all()
                    found[table.name] = len(rows)
                if "owner" in table.c and table.name not in ("inbox", "turn"):
                    rows = connection.execute(select(table).where(table.c.owner == f"person:{own}")).all()
                    found[table.name] = found.get(table.name, 0) + len(rows)
            return {name: count for name, count in found.items() if count}

        left = await house.house.database.read(referring)
        assert set(left) <= {"turn", "stream", "inbox"}
        assert left.get("inbox", 0) == 1, "the command itself, which is yet to be answered"


async def test_the_owner_of_the_chats_can_not_leave_a_house_without_an_owner(
    tmp_path: Path, sqlite_url: str
) -> None:
    async with town(tmp_path, sqlite_url, people={}) as house:
        await house.send(direct("hello", user="100"))

        def own(connection: Connection) -> None:
            (owner,) = people.owners(connection)
            account = people.find_account(connection, "telegram", "", "100")
            assert account is not None
            people.give_account(connection, account.id, owner.id, "setup")

        await house.house.database.write(own)
        assert "without one" in await leave(house, "100")
        assert await house.slug_of("100") == "owner"


@pytest.mark.parametrize("who", ["100", "101"])
async def test_a_copy_holds_all_of_ones_own_and_nothing_of_others_and_is_sent_privately(
    who: str, tmp_path: Path, sqlite_url: str
) -> None:
    async with town(tmp_path, sqlite_url) as house:
        await fill(house)

        assert "everything I keep of you" in await house.type("/export", who)

        with ZipFile(await copy_sent(house, who)) as archive:
            names = archive.namelist()
            text = "\n".join(archive.read(name).decode() for name in names)
        assert "memory/MEMORY.md" in names
        assert any(name.startswith("conversations/") and name.endswith(".md") for name in names)
        assert ("My password is" in text) == (who == "101")
        assert ("On Discord" in text) == (who == "101")
        assert [*(tmp_path / "exports").rglob("*.zip")] == []
        source = select(outbox.c.source).where(outbox.c.kind == "file")
        sent = await house.house.database.read(lambda c: c.execute(source).scalar_one())
        assert not sent.startswith(takeback.REMOVAL)  # it would be in the way of an /undo of that number
        assert sent.startswith(OF_COMMANDS)  # whoever misses it is told so in their language


async def copy_sent(house: Town, user: str) -> Path:
    """The file that waits to be sent to a direct chat."""
    query = select(outbox.c.payload).where(outbox.c.kind == "file", outbox.c.chat == user)
    payload = await house.house.database.read(lambda c: c.execute(query).scalar_one())
    file = load_outbound(payload).file
    assert file is not None
    path = FileStore(house.house.config.home / "files").path(file.sha256)
    assert path.stat().st_mode & 0o077 == 0
    return path


@pytest.mark.parametrize("who", ["100", "104"])
async def test_a_copy_too_large_to_be_sent_stays_on_the_machine_and_only_the_owner_hears_where(
    who: str, tmp_path: Path, sqlite_url: str
) -> None:
    class Bank:
        async def join(self, kept: PersonId, joined: PersonId, /) -> None: ...
        async def part(self, kept: PersonId, joined: PersonId, /) -> None: ...
        async def erase(self, person: PersonId, /) -> None: ...
        async def export(self, person: PersonId, /) -> Mapping[str, bytes]:
            return {"noise": os.urandom(MAX_SENT_BYTES + 1)}

    async with town(tmp_path, sqlite_url, (Bank(),)) as house:
        told = await house.type("/export", who)

    (path,) = (tmp_path / "exports").rglob("*.zip")
    assert path.stat().st_mode & 0o077 == 0
    assert (str(path) in told) == (who == "100")


async def test_a_copy_holds_what_other_parts_keep_inside_its_own_folder(
    tmp_path: Path, sqlite_url: str
) -> None:
    class Bank:
        async def join(self, kept: PersonId, joined: PersonId, /) -> None: ...
        async def part(self, kept: PersonId, joined: PersonId, /) -> None: ...
        async def erase(self, person: PersonId, /) -> None: ...
        async def export(self, person: PersonId, /) -> Mapping[str, bytes]:
            return {"../../bank/facts.txt": person.encode()}

    async with town(tmp_path, sqlite_url, (Bank(),)) as house:
        await house.type("/export", "100")

        with ZipFile(await copy_sent(house, "100")) as archive:
            assert archive.read("bank/facts.txt") == b"ana"


async def test_a_message_of_who_left_is_blank_in_the_room(tmp_path: Path, sqlite_url: str) -> None:
    async with town(tmp_path, sqlite_url) as house:
        await fill(house)
        await leave(house, "101")

        rows = await house.house.database.read(lambda c: c.execute(select(message)).all())
        assert [
            (row.content, row.state, row.account_id is None) for row in rows if row.state == "redacted"
        ] == [("", "redacted", True)]


async def test_who_is_called_like_a_small_fact_of_the_house_takes_none_along(
    tmp_path: Path, sqlite_url: str
) -> None:
    async with town(tmp_path, sqlite_url) as house:
        await house.house.database.write(lambda c: kv.put_value(c, "web.token", "kept"))
        for name, user in (("Token", "701"), ("Prices", "702")):
            await house.let_in(name, user)
            await house.type("/memory pause", user)
            await leave(house, user)

        query = select(kv_table.c.key, kv_table.c.value)
        facts = dict(await house.house.database.read(lambda c: c.execute(query).all()))
        assert facts["web.token"] == "kept"
        assert "usage.prices" in facts
        assert not [key for key in facts if key.startswith(("memory.", "delete-me."))]
