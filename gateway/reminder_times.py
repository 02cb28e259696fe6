"""When a reminder is due: wall-clock times in a zone, repeats by cron, and how a person is told of them.

A time on the wall that doesn't exist, or exists twice, is decided here, and the caller can say so.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from trunkline.gateway.sentences import describe_day, is_chinese, say

MIN_REPEAT = timedelta(minutes=15)
CRON_CHARS = 100
LOOKED_AT = 64
"""So many repeats are compared: minutes and hours repeat the same on every day that matches."""
FURTHEST = timedelta(days=366 * 20)

Shift = Literal["", "skipped", "twice"]

_NUMBER = re.compile(r"[0-9]{1,2}")


class BadTime(ValueError):
    """A time or rule that can't be used; the text is the key of the sentence that says why."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A due time, aware, in the zone it was meant in. `shift` tells what the clocks there made of it."""

    local: datetime
    shift: Shift = ""

    @property
    def due_ms(self) -> int:
        return int(self.local.timestamp() * 1000)


def find_zone(name: str) -> ZoneInfo:
    """Raises BadTime for a zone that nobody knows."""
    try:
        return ZoneInfo(name.strip())
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadTime("remind_bad_zone") from error


def at_wall_clock(local: datetime, zone: ZoneInfo) -> Moment:
    """The moment of a naive local time.

    In an hour that clocks skip, it is as much later as they are put forward; in one that they repeat, it is
    the first of the two.
    """
    first = local.replace(tzinfo=zone, fold=0)
    there = first.astimezone(UTC).astimezone(zone)
    if there.replace(tzinfo=None) != local.replace(fold=0):
        return Moment(there, "skipped")
    second = local.replace(tzinfo=zone, fold=1)
    return Moment(there, "twice" if second.utcoffset() != first.utcoffset() else "")


def from_now(now: datetime, days: int, seconds: float) -> Moment:
    """Days keep the time on the wall; seconds are counted."""
    moment = Moment(now)
    if days:
        zone = now.tzinfo if isinstance(now.tzinfo, ZoneInfo) else ZoneInfo("UTC")
        moment = at_wall_clock(now.replace(tzinfo=None) + timedelta(days=days), zone)
    later = (moment.local.astimezone(UTC) + timedelta(seconds=seconds)).astimezone(now.tzinfo)
    return Moment(later, moment.shift if not seconds else "")


def next_repeat(cron: str, after: datetime, zone: ZoneInfo) -> datetime | None:
    """The first repeat later than an aware time, in the zone; None when there is none in fifty years.

    A repeat in an hour that clocks skip comes right after it; one in an hour that is repeated comes once.
    Raises BadTime for what is no rule of five fields.
    """
    if len(cron) > CRON_CHARS or len(cron.split()) != 5:
        raise BadTime("remind_bad_cron")
    try:
        repeats = CronSim(cron, after.astimezone(zone))
        found = next(repeats)
        while found.timestamp() <= after.timestamp():  # within the hour that comes twice
            found = next(repeats)
    except CronSimError as error:
        raise BadTime("remind_bad_cron") from error
    except (StopIteration, OverflowError):
        return None
    return found


def check_rule(cron: str, now: datetime, zone: ZoneInfo) -> datetime:
    """The first repeat of a rule. Raises BadTime when it is none, never comes, or comes too often."""
    first = found = next_repeat(cron, now, zone)
    if first is None:
        raise BadTime("remind_never")
    for _ in range(LOOKED_AT):
        assert found is not None
        after = next_repeat(cron, found, zone)
        if after is None:
            break
        if after.timestamp() - found.timestamp() < MIN_REPEAT.total_seconds():
            raise BadTime("remind_too_often")
        found = after
    return first


def check_moment(moment: Moment, now: datetime) -> Moment:
    """Raises BadTime for what is past, or too far away to be meant."""
    ahead_s = moment.local.timestamp() - now.timestamp()
    if ahead_s <= 0:
        raise BadTime("remind_past")
    if ahead_s > FURTHEST.total_seconds():
        raise BadTime("remind_far")
    return moment


def describe_moment(local: datetime, now: datetime, language: str) -> str:
    """`Tuesday 1 December at 09:00`, with the year where it is another one than now."""
    today = now.astimezone(local.tzinfo).date()
    day = describe_day(local.date(), today, language)
    near = _near(local.date(), today)
    named = say(near, language) if near else say(f"weekday_{local.isoweekday()}", language)
    clock = f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"
    return say("remind_moment", language, weekday=named, day=day, time=clock)


def _near(day: date, today: date) -> str:
    return {0: "remind_today", 1: "remind_tomorrow"}.get((day - today).days, "")


def describe_rule(cron: str, language: str) -> str:
    """The usual rules in words, any other as it is written."""
    minute, hour, day, month, weekdays = cron.split()
    if (day, month, weekdays) == ("*", "*", "*"):
        step = minute.removeprefix("*/")
        if hour == "*" and minute != step and step.isdecimal():
            return say("repeat_minutes", language, count=step)
        if hour == "*" and minute == "0":
            return say("repeat_hourly", language)
        if hour.startswith("*/") and minute == "0":
            return say("repeat_hours", language, count=hour[2:])
    if not (_NUMBER.fullmatch(minute) and _NUMBER.fullmatch(hour)):
        return say("repeat_cron", language, cron=cron)
    time = f"{int(hour):02}:{int(minute):02}"
    if (day, month, weekdays) == ("*", "*", "*"):
        return say("repeat_daily", language, time=time)
    if (day, month) == ("*", "*"):
        return _on_weekdays(weekdays, time, cron, language)
    if (month, weekdays) == ("*", "*") and day.isdecimal():
        return say("repeat_monthly", language, day=day, time=time)
    return say("repeat_cron", language, cron=cron)


def _on_weekdays(weekdays: str, time: str, cron: str, language: str) -> str:
    if weekdays.upper() in ("1-5", "MON-FRI"):
        return say("repeat_weekdays", language, time=time)
    parts = weekdays.split(",")
    if not all(part in "01234567" and len(part) == 1 for part in parts):
        return say("repeat_cron", language, cron=cron)
    names = [say(f"weekday_{int(part) or 7}", language) for part in parts]
    joined = ("、" if is_chinese(language) else ", ").join(names)
    return say("repeat_on", language, days=joined, time=time)
