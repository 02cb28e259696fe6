"""`/remind`, `/reminders` and `/sethome`: what is to come at a later time, and where."""

from datetime import date, datetime

from sqlalchemy import Connection

from trunkline.gateway.clock import now_ms, zone_of
from trunkline.gateway.commands.registry import CommandContext
from trunkline.gateway.memory_control import number_in
from trunkline.gateway.reminder_desk import (
    Place,
    Plan,
    Refused,
    describe_shift,
    describe_waiting,
    describe_when,
    make,
    may_cancel,
    plan,
)
from trunkline.gateway.reminder_phrases import Unclear, read_phrase
from trunkline.gateway.reminder_times import BadTime
from trunkline.gateway.sentences import describe_day, say
from trunkline.gateway.state import homes, people, reminders
from trunkline.gateway.state.records import scope_of
from trunkline.gateway.state.reminders import Reminder

SHOWN = 30


async def remind(context: CommandContext) -> str:
    """Makes a plain reminder from what somebody wrote, and says how it was understood."""
    zone = zone_of(context.account.person)
    now = datetime.fromtimestamp(now_ms() / 1000, zone)
    try:
        when, text = read_phrase(context.argument, now.replace(tzinfo=None))
        wanted = plan(when, context.house.mask(text), "text", now, zone)
        number = await context.house.database.write(lambda c: _make(c, context, wanted))
    except BadTime as error:
        return _ask_back(error, now.date(), context.language)
    key = "remind_set" if context.room is None else "remind_set_room"
    said = say(
        key,
        context.language,
        when=describe_when(wanted, now, context.language),
        zone=zone.key,
        text=wanted.text,
        number=number,
    )
    return said + describe_shift(wanted.moment, context.language)


async def list_reminders(context: CommandContext) -> str:
    """What waits and may be seen here; with `cancel` and a number, ends one."""
    words = context.argument.split()
    if words and words[0].lower() in ("cancel", "取消"):
        return await _cancel(context, words[1].lstrip("#") if len(words) > 1 else "")
    language, zone = context.language, zone_of(context.account.person)
    now = datetime.fromtimestamp(now_ms() / 1000, zone)
    scope = scope_of(context.account, context.room)
    found = await context.house.database.read(lambda c: reminders.waiting_in(c, scope))
    if not found:
        return say("reminders_none", language)
    lines = [f"- {describe_waiting(one, scope, zone, now, language)}" for one in found[:SHOWN]]
    if len(found) > SHOWN:
        lines.append(say("reminders_more", language, count=len(found) - SHOWN))
    head = say("reminders", language, zone=zone.key)
    return "\n".join([head, "", *lines, "", say("reminders_cancel", language, number=found[0].id)])


async def set_home(context: CommandContext) -> str:
    """Makes this direct chat the person's home, or ends that."""
    person = context.account.person
    if context.room is not None or person is None:
        return say("private_elsewhere", context.language)
    if context.argument.strip().lower() == "off":
        await context.house.database.write(lambda c: homes.forget(c, person.id))
        return say("home_off", context.language)
    await context.house.database.write(lambda c: homes.choose(c, context.account, context.key))
    return say("home_set", context.language)


def _make(connection: Connection, context: CommandContext, wanted: Plan) -> int:
    stream = people.stream_of(
        connection,
        account_id=context.account.id,
        room_id=None if context.room is None else context.room.id,
    )
    place = Place(context.account, stream, context.key, context.language)
    return make(connection, place, wanted, now_ms())


def _ask_back(error: BadTime, today: date, language: str) -> str:
    fields = error.fields if isinstance(error, Unclear | Refused) else {}
    shown = {
        name: describe_day(value, today, language) if isinstance(value, date) else value
        for name, value in fields.items()
    }
    return say(str(error), language, **shown)


async def _cancel(context: CommandContext, number: str) -> str:
    language = context.language
    wanted = number_in(number)
    if wanted is None:
        return say("reminders_unknown", language, number=number[:16] or "?")
    scope = scope_of(context.account, context.room)

    def work(connection: Connection) -> Reminder | bool | None:
        one = reminders.find_in(connection, scope, wanted)
        if one is None or one.state != "waiting":
            return None
        return may_cancel(connection, context.account, one) and reminders.cancel(connection, one.id) and one

    found = await context.house.database.write(work)
    if found is None:
        return say("reminders_unknown", language, number=number)
    if isinstance(found, Reminder):
        return say("reminders_cancelled", language, text=found.text)
    return say("reminders_not_yours", language)
