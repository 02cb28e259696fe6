"""A person's own copy holds something of every table in which something of theirs is."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import cast
from zipfile import ZipFile

import pytest
from sqlalchemy import Connection, insert

from tests.gateway.linked import Town, town
from tests.gateway.planted import BO, MADE_BY_TALKING, OF_ALL, canary_of, ids_of, plant
from trunkline.agent.scope import PersonId, PersonScope
from trunkline.gateway.app import belongings
from trunkline.gateway.commands.rights import MAX_SENT_BYTES
from trunkline.gateway.exporting import export_person
from trunkline.gateway.file_store import FileStore
from trunkline.gateway.state import people
from trunkline.gateway.state.schema import attachment, metadata

NOT_COPIED = {
    "code": "one-time codes, as hashes",
    "embedding": "numbers made of messages",
    "fact_term": "by what words facts are found",
    "link_request": "who answered yes to whom",
    "memory_text": "the memory itself where files hold none: read by its store",
    "outbox": "what was sent: answers stand in the conversations, the rest shows what is kept elsewhere",
    "provider_mirror": "numbers under which providers keep entries of the memory",
    "provider_outbox": "on its way to a provider: turns and entries of the memory",
    "room_member": "ids and times; the rooms are in the copy, as another test shows",
    "step": "the machinery of turns",
}
"""Tables that hold something of a person of which their copy has nothing, and why."""


async def copy_of(house: Town, slug: str, target: Path, files: FileStore | None = None) -> dict[str, bytes]:
    scope = PersonScope(PersonId(slug))
    home = house.house
    await export_person(home.database, home.memory, belongings(home), scope, target, files)
    with ZipFile(target) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


class Broken:
    """Belongings that can't be written down."""

    async def join(self, kept: PersonId, gone: PersonId, /) -> None: ...

    async def part(self, kept: PersonId, gone: PersonId, /) -> None: ...

    async def erase(self, person: PersonId, /) -> None: ...

    async def export(self, person: PersonId, /) -> Mapping[str, bytes]:
        return {"broken": cast(bytes, 5)}


async def test_a_copy_that_can_not_be_finished_leaves_nothing_behind(tmp_path: Path, sqlite_url: str) -> None:
    async with town(tmp_path, sqlite_url) as house:
        home, scope = house.house, PersonScope(PersonId((await ids_of(house)).slug))
        with pytest.raises(TypeError):
            await export_person(home.database, home.memory, [Broken()], scope, tmp_path / "bo.zip", None)

    assert not (tmp_path / "bo.zip").exists()


async def test_of_every_table_something_is_in_the_copy_or_it_is_said_why_not(
    tmp_path: Path, database_url: str
) -> None:
    async with town(tmp_path, database_url) as house:
        ids = await ids_of(house)
        await house.house.database.write(lambda c: plant(c, ids))

        text = b"".join((await copy_of(house, ids.slug, tmp_path / "bo.zip")).values()).decode()

        asked = {table.name for table in metadata.sorted_tables} - {*OF_ALL, *MADE_BY_TALKING}
        assert {name for name in asked if canary_of(name) not in text} == set(NOT_COPIED)


async def test_a_copy_has_the_rooms_the_home_and_the_files_of_its_person_and_of_nobody_else(
    tmp_path: Path, sqlite_url: str
) -> None:
    async with town(tmp_path, sqlite_url) as house:
        ids = await ids_of(house)
        store = house.house.files
        mine, others = store.put(b"a picture of mine"), store.put(b"a picture of Dan's")

        def keep(connection: Connection) -> None:
            account = people.find_account(connection, "telegram", "", "104")
            assert account is not None
            dans = people.stream_of(connection, account_id=account.id, room_id=None)
            for stream, sha256 in ((ids.of["stream"], mine), (dans, others)):
                row = {"stream_id": stream, "name": "../a/cat.png", "sha256": sha256}
                connection.execute(insert(attachment).values(**row))
            people.change_room(connection, ids.of["room"], title="The house")
            people.note_member(connection, ids.of["room"], ids.of["account"], 1)

        await house.house.database.write(keep)
        await house.type("/sethome", BO)
        held = await copy_of(house, ids.slug, tmp_path / "bo.zip", store)

    assert [name for name in held if name.startswith("files/")] == [f"files/{mine[:12]}-a_cat.png"]
    assert b"a picture of mine" in held.values()
    assert json.loads(held["rooms.json"])[0]["title"] == "The house"
    assert json.loads(held["me.json"])["home"] == {"platform": "telegram", "chat": BO}


async def test_a_copy_that_is_too_large_for_its_files_is_sent_without_them(
    tmp_path: Path, sqlite_url: str
) -> None:
    async with town(tmp_path, sqlite_url) as house:
        ids = await ids_of(house)
        sha256 = house.house.files.put(os.urandom(MAX_SENT_BYTES))

        def keep(connection: Connection) -> None:
            row = {"stream_id": ids.of["stream"], "name": "film.mp4", "sha256": sha256}
            connection.execute(insert(attachment).values(**row))

        await house.house.database.write(keep)
        told = await house.type("/export", BO)

        assert "only listed" in told
        assert [*(tmp_path / "exports").rglob("*.zip")] == []
