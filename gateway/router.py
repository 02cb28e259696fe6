"""Takes each inbound message once: decides who it is and whether they may talk, stores it, says what next.

Everything up to the commit is one transaction; adapters acknowledge after it. Running turns and commands is
the session workers' job; sending is delivery's.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from trunkline.adapters.base import (
    ChatKind,
    ChatRef,
    Chunk,
    InboundKind,
    InboundMessage,
    NotStored,
    OutboundMessage,
)
from trunkline.agent.scope import AccountId
from trunkline.agent.stream_text import clean
from trunkline.gateway import access, admission, budgets, changes, identity, linking, reactions
from trunkline.gateway.budgets import Today
from trunkline.gateway.buttons import read_press
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands.catalogue import BY_NAME
from trunkline.gateway.labels import plain_label
from trunkline.gateway.payloads import dump_inbound, dump_outbound
from trunkline.gateway.sentences import describe_place, say
from trunkline.gateway.settings import FileSettings
from trunkline.gateway.state import codes, early, gone, heard, inbox, kv, outbox, people, rates
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.inbox import Arrival
from trunkline.gateway.state.outbox import Plan
from trunkline.gateway.state.records import Account, Room, SessionKey
from trunkline.gateway.state.salvage import SALVAGED_AT
from trunkline.gateway.welcoming import is_first_contact

log = logging.getLogger(__name__)

STORE_TRIES = 12
"""How often a message is offered to a database that does not take it: about a minute of a foreign lock. Then
the adapter hears of it, does not acknowledge, and starts anew."""
STORE_PAUSE_S = 0.2
BACKLOG_MS = 5_000
"""A control command that was sent so long before the start was meant for the process before."""

WORTH_A_ROW = (InboundKind.MESSAGE, InboundKind.COMMAND, InboundKind.BUTTON)

JOINED, LEFT = "joined", "left"
"""The text of a membership message; its sender is who joined or left, the bot itself included."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What the committed message asks for. `control` names a row to run at once, whatever else waits."""

    wake: SessionKey | None = None
    control: int | None = None
    send_to: tuple[tuple[str, str], ...] = ()


NOTHING = Stored()


class Router:
    """Stores messages and hands on what they ask for: wake a session, run a control row, kick a chat."""

    def __init__(
        self,
        database: Database,
        settings: FileSettings,
        *,
        wake: Callable[[SessionKey], None],
        control: Callable[[int], None],
        kick: Callable[[str, str], None],
    ) -> None:
        self._database = database
        self._settings = settings
        self._wake = wake
        self._control = control
        self._kick = kick
        self._started_ms = now_ms()

    async def accept(self, message: InboundMessage) -> None:
        """Returns when the message is committed, or is none of ours; a second time it does nothing.

        Raises NotStored when the database does not take it.
        """
        stored = await self._store(_cleaned(message))
        if stored.control is not None:
            self._control(stored.control)
        if stored.wake is not None:
            self._wake(stored.wake)
        for platform, chat in stored.send_to:
            self._kick(platform, chat)

    async def _store(self, message: InboundMessage) -> Stored:
        tries = 0
        while True:
            try:
                return await self._database.write(
                    lambda c: store(c, message, self._settings, now_ms(), self._started_ms)
                )
            except DBAPIError as error:
                tries += 1
                if tries == STORE_TRIES:
                    raise NotStored("A message could not be stored: the database does not take it") from error
                log.warning("message not stored yet: %s on %s", type(error).__name__, message.platform)
                await asyncio.sleep(STORE_PAUSE_S)


def _cleaned(message: InboundMessage) -> InboundMessage:
    """The message without what neither JSON nor a database takes, in all that people wrote or named."""
    reply_to = message.reply_to
    return replace(
        message,
        text=clean(message.text),
        chat_title=clean(message.chat_title),
        command=None if message.command is None else clean(message.command),
        sender=replace(message.sender, label=clean(message.sender.label)),
        attachments=tuple(replace(one, name=clean(one.name)) for one in message.attachments),
        reply_to=None if reply_to is None else replace(reply_to, text=clean(reply_to.text)),
    )


