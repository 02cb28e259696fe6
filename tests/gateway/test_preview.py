"""The preview: an answer shown while it is written, which ends as the whole answer whatever happens to it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.emulators.base import Fault
from tests.emulators.discord import DiscordEmulator
from tests.emulators.telegram import TelegramEmulator
from tests.gateway.lanes import ANA, BO, Lanes, discord_lanes, flood, refusal, telegram_lanes
from trunkline.adapters.base import ChatRef, Chunk
from trunkline.adapters.telegram import TelegramAdapter
from trunkline.gateway.clock import now_ms
from trunkline.gateway.delivery import Delivery, Destination, Line, payloads
from trunkline.gateway.preview import Preview
from trunkline.gateway.state import outbox
from trunkline.gateway.state.database import Database
from trunkline.gateway.typing_sign import keep_typing

LONG = "\n\n".join(f"Paragraph {n} of a long answer, with **bold** words in it." for n in range(120))


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramEmulator]:
    async with TelegramEmulator().running() as emulator:
        yield emulator
        assert emulator.violations == []


@pytest.fixture
async def on_telegram(sqlite_database: Database, telegram: TelegramEmulator) -> AsyncIterator[Lanes]:
    async with telegram_lanes(sqlite_database, telegram) as made:
        yield made


@pytest.fixture
async def discord() -> AsyncIterator[DiscordEmulator]:
    async with DiscordEmulator().running() as emulator:
        yield emulator
        assert emulator.violations == []


@pytest.fixture
async def on_discord(sqlite_database: Database, discord: DiscordEmulator) -> AsyncIterator[Lanes]:
    async with discord_lanes(sqlite_database, discord) as made:
        yield made


class Showing:
    """A preview at work, and the final text after it."""

    def __init__(self, made: Lanes, where: Destination) -> None:
        self.made = made
        self.where = where
        self.preview = Preview(made.database, made.delivery, made.adapter, where, where.plan("n:1"))

    async def finish(self, text: str) -> None:
        self.preview.finish()
        await self.made.plan(
            self.where,
            text,
            shown=self.preview.shown,
            repeats_safely=self.made.delivery.repeats_safely(self.where.platform),
        )


async def show(
    made: Lanes, where: Destination, parts: Sequence[str], final: str, until: Sequence[object] = ()
) -> None:
    """Shows each part in turn, waiting for `until` (a coroutine function) after it, then the final text."""
    showing = Showing(made, where)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(showing.preview.run())
        for part, wait in zip(parts, until, strict=True):
            showing.preview.update(part)
            await wait()  # type: ignore[operator]
        showing.preview.finish()
        await running
    await showing.finish(final)


async def test_two_letters_are_not_shown_and_a_few_words_are(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    async def read() -> None:
        for _ in range(5):
            await on_telegram.states()
        assert telegram.calls_of("sendMessage") == []

    async def words() -> None:
        await telegram.wait_for(lambda: telegram.texts(ANA) == ["It is a long story"])

    await show(on_telegram, on_telegram.to(ANA), ["It", "It is a long story"], "It is.", [read, words])

    await telegram.wait_for(lambda: telegram.texts(ANA) == ["It is."])


async def test_a_stream_that_outgrows_one_message_goes_on_in_the_next_and_ends_whole(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    async def one() -> None:
        await telegram.wait_for(lambda: len(telegram.texts(ANA)) == 1)

    async def two() -> None:
        await telegram.wait_for(lambda: len(telegram.texts(ANA)) == 2)

    await show(on_telegram, on_telegram.to(ANA), [LONG[:3000], LONG[:5500]], LONG, [one, two])

    rendered = [chunk.text for chunk in on_telegram.adapter.render(LONG)]
    await telegram.wait_for(lambda: telegram.texts(ANA) == rendered)


async def test_a_flood_wait_stops_the_preview_and_every_other_sign_until_its_end(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    async def first() -> None:
        await telegram.wait_for(lambda: telegram.texts(ANA))
        telegram.fail_next("editMessageText", flood(2))

    async def refused() -> None:
        await telegram.wait_for(lambda: telegram.calls_of("editMessageText"))

    parts = ["The first words of it", "The first words of it and more"]
    await show(on_telegram, on_telegram.to(ANA), parts, "All of it.", [first, refused])

    await telegram.wait_for(lambda: telegram.texts(ANA) == ["All of it."])
    calls = [call for call in telegram.calls if call.method == "editMessageText"]
    assert len(calls) == 2
    assert calls[1].at - calls[0].at >= 2


@pytest.mark.parametrize(
    "fault",
    [refusal(400, "Bad Request: message to edit not found"), Fault(drop=True), Fault(status=500)],
)
async def test_a_preview_whose_edit_fails_still_ends_as_the_whole_answer(
    on_telegram: Lanes, telegram: TelegramEmulator, fault: Fault
) -> None:
    async def first() -> None:
        await telegram.wait_for(lambda: telegram.texts(ANA))
        telegram.fail_next("editMessageText", fault)

    async def failed() -> None:
        await telegram.wait_for(lambda: telegram.calls_of("editMessageText"))

    parts = ["The first words of it", "The first words of it and more"]
    await show(on_telegram, on_telegram.to(ANA), parts, "All of it.", [first, failed])

    await telegram.wait_for(lambda: telegram.texts(ANA) == ["All of it."])


async def test_a_first_message_that_was_refused_leaves_nothing_behind(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    telegram.fail_next("sendMessage", refusal(400, "Bad Request: something is wrong"))

    async def refused() -> None:
        await telegram.wait_for(lambda: telegram.calls_of("sendMessage"))

    await show(on_telegram, on_telegram.to(ANA), ["The first words of it"], "All of it.", [refused])

    await telegram.wait_for(lambda: telegram.texts(ANA) == ["All of it."])
    await on_telegram.become("sent")


async def test_a_first_message_that_telegram_may_have_is_not_sent_again_when_it_was_the_whole_answer(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    telegram.fail_next("sendMessage", Fault(accept_then_drop=True))

    async def lost() -> None:
        await telegram.wait_for(lambda: telegram.texts(ANA))
        await on_telegram.become("unknown")

    await show(on_telegram, on_telegram.to(ANA), ["The whole answer."], "The whole answer.", [lost])

    await on_telegram.become("unknown")
    await on_telegram.plan(on_telegram.to(ANA), "next", "i:2")
    await on_telegram.become("unknown", "sent")
    assert telegram.texts(ANA) == ["The whole answer.", "next"]


async def test_a_first_message_that_discord_may_have_is_found_by_its_nonce_and_edited_to_the_end(
    on_discord: Lanes, discord: DiscordEmulator
) -> None:
    discord.fail_next("create_message", Fault(accept_then_drop=True))

    async def lost() -> None:
        await discord.wait_for(lambda: discord.texts())
        await on_discord.become("unknown")

    where = on_discord.to(discord.general)
    await show(on_discord, where, ["The first words of it"], "All of it, to the end.", [lost])

    await on_discord.become("sent")
    assert discord.texts() == ["All of it, to the end."]


async def test_a_database_that_fails_ends_the_preview_and_nothing_else(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    showing = Showing(on_telegram, on_telegram.to(ANA))
    on_telegram.database.close()
    showing.preview.update("The first words of it")

    async with asyncio.timeout(60):
        await showing.preview.run()

    assert telegram.texts(ANA) == []


async def test_it_comes_after_the_answer_that_is_still_to_be_sent(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    where = on_telegram.to(ANA)
    planned = payloads(where, on_telegram.adapter.render("The first answer."))
    await on_telegram.database.write(lambda c: outbox.plan(c, where.plan("i:0"), planned, now_ms()))
    showing = Showing(on_telegram, where)
    async with asyncio.TaskGroup() as group:
        group.create_task(showing.preview.run())
        showing.preview.update("The second answer, half of it")
        for _ in range(5):
            await on_telegram.states()
        assert telegram.texts(ANA) == []

        on_telegram.delivery.kick("telegram", str(ANA))
        await telegram.wait_for(lambda: len(telegram.texts(ANA)) == 2)
        showing.preview.finish()

    assert telegram.texts(ANA) == ["The first answer.", "The second answer, half of it"]


async def test_a_text_that_takes_long_to_render_holds_nobody_else_up(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    where = on_telegram.to(ANA)
    begun, go_on = threading.Event(), threading.Event()

    class Slow:
        """The adapter, whose renderer waits until the event loop has let it go on."""

        def __getattr__(self, name: str) -> Any:
            return getattr(on_telegram.adapter, name)

        def render(self, markdown: str) -> tuple[Chunk, ...]:
            begun.set()
            assert go_on.wait(60)
            return on_telegram.adapter.render(markdown)

    preview = Preview(on_telegram.database, on_telegram.delivery, Slow(), where, where.plan("n:1"))
    async with asyncio.TaskGroup() as group:
        group.create_task(preview.run())
        preview.update("The first words of it")
        await asyncio.to_thread(begun.wait, 60)
        go_on.set()
        await telegram.wait_for(lambda: telegram.texts(ANA) == ["The first words of it"])
        preview.finish()


async def test_a_posted_message_is_told_of_and_an_edit_is_not(
    on_telegram: Lanes, telegram: TelegramEmulator
) -> None:
    """SL-09.2: a post takes the typing sign away, on every platform."""
    where, elsewhere = on_telegram.to(ANA), on_telegram.to(BO)
    seen: list[bool] = []

    async def shown() -> None:
        async with asyncio.timeout(60):
            await here.wait()
        here.clear()

    async def edited() -> None:
        await telegram.wait_for(lambda: telegram.texts(ANA) == ["It is a long story."])
        seen.append(here.is_set())

    delivery = on_telegram.delivery
    with (
        delivery.told_of_posts("telegram", where.to) as here,
        delivery.told_of_posts("telegram", elsewhere.to) as there,
    ):
        parts = ["It is a long story", "It is a long story."]
        await show(on_telegram, where, parts, "It is a long story.", [shown, edited])
        await on_telegram.plan(elsewhere, "Hello.", "n:2")
        async with asyncio.timeout(60):
            await there.wait()

    assert seen == [False]
    assert not here.is_set()


async def test_the_sign_is_shown_anew_after_each_post_and_taken_away_at_the_end(
    sqlite_database: Database,
) -> None:
    signs: asyncio.Queue[bool] = asyncio.Queue()

    class Patient(TelegramAdapter):
        limits = replace(TelegramAdapter.limits, typing_interval_s=3600.0)

        async def typing(self, to: ChatRef, *, on: bool) -> None:
            signs.put_nowait(on)

    delivery, to = Delivery(sqlite_database), ChatRef("1001")
    delivery.connect(Line(Patient("1:token"), "bot"))
    async with asyncio.TaskGroup() as group, asyncio.timeout(60):
        typing = group.create_task(keep_typing(delivery, Destination("telegram", "bot", to)))
        assert await signs.get()
        delivery.note_post("telegram", ChatRef("1001", "7"))
        delivery.note_post("telegram", to)
        assert await signs.get()
        typing.cancel()

    assert [signs.get_nowait(), signs.empty()] == [False, True]
