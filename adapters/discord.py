"""Discord: one bot's connection over discord.py, kept until cancelled.

Events come in one queue in the order they arrived; what they mean is discord_inbound's business. Answers go
to the chat with an enforced nonce, or through a slash command's interaction while it lasts.
"""

import asyncio
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import inf

import aiohttp
import discord

from trunkline.adapters.base import (
    AdapterError,
    Attachment,
    ChatRef,
    Chunk,
    CommandSpec,
    Deliver,
    InboundMessage,
    Limits,
    OutboundMessage,
    Receipt,
    Rejected,
    Unavailable,
)
from trunkline.adapters.discord_buttons import view
from trunkline.adapters.discord_commands import CommandMenu
from trunkline.adapters.discord_errors import translate, translated
from trunkline.adapters.discord_files import MESSAGE_FILES, REQUEST_BYTES, fetch_file, is_in, made
from trunkline.adapters.discord_inbound import PLATFORM, Normaliser, SlashCommand
from trunkline.adapters.discord_listener import Listener, SessionBegan
from trunkline.adapters.markup.discord import render_discord

MESSAGE_CHARS = 2000
"""What a bot may write in one message (Discord, Create Message; the service refuses more with 50035)."""
EDIT_INTERVAL_S = 1.2
"""Discord lets about five edits pass in five seconds per channel."""
TYPING_INTERVAL_S = 8.0
"""The sign lasts ten seconds."""
_CLOSE_TIMEOUT_S = 5.0
_PLACEHOLDER_TIMEOUT_S = 5.0
_REMEMBERED = 500
_NONCE_IS_KNOWN = timedelta(minutes=2)
"""Discord checks nonces against those of "the past few minutes"."""
_CLOCKS_DIFFER = timedelta(minutes=5)
_LOOKED_THROUGH = 200
THREAD_NAME_CHARS = 100
# A thread has already been created for this message.
_HAS_THREAD = 160004
READ_BACK_MESSAGES = 200
"""What one chat may have gathered during a gap; more is left unread."""
_MISSING_PERMISSIONS = 50013
# No permission to read the history, without which nothing there may be replied to.
_MAY_NOT_REPLY = frozenset({160002, 160009})
# Unknown webhook, unknown interaction, invalid webhook token: an interaction whose time is over.
_INTERACTION_IS_OVER = frozenset({10015, 10062, 50027})

log = logging.getLogger(__name__)

_LIMITS = Limits(
    message_chars=MESSAGE_CHARS,
    edit_interval_s=EDIT_INTERVAL_S,
    group_edit_interval_s=EDIT_INTERVAL_S,
    typing_interval_s=TYPING_INTERVAL_S,
    nonce=True,
    looks_back=True,
    album_files=MESSAGE_FILES,
    album_bytes=REQUEST_BYTES,
)


@dataclass(frozen=True, slots=True)
class _Open:
    """What a run holds once it is logged in."""

    client: Listener
    normaliser: Normaliser