def store(
    connection: Connection,
    message: InboundMessage,
    settings: FileSettings,
    stamp_ms: int,
    started_ms: int = 0,
) -> Stored:
    """The transaction of one inbound message. `started_ms`: since when this process listens."""
    if inbox.is_known(connection, message.platform, message.tenant, message.key):
        return NOTHING
    gone.clear(connection, message.platform, message.tenant, message.chat, message.thread or "")
    if message.moved_from is not None:
        people.move_room(connection, message.platform, message.realm, message.moved_from, message.chat)
        return NOTHING
    if message.kind is InboundKind.DELETION:  # the platform has decided who may do that
        return Stored(wake=changes.note_deletion(connection, message))
    if early.is_deleted(connection, message):
        return NOTHING
    if message.chat_kind is not ChatKind.DIRECT and codes.void(connection, message.text, stamp_ms):
        log.warning("code void: it was shown in a room on %s", message.platform)
    match access.decide(connection, message, settings, stamp_ms):
        case access.Admitted() as admitted:
            return _store_admitted(connection, message, admitted, settings, stamp_ms, started_ms)
        case access.Stranger(account, key):
            return _answer_stranger(connection, message, account, key, stamp_ms)
        case access.ClosedRoom(room, account):
            return _store_in_closed_room(connection, message, room, account, stamp_ms)
        case access.Denied(reason):
            log.debug("message not answered: %s on %s", reason, message.platform)
            return NOTHING


def _store_admitted(
    connection: Connection,
    message: InboundMessage,
    admitted: access.Admitted,
    settings: FileSettings,
    stamp_ms: int,
    started_ms: int,
) -> Stored:
    account, room = admitted.account, admitted.room
    message = _question_of(connection, message, admitted, settings, stamp_ms)
    if admitted.opens_thread:
        message = replace(message, thread=message.message_id)
    if message.kind in (InboundKind.MEMBERSHIP, InboundKind.EDIT, InboundKind.REACTION):
        return _note(connection, message, admitted, stamp_ms)
    if message.kind is InboundKind.BUTTON:
        meant = read_press(connection, message, account, room, stamp_ms)
        if isinstance(meant, str):
            return _answer_press(connection, message, admitted, meant, stamp_ms)
        message = meant
    if not admitted.addressed or message.kind not in WORTH_A_ROW:
        if admitted.listens and room is not None and message.text.strip():
            heard.keep(connection, room.id, account.id, message, stamp_ms)
        return NOTHING
    arrival = _arrival(message, admitted.key, account.id, payload=dump_inbound(message))
    if _is_too_old(connection, arrival, settings, stamp_ms):
        return _answer_too_late(connection, message, account, arrival, settings, stamp_ms)
    if message.command not in BY_NAME:  # the name of a skill is a turn like any other
        today = budgets.look(connection, account, room, settings, stamp_ms)
        if today.is_spent:
            return _answer_spent(connection, message, account, arrival, today, stamp_ms)
    return _store_new(connection, message, arrival, admitted, settings, stamp_ms, started_ms)


def _question_of(
    connection: Connection,
    message: InboundMessage,
    admitted: access.Admitted,
    settings: FileSettings,
    stamp_ms: int,
) -> InboundMessage:
    """An edit as a message of its own, where it is the first that we are told of it, or that is for us."""
    if message.kind is not InboundKind.EDIT or not admitted.addressed:
        return message
    if settings.agent.reanswer_edits == "never" or not changes.makes_question(connection, message, stamp_ms):
        return message
    edit = _arrival(message, admitted.key, admitted.account.id, state="done")
    return changes.as_question(connection, message, edit, stamp_ms)


def _note(
    connection: Connection, message: InboundMessage, admitted: access.Admitted, stamp_ms: int
) -> Stored:
    """What needs no answer of its own: somebody came or left, a reaction, an edit."""
    account = admitted.account
    if message.kind is InboundKind.MEMBERSHIP:
        return _note_membership(connection, message, account, admitted.room, stamp_ms)
    if message.kind is InboundKind.EDIT:
        edit = _arrival(message, admitted.key, account.id)
        return Stored(wake=changes.note_edit(connection, message, edit))
    reactions.note(connection, message, account, stamp_ms)
    return NOTHING


def _answer_press(
    connection: Connection, message: InboundMessage, admitted: access.Admitted, sentence: str, stamp_ms: int
) -> Stored:
    """What came of a press, for the presser alone where others read."""
    row = inbox.store(
        connection, _arrival(message, admitted.key, admitted.account.id, state="done"), stamp_ms
    )
    in_room = admitted.room is not None
    return _reply(connection, message, f"i:{row}", sentence, stamp_ms, ephemeral=in_room)


