"""After down time: what people wrote meanwhile is read back, once, and before anything newer of its chat."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest
from sqlalchemy import Connection

from tests.adapters.telegram_house import adapter_for as telegram_adapter
from tests.emulators.discord import DiscordEmulator
from tests.emulators.slack import BOT_USER, SlackEmulator
from tests.emulators.slack_bench import Inbox, adapter_for, emulated
from tests.emulators.telegram import TelegramEmulator
from tests.gateway.inbound import direct
from trunkline.adapters.base import Adapter, ChatRef, InboundMessage
from trunkline.adapters.discord import DiscordAdapter
from trunkline.gateway.clock import now_ms
from trunkline.gateway.read_back import CatchUp
from trunkline.gateway.state import inbox, people
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.inbox import Arrival
from trunkline.gateway.state.records import SessionKey

BOARD = "C1"


@pytest.fixture
async def slack() -> AsyncIterator[SlackEmulator]:
    """Slack that repeats nothing: what is written while nobody is connected is told to nobody."""
    async with emulated() as emulator:
        emulator.socket.waits_for_socket = False
        emulator.socket.retries = 0
        yield emulator


@pytest.fixture
async def discord() -> AsyncIterator[DiscordEmulator]:
    async with DiscordEmulator().running() as emulator:
        yield emulator
        assert emulator.violations == []


@asynccontextmanager
async def listening(database: Database, adapter: Adapter) -> AsyncIterator[Inbox]:
    """The adapter at work, its messages taken after what was missed."""
    taken = Inbox()
    async with asyncio.TaskGroup() as group:
        catch_up = CatchUp(database, taken.deliver, group)
        task = group.create_task(
            adapter.run(catch_up.take, lambda tenant: catch_up.connected(adapter, tenant))
        )
        try:
            yield taken
        finally:
            catch_up.lost()
            task.cancel()


def discord_adapter(discord: DiscordEmulator) -> DiscordAdapter:
    return DiscordAdapter(discord.token, connector=discord.connector)


async def know(
    database: Database, platform: str, tenant: str, chat: str, message: str, thread: str = ""
) -> None:
    await database.write(
        lambda c: put(c, SessionKey(platform, tenant, chat, thread), f"m:{chat}:{message}:0")
    )


def put(connection: Connection, key: SessionKey, name: str, received_ms: int | None = None) -> int:
    account = people.ensure_account(connection, key.platform, "", "1", label="Ana", now_ms=0)
    arrival = Arrival(key, name, account.id, "message", "{}", 0, state="done")
    return inbox.store(connection, arrival, received_ms or now_ms())


async def test_on_slack_what_was_missed_is_taken_once_and_in_order(
    sqlite_database: Database, slack: SlackEmulator
) -> None:
    known = await slack.direct_message("U1", "known")
    await slack.direct_message("U1", "missed")
    await slack.direct_message("U1", "missed, too")
    await know(sqlite_database, "slack", BOT_USER, "D1", known)

    async with listening(sqlite_database, adapter_for(slack)) as taken:
        await slack.wait_for(lambda: slack.socket.sockets)
        await slack.direct_message("U1", "new")
        await slack.wait_for(lambda: slack.socket.deliveries[-1].acked.is_set())

    # What came in both ways has one key, by which the router knows it.
    assert [message.text for message in taken.messages][:3] == ["missed", "missed, too", "new"]
    assert len(taken.keys) == 3


async def test_on_discord_what_was_missed_is_taken_before_what_is_new(
    sqlite_database: Database, discord: DiscordEmulator
) -> None:
    known = await discord.direct_message("2001", "known")
    await discord.direct_message("2001", "missed")
    await know(sqlite_database, "discord", discord.bot_id, discord.direct_chat("2001"), known)

    async with listening(sqlite_database, discord_adapter(discord)) as taken:
        await discord.connected()
        await discord.direct_message("2001", "new")
        async with asyncio.timeout(60):
            while len(taken.keys) < 2:
                await taken.holding(len(taken.messages) + 1)

    assert [message.text for message in taken.messages][:2] == ["missed", "new"]


async def test_a_thread_that_was_opened_meanwhile_is_read_with_its_replies(
    sqlite_database: Database, slack: SlackEmulator
) -> None:
    known = await slack.channel_message(BOARD, "U1", "known")
    root = await slack.channel_message(BOARD, "U1", "opens a thread")
    await slack.channel_message(BOARD, "U2", "says more", thread=root)
    await know(sqlite_database, "slack", BOT_USER, BOARD, known, thread=known)

    async with listening(sqlite_database, adapter_for(slack)) as taken:
        found = await taken.holding(2)

    assert [(message.text, message.thread) for message in found] == [
        ("opens a thread", root),
        ("says more", root),
    ]


async def test_what_was_edited_meanwhile_is_taken_in_its_present_words(
    sqlite_database: Database, slack: SlackEmulator
) -> None:
    known = await slack.direct_message("U1", "known")
    missed = await slack.direct_message("U1", "first words")
    await slack.message_changed("D1", missed, "better words")
    await know(sqlite_database, "slack", BOT_USER, "D1", known)

    async with listening(sqlite_database, adapter_for(slack)) as taken:
        (found,) = await taken.holding(1)

    assert (found.text, found.kind.value, found.version) == ("better words", "message", 0)


async def test_a_chat_that_is_gone_holds_nothing_up(sqlite_database: Database, slack: SlackEmulator) -> None:
    known = await slack.direct_message("U1", "known")
    await know(sqlite_database, "slack", BOT_USER, "D1", known)
    slack.refuse_next("conversations.history", "channel_not_found")

    async with listening(sqlite_database, adapter_for(slack)) as taken:
        await slack.wait_for(lambda: slack.socket.sockets)
        await slack.direct_message("U1", "new")
        found = await taken.holding(1)

    assert [message.text for message in found] == ["new"]


async def test_when_told_to_wait_it_waits_and_reads_then(
    sqlite_database: Database, slack: SlackEmulator
) -> None:
    known = await slack.direct_message("U1", "known")
    await slack.direct_message("U1", "missed")
    await know(sqlite_database, "slack", BOT_USER, "D1", known)
    slack.limit_next("conversations.history", 1)

    async with listening(sqlite_database, adapter_for(slack)) as taken:
        found = await taken.holding(1)

    assert [message.text for message in found] == ["missed"]
    assert len(slack.calls_of("conversations.history")) == 2


async def test_a_platform_that_keeps_everything_is_asked_nothing(sqlite_database: Database) -> None:
    async with TelegramEmulator().running() as telegram:
        await telegram.direct_message(1, "kept")

        async with listening(sqlite_database, telegram_adapter(telegram)) as taken:
            found = await taken.holding(1)

    assert [message.text for message in found] == ["kept"]


async def test_nothing_is_taken_before_it_is_known_what_was_missed(sqlite_database: Database) -> None:
    taken = Inbox()
    async with asyncio.TaskGroup() as group, TelegramEmulator().running() as telegram:
        catch_up = CatchUp(sqlite_database, taken.deliver, group)
        early = group.create_task(catch_up.take(direct("early")))
        await asyncio.sleep(0)
        assert taken.messages == []

        catch_up.connected(telegram_adapter(telegram), "bot")
        await early

    assert [message.text for message in taken.messages] == ["early"]


class Slow:
    """A platform that hands back one message that was missed, as soon as it may."""

    platform = "telegram"

    def __init__(self) -> None:
        self.asked, self.may = asyncio.Event(), asyncio.Event()

    async def read_back(self, place: ChatRef, after: str, max_messages: int) -> tuple[InboundMessage, ...]:
        self.asked.set()
        await self.may.wait()
        return (direct("missed"),)


async def test_what_is_new_waits_for_what_was_missed_when_a_connection_is_lost_as_it_reads(
    sqlite_database: Database,
) -> None:
    await know(sqlite_database, "telegram", "bot", "100", "1")
    taken, platform = Inbox(), Slow()
    async with asyncio.TaskGroup() as group:
        catch_up = CatchUp(sqlite_database, taken.deliver, group)
        catch_up.connected(cast(Adapter, platform), "bot")
        await platform.asked.wait()
        catch_up.connected(cast(Adapter, platform), "bot")
        new = group.create_task(catch_up.take(direct("new")))
        await asyncio.sleep(0)
        platform.may.set()
        await new
        catch_up.lost()

    assert [message.text for message in taken.messages] == ["missed", "new"]


async def test_the_last_message_of_every_chat_and_thread_is_known(database: Database) -> None:
    def fill(connection: Connection) -> None:
        in_chat, in_thread = SessionKey("slack", "bot", "C1"), SessionKey("slack", "bot", "C1", "30")
        put(connection, in_chat, "m:C1:10:0")
        put(connection, in_chat, "m:C1:20:0")
        put(connection, in_thread, "m:C1:30:0")
        put(connection, in_thread, "m:C1:40:0")
        put(connection, SessionKey("slack", "bot", "D1"), "m:D1:5:0")
        put(connection, SessionKey("slack", "bot", "D1"), "e:trigger:1")
        put(connection, SessionKey("slack", "bot", "OLD"), "m:OLD:1:0", received_ms=1000)
        put(connection, SessionKey("slack", "another", "D1"), "m:D1:7:0")

    await database.write(fill)

    seen = await database.read(lambda c: inbox.last_seen(c, "slack", "bot", 2000, 10))
    assert [(one.chat, one.thread, one.message_id) for one in seen] == [
        ("D1", "", "5"),
        ("C1", "30", "40"),
        ("C1", "", "30"),
    ]
    liveliest = await database.read(lambda c: inbox.last_seen(c, "slack", "bot", 2000, 1))
    assert [one.chat for one in liveliest] == ["D1"]
