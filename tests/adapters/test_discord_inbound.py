"""What a Discord event becomes: every trap of normalising, with the real discord.py against the emulator."""

import logging
from collections.abc import AsyncIterator

import pytest

from tests.emulators.discord import VOICE_MESSAGE, DiscordEmulator, embed
from tests.emulators.discord_live import Live, live_adapter, outbound
from trunkline.adapters.base import AttachmentKind, ChatKind, ChatRef, InboundKind


@pytest.fixture
async def emulator() -> AsyncIterator[DiscordEmulator]:
    async with DiscordEmulator().running() as emulator:
        yield emulator
    assert emulator.violations == []


@pytest.fixture
async def live(emulator: DiscordEmulator) -> AsyncIterator[Live]:
    async with live_adapter(emulator) as live:
        yield live


async def test_a_direct_message_arrives(live: Live) -> None:
    message_id = await live.emulator.direct_message("77", "hello")

    said = await live.only()

    assert (said.platform, said.tenant, said.text) == ("discord", live.emulator.bot_id, "hello")
    assert (said.kind, said.chat_kind) == (InboundKind.MESSAGE, ChatKind.DIRECT)
    assert (said.chat, said.thread, said.message_id) == (live.emulator.direct_chat("77"), None, message_id)
    assert (said.sender.id, said.sender.label, said.sender.is_bot) == ("77", "user77", False)
    assert said.key == f"m:{said.chat}:{message_id}:0"
    assert said.sent_at.tzinfo is not None


async def test_a_channel_message_names_its_channel_and_mention(live: Live) -> None:
    live.emulator.world.nicknames["77"] = "Ann"
    await live.emulator.channel_message(live.emulator.general, "77", "hello")
    await live.emulator.channel_message(live.emulator.general, "77", "just talk", mention=False)

    asked, talk = await live.nth(1), await live.nth(2)

    assert (asked.chat, asked.chat_kind, asked.chat_title) == (
        live.emulator.general,
        ChatKind.GROUP,
        "general",
    )
    assert (asked.text, asked.mentions_me, asked.sender.label) == ("hello", True, "Ann")
    assert (talk.text, talk.mentions_me) == ("just talk", False)


async def test_own_messages_and_system_notices_are_nobodys(live: Live) -> None:
    await live.adapter.send(outbound("mine", ChatRef(live.emulator.general)))
    await live.emulator.channel_message(live.emulator.general, "77", "pinned", type=6, mention=False)
    await live.emulator.channel_message(live.emulator.general, "77", "joined", type=7, mention=False)

    assert await live.nothing()


