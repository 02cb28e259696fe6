"""Telegram's updates as inbound messages: pure functions on the library's objects, no network.

What an update means is decided here; whether anybody is answered is the router's business.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from telegram import (
    CallbackQuery,
    Chat,
    ChatMember,
    ChatMemberRestricted,
    ChatMemberUpdated,
    Message,
    MessageEntity,
    MessageReactionUpdated,
    ReactionTypeEmoji,
    Update,
    User,
)
from telegram.constants import ChatMemberStatus, ChatType, MessageEntityType

from trunkline.adapters.base import (
    Attachment,
    ChatKind,
    InboundKind,
    InboundMessage,
    ReplyTo,
    Sender,
)
from trunkline.adapters.inline import inline
from trunkline.adapters.telegram_content import EXTERNAL, carried_by, files_of, notes_of, origin_name

PRESS_LIFE = timedelta(seconds=10)
"""For how long a press may be answered; Telegram itself gives up on it after about a quarter of an hour."""

GENERAL_TOPIC = 1
"""Bot API: the id of a forum's General topic, refused as a target of sends; for us it is the chat itself."""

JOINED = "joined"
LEFT = "left"
MOVED = "moved"
"""The text of a membership message: whose membership changed is its sender (the bot itself included);
a chat that moved is named by its new id, with the old one in `moved_from`."""


_SPACE = " ".encode("utf-16-le")

_MEMBERS = (ChatMemberStatus.OWNER, ChatMemberStatus.ADMINISTRATOR, ChatMemberStatus.MEMBER)


@dataclass(frozen=True, slots=True)
class Myself:
    """The bot as others address it. `commands` maps names in Telegram's menu to ours."""

    id: int
    username: str
    commands: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Words:
    """A text as people read it. `command` is set where it opens with one, and `text` is then its argument."""

    text: str
    mentions_me: bool
    command: str | None = None


def normalise(update: Update, me: Myself) -> tuple[InboundMessage, ...]:
    """What happened, in order; empty for what is not for us: channel posts, other bots' commands,
    service messages that change nothing here."""
    event = str(update.update_id)
    if update.message is not None:
        return _from_message(update.message, event, me)
    if update.edited_message is not None:
        return _from_edit(update.edited_message, event, me)
    if update.callback_query is not None:
        return _from_button(update.callback_query, me)
    if update.my_chat_member is not None:
        return _from_own_membership(update.my_chat_member, event, me)
    if update.message_reaction is not None:
        return _from_reaction(update.message_reaction, event, me)
    return ()


def _from_message(message: Message, event: str, me: Myself) -> tuple[InboundMessage, ...]:
    if message.chat.type == ChatType.CHANNEL:
        return ()
    return _memberships(message, event, me) or _spoken(message, event, me)


def _from_edit(message: Message, event: str, me: Myself) -> tuple[InboundMessage, ...]:
    """A moving live location arrives as an edit every few seconds and says nothing new."""
    if message.chat.type == ChatType.CHANNEL or message.location is not None:
        return ()
    edited_at = message.edit_date or message.date
    return tuple(
        replace(
            spoken,
            kind=InboundKind.EDIT,
            text=spoken.text if spoken.command is None else f"/{spoken.command} {spoken.text}".rstrip(),
            command=None,
            version=int(edited_at.timestamp()),
            edited_of=spoken.message_id,
        )
        for spoken in _spoken(message, event, me)
    )


def _spoken(message: Message, event: str, me: Myself) -> tuple[InboundMessage, ...]:
    words = _words(message, me)
    notes = notes_of(message)
    attachments = (*files_of(message), *_asked_about(message, me))
    if words is None or not (words.text or words.command or words.mentions_me or notes or attachments):
        return ()
    reply = _reply(message, me)
    addressed = words.mentions_me or (reply is not None and reply.is_own)
    origin = message.forward_origin
    opening = [f"[forwarded from {inline(origin_name(origin))}]"] if origin is not None else []
    return (
        InboundMessage(
            platform="telegram",
            tenant=str(me.id),
            kind=InboundKind.MESSAGE if words.command is None else InboundKind.COMMAND,
            chat=str(message.chat.id),
            chat_kind=_chat_kind(message.chat),
            chat_title=message.chat.title or "",
            sender=_sender(message),
            sent_at=message.date,
            text="\n".join([*opening, *notes, *([words.text] if words.text else [])]),
            thread=_thread(message),
            message_id=str(message.message_id),
            event_id=event,
            command=words.command,
            attachments=attachments,
            reply_to=reply,
            mentions_me=addressed,
            mentions_others=not addressed and _mentions_anybody(message),
            album=message.media_group_id,
            language=_language(message.from_user),
        ),
    )


