"""What happens to a reminder at its hour, in one transaction: where it goes, in what words, what comes next.

The outbox row, or the inbox row of a run, is written together with the step to the next occurrence, so that
a crash neither loses nor doubles it.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, select

from trunkline.adapters.base import ChatRef, Chunk, OutboundMessage
from trunkline.gateway import budgets
from trunkline.gateway.identity import LOCAL_PLATFORMS
from trunkline.gateway.payloads import dump_inbound, dump_outbound
from trunkline.gateway.reminder_desk import name_of
from trunkline.gateway.reminder_times import BadTime, describe_moment, next_repeat
from trunkline.gateway.scheduled import SCHEDULED, begin_message, event_of
from trunkline.gateway.sentences import say
from trunkline.gateway.settings import FileSettings
from trunkline.gateway.state import homes, inbox, outbox, people, reminders, sessions
from trunkline.gateway.state.inbox import Arrival
from trunkline.gateway.state.outbox import Plan
from trunkline.gateway.state.records import Account, OutboxRow, Room, SessionKey
from trunkline.gateway.state.reminders import Reminder
from trunkline.gateway.state.schema import outbox as outbox_table

log = logging.getLogger(__name__)

SOURCE = "r:"
"""Begins the source of a delivered reminder: its number and its due time follow."""
ELSEWHERE = ":home"
"""Ends the source of one that went to the home chat: in place of its own, or beside it."""
LATE_MS = 300_000
"""What comes later than this says so."""
ELSEWHERE_AFTER_MS = 120_000
"""So long a chat out of reach is waited for before the home chat stands in for it."""
REFUSED_WITHIN_MS = 86_400_000


class Render(Protocol):
    """The text as a platform's chunks."""

    def __call__(self, platform: str, markdown: str, language: str = "") -> tuple[Chunk, ...]: ...


@dataclass(frozen=True, slots=True)
class Line:
    """A platform that this process is connected to: the bot's id there, the one thread it is for, if any."""

    tenant: str
    thread: str | None = None


@dataclass(frozen=True, slots=True)
class House:
    """What a delivery needs of the house as it is now. `lines` are by platform.

    `since_ms`: since when this process tries to reach the platforms.
    """

    lines: Mapping[str, Line]
    settings: FileSettings
    render: Render
    since_ms: int = 0

    def reaches(self, key: SessionKey) -> bool:
        line = self.lines.get(key.platform)
        return line is not None and line.tenant == key.tenant and line.thread in (None, key.thread)


@dataclass(frozen=True, slots=True)
class Fired:
    """What is to be seen to after the commit: a chat with something to send, a session with a run to do."""

    send_to: tuple[str, str] | None = None
    wake: SessionKey | None = None


OVER = Fired()


@dataclass(frozen=True, slots=True)
class Target:
    """Where one occurrence goes, and as whose."""

    account: Account
    room: Room | None
    key: SessionKey
    is_elsewhere: bool = False


def fire(connection: Connection, one: Reminder, house: House, stamp_ms: int) -> Fired | None:
    """Carries out a due occurrence. None when it has to wait: for its chat, or since somebody else has it."""
    account = people.load_account(connection, one.account)
    if not _may_still(connection, one, account):
        reminders.cancel(connection, one.id)
        log.info("reminder ended: %s has no maker any more", one.id)
        return OVER
    room = None if one.room is None else people.load_room(connection, one.room)
    if _is_silenced(account):
        return OVER if _move_on(connection, one, stamp_ms, fired=False) else None
    if room is not None and not _may_write_in(connection, room, account):
        return _end_in_room(connection, one, account, house, stamp_ms)
    target = _target(connection, one, account, room, house, stamp_ms)
    if target is None:
        return None
    if one.kind == "run":
        return _begin_run(connection, one, target, house, stamp_ms)
    if not _move_on(connection, one, stamp_ms, fired=True):
        return None
    words = _words(one, target, stamp_ms)
    _say_at_home(connection, one, target, words, house, stamp_ms)
    return _say(connection, one, target, words, house, stamp_ms)


def has_to_wait(one: Reminder, house: House, stamp_ms: int) -> bool:
    """Whether its chat is out of reach, and nothing stands in for that, or not yet."""
    if house.reaches(one.key):
        return False
    since_ms = max(one.due_ms, house.since_ms)
    return one.room is not None or stamp_ms - since_ms < ELSEWHERE_AFTER_MS


