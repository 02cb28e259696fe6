"""A second opinion: simcord's idea of Discord, written by others, gives the same messages."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import simcord

from trunkline.adapters.base import ChatKind, CommandSpec, InboundMessage
from trunkline.adapters.discord_commands import CommandMenu
from trunkline.adapters.discord_inbound import Normaliser
from trunkline.adapters.discord_listener import Listener, SessionBegan

COMMANDS = (CommandSpec("search", "Finds old talk", "words"),)


@dataclass
class World:
    client: Listener
    env: simcord.Env

    async def heard(self) -> list[InboundMessage]:
        normaliser = Normaliser(self.client, frozenset({"search"}))
        found: list[InboundMessage] = []
        while not self.client.events.empty():
            event = self.client.events.get_nowait()
            if not isinstance(event, SessionBegan):
                found += await normaliser.read(event)
        return found


@asynccontextmanager
async def simcord_world() -> AsyncIterator[World]:
    connector = aiohttp.TCPConnector()
    client = Listener(lambda tenant: None, connector, None)
    async with simcord.run(client) as env:
        await CommandMenu(client, COMMANDS, client.offer).register()
        yield World(client, env)
    await client.files.close()
    await connector.close()


async def test_talk_in_a_channel() -> None:
    async with simcord_world() as world:
        guild = world.env.create_guild()
        channel = guild.create_text_channel("general")
        alice = guild.add_member(world.env.create_user("alice"))
        assert world.client.user is not None

        asked = await alice.send(channel, f"<@{world.client.user.id}> hello <#{channel.id}>")
        reply = await alice.send(channel, "and?", reply_to=asked)
        await alice.edit(reply, "and then?")
        await alice.delete(reply)
        said = await world.heard()

        assert [(message.kind.value, message.text) for message in said] == [
            ("message", f"hello #general ({channel.id})"),
            ("message", "and?"),
            ("edit", "and then?"),
            ("deletion", ""),
        ]
        assert [message.mentions_me for message in said[:2]] == [True, False]
        assert said[1].reply_to is not None
        assert said[1].reply_to.message_id == str(asked.id)
        assert {message.chat for message in said} == {str(channel.id)}


async def test_a_direct_message() -> None:
    async with simcord_world() as world:
        alice = world.env.create_guild().add_member(world.env.create_user("alice"))
        await alice.send_dm("hello")

        [said] = await world.heard()

        assert (said.text, said.chat_kind, said.sender.id) == ("hello", ChatKind.DIRECT, str(alice.id))


async def test_a_slash_command_is_deferred_for_the_asker_alone() -> None:
    async with simcord_world() as world:
        guild = world.env.create_guild()
        channel = guild.create_text_channel("general")
        alice = guild.add_member(world.env.create_user("alice"))

        result = await alice.slash(channel, "search", argument="old boats")
        [said] = await world.heard()

        assert (said.command, said.text, said.chat) == ("search", "old boats", str(channel.id))
        assert said.interaction is not None
        assert result.deferred
        assert result.ephemeral
