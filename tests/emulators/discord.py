"""Discord on loopback: REST v10 and the gateway under one roof, served plainly and over TLS.

What people do on Discord are methods here; what the bot did is read with `sent`. discord.py has no setting
for a server's address, so it is led here by `connector`, under Discord's own host names, or by a proxy.
"""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

import aiohttp
import trustme
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from tests.emulators.base import Emulator, Fault
from tests.emulators.discord_calls import Rules
from tests.emulators.discord_gateway import (
    DIRECT_MESSAGES,
    DIRECT_REACTIONS,
    GUILD_MESSAGES,
    GUILD_REACTIONS,
    GUILDS,
    DiscordGateway,
)
from tests.emulators.discord_rest import DiscordRest
from tests.emulators.discord_spec import checker_from_environment
from tests.emulators.discord_world import (
    DM,
    PRIVATE_THREAD,
    PUBLIC_THREAD,
    TEXT,
    THREADS,
    VOICE_MESSAGE,
    Interaction,
    Json,
    SentMessage,
    World,
    now_text,
)

HOSTS = (
    "discord.com",
    "gateway.discord.gg",
    "gateway-resume.discord.gg",
    "cdn.discordapp.com",
    "media.discordapp.net",
)


class _ToEmulator(AbstractResolver):
    """Sends every host name of Discord's to one port on loopback, and no other name anywhere."""

    def __init__(self, port: Callable[[], int]) -> None:
        self._port = port

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        if host not in HOSTS:
            raise OSError(f"{host} is not the emulator's")
        return [ResolveResult(hostname=host, host="127.0.0.1", port=self._port(), family=2, proto=0, flags=0)]

    async def close(self) -> None:
        """Nothing is held open."""


