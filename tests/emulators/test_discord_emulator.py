"""The Discord emulator refuses what Discord refuses, as plain discord.py sees it."""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import discord
import pytest

from tests.emulators.discord import DiscordEmulator
from tests.emulators.discord_spec import SPECS_VARIABLE, checker_from_environment
from tests.emulators.discord_world import MESSAGE_CONTENT


class Watching(discord.Client):
    """Keeps what it is told, and leaves interactions to the test."""

    def __init__(self, emulator: DiscordEmulator, *, content: bool = True) -> None:
        intents = discord.Intents(guilds=True, guild_messages=True, dm_messages=True, message_content=content)
        super().__init__(intents=intents, connector=emulator.connector())
        self.messages_seen: asyncio.Queue[discord.Message] = asyncio.Queue(100)
        self.interactions_seen: asyncio.Queue[discord.Interaction] = asyncio.Queue(100)

    async def on_message(self, message: discord.Message) -> None:
        self.messages_seen.put_nowait(message)

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        self.interactions_seen.put_nowait(interaction)


@pytest.fixture
async def emulator() -> AsyncIterator[DiscordEmulator]:
    async with DiscordEmulator().running() as emulator:
        yield emulator
    assert emulator.violations == []


@asynccontextmanager
async def watching(emulator: DiscordEmulator, *, content: bool = True) -> AsyncIterator[Watching]:
    client = Watching(emulator, content=content)
    async with client, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(client.start(emulator.token))
        await emulator.connected()
        yield client
        running.cancel()


def general(client: discord.Client, emulator: DiscordEmulator) -> discord.PartialMessageable:
    return client.get_partial_messageable(int(emulator.general))


async def test_without_the_content_intent_only_what_concerns_the_bot_is_readable(
    emulator: DiscordEmulator,
) -> None:
    async with watching(emulator, content=False) as client:
        assert not client.intents.value & MESSAGE_CONTENT
        await emulator.channel_message(emulator.general, "77", "secret", mention=False)
        await emulator.channel_message(emulator.general, "77", "for you")
        await emulator.direct_message("77", "direct")

        seen = [(await client.messages_seen.get()).content for _ in range(3)]

    assert seen == ["", f"<@{emulator.bot_id}> for you", "direct"]


async def test_a_file_is_uploaded_and_one_too_large_is_refused(emulator: DiscordEmulator) -> None:
    async with watching(emulator) as client:
        channel = general(client, emulator)
        sent = await channel.send("here", file=discord.File(io.BytesIO(b"content"), "a.txt"))
        assert await sent.attachments[0].read() == b"content"

        with pytest.raises(discord.HTTPException) as refused:
            await channel.send(file=discord.File(io.BytesIO(bytes(10 * 2**20 + 1)), "big.bin"))

    assert (refused.value.status, refused.value.code) == (413, 40005)


async def test_text_too_long_or_missing_is_refused(emulator: DiscordEmulator) -> None:
    async with watching(emulator) as client:
        with pytest.raises(discord.HTTPException) as long:
            await general(client, emulator).send("x" * 2001)
        with pytest.raises(discord.HTTPException) as empty:
            await general(client, emulator).send("  ")

    assert (long.value.code, empty.value.code) == (50035, 50006)


async def test_a_reply_to_nothing_is_refused_unless_it_need_not_exist(emulator: DiscordEmulator) -> None:
    async with watching(emulator) as client:
        channel = general(client, emulator)
        nowhere = discord.MessageReference(message_id=1, channel_id=channel.id)

        with pytest.raises(discord.HTTPException) as refused:
            await channel.send("hi", reference=nowhere)
        nowhere.fail_if_not_exists = False
        await channel.send("hi", reference=nowhere)

    assert refused.value.code == 50035
    assert emulator.texts() == ["hi"]


async def test_reactions_threads_history_and_direct_chats_work(emulator: DiscordEmulator) -> None:
    async with watching(emulator) as client:
        message_id = await emulator.channel_message(emulator.general, "77", "one")
        message = await client.messages_seen.get()
        await message.add_reaction("👀")
        assert emulator.world.reactions == [(message_id, "👀")]
        await message.remove_reaction("👀", discord.Object(int(emulator.bot_id)))
        thread = await message.create_thread(name="plans")
        await thread.send("in the thread")
        direct = await client.create_dm(discord.Object(77))
        await direct.send("direct")
        history = [old.content async for old in general(client, emulator).history(limit=10)]

    assert emulator.world.reactions == []
    assert emulator.texts(message_id) == ["in the thread"]
    assert emulator.texts(emulator.direct_chat("77")) == ["direct"]
    assert history == [f"<@{emulator.bot_id}> one"]


async def test_an_interaction_must_be_answered_in_time(emulator: DiscordEmulator) -> None:
    async with watching(emulator) as client:
        await emulator.slash("77", "help")
        await emulator.slash("77", "help", late=True)
        first, late = await client.interactions_seen.get(), await client.interactions_seen.get()

        await first.response.send_message("now", ephemeral=True)
        with pytest.raises(discord.NotFound) as overdue:
            await late.response.defer()

    assert overdue.value.code == 10062
    assert [(message.text, message.ephemeral) for message in emulator.sent()] == [("now", True)]


async def test_an_interaction_is_answered_once(emulator: DiscordEmulator) -> None:
    async with watching(emulator) as client:
        token = await emulator.slash("77", "help")
        interaction = await client.interactions_seen.get()
        emulator.world.interactions[token].answered = True

        with pytest.raises(discord.HTTPException) as doubled:
            await interaction.response.defer()

    assert doubled.value.code == 40060


def test_breaches_of_the_published_descriptions_are_found() -> None:
    spec = checker_from_environment()
    if spec is None:
        pytest.skip(f"{SPECS_VARIABLE} names no folder: nothing is checked against Discord's descriptions")
    messages = "/channels/{channel_id}/messages"

    assert spec.request("POST", messages, {"content": "hi", "message_reference": {"message_id": 1}}) == []
    assert spec.request("POST", messages, {"content": 5})
    assert spec.request("POST", messages, {"embeds": [{"title": "x" * 257}]})
    assert spec.request("POST", "/channels/{channel_id}/nowhere", None)
    assert spec.response("POST", messages, 200, {"id": "1"})
    assert spec.command({"op": 2, "d": {"token": "t", "intents": 0}})
    assert spec.event({"op": 0, "t": "READY", "s": 1, "d": {"v": 10}})
