"""Making, listing and cancelling reminders: who sees which, who may end which, and the bounds."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from zipfile import ZipFile
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import Connection, select, update

from tests.gateway.reminder_rows import DAY_MS, DUE_MS, ana, direct, in_room
from tests.gateway.rows import add_person, add_session, direct_stream, link_account, person_scope, room_scope
from trunkline.agent.memory.entries import MemoryLimits
from trunkline.agent.memory.store import FileMemoryStore
from trunkline.agent.scope import AccountId, Scope
from trunkline.agent.tools.base import ToolContext
from trunkline.agent.tools.remind import ReminderRefused, Wish
from trunkline.gateway.exporting import export_person
from trunkline.gateway.reminder_desk import MOST_WAITING, StoreReminderDesk
from trunkline.gateway.state import erasure, homes, people, reminders, sessions, turns
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.journal import StoreJournal
from trunkline.gateway.state.records import SessionKey
from trunkline.gateway.state.schema import account, home, person, reminder, session

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 30, 16, 4, tzinfo=BERLIN)


def desk(database: Database) -> StoreReminderDesk:
    return StoreReminderDesk(database, lambda text: text.replace("sk-secret", "[secret]"))


def talk(
    database: Database, scope: Scope, account_id: int, stream_id: int, **session_values: object
) -> ToolContext:
    """A turn of that account's in a session of that stream."""

    def work(connection: Connection) -> ToolContext:
        opened = add_session(connection, stream_id, f"s{account_id}", **session_values)
        row = turns.begin(connection, opened, stream_id, AccountId(account_id), "p", 1)
        return ToolContext(scope, f"s{account_id}", row.key.turn, 1, "call", "telegram", NOW)

    return database.write_now(work)


def anas_talk(database: Database, **values: object) -> ToolContext:
    def work(connection: Connection) -> tuple[int, int]:
        account_id = add_person(connection, "ana")
        return account_id, direct_stream(connection, account_id)

    return talk(database, person_scope("ana"), *database.write_now(work), **values)


def waiting(database: Database) -> list[tuple[str, str, str]]:
    query = select(reminder).where(reminder.c.state == "waiting").order_by(reminder.c.id)
    rows = database.read_now(lambda c: c.execute(query).all())
    return [
        (row.content, row.cron, f"{datetime.fromtimestamp(row.due_ms / 1000, BERLIN):%Y-%m-%d %H:%M}")
        for row in rows
    ]


@pytest.mark.parametrize(
    ("wish", "cron", "due", "told"),
    [
        (Wish("tea", False, at="2026-12-01T09:00"), "", "2026-12-01 09:00", "tomorrow, 1 December at 09:00"),
        (Wish("tea", False, at="2026-12-01 09:00:00"), "", "2026-12-01 09:00", "at 09:00 (Europe/Berlin)"),
        (Wish("tea", False, at="2026-12-01T09:00+00:00"), "", "2026-12-01 10:00", "at 10:00"),
        (
            Wish("tea", False, at="2026-12-01T09:00", timezone="Asia/Tokyo"),
            "",
            "2026-12-01 01:00",
            "at 09:00 (Asia/Tokyo)",
        ),
        (Wish("tea", False, after="1h30m"), "", "2026-11-30 17:34", "today, 30 November at 17:34"),
        (
            Wish("tea", False, every="0 8 * * 1-5"),
            "0 8 * * 1-5",
            "2026-12-01 08:00",
            "every weekday at 08:00",
        ),
        (
            Wish("tea", False, at="2027-03-28T02:30"),
            "",
            "2027-03-28 03:30",
            "clocks are put forward, so it is 03:30",
        ),
    ],
)
async def test_a_wish_becomes_a_reminder_at_the_time_that_is_told(
    sqlite_database: Database, wish: Wish, cron: str, due: str, told: str
) -> None:
    context = anas_talk(sqlite_database)

    said = await desk(sqlite_database).create(context, wish)

    assert told in said
    assert waiting(sqlite_database) == [("tea", cron, due)]


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        (Wish("tea", False, at="2026-11-30T16:00"), "over already"),
        (Wish("tea", False, at="tomorrow at nine"), "Write `at` as a local date and time"),
        (Wish("tea", False, at="2026-12-01"), "Write `at` as a local date and time"),
        (Wish("tea", False, after="soon"), "Write `after` as a length of time"),
        (Wish("tea", False, after="0s"), "over already"),
        (Wish("tea", False, after="99999w"), "too far away"),
        (Wish("tea", False, every="*/5 * * * *"), "at most every 15 minutes"),
        (Wish("tea", False, every="at nine"), "five fields"),
        (Wish("tea", False, after="5m", timezone="Berlin"), "don't know that time zone"),
    ],
)
async def test_what_can_not_be_is_refused_in_a_sentence(
    sqlite_database: Database, wish: Wish, why: str
) -> None:
    with pytest.raises(ReminderRefused, match=why):
        await desk(sqlite_database).create(anas_talk(sqlite_database), wish)
    assert waiting(sqlite_database) == []


