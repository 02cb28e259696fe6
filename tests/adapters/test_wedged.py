"""A connection that hangs without an error is renewed, and what is said meanwhile is not lost.

Telegram's own, a poll that is accepted and never answered, is with the rest of its polling.
"""

from tests.emulators.discord import DiscordEmulator
from tests.emulators.discord_live import live_adapter
from tests.emulators.slack_bench import SOON_S, emulated, running
from trunkline.adapters.discord import DiscordAdapter


async def test_a_gateway_of_discord_that_falls_silent_is_connected_to_anew() -> None:
    async with DiscordEmulator().running() as discord:
        discord.gateway.heartbeat_ms = 200
        adapter = DiscordAdapter(discord.token, connector=discord.connector, silence_s=1.5)
        async with live_adapter(discord, adapter=adapter) as live:
            discord.gateway.acks = False
            await discord.wait_for(lambda: discord.gateway.resumes == 1)
            discord.gateway.acks = True
            await discord.direct_message("77", "still there?")
            assert (await live.nth(1)).text == "still there?"
        assert discord.violations == []


async def test_a_socket_of_slack_that_answers_no_ping_is_replaced() -> None:
    async with emulated() as slack:
        slack.socket.ack_timeout_s = SOON_S
        slack.socket.pongs = False
        async with running(slack) as bench:
            slack.socket.pongs = True
            await slack.wait_for(lambda: slack.socket.connections >= 2)
            await slack.direct_message("U1", "still there?")
            assert (await bench.last()).text == "still there?"


async def test_slack_without_a_single_pong_is_connected_to_again_and_again_but_hears_everything() -> None:
    async with emulated() as slack:
        slack.socket.ack_timeout_s = SOON_S
        slack.socket.pongs = False
        async with running(slack) as bench:
            await slack.wait_for(lambda: slack.socket.connections >= 3)
            await slack.direct_message("U1", "still there?")
            assert (await bench.last()).text == "still there?"
