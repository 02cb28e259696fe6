"""What the emulated Bot API server does with each method, and what it refuses, in Telegram's words."""

import json
import math
import re
import time
from collections import defaultdict, deque
from dataclasses import dataclass

from tests.emulators.telegram_people import Chat, Json, TelegramPeople, utf16_units
from tests.emulators.telegram_spec import detected_entities, entity_fault

TEXT_LIMIT = 4096
CAPTION_LIMIT = 1024
ENTITY_LIMIT = 100
DOWNLOAD_LIMIT_BYTES = 20 * 2**20
UPLOAD_LIMIT_BYTES = 50 * 2**20
PHOTO_LIMIT_BYTES = 10 * 2**20
ALBUM_LIMIT = 10
DELETABLE_S = 48 * 3600
GENERAL_TOPIC = 1
COMMANDS_LIMIT_BYTES = 4096
"""Menus between 4.0 and 5.0 KB of descriptions were seen to fail; the limit itself is unpublished."""

NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the same as a "
    "current content and reply markup of the message"
)
QUERY_TOO_OLD = "query is too old and response timeout expired or query ID is invalid"
CHAT_ACTIONS = frozenset(
    [
        "typing",
        "upload_photo",
        "record_video",
        "upload_video",
        "record_voice",
        "upload_voice",
        "upload_document",
        "choose_sticker",
        "find_location",
        "record_video_note",
        "upload_video_note",
    ]
)
REACTIONS = frozenset(
    [
        "👀",
        "👍",
        "👎",
        "❤",
        "🔥",
        "🎉",
        "🤔",
        "✍",
        "🙏",
        "👌",
        "💯",
        "🤯",
        "😁",
        "😢",
        "🥰",
        "👏",
        "🤩",
        "🤷",
        "🫡",
    ]
)


@dataclass(frozen=True, slots=True)
class FloodLimits:
    """The published rates: a burst per chat that refills at one a second, a minute's worth per group, one
    budget over all."""

    chat_burst: int = 4
    group_per_minute: int = 20
    overall_per_s: int = 30


