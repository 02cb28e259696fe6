"""Who left a room without our being told of it is found to have left."""

import asyncio

from sqlalchemy import Connection

from tests.emulators.slack_bench import adapter_for, emulated
from tests.gateway.small_house import ANA, BO, ROOM, SmallHouse
from trunkline.gateway import presence
from trunkline.gateway.platforms import Platform
from trunkline.gateway.state import people
from trunkline.gateway.state.database import Database

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


async def test_slack_is_asked_who_left_and_whose_account_was_deactivated_while_nobody_listened(
    sqlite_database: Database,
) -> None:
    async with emulated() as slack:
        space = slack.workspace
        space.add_channel("C1", "channel", ("U3",))
        space.add_channel("G1", "group", ("U1",)).members.discard(space.bot_user)

        def fill(connection: Connection) -> None:
            for chat, users in (("G1", ("U1",)), ("C1", ("U1", "U2", "U3"))):
                room = people.ensure_room(connection, "slack", space.team, chat, title="", now_ms=1)
                for user in users:
                    who = people.ensure_account(connection, "slack", space.team, user, label="", now_ms=1)
                    people.note_member(connection, room.id, who.id, 1)

        await sqlite_database.write(fill)
        space.channels["C1"].members.discard("U2")
        space.deactivated.add("U3")
        space.most_members = 1
        slack.limit_next("users.info", 0)
        assert await presence.look(sqlite_database, "slack", adapter_for(slack), pause_s=0) == 2

    members = await sqlite_database.read(lambda c: people.members_on(c, "slack"))
    assert [(room.chat, one.user_id) for room, one in members] == [("G1", "U1"), ("C1", "U1")]
