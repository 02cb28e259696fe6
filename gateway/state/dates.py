"""Days that a question names, so that what was said on them ranks higher; and whether it asks for the latest.

Plain forms only.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

_MONTHS = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?"
    "|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
_ORDER = "jan feb mar apr may jun jul aug sep oct nov dec"
_NUMBER = {name: at for at, name in enumerate(_ORDER.split(), 1)}
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_MONTH = rf"(?P<month>{_MONTHS})\b\.?"

# Tried in this order; what one has read the next doesn't see.
_FORMS = (
    re.compile(r"(?P<year>(?:19|20)\d\d)[-/.](?P<month>\d{1,2})(?:[-/.](?P<day>\d{1,2}))?(?!\d)"),
    re.compile(r"(?:(?P<year>(?:19|20)\d\d)年)?(?P<month>\d{1,2})月(?:(?P<day>\d{1,2})[日号號])?"),
    re.compile(rf"\b{_DAY}(?:\s+of)?\s+{_MONTH}(?:,?\s+{_YEAR})?", re.I),
    re.compile(rf"\b{_MONTH}\s+{_DAY}\b(?!\d)(?:,?\s+{_YEAR})?", re.I),
    re.compile(rf"\b{_MONTH},?\s+(?:of\s+)?{_YEAR}", re.I),
    re.compile(
        r"\b(?:in|of|during|since|last|this|early|late|mid)[-\s]"
        r"(?P<month>jan(?:uary)?|feb(?:ruary)?|march|april|may|june|july|aug(?:ust)?|sep(?:tember)?"
        r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b",
        re.I,
    ),
    re.compile(
        r"\b(?P<month>january|february|april|june|july|august|september|october|november|december)\b", re.I
    ),
    re.compile(r"(?<![\d.,/-])(?P<year>(?:19|20)\d\d)(?:年|\b)(?![\d,/-])"),
)
_RELATIVE = (
    (re.compile(r"\byesterday\b|昨天|昨日", re.I), 1, 1),
    (re.compile(r"\btoday\b|今天|今日", re.I), 0, 0),
    (re.compile(r"\bday before yesterday\b|前天", re.I), 2, 2),
    (re.compile(r"\blast week\b|上周|上星期|上礼拜", re.I), 3, 14),
)


_RECENT = re.compile(
    r"\b(?:latest|newest|most recent|recently|lately|last time|these days|nowadays)\b"
    r"|最近|近来|近來|上次|上一次|目前|如今",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Day:
    """A day, month or year as far as it was named; or a span of days, `first` to `last`."""

    year: int | None = None
    month: int | None = None
    day: int | None = None
    first: date | None = None
    last: date | None = None

    def closeness(self, other: date) -> float:
        """From 0, another time, to 1, the very day."""
        if self.first is not None and self.last is not None:
            return 1.0 if self.first <= other <= self.last else 0.0
        if self.year is not None and self.year != other.year:
            return 0.0
        if self.month is None:
            return YEAR_ONLY
        if self.month != other.month:
            return 0.0
        if self.day is None or self.day == other.day:
            return 1.0 if self.day is not None else MONTH_ONLY
        # What is told of a day is often told a few days later.
        return NEAR_DAY if 0 < other.day - self.day <= 7 else OTHER_DAY


MAX_CHARS = 4000
YEAR_ONLY, MONTH_ONLY, NEAR_DAY, OTHER_DAY = 0.1, 0.6, 0.6, 0.4


def asks_for_recent(text: str) -> bool:
    return _RECENT.search(text[:MAX_CHARS]) is not None


def named_days(text: str, today: date) -> tuple[Day, ...]:
    """The days a text names. `today` gives `yesterday` its meaning."""
    text = text[:MAX_CHARS]
    days: list[Day] = []
    for form, newest, oldest in _RELATIVE:
        if form.search(text):
            days.append(Day(first=today - timedelta(oldest), last=today - timedelta(newest)))
            text = form.sub(" ", text)
    for form in _FORMS:
        days.extend(_read(form, text))
        text = form.sub(lambda match: match.group() if _day(match) is None else " ", text)
    return tuple(days)


def _read(form: re.Pattern[str], text: str) -> Iterator[Day]:
    for match in form.finditer(text):
        day = _day(match)
        if day is not None:
            yield day


def _day(match: re.Match[str]) -> Day | None:
    named = match.groupdict()
    year, month, day = named.get("year"), named.get("month"), named.get("day")
    number = None
    if month is not None:
        number = int(month) if month.isdigit() else _NUMBER[month[:3].lower()]
    if (number is not None and not 1 <= number <= 12) or (day is not None and not 1 <= int(day) <= 31):
        return None
    return Day(int(year) if year else None, number, int(day) if day else None)