class DiscordEmulator(Emulator):
    """One bot in one guild. `rules` and `gateway` hold what tests may turn."""

    def __init__(self, token: str = "discord-token") -> None:
        super().__init__()
        self.token = token
        self.spec = checker_from_environment()
        self.world = World()
        self.rules = Rules(token)
        self.gateway = DiscordGateway(self.world, token, self.notify)
        self.rest = DiscordRest(self, self.world, self.rules, self._emit, self.spec)
        self.app.router.add_get("/", self.gateway.serve)
        self._said: list[Json] = []
        self.tls_port = 0
        self.authority = trustme.CA()
        if self.spec is not None:
            self.gateway.spec_breaches = self._judge

    @property
    def bot_id(self) -> str:
        return self.world.bot_id

    @property
    def general(self) -> str:
        """The guild's text channel."""
        return self.world.general

    @property
    def forum(self) -> str:
        return self.world.forum

    @property
    def authority_pem(self) -> bytes:
        """The certificate authority, for SSL_CERT_FILE of a process that comes through a proxy."""
        return self.authority.cert_pem.bytes()

    def connector(self) -> aiohttp.BaseConnector:
        """What leads discord.py here; a new one for each client."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return aiohttp.TCPConnector(
            resolver=_ToEmulator(lambda: self.tls_port), ssl=context, use_dns_cache=False
        )

    def proxy_ports(self) -> dict[str, int]:
        """What a ConnectProxy needs to know to lead Discord's host names here."""
        return dict.fromkeys(HOSTS, self.tls_port)

    @asynccontextmanager
    async def running(self, port: int = 0, tls_port: int = 0) -> AsyncIterator[Self]:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.authority.issue_cert(*HOSTS).configure_cert(context)
        runner = web.AppRunner(self.app, shutdown_timeout=0.2, access_log=None)
        await runner.setup()
        plain = web.TCPSite(runner, "127.0.0.1", port)
        secure = web.TCPSite(runner, "127.0.0.1", tls_port, ssl_context=context)
        await plain.start()
        await secure.start()
        self.port, self.tls_port = (address[1] for address in runner.addresses)
        try:
            yield self
        finally:
            await self.close_connections()
            await runner.cleanup()

    async def close_connections(self) -> None:
        await self.gateway.close()

    async def connected(self, timeout_s: float = 60.0) -> None:
        await self.wait_for(lambda: self.gateway.connected, timeout_s)

    def _judge(self, side: str, payload: Json) -> None:
        assert self.spec is not None
        check = {"hello": self.spec.hello, "event": self.spec.event, "client": self.spec.command}[side]
        self.violations += check(payload)

    async def _emit(self, name: str, body: Callable[[int], Json] | Json, channel: str | None = None) -> None:
        intent = GUILDS
        if channel is not None:
            intent = DIRECT_MESSAGES if self.world.is_direct(channel) else GUILD_MESSAGES
        await self.gateway.dispatch(name, body, intent)
        await self.notify()

    # What people do

    async def direct_message(self, user_id: str, text: str, **extra: Any) -> str:
        """A person writes to the bot. Returns the message's id; `direct_chat` names the channel."""
        self.world.user(user_id)
        return await self._post(self.direct_chat(user_id), user_id, text, **extra)

    def direct_chat(self, user_id: str) -> str:
        return self.world.direct_channel(user_id)

    async def channel_message(
        self,
        channel: str,
        user: str,
        text: str,
        *,
        mention: bool = True,
        reply_to: str | None = None,
        **extra: Any,
    ) -> str:
        """A person, or a bot of this id, writes in a channel or thread. `extra` replaces wire fields."""
        self.world.user(user)
        words = f"<@{self.bot_id}> {text}" if mention else text
        if reply_to is not None:
            extra = {**self.world.reference(channel, reply_to), **extra}
        return await self._post(channel, user, words, **extra)

    async def webhook_message(
        self, channel: str, name: str, text: str, *, hook: str = "", **extra: Any
    ) -> str:
        hook = hook or self.world.new_id()
        author = {**self.world.add_user(hook, name, bot=True), "username": name, "discriminator": "0000"}
        return await self._post(channel, hook, text, author=author, webhook_id=hook, **extra)

    async def forward(self, channel: str, user: str, text: str, **snapshot: Any) -> str:
        """A person forwards a message from elsewhere, without a word of their own."""
        self.world.user(user)
        inner = {
            "type": 0,
            "content": text,
            "mentions": [],
            "mention_roles": [],
            "attachments": [],
            "embeds": [],
            "timestamp": now_text(),
            "edited_timestamp": None,
            "flags": 0,
            "components": [],
            **snapshot,
        }
        reference = {"type": 1, "channel_id": self.general, "message_id": self.world.new_id()}
        return await self._post(
            channel, user, "", message_reference=reference, message_snapshots=[{"message": inner}]
        )

    async def _post(self, channel: str, user: str, text: str, **extra: Any) -> str:
        author = extra.pop("author", None) or self.world.users[user]
        message = self.world.new_message(channel, author, text, **extra)
        self._said.append(message)
        await self._announce("MESSAGE_CREATE", message)
        return str(message["id"])

    def forget_said(self) -> None:
        self._said.clear()

    async def say_again(self, messages: int) -> None:
        """The events of the last messages people wrote once more, the oldest first."""
        for message in self._said[-messages:]:
            await self._announce("MESSAGE_CREATE", message)

    async def _announce(self, event: str, message: Json) -> None:
        await self._emit(
            event, lambda intents: self.world.for_gateway(message, intents), message["channel_id"]
        )

    async def edit(self, channel: str, message_id: str, text: str) -> None:
        held = self.world.messages[channel][message_id]
        held |= {"content": text, "edited_timestamp": now_text()}
        await self._announce("MESSAGE_UPDATE", held)

    async def unfurl(self, channel: str, message_id: str) -> None:
        """Discord adds a link's preview: an update that is no edit."""
        held = self.world.messages[channel][message_id]
        held["embeds"] = [embed("A page")]
        await self._announce("MESSAGE_UPDATE", held)

    async def delete(self, channel: str, *message_ids: str) -> None:
        """A moderator's purge when there are several."""
        for message_id in message_ids:
            del self.world.messages[channel][message_id]
        body: Json = {"channel_id": channel}
        if not self.world.is_direct(channel):
            body["guild_id"] = self.world.guild_id
        if len(message_ids) == 1:
            await self._emit("MESSAGE_DELETE", {**body, "id": message_ids[0]}, channel)
        else:
            await self._emit("MESSAGE_DELETE_BULK", {**body, "ids": list(message_ids)}, channel)

    async def create_channel(self, name: str, kind: int = TEXT) -> str:
        channel = self.world.add_channel(name, kind)
        await self._emit("CHANNEL_CREATE", self.world.channels[channel])
        return channel

    async def create_thread(
        self,
        parent: str,
        user: str,
        name: str,
        *,
        private: bool = False,
        from_message: str | None = None,
        announce: bool = True,
    ) -> str:
        """Opens a thread, with the system messages Discord adds. Unannounced, the bot must ask about it."""
        self.world.user(user)
        kind = PRIVATE_THREAD if private else PUBLIC_THREAD
        thread = self.world.add_thread(parent, name, user, kind, from_message)
        thread_id = str(thread["id"])
        if private:
            self.world.members_of[thread_id] = {user, self.bot_id}
        if announce:
            await self._emit("THREAD_CREATE", {**thread, "newly_created": True})
        if from_message is not None:
            twin = {**self.world.reference(parent, from_message), "type": 21}
            await self._post(thread_id, user, "", **twin)
        elif not private:
            place = {"type": 0, "channel_id": thread_id, "guild_id": self.world.guild_id}
            await self._post(parent, user, name, type=18, message_reference=place)
        return thread_id

    async def forum_post(self, forum: str, user: str, title: str, text: str, *, mention: bool = True) -> str:
        """Returns the id of the post, which is the thread and the first message's id at once."""
        self.world.user(user)
        thread = self.world.add_thread(forum, title, user, PUBLIC_THREAD)
        thread_id = str(thread["id"])
        await self._emit("THREAD_CREATE", {**thread, "newly_created": True, "applied_tags": []})
        await self.channel_message(thread_id, user, text, mention=mention, id=thread_id)
        return thread_id

    def attachment(self, name: str, content: bytes, mime: str, *, voice: bool = False) -> Json:
        """A file to pass as `attachments=[...]`; for a voice message pass `flags=VOICE_MESSAGE` as well."""
        extra: Json = {"duration_secs": 1.5, "waveform": "AAAA"} if voice else {}
        return self.world.add_file(name, content, mime, **extra)

    async def slash(
        self, user: str, command: str, argument: str = "", *, channel: str | None = None, late: bool = False
    ) -> str:
        """A person runs a slash command, in their direct chat by default. Returns the interaction's token.

        `late` is one whose three seconds are over before the bot hears of it.
        """
        place = channel or self.direct_chat(user)
        interaction = Interaction(self.world.new_id(), f"token-{self.world.new_id()}", place)
        if late:
            interaction.made_at -= self.rules.ack_deadline_s + 1
        self.world.interactions[interaction.token] = interaction
        known = {c["name"]: c["id"] for c in self.world.commands.values()}
        options = [{"name": "argument", "type": 3, "value": argument}] if argument else []
        called = {"id": known.get(command, self.world.new_id()), "name": command, "type": 1}
        await self._interact(interaction, user, 2, {**called, "options": options})
        return interaction.token

    async def press(self, user: str, message_id: str, label: str, *, late: bool = False) -> str:
        """A person presses the button of that label under a message. Returns the interaction's token."""
        place, message = next(
            (channel, messages[message_id])
            for channel, messages in self.world.messages.items()
            if message_id in messages
        )
        buttons = [button for row in message["components"] for button in row["components"]]
        custom_id = next(button["custom_id"] for button in buttons if button["label"] == label)
        interaction = Interaction(self.world.new_id(), f"token-{self.world.new_id()}", place)
        if late:
            interaction.made_at -= self.rules.ack_deadline_s + 1
        self.world.interactions[interaction.token] = interaction
        pressed = {"custom_id": custom_id, "component_type": 2, "id": 2}
        await self._interact(interaction, user, 3, pressed, message=message)
        return interaction.token

    async def _interact(
        self, interaction: Interaction, user: str, kind: int, content: Json, **extra: Any
    ) -> None:
        place = interaction.channel
        direct = self.world.is_direct(place)
        body: Json = {
            "id": interaction.id,
            "application_id": self.world.application_id,
            "type": kind,
            "token": interaction.token,
            "version": 1,
            "channel_id": place,
            "channel": self._partial_channel(place),
            "locale": "en-US",
            "app_permissions": "0",
            "attachment_size_limit": 10_485_760,
            "authorizing_integration_owners": {"0": "0" if direct else self.world.guild_id},
            "context": 1 if direct else 0,
            "entitlements": [],
            "data": content,
            **extra,
        }
        if direct:
            body["user"] = self.world.user(user)
        else:
            body |= {
                "guild_id": self.world.guild_id,
                "guild_locale": "en-US",
                "guild": {"id": self.world.guild_id, "locale": "en-US", "features": []},
                "member": {**self.world.member(user), "permissions": "0"},
            }
        await self._emit("INTERACTION_CREATE", body)

    async def react(
        self, user: str, channel: str, message_id: str, emoji: str, *, taken: bool = False
    ) -> None:
        """A person puts a reaction on a message, or takes it back."""
        person = self.world.user(user)
        body: Json = {
            "user_id": person["id"],
            "channel_id": channel,
            "message_id": message_id,
            "emoji": {"id": None, "name": emoji},
            "burst": False,
            "type": 0,
        }
        direct = self.world.is_direct(channel)
        if not direct:
            body["guild_id"] = self.world.guild_id
        if not taken:
            author = self.world.messages[channel][message_id]["author"]["id"]
            body |= {"message_author_id": author, "burst_colors": []}
            body |= {} if direct else {"member": self.world.member(user)}
        name = "MESSAGE_REACTION_REMOVE" if taken else "MESSAGE_REACTION_ADD"
        await self.gateway.dispatch(name, body, DIRECT_REACTIONS if direct else GUILD_REACTIONS)
        await self.notify()

    def _partial_channel(self, channel_id: str) -> Json:
        channel = self.world.channels[channel_id]
        names = ["id", "type", "flags", "name", "last_message_id"]
        if channel["type"] == DM:
            names.append("recipients")
        else:
            names += ["guild_id", "parent_id"]
        if channel["type"] in THREADS:
            names.append("thread_metadata")
        partial = {name: channel[name] for name in names if name in channel}
        return partial if channel["type"] == DM else {**partial, "permissions": "0"}

    # What the bot did

    def sent(self, channel: str | None = None) -> list[SentMessage]:
        """The bot's messages as they look now, oldest first, private answers among them."""
        held = [m for messages in self.world.messages.values() for m in messages.values()]
        held += self.world.private_answers.values()
        return [
            self._seen(message)
            for message in sorted(held, key=lambda message: int(message["id"]))
            if message["author"]["id"] == self.bot_id and channel in (None, message["channel_id"])
        ]

    def texts(self, channel: str | None = None) -> list[str]:
        return [message.text for message in self.sent(channel)]

    def _seen(self, message: Json) -> SentMessage:
        reference = message.get("message_reference") or {}
        return SentMessage(
            message["id"],
            message["channel_id"],
            message["content"],
            reference.get("message_id"),
            message.get("nonce"),
            message["flags"],
            self.world.pings.get(message["id"], ()),
            message["edited_timestamp"] is not None,
            tuple(button["label"] for row in message["components"] for button in row["components"]),
        )


def embed(title: str, description: str = "", kind: str = "rich") -> Json:
    """A minimal embed in its wire shape."""
    return {"type": kind, "title": title, "description": description}


def rate_limited(retry_after_s: float, *, via: bool = True) -> Fault:
    """A 429 of the API, or, without `via`, of the wall in front of it."""
    return Fault(
        status=429,
        body={"message": "You are being rate limited.", "retry_after": retry_after_s, "global": False},
        headers={"Retry-After": str(int(retry_after_s) + 1), **({"Via": "1.1 emulator"} if via else {})},
    )


__all__ = ["VOICE_MESSAGE", "DiscordEmulator", "embed", "rate_limited"]
