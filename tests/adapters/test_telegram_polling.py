"""Telegram's polling: what is confirmed and when, and what a bad line does to it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.adapters.telegram_house import ANN, FAST, Inbox, adapter_for, running
from tests.emulators.base import Fault
from tests.emulators.telegram import TelegramEmulator
from trunkline.adapters.base import (
    AdapterError,
    ChatRef,
    Chunk,
    InboundMessage,
    OutboundMessage,
    Unauthorized,
    Unavailable,
)


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramEmulator]:
    async with TelegramEmulator().running() as emulator:
        yield emulator
    assert emulator.violations == []


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


# the offset


async def test_an_update_whose_delivery_failed_comes_again(telegram: TelegramEmulator, inbox: Inbox) -> None:
    adapter = adapter_for(telegram)
    inbox.refuse = lambda message: message.text == "second"
    for text in ("first", "second", "third"):
        await telegram.direct_message(ANN, text)

    with pytest.raises(OSError, match="disk full"):
        await adapter.run(inbox.deliver, inbox.tenants.append)
    assert inbox.texts == ["first"]

    inbox.refuse = lambda message: False
    async with running(adapter, inbox, telegram):
        await inbox.count(3)
    assert inbox.texts == ["first", "second", "third"]


async def test_an_update_whose_delivery_was_cancelled_comes_again(
    telegram: TelegramEmulator, inbox: Inbox
) -> None:
    begun = asyncio.Event()

    async def never(message: InboundMessage) -> None:
        begun.set()
        await asyncio.Event().wait()

    await telegram.direct_message(ANN, "hold on")
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(adapter_for(telegram).run(never, inbox.tenants.append))
        await begun.wait()
        task.cancel()

    async with running(adapter_for(telegram), inbox, telegram):
        assert (await inbox.next()).text == "hold on"


async def test_nothing_is_confirmed_before_the_whole_batch_is_delivered(
    telegram: TelegramEmulator, inbox: Inbox
) -> None:
    gate = asyncio.Event()

    async def slow(message: InboundMessage) -> None:
        await inbox.deliver(message)
        await gate.wait()

    said = [await telegram.direct_message(ANN, text) for text in ("one", "two")]
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(adapter_for(telegram).run(slow, inbox.tenants.append))
        await inbox.count(1)
        assert telegram.confirmed_offset == 0
        gate.set()
        await telegram.wait_for(lambda: telegram.confirmed_offset == said[1].update_id + 1)
        task.cancel()


async def test_what_was_delivered_is_confirmed_when_the_adapter_stops_half_way(
    telegram: TelegramEmulator, inbox: Inbox
) -> None:
    inbox.refuse = lambda message: message.text == "two"
    said = [await telegram.direct_message(ANN, text) for text in ("one", "two")]

    with pytest.raises(OSError, match="disk full"):
        await adapter_for(telegram).run(inbox.deliver, inbox.tenants.append)

    assert telegram.confirmed_offset == said[1].update_id
    assert [update["message"]["text"] for update in telegram.pending] == ["two"]


async def test_an_update_the_library_cannot_parse_does_not_hold_up_the_rest(
    telegram: TelegramEmulator, inbox: Inbox
) -> None:
    await telegram.push_raw("message", {"text": "neither an id nor a date"})
    await telegram.direct_message(ANN, "behind it")

    async with running(adapter_for(telegram), inbox, telegram):
        assert (await inbox.next()).text == "behind it"
        await telegram.wait_for(lambda: not telegram.pending)


# trouble while receiving


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=502),
        Fault(status=500, body={"ok": False, "error_code": 500, "description": "Internal Server Error"}),
        Fault(drop=True),
        Fault(accept_then_drop=True),
        Fault(status=200),
        Fault(
            status=429,
            body={
                "ok": False,
                "error_code": 429,
                "description": "Too Many Requests: retry after 1",
                "parameters": {"retry_after": 1},
            },
        ),
    ],
    ids=["502", "500", "dropped", "answer lost", "nonsense", "429"],
)
async def test_a_failed_poll_is_repeated_and_nothing_is_missed(
    telegram: TelegramEmulator, inbox: Inbox, fault: Fault
) -> None:
    telegram.fail_next("getUpdates", fault)
    await telegram.direct_message(ANN, "in the gap")

    async with running(adapter_for(telegram), inbox, telegram):
        assert (await inbox.next()).text == "in the gap"
        assert len(telegram.calls_of("getMe")) == 1


async def test_a_poll_that_never_answers_is_given_up_and_repeated(
    telegram: TelegramEmulator, inbox: Inbox
) -> None:
    telegram.fail_next("getUpdates", Fault(delay_s=60))
    await telegram.direct_message(ANN, "knock knock")
    hasty = replace(FAST, poll_s=1, grace_s=0.1)

    async with running(adapter_for(telegram, pacing=hasty), inbox, telegram):
        assert (await inbox.next()).text == "knock knock"


async def test_a_wedged_poll_shows_in_its_age_although_all_else_works(
    telegram: TelegramEmulator, inbox: Inbox
) -> None:
    """TG-07.4."""
    telegram.private_chat(ANN)
    hasty = replace(FAST, poll_s=1, grace_s=0.1, failures_most=1000)

    async with running(adapter_for(telegram, pacing=hasty), inbox, telegram) as adapter:
        telegram.fail_next("getUpdates", Fault(delay_s=600), times=1000)
        await telegram.wait_for(lambda: adapter.heard_ago_s > adapter.deaf_after_s)
        await adapter.send(OutboundMessage(ChatRef(str(ANN)), Chunk("still here")))
        assert telegram.texts(ANN) == ["still here"]

        telegram.faults["getUpdates"].clear()
        await telegram.wait_for(lambda: adapter.heard_ago_s < adapter.deaf_after_s)


async def test_polling_gives_up_in_the_end_so_that_the_connection_is_rebuilt(
    telegram: TelegramEmulator, inbox: Inbox
) -> None:
    telegram.fail_next("getUpdates", Fault(status=502), times=3)
    adapter = adapter_for(telegram, pacing=replace(FAST, failures_most=3))

    with pytest.raises(Unavailable, match="3 polls in a row"):
        await adapter.run(inbox.deliver, inbox.tenants.append)


async def test_a_token_revoked_while_running_ends_the_adapter(
    telegram: TelegramEmulator, inbox: Inbox
) -> None:
    telegram.fail_next(
        "getUpdates", Fault(status=401, body={"ok": False, "error_code": 401, "description": "Unauthorized"})
    )

    with pytest.raises(Unauthorized, match="BotFather"):
        await adapter_for(telegram).run(inbox.deliver, inbox.tenants.append)


async def test_a_short_conflict_is_waited_out(telegram: TelegramEmulator, inbox: Inbox) -> None:
    conflict = Fault(status=409, body={"ok": False, "error_code": 409, "description": "Conflict: terminated"})
    telegram.fail_next("getUpdates", conflict, times=2)
    await telegram.direct_message(ANN, "after the change-over")

    async with running(adapter_for(telegram), inbox, telegram):
        assert (await inbox.next()).text == "after the change-over"


async def test_two_pollers_of_one_bot_end_with_a_sentence_that_says_what_to_do(
    telegram: TelegramEmulator, inbox: Inbox
) -> None:
    async def poll_twice() -> None:
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            for _ in range(2):
                tasks.create_task(adapter_for(telegram).run(inbox.deliver, inbox.tenants.append))

    with pytest.raises(ExceptionGroup) as caught:
        await poll_twice()

    error = caught.value.exceptions[0]
    assert isinstance(error, AdapterError)
    assert "Another program receives this Telegram bot's messages" in str(error)