async def test_a_thread_is_within_its_channel_and_its_starter_counts_once(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    channel = live.emulator.general
    opening = await live.emulator.channel_message(channel, "77", "shall we?")
    thread = await live.emulator.create_thread(channel, "77", "plans", from_message=opening)
    await live.emulator.channel_message(thread, "77", "yes")

    first, second = await live.nth(1), await live.nth(2)

    assert (first.text, first.chat, first.thread) == ("shall we?", channel, None)
    assert (second.text, second.chat, second.thread) == ("yes", channel, thread)
    assert (second.chat_kind, second.chat_title, second.private_thread) == (
        ChatKind.THREAD,
        "general",
        False,
    )
    assert len(live.received) == 2
    assert not [record for record in caplog.records if record.name.startswith("trunkline")]


async def test_a_private_thread_is_a_room_of_its_own(live: Live) -> None:
    thread = await live.emulator.create_thread(live.emulator.general, "77", "secret", private=True)
    await live.emulator.channel_message(thread, "77", "between us")

    said = await live.only()

    assert (said.chat, said.thread, said.private_thread) == (thread, thread, True)
    assert (said.chat_kind, said.chat_title) == (ChatKind.THREAD, "secret")


async def test_a_thread_never_announced_is_asked_about(live: Live) -> None:
    thread = await live.emulator.create_thread(live.emulator.general, "77", "hidden", announce=False)
    await live.emulator.channel_message(thread, "77", "found me?")
    await live.emulator.wait_for(lambda: any(said.text == "found me?" for said in live.received))

    said = next(said for said in live.received if said.text == "found me?")

    assert (said.chat, said.thread, said.chat_kind) == (live.emulator.general, thread, ChatKind.THREAD)


async def test_a_forum_post_is_a_thread_of_the_forum(live: Live) -> None:
    post = await live.emulator.forum_post(live.emulator.forum, "77", "How?", "please help")

    said = await live.only()

    assert (said.chat, said.thread, said.text) == (live.emulator.forum, post, "please help")
    assert said.message_id == post


async def test_bots_and_webhooks_are_marked(live: Live) -> None:
    live.emulator.world.add_user("55", "Helper", bot=True)
    await live.emulator.channel_message(live.emulator.general, "55", "beep")
    await live.emulator.webhook_message(live.emulator.general, "Alerts", "disk full")

    bot, webhook = await live.nth(1), await live.nth(2)

    assert (bot.sender.is_bot, bot.sender.is_person) == (True, True)
    assert (webhook.sender.is_bot, webhook.sender.is_person) == (True, False)
    assert (webhook.sender.label, webhook.text) == ("Alerts", "disk full")


async def test_mentions_are_read_as_names_beside_their_ids_and_the_own_one_goes(live: Live) -> None:
    """DC-06.1."""
    emulator = live.emulator
    emulator.world.user("77")
    emulator.world.user("78")
    emulator.world.nicknames["78"] = "Boss"
    words = f"ask <@77> or <@!78> in <#{emulator.general}>, <a:party:5> <:ok:6> </search:7> <t:86400:R> <@9>"
    await emulator.channel_message(emulator.general, "79", words)

    said = await live.only()

    assert said.text == (
        f"ask @user77 (77) or @Boss (78) in #general ({emulator.general}), :party: :ok: /search "
        "1970-01-02 00:00 UTC @9"
    )


async def test_a_mention_of_another_says_that_the_bot_is_not_meant(live: Live) -> None:
    emulator = live.emulator
    emulator.world.user("77")
    await emulator.channel_message(emulator.general, "79", "<@77> and you?", mention=False)
    await emulator.channel_message(emulator.general, "79", "ask <@77>", mention=True)

    assert (await live.nth(1)).mentions_others
    assert not (await live.nth(2)).mentions_others


async def test_the_bots_own_role_counts_as_its_mention(live: Live) -> None:
    emulator = live.emulator
    emulator.world.add_role("31", "cooks")
    await emulator.channel_message(
        emulator.general,
        "77",
        f"<@&{emulator.world.bot_role}> tell <@&{emulator.world.guild_id}>",
        mention=False,
    )
    await emulator.channel_message(
        emulator.general, "77", "@everyone look", mention=False, mention_everyone=True
    )

    own, everyone = await live.nth(1), await live.nth(2)

    assert (own.mentions_me, own.text) == (True, "tell @everyone")
    assert everyone.mentions_me is False


async def test_a_reply_says_whom_it_answers(live: Live) -> None:
    channel = live.emulator.general
    receipt = await live.adapter.send(outbound("Ready.", ChatRef(channel)))
    other = await live.emulator.channel_message(channel, "78", "<@77> what?", mention=False)
    await live.emulator.channel_message(channel, "77", "go on", mention=False, reply_to=receipt.message_id)
    await live.emulator.channel_message(channel, "77", "nothing", mention=False, reply_to=other)

    to_bot, to_other = await live.nth(2), await live.nth(3)

    assert to_bot.reply_to is not None
    assert to_other.reply_to is not None
    assert (to_bot.mentions_me, to_bot.reply_to.is_own, to_bot.reply_to.text) == (True, True, "Ready.")
    assert to_bot.reply_to.message_id == receipt.message_id
    assert (to_other.mentions_me, to_other.reply_to.is_own, to_other.reply_to.author_id) == (
        False,
        False,
        "78",
    )


async def test_a_reply_to_a_deleted_message_still_arrives(live: Live) -> None:
    channel = live.emulator.general
    gone = await live.emulator.channel_message(channel, "78", "oops", mention=False)
    await live.nth(1)
    await live.emulator.delete(channel, gone)
    await live.emulator.channel_message(channel, "77", "what was that?", reply_to=gone)

    said = await live.nth(3)

    assert said.text == "what was that?"
    assert said.reply_to is not None
    assert (said.reply_to.message_id, said.reply_to.author_id) == (gone, None)


async def test_a_forwarded_message_brings_its_words_and_files(live: Live) -> None:
    file = live.emulator.attachment("a.png", b"png", "image/png")
    await live.emulator.forward(live.emulator.direct_chat("77"), "77", "the news", attachments=[file])

    said = await live.only()

    assert said.text == "[forwarded message]\nthe news"
    assert [attachment.kind for attachment in said.attachments] == [AttachmentKind.IMAGE]
    assert said.reply_to is None


async def test_an_embed_alone_is_read_and_a_preview_is_not(live: Live) -> None:
    alert = embed("Disk", "97% full")
    await live.emulator.webhook_message(live.emulator.general, "Alerts", "", embeds=[alert])
    await live.emulator.channel_message(
        live.emulator.general, "77", "https://example.org", mention=False, embeds=[embed("Example")]
    )

    assert (await live.nth(1)).text == "Disk\n97% full"
    assert (await live.nth(2)).text == "https://example.org"


async def test_what_is_laid_out_in_components_and_a_lone_picture_are_said_in_words(live: Live) -> None:
    address = "https://example.org/a.png"
    media = {"id": "5", "url": address, "proxy_url": address}
    gallery = {"type": 12, "id": 4, "items": [{"description": "disks", "media": media, "spoiler": False}]}
    inner = [{"type": 10, "id": 3, "content": "97% full"}, gallery]
    layout = [
        {"type": 10, "id": 1, "content": "# Disk of <@77>"},
        {"type": 17, "id": 2, "accent_color": None, "spoiler": False, "components": inner},
    ]
    general, cat = live.emulator.general, {"type": "image", "image": {"url": "https://example.org/cat.gif"}}
    await live.emulator.webhook_message(general, "Alerts", "", components=layout, flags=1 << 15)
    await live.emulator.forward(general, "77", "", components=layout, flags=1 << 15)
    await live.emulator.webhook_message(general, "Alerts", "", embeds=[cat])

    words = "# Disk of @77\n97% full\n[picture: disks]"
    assert (await live.nth(1)).text == words
    assert (await live.nth(2)).text == f"[forwarded message]\n{words}"
    assert (await live.nth(3)).text == "[picture: https://example.org/cat.gif]"


async def test_stickers_and_polls_are_said_in_words(live: Live) -> None:
    sticker = {"id": "1", "name": "wave", "format_type": 1}
    poll = {
        "question": {"text": "Lunch?"},
        "answers": [
            {"answer_id": 1, "poll_media": {"text": "yes"}},
            {"answer_id": 2, "poll_media": {"text": "no"}},
        ],
        "expiry": "2030-01-01T00:00:00.000000+00:00",
        "allow_multiselect": False,
        "layout_type": 1,
        "results": {"is_finalized": False, "answer_counts": []},
    }
    await live.emulator.direct_message("77", "", sticker_items=[sticker])
    await live.emulator.direct_message("77", "", poll=poll)

    assert (await live.nth(1)).text == "[sticker: wave]"
    assert (await live.nth(2)).text == "[poll: Lunch? (yes; no)]"


async def test_a_voice_message_is_told_from_a_song(live: Live) -> None:
    voice = live.emulator.attachment("voice-message.ogg", b"ogg", "audio/ogg", voice=True)
    song = live.emulator.attachment("song.mp3", b"mp3", "audio/mpeg")
    nameless = {k: v for k, v in live.emulator.attachment("x.pdf", b"%", "").items() if k != "content_type"}
    await live.emulator.direct_message("77", "", attachments=[voice], flags=VOICE_MESSAGE)
    await live.emulator.direct_message("77", "", attachments=[song, nameless])

    assert [a.kind for a in (await live.nth(1)).attachments] == [AttachmentKind.VOICE]
    assert [(a.kind, a.mime) for a in (await live.nth(2)).attachments] == [
        (AttachmentKind.AUDIO, "audio/mpeg"),
        (AttachmentKind.DOCUMENT, "application/pdf"),
    ]


async def test_an_edit_arrives_with_its_stamp_and_a_preview_does_not(live: Live) -> None:
    channel = live.emulator.general
    message_id = await live.emulator.channel_message(channel, "77", "see https://example.org")
    await live.emulator.unfurl(channel, message_id)
    await live.emulator.edit(channel, message_id, f"<@{live.emulator.bot_id}> better")
    await live.emulator.unfurl(channel, message_id)
    await live.emulator.channel_message(channel, "77", "last")

    original, edit, last = await live.nth(1), await live.nth(2), await live.nth(3)

    assert (edit.kind, edit.edited_of, edit.text) == (InboundKind.EDIT, message_id, "better")
    assert edit.version > 0
    assert edit.key != original.key
    assert last.text == "last"


async def test_edits_of_the_bots_own_messages_are_nobodys(live: Live) -> None:
    place = ChatRef(live.emulator.general)
    receipt = await live.adapter.send(outbound("draft", place))
    await live.adapter.edit(receipt.message_id, outbound("final", place))

    assert await live.nothing()


async def test_deletions_arrive_one_by_one_and_in_order(live: Live) -> None:
    channel = live.emulator.general
    ids = [await live.emulator.channel_message(channel, "77", str(number)) for number in range(3)]
    await live.emulator.delete(channel, ids[0])
    await live.emulator.delete(channel, *ids[1:])

    deletions = [await live.nth(number) for number in (4, 5, 6)]

    assert [deletion.kind for deletion in deletions] == [InboundKind.DELETION] * 3
    assert [deletion.edited_of for deletion in deletions] == ids
    assert {deletion.sender.id for deletion in deletions} == {"77"}
    assert len({deletion.key for deletion in deletions}) == 3


async def test_deletion_of_a_message_from_before_the_start_has_no_sender(emulator: DiscordEmulator) -> None:
    old = await emulator.channel_message(emulator.general, "77", "old")
    async with live_adapter(emulator) as live:
        await emulator.delete(emulator.general, old)

        deletion = await live.only()

    assert (deletion.edited_of, deletion.sender.id, deletion.sender.is_person) == (old, "", False)


async def test_deletion_of_an_own_message_is_nobodys(live: Live) -> None:
    receipt = await live.adapter.send(outbound("mine", ChatRef(live.emulator.general)))
    await live.emulator.delete(live.emulator.general, receipt.message_id)

    assert await live.nothing()


async def test_a_message_without_anything_is_dropped_with_one_warning(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(2):
        await live.emulator.channel_message(live.emulator.general, "77", "", mention=False)

    assert await live.nothing()
    assert sum("Message Content Intent" in record.message for record in caplog.records) == 1


async def test_a_bare_mention_still_arrives(live: Live) -> None:
    await live.emulator.channel_message(live.emulator.general, "77", "")

    said = await live.only()

    assert (said.text, said.mentions_me) == ("", True)


@pytest.mark.parametrize(
    ("words", "command", "argument"),
    [
        ("/search old boats", "search", "old boats"),
        ("!Search  old\nboats", "search", "old\nboats"),
        ("!help", "help", ""),
    ],
)
async def test_a_text_command_is_a_command(live: Live, words: str, command: str, argument: str) -> None:
    await live.emulator.channel_message(live.emulator.general, "77", words)

    said = await live.only()

    assert (said.kind, said.command, said.text) == (InboundKind.COMMAND, command, argument)
    assert (said.mentions_me, said.interaction) == (True, None)


@pytest.mark.parametrize("words", ["/usr/bin/env", "!wow", "please /help", "/helpful", "!"])
async def test_what_only_looks_like_a_command_is_text(live: Live, words: str) -> None:
    await live.emulator.direct_message("77", words)

    said = await live.only()

    assert (said.kind, said.text) == (InboundKind.MESSAGE, words)