def is_reminder(source: str) -> bool:
    """Whether an outbox row is a delivered reminder: `r:<number>:<due>`, perhaps for another chat."""
    return source.startswith(SOURCE) and source.count(":") > 1


def repeat_in_doubt(connection: Connection, row: OutboxRow, source: str, stamp_ms: int) -> None:
    """Says a reminder again that may not have arrived: one too many harms less than one too few."""
    one = reminders.find(connection, int(row.source.split(":")[1]))
    if one is None or outbox.find(connection, source, 0) is not None:
        return
    language = people.load_account(connection, one.account).language_or(one.language)
    word = OutboundMessage(ChatRef(row.chat, row.thread or None), Chunk(say("reminder_in_doubt", language)))
    where = Plan(source, row.platform, row.tenant, row.chat, row.thread)
    outbox.plan(connection, where, [dump_outbound(word), row.payload], stamp_ms)


def send_elsewhere(connection: Connection, refused: OutboxRow, render: Render, stamp_ms: int) -> None:
    """Plans reminders for the home chat that could not be written to this chat, each once."""
    query = select(outbox_table.c.source).where(
        outbox_table.c.platform == refused.platform,
        outbox_table.c.tenant == refused.tenant,
        outbox_table.c.chat == refused.chat,
        outbox_table.c.state == "refused",
        outbox_table.c.source.startswith(SOURCE),
        outbox_table.c.seq == 0,
        outbox_table.c.created_ms > stamp_ms - REFUSED_WITHIN_MS,
    )
    for source in connection.execute(query).scalars().all():
        is_first = is_reminder(source) and not source.endswith(ELSEWHERE)
        if is_first and outbox.find(connection, f"{source}{ELSEWHERE}", 0) is None:
            _send_home(connection, source, refused, render, stamp_ms)


def _send_home(
    connection: Connection, source: str, refused: OutboxRow, render: Render, stamp_ms: int
) -> None:
    one = reminders.find(connection, int(source.split(":")[1]))
    person = None if one is None else people.load_account(connection, one.account).person
    if one is None or one.room is not None or person is None:
        return
    home = sessions.home_of(connection, person.id)
    here = (refused.platform, refused.chat, refused.thread)
    if home is None or (home.platform, home.chat, home.thread) == here:
        return
    language = person.language or one.language
    text = f"{say('reminder', language, text=one.text)}\n\n{say('reminder_elsewhere', language)}"
    _plan(connection, f"{source}{ELSEWHERE}", home, render(home.platform, text, language), None, stamp_ms)


def _may_still(connection: Connection, one: Reminder, account: Account) -> bool:
    """Whether the account is still its maker's: what somebody asked for is never told to the next holder."""
    person = account.person
    if one.maker:
        return person is not None and reminders.is_maker(connection, person.slug, one)
    return one.room is not None


def _is_silenced(account: Account) -> bool:
    return account.blocked or (account.person is not None and account.person.suspended)


def _may_write_in(connection: Connection, room: Room, account: Account) -> bool:
    """The room is allowed, and its maker has not left it."""
    return room.allowed and not people.has_left(connection, room.id, account.id)


def _end_in_room(
    connection: Connection, one: Reminder, account: Account, house: House, stamp_ms: int
) -> Fired | None:
    """Ends a reminder of a room that is closed to it; its maker is told in their home chat, if any."""
    if not reminders.cancel(connection, one.id):
        return None
    person = account.person
    home = None if person is None else sessions.home_of(connection, person.id)
    if person is None or home is None or not house.reaches(home):
        return OVER
    language = person.language or one.language
    words = say("reminder_room_closed", language, text=one.text)
    return _say(connection, one, Target(account, None, home), words, house, stamp_ms)


def _target(
    connection: Connection, one: Reminder, account: Account, room: Room | None, house: House, stamp_ms: int
) -> Target | None:
    if house.reaches(one.key):
        return Target(account, room, one.key)
    if account.person is None or has_to_wait(one, house, stamp_ms):
        return None
    home = sessions.home_of(connection, account.person.id)
    if home is None or not house.reaches(home):
        return None
    owned = people.accounts_of(connection, account.person.id)
    there = next((own for own in owned if own.platform == home.platform), account)
    return Target(there, None, home, is_elsewhere=True)


