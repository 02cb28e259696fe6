"""Acknowledgement, order and reconnection over Socket Mode, and how a run ends."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.emulators.base import Fault
from tests.emulators.slack import APP_TOKEN, BOT_TOKEN, TEAM, SlackEmulator
from tests.emulators.slack_bench import QUICK, SOON_S, Bench, Inbox, adapter_for, emulated, running, said
from tests.gateway.small_house import eventually
from trunkline.adapters.base import (
    AdapterError,
    Unauthorized,
    Unavailable,
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


async def failure_of(adapter: SlackAdapter) -> BaseException:
    def connected(_: str) -> None:
        raise AssertionError("it connected")

    async with asyncio.timeout(60):
        with pytest.raises(AdapterError) as caught:
            await adapter.run(Inbox().deliver, connected)
    return caught.value


# The acknowledgement


async def test_an_event_is_acknowledged_only_after_it_is_stored(bench: Bench) -> None:
    bench.slack.socket.ack_timeout_s = SOON_S
    bench.inbox.held.clear()
    await bench.slack.direct_message("U1", "hello")
    delivery = bench.slack.socket.deliveries[0]
    await bench.slack.wait_for(lambda: delivery.attempts == 2)
    assert not delivery.acked.is_set()

    bench.inbox.held.set()

    await bench.slack.all_acked()
    assert bench.inbox.keys == {bench.inbox.messages[0].key}


async def test_an_event_that_could_not_be_stored_is_sent_again_and_stored(bench: Bench) -> None:
    bench.slack.socket.ack_timeout_s = SOON_S
    bench.inbox.broken = 1
    await bench.slack.direct_message("U1", "hello")
    await eventually(lambda: _is_tried(bench))
    bench.slack.socket.ack_timeout_s = 60

    message = await bench.last()
    assert (message.text, bench.inbox.attempts) == ("hello", 2)
    assert bench.slack.socket.deliveries[0].attempts == 2


async def _is_tried(bench: Bench) -> bool:
    return bench.inbox.attempts > 0


async def test_a_command_that_could_not_be_stored_is_not_acknowledged(bench: Bench) -> None:
    bench.slack.socket.ack_timeout_s = SOON_S
    bench.inbox.broken = 1
    delivery = await bench.slack.slash("U1", "C1", "help")

    await bench.slack.wait_for(lambda: delivery.lost)
    assert not delivery.acked.is_set()


async def test_the_same_event_again_has_the_same_key(bench: Bench) -> None:
    await bench.slack.direct_message("U1", "hello")
    await bench.slack.all_acked()
    await bench.slack.again(bench.slack.socket.deliveries[0])

    await bench.slack.all_acked()
    assert len(bench.inbox.messages) == 2
    assert len(bench.inbox.keys) == 1


async def test_events_keep_their_order(bench: Bench) -> None:
    for n in range(60):
        await bench.slack.channel_message("C1", "U1", f"{n}", mention=False)

    await bench.slack.all_acked()
    assert [message.text for message in bench.inbox.messages] == [f"{n}" for n in range(60)]


async def test_an_event_whose_only_delivery_is_a_repeat_is_taken(slack: SlackEmulator) -> None:
    await slack.direct_message("U1", "while you were away")

    async with running(slack) as bench:
        assert (await bench.inbox.holding(1))[0].text == "while you were away"
        await slack.all_acked()


# The connection


async def test_it_reconnects_when_slack_asks_for_it(bench: Bench) -> None:
    await bench.slack.socket.refresh()
    await bench.slack.wait_for(
        lambda: bench.slack.socket.connections == 2 and len(bench.slack.socket.sockets) == 1
    )

    await bench.slack.direct_message("U1", "still there?")
    assert (await bench.last()).text == "still there?"


async def test_it_reconnects_when_the_socket_is_cut(bench: Bench) -> None:
    await bench.slack.socket.drop()
    await bench.slack.wait_for(lambda: bench.slack.socket.connections == 2)

    await bench.slack.direct_message("U1", "still there?")
    assert (await bench.last()).text == "still there?"


async def test_calls_go_through_the_proxy(slack: SlackEmulator) -> None:
    adapter = SlackAdapter(
        BOT_TOKEN, APP_TOKEN, base_url="http://slack.invalid/api/", proxy=slack.url, timing=QUICK
    )
    ready = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(adapter.run(Inbox().deliver, lambda _: ready.set()))
        async with asyncio.timeout(60):
            await ready.wait()
        await adapter.send(said("by proxy"))
        run.cancel()

    assert slack.texts("C1") == ["by proxy"]


async def test_two_sockets_take_each_event_once_between_them(slack: SlackEmulator) -> None:
    inbox = Inbox()
    async with running(slack, inbox), running(slack, inbox):
        for n in range(6):
            await slack.direct_message("U1", f"{n}")
        await slack.all_acked()

    assert sorted(message.text for message in inbox.messages) == [f"{n}" for n in range(6)]


async def test_stopping_closes_the_socket(slack: SlackEmulator) -> None:
    async with running(slack):
        assert len(slack.socket.sockets) == 1

    await slack.wait_for(lambda: not slack.socket.sockets)


async def run_until_it_fails(adapter: SlackAdapter, once_connected: Callable[[], None]) -> None:
    async with asyncio.timeout(60):
        await adapter.run(Inbox().deliver, lambda _: once_connected())


async def test_a_socket_that_does_not_come_back_ends_the_run(slack: SlackEmulator) -> None:
    connected = asyncio.Event()
    slack.fail_next("apps.connections.open", Fault(drop=True), times=10_000)
    slack.faults["apps.connections.open"].appendleft(Fault(status=200, body=opening(slack)))

    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(outcome_of(run_until_it_fails(adapter_for(slack), connected.set)))
        await connected.wait()
        await slack.socket.drop()

    assert isinstance(run.result(), AdapterError)
    assert "did not come back" in str(run.result())


async def test_an_app_token_taken_back_while_running_ends_the_run_for_good(slack: SlackEmulator) -> None:
    connected = asyncio.Event()

    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(outcome_of(run_until_it_fails(adapter_for(slack), connected.set)))
        await connected.wait()
        slack.revoked = "token_revoked"
        await slack.socket.refresh()

    assert isinstance(run.result(), Unauthorized)
    assert "SLACK_APP_TOKEN" in str(run.result())


async def test_a_socket_without_a_greeting_is_unavailable(slack: SlackEmulator) -> None:
    slack.socket.silent = True

    assert isinstance(await failure_of(adapter_for(slack)), Unavailable)


def opening(slack: SlackEmulator) -> dict[str, object]:
    return {"ok": True, "url": f"ws://127.0.0.1:{slack.port}/socket?ticket={slack.socket.ticket()}"}


async def outcome_of(work: Awaitable[None]) -> BaseException | None:
    try:
        await work
    except AdapterError as exc:
        return exc
    return None


@pytest.mark.parametrize(
    ("bot", "app", "named", "hint"),
    [
        ("xoxb-wrong", APP_TOKEN, "SLACK_BOT_TOKEN", "xoxb-"),
        (APP_TOKEN, APP_TOKEN, "SLACK_BOT_TOKEN", "xoxb-"),
        (BOT_TOKEN, "xapp-wrong", "SLACK_APP_TOKEN", "connections:write"),
        (BOT_TOKEN, BOT_TOKEN, "SLACK_APP_TOKEN", "xapp-"),
    ],
    ids=["bad bot token", "swapped bot token", "bad app token", "swapped app token"],
)
async def test_a_token_that_is_refused_says_which_and_where_to_find_it(
    slack: SlackEmulator, bot: str, app: str, named: str, hint: str
) -> None:
    error = await failure_of(adapter_for(slack, bot, app))

    assert isinstance(error, Unauthorized)
    assert named in str(error)
    assert hint in str(error)


async def test_an_app_token_without_its_scope_says_which_scope(slack: SlackEmulator) -> None:
    slack.refuse_next("apps.connections.open", "missing_scope")

    error = await failure_of(adapter_for(slack))
    assert isinstance(error, Unauthorized)
    assert "connections:write" in str(error)


async def test_a_persons_token_is_no_bot_token(slack: SlackEmulator) -> None:
    body = {"ok": True, "user_id": "U1", "team_id": TEAM, "user": "u1"}
    slack.fail_next("auth.test", Fault(status=200, body=body))

    assert "belongs to no bot" in str(await failure_of(adapter_for(slack)))


async def test_a_server_that_is_not_there_is_unavailable(slack: SlackEmulator) -> None:
    adapter = SlackAdapter(BOT_TOKEN, APP_TOKEN, base_url="http://127.0.0.1:9/api/", timing=QUICK)

    assert isinstance(await failure_of(adapter), Unavailable)
