"""Turns what discord.py reports into InboundMessages: whose it is, where it was said, and in plain words.

It decides what is nobody's message (the bot's own, system notices, link previews) and leaves it to the house
whether to answer the rest.
"""

import logging
import mimetypes
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import assert_never

import discord

from trunkline.adapters.base import (
    AdapterError,
    Attachment,
    AttachmentKind,
    ChatKind,
    InboundKind,
    InboundMessage,
    ReplyTo,
    Sender,
)
from trunkline.adapters.discord_errors import translated
from trunkline.adapters.discord_text import plain_text, split_command
from trunkline.adapters.inline import inline

PLATFORM = "discord"
_NOBODY = Sender(id="", label="", is_person=False)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """A slash command, and whether Discord took our word that an answer follows."""

    interaction: discord.Interaction
    argument: str
    deferred: bool


@dataclass(frozen=True, slots=True)
class ButtonPress:
    """A pressed button, and whether Discord took our word that an answer follows."""

    interaction: discord.Interaction
    deferred: bool


Event = (
    discord.Message
    | discord.RawReactionActionEvent
    | discord.RawMessageUpdateEvent
    | discord.RawMessageDeleteEvent
    | discord.RawBulkMessageDeleteEvent
    | SlashCommand
    | ButtonPress
)


@dataclass(frozen=True, slots=True)
class _Place:
    """A private thread is a room of its own: `chat` is its own id, as those of the parent may not read it."""

    chat: str
    kind: ChatKind
    thread: str | None = None
    private_thread: bool = False
    title: str = ""


