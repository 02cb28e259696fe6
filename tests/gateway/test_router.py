"""The router: stored once, the right thing asked for, strangers given a code and nothing else."""

import asyncio
import re
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from traceback import format_exception

import pytest
from sqlalchemy import Connection, insert, select

from tests.gateway.inbound import command, direct, in_room
from trunkline.adapters.base import Attachment, AttachmentKind, InboundKind, InboundMessage, ReplyTo, Sender
from trunkline.gateway import identity
from trunkline.gateway.clock import now_ms
from trunkline.gateway.payloads import BadPayload, load_inbound, load_outbound
from trunkline.gateway.router import NOTHING, Router, Stored, store
from trunkline.gateway.settings import parse_settings
from trunkline.gateway.state import people, sessions
from trunkline.gateway.state.database import BUSY_TIMEOUT_MS, Database
from trunkline.gateway.state.migrate import migrate_now
from trunkline.gateway.state.records import SessionKey
from trunkline.gateway.state.schema import inbox, outbox, usage

NOW = now_ms()
SETTINGS = parse_settings(
    {
        "people": {"ana": {"role": "owner", "telegram": 100}, "bo": {"telegram": 101}},
        "rooms": {"telegram/-900": {}, "telegram/-901": {"free": True, "bots": 555}},
        "access": {"welcome": False},
    }
)


async def take(database: Database, message: InboundMessage, at: int = NOW) -> Stored:
    def work(connection: Connection) -> Stored:
        identity.assert_config(connection, SETTINGS, NOW)
        return store(connection, message, SETTINGS, at)

    return await database.write(work)


async def planned(database: Database) -> list[str]:
    query = select(outbox.c.payload).order_by(outbox.c.id)
    rows = await database.read(lambda c: list(c.execute(query).scalars()))
    return [load_outbound(payload).chunk.text for payload in rows]


async def test_a_message_waits_in_the_inbox_and_wakes_its_session(database: Database) -> None:
    message = direct("hello")

    stored = await take(database, message)

    assert stored.wake == SessionKey("telegram", "bot", "100")
    row = await database.read(lambda c: c.execute(select(inbox)).one())
    assert row.state == "received"
    assert load_inbound(row.payload) == message


def test_a_stored_message_that_can_not_be_read_tells_the_log_none_of_its_words() -> None:
    stored = '{"platform": "telegram", "text": "a secret plan"}'

    with pytest.raises(BadPayload) as failed:
        load_inbound(stored)

    assert "secret plan" not in "".join(format_exception(failed.value))


async def test_the_same_message_twice_is_one_row_and_wakes_nobody(database: Database) -> None:
    message = direct("hello")
    await take(database, message)

    assert await take(database, message) == NOTHING
    assert len(await database.read(lambda c: c.execute(select(inbox)).all())) == 1


async def test_a_stranger_gets_a_code_and_leaves_no_words_behind(database: Database) -> None:
    stored = await take(database, direct("my secret plan", user="666"))

    assert stored == Stored(send_to=(("telegram", "666"),))
    (sentence,) = await planned(database)
    assert re.search(r"\b[A-Z2-9]{8}\b", sentence)
    row = await database.read(lambda c: c.execute(select(inbox)).one())
    assert (row.state, row.payload) == ("done", "")


async def test_a_stranger_who_writes_on_gets_no_second_answer(database: Database) -> None:
    for _ in range(10):
        await take(database, direct("hello?", user="666"))

    assert len(await planned(database)) == 1


async def test_calls_of_skills_count_as_messages_where_somebody_writes_too_fast(
    sqlite_database: Database,
) -> None:
    for _ in range(SETTINGS.access.messages_per_minute + 1):
        await take(sqlite_database, command("tea", "green"))

    *taken_up, last = await sqlite_database.read(
        lambda c: c.execute(select(inbox.c.not_before_ms).order_by(inbox.c.id)).scalars().all()
    )
    assert set(taken_up) == {0}
    assert last > NOW


async def test_an_approved_stranger_is_a_person_with_their_own_account(database: Database) -> None:
    await take(database, direct("hello", user="666", name="Zoë"))
    (sentence,) = await planned(database)
    found = re.search(r"\b[A-Z2-9]{8}\b", sentence)
    assert found is not None

    approved = await database.write(lambda c: identity.approve(c, found[0], NOW, typed_by=None))

    assert isinstance(approved, identity.Approved)
    assert approved.person.slug == "zoe"
    stored = await take(database, direct("hello again", user="666"))
    assert stored.wake == SessionKey("telegram", "bot", "666")


