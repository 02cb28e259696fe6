"""Slack's buttons, reactions, assistant pane and names, over the real library against the emulator."""

from collections.abc import AsyncIterator, Sequence

import pytest

from tests.emulators.slack import APP_TOKEN, BOT_TOKEN, TEAM, SlackEmulator
from tests.emulators.slack_bench import QUICK, Bench, Inbox, emulated, running, said
from trunkline.adapters.base import Button, ChatRef, Chunk, InboundKind, OutboundMessage, Rejected
from trunkline.adapters.slack import SlackAdapter

STOP = Button("stop", "■ Stop", "7")
PROMPTS = ("What can you do?", "What do you remember about me?")


@pytest.fixture
async def slack() -> AsyncIterator[SlackEmulator]:
    async with emulated() as emulator:
        yield emulator


@pytest.fixture
async def bench(slack: SlackEmulator) -> AsyncIterator[Bench]:
    async with running(slack) as bench:
        yield bench


async def test_buttons_stand_under_a_message_until_an_edit_takes_them_away(bench: Bench) -> None:
    sent = await bench.adapter.send(said("Working", buttons=(STOP,)))
    shown = [button["value"] for button in bench.slack.sent("C1")[0].buttons]
    await bench.adapter.edit(sent.message_id, said("Done"))

    assert shown == ["stop:7"]
    assert (bench.slack.texts("C1"), bench.slack.sent("C1")[0].buttons) == (["Done"], [])


async def test_a_press_arrives_and_is_answered_for_its_presser_alone(bench: Bench) -> None:
    sent = await bench.adapter.send(said("Working", buttons=(STOP,)))

    delivery = await bench.slack.press("U1", "C1", sent.message_id, STOP.payload, STOP.payload)
    press = await bench.last()
    to = ChatRef(press.chat, press.thread, press.interaction, press.interaction_expires)
    await bench.adapter.send(OutboundMessage(to, Chunk("Not yours."), ephemeral=True, private=True))

    assert delivery.acked.is_set()
    assert (press.kind, press.text, press.sender.id) == (InboundKind.BUTTON, "stop:7", "U1")
    assert press.reply_to is not None
    assert press.reply_to.message_id == sent.message_id
    assert [(whisper.user, whisper.text) for whisper in bench.slack.whispers] == [("U1", "Not yours.")]


async def test_a_reaction_is_read_and_put_by_its_emoji(bench: Bench) -> None:
    sent = await bench.adapter.send(said("Done"))

    await bench.slack.react("U1", "C1", sent.message_id, "+1::skin-tone-3")
    put = await bench.last()
    await bench.slack.react("U1", "C1", sent.message_id, "+1", taken=True)
    taken = await bench.last()
    await bench.adapter.react(ChatRef("C1"), sent.message_id, "👀")
    await bench.adapter.react(ChatRef("C1"), sent.message_id, "👀")

    assert (put.kind, put.text, put.chat, put.sender.id) == (InboundKind.REACTION, "👍", "C1", "U1")
    assert put.reply_to is not None
    assert (put.reply_to.message_id, put.reply_to.is_own) == (sent.message_id, True)
    assert taken.text == ""
    assert "eyes" in bench.slack.sent("C1")[0].reactions
    with pytest.raises(Rejected):
        await bench.adapter.react(ChatRef("C1"), sent.message_id, "🧶")


async def suggest(team: str, user: str) -> Sequence[str]:
    """To U1 alone: the house knows nobody else."""
    return PROMPTS if (team, user) == (TEAM, "U1") else ()


async def test_a_pane_that_opens_gets_suggestions_and_later_a_title(slack: SlackEmulator) -> None:
    adapter = SlackAdapter(BOT_TOKEN, APP_TOKEN, base_url=slack.api_url, timing=QUICK, suggest=suggest)
    inbox = Inbox()
    async with running(slack, inbox, adapter) as bench:
        await slack.open_pane("U2")
        thread = await slack.open_pane("U1")
        await slack.wait_for(lambda: slack.web.prompts)
        await slack.direct_message("U1", "Plan my week", thread=thread)
        asked = await bench.last()
        await adapter.entitle(ChatRef(asked.chat, asked.thread), "A week in May")

    [suggested] = slack.web.prompts
    assert [prompt["message"] for prompt in suggested["prompts"]] == list(PROMPTS)
    assert (len(inbox.messages), asked.thread) == (1, thread)
    assert slack.web.titles == {(asked.chat, thread): "A week in May"}


async def test_a_pane_whose_suggestions_are_refused_is_acknowledged_all_the_same(
    slack: SlackEmulator,
) -> None:
    slack.refuse_next("assistant.threads.setSuggestedPrompts", "missing_scope")
    adapter = SlackAdapter(BOT_TOKEN, APP_TOKEN, base_url=slack.api_url, timing=QUICK, suggest=suggest)
    async with running(slack, Inbox(), adapter):
        await slack.open_pane("U1")
        await slack.all_acked()

    assert [delivery.attempts for delivery in slack.socket.deliveries] == [1]


async def test_people_that_a_text_mentions_get_their_names(bench: Bench) -> None:
    bench.slack.workspace.users |= {"U0BOBO": "bo", "U0CLEO": "cleo"}

    named = await bench.adapter.with_names("ask @U0BOBO, then @U0CLEO and @U0BOBO; not @U0GONE")

    assert named == "ask @bo (U0BOBO), then @cleo (U0CLEO) and @bo (U0BOBO); not @U0GONE"
    assert len(bench.slack.calls_of("users.info")) == 3