class DiscordAdapter:
    """`proxy` is the address of an HTTP proxy; `connector` makes the aiohttp connector all traffic uses. When
    nothing comes for `silence_s`, which must be more than Discord's heartbeat, the connection is renewed.

    A chat is the top-level channel or the direct channel, a thread or forum post is the thread in it, and
    a private thread is a chat of its own under its own id. Links in answers are sent without previews:
    nobody but a reader should fetch an address a model wrote.
    """

    def __init__(
        self,
        token: str,
        *,
        commands: Sequence[CommandSpec] = (),
        proxy: str | None = None,
        connector: Callable[[], aiohttp.BaseConnector] | None = None,
        silence_s: float = 60.0,
    ) -> None:
        self._token = token
        self._silence_s = silence_s
        self._commands = tuple(commands)
        self._proxy = proxy
        self._connector = connector or aiohttp.TCPConnector
        self._open: _Open | None = None
        self._placeholders: OrderedDict[str, discord.Interaction] = OrderedDict()
        self._last_seen: OrderedDict[int, int] = OrderedDict()

    @property
    def platform(self) -> str:
        return PLATFORM

    @property
    def limits(self) -> Limits:
        return _LIMITS

    def render(self, markdown: str) -> tuple[Chunk, ...]:
        return render_discord(markdown, limit_chars=MESSAGE_CHARS)

    async def run(self, deliver: Deliver, connected: Callable[[str], None]) -> None:
        connector = self._connector()
        client = Listener(connected, connector, self._proxy, self._silence_s)
        menu = CommandMenu(client, self._commands, client.offer)
        normaliser = Normaliser(client, frozenset(spec.name for spec in self._commands))
        try:
            async with translated(repeatable=True):
                await client.login(self._token)
            self._open = _Open(client, normaliser)
            await self._serve(self._open, menu, deliver)
        finally:
            self._open = None
            await _close(client, connector)

    async def _serve(self, connection: _Open, menu: CommandMenu, deliver: Deliver) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._drain(connection, deliver))
                tasks.create_task(connection.client.fail_when_full())
                tasks.create_task(menu.register())
                await _stay_connected(connection.client)
        except BaseExceptionGroup as group:
            # The first failure ends the others; it alone says what happened.
            raise group.exceptions[0] from group

    async def _drain(self, connection: _Open, deliver: Deliver) -> None:
        """One at a time, so that the messages of a chat keep their order."""
        while True:
            event = await connection.client.events.get()
            if isinstance(event, SessionBegan):
                await self._fill_gap(deliver)
                continue
            if isinstance(event, SlashCommand) and event.deferred:
                self._placeholders[event.interaction.token] = event.interaction
                _forget_oldest(self._placeholders)
            for inbound in await connection.normaliser.read(event):
                await deliver(inbound)
            if isinstance(event, discord.Message):
                self._last_seen[event.channel.id] = event.id
                self._last_seen.move_to_end(event.channel.id)
                _forget_oldest(self._last_seen)

    async def _fill_gap(self, deliver: Deliver) -> None:
        """A new session replays nothing: ask each chat that was heard before for what came since."""
        for channel_id, after in list(self._last_seen.items()):
            try:
                missed = await self.read_back(ChatRef(str(channel_id)), str(after))
            except AdapterError as error:
                log.warning("chat not read back: channel=%d error=%s", channel_id, error)
                continue
            for inbound in missed:
                await deliver(inbound)

    async def read_back(
        self, place: ChatRef, after: str, max_messages: int = READ_BACK_MESSAGES
    ) -> tuple[InboundMessage, ...]:
        """What people wrote in a chat or thread after the message of that id, oldest first.

        Messages already delivered may come again, under the same key. Raises AdapterError.
        """
        connection = self._connected()
        async with translated(repeatable=True):
            channel = await connection.client.fetch_channel(_channel_id(place))
            if not isinstance(channel, discord.abc.Messageable):
                return ()
            history = channel.history(after=discord.Object(int(after)), limit=max_messages, oldest_first=True)
            messages = [message async for message in history]
        found = [await connection.normaliser.read(message) for message in messages]
        return tuple(inbound for some in found for inbound in some)

    async def said_before(self, place: ChatRef, before: str, max_messages: int) -> tuple[InboundMessage, ...]:
        """What the thread hangs from, or the first message of a forum post, and the newest in the thread."""
        connection = self._connected()
        async with translated(repeatable=True):
            thread = _readable(connection.client, _channel_id(place))
            newest = thread.history(before=discord.Object(int(before)), limit=max_messages)
            messages = [message async for message in newest][::-1]
            if all(message.id != _channel_id(place) for message in messages):
                began = await _first_of(connection.client, place)
                messages = [*began, *messages[max(0, len(messages) + len(began) - max_messages) :]]
        found = [await connection.normaliser.read(message) for message in messages]
        return tuple(inbound for some in found for inbound in some)

    async def open_thread(self, chat: str, message_id: str, title: str) -> None:
        client = self._connected().client
        async with translated(repeatable=True):
            channel = client.get_channel(int(chat)) or await client.fetch_channel(int(chat))
            if not isinstance(channel, discord.TextChannel):
                raise Rejected("There are no threads in this channel.")
            try:
                held = channel.get_partial_message(int(message_id))
                await held.create_thread(name=title[:THREAD_NAME_CHARS] or "…")
            except discord.HTTPException as error:
                if error.code != _HAS_THREAD:
                    raise

    async def send(self, message: OutboundMessage) -> Receipt:
        """With a nonce Discord gives back the first message for some minutes instead of making a second.

        So a lost answer is Unavailable with a nonce, and Uncertain without one or through an interaction,
        which takes none.
        """
        client = self._connected().client
        if not message.chunk.text.strip() and message.file is None:
            raise Rejected("There is no text to send.")
        if message.ephemeral and message.file is not None:
            raise Rejected("A file can't be shown to one person only.")
        if message.ephemeral:
            receipt = await self._answer(client, message)
            if receipt is not None:
                return receipt
        earlier = await self._find(client, message)
        if earlier is not None:
            return earlier
        reference = None
        if message.reply_to is not None:
            reference = discord.MessageReference(
                message_id=int(message.reply_to),
                channel_id=_channel_id(message.to),
                fail_if_not_exists=False,
            )
        async with translated(repeatable=bool(message.nonce)):
            try:
                sent = await _post(client, message, reference)
            except discord.Forbidden as error:
                if message.files and error.code == _MISSING_PERMISSIONS:
                    # Perhaps of files alone: words may still be welcome there.
                    raise Rejected("Discord does not let the bot attach files there.") from error
                if reference is None or error.code not in _MAY_NOT_REPLY:
                    raise
                sent = await _post(client, message, None)
        await self._drop_placeholder(message.to)
        return Receipt(str(sent.id))

    async def _find(self, client: Listener, message: OutboundMessage) -> Receipt | None:
        """Our own message with this text, when Discord may no longer know the nonce of an earlier call."""
        tried = message.tried_since
        if tried is None or datetime.now(UTC) - tried < _NONCE_IS_KNOWN or client.user is None:
            return None
        async with translated(repeatable=True):
            channel = client.get_partial_messageable(_channel_id(message.to))
            async for said in channel.history(after=tried - _CLOCKS_DIFFER, limit=_LOOKED_THROUGH):
                if said.author.id == client.user.id and _says(said, message):
                    return Receipt(str(said.id))
        return None

    async def edit(self, message_id: str, message: OutboundMessage) -> Receipt:
        client = self._connected().client
        if not message.chunk.text.strip():
            raise Rejected("There is no text to put in place of the old one.")
        if message.ephemeral:
            receipt = await self._answer(client, message, message_id)
            if receipt is not None:
                return receipt
        async with translated(repeatable=True):
            channel = client.get_partial_messageable(_channel_id(message.to))
            held = channel.get_partial_message(int(message_id))
            await held.edit(
                content=message.chunk.text,
                allowed_mentions=_mentions(message),
                view=view(message.buttons),
            )
        return Receipt(message_id)

    async def delete(self, to: ChatRef, message_id: str) -> None:
        client = self._connected().client
        async with translated(repeatable=True):
            channel = client.get_partial_messageable(_channel_id(to))
            try:
                await channel.get_partial_message(int(message_id)).delete()
            except discord.NotFound:
                return

    async def _answer(
        self, client: Listener, message: OutboundMessage, message_id: str | None = None
    ) -> Receipt | None:
        """Through the interaction; None when its time is over and the answer may go to the chat."""
        if not _is_live(message.to):
            _check_may_be_seen(message)
            return None
        token = message.to.interaction or ""
        webhook = discord.Webhook.partial(client.application_id or 0, token, client=client)
        # Only as an application's own does it take ephemeral answers; `partial` can't be told.
        webhook.type = discord.WebhookType.application
        webhook.proxy = self._proxy
        async with translated(repeatable=message_id is not None):
            try:
                if message_id is not None:
                    await webhook.edit_message(
                        int(message_id), content=message.chunk.text, allowed_mentions=_mentions(message)
                    )
                    return Receipt(message_id)
                sent = await webhook.send(
                    message.chunk.text,
                    ephemeral=True,
                    wait=True,
                    allowed_mentions=_mentions(message),
                    suppress_embeds=True,
                    silent=message.quiet,
                )
            except discord.HTTPException as error:
                if error.code in _INTERACTION_IS_OVER:
                    _check_may_be_seen(message)
                    return None
                raise
        self._placeholders.pop(token, None)
        return Receipt(str(sent.id))

    async def _drop_placeholder(self, to: ChatRef) -> None:
        """Takes 'thinking…' away once a command was answered in the chat for all to see."""
        interaction = self._placeholders.pop(to.interaction or "", None)
        if interaction is None:
            return
        try:
            async with translated(repeatable=True, timeout_s=_PLACEHOLDER_TIMEOUT_S):
                await interaction.delete_original_response()
        except AdapterError as error:
            log.info("placeholder of a slash command left behind: error=%s", error)

    @property
    def reactions(self) -> frozenset[str] | None:
        return None

    async def react(self, to: ChatRef, message_id: str, emoji: str) -> None:
        """Adds one more; an empty emoji does nothing, since earlier ones aren't known."""
        if not emoji:
            return
        client = self._connected().client
        async with translated(repeatable=True):
            channel = client.get_partial_messageable(_channel_id(to))
            await channel.get_partial_message(int(message_id)).add_reaction(emoji)

    @property
    def deaf_after_s(self) -> float:
        return self._silence_s

    @property
    def heard_ago_s(self) -> float:
        """Since the last event, or echo of a heartbeat."""
        return inf if self._open is None else time.monotonic() - self._open.client.heard_s

    @property
    def direct_link(self) -> str:
        """The bot's profile, where one writes to it."""
        user = self._open.client.user if self._open is not None else None
        return "" if user is None else f"https://discord.com/users/{user.id}"

    async def is_in(self, chat: str, user: str) -> bool:
        """Whether somebody is still on a channel's server and sees the channel: events on that are for
        privileged bots only."""
        client = self._connected().client
        async with translated(repeatable=True):
            channel = client.get_channel(int(chat)) or await client.fetch_channel(int(chat))
            if not isinstance(channel, discord.abc.GuildChannel | discord.Thread):
                return True
            try:
                member = await channel.guild.fetch_member(int(user))
            except discord.NotFound:
                return False
            if channel.guild.get_role(channel.guild.id) is None:
                return True  # the server's roles are not known yet
            sees = channel.permissions_for(member)
            if not isinstance(channel, discord.Thread) or not channel.is_private():
                return sees.view_channel
            try:
                await channel.fetch_member(member.id)
            except discord.NotFound:
                return sees.manage_threads
            return sees.view_channel

    async def typing(self, to: ChatRef, *, on: bool) -> None:
        """There is no call to end it: the sign goes with the answer or after ten seconds."""
        if not on:
            return
        client = self._connected().client
        async with translated(repeatable=True):
            await client.get_partial_messageable(_channel_id(to)).typing()

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        return await fetch_file(self._connected().client, attachment, max_bytes)

    def _connected(self) -> _Open:
        if self._open is None:
            raise Unavailable("Discord is not connected.")
        return self._open


