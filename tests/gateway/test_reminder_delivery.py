"""What happens to a reminder at its hour. Every test gives the time itself."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import Connection, insert, select, update

from tests.gateway.reminder_rows import (
    DAY_MS,
    DUE_MS,
    HOUR_MS,
    ana,
    as_it_is,
    direct,
    house,
    in_room,
    planned,
    room_of,
)
from tests.gateway.rows import add_person, direct_stream, leave, link_account
from trunkline.agent.scope import AccountId, PersonId
from trunkline.gateway.payloads import load_inbound, load_outbound
from trunkline.gateway.reminder_delivery import Fired, House, fire, send_elsewhere
from trunkline.gateway.scheduled import is_run
from trunkline.gateway.settings import FileSettings
from trunkline.gateway.state import homes, links, outbox, people, reminders
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.links import Alias
from trunkline.gateway.state.records import SessionKey
from trunkline.gateway.state.reminders import Reminder
from trunkline.gateway.state.schema import account, inbox, person, room, stream, usage
from trunkline.gateway.state.schema import outbox as outbox_table
from trunkline.gateway.undelivered import report_doubt

HERE = house()
TEA = ("chat of ana", "⏰ the tea")


def made(database: Database, make: Callable[[Connection], int]) -> Reminder:
    found = database.write_now(lambda c: reminders.find(c, make(c)))
    assert found is not None
    return found


def again(database: Database, one: Reminder) -> Reminder:
    found = database.read_now(lambda c: reminders.find(c, one.id))
    assert found is not None
    return found


def fired(database: Database, one: Reminder, stamp_ms: int, at: House = HERE) -> Fired | None:
    return database.write_now(lambda c: fire(c, one, at, stamp_ms))


def shown(database: Database) -> list[tuple[str, str]]:
    return [(chat, text) for _, chat, text in planned(database)]


def change(database: Database, table: object, **values: object) -> None:
    database.write_now(lambda c: c.execute(update(table).values(**values)))  # type: ignore[arg-type]


def test_it_goes_where_it_was_asked_for_and_is_done(database: Database) -> None:
    one = made(database, ana)

    assert fired(database, one, DUE_MS) == Fired(send_to=("telegram", "chat of ana"))

    assert planned(database) == [(f"r:{one.id}:{DUE_MS}", *TEA)]
    assert again(database, one).state == "done"


def test_whoever_comes_second_does_nothing(database: Database) -> None:
    one = made(database, ana)

    assert fired(database, one, DUE_MS) is not None
    assert fired(database, one, DUE_MS) is None

    assert shown(database) == [TEA]


def test_one_cancelled_meanwhile_is_not_delivered(sqlite_database: Database) -> None:
    one = made(sqlite_database, ana)
    sqlite_database.write_now(lambda c: reminders.cancel(c, one.id))

    assert fired(sqlite_database, one, DUE_MS) is None
    assert shown(sqlite_database) == []


def test_a_crash_before_the_commit_leaves_it_waiting(database: Database) -> None:
    one = made(database, ana)

    def crash(connection: Connection) -> None:
        fire(connection, one, HERE, DUE_MS)
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        database.write_now(crash)

    assert again(database, one).state == "waiting"
    assert shown(database) == []
    assert fired(database, one, DUE_MS) is not None


def test_what_comes_late_says_so(sqlite_database: Database) -> None:
    one = made(sqlite_database, ana)

    fired(sqlite_database, one, DUE_MS + 2 * DAY_MS)

    [(_, text)] = shown(sqlite_database)
    assert text.startswith("⏰ the tea\n\n(This is late: it was due Monday 30 November at 01:53")


def test_missed_repeats_come_once_and_the_next_is_still_to_come(sqlite_database: Database) -> None:
    one = made(sqlite_database, lambda c: ana(c, cron="0 8 * * *"))

    fired(sqlite_database, one, DUE_MS + 10 * DAY_MS)

    assert len(shown(sqlite_database)) == 1
    assert "what was due since then is left out" in shown(sqlite_database)[0][1]
    next_ms = again(sqlite_database, one).due_ms
    assert DUE_MS + 10 * DAY_MS < next_ms <= DUE_MS + 11 * DAY_MS
    assert again(sqlite_database, one).state == "waiting"


def test_a_clock_put_back_repeats_nothing(sqlite_database: Database) -> None:
    one = made(sqlite_database, lambda c: ana(c, cron="0 * * * *"))

    fired(sqlite_database, one, DUE_MS)
    due_next = again(sqlite_database, one).due_ms

    assert due_next > DUE_MS
    assert sqlite_database.read_now(lambda c: reminders.due(c, DUE_MS - HOUR_MS)) == ()
    assert sqlite_database.read_now(lambda c: reminders.next_due_ms(c, DUE_MS - HOUR_MS)) == due_next


def test_nobody_suspended_or_blocked_gets_any_and_repeats_go_on_afterwards(sqlite_database: Database) -> None:
    one = made(sqlite_database, lambda c: ana(c, cron="0 8 * * *"))
    change(sqlite_database, person, suspended=True)

    fired(sqlite_database, one, DUE_MS)
    change(sqlite_database, person, suspended=False)
    change(sqlite_database, account, blocked=True)
    fired(sqlite_database, again(sqlite_database, one), again(sqlite_database, one).due_ms)

    assert shown(sqlite_database) == []
    assert again(sqlite_database, one).state == "waiting"
    change(sqlite_database, account, blocked=False)
    fired(sqlite_database, again(sqlite_database, one), again(sqlite_database, one).due_ms)
    assert shown(sqlite_database) == [TEA]


@pytest.mark.parametrize("next_holder", [None, "bo"])
def test_an_account_that_changed_hands_tells_its_next_holder_nothing(
    sqlite_database: Database, next_holder: str | None
) -> None:
    one = made(sqlite_database, ana)

    def hand_over(connection: Connection) -> None:
        holder = None
        if next_holder is not None:
            add_person(connection, next_holder)
            found = people.find_person(connection, next_holder)
            assert found is not None
            holder = found.id
        people.give_account(connection, one.account, holder, "")

    sqlite_database.write_now(hand_over)
    fired(sqlite_database, one, DUE_MS)

    assert shown(sqlite_database) == []
    assert again(sqlite_database, one).state == "cancelled"


# Rooms


def in_the_den(connection: Connection) -> int:
    return in_room(connection, "den", add_person(connection, "bo"), "bo")


def test_in_a_room_it_says_from_whom_and_pings_nobody_else(sqlite_database: Database) -> None:
    one = made(sqlite_database, in_the_den)

    fired(sqlite_database, one, DUE_MS)

    row = sqlite_database.read_now(lambda c: outbox.find(c, f"r:{one.id}:{DUE_MS}", 0))
    assert row is not None
    message = load_outbound(row.payload)
    assert (row.chat, row.thread, message.to.thread) == ("den", "topic", "topic")
    assert message.chunk.text == "⏰ For everybody here, from bo: the tea"
    assert message.mention == "bo@telegram"


@pytest.mark.parametrize("closing", ["not allowed", "left"])
def test_a_room_that_is_closed_to_it_gets_nothing_and_its_maker_is_told(
    sqlite_database: Database, closing: str
) -> None:
    one = made(sqlite_database, in_the_den)

    def close(connection: Connection) -> None:
        if closing == "left":
            leave(connection, one.account)
        else:
            connection.execute(update(room).values(allowed=False))
        owner = people.load_account(connection, one.account)
        homes.choose(connection, owner, SessionKey("telegram", "bot", "chat of bo"))

    sqlite_database.write_now(close)
    fired(sqlite_database, one, DUE_MS)

    [(chat, text)] = shown(sqlite_database)
    assert chat == "chat of bo"
    assert "I can't write in the group" in text
    assert again(sqlite_database, one).state == "cancelled"


def test_in_a_room_somebody_who_is_no_person_can_have_one(sqlite_database: Database) -> None:
    def make(connection: Connection) -> int:
        query = insert(account).values(platform="telegram", user_id="9", label="*Zoe*")
        guest = connection.execute(query.returning(account.c.id)).scalar_one()
        connection.execute(insert(stream).values(account_id=guest))
        return in_room(connection, "den", guest, "")

    one = made(sqlite_database, make)
    fired(sqlite_database, one, DUE_MS)

    assert shown(sqlite_database) == [("den", "⏰ For everybody here, from Zoe: the tea")]


def test_a_room_that_got_another_id_takes_its_reminders_along(sqlite_database: Database) -> None:
    one = made(sqlite_database, in_the_den)
    sqlite_database.write_now(lambda c: people.move_room(c, "telegram", "", "den", "great den"))

    assert again(sqlite_database, one).key.chat == "great den"
    assert room_of_reminder(sqlite_database, one) == again(sqlite_database, one).room


def room_of_reminder(database: Database, one: Reminder) -> int:
    return database.read_now(lambda c: room_of(c, one.id))


# Chats out of reach


def with_home_on_discord(connection: Connection) -> int:
    number = ana(connection)
    owner = people.load_account(connection, AccountId(link_account(connection, "ana", "discord")))
    homes.choose(connection, owner, SessionKey("discord", "bot", "home of ana"))
    return number


def test_a_chat_out_of_reach_is_waited_for_and_then_the_home_chat_takes_over(
    sqlite_database: Database,
) -> None:
    one = made(sqlite_database, with_home_on_discord)
    without_telegram = house("discord")

    assert fired(sqlite_database, one, DUE_MS + 60_000, without_telegram) is None
    fired(sqlite_database, one, DUE_MS + 130_000, without_telegram)

    [(chat, text)] = shown(sqlite_database)
    assert chat == "home of ana"
    assert text == "⏰ the tea\n\n(Here, since I can't reach the chat where you asked for it.)"


def test_without_a_home_in_reach_it_goes_on_waiting(sqlite_database: Database) -> None:
    one = made(sqlite_database, ana)

    assert fired(sqlite_database, one, DUE_MS + DAY_MS, house("discord")) is None
    assert again(sqlite_database, one).state == "waiting"


def test_one_of_a_room_never_goes_elsewhere(sqlite_database: Database) -> None:
    one = made(sqlite_database, in_the_den)

    assert fired(sqlite_database, one, DUE_MS + DAY_MS, house("discord")) is None


def test_a_chat_that_refuses_it_sends_it_home_once(sqlite_database: Database) -> None:
    one = made(sqlite_database, with_home_on_discord)
    fired(sqlite_database, one, DUE_MS)

    def refuse(connection: Connection) -> None:
        row = outbox.find(connection, f"r:{one.id}:{DUE_MS}", 0)
        assert row is not None
        outbox.refuse_chat(connection, row, "blocked")
        send_elsewhere(connection, row, as_it_is, DUE_MS)
        send_elsewhere(connection, row, as_it_is, DUE_MS)

    change(sqlite_database, outbox_table, created_ms=DUE_MS)
    sqlite_database.write_now(refuse)

    assert [source for source, _, _ in planned(sqlite_database)] == [
        f"r:{one.id}:{DUE_MS}",
        f"r:{one.id}:{DUE_MS}:home",
    ]
    assert shown(sqlite_database)[1][0] == "home of ana"


# Scheduled runs


def a_run(connection: Connection, **changes: object) -> int:
    return ana(connection, kind="run", text="sum up my week", cron="0 9 * * 1", **changes)


def test_a_run_waits_in_the_inbox_as_its_makers_words(database: Database) -> None:
    one = made(database, a_run)

    assert fired(database, one, DUE_MS) == Fired(wake=one.key)
    assert fired(database, one, DUE_MS) is None

    [row] = database.read_now(lambda c: c.execute(select(inbox)).all())
    message = load_inbound(row.payload)
    assert (row.kind, row.state, row.account_id, row.chat) == (
        "scheduled", "received", one.account, "chat of ana",
    )  # fmt: skip
    assert (message.text, message.sender.id, is_run(message)) == ("sum up my week", "ana@telegram", True)


def test_a_run_does_not_begin_while_the_one_before_is_at_work(sqlite_database: Database) -> None:
    one = made(sqlite_database, a_run)
    fired(sqlite_database, one, DUE_MS)
    following = again(sqlite_database, one)

    fired(sqlite_database, following, following.due_ms)
    assert len(sqlite_database.read_now(lambda c: c.execute(select(inbox)).all())) == 1

    change(sqlite_database, inbox, state="done")
    latest = again(sqlite_database, one)
    fired(sqlite_database, latest, latest.due_ms)
    assert len(sqlite_database.read_now(lambda c: c.execute(select(inbox)).all())) == 2


def test_a_run_that_nobody_can_pay_for_says_so(sqlite_database: Database) -> None:
    one = made(sqlite_database, a_run)
    sqlite_database.write_now(
        lambda c: c.execute(insert(usage).values(account_id=one.account, prompt_tokens=99, created_ms=DUE_MS))
    )
    settings = FileSettings.model_validate({"access": {"daily_tokens": 50}})

    fired(sqlite_database, one, DUE_MS, house(settings=settings))

    assert "today's share of the model is used up: sum up my week" in shown(sqlite_database)[0][1]
    assert sqlite_database.read_now(lambda c: c.execute(select(inbox)).all()) == []


def test_in_chinese_where_that_is_the_persons_language(sqlite_database: Database) -> None:
    one = made(sqlite_database, lambda c: ana(c, language="zh-CN"))

    fired(sqlite_database, one, DUE_MS + DAY_MS)

    assert "来晚了" in shown(sqlite_database)[0][1]


def test_what_is_over_is_forgotten_after_a_week(sqlite_database: Database) -> None:
    one = made(sqlite_database, ana)
    other = made(sqlite_database, lambda c: direct(c, one.account, "ana", due_ms=DUE_MS + 99 * DAY_MS))
    fired(sqlite_database, one, DUE_MS)

    sqlite_database.write_now(lambda c: reminders.forget_done(c, DUE_MS + 6 * DAY_MS))
    assert again(sqlite_database, one).text == "the tea"
    sqlite_database.write_now(lambda c: reminders.forget_done(c, DUE_MS + 8 * DAY_MS))

    assert sqlite_database.read_now(lambda c: reminders.find(c, one.id)) is None
    assert again(sqlite_database, other).state == "waiting"
    assert sqlite_database.read_now(lambda c: direct_stream(c, one.account))


def test_one_that_may_not_have_arrived_is_said_again_with_a_word(sqlite_database: Database) -> None:
    one = made(sqlite_database, lambda c: ana(c, language="zh"))
    fired(sqlite_database, one, DUE_MS)

    def doubt(connection: Connection) -> None:
        row = outbox.find(connection, f"r:{one.id}:{DUE_MS}", 0)
        assert row is not None
        report_doubt(connection, row)
        report_doubt(connection, row)

    sqlite_database.write_now(doubt)

    assert shown(sqlite_database)[1:] == [("chat of ana", "我的一条提醒可能没有送到，所以再发一次："), TEA]


def test_one_from_the_web_page_comes_to_the_chosen_home_as_well(sqlite_database: Database) -> None:
    def make(connection: Connection) -> int:
        web = add_person(connection, "ana", "web")
        owner = people.load_account(connection, AccountId(link_account(connection, "ana", "telegram")))
        homes.choose(connection, owner, SessionKey("telegram", "bot", "home of ana"))
        return direct(connection, web, "ana")

    fired(sqlite_database, made(sqlite_database, make), DUE_MS, house("web", "telegram"))

    assert shown(sqlite_database) == [("home of ana", "⏰ the tea"), TEA]


def test_one_made_before_two_people_were_joined_still_comes(sqlite_database: Database) -> None:
    def make(connection: Connection) -> int:
        number = ana(connection)
        add_person(connection, "kept")
        one, kept = reminders.find(connection, number), people.find_person(connection, "kept")
        assert one is not None
        assert kept is not None
        people.give_account(connection, one.account, kept.id, "link")
        links.add_alias(connection, Alias(PersonId("ana"), kept.id, "pairing", (), (), ()), 1)
        return number

    fired(sqlite_database, made(sqlite_database, make), DUE_MS)

    assert shown(sqlite_database) == [TEA]


def test_who_leaves_for_good_leaves_nothing_of_it_in_what_was_sent_to_rooms(
    sqlite_database: Database,
) -> None:
    one = made(sqlite_database, in_the_den)
    fired(sqlite_database, one, DUE_MS)

    sqlite_database.write_now(lambda c: reminders.erase(c, [one.account], ["bo"]))

    assert shown(sqlite_database) == []


def test_just_started_it_waits_for_the_chat_itself_however_late_it_is(sqlite_database: Database) -> None:
    one = made(sqlite_database, with_home_on_discord)
    stamp_ms = DUE_MS + DAY_MS
    just_started = replace(house("discord"), since_ms=stamp_ms - 1000)

    assert fired(sqlite_database, one, stamp_ms, just_started) is None
    assert fired(sqlite_database, one, stamp_ms + 130_000, just_started) is not None