def _from_button(query: CallbackQuery, me: Myself) -> tuple[InboundMessage, ...]:
    """A pressed button under one of our messages; `text` is its payload."""
    message = query.message
    if message is None:
        return ()
    now = datetime.now(UTC)
    return (
        InboundMessage(
            platform="telegram",
            tenant=str(me.id),
            kind=InboundKind.BUTTON,
            chat=str(message.chat.id),
            chat_kind=_chat_kind(message.chat),
            chat_title=message.chat.title or "",
            sender=_user(query.from_user),
            sent_at=now,
            text=query.data or "",
            thread=_thread(message) if isinstance(message, Message) else None,
            event_id=query.id,
            reply_to=ReplyTo(str(message.message_id), str(me.id), is_own=True),
            mentions_me=True,
            interaction=query.id,
            interaction_expires=now + PRESS_LIFE,
            language=_language(query.from_user),
        ),
    )


def _from_reaction(change: MessageReactionUpdated, event: str, me: Myself) -> tuple[InboundMessage, ...]:
    """`text` is what the person's reaction is now (empty: taken back), `reply_to` the message it is on."""
    if change.user is None:
        return ()
    emoji = [one.emoji for one in change.new_reaction if isinstance(one, ReactionTypeEmoji)]
    return (
        InboundMessage(
            platform="telegram",
            tenant=str(me.id),
            kind=InboundKind.REACTION,
            chat=str(change.chat.id),
            chat_kind=_chat_kind(change.chat),
            chat_title=change.chat.title or "",
            sender=_user(change.user),
            sent_at=change.date,
            text="".join(emoji),
            event_id=event,
            reply_to=ReplyTo(str(change.message_id)),
            language=_language(change.user),
        ),
    )


def _from_own_membership(change: ChatMemberUpdated, event: str, me: Myself) -> tuple[InboundMessage, ...]:
    was, now = _is_in(change.old_chat_member), _is_in(change.new_chat_member)
    if was == now or change.chat.type == ChatType.CHANNEL:
        return ()
    sender = _user(change.new_chat_member.user)
    return (_membership(change.chat, sender, change.date, event, JOINED if now else LEFT, me),)


def _memberships(message: Message, event: str, me: Myself) -> tuple[InboundMessage, ...]:
    """Who came and went, and a group's move to its supergroup (told twice, once in each chat).

    The bot's own coming and going is left to `my_chat_member`, which always comes too.
    """
    chat, at = message.chat, message.date
    if message.migrate_to_chat_id is not None:
        moved = _membership(chat, _sender(message), at, event, MOVED, me)
        return (replace(moved, chat=str(message.migrate_to_chat_id), moved_from=str(chat.id)),)
    if message.migrate_from_chat_id is not None:
        moved = _membership(chat, _sender(message), at, event, MOVED, me)
        return (replace(moved, moved_from=str(message.migrate_from_chat_id)),)
    changes = [(user, JOINED) for user in message.new_chat_members]
    if message.left_chat_member is not None:
        changes.append((message.left_chat_member, LEFT))
    return tuple(
        _membership(chat, _user(user), at, f"{event}:{user.id}", change, me)
        for user, change in changes
        if user.id != me.id
    )


def moved_group(old: int, new: int, me: int) -> InboundMessage:
    """The news that a group is a supergroup now, where Telegram told it by refusing a call."""
    return InboundMessage(
        platform="telegram",
        tenant=str(me),
        kind=InboundKind.MEMBERSHIP,
        chat=str(new),
        chat_kind=ChatKind.GROUP,
        sender=Sender(str(me), "", is_bot=True, is_person=False),
        sent_at=datetime.now(UTC),
        text=MOVED,
        event_id=f"moved:{old}:{new}",
        moved_from=str(old),
    )


def _membership(
    chat: Chat, sender: Sender, at: datetime, event: str, change: str, me: Myself
) -> InboundMessage:
    return InboundMessage(
        platform="telegram",
        tenant=str(me.id),
        kind=InboundKind.MEMBERSHIP,
        chat=str(chat.id),
        chat_kind=_chat_kind(chat),
        chat_title=chat.title or "",
        sender=sender,
        sent_at=at,
        text=change,
        event_id=event,
    )


def _is_in(member: ChatMember) -> bool:
    if isinstance(member, ChatMemberRestricted):
        return member.is_member
    return member.status in _MEMBERS


def _chat_kind(chat: Chat) -> ChatKind:
    return ChatKind.DIRECT if chat.type == ChatType.PRIVATE else ChatKind.GROUP


def _thread(message: Message) -> str | None:
    """Ordinary groups put a thread id on replies too: only a topic's message is in a thread."""
    thread = message.message_thread_id
    if not message.is_topic_message or thread in (None, GENERAL_TOPIC):
        return None
    return str(thread)


def _user(user: User) -> Sender:
    label = user.full_name or user.username or str(user.id)
    return Sender(str(user.id), label, is_bot=user.is_bot, is_person=not user.is_bot)


def _sender(message: Message) -> Sender:
    """A message on behalf of a chat (anonymous admin, linked channel) carries a stand-in user: no person."""
    if message.sender_chat is not None:
        return Sender(str(message.sender_chat.id), message.sender_chat.title or "", is_person=False)
    if message.from_user is None:
        return Sender(str(message.chat.id), message.chat.title or "", is_person=False)
    return _user(message.from_user)


def _language(user: User | None) -> str:
    return (user.language_code or "") if user is not None else ""