async def test_the_owner_claims_an_account_with_the_code_printed_at_start(database: Database) -> None:
    bare = parse_settings({})

    def start(connection: Connection) -> str | None:
        identity.assert_config(connection, bare, NOW)
        return identity.issue_setup_code(connection, ["telegram", "web"], NOW)

    code = await database.write(start)
    assert code is not None
    await database.write(lambda c: store(c, direct(code, user="42"), bare, NOW))

    claimed = await database.read(lambda c: people.find_account(c, "telegram", "", "42"))
    assert claimed is not None
    assert claimed.person is not None
    assert claimed.person.role == "owner"
    assert await database.write(lambda c: identity.issue_setup_code(c, ["telegram", "web"], NOW)) is None


async def test_control_commands_run_at_once_and_others_wait_their_turn(database: Database) -> None:
    stop = await take(database, command("stop"))
    new = await take(database, command("new"))

    assert stop.control is not None
    assert stop.wake is None
    assert new.wake == SessionKey("telegram", "bot", "100")


async def test_room_talk_that_is_not_for_us_is_not_kept(database: Database) -> None:
    assert await take(database, in_room("lunch?", user="555", mention=False)) == NOTHING
    assert await database.read(lambda c: c.execute(select(inbox)).all()) == []


async def test_the_rest_of_a_cut_text_and_of_an_album_is_for_us_like_its_beginning(
    database: Database,
) -> None:
    """TG-12.1 and TG-17 in a room, where a client puts our name into the first part alone."""
    text, photo = in_room("a" * 4096), replace(in_room("look"), album="7", thread="5")
    rest = in_room("and that is all", mention=False)
    other_photo = replace(in_room("", mention=False), album="7", thread="5")
    await take(database, text)
    await take(database, photo)

    late = await take(database, replace(rest, message_id="late"), NOW + 60_000)
    of_another = await take(database, replace(rest, sender=Sender("555", "Zoe"), message_id="zoe"), NOW + 900)
    alone = await take(database, replace(other_photo, album="8", message_id="alone"), NOW + 900)
    assert (late, of_another, alone) == (NOTHING, NOTHING, NOTHING)
    assert (await take(database, rest, NOW + 900)).wake == SessionKey("telegram", "bot", "-900")
    assert (await take(database, other_photo, NOW + 9_000)).wake == SessionKey("telegram", "bot", "-900", "5")


async def test_a_group_that_moved_keeps_what_the_file_says_of_it_over_a_start(database: Database) -> None:
    """TG-15: the file goes on to name the old id, and somebody wrote under the new one before the news."""
    said = in_room("hello", room="-100901", mention=False)
    early = await take(database, said)
    moved = replace(said, kind=InboundKind.MEMBERSHIP, text="moved", moved_from="-901", message_id="moved")
    await take(database, moved)

    first = await take(database, replace(said, message_id="first"))
    again = await take(database, replace(said, message_id="again"))  # a start before each

    assert early == NOTHING
    assert first.wake == again.wake == SessionKey("telegram", "bot", "-100901")
    rooms = await database.read(lambda c: people.rooms_from(c, "config"))
    assert {room.chat for room in rooms} == {"-900", "-100901"}


async def test_a_bot_that_answers_every_answer_is_not_answered_for_ever(database: Database) -> None:
    bot = Sender("555", "Alerts", is_bot=True, is_person=False)

    async def says(at: int) -> bool:
        said = replace(in_room("and again", room="-901", mention=False), sender=bot)
        return (await take(database, said, at)).wake is not None

    assert [await says(NOW + number) for number in range(12)] == [True] * 10 + [False] * 2
    assert await says(NOW + 600_100)


