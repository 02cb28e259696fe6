"""What the Discord adapter sends, edits and fetches, with the real discord.py against the emulator."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.emulators.base import Fault
from tests.emulators.discord import DiscordEmulator, rate_limited
from tests.emulators.discord_live import Live, live_adapter, outbound
from trunkline.adapters.base import (
    AttachmentKind,
    Button,
    ChatRef,
    Chunk,
    OutboundFile,
    RateLimited,
    Rejected,
    Unavailable,
    Uncertain,
    Unreachable,
)
from trunkline.adapters.discord import DiscordAdapter


@pytest.fixture
async def emulator() -> AsyncIterator[DiscordEmulator]:
    async with DiscordEmulator().running() as emulator:
        yield emulator
    assert emulator.violations == []


@pytest.fixture
async def live(emulator: DiscordEmulator) -> AsyncIterator[Live]:
    async with live_adapter(emulator) as live:
        yield live


async def test_a_direct_message_is_answered_as_a_reply(live: Live) -> None:
    message_id = await live.emulator.direct_message("77", "hello")
    said = await live.nth(1)

    receipt = await live.adapter.send(outbound("hi", ChatRef(said.chat), reply_to=said.message_id))

    [answer] = live.emulator.sent(said.chat)
    assert (answer.id, answer.text, answer.reply_to) == (receipt.message_id, "hi", message_id)


async def test_an_answer_in_a_thread_goes_to_the_thread(live: Live) -> None:
    thread = await live.emulator.create_thread(live.emulator.general, "77", "plans")

    await live.adapter.send(outbound("here", ChatRef(live.emulator.general, thread)))

    assert live.emulator.texts(thread) == ["here"]
    assert live.emulator.texts(live.emulator.general) == []


async def test_a_reply_to_a_deleted_message_is_sent_without_it(live: Live) -> None:
    gone = await live.emulator.channel_message(live.emulator.general, "77", "oops")
    await live.emulator.delete(live.emulator.general, gone)

    await live.adapter.send(outbound("still here", ChatRef(live.emulator.general), reply_to=gone))

    assert live.emulator.texts(live.emulator.general) == ["still here"]


async def test_where_nothing_may_be_replied_to_an_answer_is_sent_all_the_same(live: Live) -> None:
    asked = await live.emulator.channel_message(live.emulator.general, "77", "hello")
    no_history = {"code": 160002, "message": "Cannot reply without permission to read message history"}
    live.emulator.fail_next("create_message", Fault(403, no_history))

    await live.adapter.send(outbound("hi", ChatRef(live.emulator.general), reply_to=asked))

    [answer] = live.emulator.sent(live.emulator.general)
    assert (answer.text, answer.reply_to) == ("hi", None)


async def test_a_chat_that_takes_no_files_is_not_given_up(live: Live) -> None:
    place = ChatRef(live.emulator.general)
    file = OutboundFile(AttachmentKind.DOCUMENT, "plan.txt", "text/plain", "0" * 64, b"x")
    live.emulator.fail_next("create_message", Fault(403, {"code": 50013, "message": "Missing Permissions"}))

    with pytest.raises(Rejected, match="attach files"):
        await live.adapter.send(replace(outbound("", place), file=file))


async def test_the_same_nonce_sends_once(live: Live) -> None:
    place = ChatRef(live.emulator.general)

    first = await live.adapter.send(outbound("once", place, nonce="turn1.0"))
    second = await live.adapter.send(outbound("once", place, nonce="turn1.0"))

    assert first == second
    assert live.emulator.texts() == ["once"]


async def test_a_lost_answer_can_be_asked_for_again_by_its_nonce(live: Live) -> None:
    place = ChatRef(live.emulator.general)
    live.emulator.fail_next("create_message", Fault(accept_then_drop=True))

    with pytest.raises(Unavailable):
        await live.adapter.send(outbound("once", place, nonce="turn1.0"))
    await live.adapter.send(outbound("once", place, nonce="turn1.0"))

    assert live.emulator.texts() == ["once"]


async def test_when_its_nonce_is_forgotten_a_message_is_looked_for_by_its_words(live: Live) -> None:
    place = ChatRef(live.emulator.general)
    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
    first = await live.adapter.send(outbound("once", place, nonce="turn1.0"))

    again = replace(outbound("once", place, nonce="turn1.1"), tried_since=an_hour_ago)
    second = await live.adapter.send(again)
    await live.adapter.send(replace(again, chunk=Chunk("another"), nonce="turn1.2"))

    assert first == second
    assert live.emulator.texts() == ["once", "another"]


async def test_a_lost_answer_without_a_nonce_is_uncertain(live: Live) -> None:
    live.emulator.fail_next("create_message", Fault(accept_then_drop=True))

    with pytest.raises(Uncertain):
        await live.adapter.send(outbound("once", ChatRef(live.emulator.general)))


async def test_only_the_asker_can_be_pinged(live: Live) -> None:
    channel = live.emulator.general
    asked = await live.emulator.channel_message(channel, "78", "who?")
    words = f"@everyone @here <@77> <@78> <@&{live.emulator.world.bot_role}>"

    await live.adapter.send(outbound(words, ChatRef(channel)))
    await live.adapter.send(outbound(words, ChatRef(channel), mention="77", reply_to=asked))
    first = await live.adapter.send(outbound("draft", ChatRef(channel)))
    await live.adapter.edit(first.message_id, outbound(words, ChatRef(channel), mention="77"))

    assert [message.pings for message in live.emulator.sent(channel)] == [(), ("77",), ()]
    bodies = [call.arguments["body"] for call in live.emulator.calls if "message" in call.method]
    assert all(body["allowed_mentions"]["parse"] == [] for body in bodies)


async def test_by_no_way_of_sending_does_a_text_call_everybody(live: Live) -> None:
    """DC-05.1: a thread, the answers to an interaction, an edit of one, a file, a button's message."""
    channel = live.emulator.general
    words = f"@everyone @here <@78> <@&{live.emulator.world.bot_role}>"
    thread = await live.emulator.create_thread(channel, "77", "plans")
    await live.emulator.slash("77", "search", "boats", channel=channel)
    asked = (await live.nth(1)).interaction
    shown = outbound(words, ChatRef(channel))
    file = OutboundFile(AttachmentKind.DOCUMENT, "@everyone.txt", "text/plain", "0" * 64, b"x")

    for place, more in (
        (ChatRef(channel, thread), {}),
        (ChatRef(channel), {"file": file, "chunk": Chunk("")}),
        (ChatRef(channel), {"buttons": (Button("retry", "@everyone", "7"),)}),
        (ChatRef(channel, None, asked), {"ephemeral": True}),
        (ChatRef(channel, None, asked), {"ephemeral": True}),
    ):
        sent = await live.adapter.send(replace(shown, to=place, **more))  # type: ignore[arg-type]
    await live.adapter.edit(sent.message_id, replace(shown, to=place, ephemeral=True))

    assert len(live.emulator.sent(channel)) == 4
    assert [one.pings for one in (*live.emulator.sent(channel), *live.emulator.sent(thread))] == [()] * 5
    bodies = [call.arguments.get("body") for call in live.emulator.calls]
    said = [body for body in bodies if isinstance(body, dict) and words in str(body.get("content"))]
    assert len(said) == 5
    assert all(body["allowed_mentions"]["parse"] == [] for body in said)


