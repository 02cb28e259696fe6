"""What the Discord emulator knows: users, channels, messages, interactions, and their shape on the wire."""

import itertools
import re
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]

EPOCH_MS = 1_420_070_400_000
"""Discord's ids count milliseconds from the first second of 2015 (Discord, API reference, Snowflakes)."""

DM, TEXT, FORUM, PUBLIC_THREAD, PRIVATE_THREAD = 1, 0, 15, 11, 12
THREADS = (PUBLIC_THREAD, PRIVATE_THREAD)
EPHEMERAL = 1 << 6
VOICE_MESSAGE = 1 << 13
MESSAGE_CONTENT = 1 << 15

_USER_MENTION = re.compile(r"<@!?(\d+)>")
_ROLE_MENTION = re.compile(r"<@&(\d+)>")


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message of the bot as people see it now. `pings` are the user ids it notified."""

    id: str
    channel: str
    text: str
    reply_to: str | None
    nonce: str | None
    flags: int
    pings: tuple[str, ...]
    edited: bool
    buttons: tuple[str, ...] = ()

    @property
    def ephemeral(self) -> bool:
        return bool(self.flags & EPHEMERAL)


@dataclass(slots=True)
class Interaction:
    """A slash command on its way. `original` is the id of the answer shown, `loading` until it is filled."""

    id: str
    token: str
    channel: str
    made_at: float = field(default_factory=time.monotonic)
    answered: bool = False
    loading: bool = False
    flags: int = 0
    original: str | None = None


class World:
    """One guild with a text channel and a forum, and direct channels as people write."""

    def __init__(self) -> None:
        self._serial = itertools.count()
        self.bot_id = self.new_id()
        self.application_id = self.new_id()
        self.guild_id = self.new_id()
        self.bot_role = self.new_id()
        self.users: dict[str, Json] = {}
        self.nicknames: dict[str, str] = {}
        self.roles: dict[str, Json] = {}
        self.channels: dict[str, Json] = {}
        self.messages: dict[str, dict[str, Json]] = {}
        self.private_answers: dict[str, Json] = {}
        self.pings: dict[str, tuple[str, ...]] = {}
        self.reactions: list[tuple[str, str]] = []
        self.files: dict[str, bytes] = {}
        self.commands: dict[str, Json] = {}
        self.interactions: dict[str, Interaction] = {}
        self.granted = (1 << 53) - 1
        """What the bot may do in the guild, as Discord's permission bits."""
        self.members_of: dict[str, set[str]] = {}
        self.gone: set[str] = set()
        """Those who left the server. A bot without the members intent is not told."""
        self.add_user(self.bot_id, "Trunkline", bot=True)
        self.add_role(self.guild_id, "@everyone")
        self.add_role(self.bot_role, "Trunkline", tags={"bot_id": self.bot_id})
        self.general = self.add_channel("general")
        self.forum = self.add_channel("questions", FORUM)

    def new_id(self, at: datetime | None = None) -> str:
        """Ids sort by time, as Discord's do; the low bits keep those of one millisecond apart."""
        now_ms = int(at.timestamp() * 1000) if at else time.time_ns() // 1_000_000
        return str((now_ms - EPOCH_MS << 22) | (next(self._serial) & 0x3FFFFF))

    def add_user(self, user_id: str, name: str, *, bot: bool = False) -> Json:
        user: Json = {
            "id": user_id,
            "username": name.lower(),
            "global_name": None if bot else name,
            "discriminator": "0001" if bot else "0",
            "avatar": None,
            "public_flags": 0,
            "flags": 0,
            "primary_guild": None,
        }
        if bot:
            user["bot"] = True
        self.users[user_id] = user
        return user

    def user(self, user_id: str) -> Json:
        return self.users.get(user_id) or self.add_user(user_id, f"user{user_id}")

    def add_role(self, role_id: str, name: str, tags: Json | None = None) -> None:
        self.roles[role_id] = {
            "id": role_id,
            "name": name,
            "color": 0,
            "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
            "hoist": False,
            "icon": None,
            "unicode_emoji": None,
            "position": len(self.roles),
            # What everybody may: see channels, write there, read what was said.
            "permissions": "68608" if name == "@everyone" else "0",
            "managed": tags is not None,
            "mentionable": True,
            "flags": 0,
            **({"tags": tags} if tags else {}),
        }

    def member(self, user_id: str, *, with_user: bool = True) -> Json:
        member: Json = {
            "roles": [self.bot_role] if user_id == self.bot_id else [],
            "nick": self.nicknames.get(user_id),
            "avatar": None,
            "banner": None,
            "joined_at": "2026-01-01T00:00:00.000000+00:00",
            "premium_since": None,
            "communication_disabled_until": None,
            "deaf": False,
            "mute": False,
            "pending": False,
            "flags": 0,
        }
        return {**member, "user": self.user(user_id)} if with_user else member

    def add_channel(self, name: str, kind: int = TEXT) -> str:
        channel_id = self.new_id()
        self.messages[channel_id] = {}
        self.channels[channel_id] = {
            "id": channel_id,
            "type": kind,
            "flags": 0,
            "guild_id": self.guild_id,
            "name": name,
            "position": len(self.channels),
            "permission_overwrites": [],
            "nsfw": False,
            "rate_limit_per_user": 0,
            "topic": None,
            "parent_id": None,
            "last_message_id": None,
        }
        if kind == FORUM:
            self.channels[channel_id] |= {"available_tags": [], "default_reaction_emoji": None}
            self.channels[channel_id] |= {"default_sort_order": None, "default_forum_layout": 0}
        return channel_id

    def direct_channel(self, user_id: str) -> str:
        for channel in self.channels.values():
            if channel["type"] == DM and channel["recipients"][0]["id"] == user_id:
                return str(channel["id"])
        channel_id = self.new_id()
        self.messages[channel_id] = {}
        self.channels[channel_id] = {
            "id": channel_id,
            "type": DM,
            "flags": 0,
            "last_message_id": None,
            "recipients": [self.user(user_id)],
        }
        return channel_id

    def add_thread(self, parent: str, name: str, owner: str, kind: int, thread_id: str | None = None) -> Json:
        thread_id = thread_id or self.new_id()
        self.messages[thread_id] = {}
        self.channels[thread_id] = {
            "id": thread_id,
            "type": kind,
            "flags": 0,
            "guild_id": self.guild_id,
            "parent_id": parent,
            "name": name,
            "owner_id": owner,
            "last_message_id": None,
            "message_count": 0,
            "member_count": 1,
            "total_message_sent": 0,
            "rate_limit_per_user": 0,
            "thread_metadata": {
                "archived": False,
                "archive_timestamp": now_text(),
                "auto_archive_duration": 1440,
                "locked": False,
                "create_timestamp": now_text(),
            },
        }
        return self.channels[thread_id]

    def is_direct(self, channel_id: str) -> bool:
        return bool(self.channels[channel_id]["type"] == DM)

    def new_message(self, channel_id: str, author: Json, content: str, **extra: Any) -> Json:
        """A message in its REST shape, kept. `extra` replaces or adds fields."""
        message_id = extra.pop("id", None) or self.new_id()
        message: Json = {
            "id": message_id,
            "channel_id": channel_id,
            "type": 0,
            "author": author,
            "content": content,
            "timestamp": now_text(),
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": False,
            "mentions": [self.users[i] for i in _USER_MENTION.findall(content) if i in self.users],
            "mention_roles": [i for i in _ROLE_MENTION.findall(content) if i in self.roles],
            "attachments": [],
            "embeds": [],
            "components": [],
            "pinned": False,
            "flags": 0,
            **extra,
        }
        if message["flags"] & EPHEMERAL:
            self.private_answers[message_id] = message
        else:
            self.messages[channel_id][message_id] = message
            self.channels[channel_id]["last_message_id"] = message_id
        return message

    def reference(self, channel_id: str, message_id: str) -> Json:
        """The fields of a reply: where it points, and the message there, null when it is gone."""
        target = self.messages.get(channel_id, {}).get(message_id)
        place = {"type": 0, "channel_id": channel_id, "message_id": message_id}
        if not self.is_direct(channel_id):
            place["guild_id"] = self.guild_id
        bare = {k: v for k, v in target.items() if k != "referenced_message"} if target else None
        return {"type": 19, "message_reference": place, "referenced_message": bare}

    def add_file(self, name: str, content: bytes, mime: str, **extra: Any) -> Json:
        file_id = self.new_id()
        path = f"/attachments/{self.general}/{file_id}/{name}"
        self.files[path] = content
        return {
            "id": file_id,
            "filename": name,
            "size": len(content),
            "content_type": mime,
            "url": f"https://cdn.discordapp.com{path}?ex=1&is=1&hm=1",
            "proxy_url": f"https://media.discordapp.net{path}?ex=1&is=1&hm=1",
            **extra,
        }

    def guild(self) -> Json:
        """GUILD_CREATE's body."""
        channels = [c for c in self.channels.values() if c["type"] in (TEXT, FORUM)]
        threads = [
            channel
            for channel in self.channels.values()
            if channel["type"] == PUBLIC_THREAD
            or (channel["type"] == PRIVATE_THREAD and self.bot_id in self.members_of.get(channel["id"], ()))
        ]
        nothing = (
            "afk_channel_id application_id banner description discovery_splash hub_type icon incidents_data"
            " public_updates_channel_id rules_channel_id safety_alerts_channel_id splash system_channel_id"
            " vanity_url_code"
        )
        empty = "emojis features guild_scheduled_events presences soundboard_sounds stage_instances"
        zero = (
            "default_message_notifications explicit_content_filter mfa_level nsfw_level"
            " premium_tier system_channel_flags verification_level"
        )
        return {
            **dict.fromkeys(nothing.split()),
            **{name: [] for name in [*empty.split(), "voice_states", "stickers"]},
            **dict.fromkeys(zero.split(), 0),
            "id": self.guild_id,
            "name": "Workshop",
            "owner_id": self.bot_id,
            "joined_at": "2026-01-01T00:00:00.000000+00:00",
            "afk_timeout": 300,
            "large": False,
            "member_count": len(self.users),
            "members": [self.member(self.bot_id)],
            "preferred_locale": "en-US",
            "premium_progress_bar_enabled": False,
            "roles": list(self.roles.values()),
            "channels": channels,
            "threads": threads,
        }

    def application(self) -> Json:
        return {
            "id": self.application_id,
            "name": "Trunkline",
            "icon": None,
            "description": "",
            "type": None,
            "verify_key": "0" * 64,
            "flags": 1 << 19,
            "flags_new": str(1 << 19),
            "bot": self.users[self.bot_id],
            "bot_public": False,
            "bot_require_code_grant": False,
            "redirect_uris": [],
            "interactions_endpoint_url": None,
            "role_connections_verification_url": None,
            "owner": self.user("100"),
            "approximate_guild_count": 1,
            "approximate_user_install_count": 0,
            "approximate_user_authorization_count": 0,
            "explicit_content_filter": 0,
            "team": None,
            "eligible_oauth2_scopes": [],
        }

    def for_gateway(self, message: Json, intents: int) -> Json:
        """MESSAGE_CREATE's body, blanked as Discord does for a bot without the message content intent."""
        sent = dict(message)
        author = message["author"]["id"]
        if not self.is_direct(message["channel_id"]):
            sent["guild_id"] = self.guild_id
            if not message.get("webhook_id"):
                sent["member"] = self.member(author, with_user=False)
            sent["mentions"] = [
                {**user, "member": self.member(user["id"], with_user=False)} for user in message["mentions"]
            ]
            mentioned = any(user["id"] == self.bot_id for user in message["mentions"])
            if not intents & MESSAGE_CONTENT and not mentioned and author != self.bot_id:
                sent |= {"content": "", "embeds": [], "attachments": [], "components": []}
        return sent


def now_text() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
