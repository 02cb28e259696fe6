"""A start with a damaged database: it goes on, answers nothing twice, and its owner is told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.gateway.small_house import ANA, SmallHouse
from tests.gateway.test_salvage import leaves, spoil
from trunkline.gateway.mending import served_whole
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.ready import Unusable
from trunkline.gateway.state.schema import inbox


@asynccontextmanager
async def running_whole(house: SmallHouse) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        program = group.create_task(served_whole(house.config(), lambda _: house.serve()))
        try:
            await house.telegram.wait_for(lambda: house.telegram.is_polled)
            yield
        finally:
            program.cancel()


async def test_an_emptied_file_beside_memories_of_people_is_no_new_database(sqlite_house: SmallHouse) -> None:
    house, file = sqlite_house, sqlite_house.home / "state.db"
    house.database.close()
    file.write_bytes(b"")
    (house.home / "memories" / "ana").mkdir(parents=True)

    with pytest.raises(Unusable, match="is empty, but people are remembered here"):
        await served_whole(house.config(), lambda _: house.serve())

    assert file.read_bytes() == b""


async def test_a_start_with_a_damaged_inbox_goes_on_and_answers_nothing_again(
    sqlite_house: SmallHouse, tmp_path: Path
) -> None:
    house, telegram = sqlite_house, sqlite_house.telegram
    file = tmp_path / "state.db"
    house.answer("Hello, Ana.")
    async with house.running():
        asked = await telegram.direct_message(ANA, "hello there")
        await house.shows("Hello, Ana.")
        await house.ended(1)
    house.database.close()
    spoil(file, *leaves(file, "inbox"))

    house.answer("And hello again.")
    async with running_whole(house):
        await house.shows("My database was damaged")
        known = telegram.private_chat(ANA).messages[asked.message_id]
        await telegram.push_raw("message", {**known, "date": known["date"] - 60})
        await house.shows("too long ago for me to answer it now")
        await house.say("are you there?")
        await house.shows("And hello again.")

    assert len(house.model.requests) == 2
    (told,) = (text for text in telegram.texts(ANA) if "damaged" in text)
    (aside,) = (tmp_path / "backups").glob("state-damaged-*.db")
    assert f"put the old file aside as {aside}. Something is lost of: inbox." in told
    with Database.sqlite(file) as database:
        assert len(database.read_now(lambda c: c.execute(inbox.select()).all())) == 2