async def test_links_get_no_preview_and_quiet_means_silent(live: Live) -> None:
    await live.adapter.send(outbound("see https://example.org", ChatRef(live.emulator.general), quiet=True))

    suppress_embeds, silent = 1 << 2, 1 << 12
    assert live.emulator.sent()[0].flags == suppress_embeds | silent


async def test_an_own_message_is_edited_without_being_fetched(live: Live) -> None:
    place = ChatRef(live.emulator.general)
    receipt = await live.adapter.send(outbound("draft", place))

    edited = await live.adapter.edit(receipt.message_id, outbound("final", place))

    assert edited == receipt
    assert live.emulator.texts() == ["final"]
    assert live.emulator.calls_of("get_message") == []


async def test_an_edit_to_the_same_text_is_a_success(live: Live) -> None:
    place = ChatRef(live.emulator.general)
    receipt = await live.adapter.send(outbound("same", place))

    assert await live.adapter.edit(receipt.message_id, outbound("same", place)) == receipt


async def test_a_message_of_another_or_one_that_is_gone_cannot_be_edited(live: Live) -> None:
    place = ChatRef(live.emulator.general)
    foreign = await live.emulator.channel_message(live.emulator.general, "77", "mine")
    receipt = await live.adapter.send(outbound("draft", place))
    await live.emulator.delete(live.emulator.general, receipt.message_id)

    with pytest.raises(Rejected, match="50005"):
        await live.adapter.edit(foreign, outbound("yours", place))
    with pytest.raises(Rejected, match="10008"):
        await live.adapter.edit(receipt.message_id, outbound("final", place))