async def _stay_connected(client: Listener) -> None:
    """discord.py resumes and reconnects by itself; it gives up only where that can't help."""
    try:
        await client.connect(reconnect=True)
    except (discord.DiscordException, aiohttp.ClientError, OSError) as error:
        raise translate(error, repeatable=True) from error
    raise Unavailable("Discord's connection was closed.")


async def _post(
    client: Listener, message: OutboundMessage, reference: discord.MessageReference | None
) -> discord.Message:
    return await client.get_partial_messageable(_channel_id(message.to)).send(
        message.chunk.text or None,
        files=[made(file) for file in message.files],
        # discord.py tries again by itself, so even a message without a name must not double.
        nonce=message.nonce or secrets.token_hex(12),
        reference=reference,  # type: ignore[arg-type]  # None is its default, left out of its types
        allowed_mentions=_mentions(message),
        suppress_embeds=True,
        silent=message.quiet,
        view=view(message.buttons),  # type: ignore[arg-type]  # None is its default, too
    )


def _readable(client: Listener, channel_id: int) -> discord.abc.Messageable:
    """With its server where it is known, so that roles and channels in its messages have names."""
    known = client.get_channel(channel_id)
    return known if isinstance(known, discord.abc.Messageable) else client.get_partial_messageable(channel_id)


