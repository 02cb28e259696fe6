"""The contract between the house and a platform: what comes in, what goes out, what an adapter must do."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol, runtime_checkable
from zlib import crc32


class ChatKind(StrEnum):
    """What the platform's own chat type says; never guessed by counting people."""

    DIRECT = "direct"
    GROUP = "group"
    THREAD = "thread"


class InboundKind(StrEnum):
    MESSAGE = "message"
    EDIT = "edit"
    DELETION = "deletion"
    COMMAND = "command"
    BUTTON = "button"
    REACTION = "reaction"
    MEMBERSHIP = "membership"


class AttachmentKind(StrEnum):
    IMAGE = "image"
    VOICE = "voice"
    AUDIO = "audio"
    VIDEO = "video"
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file somebody sent, not yet fetched. `ref` is what the adapter's `download` needs to get it."""

    kind: AttachmentKind
    ref: str
    name: str = ""
    mime: str = ""
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sent it, by the platform's immutable id. `label` is shown, never compared.

    `is_person` is false for bots' relatives without a human: channel posts, anonymous admins.
    """

    id: str
    label: str
    is_bot: bool = False
    is_person: bool = True


@dataclass(frozen=True, slots=True)
class ReplyTo:
    message_id: str
    author_id: str | None = None
    is_own: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class ChatRef:
    """Where to send: chat, thread, and the interaction to answer through while it lasts.

    `interaction` is an adapter's own token; after `interaction_expires` the chat itself is used.
    """

    chat: str
    thread: str | None = None
    interaction: str | None = None
    interaction_expires: datetime | None = None


@dataclass(frozen=True, slots=True)
class InboundMessage:
    """One thing that happened on a platform, normalised. No platform detail leaves the adapter.

    BUTTON: `text` is the payload of the pressed `Button`, `reply_to` the message it stood under. REACTION:
    `text` is the emoji that the person has now put on the message `reply_to`, empty when taken back.

    `realm` qualifies user and chat ids that are unique only within it (the Slack team; else empty).
    `tenant` is the bot's own id. `chat` is the top-level chat; a thread or topic is `thread` in it.
    `private_thread` marks a thread that is a room of its own. `text` is plain, mentions resolved to
    names, the bot's own mention removed; for a command `command` is its name without the slash and
    `text` its argument. `edited_of` is the message id an edit or deletion is about; `version` counts
    edits (0 for the original, else the platform's edit stamp) and is part of the inbox key.
    `mentions_others`: people or bots are called by name in it, and the bot is not.
    `moved_from` is the id a chat had before it became `chat` (Telegram's supergroups, Slack's channels that
    are shared): all that is kept under the old id belongs to the new one.
    """

    platform: str
    tenant: str
    kind: InboundKind
    chat: str
    chat_kind: ChatKind
    sender: Sender
    sent_at: datetime
    text: str
    realm: str = ""
    chat_title: str = ""
    thread: str | None = None
    private_thread: bool = False
    message_id: str | None = None
    version: int = 0
    event_id: str | None = None
    command: str | None = None
    attachments: tuple[Attachment, ...] = ()
    reply_to: ReplyTo | None = None
    mentions_me: bool = False
    mentions_others: bool = False
    edited_of: str | None = None
    album: str | None = None
    interaction: str | None = None
    interaction_expires: datetime | None = None
    language: str = ""
    moved_from: str | None = None

    @property
    def key(self) -> str:
        """The inbox key, unique within platform and tenant (spec: delivery, section 1)."""
        if self.message_id is not None and self.interaction is None:
            # Two edits may bear the stamp of one second.
            digest = crc32(self.text.encode(errors="replace"))
            of_text = f"-{digest:08x}" if self.kind is InboundKind.EDIT else ""
            return f"m:{self.chat}:{self.message_id}:{self.version}{of_text}"
        return f"e:{self.event_id}"


@dataclass(frozen=True, slots=True)
class Entity:
    """A styled span of a chunk. `offset` and `length` are UTF-16 code units, as Telegram counts.

    `kind`: bold, italic, strikethrough, code, pre, text_link, blockquote, spoiler, underline.
    """

    kind: str
    offset: int
    length: int
    url: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """One message's worth of rendered text, within the platform's limit."""

    text: str
    entities: tuple[Entity, ...] = ()


@dataclass(frozen=True, slots=True)
class Button:
    """What a person may press under a message: `payload` comes back as the text of a BUTTON message.

    `action` has no colon; both together hold at most 60 bytes (Telegram allows 64 in all).
    """

    action: str
    label: str
    value: str = ""

    @property
    def payload(self) -> str:
        return f"{self.action}:{self.value}"


@dataclass(frozen=True, slots=True)
class OutboundFile:
    """A file to send, kept by the house under `sha256`. Its `content` is there only while it is sent."""

    kind: AttachmentKind
    name: str
    mime: str
    sha256: str
    content: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class OutboundMessage:
    """One message to send or to put in place of an own one.

    `nonce` (at most 25 characters) names the outbox row, so that a platform that can do so refuses
    a double. `tried_since`: from then on an earlier call under this nonce may have arrived; None when
    there was none. `mention` is the one user id that may be pinged. `ephemeral` asks for an answer only
    the asker sees, where the interaction allows it; with `private`, too, it is Rejected rather than shown to
    others. `quiet` asks for no notification. An edit takes away buttons that `buttons` doesn't have.
    With a `file` the message is that file, and its chunk is empty; the pictures of its `album` are shown with
    it as one.
    """

    to: ChatRef
    chunk: Chunk
    nonce: str = ""
    reply_to: str | None = None
    mention: str | None = None
    ephemeral: bool = False
    quiet: bool = False
    tried_since: datetime | None = None
    buttons: tuple[Button, ...] = ()
    file: OutboundFile | None = None
    private: bool = False
    album: tuple[OutboundFile, ...] = ()

    @property
    def files(self) -> tuple[OutboundFile, ...]:
        """All that the message brings, in order."""
        return () if self.file is None else (self.file, *self.album)


@dataclass(frozen=True, slots=True)
class Receipt:
    """The platform has it, under this id, as `delete` takes it.

    An album's may name several messages, in the order of its files and with spaces between.
    """

    message_id: str


@dataclass(frozen=True, slots=True)
class Limits:
    """What the platform allows. Lengths are in the platform's own unit, as its renderer counts.

    `edit_interval_s` spaces streamed edits; `typing_interval_s` is None where there is no typing.
    `can_edit` is false where an answer can't be changed once sent. `nonce`: the platform refuses doubles
    for some minutes. `looks_back`: a message with `tried_since` is looked for before it is sent again.
    `album_files` pictures of `album_bytes` together may go out as one message.
    """

    message_chars: int
    edit_interval_s: float
    group_edit_interval_s: float
    typing_interval_s: float | None
    can_edit: bool = True
    nonce: bool = False
    looks_back: bool = False
    album_files: int = 1
    album_bytes: int = 0

    @property
    def repeats_safely(self) -> bool:
        """Whether a message that may have arrived can be sent again some time later without a double."""
        return self.nonce or self.looks_back


class AdapterError(Exception):
    """A platform refused or could not be reached.

    Unauthorized         the token is bad: only a person can mend it; ends the adapter
    RateLimited          wait `retry_after_s`, then the same call may be made again
    Unavailable          provably never reached the platform: safe to repeat
    Uncertain            may have been done: never repeated blindly
    Rejected             refused for good; repeating is useless
    Unreachable          this chat can't be written to (blocked, left, deleted)
    NotStored            the house could not keep a message; the connection begins anew, and reads it again
    """


class Unauthorized(AdapterError):
    pass


class RateLimited(AdapterError):
    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Unavailable(AdapterError):
    pass


class Uncertain(AdapterError):
    pass


class Rejected(AdapterError):
    pass


class Unreachable(Rejected):
    pass


class TooLarge(Rejected):
    """A file is larger than was asked for, or than the platform hands to bots."""


class NotStored(AdapterError):
    pass


Deliver = Callable[[InboundMessage], Awaitable[None]]
"""Commits a message to the inbox. The adapter acknowledges to the platform only after it returns.

Raises NotStored: then nothing that came later in the chat may be delivered before this message is.
"""


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A chat command for native menus: name without slash, one-line help, argument hint or empty.

    `translations` are the help in other languages, by two-letter code. A `private` one is of no use in rooms.
    """

    name: str
    help: str
    argument: str = ""
    translations: tuple[tuple[str, str], ...] = ()
    private: bool = False

    def help_in(self, language: str) -> str:
        return dict(self.translations).get(language, self.help)


class Adapter(Protocol):
    """One connection to one platform.

    `run` connects, calls `connected` with the bot's own id once it is ready to send, and receives until
    cancelled; it raises Unauthorized when only a person can mend it, and otherwise AdapterError when the
    connection is lost for good, upon which the supervisor runs it again. `send`, `edit`, `delete`, `typing`
    and `download` raise AdapterError kinds only, and are legal only while `run` is connected.
    """

    @property
    def platform(self) -> str: ...

    @property
    def limits(self) -> Limits: ...

    async def run(self, deliver: Deliver, connected: Callable[[str], None]) -> None: ...

    def render(self, markdown: str) -> tuple[Chunk, ...]:
        """The whole text as chunks in order, each within the limit; never empty text."""
        ...

    async def send(self, message: OutboundMessage) -> Receipt: ...

    async def edit(self, message_id: str, message: OutboundMessage) -> Receipt:
        """Replaces an own message's text; 'not modified' is success."""
        ...

    async def delete(self, to: ChatRef, message_id: str) -> None:
        """Takes an own message out of the chat; one that is gone already is success.

        Raises Rejected where the platform can't do that, or no longer.
        """
        ...

    async def typing(self, to: ChatRef, *, on: bool) -> None: ...

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes: ...


@runtime_checkable
class ReadsBack(Protocol):
    """An adapter of a platform that does not keep for us what is written while we are away."""

    @property
    def platform(self) -> str: ...

    async def read_back(self, place: ChatRef, after: str, max_messages: int) -> tuple[InboundMessage, ...]:
        """What was written in a chat, or in one thread of it, after the message of that id, oldest first.

        Messages already delivered may come again, under the same key. Raises AdapterError.
        """
        ...


@runtime_checkable
class OpensThreads(Protocol):
    """An adapter of a platform where a thread under a message is opened before anybody writes in it."""

    async def open_thread(self, chat: str, message_id: str, title: str) -> None:
        """Opens it, under the message's own id; one that is open already is success. Raises AdapterError."""
        ...


@runtime_checkable
class ReadsThreads(Protocol):
    """An adapter that can tell what stands in a thread."""

    async def said_before(self, place: ChatRef, before: str, max_messages: int) -> tuple[InboundMessage, ...]:
        """What others wrote in a thread before a message, oldest first: how it began, and the newest.

        Raises AdapterError.
        """
        ...


@runtime_checkable
class HasDirectLink(Protocol):
    """An adapter of a platform where an address leads to the direct chat with the bot."""

    @property
    def direct_link(self) -> str:
        """Empty until the adapter was connected."""
        ...


@runtime_checkable
class Reacts(Protocol):
    """An adapter that can put an emoji on somebody's message. `reactions`: the ones allowed, None for any."""

    @property
    def reactions(self) -> frozenset[str] | None: ...

    async def react(self, to: ChatRef, message_id: str, emoji: str) -> None:
        """In place of the bot's own earlier reaction where only one is possible. Raises AdapterError."""
        ...


@runtime_checkable
class Hears(Protocol):
    """An adapter whose platform tells it something all the time, be it only that there is nothing new."""

    @property
    def deaf_after_s(self) -> float:
        """A silence longer than that is no ordinary one."""
        ...

    @property
    def heard_ago_s(self) -> float:
        """How long the platform has told nothing. Sending may work all the same."""
        ...


@runtime_checkable
class KnowsMembers(Protocol):
    """An adapter that can be asked who is in a room, for what its platform didn't tell: the house does so now
    and then."""

    async def is_in(self, chat: str, user: str) -> bool:
        """Whether this user may still be in the room; false only when surely not. Raises AdapterError."""
        ...


@runtime_checkable
class Names(Protocol):
    """An adapter whose platform sends ids for names: the house asks once it knows that a sender may speak."""

    async def name_of(self, user: str) -> str:
        """A person's name as the platform shows it, or the id. Raises AdapterError."""
        ...

    async def with_names(self, text: str) -> str:
        """The text with names for the ids in it. Raises AdapterError."""
        ...


@runtime_checkable
class Entitles(Protocol):
    """An adapter of a platform that shows a title over a conversation."""

    async def entitle(self, to: ChatRef, title: str) -> None:
        """Does nothing where the place has none. Raises AdapterError."""
        ...


@runtime_checkable
class ShowsCommands(Protocol):
    """An adapter of a platform where one chat may have a menu of commands of its own."""

    async def show_commands(self, chat: str, more: Sequence[CommandSpec]) -> None:
        """Shows these after the commands that everybody has; without any the chat has everybody's menu.

        What fits no menu is left out. Raises AdapterError.
        """
        ...