async def test_text_too_long_is_refused_for_good(live: Live) -> None:
    with pytest.raises(Rejected, match="2000 or fewer"):
        await live.adapter.send(outbound("x" * 2001, ChatRef(live.emulator.general)))


async def test_blank_text_never_reaches_discord(live: Live) -> None:
    with pytest.raises(Rejected):
        await live.adapter.send(outbound("   ", ChatRef(live.emulator.general)))

    assert live.emulator.calls_of("create_message") == []


async def test_a_long_answer_with_code_arrives_whole(live: Live) -> None:
    code = "\n".join(f"line_{number} = compute({number})" for number in range(300))
    prose = " ".join(f"word{number}" for number in range(300))
    markdown = f"{prose}\n\n```python\n{code}\n```\n\nDone."
    assert len(markdown) > 9000

    for chunk in live.adapter.render(markdown):
        await live.adapter.send(outbound(chunk.text, ChatRef(live.emulator.general)))

    texts = live.emulator.texts(live.emulator.general)
    assert all(len(text) <= 2000 and text.count("```") % 2 == 0 for text in texts)
    lines = [line for text in texts for line in text.splitlines() if not line.startswith("```")]
    assert [line for line in lines if line.startswith("line_")] == code.splitlines()
    assert " ".join(" ".join(lines).split()).startswith(prose)
    assert lines[-1] == "Done."


@pytest.mark.parametrize("refusal", ["refused_users", "hidden_channels", "read_only_channels"])
async def test_a_closed_chat_is_unreachable(live: Live, refusal: str) -> None:
    chat = live.emulator.direct_chat("77")
    getattr(live.emulator.rules, refusal).add("77" if refusal == "refused_users" else chat)

    with pytest.raises(Unreachable):
        await live.adapter.send(outbound("hi", ChatRef(chat)))


async def test_an_unknown_channel_and_a_locked_thread_are_unreachable(live: Live) -> None:
    thread = await live.emulator.create_thread(live.emulator.general, "77", "old")
    live.emulator.world.channels[thread]["thread_metadata"]["locked"] = True

    with pytest.raises(Unreachable):
        await live.adapter.send(outbound("hi", ChatRef("123456789")))
    with pytest.raises(Unreachable):
        await live.adapter.send(outbound("hi", ChatRef(live.emulator.general, thread)))


async def test_a_short_wait_is_sat_out_and_nothing_doubles(live: Live) -> None:
    live.emulator.fail_next("create_message", rate_limited(0.05))

    await live.adapter.send(outbound("hi", ChatRef(live.emulator.general)))

    assert live.emulator.texts() == ["hi"]
    assert len(live.emulator.calls_of("create_message")) == 2


@pytest.mark.parametrize("via", [True, False], ids=["the API", "the wall before it"])
async def test_a_long_wait_is_left_to_the_caller(live: Live, via: bool) -> None:
    live.emulator.fail_next("create_message", rate_limited(120, via=via))

    with pytest.raises(RateLimited) as limited:
        await live.adapter.send(outbound("hi", ChatRef(live.emulator.general)))

    assert 120 <= limited.value.retry_after_s <= 121


async def test_a_full_bucket_delays_its_own_channel_only(live: Live) -> None:
    live.emulator.rules.rate_limits["create_message"] = (2, 20)
    other = await live.emulator.create_channel("quiet")
    place = ChatRef(live.emulator.general)
    await live.adapter.send(outbound("1", place))

    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(live.adapter.send(outbound(text, place))) for text in "23"]
        await live.emulator.wait_for(lambda: live.emulator.texts(place.chat) == ["1", "2"])
        await live.adapter.send(outbound("elsewhere", ChatRef(other)))
        for task in waiting:
            task.cancel()

    assert live.emulator.texts(other) == ["elsewhere"]
    assert live.emulator.texts(place.chat) == ["1", "2"]