async def _first_of(client: Listener, place: ChatRef) -> list[discord.Message]:
    """What a thread began with, wherever that stands; nothing where it is gone."""
    for where in (place.chat, place.thread):
        try:
            return [await _readable(client, int(where or 0)).fetch_message(_channel_id(place))]
        except (discord.NotFound, discord.Forbidden):
            continue
    return []


async def _close(client: Listener, connector: aiohttp.BaseConnector) -> None:
    try:
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await client.close()
    except TimeoutError:
        log.warning("connection cut: Discord did not say goodbye in time")
        await client.http.close()
    finally:
        await client.files.close()
        await connector.close()


def _says(said: discord.Message, message: OutboundMessage) -> bool:
    if message.files:
        return all(is_in(said, file) for file in message.files)
    return said.content.strip() == message.chunk.text.strip()


def _channel_id(place: ChatRef) -> int:
    return int(place.thread or place.chat)


def _is_live(to: ChatRef) -> bool:
    if to.interaction is None:
        return False
    return to.interaction_expires is None or datetime.now(UTC) < to.interaction_expires


def _check_may_be_seen(message: OutboundMessage) -> None:
    """Raises Rejected for what is for one person's eyes only: it goes nowhere else."""
    if message.private:
        raise Rejected("The time for a private answer is over.")


def _mentions(message: OutboundMessage) -> discord.AllowedMentions:
    asker = [discord.Object(int(message.mention))] if message.mention is not None else False
    return discord.AllowedMentions(everyone=False, roles=False, users=asker, replied_user=False)


def _forget_oldest(remembered: OrderedDict[str, discord.Interaction] | OrderedDict[int, int]) -> None:
    while len(remembered) > _REMEMBERED:
        remembered.popitem(last=False)