class Normaliser:
    """`commands` are the names that make a text beginning with `/name` or `!name` a command."""

    def __init__(self, client: discord.Client, commands: frozenset[str]) -> None:
        self._client = client
        self._commands = commands
        self._warned = False

    async def read(self, event: Event) -> tuple[InboundMessage, ...]:
        """Nothing for what is nobody's message, several for a moderator's purge."""
        match event:
            case discord.Message():
                found = [await self._message(event)]
            case discord.RawMessageUpdateEvent():
                found = [await self._edit(event)]
            case discord.RawMessageDeleteEvent():
                found = [await self._deletion(event, event.message_id, event.cached_message)]
            case discord.RawBulkMessageDeleteEvent():
                held = {message.id: message for message in event.cached_messages}
                ids = sorted(event.message_ids)
                found = [await self._deletion(event, gone, held.get(gone)) for gone in ids]
            case discord.RawReactionActionEvent():
                found = [await self._reaction(event)]
            case SlashCommand():
                found = [await self._slash(event)]
            case ButtonPress():
                found = [await self._press(event)]
            case _:
                assert_never(event)
        return tuple(inbound for inbound in found if inbound is not None)

    async def _message(self, message: discord.Message) -> InboundMessage | None:
        inbound = await self._said(message)
        if inbound is None or inbound.sender.is_bot:
            return inbound
        found = split_command(inbound.text, self._commands)
        if found is None:
            return inbound
        command, argument = found
        return replace(inbound, kind=InboundKind.COMMAND, command=command, text=argument)

    async def _edit(self, event: discord.RawMessageUpdateEvent) -> InboundMessage | None:
        """None for what only looks like an edit: previews of links, pins, a thread opened on it."""
        edited_at = event.message.edited_at
        before = event.cached_message
        if edited_at is None or (before is not None and before.content == event.message.content):
            return None
        inbound = await self._said(event.message)
        if inbound is None:
            return None
        version = int(edited_at.timestamp() * 1000)
        return replace(inbound, kind=InboundKind.EDIT, version=version, edited_of=inbound.message_id)

    async def _deletion(
        self,
        event: discord.RawMessageDeleteEvent | discord.RawBulkMessageDeleteEvent,
        message_id: int,
        cached: discord.Message | None,
    ) -> InboundMessage | None:
        """Discord doesn't say whose message it was; the sender is empty unless we still hold it."""
        if cached is not None and cached.author.id == self._own_id:
            return None
        place = await self._locate(event.channel_id, direct=event.guild_id is None)
        return InboundMessage(
            platform=PLATFORM,
            tenant=str(self._own_id),
            kind=InboundKind.DELETION,
            chat=place.chat,
            chat_kind=place.kind,
            chat_title=place.title,
            thread=place.thread,
            private_thread=place.private_thread,
            sender=_sender(cached) if cached is not None else _NOBODY,
            sent_at=datetime.now(UTC),
            text="",
            event_id=f"delete:{event.channel_id}:{message_id}",
            edited_of=str(message_id),
        )

    async def _slash(self, command: SlashCommand) -> InboundMessage:
        called = await self._called(command.interaction, deferred=command.deferred)
        name = command.interaction.data.get("name", "") if command.interaction.data else ""
        return replace(called, command=str(name), text=command.argument.strip())

    async def _press(self, press: ButtonPress) -> InboundMessage:
        interaction = press.interaction
        called = await self._called(interaction, deferred=press.deferred)
        payload = interaction.data.get("custom_id", "") if interaction.data else ""
        under = interaction.message
        return replace(
            called,
            kind=InboundKind.BUTTON,
            text=str(payload),
            reply_to=None if under is None else ReplyTo(str(under.id), str(self._own_id), is_own=True),
        )

    async def _called(self, interaction: discord.Interaction, *, deferred: bool) -> InboundMessage:
        direct = interaction.guild_id is None and not interaction.context.private_channel
        place = await self._locate(interaction.channel_id or 0, direct=direct)
        return InboundMessage(
            platform=PLATFORM,
            tenant=str(self._own_id),
            kind=InboundKind.COMMAND,
            chat=place.chat,
            chat_kind=place.kind,
            chat_title=place.title,
            thread=place.thread,
            private_thread=place.private_thread,
            sender=Sender(str(interaction.user.id), interaction.user.display_name),
            sent_at=interaction.created_at,
            text="",
            event_id=str(interaction.id),
            mentions_me=True,
            interaction=interaction.token if deferred else None,
            interaction_expires=interaction.expires_at if deferred else None,
            language=str(interaction.locale),
        )

    async def _reaction(self, event: discord.RawReactionActionEvent) -> InboundMessage | None:
        """Discord numbers no reactions, so one that is put, taken and put again counts once."""
        if event.user_id == self._own_id:
            return None
        place = await self._locate(event.channel_id, direct=event.guild_id is None)
        who = event.member or self._client.get_user(event.user_id)
        emoji = event.emoji.name if event.event_type == "REACTION_ADD" else ""
        author = None if event.message_author_id is None else str(event.message_author_id)
        return InboundMessage(
            platform=PLATFORM,
            tenant=str(self._own_id),
            kind=InboundKind.REACTION,
            chat=place.chat,
            chat_kind=place.kind,
            chat_title=place.title,
            thread=place.thread,
            private_thread=place.private_thread,
            sender=Sender(
                str(event.user_id),
                who.display_name if who is not None else str(event.user_id),
                is_bot=who is not None and who.bot,
            ),
            sent_at=datetime.now(UTC),
            text=emoji,
            event_id=f"react:{event.message_id}:{event.user_id}:{event.emoji.name}:{event.event_type}",
            reply_to=ReplyTo(str(event.message_id), author, is_own=author == str(self._own_id)),
        )

    @property
    def _own_id(self) -> int:
        return self._client.user.id if self._client.user is not None else 0

    async def _said(self, message: discord.Message) -> InboundMessage | None:
        if message.author.id == self._own_id or not _is_talk(message):
            return None
        if not message.content and not any(_others(message)):
            self._warn_empty()
            return None
        place = await self._locate(message.channel.id, direct=isinstance(message.channel, discord.DMChannel))
        reply_to = self._reply_to(message)
        addressed = self._is_addressed(message, reply_to)
        return InboundMessage(
            platform=PLATFORM,
            tenant=str(self._own_id),
            kind=InboundKind.MESSAGE,
            chat=place.chat,
            chat_kind=place.kind,
            chat_title=place.title,
            thread=place.thread,
            private_thread=place.private_thread,
            sender=_sender(message),
            sent_at=message.created_at,
            text=plain_text(message, self._own_id),
            message_id=str(message.id),
            event_id=str(message.id),
            attachments=(*_attachments(message), *self._asked_about(message)),
            reply_to=reply_to,
            mentions_me=addressed,
            mentions_others=not addressed and bool(message.mentions or message.raw_role_mentions),
        )

    def _warn_empty(self) -> None:
        if not self._warned:
            self._warned = True
            log.warning("empty message dropped: is Message Content Intent on in Discord's developer portal?")

    async def _locate(self, channel_id: int, *, direct: bool) -> _Place:
        if direct:
            return _Place(str(channel_id), ChatKind.DIRECT)
        channel = self._client.get_channel(channel_id) or await self._asked(channel_id)
        if isinstance(channel, discord.Thread):
            return _thread_place(channel)
        return _Place(str(channel_id), ChatKind.GROUP, title=getattr(channel, "name", None) or "")

    async def _asked(self, channel_id: int) -> object:
        """A thread that Discord never told us of: only by asking do we learn its parent."""
        try:
            async with translated(repeatable=True):
                return await self._client.fetch_channel(channel_id)
        except AdapterError as error:
            log.warning("channel not found, taken for a room: channel=%s error=%s", channel_id, error)
            return None

    def _reply_to(self, message: discord.Message) -> ReplyTo | None:
        reference = message.reference
        if message.type is not discord.MessageType.reply or reference is None or not reference.message_id:
            return None
        said = reference.resolved or reference.cached_message
        if not isinstance(said, discord.Message):
            return ReplyTo(str(reference.message_id))
        return ReplyTo(
            message_id=str(said.id),
            author_id=str(said.author.id),
            is_own=said.author.id == self._own_id,
            text="\n".join(filter(None, [plain_text(said, self._own_id), *map(_named, _attachments(said))])),
        )

    def _asked_about(self, message: discord.Message) -> Iterator[Attachment]:
        """The files of what somebody wrote on a server and this replies to: it may never have been for us."""
        said = message.reference.resolved if message.reference is not None else None
        is_reply = message.type is discord.MessageType.reply and message.guild is not None
        if is_reply and isinstance(said, discord.Message) and said.author.id != self._own_id:
            yield from _attachments(said)

    def _is_addressed(self, message: discord.Message, reply_to: ReplyTo | None) -> bool:
        if reply_to is not None and reply_to.is_own:
            return True
        if any(user.id == self._own_id for user in message.mentions):
            return True
        own_role = message.guild.self_role if message.guild is not None else None
        return own_role is not None and own_role.id in message.raw_role_mentions


