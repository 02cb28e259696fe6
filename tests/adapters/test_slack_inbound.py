"""What arrives from Slack, through the real slack_bolt and the emulator's Socket Mode."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.emulators.slack import BOT_ID, BOT_USER, TEAM, SlackEmulator
from tests.emulators.slack_bench import Bench, emulated, running, said
from trunkline.adapters.base import (
    ChatKind,
    InboundKind,
)
from trunkline.adapters.slack_inbound import Identity, InboundReader


@pytest.fixture
async def slack() -> AsyncIterator[SlackEmulator]:
    async with emulated() as emulator:
        yield emulator


@pytest.fixture
async def bench(slack: SlackEmulator) -> AsyncIterator[Bench]:
    async with running(slack) as started:
        yield started


# Coming in


async def test_a_direct_message_arrives_whole_and_is_acknowledged(bench: Bench) -> None:
    ts = await bench.slack.direct_message("U1", "Tom &amp; I: 1 &lt; 2")

    message = await bench.last()
    assert (message.text, message.chat, message.chat_kind) == ("Tom & I: 1 < 2", "D1", ChatKind.DIRECT)
    assert (message.platform, message.tenant, message.realm) == ("slack", BOT_USER, TEAM)
    assert (message.message_id, message.thread, message.mentions_me) == (ts, None, False)
    assert (message.sender.id, message.sender.is_bot, message.sender.is_person) == ("U1", False, True)
    assert message.sent_at.timestamp() == pytest.approx(float(ts), abs=1e-3)


async def test_nobody_is_looked_up_before_a_message_is_delivered(bench: Bench) -> None:
    await bench.slack.direct_message("U1", "hello <@U2>")

    message = await bench.last()
    assert (message.sender.label, message.text) == ("U1", "hello @U2")
    assert {call.method for call in bench.slack.calls} == {"auth.test", "apps.connections.open"}


async def test_a_name_asked_for_later_labels_the_next_message(bench: Bench) -> None:
    bench.slack.workspace.users["U2"] = "berta"
    assert [await bench.adapter.name_of("U2") for _ in range(2)] == ["berta", "berta"]

    await bench.slack.channel_message("C1", "U2", "it's <@U2>", mention=False)

    message = await bench.last()
    assert (message.sender.label, message.text) == ("berta", "it's @berta (U2)")
    assert len(bench.slack.calls_of("users.info")) == 1


async def test_the_twins_of_a_mention_have_one_inbox_key(bench: Bench) -> None:
    ts = await bench.slack.channel_message("C1", "U1", "what's new?")

    await bench.slack.all_acked()
    assert bench.inbox.keys == {f"m:C1:{ts}:0"}
    twins = bench.inbox.messages
    assert len(twins) == 2
    assert all(twin.mentions_me and twin.thread == ts and twin.text == "what's new?" for twin in twins)


async def test_top_level_talk_without_a_mention_has_no_thread(bench: Bench) -> None:
    await bench.slack.channel_message("C1", "U1", "lunch?", mention=False)

    message = await bench.last()
    assert (message.thread, message.mentions_me, message.chat_kind) == (None, False, ChatKind.GROUP)


async def test_a_reply_in_a_thread_names_its_thread_and_whose_it_is(bench: Bench) -> None:
    receipt = await bench.adapter.send(said("a question"))
    await bench.slack.channel_message("C1", "U2", "an answer", mention=False, thread=receipt.message_id)

    message = await bench.last()
    assert (message.thread, message.chat_kind) == (receipt.message_id, ChatKind.THREAD)
    assert message.reply_to is not None
    assert (message.reply_to.message_id, message.reply_to.is_own) == (receipt.message_id, True)


async def test_a_thread_in_a_direct_chat_is_a_session_of_its_own(bench: Bench) -> None:
    root = await bench.slack.direct_message("U1", "plan the trip")
    await bench.slack.direct_message("U1", "by train", thread=root)

    await bench.slack.all_acked()
    first, second = bench.inbox.messages
    assert (first.thread, second.thread) == (None, root)
    assert second.chat_kind is ChatKind.DIRECT


async def test_the_same_ids_in_two_workspaces_have_two_realms(bench: Bench) -> None:
    await bench.slack.direct_message("U1", "one", team="T1")
    await bench.slack.direct_message("U1", "two", team="T2")

    await bench.slack.all_acked()
    assert [message.realm for message in bench.inbox.messages] == ["T1", "T2"]


@pytest.mark.parametrize(("installed_in", "realm"), [("E0ORG", "T2"), ("T0TEAM", "T0TEAM")])
def test_what_is_read_back_is_of_its_own_workspace_where_an_organisation_has_the_app(
    installed_in: str, realm: str
) -> None:
    reader = InboundReader(Identity("UBOT", "BBOT", installed_in), frozenset(), lambda _: None)
    said = reader.read_again(
        {"type": "message", "user": "WANA", "team": "T2", "text": "hello", "ts": "1.000001"}, "C1"
    )
    assert said is not None
    assert (said.realm, said.sender.id, said.text) == (realm, "WANA", "hello")


def test_what_is_written_in_a_shared_channel_is_of_the_workspace_that_has_the_app() -> None:
    reader = InboundReader(Identity("UBOT", "BBOT", "T0TEAM"), frozenset(), lambda _: None)
    event = {"type": "message", "user": "U9", "text": "hello", "ts": "1.000001", "channel": "C1"}
    one_workspace = [{"team_id": "T0TEAM", "is_enterprise_install": False}]
    organisation = [{"team_id": None, "is_enterprise_install": True}]

    realms = []
    for authorizations in (one_workspace, organisation, None):
        said = reader.read({"team_id": "T9", "event": event, "authorizations": authorizations})
        assert said is not None
        realms.append(said.realm)
    assert realms == ["T0TEAM", "T9", "T9"]


def test_a_press_is_of_its_persons_workspace_where_an_organisation_has_the_app() -> None:
    reader = InboundReader(Identity("UBOT", "BBOT", "E0ORG"), frozenset(), lambda _: None)
    pressed = reader.read(
        {
            "type": "block_actions",
            "user": {"id": "W1", "team_id": "T2"},
            "team": None,
            "channel": {"id": "C1"},
            "actions": [{"action_id": "stop:7"}],
            "trigger_id": "1",
        }
    )
    assert pressed is not None
    assert pressed.realm == "T2"


def test_a_channel_that_got_another_id_is_named_by_both() -> None:
    reader = InboundReader(Identity("UBOT", "BBOT", "T0TEAM"), frozenset(), lambda _: None)
    event = {"type": "channel_id_changed", "old_channel_id": "G1", "new_channel_id": "C9", "event_ts": "7.0"}

    moved = reader.read({"team_id": "T0TEAM", "event_id": "Ev1", "event": event})

    assert moved is not None
    assert (moved.kind, moved.chat, moved.moved_from) == (InboundKind.MEMBERSHIP, "C9", "G1")


async def test_own_posts_edits_and_deletions_are_ignored(bench: Bench) -> None:
    receipt = await bench.adapter.send(said("first"))
    await bench.adapter.edit(receipt.message_id, said("second"))
    await bench.slack.bot_message("C1", "mine under another name", bot_id=BOT_ID)
    await bench.slack.message_deleted("C1", receipt.message_id)

    await bench.slack.all_acked()
    assert len(bench.slack.socket.deliveries) == 4
    assert bench.inbox.messages == []


@pytest.mark.parametrize("user", [None, "U0OTHER"], ids=["classic", "bot user"])
async def test_another_bot_is_a_bot_and_no_person(bench: Bench, user: str | None) -> None:
    await bench.slack.bot_message("C1", f"<@{BOT_USER}> ping", user=user)

    message = await bench.last()
    assert message.sender.is_bot
    assert not message.sender.is_person


async def test_a_link_card_is_no_edit(bench: Bench) -> None:
    ts = await bench.slack.direct_message("U1", "<https://example.com>")
    await bench.slack.link_unfurled("D1", ts)

    await bench.slack.all_acked()
    assert [message.kind for message in bench.inbox.messages] == [InboundKind.MESSAGE]


async def test_a_change_that_leaves_the_words_as_they_were_is_no_edit(bench: Bench) -> None:
    """SL-10.1."""
    ts = await bench.slack.direct_message("U1", "tea")
    await bench.slack.message_changed("D1", ts, "tea")

    await bench.slack.all_acked()
    assert len(bench.slack.socket.deliveries) == 2
    assert [message.kind for message in bench.inbox.messages] == [InboundKind.MESSAGE]


async def test_an_edit_names_its_message_and_has_a_version_of_its_own(bench: Bench) -> None:
    ts = await bench.slack.direct_message("U1", "tea")
    await bench.slack.message_changed("D1", ts, "coffee")
    await bench.slack.message_changed("D1", ts, "cocoa")

    await bench.slack.all_acked()
    original, first, second = bench.inbox.messages
    assert [m.kind for m in (first, second)] == [InboundKind.EDIT] * 2
    assert (first.text, first.edited_of, first.message_id) == ("coffee", ts, ts)
    assert original.version < first.version < second.version
    assert len(bench.inbox.keys) == 3


async def test_an_edit_that_adds_the_mention_is_an_edit_in_its_own_thread(bench: Bench) -> None:
    ts = await bench.slack.channel_message("C1", "U1", "anyone?", mention=False)
    await bench.slack.message_changed("C1", ts, f"<@{BOT_USER}> anyone?")

    message = await bench.last()
    assert (message.kind, message.mentions_me, message.thread) == (InboundKind.EDIT, True, ts)


async def test_an_app_mention_made_by_an_edit_is_that_edit(bench: Bench) -> None:
    ts = await bench.slack.channel_message("C1", "U1", "anyone?", mention=False)
    await bench.slack.message_changed("C1", ts, f"<@{BOT_USER}> anyone?")
    post = bench.slack.workspace.channels["C1"].posts[ts]
    mention = bench.slack.workspace.message(post) | {"type": "app_mention", "channel": "C1", "event_ts": ts}
    await bench.slack.emit(mention)

    await bench.slack.all_acked()
    _, changed, mentioned = bench.inbox.messages
    assert changed.key == mentioned.key


async def test_a_deletion_names_its_message_and_not_the_key_of_the_original(bench: Bench) -> None:
    ts = await bench.slack.channel_message("C1", "U1", "oops", mention=False)
    await bench.slack.message_deleted("C1", ts)

    message = await bench.last()
    assert (message.kind, message.edited_of, message.text) == (InboundKind.DELETION, ts, "")
    assert len(bench.inbox.keys) == 2


async def test_the_emptied_root_of_a_thread_is_a_deletion(bench: Bench) -> None:
    ts = await bench.slack.channel_message("C1", "U1", "oops", mention=False)
    before = {"type": "message", "user": "U1", "ts": ts, "text": "oops", "channel": "C1", "event_ts": ts}
    tombstone = before | {"subtype": "tombstone", "text": "This message was deleted.", "user": "USLACKBOT"}
    event = {"type": "message", "subtype": "message_changed", "hidden": True, "channel": "C1", "ts": "1.1"}
    kind = {"channel_type": "channel", "event_ts": "1700000000.000100"}
    await bench.slack.emit(event | kind | {"message": tombstone, "previous_message": before}, checked=False)

    message = await bench.last()
    assert (message.kind, message.edited_of, message.sender.id) == (InboundKind.DELETION, ts, "U1")


@pytest.mark.parametrize(
    ("wire", "plain"),
    [
        ("&amp;lt;", "&lt;"),
        ("<https://e.test/?a=1&amp;b=2|site>", "site (https://e.test/?a=1&b=2)"),
        ("<https://e.test>", "https://e.test"),
        ("<http://e.test|e.test>", "http://e.test"),
        ("<mailto:a@e.test|a@e.test>", "a@e.test"),
        ("<@U9|zoe> in <#C9|general> and <#C8>", "@zoe (U9) in #general (C9) and #C8"),
        ("<!here> <!channel> <!subteam^S1|@crew>", "@here @channel @crew"),
        (f"<@{BOT_USER}>, ask <@{BOT_USER}> about it", "ask about it"),
        ("`a &lt; b`", "`a < b`"),
    ],
)
async def test_entities_become_plain_text(bench: Bench, wire: str, plain: str) -> None:
    await bench.slack.direct_message("U1", wire)

    assert (await bench.last()).text == plain


async def test_a_mention_of_another_says_that_the_bot_is_not_meant(bench: Bench) -> None:
    await bench.slack.channel_message("C1", "U1", "<@U2> and you?", mention=False)
    assert (await bench.last()).mentions_others
    await bench.slack.channel_message("C1", "U1", "ask <@U2>", mention=True)
    assert not (await bench.last()).mentions_others


async def test_a_forwarded_message_says_who_wrote_it(bench: Bench) -> None:
    bench.slack.workspace.direct_channel("U1")
    shared = {"is_share": True, "author_name": "Zoe", "text": "meet at 5", "fallback": "meet at 5"}
    event = {
        "type": "message",
        "user": "U1",
        "ts": "1700000000.000100",
        "channel": "D1",
        "channel_type": "im",
    }
    await bench.slack.emit(event | {"event_ts": "1700000000.000100", "text": "fyi", "attachments": [shared]})

    assert (await bench.last()).text == "fyi\n[forwarded, Zoe wrote: meet at 5]"


@pytest.mark.parametrize("subtype", ["channel_join", "channel_topic", "pinned_item", "assistant_app_thread"])
async def test_notices_of_the_workspace_are_acknowledged_and_ignored(bench: Bench, subtype: str) -> None:
    event = {"type": "message", "subtype": subtype, "user": "U1", "ts": "1.1", "channel": "C1", "text": "x"}
    await bench.slack.emit(event | {"event_ts": "1.1"})
    await bench.slack.emit({"type": "team_rename", "name": "New", "event_ts": "1.2"})

    await bench.slack.all_acked()
    assert bench.inbox.messages == []


async def test_an_event_that_makes_no_sense_is_acknowledged_and_dropped(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    event = {"type": "message", "ts": {}, "text": "secret words", "channel": "C1"}
    await bench.slack.emit(event | {"user": 7}, checked=False)
    await bench.slack.emit(event | {"user": "U1"}, checked=False)

    await bench.slack.all_acked()
    assert bench.inbox.messages == []
    assert caplog.text.count("not understood") == 2
    assert "secret words" not in caplog.text


async def test_the_bot_being_added_and_removed_is_a_membership(bench: Bench) -> None:
    await bench.slack.member_joined("C1", BOT_USER, inviter="U2")
    await bench.slack.emit({"type": "channel_left", "channel": "C1", "actor_id": "U1", "event_ts": "1.2"})

    await bench.slack.all_acked()
    messages = bench.inbox.messages
    assert [message.text for message in messages] == ["joined", "left"]
    assert all(message.kind is InboundKind.MEMBERSHIP for message in messages)
    assert {message.sender.id for message in messages} == {BOT_USER}


async def test_a_person_who_leaves_is_a_membership_and_one_who_joins_is_not(bench: Bench) -> None:
    await bench.slack.member_joined("C1", "U2")
    await bench.slack.member_left("C1", "U2")

    message = await bench.last()
    assert len(bench.inbox.messages) == 1
    assert (message.text, message.sender.id, message.mentions_me) == ("left", "U2", False)


# Commands


async def test_the_slash_command_is_a_command_with_an_interaction(bench: Bench) -> None:
    delivery = await bench.slack.slash("U1", "C1", "Model  gpt &amp; co")

    message = await bench.last()
    assert (message.kind, message.command, message.text) == (InboundKind.COMMAND, "model", "gpt & co")
    assert message.interaction is not None
    assert message.interaction_expires is not None
    assert message.interaction_expires - datetime.now(UTC) > timedelta(minutes=29)
    assert message.key.startswith("e:trigger:")
    assert delivery.answer is None


async def test_the_slash_command_alone_is_help(bench: Bench) -> None:
    await bench.slack.slash("U1", "D1", "")

    message = await bench.last()
    assert (message.command, message.text, message.chat_kind) == ("help", "", ChatKind.DIRECT)


@pytest.mark.parametrize(
    ("text", "command", "argument"),
    [
        ("!stop", "stop", ""),
        ("!MODEL gpt 5", "model", "gpt 5"),
        ("/model\ngpt", "model", "gpt"),
        ("!dance now", None, "!dance now"),
        ("stop", None, "stop"),
        ("please !stop", None, "please !stop"),
    ],
)
async def test_commands_in_a_direct_chat(bench: Bench, text: str, command: str | None, argument: str) -> None:
    await bench.slack.direct_message("U1", text)

    message = await bench.last()
    assert (message.command, message.text) == (command, argument)
    assert (message.kind is InboundKind.COMMAND) == (command is not None)


@pytest.mark.parametrize(
    ("text", "command"),
    [("Stop", "stop"), ("!stop", "stop"), ("/model x", "model"), ("help me with this", None)],
)
async def test_commands_after_a_mention_leave_ordinary_sentences_alone(
    bench: Bench, text: str, command: str | None
) -> None:
    root = await bench.slack.channel_message("C1", "U1", "root", mention=False)
    await bench.slack.channel_message("C1", "U1", text, thread=root)

    message = await bench.last()
    assert (message.command, message.thread) == (command, root)


async def test_an_exclamation_mark_at_the_top_of_a_channel_is_not_ours(bench: Bench) -> None:
    await bench.slack.channel_message("C1", "U1", "!help", mention=False)

    assert (await bench.last()).kind is InboundKind.MESSAGE


async def test_a_pressed_button_arrives_with_the_message_it_is_under(bench: Bench) -> None:
    receipt = await bench.adapter.send(said("an answer"))
    await bench.slack.press("U1", "C1", receipt.message_id, "stop", "stop:7")

    message = await bench.last()
    assert (message.kind, message.text) == (InboundKind.BUTTON, "stop:7")
    assert message.reply_to is not None
    assert message.reply_to.message_id == receipt.message_id
