"""A growing answer shown by Telegram's drafts and Slack's streams, and by edits where those are refused."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from tests.adapters import telegram_house
from tests.emulators import slack_bench
from tests.emulators.base import Fault
from tests.emulators.slack import APP_TOKEN, BOT_TOKEN, TEAM, SlackEmulator
from tests.emulators.slack_workspace import Post
from tests.emulators.telegram import TelegramEmulator
from tests.gateway.lanes import ANA, Lanes, flood, lanes, refusal
from trunkline.adapters.base import Button, ChatRef, Chunk, Limits, OutboundMessage, Rejected
from trunkline.adapters.slack import SlackAdapter
from trunkline.adapters.slack_streams import SlackStreams, calling_nobody
from trunkline.adapters.telegram import TelegramAdapter
from trunkline.gateway.delivery import Destination
from trunkline.gateway.preview import FIRST_CHARS, Preview
from trunkline.gateway.state.database import Database

LONG = "\n\n".join(f"Paragraph {n} of a long answer, with **bold** words in it." for n in range(120))
STOP = (Button("stop", "Stop", "1"),)
GROUP = -1009


class QuickTelegram(TelegramAdapter):
    limits = replace(TelegramAdapter.limits, edit_interval_s=0.01, group_edit_interval_s=0.01)


class Fading(QuickTelegram):
    draft_fades_s = 0.03


class QuickSlack(SlackAdapter):
    """Knows, too, what it was given to render."""

    rendered = ""

    def render(self, markdown: str) -> tuple[Chunk, ...]:
        self.rendered = markdown
        return super().render(markdown)

    @property
    def limits(self) -> Limits:
        return replace(super().limits, edit_interval_s=0.01, group_edit_interval_s=0.01)


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramEmulator]:
    async with TelegramEmulator().running() as emulator:
        emulator.private_chat(ANA)
        emulator.group(GROUP)
        yield emulator
        assert emulator.violations == []


@asynccontextmanager
async def drafting(
    database: Database, telegram: TelegramEmulator, kind: type[TelegramAdapter] = QuickTelegram
) -> AsyncIterator[Lanes]:
    adapter = kind(telegram.token, base_url=telegram.url, pacing=telegram_house.FAST, drafts=True)
    inbox = telegram_house.Inbox()
    async with telegram_house.running(adapter, inbox, telegram), lanes(database, adapter) as made:
        yield made


@pytest.fixture
async def on_telegram(sqlite_database: Database, telegram: TelegramEmulator) -> AsyncIterator[Lanes]:
    async with drafting(sqlite_database, telegram) as made:
        yield made


@pytest.fixture
async def slack() -> AsyncIterator[SlackEmulator]:
    async with slack_bench.emulated() as emulator:
        yield emulator


@pytest.fixture
async def on_slack(sqlite_database: Database, slack: SlackEmulator) -> AsyncIterator[Lanes]:
    adapter = QuickSlack(BOT_TOKEN, APP_TOKEN, base_url=slack.api_url, timing=slack_bench.QUICK, streams=True)
    async with slack_bench.running(slack, adapter=adapter), lanes(sqlite_database, adapter) as made:
        yield made


class Growing:
    """An answer that grows. Each `says` waits for what is to be seen by then."""

    def __init__(self, made: Lanes, where: Destination, preview: Preview) -> None:
        self._made = made
        self._where = where
        self.preview = preview

    async def says(self, text: str, seen: Awaitable[object]) -> None:
        self.preview.update(text)
        await seen

    async def ends(self, text: str) -> None:
        shown, safely = self.preview.shown, self._made.adapter.limits.repeats_safely
        await self._made.plan(self._where, text, shown=shown, repeats_safely=safely)


@asynccontextmanager
async def growing(
    made: Lanes, where: Destination, stop: Callable[[], object] = lambda: None
) -> AsyncIterator[Growing]:
    where = replace(where, while_running=STOP)
    preview = Preview(made.database, made.delivery, made.adapter, where, where.plan("n:1"), stop)
    async with asyncio.TaskGroup() as group, asyncio.timeout(60):
        task = group.create_task(preview.run())
        yield Growing(made, where, preview)
        preview.finish()
        await task


def has_rendered(adapter: QuickSlack, text: str) -> bool:
    return adapter.rendered == text


async def met(made: Lanes, condition: Callable[[], object]) -> None:
    """Returns when something is true that no emulator knows."""
    async with asyncio.timeout(60):
        while not condition():
            await made.states()


# Telegram's drafts


def drafts(telegram: TelegramEmulator) -> list[str]:
    return [text for _, _, text in telegram.drafted]


async def test_a_draft_grows_and_the_answer_takes_its_place_as_one_message(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    async with growing(on_telegram, on_telegram.to(ANA)) as answer:
        await answer.says("The first words", telegram.wait_for(lambda: drafts(telegram)))
        await answer.says("The first words @and more", telegram.wait_for(lambda: len(drafts(telegram)) == 2))
        assert telegram.sent(ANA) == []
    await answer.ends("The first words and **more**.")

    await telegram.wait_for(lambda: telegram.texts(ANA) == ["The first words and more."])
    await on_telegram.become("sent")
    assert [text.replace("\u200b", "") for text in drafts(telegram)] == [
        "The first words",
        "The first words @and more",
    ]
    assert len({draft for _, draft, _ in telegram.drafted}) == 1
    assert telegram.drafts == {}
    assert telegram.calls_of("editMessageText") == []


async def test_the_parts_that_are_full_are_messages_and_the_last_one_is_the_draft(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    rendered = [chunk.text for chunk in on_telegram.adapter.render(LONG)]
    assert len(rendered) == 2
    async with growing(on_telegram, on_telegram.to(ANA)) as answer:
        await answer.says(LONG[:3000], telegram.wait_for(lambda: telegram.drafts))
        await answer.says(
            LONG[:5500], telegram.wait_for(lambda: telegram.texts(ANA) == rendered[:1] and telegram.drafts)
        )
    assert rendered[1].startswith(drafts(telegram)[-1][:500])

    # A turn that is resumed after a crash goes on in the message it has.
    made = len(telegram.drafted)
    async with growing(on_telegram, on_telegram.to(ANA)) as answer:
        await answer.says(LONG[:5500], telegram.wait_for(lambda: len(telegram.texts(ANA)) == 2))
        assert len(telegram.drafted) == made
    await answer.ends(LONG)

    await telegram.wait_for(lambda: telegram.texts(ANA) == rendered)
    assert len(telegram.calls_of("sendMessage")) == 2


@pytest.mark.parametrize(
    ("fault", "again"),
    [
        (refusal(400, "Bad Request: drafts are not allowed here"), True),
        (refusal(404, "Not Found: method not found"), False),
    ],
)
async def test_a_draft_that_is_refused_becomes_a_message_with_its_button(
    on_telegram: Lanes, telegram: TelegramEmulator, fault: Fault, again: bool
) -> None:
    telegram.fail_next("sendMessageDraft", fault)
    async with growing(on_telegram, on_telegram.to(ANA)) as answer:
        await answer.says("The first words", telegram.wait_for(lambda: telegram.sent(ANA)))
        assert telegram.sent(ANA)[0].buttons == (("Stop", "stop:1"),)
        await answer.says(
            "The first words and more",
            telegram.wait_for(lambda: telegram.texts(ANA) == ["The first words and more"]),
        )
    await answer.ends("All of it.")

    await telegram.wait_for(lambda: telegram.texts(ANA) == ["All of it."])
    assert len(telegram.calls_of("sendMessageDraft")) == 1
    assert isinstance(on_telegram.adapter, TelegramAdapter)
    assert on_telegram.adapter.shows_drafts(ChatRef(str(ANA))) is again


async def test_a_group_has_no_drafts(on_telegram: Lanes, telegram: TelegramEmulator) -> None:
    async with growing(on_telegram, on_telegram.to(GROUP)) as answer:
        await answer.says("The first words", telegram.wait_for(lambda: telegram.sent(GROUP)))

    assert telegram.calls_of("sendMessageDraft") == []


async def test_a_flood_wait_at_a_draft_holds_the_chat(on_telegram: Lanes, telegram: TelegramEmulator) -> None:
    telegram.fail_next("sendMessageDraft", flood(600))
    async with growing(on_telegram, on_telegram.to(ANA)) as answer:
        held = partial(on_telegram.delivery.held_s, "telegram", str(ANA))
        await answer.says("The first words", met(on_telegram, held))

    assert telegram.sent(ANA) == []


async def test_a_draft_is_shown_again_before_it_fades(
    sqlite_database: Database, telegram: TelegramEmulator
) -> None:
    async with (
        drafting(sqlite_database, telegram, Fading) as made,
        growing(made, made.to(ANA)) as answer,
    ):
        await answer.says("The first words", telegram.wait_for(lambda: len(telegram.drafted) >= 3))

    assert set(telegram.drafted) == {telegram.drafted[0]}


# Slack's streams


@pytest.fixture
async def thread(slack: SlackEmulator) -> str:
    return await slack.channel_message("C1", "U1", "tell me")


def asked_in(made: Lanes, thread: str | None) -> Destination:
    """Where an answer to U1 goes."""
    return replace(made.to("C1", thread), mention="U1", realm=TEAM, group=True)


async def said(slack: SlackEmulator, thread: str, text: str) -> Post:
    """The one message of the thread, when it says so."""
    await slack.wait_for(lambda: slack.texts("C1", thread) == [text])
    return slack.sent("C1", thread)[0]


def added(slack: SlackEmulator) -> list[str]:
    return [str(call.arguments["markdown_text"]) for call in slack.calls_of("chat.appendStream")]


async def test_a_stream_grows_by_what_is_new_and_ends_as_the_answer_with_its_buttons(
    on_slack: Lanes, slack: SlackEmulator, thread: str
) -> None:
    where = asked_in(on_slack, thread)
    async with growing(on_slack, where) as answer:
        await answer.says("The **first**", said(slack, thread, "The **first**"))
        await answer.says("The **first** words, & more", said(slack, thread, "The **first** words, & more"))
        assert slack.sent("C1", thread)[0].streaming
    await answer.ends("The **first** words, & more.")

    post = await said(slack, thread, "The *first* words, &amp; more.")
    await on_slack.become("sent")
    assert post.texts[0] == ""
    assert added(slack) == ["The **first**", " words, & more"]
    assert (post.streaming, post.blocks) == (False, [])
    started = slack.calls_of("chat.startStream")[0].arguments
    assert (started["recipient_user_id"], started["recipient_team_id"]) == ("U1", TEAM)


def reads(slack: SlackEmulator, thread: str, text: str) -> bool:
    """Whether the thread shows this, blanks apart that nobody sees."""
    return [one.replace("\u200b", "").strip() for one in slack.texts("C1", thread)] == [text.strip()]


async def test_a_stream_calls_nobody(on_slack: Lanes, slack: SlackEmulator, thread: str) -> None:
    text = "Look: <!channel>, <@U2> and @here"
    async with growing(on_slack, asked_in(on_slack, thread)) as answer:
        for end in range(FIRST_CHARS, len(text) + 1):
            await answer.says(text[:end], slack.wait_for(partial(reads, slack, thread, text[:end])))

    stages = slack.sent("C1", thread)[0].texts
    assert not [stage for stage in stages for ping in ("<!", "<@", "@h", "@U") if ping in stage]


@given(st.text("<!@ahU2 \n.>", max_size=30), st.integers(0, 30))
def test_what_a_stream_holds_begins_with_what_it_held_before(text: str, until: int) -> None:
    assert calling_nobody(text).startswith(calling_nobody(text[:until]))


async def test_a_stream_that_outgrows_one_message_is_frozen_and_edits_go_on_in_the_next(
    on_slack: Lanes, slack: SlackEmulator, thread: str
) -> None:
    rendered = [chunk.text for chunk in on_slack.adapter.render(LONG)]
    async with growing(on_slack, asked_in(on_slack, thread)) as answer:
        await answer.says(LONG[:3000], said(slack, thread, LONG[:3000]))
        await answer.says(LONG[:5500], slack.wait_for(lambda: len(slack.texts("C1", thread)) == 2))
        first, second = slack.sent("C1", thread)
        assert (first.streaming, first.text) == (False, rendered[0])
        assert [button["value"] for button in second.buttons] == ["stop:1"]
    await answer.ends(LONG)

    await slack.wait_for(lambda: slack.texts("C1", thread) == rendered)


@pytest.mark.parametrize(
    ("error", "again"), [("unknown_method", False), ("channel_type_not_supported", True), ("", True)]
)
async def test_a_stream_that_is_refused_becomes_a_message_with_its_button(
    on_slack: Lanes, slack: SlackEmulator, thread: str, error: str, again: bool
) -> None:
    """Without an error Slack asks to wait: that is the streams' own limit, and holds nothing else up."""
    if error:
        slack.refuse_next("chat.startStream", error)
    else:
        slack.limit_next("chat.startStream", 600)
    async with growing(on_slack, asked_in(on_slack, thread)) as answer:
        await answer.says("The first words", said(slack, thread, "The first words"))
        assert slack.sent("C1", thread)[0].buttons
    await answer.ends("All of it.")

    await said(slack, thread, "All of it.")
    await on_slack.become("sent")
    assert isinstance(on_slack.adapter, SlackAdapter)
    assert on_slack.adapter.streams_in(ChatRef("C1", thread)) is again


