"""What the web page lists and shows: its own person's conversations on the page, and nobody else's."""

from pathlib import Path

from sqlalchemy import Connection, func, select, update

from tests.gateway.rows import MINUTE_MS, START_MS, add_session, direct_stream, say
from trunkline.adapters.base import ChatRef, Chunk, OutboundMessage
from trunkline.gateway.clock import now_ms
from trunkline.gateway.identity import assert_config, local_account
from trunkline.gateway.payloads import dump_outbound
from trunkline.gateway.settings import parse_settings
from trunkline.gateway.state import outbox, people
from trunkline.gateway.state.conversations import LISTED, StoreConversations
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.schema import message, session
from trunkline.gateway.state.schema import outbox as outbox_table

SETTINGS = parse_settings({"people": {"ana": {"role": "owner", "telegram": 100}, "bo": {"telegram": 101}}})


def page_of(connection: Connection, person: str) -> int:
    """The stream of a person's conversations on the page."""
    assert_config(connection, SETTINGS, now_ms())
    account = local_account(connection, "web", person, now_ms())
    assert account is not None
    people.stream_of(connection, account_id=account.id, room_id=None)
    return direct_stream(connection, account.id)


def talk(connection: Connection, person: str, thread: str, *texts: str, **values: object) -> int:
    name = f"{person}-{thread}-{values.get('last_ms', 0)}"
    row = {"platform": "web", "tenant": "local", "chat": person, "thread": thread, "ended_ms": 1, **values}
    session_id = add_session(connection, page_of(connection, person), name, **row)
    say(connection, session_id, *texts)
    return session_id


async def test_conversations_are_listed_newest_first_each_once_under_its_title_or_first_words(
    database: Database,
) -> None:
    def work(connection: Connection) -> None:
        talk(connection, "ana", "a", "an old question", last_ms=START_MS)
        talk(connection, "ana", "a", "a new question", last_ms=START_MS + 50 * MINUTE_MS)
        talk(connection, "ana", "b", "something else", last_ms=START_MS + 20 * MINUTE_MS, title="The boiler")

    await database.write(work)
    listed = await StoreConversations(database).list("ana")

    assert [(one.thread, one.title) for one in listed] == [("a", "a new question"), ("b", "The boiler")]


async def test_a_conversation_begun_anew_many_times_hides_no_other(database: Database) -> None:
    def work(connection: Connection) -> None:
        talk(connection, "ana", "other", "the other one", last_ms=START_MS)
        for number in range(LISTED + 5):
            talk(connection, "ana", "same", "again", last_ms=START_MS + (number + 9) * MINUTE_MS)

    await database.write(work)

    assert [one.thread for one in await StoreConversations(database).list("ana")] == ["same", "other"]


async def test_nobody_elses_conversation_is_listed_or_shown(database: Database) -> None:
    def work(connection: Connection) -> None:
        page_of(connection, "ana")
        talk(connection, "bo", "secret", "Bo's plan")

    await database.write(work)
    shown = StoreConversations(database)

    assert await shown.list("ana") == ()
    assert await shown.history("ana", "secret") == ()
    assert [said.text for said in await shown.history("bo", "secret")] == ["Bo's plan"]


async def test_what_was_said_in_private_is_neither_listed_nor_shown(database: Database) -> None:
    await database.write(lambda c: talk(c, "ana", "a", "between us", private=True))
    shown = StoreConversations(database)

    assert await shown.list("ana") == ()
    assert await shown.history("ana", "a") == ()


async def test_history_is_what_both_said_in_order_without_what_was_taken_back(database: Database) -> None:
    def work(connection: Connection) -> None:
        session_id = talk(connection, "ana", "a", "one", "gone")
        say(connection, session_id, "two", role="assistant")
        say(connection, session_id, "tool output", role="tool")
        connection.execute(update(message).where(message.c.content == "gone").values(state="undone"))
        connection.execute(update(session).values(title=""))

    await database.write(work)
    said = await StoreConversations(database).history("ana", "a")

    assert [(one.by_person, one.text) for one in said] == [(True, "one"), (False, "two")]


