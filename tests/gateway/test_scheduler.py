"""Reminders in the running house: commands, delivery over a real client, runs, restarts."""

import asyncio
import json
import re
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import Connection, select, update

from tests.emulators.openai import Reply
from tests.gateway.reminder_rows import ana, as_it_is, direct
from tests.gateway.rows import add_person
from tests.gateway.small_house import ANA, BO, ROOM, SmallHouse
from trunkline.gateway.clock import now_ms
from trunkline.gateway.delivery import Delivery
from trunkline.gateway.delivery import Line as Connected
from trunkline.gateway.scheduler import AT_ONCE, Scheduler
from trunkline.gateway.settings import FileSettings
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.records import SessionKey
from trunkline.gateway.state.schema import inbox, outbox, person, reminder, session, usage

ZONE = {"people": {"ana": {"role": "owner", "name": "Ana", "telegram": ANA, "timezone": "Europe/Berlin"},
                   "bo": {"name": "Bo", "telegram": BO, "language": "zh-CN"}}}  # fmt: skip


def is_waiting(connection: Connection) -> bool:
    query = select(reminder.c.id).where(reminder.c.state == "waiting").limit(1)
    return connection.execute(query).first() is not None


def nothing_is_on_its_way(connection: Connection) -> bool:
    query = select(outbox.c.id).where(outbox.c.state.in_(("planned", "sending"))).limit(1)
    return connection.execute(query).first() is None