def _store_new(
    connection: Connection,
    message: InboundMessage,
    arrival: Arrival,
    admitted: access.Admitted,
    settings: FileSettings,
    stamp_ms: int,
    started_ms: int,
) -> Stored:
    command = BY_NAME.get(message.command or "")
    if (
        message.kind is InboundKind.COMMAND
        and command is None
        and admitted.room is not None
        and not message.mentions_me
    ):
        return NOTHING  # most likely another bot's
    if command is None or not command.control:
        return _store_turn(connection, message, arrival, admitted.account, settings, stamp_ms)
    if arrival.sent_ms < started_ms - BACKLOG_MS:
        inbox.store(connection, replace(arrival, state="done", reason="backlog"), stamp_ms)
        return NOTHING
    return Stored(control=inbox.store(connection, arrival, stamp_ms))


def _store_turn(
    connection: Connection,
    message: InboundMessage,
    arrival: Arrival,
    account: Account,
    settings: FileSettings,
    stamp_ms: int,
) -> Stored:
    """Stores what is for a worker, in its order. What comes too fast waits a little; its author is told."""
    limit = settings.access.messages_per_minute
    until_ms = rates.held_until(connection, account, arrival.key, limit, stamp_ms)
    arrival = replace(arrival, not_before_ms=until_ms)
    said = ""
    if message.command == "queue" and message.text.strip():
        said, arrival = "queued", replace(arrival, kind="queued", payload=dump_inbound(_queued(message)))
    elif message.command == "retry":
        is_typed = message.kind is InboundKind.COMMAND and message.interaction is not None
        said, arrival = "retrying" if is_typed else "", replace(arrival, kind="retry")
    is_first = settings.access.welcome and is_first_contact(connection, message, account)
    row = inbox.store(connection, arrival, stamp_ms)
    if is_first:
        return replace(_welcome(connection, message, account, stamp_ms), wake=arrival.key)
    if until_ms:
        source = f"l:{account.id}:{until_ms}"
        told = _reply_once(connection, message, account, source, "rate_limited", stamp_ms, limit=limit)
        return replace(told, wake=arrival.key)
    if said:
        told = _reply_once(connection, message, account, f"i:{row}", said, stamp_ms)
        return replace(told, wake=arrival.key)
    return Stored(wake=arrival.key)


def _welcome(connection: Connection, message: InboundMessage, account: Account, stamp_ms: int) -> Stored:
    """Who we are, before the first answer to somebody."""
    person = account.person
    name, source = (person.name if person is not None else "") or account.label, f"hi:{account.id}"
    shown = plain_label(name) or say("nameless", account.language_or(message.language))
    return _reply_once(connection, message, account, source, "welcome", stamp_ms, name=shown)


def _queued(message: InboundMessage) -> InboundMessage:
    """The words of `/queue` as the message that they are."""
    return replace(
        message,
        kind=InboundKind.MESSAGE,
        command=None,
        message_id=None if message.interaction else message.message_id,
        interaction=None,
        interaction_expires=None,
    )


def _is_too_old(connection: Connection, arrival: Arrival, settings: FileSettings, stamp_ms: int) -> bool:
    """Too old to be answered, or of before a loss of rows: nobody knows whether it was answered then."""
    # Some platforms tell whole seconds.
    salvaged_ms = int(kv.get_value(connection, SALVAGED_AT) or 0) // 1000 * 1000
    return arrival.sent_ms < max(stamp_ms - settings.inbox.max_age_s * 1000, salvaged_ms)


def _answer_too_late(
    connection: Connection,
    message: InboundMessage,
    account: Account,
    arrival: Arrival,
    settings: FileSettings,
    stamp_ms: int,
) -> Stored:
    """Keeps what is too old to be answered, and says so once for all of a chat's backlog."""
    inbox.store(connection, replace(arrival, state="done", reason="too old"), stamp_ms)
    window = stamp_ms // max(int(settings.inbox.max_age_s * 1000), 1)
    key = arrival.key
    source = f"o:{key.platform}:{key.tenant}:{key.chat}:{key.thread}:{window}"
    return _reply_once(connection, message, account, source, "too_old", stamp_ms)


def _answer_spent(
    connection: Connection,
    message: InboundMessage,
    account: Account,
    arrival: Arrival,
    today: Today,
    stamp_ms: int,
) -> Stored:
    """Keeps what nobody pays for, and says so once a day."""
    inbox.store(connection, replace(arrival, state="done", reason="budget"), stamp_ms)
    source, key = budgets.notice_of(today, account)
    return _reply_once(connection, message, account, source, key, stamp_ms)


def _reply_once(
    connection: Connection,
    message: InboundMessage,
    account: Account,
    source: str,
    key: str,
    stamp_ms: int,
    **fields: object,
) -> Stored:
    """A sentence of ours, unless it went out under this source already."""
    if outbox.find(connection, source, 0) is not None:
        return NOTHING
    language = account.language_or(message.language)
    return _reply(connection, message, source, say(key, language, **fields), stamp_ms)


