"""The people's side of the Telegram emulator: chats, what is said in them, and the updates that follow."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.emulators.base import Emulator
from tests.emulators.telegram_spec import BotApiSpec, detected_entities

GROUP_ANONYMOUS_BOT = {
    "id": 1087968824,
    "is_bot": True,
    "first_name": "Group",
    "username": "GroupAnonymousBot",
}
CHANNEL_BOT = {"id": 136817688, "is_bot": True, "first_name": "Channel", "username": "Channel_Bot"}
SERVICE_USER = {"id": 777000, "is_bot": False, "first_name": "Telegram"}
DEFAULT_UPDATES = frozenset(
    {"message", "edited_message", "channel_post", "edited_channel_post", "callback_query", "my_chat_member"}
)
"""What a bot gets that never named its `allowed_updates` (of what is emulated here)."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Said:
    """Where something that a person did ended up."""

    update_id: int
    chat_id: int
    message_id: int


@dataclass(slots=True)
class Chat:
    """One chat and all of its messages, the deleted ones left out."""

    facts: Json
    topics: set[int] = field(default_factory=set)
    messages: dict[int, Json] = field(default_factory=dict)
    next_message_id: int = 1
    moved_to: int | None = None
    closed_because: str | None = None
    left: set[int] = field(default_factory=set)

    @property
    def is_private(self) -> bool:
        return bool(self.facts["type"] == "private")


def utf16_units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


