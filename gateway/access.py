"""Who may talk, decided from ids alone before any download, look-up or model call. Deny by default."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from trunkline.adapters.base import ChatKind, InboundKind, InboundMessage
from trunkline.gateway import bursts, moved_rooms
from trunkline.gateway.identity import LOCAL_PLATFORMS, local_account
from trunkline.gateway.settings import FileSettings, RoomEntry
from trunkline.gateway.state import people, rates, sessions
from trunkline.gateway.state.records import Account, Room, SessionKey

WITH_THREADS = ("discord", "slack")
"""Where a thread bears the id of the message that it hangs from."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """May talk here. `addressed` is false for room talk that was not meant for the assistant.

    `listens`: such talk is kept for a while as context. `opens_thread`: its answer opens a thread, with
    the message's id.
    """

    account: Account
    room: Room | None
    key: SessionKey
    addressed: bool
    listens: bool = False
    opens_thread: bool = False


@dataclass(frozen=True, slots=True)
class Stranger:
    """Nobody we know, in a direct chat, where a pairing code may be given."""

    account: Account
    key: SessionKey


@dataclass(frozen=True, slots=True)
class ClosedRoom:
    """A room that nobody allowed. `account` is the writer's, if the writer is a person at all."""

    room: Room
    account: Account | None


@dataclass(frozen=True, slots=True)
class Denied:
    """Not answered at all. `reason` is for the log."""

    reason: str


Verdict = Admitted | Stranger | ClosedRoom | Denied


def decide(connection: Connection, message: InboundMessage, settings: FileSettings, now_ms: int) -> Verdict:
    """Runs inside the transaction that stores the message. Names and handles are never compared."""
    if (
        message.sender.is_bot
        and message.kind is not InboundKind.MEMBERSHIP
        and not _is_invited(message, settings)
    ):
        return Denied("bot")
    if message.platform in LOCAL_PLATFORMS:
        return _decide_local(connection, message, now_ms)
    if message.chat_kind is ChatKind.DIRECT:
        return _decide_direct(connection, message, settings, now_ms)
    return _decide_room(connection, message, settings, now_ms)


def _decide_local(connection: Connection, message: InboundMessage, now_ms: int) -> Verdict:
    account = local_account(connection, message.platform, message.sender.id, now_ms)
    if account is None:
        return Denied("no such person")
    return Admitted(account, None, _key(message), addressed=True)


def _decide_direct(
    connection: Connection, message: InboundMessage, settings: FileSettings, now_ms: int
) -> Verdict:
    if not message.sender.is_person:
        return Denied("no person")
    account = _account(connection, message, now_ms)
    if account.blocked:
        return Denied("blocked")
    if account.person is None and settings.access.unknown == "open":
        account = _make_guest(connection, account, now_ms)
    if account.person is None:
        if settings.access.unknown == "ignore":
            return Denied("unknown")
        return Stranger(account, _key(message))
    if account.person.suspended:
        return Denied("suspended")
    return Admitted(account, None, _key(message), addressed=True)


def _decide_room(
    connection: Connection, message: InboundMessage, settings: FileSettings, now_ms: int
) -> Verdict:
    room = people.ensure_room(
        connection, message.platform, message.realm, message.chat, title=message.chat_title, now_ms=now_ms
    )
    sender = message.sender
    if not room.allowed:
        # Nobody who merely writes in a room that isn't ours gets a row.
        known = people.find_account(connection, message.platform, message.realm, sender.id)
        return ClosedRoom(room, known)
    entry = moved_rooms.entry_of(connection, settings, message.platform, message.realm, message.chat)
    is_bot = sender.is_bot or not sender.is_person
    if is_bot and not _is_invited(message, settings):
        return Denied("no person")
    account = _account(connection, message, now_ms)
    if account.blocked or (account.person is not None and account.person.suspended):
        return Denied("blocked")
    member = account.id if entry.sessions == "person" else 0
    key = _key(message, member)
    if message.kind is InboundKind.MESSAGE and not is_bot:
        people.note_member(connection, room.id, account.id, now_ms)
    addressed = entry.free or message.mentions_me or is_called(message.text, entry.wake_words)
    if is_bot:
        addressed = addressed and not rates.goes_on_and_on(connection, account, now_ms)
    elif not addressed:
        addressed = (
            (message.reply_to is not None and message.reply_to.is_own)
            or message.kind is InboundKind.COMMAND
            or (bool(key.thread) and not message.mentions_others and sessions.takes_part(connection, key))
            or (
                message.kind is InboundKind.MESSAGE
                and bursts.goes_on(connection, key, account.id, message, now_ms)
            )
        )
    listens = entry.listen and not addressed and message.kind is InboundKind.MESSAGE
    opens_thread = addressed and entry.auto_thread and _may_open_thread(message)
    if opens_thread:
        key = replace(key, thread=message.message_id or "")
    return Admitted(account, room, key, addressed, listens, opens_thread)


def _is_invited(message: InboundMessage, settings: FileSettings) -> bool:
    """Whether the operator lets this bot, webhook or channel speak in the room: by saying things alone."""
    return message.kind is InboundKind.MESSAGE and message.sender.id in entry_of(settings, message).bots


def _may_open_thread(message: InboundMessage) -> bool:
    """Whether it is said at the top of a channel, on a platform where a message can have a thread."""
    at_top = message.chat_kind is ChatKind.GROUP and message.thread is None
    is_said = message.kind in (InboundKind.MESSAGE, InboundKind.EDIT) and message.message_id is not None
    return at_top and is_said and message.platform in WITH_THREADS


def is_called(text: str, wake_words: Iterable[str]) -> bool:
    """Whether one of the words stands in the text as a word; in scripts without spaces, anywhere in it."""
    said = unicodedata.normalize("NFKC", text).casefold()
    for word in wake_words:
        wanted = unicodedata.normalize("NFKC", word).casefold().strip()
        pattern = rf"(?<!\w){re.escape(wanted)}(?!\w)" if wanted.isascii() else re.escape(wanted)
        if wanted and re.search(pattern, said):
            return True
    return False


def entry_of(settings: FileSettings, message: InboundMessage) -> RoomEntry:
    """What the operator set for the room of a message."""
    return settings.room_entry(message.platform, message.realm, message.chat)


def _account(connection: Connection, message: InboundMessage, now_ms: int) -> Account:
    return people.ensure_account(
        connection,
        message.platform,
        message.realm,
        message.sender.id,
        label=message.sender.label,
        now_ms=now_ms,
    )


def _make_guest(connection: Connection, account: Account, now_ms: int) -> Account:
    taken = [person.slug for person in people.list_people(connection)]
    slug = people.slugify(account.label or account.platform, taken)
    guest = people.add_person(
        connection, slug, name=account.label, role="guest", source="open", now_ms=now_ms
    )
    people.give_account(connection, account.id, guest.id, "open")
    return people.load_account(connection, account.id)


def _key(message: InboundMessage, member: int = 0) -> SessionKey:
    return SessionKey(message.platform, message.tenant, message.chat, message.thread or "", member)