async def test_a_stream_that_slack_has_ended_is_gone_on_with_by_edits(
    on_slack: Lanes, slack: SlackEmulator, thread: str
) -> None:
    async with growing(on_slack, asked_in(on_slack, thread)) as answer:
        await answer.says("The first words", said(slack, thread, "The first words"))
        slack.sent("C1", thread)[0].streaming = False
        await answer.says("The first words and more", said(slack, thread, "The first words and more"))
        assert slack.sent("C1", thread)[0].buttons
    await answer.ends("All of it.")

    await said(slack, thread, "All of it.")


async def test_slacks_own_stop_button_ends_the_turn(
    on_slack: Lanes, slack: SlackEmulator, thread: str
) -> None:
    stopped = asyncio.Event()
    async with growing(on_slack, asked_in(on_slack, thread), stopped.set) as answer:
        await answer.says("The first words", said(slack, thread, "The first words"))
        slack.sent("C1", thread)[0].stop_stream()
        await answer.says("The first words and more", stopped.wait())
    await answer.ends("The first words (stopped)")

    await said(slack, thread, "The first words (stopped)")


async def test_text_that_was_said_otherwise_is_put_right_by_the_final_text(
    on_slack: Lanes, slack: SlackEmulator, thread: str
) -> None:
    adapter = on_slack.adapter
    assert isinstance(adapter, QuickSlack)
    async with growing(on_slack, asked_in(on_slack, thread)) as answer:
        await answer.says("The first words", said(slack, thread, "The first words"))
        # Once the second is rendered the first was dealt with.
        for text in ("Other words altogether", "Other words altogether, and on"):
            await answer.says(text, met(on_slack, partial(has_rendered, adapter, text)))
    await answer.ends("Other words altogether.")

    post = await said(slack, thread, "Other words altogether.")
    assert post.texts == ["", "The first words", "The first words", "Other words altogether."]