class Refused(Exception):
    """The server's answer when it does not do what was asked."""

    def __init__(self, status: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.status = status
        self.description = description
        self.parameters = parameters


def bad_request(text: str) -> Refused:
    """The server lowers the first letter of a message unless the second is a capital or '_'."""
    if len(text) > 1 and not (text[1].isupper() or text[1] == "_"):
        text = text[0].lower() + text[1:]
    return Refused(400, f"Bad Request: {text}")


class TelegramMethods(TelegramPeople):
    """One `_on_` method per method of the Bot API; each gives the result or raises Refused."""

    def __init__(self, *, username: str, privacy: bool, flood: FloodLimits | None) -> None:
        super().__init__(username=username, privacy=privacy)
        self.flood = flood
        self.webhook_url = ""
        self.menus: dict[tuple[str, str], list[Json]] = {}
        self.drafts: dict[tuple[int, int], str] = {}
        """What stands as a draft, by chat and draft id."""
        self.drafted: list[tuple[int, int, str]] = []
        """All drafts there ever were, in order: chat, draft id, text."""
        self.answered_queries: dict[str, str] = {}
        self.reactions: dict[tuple[int, int], tuple[str, ...]] = {}
        self.uploads: dict[str, tuple[str, bytes]] = {}
        self._sends: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=200))

    def is_own(self, message: Json) -> bool:
        return bool(message.get("from", {}).get("id") == self.me["id"])

    def _on_deleteWebhook(self, arguments: Json) -> bool:
        self.webhook_url = ""
        if arguments.get("drop_pending_updates"):
            self.pending.clear()
        return True

    # asking

    def _on_getMe(self, arguments: Json) -> Json:
        return self.me

    def _on_getChat(self, arguments: Json) -> Json:
        chat = self._chat(arguments, may_be_closed=True)
        kinds = ("unlimited_gifts", "limited_gifts", "unique_gifts", "premium_subscription")
        gifts = dict.fromkeys((*kinds, "gifts_from_channels"), True)
        return {**chat.facts, "accent_color_id": 0, "max_reaction_count": 11, "accepted_gift_types": gifts}

    def _on_getChatMember(self, arguments: Json) -> Json:
        chat = self._chat(arguments)
        user_id = arguments["user_id"]
        if user_id == self.me["id"]:
            return {"status": "member", "user": self.bot_user}
        if user_id not in self.people:
            raise bad_request("user not found")
        status = "left" if user_id in chat.left else "member"
        return {"status": status, "user": self.people[user_id]}

    def _on_getFile(self, arguments: Json) -> Json:
        file_id = arguments["file_id"]
        if file_id not in self.files:
            raise bad_request("wrong file_id or the file is temporarily unavailable")
        stated = self._stated_size(file_id)
        if stated > DOWNLOAD_LIMIT_BYTES:
            raise bad_request("file is too big")
        path = f"files/{file_id}"
        return {"file_id": file_id, "file_unique_id": f"u-{file_id}", "file_size": stated, "file_path": path}

    def _stated_size(self, file_id: str) -> int:
        """The size a message claimed, so that a test needs no 20 MB to have a big file."""
        for chat in self.chats.values():
            for message in chat.messages.values():
                document = message.get("document", {})
                if document.get("file_id") == file_id:
                    return int(document["file_size"])
        return len(self.files[file_id])

    @property
    def commands(self) -> list[Json]:
        """The menu that is shown where no other one is set."""
        return self.menus.get(("default", ""), [])

    def _on_getMyCommands(self, arguments: Json) -> list[Json]:
        return self.menus.get(_menu_place(arguments), [])

    # sending

    def _on_sendMessage(self, arguments: Json) -> Json:
        text = arguments.get("text", "")
        fields = {"text": text, **self._styles("entities", text, arguments, TEXT_LIMIT)}
        if not text.strip():
            raise bad_request("message text is empty")
        return self._send(arguments, fields)

    def _on_sendMessageDraft(self, arguments: Json) -> bool:
        chat = self._chat(arguments)
        if not chat.is_private:
            raise bad_request("method is available only for private chats")
        if not arguments["draft_id"]:
            raise bad_request("RANDOM_ID_INVALID")
        text = arguments.get("text", "")
        self._styles("entities", text, arguments, TEXT_LIMIT)
        self.drafts[chat.facts["id"], arguments["draft_id"]] = text
        self.drafted.append((chat.facts["id"], arguments["draft_id"], text))
        return True

    def _on_sendDocument(self, arguments: Json) -> Json:
        name, content = self._upload("document", arguments)
        file_id = f"sent-{len(self.files)}"
        self.files[file_id] = content
        document = {
            "file_id": file_id,
            "file_unique_id": f"u-{file_id}",
            "file_name": name,
            "file_size": len(content),
        }
        return self._send(arguments, {"document": document, **self._captioned(arguments)})

    def _on_sendPhoto(self, arguments: Json) -> Json:
        _, content = self._upload("photo", arguments)
        self._check_photo(content)
        return self._send(
            arguments, {**self.photo(content, f"sent-{len(self.files)}"), **self._captioned(arguments)}
        )

    def _on_sendVoice(self, arguments: Json) -> Json:
        name, content = self._upload("voice", arguments)
        if not name.endswith((".ogg", ".oga", ".mp3", ".m4a")):
            raise bad_request("wrong voice file")
        return self._send(
            arguments, {**self.voice(content, f"sent-{len(self.files)}"), **self._captioned(arguments)}
        )

    def _on_sendMediaGroup(self, arguments: Json) -> list[Json]:
        """All of them or none."""
        items = arguments.get("media", [])
        if not 2 <= len(items) <= ALBUM_LIMIT:
            count = "few" if len(items) < 2 else "many"
            raise bad_request(f"too {count} messages to send as an album")
        kinds = {item["type"] for item in items}
        if len(kinds) > 1 and not kinds <= {"photo", "video"}:
            raise bad_request("document can't be mixed with other media types")
        media = [self._album_item(number, item, arguments) for number, item in enumerate(items, 1)]
        group = {"media_group_id": str(14_000_000 + self._next_update_id + len(self.files))}
        self._count_send(self._chat(arguments))
        return [self._send(arguments, {**one, **group}, counted=True) for one in media]

    def _album_item(self, number: int, item: Json, arguments: Json) -> Json:
        try:
            name, content = self._upload(item["media"].removeprefix("attach://"), arguments)
            file_id = f"sent-{len(self.files)}-{number}"
            if item["type"] == "photo":
                self._check_photo(content)
                return self.photo(content, file_id)
        except Refused as refused:
            said = refused.description.removeprefix("Bad Request: ")
            text = f'failed to send message #{number} with the error message "{said}"'
            raise bad_request(text) if refused.status == 400 else refused from refused
        return self.document(content, name, "application/octet-stream", file_id)

    def _check_photo(self, content: bytes) -> None:
        if len(content) > PHOTO_LIMIT_BYTES:
            raise bad_request("file is too big for a photo")
        if not content.startswith((b"\x89PNG", b"\xff\xd8", b"GIF8", b"RIFF")):
            raise bad_request("IMAGE_PROCESS_FAILED")

    def _upload(self, name: str, arguments: Json) -> tuple[str, bytes]:
        if name not in self.uploads:
            file_id = arguments.get(name, "")
            if file_id not in self.files:
                raise bad_request("wrong file identifier/HTTP URL specified")
            return "", self.files[file_id]
        filename, content = self.uploads[name]
        if not content:
            raise bad_request("file must be non-empty")
        if sum(len(sent) for _, sent in self.uploads.values()) > UPLOAD_LIMIT_BYTES:
            raise Refused(413, "Request Entity Too Large")
        return filename, content

    def _captioned(self, arguments: Json) -> Json:
        caption = arguments.get("caption", "")
        if not caption:
            return {}
        return {
            "caption": caption,
            **self._styles("caption_entities", caption, arguments, CAPTION_LIMIT),
        }

    def _send(self, arguments: Json, fields: Json, *, counted: bool = False) -> Json:
        chat = self._chat(arguments)
        fields = {"from": self.bot_user, **fields}
        thread = arguments.get("message_thread_id")
        if thread is not None:
            if thread == GENERAL_TOPIC or (
                thread not in chat.topics and not self._begins_thread(chat, thread)
            ):
                raise bad_request("message thread not found")
            fields |= {"message_thread_id": thread}
            if thread in chat.topics:
                fields["is_topic_message"] = True
        fields |= self._reply(chat, arguments.get("reply_parameters"))
        fields |= _keyboard(arguments)
        if not counted:
            self._count_send(chat)
        if arguments.get("disable_notification"):
            fields["_quiet"] = True
        # What is sent takes the draft's place.
        self.drafts = {place: text for place, text in self.drafts.items() if place[0] != chat.facts["id"]}
        return self.store(chat, fields)

    def _begins_thread(self, chat: Chat, thread: int) -> bool:
        return chat.facts["type"] == "supergroup" and thread in chat.messages and not chat.topics

    def _reply(self, chat: Chat, reply: Json | None) -> Json:
        if reply is None:
            return {}
        target = chat.messages.get(reply["message_id"])
        if target is not None:
            short = {key: value for key, value in target.items() if key != "reply_to_message"}
            return {"reply_to_message": visible(short)}
        if reply.get("allow_sending_without_reply"):
            return {}
        raise bad_request("message to be replied not found")

    def _on_editMessageText(self, arguments: Json) -> Json:
        chat = self._chat(arguments)
        text = arguments.get("text", "")
        styles = self._styles("entities", text, arguments, TEXT_LIMIT)
        if not text.strip():
            raise bad_request("message text is empty")
        message = chat.messages.get(arguments["message_id"])
        if message is None:
            raise bad_request("message to edit not found")
        if not self.is_own(message):
            raise bad_request("message can't be edited")
        look = {"text": text, **styles, **_keyboard(arguments)}
        if {key: message[key] for key in _LOOKS if key in message} == look:
            raise bad_request(NOT_MODIFIED)
        self._count_send(chat)
        kept = {key: value for key, value in message.items() if key not in (*_LOOKS, "edit_date")}
        edited = {**kept, "edit_date": self.now(), **look}
        chat.messages[message["message_id"]] = edited
        return edited

    def _on_deleteMessage(self, arguments: Json) -> bool:
        chat = self._chat(arguments)
        message = chat.messages.get(arguments["message_id"])
        if message is None:
            raise bad_request("message to delete not found")
        if self.now() - message["date"] > DELETABLE_S:
            raise bad_request("message can't be deleted")
        del chat.messages[message["message_id"]]
        return True

    def _on_sendChatAction(self, arguments: Json) -> bool:
        chat = self._chat(arguments)
        if arguments["action"] not in CHAT_ACTIONS:
            raise bad_request("wrong parameter action in request")
        thread = arguments.get("message_thread_id")
        if thread not in (None, GENERAL_TOPIC) and thread not in chat.topics:
            raise bad_request("message thread not found")
        return True

    def _on_setMessageReaction(self, arguments: Json) -> bool:
        chat = self._chat(arguments)
        if arguments["message_id"] not in chat.messages:
            raise bad_request("message to react not found")
        chosen = tuple(reaction["emoji"] for reaction in arguments.get("reaction", []))
        if len(chosen) > 1 or not REACTIONS.issuperset(chosen):
            raise bad_request("REACTION_INVALID")
        self.reactions[chat.facts["id"], arguments["message_id"]] = chosen
        return True

    def _on_answerCallbackQuery(self, arguments: Json) -> bool:
        query_id = arguments["callback_query_id"]
        if not query_id.isdigit() or query_id in self.answered_queries:
            raise bad_request(QUERY_TOO_OLD)
        if len(arguments.get("text", "")) > 200:
            raise bad_request("MESSAGE_TOO_LONG")
        self.answered_queries[query_id] = arguments.get("text", "")
        return True

    def _on_setMyCommands(self, arguments: Json) -> bool:
        commands = arguments["commands"]
        if (
            len(commands) > 100
            or len(json.dumps(commands, ensure_ascii=False).encode()) > COMMANDS_LIMIT_BYTES
        ):
            raise bad_request("BOT_COMMANDS_TOO_MUCH")
        for command in commands:
            if not re.fullmatch(r"[a-z0-9_]{1,32}", command["command"]):
                raise bad_request("BOT_COMMAND_INVALID")
            if not 1 <= len(command["description"]) <= 256:
                raise bad_request("BOT_COMMAND_DESCRIPTION_INVALID")
        self.menus[_menu_place(arguments)] = commands
        return True

    def _on_deleteMyCommands(self, arguments: Json) -> bool:
        self.menus.pop(_menu_place(arguments), None)
        return True

    # rules

    def _chat(self, arguments: Json, *, may_be_closed: bool = False) -> Chat:
        chat = self.chats.get(arguments.get("chat_id", 0))
        if chat is None:
            raise bad_request("chat not found")
        if chat.moved_to is not None:
            text = "Bad Request: group chat was upgraded to a supergroup chat"
            raise Refused(400, text, migrate_to_chat_id=chat.moved_to)
        if chat.closed_because and not may_be_closed:
            raise Refused(403, f"Forbidden: {chat.closed_because}")
        return chat

    def _styles(self, key: str, text: str, arguments: Json, limit: int) -> Json:
        """The entities a message will carry: those given (the first hundred) and those Telegram finds."""
        given: list[Json] = arguments.get(key, [])
        if arguments.get("parse_mode"):
            raise AssertionError("the product sends entities, never parse_mode")
        fault = entity_fault(text, given)
        if fault:
            raise bad_request(fault)
        if max(len(text), utf16_units(text)) > limit:
            raise bad_request("message is too long" if limit == TEXT_LIMIT else "message caption is too long")
        known = {(entity["offset"], entity["length"]) for entity in given}
        found = [e for e in detected_entities(text) if (e["offset"], e["length"]) not in known]
        entities = [entity for entity in given if entity["length"]][:ENTITY_LIMIT] + found
        return {key: entities} if entities else {}

    def _count_send(self, chat: Chat) -> None:
        if self.flood is None:
            return
        now = time.monotonic()
        mine, every = self._sends[chat.facts["id"]], self._sends[0]
        waits = [
            _wait_s(mine, self.flood.chat_burst, float(self.flood.chat_burst), now),
            _wait_s(every, self.flood.overall_per_s, 1.0, now),
        ]
        if not chat.is_private:
            waits.append(_wait_s(mine, self.flood.group_per_minute, 60.0, now))
        if max(waits) > 0:
            seconds = math.ceil(max(waits))
            raise Refused(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)
        mine.append(now)
        every.append(now)


