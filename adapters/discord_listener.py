"""The discord.py client: queues what Discord reports, in order of arrival, and says when it is connected."""

import asyncio
import copy
import time
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp
import discord

from trunkline.adapters.base import Unavailable
from trunkline.adapters.discord_buttons import deferred
from trunkline.adapters.discord_inbound import ButtonPress, Event

MAX_EVENTS = 5000
"""Waiting for the inbox. More means that it has stood still for minutes: the adapter then ends, and the
supervisor's next run reads the chats back."""
_MAX_RATE_WAIT_S = 30.0
"""The longest wait discord.py may sit out itself, the least it can be told; longer ones are RateLimited."""


@dataclass(frozen=True, slots=True)
class SessionBegan:
    """Discord told nothing of what came before: the first of a run, or one in place of a lost one."""


class Listener(discord.Client):
    """discord.py starts a task for every event, in order. None of the handlers waits, so the queue keeps it.

    `files` is the session for downloads, over the same connector and proxy. A gateway that says nothing for
    `silence_s`, not even that it got a heartbeat, is lost, and connected to anew.
    """

    def __init__(
        self,
        connected: Callable[[str], None],
        connector: aiohttp.BaseConnector,
        proxy: str | None,
        silence_s: float = 60.0,
    ) -> None:
        intents = discord.Intents(
            guilds=True,
            guild_messages=True,
            dm_messages=True,
            guild_reactions=True,
            dm_reactions=True,
            message_content=True,
        )
        super().__init__(
            intents=intents,
            connector=connector,
            proxy=proxy,
            allowed_mentions=discord.AllowedMentions.none(),
            max_ratelimit_timeout=_MAX_RATE_WAIT_S,
            chunk_guilds_at_startup=False,
            heartbeat_timeout=silence_s,
            enable_debug_events=True,
        )
        self.heard_s = time.monotonic()
        self.events: asyncio.Queue[Event | SessionBegan] = asyncio.Queue(MAX_EVENTS)
        self.files = aiohttp.ClientSession(connector=connector, connector_owner=False, proxy=proxy)
        self._connected = connected
        self._was_connected = False
        self._full = asyncio.Event()

    def offer(self, event: Event | SessionBegan) -> None:
        try:
            self.events.put_nowait(event)
        except asyncio.QueueFull:
            self._full.set()

    async def fail_when_full(self) -> None:
        await self._full.wait()
        raise Unavailable(f"The inbox did not take {MAX_EVENTS} messages from Discord in time.")

    async def on_socket_raw_receive(self, _: object) -> None:
        # Each heartbeat's echo, too.
        self.heard_s = time.monotonic()

    async def on_connect(self) -> None:
        self.offer(SessionBegan())
        if self.user is not None and not self._was_connected:
            self._was_connected = True
            self._connected(str(self.user.id))

    async def on_message(self, message: discord.Message) -> None:
        # discord.py keeps this very object up to date: an edit would change what still waits here.
        self.offer(copy.copy(message))

    async def on_raw_message_edit(self, event: discord.RawMessageUpdateEvent) -> None:
        self.offer(event)

    async def on_raw_message_delete(self, event: discord.RawMessageDeleteEvent) -> None:
        self.offer(event)

    async def on_raw_reaction_add(self, event: discord.RawReactionActionEvent) -> None:
        self.offer(event)

    async def on_raw_reaction_remove(self, event: discord.RawReactionActionEvent) -> None:
        self.offer(event)

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        if interaction.type is discord.InteractionType.component:
            self.offer(ButtonPress(interaction, deferred=await deferred(interaction)))

    async def on_raw_bulk_message_delete(self, event: discord.RawBulkMessageDeleteEvent) -> None:
        self.offer(event)