@pytest.mark.parametrize("method", ["chat.startStream", "chat.appendStream"])
async def test_a_call_whose_answer_was_lost_leaves_one_whole_answer(
    on_slack: Lanes, slack: SlackEmulator, thread: str, method: str
) -> None:
    slack.fail_next(method, Fault(accept_then_drop=True))
    async with growing(on_slack, asked_in(on_slack, thread)) as answer:
        await answer.says("The first words", slack.wait_for(lambda: slack.sent("C1", thread)))
        await answer.says("The first words and more", slack.wait_for(lambda: slack.calls_of(method)))
    await answer.ends("All of it.")

    await slack.wait_for(lambda: "All of it." in slack.texts("C1", thread))
    await on_slack.become("sent")
    # What was begun unseen can't be found again: it stays empty, nothing is said twice.
    assert slack.texts("C1", thread) in (["All of it."], ["", "All of it."])


async def test_an_answer_that_makes_no_sense_is_a_refusal_like_any_other() -> None:
    async def refused() -> None:
        raise SlackApiError("no JSON", SimpleNamespace())  # type: ignore[no-untyped-call]

    with pytest.raises(SlackApiError):
        await SlackStreams(AsyncWebClient(), wanted=True).once_ended("C1", "1.1", refused)


async def test_the_top_of_a_channel_has_no_streams(on_slack: Lanes, slack: SlackEmulator) -> None:
    async with growing(on_slack, asked_in(on_slack, None)) as answer:
        await answer.says("The first words", slack.wait_for(lambda: slack.texts("C1")))

    assert slack.calls_of("chat.startStream") == []


async def test_a_stream_of_another_process_is_ended_by_an_edit_and_may_be_deleted_then(
    on_slack: Lanes, slack: SlackEmulator, thread: str
) -> None:
    assert isinstance(on_slack.adapter, SlackAdapter)
    place = ChatRef("C1", thread)
    begun = await on_slack.adapter.begin_stream(place, "U1", TEAM)
    other = SlackAdapter(BOT_TOKEN, APP_TOKEN, base_url=slack.api_url, timing=slack_bench.QUICK)
    async with slack_bench.running(slack, adapter=other):
        with pytest.raises(Rejected):
            await other.delete(place, begun.message_id)
        chunk = other.render("Mended.")[0]
        await other.edit(begun.message_id, OutboundMessage(place, chunk))
        assert slack.texts("C1", thread) == ["Mended."]
        await other.delete(place, begun.message_id)

    with pytest.raises(Rejected):
        await on_slack.adapter.begin_stream(place, "", "")
    assert slack.texts("C1", thread) == []
