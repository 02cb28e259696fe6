"""How the Discord adapter's connection begins, breaks, mends and ends, against the emulator."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.emulators.discord import DiscordEmulator, rate_limited
from tests.emulators.discord_live import Live, live_adapter, outbound
from tests.emulators.discord_proxy import ConnectProxy
from trunkline.adapters.base import AdapterError, ChatRef, InboundMessage, Unauthorized, Unavailable
from trunkline.adapters.discord import DiscordAdapter
from trunkline.adapters.discord_listener import MAX_EVENTS, Listener, SessionBegan


@pytest.fixture
async def emulator() -> AsyncIterator[DiscordEmulator]:
    async with DiscordEmulator().running() as emulator:
        yield emulator
    assert emulator.violations == []


@pytest.fixture
async def live(emulator: DiscordEmulator) -> AsyncIterator[Live]:
    async with live_adapter(emulator) as live:
        yield live


async def ignored(message: InboundMessage) -> None:
    """An inbox that takes everything."""


async def test_connected_names_the_bot_once(emulator: DiscordEmulator) -> None:
    tenants: list[str] = []
    adapter = DiscordAdapter(emulator.token, connector=emulator.connector)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(adapter.run(ignored, tenants.append))
        await emulator.connected()
        await emulator.gateway.reconnect()
        await emulator.wait_for(lambda: emulator.gateway.resumes == 1)
        running.cancel()

    assert tenants == [emulator.bot_id]


async def test_cancelling_closes_the_connection(emulator: DiscordEmulator) -> None:
    async with live_adapter(emulator):
        assert emulator.gateway.connected

    await emulator.wait_for(lambda: not emulator.gateway.connected)


async def test_a_bad_token_needs_a_person(emulator: DiscordEmulator) -> None:
    adapter = DiscordAdapter("wrong", connector=emulator.connector)

    with pytest.raises(Unauthorized, match="DISCORD_BOT_TOKEN"):
        await adapter.run(ignored, lambda tenant: None)


async def test_a_token_the_gateway_refuses_needs_a_person(emulator: DiscordEmulator) -> None:
    emulator.gateway.token = "reset meanwhile"
    adapter = DiscordAdapter(emulator.token, connector=emulator.connector)

    with pytest.raises(Unauthorized, match="DISCORD_BOT_TOKEN"):
        await adapter.run(ignored, lambda tenant: None)


async def test_a_missing_intent_says_where_to_switch_it_on(emulator: DiscordEmulator) -> None:
    emulator.gateway.content_allowed = False
    adapter = DiscordAdapter(emulator.token, connector=emulator.connector)

    with pytest.raises(Unauthorized, match=r"Message Content Intent under Bot, Privileged Gateway Intents"):
        await adapter.run(ignored, lambda tenant: None)


async def test_an_unreachable_discord_can_be_tried_again(emulator: DiscordEmulator) -> None:
    adapter = DiscordAdapter("token", proxy="http://127.0.0.1:9", connector=emulator.connector)

    with pytest.raises(Unavailable):
        await adapter.run(ignored, lambda tenant: None)


@pytest.mark.parametrize("code", [4010, 4011, 4012, 4013])
async def test_a_connection_given_up_ends_the_run(emulator: DiscordEmulator, code: int) -> None:
    adapter = DiscordAdapter(emulator.token, connector=emulator.connector)
    failures: list[AdapterError] = []

    async def run() -> None:
        try:
            await adapter.run(ignored, lambda tenant: None)
        except AdapterError as error:
            failures.append(error)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(run())
        await emulator.connected()
        await emulator.gateway.hang_up(code)

    assert str(code) in str(failures[0])


async def test_events_of_a_short_break_come_once_and_in_order(live: Live) -> None:
    emulator = live.emulator
    await emulator.direct_message("77", "0")
    await live.nth(1)

    await emulator.gateway.reconnect()
    for number in range(1, 6):
        await emulator.direct_message("77", str(number))
    await emulator.wait_for(lambda: emulator.gateway.resumes == 1)
    await emulator.direct_message("77", "6")

    await live.nth(7)
    assert [said.text for said in live.received] == [str(number) for number in range(7)]
    assert emulator.gateway.identifies == 1


async def test_a_session_given_up_is_begun_anew_and_the_gap_read_back(live: Live) -> None:
    emulator = live.emulator
    thread = await emulator.create_thread(emulator.general, "77", "plans")
    await emulator.direct_message("77", "before")
    await emulator.channel_message(thread, "77", "in the thread")
    await live.nth(2)

    await emulator.gateway.invalidate()
    missed = await emulator.direct_message("77", "meanwhile")
    missed_in_thread = await emulator.channel_message(thread, "77", "meanwhile too")
    await emulator.wait_for(lambda: emulator.gateway.identifies == 2)
    await emulator.wait_for(lambda: len(live.received) >= 4)
    await emulator.direct_message("77", "after")
    await live.nth(5)

    assert [said.message_id for said in live.received[2:4]] == [missed, missed_in_thread]
    assert live.received[2].key == f"m:{emulator.direct_chat('77')}:{missed}:0"
    assert (live.received[3].chat, live.received[3].thread) == (emulator.general, thread)
    assert live.received[4].text == "after"


async def test_a_second_run_reads_back_what_came_between(emulator: DiscordEmulator) -> None:
    async with live_adapter(emulator) as live:
        await emulator.direct_message("77", "before")
        await live.nth(1)
    missed = await emulator.direct_message("77", "between")

    async with live_adapter(emulator, adapter=live.adapter) as again:
        said = await again.nth(1)

    assert (said.message_id, said.text) == (missed, "between")


async def test_a_lost_line_is_taken_up_again(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="discord")
    emulator = live.emulator
    await emulator.gateway.cut()
    await emulator.wait_for(lambda: not emulator.gateway.connected)
    await emulator.direct_message("77", "still there?")

    assert (await live.nth(1)).text == "still there?"
    assert emulator.gateway.resumes == 1


async def test_messages_keep_their_order_while_the_inbox_is_slow(emulator: DiscordEmulator) -> None:
    taken: list[str] = []
    gate = asyncio.Event()

    async def slowly(message: InboundMessage) -> None:
        await gate.wait()
        # Were each handled by a task of its own, the later ones would be through first.
        for _ in range(20 - int(message.text)):
            await asyncio.sleep(0)
        taken.append(message.text)
        await emulator.notify()

    adapter = DiscordAdapter(emulator.token, connector=emulator.connector)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(adapter.run(slowly, lambda tenant: None))
        await emulator.connected()
        for number in range(20):
            await emulator.channel_message(emulator.general, "77", str(number))
        gate.set()
        await emulator.wait_for(lambda: len(taken) == 20)
        running.cancel()

    assert taken == [str(number) for number in range(20)]


async def test_an_inbox_that_fails_ends_the_run_with_its_own_error(emulator: DiscordEmulator) -> None:
    async def full(message: InboundMessage) -> None:
        raise OSError("disk full")

    adapter = DiscordAdapter(emulator.token, connector=emulator.connector)
    failures: list[OSError] = []

    async def run() -> None:
        try:
            await adapter.run(full, lambda tenant: None)
        except OSError as error:
            failures.append(error)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(run())
        await emulator.connected()
        await emulator.direct_message("77", "hello")

    assert str(failures[0]) == "disk full"
    assert not emulator.gateway.connected


async def test_a_send_overtaken_by_the_end_is_safe_to_repeat(emulator: DiscordEmulator) -> None:
    emulator.fail_next("create_message", rate_limited(0.2))
    async with live_adapter(emulator) as live, asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(_send_until_unavailable(live))
        await emulator.wait_for(lambda: emulator.calls_of("create_message"))
        live.stop()

    assert await sending
    assert emulator.texts() == []


async def _send_until_unavailable(live: Live) -> bool:
    with pytest.raises(Unavailable):
        await live.adapter.send(outbound("hi", ChatRef(live.emulator.general), nonce="t.0"))
    return True


async def test_more_events_than_the_inbox_takes_end_the_run(emulator: DiscordEmulator) -> None:
    connector = emulator.connector()
    listener = Listener(lambda tenant: None, connector, None)
    for _ in range(MAX_EVENTS + 1):
        listener.offer(SessionBegan())

    with pytest.raises(Unavailable):
        await listener.fail_when_full()
    await listener.files.close()
    await connector.close()


async def test_everything_goes_through_the_proxy(emulator: DiscordEmulator, tmp_path: Path) -> None:
    authority = tmp_path / "authority.pem"
    authority.write_bytes(emulator.authority_pem)

    def trusting() -> aiohttp.BaseConnector:
        return aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(authority)))

    async with ConnectProxy(emulator.proxy_ports()).running() as proxy:
        adapter = DiscordAdapter(emulator.token, proxy=proxy.url, connector=trusting)
        live = Live(emulator, adapter)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(adapter.run(live.deliver, live.tenants.put_nowait))
            await emulator.connected()
            file = emulator.attachment("a.txt", b"content", "text/plain")
            await emulator.direct_message("77", "hello", attachments=[file])
            said = await live.nth(1)
            content = await adapter.download(said.attachments[0], 100)
            await adapter.send(outbound("hi", ChatRef(said.chat)))
            running.cancel()

        assert (content, emulator.texts(said.chat)) == (b"content", ["hi"])
        assert proxy.tunnels >= 3
        assert proxy.refused == []
