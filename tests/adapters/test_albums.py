"""Several pictures of one answer: one message on each platform, within its limits, once and in order."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.adapters.telegram_house import ANN, Inbox, adapter_for, running
from tests.emulators.base import Fault
from tests.emulators.discord import DiscordEmulator
from tests.emulators.discord_live import live_adapter
from tests.emulators.slack_bench import emulated
from tests.emulators.slack_bench import running as slack_running
from tests.emulators.telegram import TelegramEmulator
from trunkline.adapters.base import (
    AttachmentKind,
    ChatRef,
    Chunk,
    OutboundFile,
    OutboundMessage,
    Rejected,
    Uncertain,
)
from trunkline.adapters.telegram import TelegramAdapter

PNG = b"\x89PNG\r\n\x1a\n"


def picture(number: int, content: bytes = PNG, mime: str = "image/png") -> OutboundFile:
    return OutboundFile(AttachmentKind.IMAGE, f"view-{number}.png", mime, "0" * 64, content + b"%d" % number)


def album(chat: str, *files: OutboundFile, nonce: str = "tl7-abc") -> OutboundMessage:
    return OutboundMessage(ChatRef(chat), Chunk(""), nonce=nonce, file=files[0], album=files[1:])


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramEmulator]:
    async with TelegramEmulator().running() as emulator:
        emulator.private_chat(ANN)
        yield emulator
    assert emulator.violations == []


@pytest.fixture
async def adapter(telegram: TelegramEmulator) -> AsyncIterator[TelegramAdapter]:
    async with running(adapter_for(telegram), Inbox(), telegram) as adapter:
        yield adapter


async def test_ten_pictures_are_one_album_on_telegram_and_go_together(
    telegram: TelegramEmulator, adapter: TelegramAdapter
) -> None:
    receipt = await adapter.send(album(str(ANN), *map(picture, range(10))))
    shown = telegram.sent(ANN)
    contents = [telegram.files[f"sent-{n * 2}-{n + 1}-1280"] for n in range(10)]
    assert len(shown) == 10
    assert len({one.album for one in shown}) == 1
    assert contents == [picture(n).content for n in range(10)]
    await telegram.service_message(ANN, ANN)
    await adapter.delete(ChatRef(str(ANN)), receipt.message_id)
    assert telegram.sent(ANN) == []


async def test_a_picture_that_telegram_would_not_show_makes_documents_of_the_album(
    telegram: TelegramEmulator, adapter: TelegramAdapter
) -> None:
    await adapter.send(album(str(ANN), picture(1), picture(2, b"no picture")))
    assert [one.file_name for one in telegram.sent(ANN)] == ["view-1.png", "view-2.png"]
    assert len(telegram.calls_of("sendMediaGroup")) == 2


async def test_a_gif_in_an_album_is_sent_as_it_is(
    telegram: TelegramEmulator, adapter: TelegramAdapter
) -> None:
    await adapter.send(album(str(ANN), picture(1), picture(2, b"GIF89a", "image/gif")))
    assert [one.file_name for one in telegram.sent(ANN)] == ["view-1.png", "view-2.png"]
    assert len(telegram.calls_of("sendMediaGroup")) == 1


async def test_an_album_whose_answer_got_lost_is_in_doubt_on_telegram(
    telegram: TelegramEmulator, adapter: TelegramAdapter
) -> None:
    telegram.fail_next("sendMediaGroup", Fault(accept_then_drop=True))
    with pytest.raises(Uncertain):
        await adapter.send(album(str(ANN), picture(1), picture(2)))


async def test_an_album_in_part_deleted_can_still_be_taken_back(
    telegram: TelegramEmulator, adapter: TelegramAdapter
) -> None:
    receipt = await adapter.send(album(str(ANN), picture(1), picture(2)))
    del telegram.chats[ANN].messages[telegram.sent(ANN)[0].message_id]
    await adapter.delete(ChatRef(str(ANN)), receipt.message_id)
    assert telegram.sent(ANN) == []


async def test_on_discord_an_album_is_one_message_and_a_repeat_is_none() -> None:
    async with DiscordEmulator().running() as discord, live_adapter(discord) as live:
        message = album(discord.general, *map(picture, range(10)))
        first = await live.adapter.send(message)
        assert await live.adapter.send(message) == first
        [held] = discord.world.messages[discord.general].values()
        assert [one["filename"] for one in held["attachments"]] == [f"view-{n}.png" for n in range(10)]
        late = replace(message, nonce="tl8-abc", tried_since=datetime.now(UTC) - timedelta(minutes=9))
        assert await live.adapter.send(late) == first
        assert discord.violations == []
        with pytest.raises(Rejected):
            await live.adapter.send(album(discord.general, *map(picture, range(11)), nonce="tl9-abc"))


async def test_on_slack_an_album_is_one_message_and_one_that_may_have_arrived_is_found() -> None:
    async with emulated() as slack, slack_running(slack) as bench:
        message = album("C1", *map(picture, range(3)))
        slack.fail_next("files.completeUploadExternal", Fault(accept_then_drop=True))
        slack.fail_next("files.info", Fault(drop=True), times=2)  # aiohttp repeats a GET once by itself
        with pytest.raises(Uncertain):
            await bench.adapter.send(message)
        began = datetime.now(UTC) - timedelta(minutes=1)
        receipt = await bench.adapter.send(replace(message, tried_since=began))
        [post] = slack.sent("C1")
        assert post.ts == receipt.message_id
        assert [one["name"] for one in post.files] == ["view-0.png", "view-1.png", "view-2.png"]
