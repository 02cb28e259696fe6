"""Makes, lists and cancels reminders, for the model's tool and for the chat commands alike.

Times are read in the zone of the asker; what comes due is the scheduler's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, select

from trunkline.agent.scope import AccountId, PersonScope, Scope
from trunkline.agent.tools.base import ToolContext
from trunkline.agent.tools.remind import TEXT_CHARS, ReminderRefused, Wish
from trunkline.gateway.clock import now_ms
from trunkline.gateway.labels import plain_label
from trunkline.gateway.payloads import load_inbound
from trunkline.gateway.reminder_phrases import At, Every, Later, When, read_length
from trunkline.gateway.reminder_times import (
    BadTime,
    Moment,
    at_wall_clock,
    check_moment,
    check_rule,
    describe_moment,
    describe_rule,
    find_zone,
    from_now,
)
from trunkline.gateway.roles import may
from trunkline.gateway.sentences import say
from trunkline.gateway.state import people, reminders, sessions
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.records import Account, SessionKey
from trunkline.gateway.state.reminders import Kind, NewReminder, Reminder
from trunkline.gateway.state.schema import inbox, turn

MOST_WAITING = 50
"""Of one person, or of one account without a person."""
IN_PRIVATE = (
    "This conversation is private, so nothing of it is kept. The person can make the reminder themselves "
    "with `/remind`."
)
IN_A_RUN = (
    "This turn was itself started by a schedule, so it can't schedule anything. Say what would be useful."
)
NO_RUNS = "Scheduled runs are for members. A plain reminder is possible: leave out `do`."
NOWHERE = "There is no chat here in which anybody could be reminded."
BAD_AT = "Write `at` as a local date and time, such as 2026-12-01T09:00."
BAD_AFTER = "Write `after` as a length of time, such as 20m, 1h30m, 2d or 1w."
UNKNOWN = "There is no reminder {number} here. List them to see the numbers."
NOT_THEIRS = "Only the one who made it, an admin or the owner can cancel that."


@dataclass(frozen=True, slots=True)
class Place:
    """Who asks for a reminder, and where. `stream` is that of the room, or of the account's direct chats."""

    account: Account
    stream: int
    key: SessionKey
    language: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A reminder whose time has been understood. `moment` is the first time of a rule."""

    text: str
    kind: Kind
    moment: Moment
    cron: str
    zone: ZoneInfo


class Refused(BadTime):
    """It can't be made; the text is the key of the sentence, `fields` fill it."""

    def __init__(self, key: str, **fields: object) -> None:
        super().__init__(key)
        self.fields = fields


def plan(when: When, text: str, kind: Kind, now: datetime, zone: ZoneInfo) -> Plan:
    """Checks what is wanted against the clock. Raises BadTime."""
    if len(text) > TEXT_CHARS:
        raise Refused("remind_too_long", most=TEXT_CHARS)
    here = now.astimezone(zone)
    match when:
        case Every(cron):
            return Plan(text, kind, Moment(check_rule(cron, here, zone)), cron, zone)
        case Later(days, seconds):
            moment = from_now(here, days, seconds)
        case At(local):
            moment = at_wall_clock(local, zone)
    return Plan(text, kind, check_moment(moment, here), "", zone)


def make(connection: Connection, place: Place, wanted: Plan, stamp_ms: int, call: str = "") -> int:
    """Stores it and returns its number. Raises Refused when too many wait."""
    account = place.account
    if reminders.count_waiting(connection, account) >= MOST_WAITING:
        raise Refused("remind_too_many", most=MOST_WAITING)
    return reminders.add(
        connection,
        NewReminder(
            account=account.id,
            stream=place.stream,
            key=place.key,
            maker="" if account.person is None else account.person.slug,
            kind=wanted.kind,
            text=wanted.text,
            due_ms=wanted.moment.due_ms,
            cron=wanted.cron,
            zone=wanted.zone.key,
            language=place.language,
            call=call,
        ),
        stamp_ms,
    )


def describe_when(wanted: Plan, now: datetime, language: str) -> str:
    """The understood time in words."""
    first = describe_moment(wanted.moment.local, now, language)
    if not wanted.cron:
        return first
    return say("remind_repeats", language, rule=describe_rule(wanted.cron, language), when=first)


def describe_shift(moment: Moment, language: str) -> str:
    """What the clocks made of the time, as a sentence to go after others; empty mostly."""
    if not moment.shift:
        return ""
    return say(f"remind_{moment.shift}", language, time=f"{moment.local:%H:%M}")


def describe_waiting(
    one: Reminder, scope: Scope, zone: ZoneInfo, now: datetime, language: str, *, plain: bool = False
) -> str:
    """A line of a list: number, time, text; who made it, or where, as far as the place doesn't tell."""
    local = datetime.fromtimestamp(one.due_ms / 1000, UTC)
    there = ZoneInfo(one.zone) if one.cron else zone
    when = describe_moment(local.astimezone(there), now, language)
    if one.cron:
        when = say("reminders_rule", language, rule=describe_rule(one.cron, language), when=when)
        when += "" if there.key == zone.key else f" ({there.key})"
    text = " ".join(one.text.split())
    if one.kind == "run":
        text = say("reminders_run", language, text=text)
    if isinstance(scope, PersonScope) and one.room is not None:
        text = say("reminders_in", language, text=text, room=plain_label(one.room_title) or one.key.platform)
    elif one.room is not None:
        text = say("reminders_by", language, text=text, name=name_of(one, language))
    line = say("reminders_line", language, number=one.id, when=when, text=text)
    return line.replace("**", "") if plain else line


