"""What people send beside words and files: it arrives as a line that says what it is, or what it is about."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.adapters.telegram_house import ANN, Inbox, adapter_for, running
from tests.adapters.test_telegram_media import POLL
from tests.emulators.discord import DiscordEmulator, embed
from tests.emulators.discord_live import Live, live_adapter
from tests.emulators.slack_bench import Bench, emulated
from tests.emulators.slack_bench import running as slack_running
from tests.emulators.telegram import TelegramEmulator
from trunkline.adapters.base import AttachmentKind, InboundMessage

PNG = b"\x89PNG\r\n\x1a\n"
GROUP = -1002000000001
CHANNEL = {"id": -1003000000001, "type": "channel", "title": "News"}


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramEmulator]:
    async with TelegramEmulator().running() as emulator:
        yield emulator
    assert emulator.violations == []


@pytest.fixture
async def heard(telegram: TelegramEmulator) -> AsyncIterator[Inbox]:
    inbox = Inbox()
    async with running(adapter_for(telegram), inbox, telegram):
        yield inbox


@pytest.fixture
async def live() -> AsyncIterator[Live]:
    async with DiscordEmulator().running() as emulator, live_adapter(emulator) as started:
        yield started


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with emulated() as slack, slack_running(slack) as started:
        yield started


# Telegram


async def test_a_reply_to_a_picture_says_what_it_answers_and_brings_it_in_a_group(
    telegram: TelegramEmulator, heard: Inbox
) -> None:
    picture = await telegram.group_message(GROUP, 7, media=telegram.photo(PNG), mention=False)
    await telegram.group_message(GROUP, ANN, "what is this?", reply_to=picture.message_id)
    private = await telegram.direct_message(
        ANN, media=telegram.document(b"%PDF", "plan.pdf", "application/pdf")
    )
    await telegram.direct_message(ANN, "summarise it", reply_to=private.message_id)
    _, in_group, _, direct = await heard.count(4)

    assert in_group.reply_to is not None
    assert in_group.reply_to.text == "[image]"
    assert [one.kind for one in in_group.attachments] == [AttachmentKind.IMAGE]
    assert direct.reply_to is not None
    assert direct.reply_to.text == "[document: plan.pdf]"
    assert direct.attachments == ()


async def test_a_quote_from_another_chat_is_kept_with_its_origin(
    telegram: TelegramEmulator, heard: Inbox
) -> None:
    origin = {"type": "channel", "date": telegram.now(), "chat": CHANNEL, "message_id": 5}
    external = {"origin": origin, "chat": CHANNEL, "message_id": 5}
    quote = {"text": "the sea is calm", "position": 0}
    await telegram.direct_message(ANN, "is it?", external_reply=external, quote=quote)

    reply = (await heard.next()).reply_to
    assert reply is not None
    assert (reply.text, reply.is_own, reply.author_id) == ("News: the sea is calm", False, None)


async def test_a_reply_to_media_in_another_chat_or_to_a_story_says_so(
    telegram: TelegramEmulator, heard: Inbox
) -> None:
    origin = {"type": "hidden_user", "date": telegram.now(), "sender_user_name": "Zoe"}
    dice = {"emoji": "🎲", "value": 4}
    await telegram.direct_message(ANN, "nice", external_reply={"origin": origin, "dice": dice})
    story = {"chat": {"id": 7, "type": "private", "first_name": "Bo"}, "id": 3}
    await telegram.direct_message(ANN, "nice too", reply_to_story=story)
    first, second = await heard.count(2)

    assert first.reply_to is not None
    assert first.reply_to.text == "Zoe: [a message]"
    assert second.reply_to is not None
    assert second.reply_to.text == "[a story]"


async def test_a_moving_sticker_a_picture_as_a_file_and_a_forwarded_poll_say_what_they_are(
    telegram: TelegramEmulator, heard: Inbox
) -> None:
    moving = telegram.sticker("🦀")
    moving["sticker"] |= {"is_animated": True}
    await telegram.direct_message(ANN, media=moving)
    await telegram.direct_message(ANN, media=telegram.document(PNG, "sea.png", "image/png"))
    origin = {"type": "hidden_user", "date": telegram.now(), "sender_user_name": "Zoe"}
    await telegram.direct_message(ANN, media={"poll": POLL}, forward_origin=origin)
    sticker, picture, forwarded = await heard.count(3)

    assert (sticker.text, sticker.attachments) == ("[sticker 🦀]", ())
    assert [(one.kind, one.name) for one in picture.attachments] == [(AttachmentKind.IMAGE, "sea.png")]
    assert forwarded.text == "[forwarded from Zoe]\n[poll: What to drink? (rum; tea)]"


# Discord


async def test_a_reply_to_a_picture_on_a_server_brings_the_picture(live: Live) -> None:
    general, direct = live.emulator.general, live.emulator.direct_chat("77")
    file = live.emulator.attachment("sea.png", PNG, "image/png")
    shown = await live.emulator.channel_message(general, "78", "", mention=False, attachments=[file])
    await live.emulator.channel_message(general, "77", "what is this?", reply_to=shown)
    own = await live.emulator.direct_message("77", "", attachments=[file])
    reference = live.emulator.world.reference(direct, own)
    await live.emulator.direct_message("77", "and this?", **reference)
    in_room, alone = await live.nth(2), await live.nth(4)

    assert in_room.reply_to is not None
    assert in_room.reply_to.text == "[image: sea.png]"
    assert [one.name for one in in_room.attachments] == ["sea.png"]
    assert alone.attachments == ()


async def test_a_forwarded_embed_and_an_invitation_are_said_in_words(live: Live) -> None:
    await live.emulator.forward(live.emulator.direct_chat("77"), "77", "", embeds=[embed("Disk", "97% full")])
    await live.emulator.direct_message("77", "", activity={"type": 1, "party_id": "p"})

    assert (await live.nth(1)).text == "[forwarded message]\nDisk\n97% full"
    assert (await live.nth(2)).text == "[invitation to an activity]"


# Slack


def event(**fields: Any) -> dict[str, Any]:
    said = {"type": "message", "ts": "1700000000.000100", "event_ts": "1700000000.000100", "text": ""}
    return {**said, "user": "U1", "channel": "D1", "channel_type": "im", **fields}


async def told(bench: Bench, **fields: Any) -> InboundMessage:
    bench.slack.workspace.direct_channel("U1")
    await bench.slack.emit(event(**fields), checked=False)
    return await bench.last()


async def test_the_blocks_and_cards_of_an_app_are_its_words(bench: Bench) -> None:
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": "Deploy failed"}},
        {"type": "section", "text": {"type": "mrkdwn", "text": "*web* at <https://e.test|build 7>"}},
        {
            "type": "section",
            "fields": [{"type": "mrkdwn", "text": "by"}, {"type": "mrkdwn", "text": "<@U2>"}],
        },
        {
            "type": "rich_text",
            "elements": [
                {
                    "type": "rich_text_section",
                    "elements": [
                        {"type": "text", "text": "see "},
                        {"type": "link", "url": "https://e.test/log"},
                        {"type": "emoji", "name": "fire"},
                    ],
                }
            ],
        },
        {"type": "image", "image_url": "https://e.test/a.png", "alt_text": "a graph"},
        {"type": "divider"},
    ]
    card = {"title": "Disk", "text": "97% full", "fields": [{"title": "host", "value": "db1"}], "id": 1}
    by_app = {"subtype": "bot_message", "bot_id": "B0OTHER", "user": None}
    said = await told(bench, blocks=blocks, attachments=[card], **by_app)

    assert said.text == (
        "Deploy failed\n*web* at build 7 (https://e.test)\nby @U2\nsee https://e.test/log :fire:\n"
        "[picture: a graph]\nDisk\n97% full\nhost: db1"
    )


async def test_a_persons_link_preview_is_not_their_words(bench: Bench) -> None:
    preview = {"title": "Example", "text": "An example", "from_url": "https://example.com", "id": 1}
    said = await told(bench, text="<https://example.com>", attachments=[preview])
    assert said.text == "https://example.com"


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ({"mode": "quip", "filetype": "quip", "title": "Plan"}, "[canvas: Plan: can't be read here]"),
        ({"mode": "list", "filetype": "list", "title": "To do"}, "[list: To do: can't be read here]"),
        ({"mode": "hidden_by_limit"}, "[file hidden by the workspace's plan: can't be read here]"),
    ],
)
async def test_what_only_slack_can_show_is_named_and_not_fetched(
    bench: Bench, file: dict[str, Any], line: str
) -> None:
    said = await told(bench, subtype="file_share", text="look", files=[{"id": "F1", **file}])
    assert (said.text, said.attachments) == (f"look\n{line}", ())


async def test_a_forwarded_message_brings_its_files(bench: Bench) -> None:
    file = {
        "id": "F9",
        "name": "sea.png",
        "mimetype": "image/png",
        "url_private": "https://files.slack.com/F9",
    }
    shared = {
        "is_share": True,
        "author_name": "Zoe",
        "text": "the sea",
        "fallback": "the sea",
        "files": [file],
    }
    said = await told(bench, attachments=[shared])

    assert said.text == "[forwarded, Zoe wrote: the sea]"
    assert [one.name for one in said.attachments] == ["sea.png"]


async def test_a_huddle_is_nobodys_message(bench: Bench) -> None:
    room = {"id": "R1", "name": "", "created_by": "U1"}
    await bench.slack.emit(event(subtype="huddle_thread", user="USLACK", room=room), checked=False)
    await bench.slack.direct_message("U1", "hello")
    await bench.slack.all_acked()
    assert [message.text for message in bench.inbox.messages] == ["hello"]