def _note_membership(
    connection: Connection, message: InboundMessage, account: Account, room: Room | None, stamp_ms: int
) -> Stored:
    if room is not None and message.text == LEFT:
        people.note_left(connection, room.id, account.id, stamp_ms)
    return NOTHING


def _answer_stranger(
    connection: Connection, message: InboundMessage, account: Account, key: SessionKey, stamp_ms: int
) -> Stored:
    """A pairing code, at most one in ten minutes; or the owner's own account by the set-up code.

    Nothing of what a stranger wrote is kept.
    """
    if message.kind not in (InboundKind.MESSAGE, InboundKind.COMMAND):
        return NOTHING
    language = message.language
    sentence, told = _take_word(connection, message, account, stamp_ms), None
    if sentence is None:
        code = codes.issue(connection, "pair", account.id, stamp_ms)
        told = None if code is None else admission.tell_owner(connection, account, stamp_ms)
        sentence = None if code is None else say("pair", language, code=code)
        identity.note_language(connection, account, language)
    row = inbox.store(connection, _arrival(message, key, account.id, state="done"), stamp_ms)
    if sentence is None:
        return NOTHING
    replied = _reply(connection, message, f"i:{row}", sentence, stamp_ms)
    return replied if told is None else Stored(send_to=(*replied.send_to, (told.platform, told.chat)))


def _take_word(
    connection: Connection, message: InboundMessage, account: Account, stamp_ms: int
) -> str | None:
    """What a stranger is told who sent the set-up code, a code of `/link`, or a word to one they sent."""
    language = message.language
    if codes.looks_like_code(message.text):
        claimed = identity.claim_owner(connection, account, message.text, stamp_ms)
        if isinstance(claimed, identity.Approved):
            return say("setup_done", language, name=plain_label(claimed.person.name) or claimed.person.slug)
        if claimed.locked_until_ms:
            return say("code_locked", language)
    if message.kind is InboundKind.COMMAND and message.command not in ("link", "start"):
        return None
    return linking.take_word_of_stranger(connection, account, message.text, language, stamp_ms)


def _store_in_closed_room(
    connection: Connection, message: InboundMessage, room: Room, account: Account | None, stamp_ms: int
) -> Stored:
    """Silence, but for the owner's own `/allow here`; the owner is told once that the bot was added."""
    command = BY_NAME.get(message.command or "")
    if command is not None and command.everywhere and account is not None and command.allows(account):
        key = SessionKey(message.platform, message.tenant, message.chat, message.thread or "")
        inbox.store(connection, _arrival(message, key, account.id, payload=dump_inbound(message)), stamp_ms)
        return Stored(wake=key)
    if room.reported or (message.kind is InboundKind.MEMBERSHIP and message.text == LEFT):
        return NOTHING
    found = admission.find_owner(connection)
    if found is None:
        return NOTHING
    owner, place = found
    people.change_room(connection, room.id, reported=True)
    title = plain_label(room.title, 80) or room.chat
    where = describe_place(room.platform, owner.language)
    sentence = say("room_found", owner.language, title=title, platform=where)
    notice = OutboundMessage(ChatRef(place.chat, place.thread or None), Chunk(sentence), quiet=True)
    plan = Plan(f"r:{room.id}", place.platform, place.tenant, place.chat, place.thread)
    outbox.plan(connection, plan, [dump_outbound(notice)], stamp_ms)
    return Stored(send_to=((place.platform, place.chat),))


def _reply(
    connection: Connection,
    message: InboundMessage,
    source: str,
    sentence: str,
    stamp_ms: int,
    *,
    ephemeral: bool = False,
) -> Stored:
    to = ChatRef(message.chat, message.thread, message.interaction, message.interaction_expires)
    where = Plan(source, message.platform, message.tenant, message.chat, message.thread or "")
    reply = OutboundMessage(to, Chunk(sentence), ephemeral=ephemeral)
    outbox.plan(connection, where, [dump_outbound(reply)], stamp_ms)
    return Stored(send_to=((message.platform, message.chat),))


def _arrival(
    message: InboundMessage,
    key: SessionKey,
    account: AccountId,
    *,
    payload: str = "",
    state: str = "received",
) -> Arrival:
    return Arrival(
        key=key,
        inbox_key=message.key,
        account=account,
        # A press that was stored as such stands for a command.
        kind="command" if message.kind is InboundKind.BUTTON else message.kind.value,
        payload=payload,
        sent_ms=int(message.sent_at.timestamp() * 1000),
        state=state,
    )