async def test_a_call_repeated_after_a_crash_makes_nothing_twice(database: Database) -> None:
    context = anas_talk(database)

    first = await desk(database).create(context, Wish("tea", False, after="5m"))
    again = await desk(database).create(context, Wish("tea", False, after="5m"))
    await desk(database).create(replace(context, call="other"), Wish("tea", False, after="5m"))

    assert first == again
    assert len(waiting(database)) == 2


async def test_secrets_are_not_kept(sqlite_database: Database) -> None:
    await desk(sqlite_database).create(anas_talk(sqlite_database), Wish("use sk-secret", False, after="5m"))

    assert waiting(sqlite_database)[0][0] == "use [secret]"


async def test_nobody_has_more_than_fifty_waiting_on_all_platforms_together(
    sqlite_database: Database,
) -> None:
    context = anas_talk(sqlite_database)

    def fill(connection: Connection) -> None:
        other = link_account(connection, "ana", "discord")
        for _ in range(MOST_WAITING):
            direct(connection, other, "ana")

    sqlite_database.write_now(fill)
    with pytest.raises(ReminderRefused, match="50 reminders of yours waiting"):
        await desk(sqlite_database).create(context, Wish("tea", False, after="5m"))


@pytest.mark.parametrize(
    ("values", "why"),
    [({"private": True}, "private"), ({"origin": "scheduled"}, "itself started by a schedule")],
)
async def test_private_talks_and_scheduled_runs_make_none(
    sqlite_database: Database, values: dict[str, object], why: str
) -> None:
    with pytest.raises(ReminderRefused, match=why):
        await desk(sqlite_database).create(
            anas_talk(sqlite_database, **values), Wish("tea", False, after="5m")
        )


async def test_runs_are_for_members(sqlite_database: Database) -> None:
    context = anas_talk(sqlite_database)
    sqlite_database.write_now(lambda c: c.execute(update(person).values(role="guest")))

    with pytest.raises(ReminderRefused, match="for members"):
        await desk(sqlite_database).create(context, Wish("sum up", True, after="5m"))


async def test_each_place_lists_its_own(database: Database) -> None:
    def fill(connection: Connection) -> tuple[int, int]:
        ana(connection, text="of ana")
        bo = add_person(connection, "bo")
        direct(connection, bo, "bo", text="of bo")
        in_room(connection, "den", bo, "bo", text="of the den", due_ms=DUE_MS + DAY_MS)
        return bo, link_account(connection, "ana", "discord")

    bo, ana_discord = database.write_now(fill)
    context = ToolContext(person_scope("ana"), "s", 1, 1, "call", "discord", NOW)
    listed = desk(database).listed

    assert "of ana" in (mine := await listed(context))
    assert "bo" not in mine
    assert "den" not in mine
    theirs = await listed(replace(context, scope=person_scope("bo")))
    assert "of bo" in theirs
    assert theirs.index("of bo") < theirs.index("of the den (in telegram)")
    in_den = await listed(replace(context, scope=room_scope("den", ana_discord)))
    assert "of the den (by bo)" in in_den
    assert "of bo" not in in_den
    assert bo


async def test_an_account_that_changed_hands_shows_nothing_of_before(sqlite_database: Database) -> None:
    def hand_over(connection: Connection) -> None:
        number = ana(connection)
        add_person(connection, "bo")
        one, bo = reminders.find(connection, number), people.find_person(connection, "bo")
        assert one is not None
        assert bo is not None
        people.give_account(connection, one.account, bo.id, "")

    sqlite_database.write_now(hand_over)
    context = ToolContext(person_scope("bo"), "s", 1, 1, "call", "telegram", NOW)

    assert await desk(sqlite_database).listed(context) == ""
    with pytest.raises(ReminderRefused, match="no reminder 1"):
        await desk(sqlite_database).cancel(context, 1)