def name_of(one: Reminder, language: str) -> str:
    """Its maker's name, safe to be shown."""
    return plain_label(one.label) or say("reminder_somebody", language)


def may_cancel(connection: Connection, account: Account, one: Reminder) -> bool:
    """Its maker may; in a room admins and the owner, too."""
    person = account.person
    if person is not None and reminders.is_maker(connection, person.slug, one):
        return True
    return one.account == account.id or (one.room is not None and may(account, "cancel_others"))


class StoreReminderDesk:
    """The ReminderDesk of the model's tool. `mask` takes secrets out of what the model wrote."""

    def __init__(self, database: Database, mask: Callable[[str], str]) -> None:
        self._database = database
        self._mask = mask

    async def create(self, context: ToolContext, wish: Wish) -> str:
        zone = _zone_of(context, wish)
        try:
            wanted = plan(
                _when(wish, context.now.astimezone(zone)),
                self._mask(wish.text),
                "run" if wish.runs else "text",
                context.now,
                zone,
            )
        except BadTime as error:
            raise ReminderRefused(_told(error)) from error
        number = await self._database.write(lambda c: _make_once(c, context, wanted))
        when = describe_when(wanted, context.now, "")
        return f"Reminder {number} is set: {when} ({zone.key}).{describe_shift(wanted.moment, '')}"

    async def listed(self, context: ToolContext) -> str:
        found = await self._database.read(lambda c: reminders.waiting_in(c, context.scope))
        zone = _zone_of(context, None)
        return "\n".join(
            describe_waiting(one, context.scope, zone, context.now, "", plain=True) for one in found
        )

    async def cancel(self, context: ToolContext, number: int) -> str:
        def work(connection: Connection) -> str:
            one = reminders.find_in(connection, context.scope, number)
            if one is None or one.state == "done":
                raise ReminderRefused(UNKNOWN.format(number=number))
            asker = _asker(connection, context)
            if asker is None or not may_cancel(connection, asker, one):
                raise ReminderRefused(NOT_THEIRS)
            reminders.cancel(connection, number)
            return f"Cancelled reminder {number}: {one.text}"

        return await self._database.write(work)


def _make_once(connection: Connection, context: ToolContext, wanted: Plan) -> int:
    """The number of the reminder that this call makes, or has made already. Raises ReminderRefused."""
    call = f"{context.turn}/{context.step}/{context.call}"
    made = reminders.made_by(connection, call)
    if made is not None:
        return made.id
    standing = sessions.standing(connection, context.session)
    asker = _asker(connection, context)
    if standing is None or asker is None:
        raise ReminderRefused(NOWHERE)
    if standing.private:
        raise ReminderRefused(IN_PRIVATE)
    if standing.origin == "scheduled":
        raise ReminderRefused(IN_A_RUN)
    if wanted.kind == "run" and not may(asker, "schedule_runs"):
        raise ReminderRefused(NO_RUNS)
    language = _language_of(connection, context.turn, asker)
    place = Place(asker, standing.stream, standing.key, language)
    try:
        return make(connection, place, wanted, now_ms(), call)
    except Refused as refused:
        raise ReminderRefused(_told(refused)) from refused


def _asker(connection: Connection, context: ToolContext) -> Account | None:
    query = select(turn.c.account_id).where(turn.c.id == context.turn)
    found = connection.execute(query).scalar()
    return None if found is None else people.load_account(connection, AccountId(found))


def _language_of(connection: Connection, turn_id: int, asker: Account) -> str:
    """The one the person chose, else that of the app in which they asked."""
    if asker.person is not None and asker.person.language:
        return asker.person.language
    query = select(inbox.c.payload).where(inbox.c.turn_id == turn_id, inbox.c.payload != "")
    payload = connection.execute(query.limit(1)).scalar()
    return load_inbound(payload).language if payload else ""


def _zone_of(context: ToolContext, wish: Wish | None) -> ZoneInfo:
    if wish is not None and wish.timezone:
        try:
            return find_zone(wish.timezone)
        except BadTime as error:
            raise ReminderRefused(say(str(error))) from error
    zone = context.now.tzinfo
    return zone if isinstance(zone, ZoneInfo) else ZoneInfo("UTC")


def _when(wish: Wish, now: datetime) -> When:
    """Raises ReminderRefused, and BadTime for what is no rule."""
    if wish.every:
        return Every(wish.every)
    if wish.after:
        length = read_length(wish.after)
        if length is None:
            raise ReminderRefused(BAD_AFTER)
        return length
    try:
        local = datetime.fromisoformat(wish.at)
    except ValueError as error:
        raise ReminderRefused(BAD_AT) from error
    if len(wish.at) <= len(date.min.isoformat()):
        raise ReminderRefused(BAD_AT)  # a date alone is no time
    return At(local if local.tzinfo is None else local.astimezone(now.tzinfo).replace(tzinfo=None))


def _told(error: BadTime) -> str:
    fields = error.fields if isinstance(error, Refused) else {}
    return say(str(error), "", **fields)
