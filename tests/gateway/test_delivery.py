"""Delivery over the real client libraries: complete, in order, once, and one chat's trouble is its own."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection, func, select, text
from sqlalchemy.engine import make_url

from tests.emulators.base import Fault
from tests.emulators.discord import DiscordEmulator, rate_limited
from tests.emulators.telegram import TelegramEmulator
from tests.gateway.inbound import command, direct
from tests.gateway.lanes import ANA, BO, Lanes, discord_lanes, flood, refusal, telegram_lanes
from tests.gateway.small_house import eventually
from trunkline.gateway import identity
from trunkline.gateway.clock import now_ms
from trunkline.gateway.delivery import MAX_MESSAGES, MAX_NONCE_ATTEMPTS, Delivery, Line, nonce_of, payloads
from trunkline.gateway.router import store
from trunkline.gateway.settings import FileSettings, parse_settings
from trunkline.gateway.state import outbox
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.migrate import migrate_now
from trunkline.gateway.state.schema import outbox as outbox_table


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramEmulator]:
    async with TelegramEmulator().running() as emulator:
        yield emulator
        assert emulator.violations == []


@pytest.fixture
async def discord() -> AsyncIterator[DiscordEmulator]:
    async with DiscordEmulator().running() as emulator:
        yield emulator
        assert emulator.violations == []


@pytest.fixture
async def on_telegram(database: Database, telegram: TelegramEmulator) -> AsyncIterator[Lanes]:
    async with telegram_lanes(database, telegram) as made:
        yield made


@pytest.fixture
async def on_discord(sqlite_database: Database, discord: DiscordEmulator) -> AsyncIterator[Lanes]:
    async with discord_lanes(sqlite_database, discord) as made:
        yield made


async def test_a_long_answer_arrives_whole_and_in_order_and_its_message_ids_are_kept(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    words = " ".join(f"word{n}" for n in range(2000))

    await on_telegram.plan(on_telegram.to(ANA), words)
    await on_telegram.become(*["sent"] * len(on_telegram.adapter.render(words)))

    shown = telegram.sent(ANA)
    assert " ".join(message.text for message in shown).split() == words.split()
    ids = select(outbox_table.c.message_id).order_by(outbox_table.c.seq)
    kept = await on_telegram.database.read(lambda c: list(c.execute(ids).scalars()))
    assert kept == [str(message.message_id) for message in shown]


async def test_a_wait_in_one_chat_delays_no_other_and_nothing_is_sent_there_before_its_end(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    telegram.fail_next("sendMessage", flood(2))
    await on_telegram.plan(on_telegram.to(ANA), "to Ana", "i:1")
    await telegram.wait_for(lambda: telegram.calls_of("sendMessage"))
    await on_telegram.plan(on_telegram.to(ANA), "and more", "i:2")
    await on_telegram.plan(on_telegram.to(BO), "to Bo", "i:3")

    await telegram.wait_for(lambda: telegram.texts(BO) == ["to Bo"])
    assert telegram.texts(ANA) == []
    await on_telegram.become("sent", "sent", "sent")

    assert telegram.texts(ANA) == ["to Ana", "and more"]
    first, second, *_ = [c for c in telegram.calls_of("sendMessage") if c.arguments["chat_id"] == ANA]
    assert second.at - first.at >= 2


async def test_a_wait_outlives_the_process(on_telegram: Lanes, telegram: TelegramEmulator) -> None:
    telegram.fail_next("sendMessage", flood(600))
    await on_telegram.plan(on_telegram.to(ANA), "later")
    await on_telegram.become("planned")
    await telegram.wait_for(lambda: telegram.calls_of("sendMessage"))
    await on_telegram.plan(on_telegram.to(ANA), "planned during the wait", "i:2")

    async def put_off() -> bool:
        query = select(func.min(outbox_table.c.not_before_ms))
        until = await on_telegram.database.read(lambda c: c.execute(query).scalar_one())
        return int(until) > now_ms() + 500_000

    await eventually(put_off)
    assert len(telegram.calls_of("sendMessage")) == 1


async def test_an_answer_that_telegram_may_have_is_unknown_and_never_sent_twice(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    telegram.fail_next("sendMessage", Fault(accept_then_drop=True))
    await on_telegram.plan(on_telegram.to(ANA), "once")
    await on_telegram.become("unknown")

    await on_telegram.plan(on_telegram.to(ANA), "the next one", "i:2")
    await on_telegram.become("unknown", "sent")

    assert telegram.texts(ANA) == ["once", "the next one"]


async def test_a_server_that_fails_for_ever_is_called_once_for_what_it_may_have(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    telegram.fail_next("sendMessage", Fault(status=500), times=50)

    await on_telegram.plan(on_telegram.to(ANA), "once")
    await on_telegram.become("unknown")

    assert len(telegram.calls_of("sendMessage")) == 1


async def test_whoever_may_miss_a_part_of_an_answer_is_told_so_once(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    telegram.fail_next("sendMessage", Fault(status=500), times=2)

    await on_telegram.plan(on_telegram.to(ANA), "word " * 2000, "t:1")
    await on_telegram.become("unknown", "unknown", "sent", "sent")

    assert [text.startswith("A part of my last answer") for text in telegram.texts(ANA)] == [False, True]


async def test_the_notice_of_a_doubt_survives_a_second_failure(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    telegram.fail_next("sendMessage", Fault(status=500), times=2)

    await on_telegram.plan(on_telegram.to(ANA), "once", "t:1")
    await on_telegram.become("unknown", "sent")

    (notice,) = telegram.texts(ANA)
    assert notice.startswith("A part of my last answer")


async def test_whoever_misses_refused_parts_of_an_answer_is_told_so_once(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    telegram.fail_next("sendMessage", refusal(400, "Bad Request: this text is refused"), 2)

    await on_telegram.plan(on_telegram.to(ANA), "word " * 2000, "t:1")
    await on_telegram.become("refused", "refused", "sent", "sent")

    rest, notice = telegram.texts(ANA)
    assert set(rest.split()) == {"word"}
    assert notice.startswith("A part of my answer could not be sent here")


async def test_a_word_about_a_refusal_that_is_refused_itself_is_the_last(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    telegram.fail_next("sendMessage", refusal(400, "Bad Request: this text is refused"), 9)

    await on_telegram.plan(on_telegram.to(ANA), "once", "t:1")
    await on_telegram.plan(on_telegram.to(BO), "a notice", "n:1")
    await on_telegram.become("refused", "refused", "refused")

    assert len(telegram.calls_of("sendMessage")) == 3


async def test_whoever_misses_the_reply_to_a_command_is_told_so_in_their_language(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    for number, user in ((1, ANA), (2, BO)):
        await on_telegram.database.write(lambda c: ask_for_help(c, user))  # noqa: B023
        fault = refusal(400, "Bad Request: this text is refused") if user == ANA else Fault(status=500)
        telegram.fail_next("sendMessage", fault)
        await on_telegram.plan(on_telegram.to(user), "the reply", f"i:{number}")
        await telegram.wait_for(lambda: len(telegram.texts(user)) == 1)  # noqa: B023

    await on_telegram.become("refused", "sent", "unknown", "sent")
    assert telegram.texts(ANA)[0].startswith("我有一条回复没能发到这里")
    assert telegram.texts(BO)[0].startswith("A part of my last answer may not have arrived")


async def test_an_answer_beyond_all_measure_ends_with_a_word_about_its_rest(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    whole = on_telegram.adapter.render("word " * 50_000)

    chunks = on_telegram.delivery.render("telegram", "word " * 50_000)

    assert len(chunks) == MAX_MESSAGES < len(whole)
    assert chunks[:-1] == whole[: MAX_MESSAGES - 1]
    assert "transcript" in chunks[-1].text


async def test_what_never_left_is_sent_when_the_platform_is_back_and_only_then(
    database: Database, telegram: TelegramEmulator
) -> None:
    async with telegram_lanes(database, telegram) as made:
        made.delivery.disconnect("telegram")
        await made.plan(made.to(ANA), "*Hello* " * 1000)
        assert all(state == "planned" for state in await made.states())

        made.delivery.connect(Line(made.adapter, "bot"))
        await made.delivery.sweep()
        await made.become(*["sent"] * len(await made.states()))

    assert "".join(telegram.texts(ANA)).count("Hello") == 1000
    assert "*" not in "".join(telegram.texts(ANA))


async def test_a_refused_edit_becomes_a_new_message_in_place_of_the_old_one(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    await on_telegram.plan(on_telegram.to(ANA), "first")
    await on_telegram.become("sent")
    telegram.fail_next("editMessageText", refusal(400, "Bad Request: message can't be edited"))

    await on_telegram.plan(on_telegram.to(ANA), "second")
    await telegram.wait_for(lambda: telegram.texts(ANA) == ["second"])
    await on_telegram.become("sent", "sent")
    changes = [call.method for call in telegram.calls if call.method in ("sendMessage", "deleteMessage")]
    assert changes == ["sendMessage", "sendMessage", "deleteMessage"]


async def test_what_could_neither_be_edited_nor_sent_anew_leaves_the_old_message_standing(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    await on_telegram.plan(on_telegram.to(ANA), "first")
    await on_telegram.become("sent")
    telegram.fail_next("editMessageText", refusal(400, "Bad Request: message can't be edited"))
    telegram.fail_next("sendMessage", refusal(400, "Bad Request: text is refused"), 2)

    await on_telegram.plan(on_telegram.to(ANA), "second")
    await on_telegram.become("refused")
    assert telegram.texts(ANA) == ["first"]


async def test_a_refused_edit_on_discord_is_a_new_message_and_not_the_old_one_by_its_nonce(
    on_discord: Lanes, discord: DiscordEmulator
) -> None:
    await on_discord.plan(on_discord.to(discord.general), "first")
    await on_discord.become("sent")
    discord.fail_next("edit_message", Fault(status=400, body={"code": 50035, "message": "Invalid Form Body"}))

    await on_discord.plan(on_discord.to(discord.general), "second")
    await discord.wait_for(lambda: discord.texts() == ["second"])
    await on_discord.become("sent", "sent")


async def test_a_lost_answer_of_discord_is_asked_for_again_and_is_there_once(
    on_discord: Lanes, discord: DiscordEmulator
) -> None:
    discord.fail_next("create_message", Fault(accept_then_drop=True))

    await on_discord.plan(on_discord.to(discord.general), "once")
    await on_discord.become("sent")

    assert discord.texts() == ["once"]


async def test_a_wait_between_the_parts_of_an_answer_changes_neither_their_order_nor_their_number(
    on_discord: Lanes, discord: DiscordEmulator
) -> None:
    """DC-01.3."""
    words = " ".join(f"word{n}" for n in range(1300))
    parts = [chunk.text for chunk in on_discord.adapter.render(words)]
    discord.fail_next("create_message", Fault(serve=True))
    discord.fail_next("create_message", rate_limited(0.5))

    await on_discord.plan(on_discord.to(discord.general), words)
    await on_discord.become(*["sent"] * len(parts))

    assert len(parts) >= 6
    assert discord.texts() == parts


async def test_a_message_under_repair_on_discord_is_given_up_while_its_nonce_still_holds(
    on_discord: Lanes, discord: DiscordEmulator
) -> None:
    query = select(outbox_table)
    await on_discord.database.write(
        lambda c: outbox.plan(
            c,
            on_discord.to(discord.general).plan("n:1"),
            payloads(on_discord.to(discord.general), on_discord.adapter.render("once")),
            now_ms(),
        )
    )
    await on_discord.database.write(
        lambda c: c.execute(outbox_table.update().values(attempts=MAX_NONCE_ATTEMPTS - 1))
    )
    discord.fail_next("create_message", Fault(drop=True), times=20)

    on_discord.delivery.kick("discord", discord.general)
    await on_discord.become("unknown")

    (row,) = await on_discord.database.read(lambda c: list(c.execute(query)))
    assert row.attempts == MAX_NONCE_ATTEMPTS


async def test_a_chat_that_is_gone_is_not_tried_again_for_the_rest_of_an_answer(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    await telegram.block(ANA)

    await on_telegram.plan(on_telegram.to(ANA), "word " * 3000)
    await on_telegram.become(*["refused"] * len(on_telegram.adapter.render("word " * 3000)))

    assert len(telegram.calls_of("sendMessage")) == 1


async def test_a_chat_that_is_gone_is_left_alone_until_somebody_writes_there(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    await telegram.block(ANA)
    await on_telegram.plan(on_telegram.to(ANA), "one")
    await on_telegram.become("refused")
    await on_telegram.plan(on_telegram.to(ANA), "two", source="n:2")
    await on_telegram.plan(on_telegram.to(BO), "for Bo", source="n:3")
    await on_telegram.become("refused", "refused", "sent")
    assert len(telegram.calls_of("sendMessage")) == 2

    await telegram.set_bot_membership(ANA, ANA, "kicked", "member")
    said = replace(direct("back again", user=str(ANA)), tenant="bot")
    await on_telegram.database.write(lambda c: store(c, said, FileSettings(), now_ms()))
    await on_telegram.plan(on_telegram.to(ANA), "three", source="n:4")

    await telegram.wait_for(lambda: "three" in telegram.texts(ANA))


async def test_what_was_to_be_said_in_a_locked_thread_is_said_in_its_channel(
    on_discord: Lanes, discord: DiscordEmulator
) -> None:
    thread = await discord.create_thread(discord.general, "77", "old")
    discord.world.channels[thread]["thread_metadata"]["locked"] = True
    text = "word " * 900

    await on_discord.plan(on_discord.to(discord.general, thread), text)

    chunks = [chunk.text for chunk in on_discord.adapter.render(text)]
    await discord.wait_for(lambda: discord.texts(discord.general) == chunks)
    tried = [call.arguments["channel_id"] for call in discord.calls_of("create_message")]
    assert tried == [thread, *[discord.general] * len(chunks)]


async def test_what_another_process_plans_is_found_by_the_sweep(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    where = on_telegram.to(ANA)
    planned = payloads(where, on_telegram.adapter.render("from the command line"))
    await on_telegram.database.write(lambda c: outbox.plan(c, where.plan("n:1"), planned, now_ms()))

    await on_telegram.delivery.sweep()

    await telegram.wait_for(lambda: telegram.texts(ANA) == ["from the command line"])


async def test_a_payload_that_nobody_can_read_ends_itself_and_not_its_lane(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    where = on_telegram.to(ANA)
    await on_telegram.database.write(lambda c: outbox.plan(c, where.plan("n:1"), ["{broken"], now_ms()))

    await on_telegram.plan(where, "the next one", "i:2")
    await on_telegram.become("unknown", "sent")

    assert telegram.texts(ANA) == ["the next one"]


async def test_a_lane_whose_database_fails_goes_on_when_it_works_again(
    sqlite_database: Database, telegram: TelegramEmulator, caplog: pytest.LogCaptureFixture
) -> None:
    async def failed() -> bool:
        return "lane failed" in caplog.text

    async with telegram_lanes(sqlite_database, telegram) as made:
        await sqlite_database.write(lambda c: c.execute(text("ALTER TABLE outbox RENAME TO away")))
        made.delivery.kick("telegram", str(ANA))
        await eventually(failed)
        await sqlite_database.write(lambda c: c.execute(text("ALTER TABLE away RENAME TO outbox")))

        await made.plan(made.to(ANA), "still here")
        await made.become("sent")


async def test_a_database_locked_by_another_process_loses_and_repeats_nothing(
    tmp_path: Path, telegram: TelegramEmulator
) -> None:
    path = tmp_path / "state.db"
    with Database(f"sqlite:///{path}") as database:
        migrate_now(database)
        async with telegram_lanes(database, telegram) as made:
            await made.plan(made.to(ANA), "one\n\n" + "word " * 1500)
            parts = len(await made.states())
            await telegram.wait_for(lambda: telegram.texts(ANA))
            foreign = sqlite3.connect(str(make_url(f"sqlite:///{path}").database))
            foreign.execute("BEGIN IMMEDIATE")
            await asyncio.sleep(2)
            foreign.rollback()
            foreign.close()
            await made.become(*["sent"] * parts)

    assert len(telegram.texts(ANA)) == parts == len(telegram.calls_of("sendMessage"))


async def test_draining_sends_what_may_go_and_does_not_wait_for_what_may_not(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    telegram.fail_next("sendMessage", flood(600))
    await on_telegram.plan(on_telegram.to(ANA), "held", "i:1")
    await on_telegram.plan(on_telegram.to(BO), "goes out", "i:2")

    async with asyncio.timeout(60):
        await on_telegram.delivery.drain(600)

    assert sorted(await on_telegram.states()) == ["planned", "sent"]


async def test_a_platform_that_never_connected_is_no_reason_to_lose_anything(database: Database) -> None:
    delivery = Delivery(database)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(delivery.run())
        await asyncio.sleep(0)
        delivery.kick("telegram", "1")
        await delivery.sweep()
        assert [chunk.text for chunk in delivery.render("telegram", "**hi**")] == ["**hi**"]
        task.cancel()


async def test_the_nonce_fits_discord_up_to_a_hundred_thousand_million_rows(database: Database) -> None:
    where = outbox.Plan("t:1", "discord", "bot", "1", "")
    row = await database.write(lambda c: outbox.begin_preview(c, where, 0, "x", now_ms()))

    assert len(nonce_of(replace(row, id=10**11 - 1))) <= 25


def ask_for_help(connection: Connection, user: int) -> None:
    """A command of somebody known; Ana has chosen Chinese."""
    people = {"ana": {"role": "owner", "telegram": ANA, "language": "zh-CN"}, "bo": {"telegram": BO}}
    settings = parse_settings({"people": people})
    identity.assert_config(connection, settings, now_ms())
    store(connection, command("help", user=str(user)), settings, now_ms())
