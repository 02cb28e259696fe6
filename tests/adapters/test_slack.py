"""What goes out to Slack: messages, edits, private answers, the status, files, and every refusal."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.emulators.base import Fault
from tests.emulators.slack import APP_TOKEN, BOT_TOKEN, BOT_USER, SlackEmulator
from tests.emulators.slack_bench import QUICK, Bench, emulated, running, said
from trunkline.adapters.base import (
    AdapterError,
    AttachmentKind,
    ChatRef,
    Chunk,
    OutboundMessage,
    RateLimited,
    Rejected,
    Unauthorized,
    Unavailable,
    Uncertain,
    Unreachable,
)
from trunkline.adapters.slack import SlackAdapter


@pytest.fixture
async def slack() -> AsyncIterator[SlackEmulator]:
    async with emulated() as emulator:
        yield emulator


@pytest.fixture
async def bench(slack: SlackEmulator) -> AsyncIterator[Bench]:
    async with running(slack) as started:
        yield started


# Going out


async def test_a_message_goes_to_its_thread_without_link_cards(bench: Bench) -> None:
    root = await bench.slack.channel_message("C1", "U1", "hi")
    receipt = await bench.adapter.send(said("*hello* <https://example.com>", thread=root, nonce="t7.0"))

    (post,) = bench.slack.sent("C1", root)
    assert (post.ts, post.text) == (receipt.message_id, "*hello* <https://example.com>")
    assert (post.arguments["unfurl_links"], post.arguments["unfurl_media"]) == (False, False)
    assert post.metadata == {"event_type": "trunkline", "event_payload": {"nonce": "t7.0"}}


async def test_an_edit_replaces_the_text(bench: Bench) -> None:
    receipt = await bench.adapter.send(said("thinking"))
    await bench.adapter.edit(receipt.message_id, said("thought"))

    assert bench.slack.texts("C1") == ["thought"]


async def test_every_chunk_can_be_put_in_place_by_an_edit(bench: Bench) -> None:
    receipt = await bench.adapter.send(said("…"))
    chunks = bench.adapter.render("ü<&> " * 3000)

    for chunk in chunks:
        await bench.adapter.edit(receipt.message_id, OutboundMessage(ChatRef("C1"), chunk))

    assert len(chunks) > 3
    assert bench.slack.texts("C1") == [chunks[-1].text]


async def test_a_long_answer_with_code_is_delivered_whole(bench: Bench) -> None:
    code = "\n".join(f"if a{n} < b{n} && c{n}: print('<!channel>')" for n in range(160))
    prose = " ".join(f"word{n}" for n in range(400))
    answer = f"{prose}\n\n```python\n{code}\n```\n\nThat is all."
    assert len(answer) > 9000

    for chunk in bench.adapter.render(answer):
        await bench.adapter.send(OutboundMessage(ChatRef("C1"), chunk))

    texts = bench.slack.texts("C1")
    assert all(len(text.encode()) <= 4000 and text.count("```") % 2 == 0 for text in texts)
    shown = re.sub(r"\n?```\n?", "\n", "\n".join(texts))
    shown = shown.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    assert shown.split() == [word for word in answer.split() if not word.startswith("```")]


@pytest.mark.parametrize("ping", ["<!channel>", "<!here>", "<!everyone>", "<@U2>", "<!subteam^S1>"])
async def test_the_model_can_ping_nobody(bench: Bench, ping: str) -> None:
    rendered = bench.adapter.render(f"look: {ping} and `{ping}`")
    for chunk in (*rendered, Chunk(f"raw {ping}")):
        await bench.adapter.send(OutboundMessage(ChatRef("C1"), chunk, mention="U1"))

    assert len(bench.slack.texts("C1")) == 2
    assert not [text for text in bench.slack.texts("C1") if re.search("<[!@]", text)]


async def test_only_the_asker_can_be_mentioned_and_never_in_code(bench: Bench) -> None:
    (chunk,) = bench.adapter.render("Done, <@U1>, unlike <@U2>. `<@U1>`")
    await bench.adapter.send(OutboundMessage(ChatRef("C1"), chunk, mention="U1"))

    (text,) = bench.slack.texts("C1")
    assert text.count("<@U1>") == 1
    assert "&lt;@U2&gt;" in text
    assert "`&lt;@U1&gt;`" in text


async def test_a_private_answer_goes_through_the_response_url(bench: Bench) -> None:
    await bench.slack.slash("U1", "C1", "whoami")
    asked = await bench.last()
    to = ChatRef("C1", None, asked.interaction, asked.interaction_expires)
    await bench.adapter.send(OutboundMessage(to, Chunk("you are U1"), ephemeral=True))

    (whisper,) = bench.slack.whispers
    assert (whisper.user, whisper.text, whisper.via) == ("U1", "you are U1", "response_url")
    assert bench.slack.texts("C1") == []


async def test_a_private_answer_still_reaches_only_the_asker_when_the_url_is_used_up(bench: Bench) -> None:
    await bench.slack.slash("U1", "C1", "whoami")
    asked = await bench.last()
    to = ChatRef("C1", None, asked.interaction, asked.interaction_expires)
    for n in range(6):
        await bench.adapter.send(OutboundMessage(to, Chunk(f"{n}"), ephemeral=True))

    assert [(w.text, w.via) for w in bench.slack.whispers][-2:] == [
        ("4", "response_url"),
        ("5", "postEphemeral"),
    ]
    assert {whisper.user for whisper in bench.slack.whispers} == {"U1"}


async def test_a_private_answer_after_the_url_expired_goes_to_the_asker_in_the_chat(bench: Bench) -> None:
    await bench.slack.slash("U1", "C1", "whoami")
    asked = await bench.last()
    to = ChatRef("C1", None, asked.interaction, datetime.now(UTC) - timedelta(seconds=1))
    await bench.adapter.send(OutboundMessage(to, Chunk("late"), ephemeral=True))

    assert [(w.user, w.via) for w in bench.slack.whispers] == [("U1", "postEphemeral")]


async def test_a_private_answer_in_a_thread_goes_to_the_asker_there(bench: Bench) -> None:
    root = await bench.slack.channel_message("C1", "U1", "!whoami")
    await bench.adapter.send(said("you are U1", thread=root, ephemeral=True, mention="U1"))

    assert [(w.user, w.thread) for w in bench.slack.whispers] == [("U1", root)]


async def test_a_private_answer_to_nobody_is_never_made_public(bench: Bench) -> None:
    with pytest.raises(Rejected):
        await bench.adapter.send(said("secret", ephemeral=True))

    assert bench.slack.texts("C1") == []


async def test_a_slash_command_where_the_bot_is_no_member_is_answered_to_its_asker(bench: Bench) -> None:
    bench.slack.workspace.add_channel("C2", "channel", ("U1",)).members.discard(BOT_USER)
    await bench.slack.slash("U1", "C2", "help")
    asked = await bench.last()
    to = ChatRef("C2", None, asked.interaction, asked.interaction_expires)
    await bench.adapter.send(OutboundMessage(to, Chunk("this is what I can do")))

    assert [(w.user, w.text) for w in bench.slack.whispers] == [("U1", "this is what I can do")]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("channel_not_found", Unreachable),
        ("not_in_channel", Unreachable),
        ("is_archived", Unreachable),
        ("restricted_action_thread_locked", Unreachable),
        ("cannot_reply_to_message", Unreachable),
        ("thread_not_found", Unreachable),
        ("invalid_auth", Unauthorized),
        ("token_revoked", Unauthorized),
        ("account_inactive", Unauthorized),
        ("msg_too_long", Rejected),
        ("missing_scope", Rejected),
        ("service_unavailable", Unavailable),
        ("fatal_error", Uncertain),
    ],
)
async def test_a_refusal_has_the_kind_that_says_what_to_do(
    bench: Bench, error: str, kind: type[AdapterError]
) -> None:
    bench.slack.refuse_next("chat.postMessage", error)

    with pytest.raises(AdapterError) as caught:
        await bench.adapter.send(said("hello"))
    assert type(caught.value) is kind
    assert bench.slack.texts("C1") == []


async def test_an_archived_channel_is_unreachable(bench: Bench) -> None:
    bench.slack.workspace.channels["C1"].archived = True

    with pytest.raises(Unreachable):
        await bench.adapter.send(said("hello"))


async def test_too_fast_is_told_at_once_with_the_time_to_wait(bench: Bench) -> None:
    bench.slack.limit_next("chat.postMessage", 30)
    with pytest.raises(RateLimited) as caught:
        await bench.adapter.send(said("hello"))
    assert caught.value.retry_after_s == 30
    assert len(bench.slack.calls_of("chat.postMessage")) == 1


async def test_too_fast_said_with_status_200_is_too_fast_all_the_same(bench: Bench) -> None:
    receipt = await bench.adapter.send(said("hello"))
    headers = {"Retry-After": "7"}
    bench.slack.fail_next("chat.update", Fault(200, {"ok": False, "error": "ratelimited"}, headers))

    with pytest.raises(RateLimited) as caught:
        await bench.adapter.edit(receipt.message_id, said("hello again"))
    assert caught.value.retry_after_s == 7


async def test_a_message_that_never_left_is_unavailable(slack: SlackEmulator) -> None:
    adapter = SlackAdapter(BOT_TOKEN, APP_TOKEN, base_url="http://127.0.0.1:9/api/", timing=QUICK)

    with pytest.raises(Unavailable):
        await adapter.send(said("hello"))


async def test_a_message_lost_on_the_way_is_uncertain_and_not_repeated(bench: Bench) -> None:
    bench.slack.fail_next("chat.postMessage", Fault(drop=True))

    with pytest.raises(Uncertain):
        await bench.adapter.send(said("hello", nonce="t1.0"))
    assert len(bench.slack.calls_of("chat.postMessage")) == 1


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_message_whose_answer_was_lost_is_found_by_its_nonce(bench: Bench, in_thread: bool) -> None:
    root = await bench.slack.channel_message("C1", "U1", "hi")
    thread = root if in_thread else None
    bench.slack.fail_next("chat.postMessage", Fault(accept_then_drop=True))

    receipt = await bench.adapter.send(said("hello", thread=thread, nonce="t1.0"))

    (post,) = bench.slack.sent("C1", thread)
    assert receipt.message_id == post.ts
    assert await bench.adapter.find(ChatRef("C1", thread), "t1.1") is None


async def test_a_message_that_may_have_arrived_before_is_looked_for_first(bench: Bench) -> None:
    began = datetime.now(UTC)
    first = await bench.adapter.send(said("hello", nonce="t1.0"))

    again = await bench.adapter.send(said("hello", nonce="t1.0", tried_since=began))
    await bench.adapter.send(said("and more", nonce="t1.1", tried_since=began))

    assert again == first
    assert bench.slack.texts("C1") == ["hello", "and more"]


async def test_a_server_error_without_sense_is_uncertain(bench: Bench) -> None:
    bench.slack.fail_next("chat.postMessage", Fault(status=502, body=None))

    with pytest.raises(Uncertain):
        await bench.adapter.send(said("hello"))


async def test_an_edit_whose_answer_was_lost_may_be_repeated(bench: Bench) -> None:
    receipt = await bench.adapter.send(said("one"))
    bench.slack.fail_next("chat.update", Fault(accept_then_drop=True))

    with pytest.raises(Unavailable):
        await bench.adapter.edit(receipt.message_id, said("two"))


async def test_an_edit_of_anothers_message_is_rejected(bench: Bench) -> None:
    ts = await bench.slack.channel_message("C1", "U1", "mine")

    with pytest.raises(Rejected, match="cant_update_message"):
        await bench.adapter.edit(ts, said("yours"))


# The status


async def test_the_status_is_of_the_thread_and_cleared_only_there(bench: Bench) -> None:
    one = await bench.slack.channel_message("C1", "U1", "first")
    two = await bench.slack.channel_message("C1", "U2", "second")
    for thread in (one, two):
        await bench.adapter.typing(ChatRef("C1", thread), on=True)
    await bench.adapter.typing(ChatRef("C1", one), on=False)

    assert list(bench.slack.workspace.statuses) == [("C1", two)]


async def test_a_chat_without_a_thread_has_no_status(bench: Bench) -> None:
    await bench.adapter.typing(ChatRef("C1"), on=True)

    assert bench.slack.calls_of("assistant.threads.setStatus") == []


@pytest.mark.parametrize(
    "error", ["channel_type_not_supported", "missing_scope", "invalid_auth", "ratelimited"]
)
async def test_a_refused_status_fails_nothing_and_is_not_tried_on_and_on(bench: Bench, error: str) -> None:
    root = await bench.slack.channel_message("C1", "U1", "hi")
    bench.slack.refuse_next("assistant.threads.setStatus", error)

    await bench.adapter.typing(ChatRef("C1", root), on=True)
    await bench.adapter.typing(ChatRef("C1", root), on=True)

    assert len(bench.slack.calls_of("assistant.threads.setStatus")) == 1


# Files


async def test_a_file_arrives_as_an_attachment_and_is_fetched_with_the_token(bench: Bench) -> None:
    file = bench.slack.store_file("cat.png", "image/png", b"\x89PNG cat")
    await bench.slack.direct_message("U1", "look", files=[file])

    message = await bench.last()
    (attachment,) = message.attachments
    assert (attachment.kind, attachment.name, attachment.size_bytes) == (AttachmentKind.IMAGE, "cat.png", 8)
    assert message.text == "look"
    assert await bench.adapter.download(attachment, 100) == b"\x89PNG cat"


async def test_a_stub_from_another_organisation_is_asked_for_first(bench: Bench) -> None:
    file = bench.slack.store_file("plan.pdf", "application/pdf", b"%PDF", stub=True)
    await bench.slack.direct_message("U1", "", files=[file])

    (attachment,) = (await bench.last()).attachments
    assert await bench.adapter.download(attachment, 100) == b"%PDF"
    assert len(bench.slack.calls_of("files.info")) == 1


async def test_a_sign_in_page_is_no_picture_and_the_error_names_the_scope(bench: Bench) -> None:
    file = bench.slack.store_file("cat.png", "image/png", b"cat")
    await bench.slack.direct_message("U1", "", files=[file])
    (attachment,) = (await bench.last()).attachments
    bench.slack.scopes.discard("files:read")

    with pytest.raises(AdapterError, match="files:read"):
        await bench.adapter.download(attachment, 100)


async def test_a_file_asked_for_too_fast_is_waited_for_even_with_an_odd_time(bench: Bench) -> None:
    file = bench.slack.store_file("cat.png", "image/png", b"cat")
    await bench.slack.direct_message("U1", "", files=[file])
    (attachment,) = (await bench.last()).attachments
    bench.slack.fail_next("download", Fault(429, headers={"Retry-After": "soon"}))

    with pytest.raises(RateLimited) as caught:
        await bench.adapter.download(attachment, 100)
    assert caught.value.retry_after_s == 10


async def test_a_file_over_the_limit_is_rejected(bench: Bench) -> None:
    file = bench.slack.store_file("big.bin", "application/zip", b"x" * 300_000)
    await bench.slack.direct_message("U1", "", files=[file])
    (attachment,) = (await bench.last()).attachments

    with pytest.raises(Rejected, match="larger than 1000 bytes"):
        await bench.adapter.download(attachment, 1000)


async def test_the_token_is_never_sent_to_another_host(bench: Bench) -> None:
    async with SlackEmulator().running() as elsewhere:
        address = f"{elsewhere.url}/files-pri/T-F/secret.txt"
        file = bench.slack.store_file("s.txt", "text/plain", b"", external_url=address)
        await bench.slack.direct_message("U1", "", files=[file])
        (attachment,) = (await bench.last()).attachments

        with pytest.raises(Rejected, match="outside Slack"):
            await bench.adapter.download(attachment, 1000)
        assert elsewhere.calls == []