def _move_on(connection: Connection, one: Reminder, stamp_ms: int, *, fired: bool) -> bool:
    """To the next repeat that is still to come: missed ones are not made up for."""
    following = None
    if one.cron:
        after = datetime.fromtimestamp(max(one.due_ms, stamp_ms) / 1000, UTC)
        try:
            following = next_repeat(one.cron, after, ZoneInfo(one.zone))
        except BadTime:
            log.warning("reminder ended: rule of %s can't be read", one.id)
    next_ms = None if following is None else int(following.timestamp() * 1000)
    return reminders.move_on(connection, one, next_ms, stamp_ms if fired else None)


def _begin_run(
    connection: Connection, one: Reminder, target: Target, house: House, stamp_ms: int
) -> Fired | None:
    if reminders.runs(connection, f"e:{event_of(one.id)}"):
        # The one before is still at work: this occurrence is left out.
        return OVER if _move_on(connection, one, stamp_ms, fired=False) else None
    if not _move_on(connection, one, stamp_ms, fired=True):
        return None
    if budgets.look(connection, target.account, target.room, house.settings, stamp_ms).is_spent:
        words = say("reminder_unpaid", target.account.language_or(one.language), text=one.text)
        return _say(connection, one, target, words, house, stamp_ms)
    inbound = begin_message(one, target.account, target.room, target.key)
    if not inbox.is_known(connection, inbound.platform, inbound.tenant, inbound.key):
        payload = dump_inbound(inbound)
        arrival = Arrival(target.key, inbound.key, target.account.id, SCHEDULED, payload, one.due_ms)
        inbox.store(connection, arrival, stamp_ms)
    return Fired(wake=target.key)


def _words(one: Reminder, target: Target, stamp_ms: int) -> str:
    language = target.account.language_or(one.language)
    if target.room is None:
        parts = [say("reminder", language, text=one.text)]
    else:
        parts = [say("reminder_room", language, name=name_of(one, language), text=one.text)]
    if stamp_ms - one.due_ms > LATE_MS:
        zone = ZoneInfo(one.zone)
        now = datetime.fromtimestamp(stamp_ms / 1000, zone)
        due = describe_moment(datetime.fromtimestamp(one.due_ms / 1000, zone), now, language)
        parts.append(say("reminder_late_repeats" if one.cron else "reminder_late", language, when=due))
    if target.is_elsewhere:
        parts.append(say("reminder_elsewhere", language))
    return "\n\n".join(parts)


def _say(
    connection: Connection, one: Reminder, target: Target, words: str, house: House, stamp_ms: int
) -> Fired:
    key = target.key
    chunks = house.render(key.platform, words, target.account.language_or(one.language))
    mention = None if target.room is None else target.account.user_id
    _plan(connection, f"{SOURCE}{one.id}:{one.due_ms}", key, chunks, mention, stamp_ms)
    return Fired(send_to=(key.platform, key.chat))


def _say_at_home(
    connection: Connection, one: Reminder, target: Target, words: str, house: House, stamp_ms: int
) -> None:
    """Beside the page or the terminal, which nobody may be looking at, in the home chat if one was chosen."""
    person = target.account.person
    if target.key.platform not in LOCAL_PLATFORMS or person is None:
        return
    home = homes.chosen(connection, person.id)
    if home is not None and home.platform not in LOCAL_PLATFORMS and house.reaches(home):
        chunks = house.render(home.platform, words, target.account.language_or(one.language))
        _plan(connection, f"{SOURCE}{one.id}:{one.due_ms}{ELSEWHERE}", home, chunks, None, stamp_ms)


def _plan(
    connection: Connection,
    source: str,
    key: SessionKey,
    chunks: tuple[Chunk, ...],
    mention: str | None,
    stamp_ms: int,
) -> None:
    to = ChatRef(key.chat, key.thread or None)
    payloads = [dump_outbound(OutboundMessage(to, chunk, mention=mention)) for chunk in chunks]
    outbox.plan(connection, Plan(source, key.platform, key.tenant, key.chat, key.thread), payloads, stamp_ms)