def _reply(message: Message, me: Myself) -> ReplyTo | None:
    """Everything in a topic seems to reply to the message that opened it; that is no reply."""
    target, quoted = message.reply_to_message, message.quote.text if message.quote is not None else ""
    if target is None:
        return _reply_elsewhere(message, quoted)
    if message.is_topic_message and target.message_id == message.message_thread_id:
        return None
    author = _sender(target)
    text = quoted or target.text or "\n".join(filter(None, [*carried_by(target), target.caption]))
    return ReplyTo(str(target.message_id), author.id, is_own=author.id == str(me.id), text=text)


def _reply_elsewhere(message: Message, quoted: str) -> ReplyTo | None:
    """A reply to what stands in another chat: all that we get of it is who wrote it and what is quoted."""
    target = message.external_reply
    if target is None:
        return ReplyTo("", text="[a story]") if message.reply_to_story is not None else None
    media = (f"[{name}]" for name in EXTERNAL if getattr(target, name))
    said = "\n".join(filter(None, [quoted, *media])) or "[a message]"
    return ReplyTo(str(target.message_id or ""), text=f"{inline(origin_name(target.origin))}: {said}")


def _words(message: Message, me: Myself) -> _Words | None:
    """The text or caption; None for a command that names another bot."""
    text = message.text or message.caption or ""
    entities = message.entities or message.caption_entities
    start = _after_own_name(text, entities, me)
    opening = (e for e in entities if e.offset == start and e.type == MessageEntityType.BOT_COMMAND)
    called = next(opening, None)
    if called is None or message.forward_origin is not None:
        plain, mentioned = _plain(text, entities, me)
        return _Words(plain, mentioned)
    name, _, addressee = text[start + 1 : start + called.length].partition("@")
    if addressee and addressee.lower() != me.username.lower():
        return None
    name, end = _whole_name(name, text, start + called.length, me)
    later = [e for e in entities if e.offset >= end]
    argument, mentioned = _plain(text, later, me, start=end)
    return _Words(argument.strip(), mentioned or bool(addressee) or start > 0, name)


def _after_own_name(text: str, entities: Sequence[MessageEntity], me: Myself) -> int:
    """Where a text goes on that opens with the bot's @name, else 0. Names are ASCII, so units are letters."""
    first = entities[0] if entities else None
    if first is None or first.offset != 0 or first.type != MessageEntityType.MENTION:
        return 0
    if not _names_me(first, text[: first.length], me):
        return 0
    return first.length + len(text[first.length :]) - len(text[first.length :].lstrip(" ,:"))


def _whole_name(name: str, text: str, length: int, me: Myself) -> tuple[str, int]:
    """Our name for a command, and where it ends: Telegram ends a command at a hyphen, some of ours go on."""
    tail = re.match(r"(?:-\w+)+", text[length:], re.ASCII)
    if tail is not None and (name + tail.group()).lower() in me.commands.values():
        return (name + tail.group()).lower(), length + tail.end()
    return me.commands.get(name.lower(), name.lower()), length


def _plain(text: str, entities: Sequence[MessageEntity], me: Myself, start: int = 0) -> tuple[str, bool]:
    """The text from `start` (in UTF-16 units) without mentions of the bot, hidden links spelt out, and
    whether the bot was mentioned. Other people's mentions are already names."""
    units = text.encode("utf-16-le")
    parts: list[str] = []
    at = start
    mentioned = False
    for entity in entities:
        end = entity.offset + entity.length
        if entity.offset < at:
            continue
        label = units[entity.offset * 2 : end * 2].decode("utf-16-le")
        if _names_me(entity, label, me):
            before = units[at * 2 : entity.offset * 2].decode("utf-16-le").rstrip(" ")
            parts.append(before)
            mentioned = True
            opens_line = not before or before.endswith("\n")
            at = end + (1 if opens_line and units[end * 2 : end * 2 + 2] == _SPACE else 0)
        elif entity.type == MessageEntityType.TEXT_LINK and entity.url and entity.url.rstrip("/") != label:
            parts.append(units[at * 2 : end * 2].decode("utf-16-le") + f" ({entity.url})")
            at = end
    parts.append(units[at * 2 :].decode("utf-16-le"))
    plain = "".join(parts)
    return (plain.lstrip(" ,:\n").rstrip() if mentioned else plain), mentioned


def _names_me(entity: MessageEntity, label: str, me: Myself) -> bool:
    if entity.type == MessageEntityType.MENTION:
        return label.lower() == f"@{me.username}".lower()
    if entity.type == MessageEntityType.TEXT_MENTION:
        return entity.user is not None and entity.user.id == me.id
    return False


def _mentions_anybody(message: Message) -> bool:
    kinds = (MessageEntityType.MENTION, MessageEntityType.TEXT_MENTION)
    return any(entity.type in kinds for entity in (*message.entities, *message.caption_entities))


def _asked_about(message: Message, me: Myself) -> tuple[Attachment, ...]:
    """The file of somebody's message in a group that this one replies to: it may never have been for us."""
    target = message.reply_to_message
    if target is None or message.chat.type == ChatType.PRIVATE or _sender(target).id == str(me.id):
        return ()
    return files_of(target)