@pytest.mark.parametrize(
    ("asker", "role", "may"),
    [("bo", "member", True), ("ana", "member", False), ("ana", "admin", True), ("ana", "owner", True)],
)
async def test_in_a_room_its_maker_and_admins_cancel(
    sqlite_database: Database, asker: str, role: str, may: bool
) -> None:
    def fill(connection: Connection) -> tuple[int, int, int]:
        bo, other = add_person(connection, "bo"), add_person(connection, "ana")
        connection.execute(update(person).where(person.c.slug == "ana").values(role=role))
        number = in_room(connection, "den", bo, "bo")
        one = connection.execute(select(reminder.c.stream_id)).scalar_one()
        return number, bo if asker == "bo" else other, one

    number, account_id, stream_id = sqlite_database.write_now(fill)
    context = talk(sqlite_database, room_scope("den", account_id), account_id, stream_id)

    if may:
        assert await desk(sqlite_database).cancel(context, number) == f"Cancelled reminder {number}: the tea"
        assert waiting(sqlite_database) == []
    else:
        with pytest.raises(ReminderRefused, match="Only the one who made it"):
            await desk(sqlite_database).cancel(context, number)
        assert len(waiting(sqlite_database)) == 1


async def test_one_of_somebody_else_reads_like_none_even_to_the_owner(sqlite_database: Database) -> None:
    def fill(connection: Connection) -> int:
        owner = add_person(connection, "bo")
        connection.execute(update(person).where(person.c.slug == "bo").values(role="owner"))
        ana(connection)
        return owner

    owner = sqlite_database.write_now(fill)
    stream_id = sqlite_database.read_now(lambda c: direct_stream(c, owner))
    context = talk(sqlite_database, person_scope("bo"), owner, stream_id)

    with pytest.raises(ReminderRefused) as real:
        await desk(sqlite_database).cancel(context, 1)
    with pytest.raises(ReminderRefused) as made_up:
        await desk(sqlite_database).cancel(context, 2)
    assert str(real.value).replace("1", "2") == str(made_up.value)


def test_who_leaves_for_good_leaves_no_reminder_and_no_home(database: Database) -> None:
    def leave(connection: Connection) -> None:
        ana(connection)
        bo = add_person(connection, "bo")
        direct(connection, bo, "bo")
        owner = people.load_account(connection, AccountId(bo))
        homes.choose(connection, owner, SessionKey("telegram", "bot", "1"))
        assert owner.person is not None
        erasure.erase(connection, owner.person, (), None, keeps_entry=False)

    database.write_now(leave)

    assert len(waiting(database)) == 1
    assert database.read_now(lambda c: c.execute(select(home)).all()) == []


def test_the_home_is_the_chosen_chat_as_long_as_its_account_is_theirs(database: Database) -> None:
    last, chosen = SessionKey("telegram", "bot", "last"), SessionKey("telegram", "bot", "chosen")

    def work(connection: Connection) -> list[SessionKey | None]:
        account_id = add_person(connection, "ana")
        owner = people.load_account(connection, AccountId(account_id))
        assert owner.person is not None
        sessions.start(
            connection,
            last,
            direct_stream(connection, account_id),
            prompt="",
            snapshot="",
            model="",
            now_ms=1,
        )
        found = [sessions.home_of(connection, owner.person.id)]
        homes.choose(connection, owner, SessionKey("telegram", "bot", "first"))
        homes.choose(connection, owner, chosen)
        found.append(sessions.home_of(connection, owner.person.id))
        connection.execute(update(account).values(person_id=None))
        found.append(homes.chosen(connection, owner.person.id))
        connection.execute(update(account).values(person_id=owner.person.id))
        assert homes.forget(connection, owner.person.id)
        found.append(sessions.home_of(connection, owner.person.id))
        return found

    assert database.write_now(work) == [last, chosen, None, last]
    assert database.read_now(lambda c: c.execute(select(session.c.chat)).scalar_one()) == "last"


async def test_a_copy_of_ones_own_has_what_waits_and_what_came_and_nobody_elses(
    tmp_path: Path, sqlite_database: Database
) -> None:
    def fill(connection: Connection) -> None:
        number = ana(connection, text="the tea")
        one = reminders.find(connection, number)
        assert one is not None
        reminders.move_on(connection, one, None, DUE_MS)
        direct(connection, one.account, "ana", text="the milk", cron="0 8 * * *")
        direct(connection, add_person(connection, "bo"), "bo", text="of bo")

    sqlite_database.write_now(fill)
    memory = FileMemoryStore(tmp_path, MemoryLimits(), StoreJournal(sqlite_database))
    await export_person(sqlite_database, memory, (), person_scope("ana"), tmp_path / "ana.zip", None)

    with ZipFile(tmp_path / "ana.zip") as archive:
        kept = json.loads(archive.read("reminders.json"))
    assert [(one["text"], one["rule"], one["state"]) for one in kept] == [
        ("the tea", "", "done"),
        ("the milk", "0 8 * * *", "waiting"),
    ]
    assert kept[0]["due"] == datetime.fromtimestamp(DUE_MS / 1000, UTC).isoformat()