class TelegramPeople(Emulator):
    """Everything a test lets people do. Each act makes the update that Telegram would send."""

    def __init__(self, *, username: str = "TrunklineBot", privacy: bool = False) -> None:
        super().__init__()
        self.me: Json = {
            "id": 123456789,
            "is_bot": True,
            "first_name": "Trunkline",
            "username": username,
            "can_join_groups": True,
            "can_read_all_group_messages": not privacy,
            "supports_inline_queries": False,
        }
        self.spec = BotApiSpec.load()
        self.chats: dict[int, Chat] = {}
        self.people: dict[int, Json] = {}
        self.files: dict[str, bytes] = {}
        self.pending: list[Json] = []
        self.allowed: frozenset[str] = DEFAULT_UPDATES
        self._next_update_id = 700_000_001

    @property
    def bot_user(self) -> Json:
        return {key: self.me[key] for key in ("id", "is_bot", "first_name", "username")}

    def now(self) -> int:
        return int(time.time())

    # chats and people

    def person(
        self, user_id: int, name: str = "", *, username: str = "", language: str = "en", is_bot: bool = False
    ) -> Json:
        """The user of that id, made on first mention."""
        if user_id not in self.people or name or username:
            user: Json = {"id": user_id, "is_bot": is_bot, "first_name": name or f"Person {user_id}"}
            if username:
                user["username"] = username
            if language:
                user["language_code"] = language
            self.people[user_id] = user
        return self.people[user_id]

    def private_chat(self, user_id: int) -> Chat:
        if user_id not in self.chats:
            user = self.person(user_id)
            facts = {"id": user_id, "type": "private", "first_name": user["first_name"]}
            self.chats[user_id] = Chat(facts)
        return self.chats[user_id]

    def group(
        self,
        chat_id: int,
        title: str = "Harbour",
        *,
        kind: str = "supergroup",
        topics: tuple[int, ...] = (),
    ) -> Chat:
        """A group the bot is in; with `topics` it is a forum. Made on first mention."""
        if chat_id not in self.chats:
            facts: Json = {"id": chat_id, "type": kind, "title": title}
            if topics:
                facts["is_forum"] = True
            self.chats[chat_id] = Chat(facts, topics=set(topics))
        return self.chats[chat_id]

    # messages

    async def direct_message(
        self,
        user_id: int,
        text: str = "",
        *,
        reply_to: int | None = None,
        media: Mapping[str, Any] | None = None,
        mentions: Mapping[str, int] | None = None,
        **fields: Any,
    ) -> Said:
        """Something said to the bot in private. `media` and `fields` are parts of the Message object."""
        chat = self.private_chat(user_id)
        message = self._content(chat, text, reply_to, media, mentions)
        return await self._post(chat, {**message, "from": self.person(user_id), **fields})

    async def group_message(
        self,
        chat_id: int,
        user_id: int,
        text: str = "",
        *,
        thread: int | None = None,
        mention: bool = True,
        reply_to: int | None = None,
        media: Mapping[str, Any] | None = None,
        mentions: Mapping[str, int] | None = None,
        **fields: Any,
    ) -> Said:
        """Something said in a group; with `mention` the bot is named first. `mentions` maps names in the
        text to ids of people without a user name."""
        chat = self.group(chat_id)
        if mention:
            text = f"@{self.me['username']} {text}"
        message = self._content(chat, text, reply_to, media, mentions)
        if thread is not None:
            message |= {"message_thread_id": thread, "is_topic_message": True}
        elif reply_to is not None and chat.facts["type"] == "supergroup":
            message["message_thread_id"] = reply_to
        return await self._post(chat, {**message, "from": self.person(user_id), **fields})

    async def anonymous_admin_message(self, chat_id: int, text: str) -> Said:
        chat = self.group(chat_id)
        message = self._content(chat, text, None, None, None)
        return await self._post(chat, {**message, "from": GROUP_ANONYMOUS_BOT, "sender_chat": chat.facts})

    async def channel_forward(self, chat_id: int, channel_id: int, text: str) -> Said:
        """A post of the group's linked channel, as Telegram copies it into the group."""
        chat = self.group(chat_id)
        channel = {"id": channel_id, "type": "channel", "title": "News"}
        origin = {"type": "channel", "date": self.now(), "chat": channel, "message_id": 5}
        message = {**self._content(chat, text, None, None, None), "from": SERVICE_USER}
        extra = {"sender_chat": channel, "forward_origin": origin, "is_automatic_forward": True}
        return await self._post(chat, {**message, **extra})

    async def album(self, chat_id: int, user_id: int, items: list[tuple[Json, str]]) -> list[Said]:
        """Several media sent together: one update each, one `media_group_id`."""
        chat = self.chats.get(chat_id) or self.private_chat(chat_id)
        group = str(13_000_000 + len(chat.messages))
        said = []
        for media, caption in items:
            message = self._content(chat, caption, None, media, None)
            fields = {"from": self.person(user_id), "media_group_id": group}
            said.append(await self._post(chat, {**message, **fields}))
        return said

    async def service_message(self, chat_id: int, user_id: int, **fields: Any) -> Said:
        """Title changes, joins, leaves and the like: a message that nobody wrote."""
        chat = self.chats[chat_id]
        return await self._post(chat, {"from": self.person(user_id), **fields})

    async def edit_message(self, chat_id: int, message_id: int, text: str, **fields: Any) -> Said:
        """A person edits their own message."""
        chat = self.chats[chat_id]
        message = {**chat.messages[message_id], "edit_date": self.now() + 1, **fields}
        key = "text" if "text" in message else "caption"
        message[key] = text
        message.pop("entities" if key == "text" else "caption_entities", None)
        message |= self._styled(key, text, None)
        chat.messages[message_id] = message
        update_id = await self._push("edited_message", message)
        return Said(update_id, chat_id, message_id)

    # other acts

    async def press_button(self, user_id: int, chat_id: int, message_id: int, payload: str) -> str:
        """Gives the id of the callback query."""
        message = self.chats[chat_id].messages[message_id]
        query_id = str(4_000_000_000 + self._next_update_id)
        query = {"id": query_id, "from": self.person(user_id), "message": message}
        await self._push("callback_query", {**query, "chat_instance": "77", "data": payload})
        return query_id

    async def react(self, user_id: int, chat_id: int, message_id: int, emoji: str) -> None:
        reaction = {
            "chat": self.chats[chat_id].facts,
            "message_id": message_id,
            "user": self.person(user_id),
            "date": self.now(),
            "old_reaction": [],
            "new_reaction": [{"type": "emoji", "emoji": emoji}],
        }
        await self._push("message_reaction", reaction)

    async def set_bot_membership(self, chat_id: int, by: int, old: str, new: str) -> None:
        """The bot is added, removed, blocked or let in again: member, left, kicked or administrator."""
        chat = self.chats.get(chat_id) or self.private_chat(chat_id)
        change = {
            "chat": chat.facts,
            "from": self.person(by),
            "date": self.now(),
            "old_chat_member": self._membership(old),
            "new_chat_member": self._membership(new),
        }
        kind = chat.facts["type"]
        if new in ("left", "kicked"):
            blocked = "bot was blocked by the user"
            chat.closed_because = blocked if chat.is_private else f"bot was kicked from the {kind} chat"
        else:
            chat.closed_because = None
        await self._push("my_chat_member", change)

    async def block(self, user_id: int) -> None:
        await self.set_bot_membership(user_id, user_id, "member", "kicked")

    async def leave(self, chat_id: int, user_id: int) -> Said:
        self.chats[chat_id].left.add(user_id)
        return await self.service_message(chat_id, user_id, left_chat_member=self.person(user_id))

    async def migrate(self, chat_id: int) -> int:
        """The group becomes a supergroup: gives the new id; the old one refuses everything from now on."""
        old = self.chats[chat_id]
        new_id = -1_000_000_000_000 + chat_id
        self.group(new_id, old.facts["title"])
        new_message = {"from": GROUP_ANONYMOUS_BOT, "sender_chat": self.chats[new_id].facts}
        await self._post(old, {"from": self.person(1), "migrate_to_chat_id": new_id})
        await self._post(self.chats[new_id], {**new_message, "migrate_from_chat_id": chat_id})
        old.moved_to = new_id
        return new_id

    async def channel_post(self, channel_id: int, text: str) -> Said:
        facts = {"id": channel_id, "type": "channel", "title": "News"}
        chat = self.chats.setdefault(channel_id, Chat(facts))
        return await self._post(chat, {"text": text, "sender_chat": facts}, kind="channel_post")

    async def push_raw(self, kind: str, payload: Any) -> int:
        """An update that need not follow the description; for what a later Bot API may send."""
        return await self._push(kind, payload, checked=False)

    # media

    def photo(self, content: bytes, file_id: str = "photo-1") -> Json:
        sizes = [(90, content[:1]), (1280, content)]
        return {
            "photo": [
                {
                    "file_id": self._keep(f"{file_id}-{width}", part),
                    "file_unique_id": f"u-{file_id}-{width}",
                    "width": width,
                    "height": width,
                    "file_size": len(part),
                }
                for width, part in sizes
            ]
        }

    def voice(self, content: bytes, file_id: str = "voice-1") -> Json:
        return {"voice": {**self._file(file_id, content), "duration": 2, "mime_type": "audio/ogg"}}

    def document(
        self, content: bytes, name: str, mime: str, file_id: str = "document-1", size_bytes: int | None = None
    ) -> Json:
        facts = self._file(file_id, content)
        if size_bytes is not None:
            facts["file_size"] = size_bytes
        return {"document": {**facts, "file_name": name, "mime_type": mime}}

    def video_note(self, content: bytes, file_id: str = "note-1") -> Json:
        return {"video_note": {**self._file(file_id, content), "length": 240, "duration": 3}}

    def video(self, content: bytes, file_id: str = "video-1") -> Json:
        size = {"width": 640, "height": 360, "duration": 4, "mime_type": "video/mp4"}
        return {"video": {**self._file(file_id, content), **size}}

    def animation(self, content: bytes, file_id: str = "animation-1") -> Json:
        size = {"width": 320, "height": 240, "duration": 2, "mime_type": "video/mp4"}
        facts = self._file(file_id, content)
        return {"animation": {**facts, **size}, "document": {**facts, "mime_type": "video/mp4"}}

    def audio(self, content: bytes, title: str, file_id: str = "audio-1") -> Json:
        facts = {"duration": 180, "mime_type": "audio/mpeg", "title": title}
        return {"audio": {**self._file(file_id, content), **facts}}

    def sticker(self, emoji: str, file_id: str = "sticker-1") -> Json:
        shape = {"type": "regular", "width": 512, "height": 512, "is_animated": False, "is_video": False}
        return {"sticker": {**self._file(file_id, b"webp"), **shape, "emoji": emoji}}

    def _file(self, file_id: str, content: bytes) -> Json:
        self._keep(file_id, content)
        return {"file_id": file_id, "file_unique_id": f"u-{file_id}", "file_size": len(content)}

    def _keep(self, file_id: str, content: bytes) -> str:
        self.files[file_id] = content
        return file_id

    # inside

    def _membership(self, status: str) -> Json:
        member: Json = {"status": status, "user": self.bot_user}
        if status == "kicked":
            member["until_date"] = 0
        if status == "administrator":
            rights = (
                "can_be_edited is_anonymous can_manage_chat can_delete_messages can_manage_video_chats "
                "can_restrict_members can_promote_members can_change_info can_invite_users can_post_stories "
                "can_edit_stories can_delete_stories"
            )
            member |= dict.fromkeys(rights.split(), False)
        return member

    def _styled(self, key: str, text: str, mentions: Mapping[str, int] | None) -> Json:
        entities = detected_entities(text)
        for name, user_id in (mentions or {}).items():
            offset = utf16_units(text[: text.index(name)])
            user = self.bot_user if user_id == self.me["id"] else self.person(user_id)
            span = {"type": "text_mention", "offset": offset, "length": utf16_units(name), "user": user}
            entities.append(span)
        entities.sort(key=lambda entity: entity["offset"])
        if not entities:
            return {}
        return {"entities" if key == "text" else "caption_entities": entities}

    def _content(
        self,
        chat: Chat,
        text: str,
        reply_to: int | None,
        media: Mapping[str, Any] | None,
        mentions: Mapping[str, int] | None,
    ) -> Json:
        message: Json = dict(media or {})
        if text:
            key = "caption" if media else "text"
            message[key] = text
            message |= self._styled(key, text, mentions)
        if reply_to is not None:
            target = {
                key: value for key, value in chat.messages[reply_to].items() if key != "reply_to_message"
            }
            message["reply_to_message"] = target
        return message

    async def _post(self, chat: Chat, fields: Json, kind: str = "message") -> Said:
        message = self.store(chat, fields)
        update_id = await self._push(kind, message) if self._may_see(chat, message) else 0
        return Said(update_id, chat.facts["id"], message["message_id"])

    def store(self, chat: Chat, fields: Json) -> Json:
        """Gives a message its id and date and keeps it in the chat."""
        message_id = chat.next_message_id
        chat.next_message_id += 1
        message = {"message_id": message_id, "date": self.now(), "chat": chat.facts, **fields}
        chat.messages[message_id] = message
        return message

    def _may_see(self, chat: Chat, message: Json) -> bool:
        """Privacy mode: in groups only commands, mentions and replies to the bot are passed on."""
        if chat.is_private or self.me["can_read_all_group_messages"]:
            return True
        text = message.get("text", "") + message.get("caption", "")
        replied = message.get("reply_to_message", {}).get("from", {}).get("id")
        addressed = f"@{self.me['username']}".lower() in text.lower() or replied == self.me["id"]
        return addressed or text.startswith("/") or not text

    async def _push(self, kind: str, payload: Any, *, checked: bool = True) -> int:
        update_id = self._next_update_id
        self._next_update_id += 1
        if kind in self.allowed:
            update = {"update_id": update_id, kind: payload}
            if checked and self.spec is not None:
                self.violations.extend(self.spec.update_breaches(update))
            self.pending.append(update)
        await self.notify()
        return update_id