async def test_what_was_told_beside_the_talk_is_there_too_until_the_conversation_is_deleted(
    database: Database,
) -> None:
    """A reply to a command stands in no transcript, and a page must not lose it with its process."""

    def work(connection: Connection) -> None:
        session_id = talk(connection, "ana", "a", "one")
        say(connection, session_id, "three", role="assistant", at_ms=START_MS + 2 * MINUTE_MS)
        start = START_MS + 5 * MINUTE_MS
        ended = start + MINUTE_MS
        talk(connection, "ana", "a", private=True, started_ms=start, ended_ms=ended, last_ms=ended)
        for minute, text in ((1, "two"), (5, "between us"), (7, "four")):
            tell(connection, "ana", "a", text, START_MS + minute * MINUTE_MS)
        tell(connection, "ana", "b", "elsewhere", START_MS)
        tell(connection, "bo", "a", "Bo's", START_MS)
        tell(connection, "ana", "a", "of a later version", START_MS)
        newest = select(func.max(outbox_table.c.id)).scalar_subquery()
        connection.execute(update(outbox_table).where(outbox_table.c.id == newest).values(payload="{}"))

    await database.write(work)
    page = StoreConversations(database)

    said = await page.history("ana", "a")
    assert [(one.by_person, one.text, one.id) for one in said] == [
        (True, "one", ""),
        (False, "two", "n-two"),
        (False, "three", ""),
        (False, "four", "n-four"),
    ]
    await page.delete("ana", "a")
    assert await page.history("ana", "a") == ()
    assert [one.text for one in await page.history("ana", "b")] == ["elsewhere"]
    assert [one.text for one in await page.history("bo", "a")] == ["Bo's"]


def tell(connection: Connection, person: str, thread: str, text: str, at_ms: int) -> None:
    """A reply to a command, as it stands in the outbox when it was sent."""
    where = outbox.Plan(f"i:{person}{thread}{text}", "web", "local", person, thread)
    payload = dump_outbound(OutboundMessage(ChatRef(person, thread), Chunk(text)))
    outbox.plan(connection, where, [payload], at_ms)
    row = outbox.find(connection, where.source, 0)
    assert row is not None
    outbox.mark_sent(connection, row.id, f"n-{text}", payload, at_ms)


def traces(folder: Path, word: bytes) -> list[str]:
    return [file.name for file in folder.glob("state.db*") if word in file.read_bytes()]


async def test_a_conversation_is_renamed_for_its_own_person_only(sqlite_database: Database) -> None:
    def work(connection: Connection) -> None:
        talk(connection, "ana", "a", "an old question", last_ms=START_MS)

    await sqlite_database.write(work)
    page = StoreConversations(sqlite_database, lambda title: title.replace("s3cret", "***"))

    assert not await page.rename("bo", "a", "Mine now")
    assert not await page.rename("ana", "b", "Nothing there")
    assert await page.rename("ana", "a", "The s3cret boiler")

    assert [one.title for one in await page.list("ana")] == ["The *** boiler"]


async def test_a_deleted_conversation_leaves_no_trace_and_others_stay(
    sqlite_database: Database, tmp_path: Path
) -> None:
    def work(connection: Connection) -> None:
        talk(connection, "ana", "a", "the zanzibar plan", last_ms=START_MS)
        talk(connection, "ana", "a", "the zanzibar plan again", last_ms=START_MS + MINUTE_MS)
        talk(connection, "ana", "b", "something else", last_ms=START_MS)

    await sqlite_database.write(work)
    page = StoreConversations(sqlite_database)

    await page.delete("bo", "a")
    assert len(await page.list("ana")) == 2
    await page.delete("ana", "a")

    assert [one.thread for one in await page.list("ana")] == ["b"]
    assert await page.history("ana", "a") == ()
    assert not traces(tmp_path, b"zanzibar")