async def test_a_reminder_made_by_a_command_comes_at_its_time(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    async with house.running(**ZONE):
        await house.say("/remind in 1 second turn the *oven* off")
        await house.shows("I'll remind you")
        await house.shows("⏰ turn the oven off")

    [row] = await house.rows(reminder)
    assert (row.state, row.kind, row.maker) == ("done", "text", "ana")
    assert house.model.requests == []


async def test_the_understood_time_and_zone_are_told(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    summer = date(datetime.now(UTC).year + 1, 6, 1)
    last_of_march = date(summer.year, 3, 31)
    forward = last_of_march - timedelta(days=last_of_march.isoweekday() % 7)  # a Sunday
    async with house.running(**ZONE):
        await house.say(f"/remind {summer} 18:30 renew the passport")
        await house.shows(f"{summer:%A} 1 June {summer.year} at 18:30 (Europe/Berlin): renew the passport")
        await house.say(f"/remind {forward} 02:30 wake up")
        await house.shows("clocks are put forward, so it is 03:30")
        await house.say("/remind every weekday at 8 stand-up")
        await house.shows("every weekday at 08:00, first")
        await house.say("/remind at 6 call Mum")
        await house.shows("Do you mean 6am or 6pm?")
        await house.say("/remind today")
        await house.shows("At what time?")
        await house.say("/remind 2020-01-01 09:00 too late")
        await house.shows("That time is over already.")
        await house.say("/remind")
        await house.shows("Write when and what")
        await house.say("/remind every 5 minutes blink")
        await house.shows("at most every 15 minutes")
        await house.say("/remind 明天上午9点 开会", BO)
        await house.shows("提醒你：开会", BO)

    due = {row.content: row.due_ms for row in await house.rows(reminder)}
    assert set(due) == {"renew the passport", "wake up", "stand-up", "开会"}
    assert datetime.fromtimestamp(due["renew the passport"] / 1000, UTC).hour == 16


async def test_what_waits_is_listed_and_cancelled(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    async with house.running(**ZONE):
        await house.say("/reminders")
        await house.shows("Nothing waits.")
        await house.say("/remind tomorrow at 9:00 call Mum")
        await house.say("/remind every day at 7:00 run")
        await house.say("/reminders")
        await house.shows("call Mum")
        await house.shows("every day at 07:00, next")
        number = re.search(r"(\d+) · \w+, .* at 09:00: call Mum", "\n".join(house.telegram.texts(ANA)))
        assert number is not None
        await house.say(f"/reminders cancel {number[1]}", BO)
        await house.shows(f"没有编号 {number[1]} 的提醒", BO)
        await house.say(f"/reminders cancel {number[1]}")
        await house.shows("Cancelled: call Mum")
        await house.say(f"/reminders cancel {number[1]}")
        await house.shows(f"There is no reminder {number[1]} here.")
        await house.say("/reminders cancel twelve")
        await house.shows("There is no reminder twelve here.")

    assert [row.content for row in await house.rows(reminder, reminder.c.state == "waiting")] == ["run"]


async def test_in_a_room_it_is_for_everybody_there_and_its_maker_or_an_admin_cancels(
    sqlite_house: SmallHouse,
) -> None:
    house = sqlite_house
    async with house.running(**ZONE):
        await house.telegram.group_message(ROOM, BO, "/remind in 1 second lunch", mention=False)
        await house.shows("大家（", ROOM)
        await house.shows("：lunch", ROOM)
        await house.telegram.group_message(ROOM, ANA, "/remind tomorrow at 9:00 dinner", mention=False)
        await house.shows("I'll remind everybody here", ROOM)
        [row] = await house.rows(reminder, reminder.c.state == "waiting")
        await house.telegram.group_message(ROOM, BO, f"/reminders cancel {row.id}", mention=False)
        await house.shows("只有设置的人、管理员或主人可以取消。", ROOM)
        await house.telegram.group_message(ROOM, ANA, f"/reminders cancel {row.id}", mention=False)
        await house.shows("Cancelled: dinner", ROOM)


async def test_the_model_makes_one_and_later_knows_that_it_came(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    async with house.running(**ZONE):
        house.call("remind", {"text": "Turn the oven off", "after": "1s"})
        house.answer("I'll tell you in a second.", "You're welcome.")
        await house.say("remind me in a second about the oven")
        await house.shows("⏰ Turn the oven off")
        await house.say("done, thanks")
        await house.shows("You're welcome.")

    result = next(m for m in house.model.requests[1]["messages"] if m["role"] == "tool")
    assert "is set: to" in json.dumps(result)
    assert "(Europe/Berlin)" in json.dumps(result)
    assert "Since then you reminded the person here: “Turn the oven off”" in house.last_user()


async def test_a_scheduled_run_answers_in_a_session_of_its_own_at_its_makers_cost(house: SmallHouse) -> None:
    async with house.running(**ZONE):
        house.call("remind", {"text": "Sum up what I said about tea", "after": "1s", "do": "run"})
        house.answer("I'll do that.")
        house.model.then(Reply("You like green tea."))
        house.answer("Green, as I wrote.")
        await house.say("sum up what I said about tea, in a second")
        await house.shows("You like green tea.")
        await house.ended(2)
        await house.say("which tea?")
        await house.shows("Green, as I wrote.")

    run = house.model.requests[2]["messages"]
    assert [message["role"] for message in run] == ["system", "user"]
    assert "begun by a schedule" in run[1]["content"]
    assert "Sum up what I said about tea" in run[1]["content"]
    later = house.last_user()
    assert "Since then a scheduled run of yours wrote here:\nYou like green tea." in later
    talk, scheduled = await house.rows(session)
    assert (talk.origin, scheduled.origin, talk.ended_ms) == ("", "scheduled", None)
    assert {row.account_id for row in await house.rows(usage, usage.c.session_id == scheduled.id)} == {
        (await house.rows(reminder))[0].account_id
    }
    assert [row.state for row in await house.rows(inbox, inbox.c.kind == "scheduled")] == ["done"]


async def test_words_said_while_a_run_works_are_answered_in_the_conversation(
    sqlite_house: SmallHouse,
) -> None:
    house = sqlite_house
    async with house.running():
        house.call("remind", {"text": "Sum up", "after": "1s", "do": "run"})
        house.answer("All right.")
        go_on = asyncio.Event()
        house.model.then(Reply("The sum is long. " * 3, held=go_on), Reply("Hello to you."))
        await house.say("sum up in a second")
        await house.asked(3)
        await house.say("hello?")
        await house.comes_true(
            lambda c: c.execute(select(inbox.c.id).where(inbox.c.state == "received")).all()
        )
        go_on.set()
        await house.shows("Hello to you.")
        await house.ended(3)

    assert [m["role"] for m in house.model.requests[3]["messages"]][-1] == "user"
    assert "hello?" in house.last_user()
    assert "Sum up" not in json.dumps(house.model.requests[3]["messages"][-1]["content"].split("\n")[:2])
    talk, scheduled = await house.rows(session)
    assert (talk.message_count, scheduled.message_count) == (6, 2)


async def test_stop_ends_a_scheduled_run(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    async with house.running():
        house.call("remind", {"text": "Sum up", "after": "1s", "do": "run"})
        house.answer("All right.")
        house.model.then(Reply("A long story. " * 9, stall_after=8))
        await house.say("sum up in a second")
        await house.asked(3)
        await house.shows("A long story.")
        await house.say("/stop")
        await house.shows("Stopped.")


async def test_what_came_due_while_nobody_was_there_comes_late_once_and_says_so(house: SmallHouse) -> None:
    async with house.running(**ZONE):
        await house.say("/remind every day at 9:00 stretch")
        await house.shows("every day at 09:00")
        await house.say("/remind tomorrow at 9:00 call Mum")
        await house.shows("call Mum")
    days_ago_ms = now_ms() - 3 * 86_400_000
    await house.database.write(lambda c: c.execute(update(reminder).values(due_ms=days_ago_ms)))

    async with house.running(**ZONE):
        await house.shows("what was due since then is left out")
        await house.shows("⏰ call Mum")
        await house.comes_true(nothing_is_on_its_way)
    async with house.running(**ZONE):
        await house.say("/reminders")
        await house.shows("What waits")

    shown = [text for text in house.telegram.texts(ANA) if text.startswith("⏰")]
    assert sorted(text.splitlines()[0] for text in shown) == ["⏰ call Mum", "⏰ stretch"]
    assert all("This is late: it was due" in text for text in shown)
    assert [row.content for row in await house.rows(reminder, reminder.c.state == "waiting")] == ["stretch"]


async def test_killed_between_the_decision_and_the_sending_it_comes_once(sqlite_house: SmallHouse) -> None:
    """The outbox row is there with the step that was made; whoever starts next sends it."""
    house = sqlite_house
    async with house.running(**ZONE):
        await house.say("/remind tomorrow at 9:00 call Mum")
        await house.shows("call Mum")
    [row] = await house.rows(reminder)
    [told] = await house.rows(outbox)
    await house.database.write(lambda c: c.execute(update(reminder).values(due_ms=now_ms() - 1)))
    delivery = Delivery(house.database)
    delivery.connect(Connected(house.adapter(), told.tenant))
    scheduler = Scheduler(house.database, delivery, FileSettings(), lambda key: None)
    assert await scheduler.fire_due() == 1
    assert [text for text in house.telegram.texts(ANA) if "⏰" in text] == []

    async with house.running(**ZONE):
        await house.shows("⏰ call Mum")
        await house.comes_true(nothing_is_on_its_way)
        await house.say("/reminders")
        await house.shows("Nothing waits.")

    assert len([text for text in house.telegram.texts(ANA) if "⏰" in text]) == 1
    assert row.id == (await house.rows(reminder))[0].id


async def test_somebody_suspended_gets_none(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    async with house.running():
        await house.say("/remind tomorrow at 9:00 tea", BO)
        await house.shows("提醒你：tea", BO)
        await house.say("/remind tomorrow at 9:00 coffee")
        await house.shows("coffee")
        await house.database.write(
            lambda c: c.execute(update(person).where(person.c.slug == "bo").values(suspended=True))
        )
        await house.database.write(lambda c: c.execute(update(reminder).values(due_ms=now_ms() - 1)))
        await house.shows("⏰ coffee")
        await house.comes_true(lambda c: not is_waiting(c))

    assert not [text for text in house.telegram.texts(BO) if "⏰" in text]


# The scheduler itself, with a clock of the test's


def scheduler_at(database: Database, stamp_ms: int, delivery: Delivery, woken: list[SessionKey]) -> Scheduler:
    return Scheduler(database, delivery, FileSettings(), woken.append, lambda: stamp_ms)


class Quiet:
    """A platform of which only the name matters here."""

    platform = "telegram"

    def render(self, markdown: str) -> object:
        return as_it_is("telegram", markdown)


def connected(database: Database) -> Delivery:
    delivery = Delivery(database)
    delivery.connect(Connected(Quiet(), "bot"))  # type: ignore[arg-type]
    return delivery


async def test_many_at_once_are_paced_and_all_of_them_come(sqlite_database: Database) -> None:
    def fill(connection: Connection) -> None:
        account = add_person(connection, "ana")
        for number in range(AT_ONCE + 5):
            direct(connection, account, "ana", due_ms=1000 + number)

    sqlite_database.write_now(fill)
    scheduler = scheduler_at(sqlite_database, 2000, connected(sqlite_database), [])

    assert [await scheduler.fire_due() for _ in range(3)] == [AT_ONCE, 5, 0]


async def test_nothing_comes_before_its_time(sqlite_database: Database) -> None:
    sqlite_database.write_now(lambda c: ana(c, due_ms=5000))
    delivery = connected(sqlite_database)

    assert await scheduler_at(sqlite_database, 4999, delivery, []).fire_due() == 0
    assert await scheduler_at(sqlite_database, 5000, delivery, []).fire_due() == 1


async def test_one_that_can_not_be_read_holds_no_other_up(sqlite_database: Database) -> None:
    def fill(connection: Connection) -> None:
        account = add_person(connection, "ana")
        direct(connection, account, "ana", due_ms=1000, cron="0 8 * * *", zone="No/Where")
        direct(connection, account, "ana", due_ms=1001)

    sqlite_database.write_now(fill)
    scheduler = scheduler_at(sqlite_database, 2000, connected(sqlite_database), [])

    assert await scheduler.fire_due() == 1
    assert await scheduler.fire_due() == 0


async def test_a_run_wakes_its_session(sqlite_database: Database) -> None:
    sqlite_database.write_now(lambda c: ana(c, due_ms=1000, kind="run"))
    woken: list[SessionKey] = []

    await scheduler_at(sqlite_database, 2000, connected(sqlite_database), woken).fire_due()

    assert woken == [SessionKey("telegram", "bot", "chat of ana")]


async def test_what_waits_for_its_platform_holds_no_other_up(sqlite_database: Database) -> None:
    def fill(connection: Connection) -> None:
        elsewhere = add_person(connection, "bo", "discord")
        for _ in range(AT_ONCE + 1):
            direct(connection, elsewhere, "bo", due_ms=1000)
        ana(connection, due_ms=1001)

    sqlite_database.write_now(fill)
    delivery = connected(sqlite_database)

    assert await scheduler_at(sqlite_database, 2000, delivery, []).fire_due() == 1
    assert await scheduler_at(sqlite_database, 9_000_000, delivery, []).fire_due() == 0
