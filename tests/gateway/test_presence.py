"""Who left a room without our being told of it is found to have left."""

import asyncio

from sqlalchemy import Connection

from tests.gateway.small_house import ANA, BO, ROOM, SmallHouse
from trunkline.gateway import presence
from trunkline.gateway.platforms import Platform
from trunkline.gateway.state import people

CLOSED = -100200


async def test_a_group_of_telegram_is_asked_and_one_that_threw_the_bot_out_stops_no_look(
    sqlite_house: SmallHouse,
) -> None:
    house, telegram = sqlite_house, sqlite_house.telegram

    def fill(connection: Connection) -> None:
        for chat in (CLOSED, ROOM):
            room = people.ensure_room(connection, "telegram", "", str(chat), title="", now_ms=1)
            for user in (ANA, BO):
                who = people.ensure_account(connection, "telegram", "", str(user), label="", now_ms=1)
                people.note_member(connection, room.id, who.id, 1)

    await house.database.write(fill)
    for chat in (CLOSED, ROOM):
        telegram.group(chat)
    for user in (ANA, BO):
        telegram.person(user)
    telegram.chats[ROOM].left.add(BO)
    telegram.chats[CLOSED].closed_because = "bot was kicked from the group chat"
    adapter = house.adapter()
    async with asyncio.TaskGroup() as group:
        program = group.create_task(house.serve(Platform("telegram", lambda: adapter)))
        await telegram.wait_for(lambda: telegram.is_polled)
        assert await presence.look(house.database, "telegram", adapter, pause_s=0) == 1
        program.cancel()

    members = await house.database.read(lambda c: people.members_on(c, "telegram"))
    found = [(int(room.chat), int(one.user_id)) for room, one in members]
    assert found == [(CLOSED, ANA), (CLOSED, BO), (ROOM, ANA)]