async def test_a_thread_it_takes_part_in_needs_no_mention(database: Database) -> None:
    opening = replace(in_room("hello", user="555"), thread="77")
    stored = await take(database, opening)
    assert stored.wake is not None
    key = stored.wake

    def begin(connection: Connection) -> None:
        account = people.find_account(connection, "telegram", "", "555")
        room = people.find_room(connection, "telegram", "", "-900")
        assert account is not None
        assert room is not None
        stream = people.stream_of(connection, account_id=account.id, room_id=room.id)
        sessions.start(connection, key, stream, prompt="p", snapshot="", model="m", now_ms=NOW)

    await database.write(begin)
    followed = await take(database, replace(in_room("and more", user="556", mention=False), thread="77"))
    aside = replace(in_room("@Zoe, what do you think?", user="556", mention=False), thread="77")

    assert followed.wake == key
    assert (await take(database, replace(aside, mentions_others=True))).wake is None


async def test_an_edit_of_a_message_that_waits_changes_it(database: Database) -> None:
    message = direct("meet at nine")
    await take(database, message)
    edit = replace(
        message, kind=InboundKind.EDIT, text="meet at ten", version=5, edited_of=message.message_id
    )

    assert await take(database, edit) == NOTHING

    row = await database.read(lambda c: c.execute(select(inbox)).one())
    assert load_inbound(row.payload).text == "meet at ten"


async def test_a_closed_room_is_silent_and_its_owner_is_told_once(database: Database) -> None:
    await take(database, direct("hello"))

    def begin(connection: Connection) -> None:
        account = people.find_account(connection, "telegram", "", "100")
        assert account is not None
        assert account.person is not None
        people.change_person(connection, account.person.id, language="zh-CN")
        stream = people.stream_of(connection, account_id=account.id, room_id=None)
        key = SessionKey("telegram", "bot", "100")
        sessions.start(connection, key, stream, prompt="p", snapshot="", model="m", now_ms=NOW)

    await database.write(begin)
    first = await take(database, in_room("hi bot", user="777", room="-999"))
    second = await take(database, in_room("hi bot", user="778", room="-999"))

    assert first == Stored(send_to=(("telegram", "100"),))
    assert second == NOTHING
    (told,) = await planned(database)
    assert told.startswith("我被拉进了 Telegram 上的“The house”")


async def test_the_owner_opens_a_room_from_inside_it_and_nobody_else_can(database: Database) -> None:
    allow = replace(
        in_room("here", room="-999"), kind=InboundKind.COMMAND, command="allow", mentions_me=False
    )
    by_bo = replace(allow, sender=Sender("101", "Bo"), message_id="b")

    assert (await take(database, by_bo)).wake is None
    assert (await take(database, allow)).wake == SessionKey("telegram", "bot", "-999")


async def test_a_backlog_that_is_too_old_is_answered_with_one_sentence_and_kept(database: Database) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=2)
    for text in ("an old note", "another"):
        stored = await take(database, replace(direct(text), sent_at=long_ago))
        assert stored.wake is None

    (sentence,) = await planned(database)
    assert "too long ago" in sentence
    rows = await database.read(lambda c: c.execute(select(inbox).order_by(inbox.c.id)).all())
    assert [(row.state, row.reason, load_inbound(row.payload).text) for row in rows] == [
        ("done", "too old", "an old note"),
        ("done", "too old", "another"),
    ]


async def test_a_control_command_for_the_process_before_is_not_run(database: Database) -> None:
    early = replace(command("stop"), sent_at=datetime.now(UTC) - timedelta(minutes=1))

    assert await database.write(lambda c: _store_at(c, early, started_ms=now_ms())) == NOTHING
    assert await planned(database) == []


async def test_a_control_command_is_run_although_the_platforms_clock_is_a_little_behind(
    database: Database,
) -> None:
    just_now = replace(command("stop"), sent_at=datetime.now(UTC) - timedelta(seconds=2))

    assert (await database.write(lambda c: _store_at(c, just_now, started_ms=now_ms()))).control is not None


def _store_at(connection: Connection, message: InboundMessage, *, started_ms: int) -> Stored:
    identity.assert_config(connection, SETTINGS, NOW)
    return store(connection, message, SETTINGS, now_ms(), started_ms)


async def test_an_unknown_command_in_a_room_is_another_bots_unless_we_are_named(database: Database) -> None:
    other = replace(in_room("Berlin", mention=False), kind=InboundKind.COMMAND, command="weather")
    ours = replace(in_room("Berlin"), kind=InboundKind.COMMAND, command="weather")

    assert await take(database, other) == NOTHING
    assert (await take(database, ours)).wake is not None


