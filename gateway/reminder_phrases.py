"""What people write after `/remind`: when, and what. A small grammar of English and Chinese forms.

What could mean two things is never guessed: the sentence that asks back is part of the answer here. The
model's tool does not come here; it writes exact times.
"""

import re
import unicodedata
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from trunkline.gateway.reminder_times import BadTime
from trunkline.gateway.reminder_words import (
    CHINESE,
    DAY_PART_HOUR,
    ENGLISH,
    LENGTHS,
    MONTH_NUMBERS,
    NOON,
    PM_PARTS,
    WEEKDAY_NUMBERS,
    count_of,
    part_of,
    unit_s,
)

DEFAULT_HOUR = 9
"""Of a day that is named without a time."""
LONGEST_WHEN_CHARS = 60
_CRON_FIELD = r"[0-9*/,\-A-Za-z#]+"
_CRON = re.compile(rf"(?:cron\s+)?((?:[0-9*/,\-]+\s+){{2}}(?:{_CRON_FIELD}\s+){{2}}{_CRON_FIELD})(?=\s|$)")
_FILLER = re.compile(r"^(?:me|us)\b\s*|^提醒(?:我们?|大家)?|^(?:to|that)\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Later:
    """So long from now: days as on the calendar, and seconds."""

    days: int
    seconds: int


@dataclass(frozen=True, slots=True)
class At:
    """A local time."""

    local: datetime


@dataclass(frozen=True, slots=True)
class Every:
    """A rule of five fields."""

    cron: str


When = Later | At | Every


class Unclear(BadTime):
    """It could mean two things; `fields` fill the sentence that asks which."""

    def __init__(self, key: str, **fields: object) -> None:
        super().__init__(key)
        self.fields = fields


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day. `is_open`: a bare hour of which nobody knows which half of the day it is in."""

    hour: int
    minute: int
    is_open: bool = False


def read_phrase(text: str, now: datetime) -> tuple[When, str]:
    """When and what, from `tomorrow at 9 call Mum` or `call Mum tomorrow at 9`; `now` is local and naive.

    Raises BadTime, or Unclear, with the key of the sentence that says what is missing.
    """
    plain = _strip(unicodedata.normalize("NFKC", text).strip())
    cron = _CRON.match(plain)
    if cron is not None:
        return Every(" ".join(cron[1].split())), _what(plain[cron.end() :])
    for grammar in (ENGLISH, CHINESE):
        found, end = grammar.read(plain)
        if found:
            return _meaning(found, now), _what(plain[end:])
    last = _last_time(plain)
    if last is None:
        raise BadTime("remind_what_when")
    found, at = last
    return _meaning(found, now), _what(plain[:at])


def _last_time(text: str) -> tuple[dict[str, str], int] | None:
    """The longest end of the text that is nothing but a time, and where it begins."""
    for at in range(max(0, len(text) - LONGEST_WHEN_CHARS), len(text)):
        for grammar in (ENGLISH, CHINESE):
            found, end = grammar.read(text, at) if grammar.may_begin(text, at) else ({}, at)
            if found and not text[end:].strip(" .!。！"):
                return found, at
    return None


def _strip(text: str) -> str:
    return _FILLER.sub("", text).strip()


def _what(text: str) -> str:
    left = text.strip(" \t\n,:，：;；、")
    left = _strip(_strip(left))
    if not left:
        raise BadTime("remind_what")
    return left


def _meaning(found: dict[str, str], now: datetime) -> When:
    if "every" in found:
        return _rule(found, now)
    if "relative" in found:
        return _later(found["relative"])
    day = _day(found, now)
    clock = _clock(found)
    return At(_combined(day, clock, found, now))


def read_length(text: str) -> Later | None:
    """`20m`, `1h30m`, `2 days`: a length of time and nothing else; None for other texts. Raises BadTime."""
    left = LENGTHS.sub("", text).replace("and", "").strip(" ,")
    return None if left or not LENGTHS.search(text) else _later(text)


def _later(text: str) -> Later:
    days = seconds = 0.0
    for one in LENGTHS.finditer(text):
        amount = count_of(one["count"]) + (0.5 if one["half"] else 0)
        length_s = unit_s(one["unit"])
        if length_s >= 86_400 and amount == int(amount):
            days += amount * length_s / 86_400
        else:
            seconds += amount * length_s
    if days > 36_500 or seconds > 36_500 * 86_400:
        raise BadTime("remind_far")
    return Later(int(days), int(seconds))


def _day(found: dict[str, str], now: datetime) -> date | None:
    today = now.date()
    if "days_ahead" in found:
        return today + timedelta(days=_AHEAD[" ".join(found["days_ahead"].lower().split())])
    if "iso" in found:
        return _made(*map(int, found["iso"].split("-")))
    for day, month in (("day_1", "month_1"), ("day_2", "month_2")):
        if day in found:
            return _in_year(found, int(found[day]), MONTH_NUMBERS[found[month].lower()[:3]], today)
    if "zh_month" in found:
        return _in_year(found, int(found["zh_day"]), int(found["zh_month"]), today)
    return _weekday(found, now) if "weekday" in found else None


_AHEAD = {"today": 0, "tonight": 0, "tomorrow": 1, "day after tomorrow": 2} | {
    "今天": 0,
    "今日": 0,
    "今": 0,
    "明天": 1,
    "明日": 1,
    "明": 1,
    "后天": 2,
    "后日": 2,
    "大后天": 3,
}


def _in_year(found: dict[str, str], day: int, month: int, today: date) -> date:
    named = found.get("year_1") or found.get("year_2") or found.get("zh_year")
    if named:
        return _made(int(named), month, day)
    this_year = _made(today.year, month, day)
    return this_year if this_year >= today else _made(today.year + 1, month, day)


def _made(year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except ValueError as error:
        raise BadTime("remind_no_such_day") from error


def _weekday(found: dict[str, str], now: datetime) -> date:
    wanted = WEEKDAY_NUMBERS[found["weekday"].lower()]
    today = now.date()
    ahead = (wanted - today.isoweekday()) % 7
    which = found.get("which_week", "").strip().lower()
    if which == "下":
        return today + timedelta(days=7 - today.isoweekday() + wanted)
    if which == "next":
        first = today + timedelta(days=ahead or 7)
        if 0 < ahead <= 7 - today.isoweekday():
            raise Unclear("remind_which_week", first=first, second=first + timedelta(days=7))
        return first
    if ahead == 0:
        clock = _clock(found)
        is_over = clock is None or (clock.hour, clock.minute) <= (now.hour, now.minute)
        ahead = 7 if is_over and not (clock is not None and clock.is_open) else 0
    return today + timedelta(days=ahead)


def _clock(found: dict[str, str]) -> Clock | None:
    """The time of day; None where none is named."""
    part = part_of(found)
    if "named" in found:
        return Clock(12 if found["named"].lower() == NOON else 0, 0)
    said = found.get("hour")
    if said is None:
        return Clock(DAY_PART_HOUR[part], 0) if part else None
    hour, minute = count_of(said), _minute(found)
    half = found.get("half", "").replace(".", "").lower()
    if hour > 24 or minute > 59 or (half and not 1 <= hour <= 12):
        raise BadTime("remind_no_such_time")
    if half:
        return Clock(int(hour) % 12 + (12 if half == "pm" else 0), minute)
    if hour == 24:
        raise BadTime("remind_no_such_time")
    if part:
        return Clock(_in_part(int(hour), part), minute)
    return Clock(int(hour), minute, is_open=1 <= hour <= 12 and "minute" not in found)


def _minute(found: dict[str, str]) -> int:
    said = found.get("minute", "")
    quarters = {"半": 30, "一刻": 15, "三刻": 45}
    return quarters[said] if said in quarters else int(count_of(said)) if said else 0


def _in_part(hour: int, part: str) -> int:
    if part == "noon":
        return hour + 12 if hour < 6 else hour
    if part == "night" and hour == 12:
        raise Unclear("remind_midnight")
    return hour + 12 if part in PM_PARTS and hour < 12 else hour


def _combined(day: date | None, clock: Clock | None, found: dict[str, str], now: datetime) -> datetime:
    if clock is None:
        if day is None or day == now.date():
            raise BadTime("remind_what_time")
        return datetime.combine(day, datetime.min.time()).replace(hour=DEFAULT_HOUR)
    clock = _decided(clock, is_today=day is None or day == now.date())
    time = datetime.min.time().replace(hour=clock.hour, minute=clock.minute)
    if day is not None:
        return datetime.combine(day, time)
    today = datetime.combine(now.date(), time)
    is_over = today <= now and not (part_of(found) and "days_ahead" in found)
    return today + timedelta(days=1) if is_over else today


def _decided(clock: Clock, *, is_today: bool) -> Clock:
    """A bare hour of another day, or of a rule, is meant in the waking half of it when only one is."""
    if not clock.is_open:
        return clock
    hour = clock.hour % 12
    if is_today or 0 < hour < 7:
        raise Unclear("remind_which_half", first=f"{hour or 12}am", second=f"{hour or 12}pm")
    return Clock(hour or 12, clock.minute)


def _rule(found: dict[str, str], now: datetime) -> Every:
    if "step_unit" in found:
        return Every(_stepped(found))
    clock = _clock(found)
    clock = Clock(DEFAULT_HOUR, 0) if clock is None else _decided(clock, is_today=False)
    time = f"{clock.minute} {clock.hour}"
    if "month_day" in found:
        return Every(f"{time} {int(found['month_day'])} * *")
    if "daily" in found:
        return Every(f"{time} * * *")
    if "workdays" in found:
        return Every(f"{time} * * 1-5")
    if "weekend" in found:
        return Every(f"{time} * * 6,0")
    if "weekly" in found:
        return Every(f"{time} * * {now.isoweekday() % 7}")
    words = re.findall(r"[a-z]+day|[一二三四五六日天]", found["weekdays"].lower())
    numbers = sorted({WEEKDAY_NUMBERS[word.lower()] for word in words})
    return Every(f"{time} * * {','.join(str(number % 7) for number in numbers)}")


def _stepped(found: dict[str, str]) -> str:
    """Every so many minutes or hours: a rule can say only what divides the hour or the day."""
    count = int(count_of(found.get("step") or "1"))
    is_hours = unit_s(found["step_unit"]) == 3600
    if count < 1 or (24 if is_hours else 60) % count:
        raise BadTime("remind_uneven")
    if is_hours:
        return "0 * * * *" if count == 1 else "0 0 * * *" if count == 24 else f"0 */{count} * * *"
    return "0 * * * *" if count == 60 else f"*/{count} * * * *"