_LOOKS = ("text", "entities", "reply_markup")


def _menu_place(arguments: Json) -> tuple[str, str]:
    scope = arguments.get("scope") or {"type": "default"}
    where = str(scope.get("chat_id", scope["type"]))
    return where, arguments.get("language_code") or ""


def _keyboard(arguments: Json) -> Json:
    """The inline keyboard sent along; a message without one has none, an edited one loses its own."""
    markup = arguments.get("reply_markup")
    if not markup:
        return {}
    rows = markup["inline_keyboard"]
    if sum(len(row) for row in rows) > 100 or any(len(row) > 8 for row in rows):
        raise bad_request("BUTTONS_TOO_MUCH")
    for button in (button for row in rows for button in row):
        if not button["text"].strip():
            raise bad_request("can't parse inline keyboard button: text is empty")
        if not 1 <= len(button.get("callback_data", "").encode()) <= 64:
            raise bad_request("BUTTON_DATA_INVALID")
    return {"reply_markup": markup}


def visible(message: Json) -> Json:
    """A message without what only the emulator knows of it."""
    return {key: value for key, value in message.items() if not key.startswith("_")}


def _wait_s(sends: deque[float], most: int, window_s: float, now: float) -> float:
    """How long until one more send fits `most` in `window_s`."""
    recent = [at for at in sends if at > now - window_s]
    return 0.0 if len(recent) < most else recent[-most] + window_s - now
