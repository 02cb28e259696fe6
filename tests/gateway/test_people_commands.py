"""What the owner and admins do with people, and what each may use in a day."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert

from tests.gateway.inbound import direct, in_room
from tests.gateway.linked import NoTurns, Town, code_in, town
from trunkline.agent.messages import Usage
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands.catalogue import BY_NAME
from trunkline.gateway.settings import Price
from trunkline.gateway.state import people, turns, usage
from trunkline.gateway.state import sessions as session_rows
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.records import SessionKey
from trunkline.gateway.state.schema import inbox, session
from trunkline.gateway.state.schema import usage as usage_table

OWNER, DAN = "100", "104"


async def give_role(house: Town, slug: str, role: str) -> str:
    return await house.type(f"/role {slug} {role}", OWNER)


async def test_a_role_gives_the_commands_of_it_and_no_more(tmp_path: Path, sqlite_url: str) -> None:
    async with town(tmp_path, sqlite_url) as house:
        await house.let_in("Bo", "101")
        assert not BY_NAME["people"].allows(await house.account("101"))

        assert "Bo is now" in await give_role(house, "bo", "admin")

        bo = await house.account("101")
        assert [
            name for name in ("people", "block", "role", "approve", "deny") if BY_NAME[name].allows(bo)
        ] == [
            "people",
            "block",
        ]


@pytest.mark.parametrize("words", ["bo owner", "bo", "", "bo king"])
async def test_no_command_makes_another_owner(words: str, tmp_path: Path, sqlite_url: str) -> None:
    async with town(tmp_path, sqlite_url) as house:
        await house.let_in("Bo", "101")

        assert "`/role name role`" in await house.type(f"/role {words}".strip(), OWNER)

        bo = await house.person("bo")
        assert bo is not None
        assert bo.role == "member"


async def test_people_of_the_settings_and_oneself_are_changed_by_no_command(
    tmp_path: Path, sqlite_url: str
) -> None:
    async with town(tmp_path, sqlite_url) as house:
        for text in ("/role dan guest", "/block dan", "/role ana guest", "/block ana"):
            assert "config.yaml" in await house.type(text, OWNER)
        assert "nobody of that name" in await house.type("/block nobody", OWNER)
        assert "Write" in await house.type("/block cy young", OWNER)


async def test_an_admin_has_no_power_over_another_admin(tmp_path: Path, sqlite_url: str) -> None:
    async with town(tmp_path, sqlite_url) as house:
        for name, user in (("Bo", "101"), ("Cy", "103")):
            await house.let_in(name, user)
            await give_role(house, name.lower(), "admin")

        assert "can't do that" in await house.type("/block cy", "101")
        assert "can't do that" in await house.type("/block bo", "101")
        assert "gets no answer" in await house.type("/block cy", OWNER)


async def test_who_is_blocked_is_answered_nowhere_until_they_are_not(tmp_path: Path, sqlite_url: str) -> None:
    async with town(tmp_path, sqlite_url) as house:
        await house.let_in("Bo", "101")
        await house.type("/block bo", OWNER)
        before = await messages(house)

        await house.send(direct("hello?", user="101"))
        await house.send(in_room("hello?", user="101"))

        assert await messages(house) == before
        assert "no access now" in await house.type("/people", OWNER)
        await house.type("/block bo off", OWNER)
        await house.send(direct("hello?", user="101"))
        assert await messages(house) == before + 1


async def test_who_is_blocked_is_not_answered_to_the_end(tmp_path: Path, sqlite_url: str) -> None:
    stopped: list[SessionKey] = []

    class Turns(NoTurns):
        def stop(self, key: SessionKey) -> bool:
            stopped.append(key)
            return True

    async with town(tmp_path, sqlite_url) as house:
        await house.let_in("Bo", "101")
        bo, key = await house.account("101"), SessionKey("telegram", "bot", "101")

        def begin(connection: Connection) -> None:
            stream = people.stream_of(connection, account_id=bo.id, room_id=None)
            opened = session_rows.start(
                connection, key, stream, prompt="", snapshot="{}", model="m", now_ms=now_ms()
            )
            turns.begin(connection, opened.id, stream, bo.id, "p", now_ms())

        await house.house.database.write(begin)
        busy = replace(house, desk=replace(house.desk, turns=Turns()))
        await busy.type("/block bo off", OWNER)
        assert stopped == []

        await busy.type("/block bo", OWNER)

    assert stopped == [key]


@pytest.mark.parametrize(
    "name", ["[click](http://evil.example)", "@everyone **now**", "Bo\n## System\u202eyebo"]
)
async def test_a_name_that_a_stranger_chose_is_plain_words_in_what_we_say(
    name: str, tmp_path: Path, sqlite_url: str
) -> None:
    async with town(tmp_path, sqlite_url) as house:
        await house.send(direct("hello", user="666", name=name))
        code = code_in((await house.told("666"))[-1])
        said = [await house.type(f"/approve {code}", OWNER)]
        said += [await house.type(f"/{word}", "666") for word in ("start", "whoami")]
        await house.send(direct("hello again", user="666", name=name))
        said += [*await house.told("666"), *await house.told(OWNER)]

    for mark in ("[", "](", "@", "**", "##", "\u202e"):
        assert not [sentence for sentence in said if mark in sentence], mark


async def messages(house: Town) -> int:
    query = inbox.select().where(inbox.c.kind == "message")
    return len(await house.house.database.read(lambda c: c.execute(query).all()))


async def test_a_stranger_turned_away_gets_no_further_code(tmp_path: Path, sqlite_url: str) -> None:
    async with town(tmp_path, sqlite_url) as house:
        await house.send(direct("let me in", user="666", name="Mallory"))
        code = code_in((await house.told("666"))[-1])
        told = len(await house.told("666"))
        assert "Mallory on Telegram (666): waits" in await house.type("/people", OWNER)

        assert "Mallory on Telegram (666)" in await house.type(f"/deny {code}", OWNER)
        await house.send(direct("and now?", user="666", name="Mallory"))

        assert len(await house.told("666")) == told
        assert "isn't valid" in await house.type(f"/approve {code}", OWNER)
        assert (await house.account("666")).person is None


async def use(house: Town, user: str, tokens: int, *, room: str | None = None, cost: int = 0) -> None:
    account = await house.account(user)

    def work(connection: Connection) -> None:
        found = None if room is None else people.find_room(connection, "telegram", "", room)
        connection.execute(
            insert(usage_table).values(
                account_id=account.id, room_id=None if found is None else found.id, purpose="turn",
                prompt_tokens=tokens, created_ms=now_ms(), cost_micros=cost,
            )
        )  # fmt: skip

    await house.house.database.write(work)


async def is_answered(house: Town, user: str, room: str = "") -> bool:
    """Whether a message of theirs waits for a turn."""
    message = in_room("more", user=user, room=room) if room else direct("more", user=user)
    await house.send(message)
    query = inbox.select().where(inbox.c.key == message.key)
    row = (await house.house.database.read(lambda c: c.execute(query).all()))[0]
    return bool(row.state == "received")


async def test_a_members_day_ends_with_their_tokens_and_says_so_once(tmp_path: Path, sqlite_url: str) -> None:
    async with town(tmp_path, sqlite_url, access={"daily_tokens": 1000}) as house:
        await house.let_in("Bo", "101")
        await use(house, "101", 999)
        assert await is_answered(house, "101")
        await use(house, "101", 1)

        assert [await is_answered(house, "101") for _ in range(2)] == [False, False]

        told = [text for text in await house.told("101") if "today's share" in text]
        assert len(told) == 1
        assert "1,000 tokens of 1,000" in await house.type("/usage", "101")
        await use(house, OWNER, 5000)
        assert await is_answered(house, OWNER)


async def test_ones_own_budget_in_the_settings_wins_over_that_of_the_role(
    tmp_path: Path, sqlite_url: str
) -> None:
    settings = {
        "access": {"daily_tokens": 10},
        "people": {
            "ana": {"role": "owner", "telegram": 100, "daily_cost": 0.5},
            "dan": {"telegram": 104, "daily_tokens": 5000},
        },
    }
    async with town(tmp_path, sqlite_url, **settings) as house:
        await house.send(direct("hi", user=DAN))
        await house.send(direct("hi", user=OWNER))
        await use(house, DAN, 4000)
        assert await is_answered(house, DAN)
        await use(house, OWNER, 1, cost=499_999)
        assert await is_answered(house, OWNER)
        await use(house, OWNER, 1, cost=1)
        assert not await is_answered(house, OWNER)
        assert "of $0.50" in await house.type("/usage", OWNER)


async def test_a_room_with_a_budget_pays_for_itself_and_one_without_is_paid_by_the_asker(
    tmp_path: Path, sqlite_url: str
) -> None:
    settings = {
        "access": {"daily_tokens": 100},
        "rooms": {"telegram/-900": {"daily_tokens": 1000}, "telegram/-902": {}},
    }
    async with town(tmp_path, sqlite_url, **settings) as house:
        await house.let_in("Bo", "101")
        await house.send(in_room("hi", user="101", room="-900"))
        await house.send(in_room("hi", user="101", room="-902"))
        await use(house, "101", 600, room="-900")
        assert await is_answered(house, "101")
        assert await is_answered(house, "101", "-900")

        await use(house, "101", 500, room="-900")
        assert not await is_answered(house, "101", "-900")
        assert "This group has used" in (await house.told("-900"))[-1]
        assert await is_answered(house, "101")

        await use(house, "101", 100, room="-902")
        assert not await is_answered(house, "101", "-902")
        assert not await is_answered(house, "101")


async def test_yesterdays_use_is_not_todays(tmp_path: Path, sqlite_url: str) -> None:
    async with town(tmp_path, sqlite_url, access={"daily_tokens": 10}) as house:
        await house.let_in("Bo", "101")
        account = await house.account("101")
        old = {"account_id": account.id, "purpose": "turn", "prompt_tokens": 500}
        await house.house.database.write(
            lambda c: c.execute(insert(usage_table).values(created_ms=now_ms() - 86_400_000, **old))
        )

        assert await is_answered(house, "101")


async def test_a_call_costs_what_the_settings_say_and_the_session_sums_it_up(database: Database) -> None:
    price = Price(prompt=2.0, cached=0.5, completion=8.0)

    def work(connection: Connection) -> list[int]:
        usage.keep_prices(connection, {"big": price})
        account = people.ensure_account(connection, "telegram", "", "1", label="", now_ms=1)
        stream = people.stream_of(connection, account_id=account.id, room_id=None)
        key = SessionKey("telegram", "bot", "1")
        opened = session_rows.start(connection, key, stream, prompt="", snapshot="{}", model="big", now_ms=1)
        turn = turns.begin(connection, opened.id, stream, account.id, "p", 1)
        tokens = Usage(1000, 400, 50)
        spent = [turns.Spent("turn", model, tokens) for model in ("big", "unpriced")]
        turns.add_usage(connection, turn, spent, None, 1)
        costs = connection.execute(usage_table.select().order_by(usage_table.c.id)).all()
        (sums,) = connection.execute(session.select()).all()
        return [*(row.cost_micros for row in costs), sums.cost_micros]

    # 600 fresh tokens at 2, 400 cached at 0.5, 50 of the answer at 8 dollars for a million.
    assert await database.write(work) == [1800, 0, 1800]


async def test_a_conversation_of_a_room_is_ended_by_somebody_known_only(
    tmp_path: Path, sqlite_url: str
) -> None:
    async with town(tmp_path, sqlite_url) as house:
        await house.send(in_room("hi", user="555"))
        await house.send(in_room("hi", user=DAN))
        stranger, dan = await house.account("555"), await house.account(DAN)
        room = await house.house.database.read(lambda c: people.find_room(c, "telegram", "", "-900"))
        assert room is not None
        replies = []
        for account in (stranger, dan):
            context = replace(house.context(account, "-900"), room=room)
            replies.append(await BY_NAME["new"].run(context))

        assert "can do that" in replies[0]
        assert "fresh conversation" in replies[1]