def _is_talk(message: discord.Message) -> bool:
    """No notice of Discord's, and not the copy of its first message that a new thread begins with."""
    return message.type is not discord.MessageType.thread_starter_message and not message.is_system()


def _others(message: discord.Message) -> Iterator[object]:
    """Everything but words that a message may consist of."""
    yield from (message.attachments, message.embeds, message.stickers, message.message_snapshots)
    yield from (message.components, message.poll, message.activity)


def _thread_place(thread: discord.Thread) -> _Place:
    title = thread.parent.name if thread.parent is not None else ""
    own = str(thread.id)
    if thread.is_private():
        return _Place(own, ChatKind.THREAD, own, private_thread=True, title=thread.name)
    return _Place(str(thread.parent_id), ChatKind.THREAD, own, title=title)


def _sender(message: discord.Message) -> Sender:
    author = message.author
    by_webhook = message.webhook_id is not None
    return Sender(
        id=str(author.id),
        label=author.display_name,
        is_bot=author.bot or by_webhook,
        is_person=not by_webhook,
    )


def _attachments(message: discord.Message) -> Iterator[Attachment]:
    files = list(message.attachments)
    for snapshot in message.message_snapshots:
        files += snapshot.attachments
    for file in files:
        mime = (file.content_type or mimetypes.guess_type(file.filename)[0] or "").partition(";")[0]
        yield Attachment(
            kind=AttachmentKind.VOICE if file.is_voice_message() else _kind(mime),
            ref=f"{message.channel.id} {message.id} {file.id} {file.url}",
            name=file.filename,
            mime=mime,
            size_bytes=file.size,
        )


def _named(file: Attachment) -> str:
    return f"[{file.kind.value}: {inline(file.name)}]"


def _kind(mime: str) -> AttachmentKind:
    kinds = {"image": AttachmentKind.IMAGE, "audio": AttachmentKind.AUDIO, "video": AttachmentKind.VIDEO}
    return kinds.get(mime.partition("/")[0], AttachmentKind.DOCUMENT)