async def test_an_owner_who_could_not_be_told_of_a_closed_room_is_told_later(database: Database) -> None:
    assert await take(database, in_room("hi bot", user="777", room="-999")) == NOTHING

    def begin(connection: Connection) -> None:
        account = people.find_account(connection, "telegram", "", "100")
        assert account is not None
        stream = people.stream_of(connection, account_id=account.id, room_id=None)
        key = SessionKey("telegram", "bot", "100")
        sessions.start(connection, key, stream, prompt="p", snapshot="", model="m", now_ms=NOW)

    await database.write(begin)

    assert await take(database, in_room("hi bot", user="777", room="-999")) == Stored(
        send_to=(("telegram", "100"),)
    )


async def test_a_database_locked_by_another_process_keeps_no_message_out(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    woken: list[SessionKey] = []
    with Database.sqlite(path) as database:
        migrate_now(database)
        await database.write(lambda c: identity.assert_config(c, SETTINGS, NOW))
        router = Router(
            database, SETTINGS, wake=woken.append, control=lambda _: None, kick=lambda _, __: None
        )
        foreign = sqlite3.connect(path)
        foreign.execute("BEGIN IMMEDIATE")
        async with asyncio.TaskGroup() as group:
            group.create_task(router.accept(direct("hello")))
            await asyncio.sleep(BUSY_TIMEOUT_MS / 1000 + 1)
            foreign.rollback()
        foreign.close()

    assert woken == [SessionKey("telegram", "bot", "100")]


@pytest.mark.parametrize(("language", "told"), [("de", "You're in"), ("zh-hans", "你已经通过了")])
async def test_an_approved_stranger_is_told_where_and_as_they_wrote(
    database: Database, language: str, told: str
) -> None:
    await take(database, replace(direct("hello", user="666"), language=language))
    (sentence,) = await planned(database)
    found = re.search(r"\b[A-Z2-9]{8}\b", sentence)
    assert found is not None

    await database.write(lambda c: identity.approve(c, found[0], NOW, typed_by=None))

    assert told in (await planned(database))[-1]


async def test_a_guest_who_has_used_up_the_day_is_told_so_once_and_starts_no_turn(database: Database) -> None:
    open_house = parse_settings({"access": {"unknown": "open", "guest_daily_tokens": 1000, "welcome": False}})
    first = await database.write(lambda c: store(c, direct("hi", user="666"), open_house, NOW))
    assert first.wake is not None
    guest = await database.read(lambda c: people.find_account(c, "telegram", "", "666"))
    assert guest is not None
    spent = {"account_id": guest.id, "purpose": "turn", "prompt_tokens": 990, "completion_tokens": 20}
    await database.write(lambda c: c.execute(insert(usage).values(created_ms=NOW, **spent)))

    again = [
        await database.write(lambda c: store(c, direct("more", user="666"), open_house, NOW))
        for _ in range(3)
    ]
    tomorrow = NOW + 86_400_000
    fresh = replace(direct("hi", user="666"), sent_at=datetime.fromtimestamp(tomorrow / 1000, UTC))
    later = await database.write(lambda c: store(c, fresh, open_house, tomorrow))

    assert [one.wake for one in again] == [None, None, None]
    assert len(await planned(database)) == 1
    assert later.wake is not None


async def test_half_a_character_in_what_people_wrote_or_named_stops_nothing(database: Database) -> None:
    broken = "x\ud800y\x00"
    message = replace(
        direct(broken, name=broken),
        chat_title=broken,
        attachments=(Attachment(AttachmentKind.DOCUMENT, "1", name=broken),),
        reply_to=ReplyTo("1", text=broken),
    )
    await database.write(lambda c: identity.assert_config(c, SETTINGS, NOW))
    woken: list[SessionKey] = []
    router = Router(
        database, SETTINGS, wake=woken.append, control=lambda row: None, kick=lambda platform, chat: None
    )

    await router.accept(message)

    assert woken == [SessionKey("telegram", "bot", "100")]
    row = await database.read(lambda c: c.execute(select(inbox)).one())
    kept = load_inbound(row.payload)
    assert kept.text == kept.sender.label == kept.attachments[0].name == "x\ufffdy\ufffd"