async def test_a_long_wait_known_beforehand_costs_no_request(live: Live) -> None:
    live.emulator.rules.rate_limits["create_message"] = (2, 3600)
    place = ChatRef(live.emulator.general)
    await live.adapter.send(outbound("1", place))

    async with asyncio.TaskGroup() as tasks:
        second = tasks.create_task(live.adapter.send(outbound("2", place)))
        with pytest.raises(RateLimited):
            await live.adapter.send(outbound("3", place))
        second.cancel()

    assert "3" not in live.emulator.texts()


async def test_typing_is_one_call_and_its_end_none(live: Live) -> None:
    await live.adapter.typing(ChatRef(live.emulator.general), on=True)
    await live.adapter.typing(ChatRef(live.emulator.general), on=False)

    assert len(live.emulator.calls_of("typing")) == 1


async def test_an_attachment_is_fetched(live: Live) -> None:
    file = live.emulator.attachment("notes.txt", b"some notes", "text/plain; charset=utf-8")
    await live.emulator.direct_message("77", "", attachments=[file])
    [attachment] = (await live.nth(1)).attachments

    assert await live.adapter.download(attachment, 1000) == b"some notes"
    assert (attachment.name, attachment.mime, attachment.size_bytes) == ("notes.txt", "text/plain", 10)


async def test_an_attachment_too_large_is_not_fetched(live: Live) -> None:
    file = live.emulator.attachment("film.mp4", b"x" * 5000, "video/mp4")
    liar = {**live.emulator.attachment("liar.bin", b"x" * 5000, "application/x"), "size": 10}
    await live.emulator.direct_message("77", "", attachments=[file, liar])
    large, lying = (await live.nth(1)).attachments

    with pytest.raises(Rejected, match=r"film\.mp4 is larger than 1000 bytes"):
        await live.adapter.download(large, 1000)
    assert live.emulator.calls_of("download") == []
    with pytest.raises(Rejected):
        await live.adapter.download(lying, 1000)


async def test_an_address_that_ran_out_is_renewed(live: Live) -> None:
    file = live.emulator.attachment("a.txt", b"content", "text/plain")
    await live.emulator.direct_message("77", "", attachments=[file])
    [attachment] = (await live.nth(1)).attachments
    live.emulator.fail_next("download", Fault(status=404))

    assert await live.adapter.download(attachment, 1000) == b"content"

    live.emulator.fail_next("download", Fault(status=404), times=2)
    with pytest.raises(Rejected):
        await live.adapter.download(attachment, 1000)


async def test_a_call_while_not_connected_is_safe_to_repeat(emulator: DiscordEmulator) -> None:
    adapter = DiscordAdapter(emulator.token, connector=emulator.connector)

    with pytest.raises(Unavailable):
        await adapter.send(outbound("hi", ChatRef(emulator.general)))


async def test_what_was_written_while_away_can_be_read_back(live: Live) -> None:
    channel = live.emulator.general
    first = live.emulator.world.new_message(channel, live.emulator.world.user("77"), "known")
    live.emulator.world.new_message(channel, live.emulator.world.user("77"), "missed")
    live.emulator.world.new_message(channel, live.emulator.world.users[live.emulator.bot_id], "own")
    live.emulator.world.new_message(channel, live.emulator.world.user("78"), "missed too")

    found = await live.adapter.read_back(ChatRef(channel), first["id"])

    assert [(said.text, said.sender.id, said.chat) for said in found] == [
        ("missed", "77", channel),
        ("missed too", "78", channel),
    ]


async def test_what_was_said_in_a_thread_before_has_the_names_of_channels(live: Live) -> None:
    general = live.emulator.general
    thread = await live.emulator.create_thread(general, "77", "plans")
    await live.emulator.channel_message(thread, "77", f"as in <#{general}>", mention=False)
    asked = await live.emulator.channel_message(thread, "77", "and now?")
    await live.nth(2)

    found = await live.adapter.said_before(ChatRef(general, thread), asked, 20)

    assert found[-1].text == f"as in #general ({general})"
