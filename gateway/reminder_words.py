"""The pieces of the times that `/remind` understands, as patterns. `reminder_phrases` tells their meaning."""

import re
from dataclasses import dataclass

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTH_NUMBERS = {name: number for number, name in enumerate(_MONTHS, 1)}
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
WEEKDAY_NUMBERS = (
    {name: number for number, name in enumerate(_DAYS, 1)}
    | {name: number for number, name in enumerate("一二三四五六日", 1)}
    | {"天": 7}
)
NOON = "noon"
PM_PARTS = frozenset({"afternoon", "evening", "night"})
DAY_PART_HOUR = {"early": 5, "morning": 9, "noon": 12, "afternoon": 15, "evening": 20, "night": 20}
_PARTS = {part: part for part in ("morning", "afternoon", "evening", "night")} | {
    "tonight": "night",
    "凌晨": "early",
    "早上": "morning",
    "早晨": "morning",
    "上午": "morning",
    "早": "morning",
    "中午": "noon",
    "下午": "afternoon",
    "傍晚": "evening",
    "晚上": "evening",
    "晚": "evening",
}
_NUMBERS = (
    *("one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
_ENGLISH_NUMBERS = {word: float(number) for number, word in enumerate(_NUMBERS, 1)} | {
    "a": 1.0,
    "an": 1.0,
    "half an": 0.5,
    "half a": 0.5,
    "half": 0.5,
}
_DIGITS = {digit: number for number, digit in enumerate("零一二三四五六七八九")} | {"两": 2, "半": 0.5}


def count_of(word: str) -> float:
    """`9`, `nine`, `half an`, `九`, `十五` or `半`."""
    word = " ".join(word.lower().split())
    if word.isdecimal():
        return float(int(word[:9]))
    if word in _ENGLISH_NUMBERS:
        return _ENGLISH_NUMBERS[word]
    if "十" in word:
        tens, _, ones = word.partition("十")
        return (_DIGITS[tens] if tens else 1) * 10 + (_DIGITS[ones] if ones else 0)
    return _DIGITS[word]


def part_of(found: dict[str, str]) -> str:
    """Which part of the day is named, in one word; empty when none is."""
    said = found.get("part", "")
    if not said and found.get("days_ahead", "").lower() == "tonight":
        said = "tonight"
    return _PARTS.get(said.lower(), "")


_COUNT = (
    r"(?:[0-9]{1,6}\s*"
    r"|(?:half\s+an?|half|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\s+)"
)
_UNIT = r"(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|[smhdw])(?![a-z])"
_ZH_NUMBER = r"(?:[0-9]{1,6}|[二三四五六七八九]?十[一二三四五六七八九]?|[一二两三四五六七八九])"
_ZH_UNIT = r"(?:秒钟?|分钟|小时|钟头|天|周|星期|礼拜)"
_ZH_LENGTH = rf"(?:{_ZH_NUMBER}|半)\s*个?(?:半(?=小时|钟头|天))?\s*{_ZH_UNIT}"

LENGTHS = re.compile(
    rf"(?P<count>{_COUNT}|{_ZH_NUMBER}|半)\s*个?(?P<half>半(?=小时|钟头|天))?\s*(?P<unit>{_UNIT}|{_ZH_UNIT})",
    re.IGNORECASE,
)
"""A count and a unit of time, one after the other."""

_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800} | {
    "秒": 1,
    "分": 60,
    "小": 3600,
    "钟": 3600,
    "天": 86_400,
    "周": 604_800,
    "星": 604_800,
    "礼": 604_800,
}


def unit_s(unit: str) -> int:
    """How many seconds a unit has."""
    return _UNIT_S[unit.lower()[0]]


_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_END = r"(?![A-Za-z0-9])"
_ENGLISH = (
    rf"(?:in|after)\s+(?P<relative>{_COUNT}\s*{_UNIT}(?:\s*(?:,|and)?\s*{_COUNT}\s*{_UNIT})*){_END}",
    rf"(?P<every>every|each)\s+(?:(?P<step>[0-9]{{1,3}}|two|three|four|five|six|twelve)\s+)?"
    rf"(?P<step_unit>minutes?|hours?){_END}",
    rf"(?P<every>every|each|on)\s+(?:(?P<daily>day)"
    rf"|(?P<workdays>weekday|workday|working day)|(?P<weekend>weekend)){_END}",
    r"(?P<every>every|each)\s+(?P<daily>(?=(?:morning|afternoon|evening|night)\b))",
    rf"(?P<every>every\s+week\s+on|weekly\s+on|every|each)\s+"
    rf"(?P<weekdays>{_WEEKDAY}s?(?:(?:\s*,\s*|\s+)(?:and\s+)?{_WEEKDAY}s?)*){_END}",
    rf"(?P<every>on\s+)(?P<weekdays>{_WEEKDAY}s){_END}",
    rf"(?P<every>every\s+month|monthly)\s+on\s+(?:the\s+)?(?P<month_day>[12]?[0-9]|3[01])(?:st|nd|rd|th)?{_END}",
    rf"(?P<every>(?P<daily>daily)|(?:on\s+)?(?P<workdays>weekdays)|(?P<weekly>every\s+week|weekly)){_END}",
    rf"(?P<every>(?P<step_unit>hour)ly){_END}",
    rf"(?:the\s+)?(?P<days_ahead>today|tonight|tomorrow|day\s+after\s+tomorrow){_END}",
    rf"(?:on\s+)?(?:(?P<which_week>this|next)\s+)?(?P<weekday>{_WEEKDAY}){_END}",
    r"(?:on\s+)?(?P<iso>[0-9]{4}-[0-9]{1,2}-[0-9]{1,2})(?![0-9-])T?",
    rf"(?:on\s+)?(?:the\s+)?(?P<day_1>[0-9]{{1,2}})(?:st|nd|rd|th)?(?:\s+of)?\s+(?P<month_1>{_MONTH})"
    rf"(?:,?\s+(?P<year_1>[0-9]{{4}}))?{_END}",
    rf"(?:on\s+)?(?P<month_2>{_MONTH})\s+(?:the\s+)?(?P<day_2>[0-9]{{1,2}})(?:st|nd|rd|th)?"
    rf"(?:,?\s+(?P<year_2>[0-9]{{4}}))?(?![:A-Za-z0-9])",
    rf"(?:in\s+the|this|at)?\s*(?P<part>morning|afternoon|evening|night){_END}",
    rf"(?:at\s+)?(?P<named>noon|midnight){_END}",
    rf"(?:at\s+|@\s*)?(?P<hour>[0-9]{{1,2}})[:.](?P<minute>[0-9]{{2}})(?::00)?\s*"
    rf"(?P<half>am|pm|a\.m\.|p\.m\.)?{_END}",
    rf"(?:at\s+|@\s*)?(?P<hour>[0-9]{{1,2}})\s*(?P<half>am|pm|a\.m\.|p\.m\.){_END}",
    rf"(?:at\s+|@\s*)(?P<hour>[0-9]{{1,2}}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
    rf"(?:\s*o.?clock)?{_END}",
)
_CHINESE = (
    rf"(?:再?过\s*)?(?P<relative>{_ZH_LENGTH}(?:\s*[零又]?\s*{_ZH_LENGTH})*)\s*(?:之后|以后|后)",
    rf"(?P<every>每)隔?\s*(?P<step>{_ZH_NUMBER})?\s*个?(?P<step_unit>分钟|小时|钟头)",
    r"(?P<every>每)个?(?:(?P<daily>天|日(?!期))|(?P<workdays>工作日)|(?P<weekend>周末))",
    r"(?P<every>(?P<workdays>工作日))",
    r"(?P<every>每)个?(?:周|星期|礼拜)(?P<weekdays>[一二三四五六日天](?:\s*[、,和及]?\s*(?:周|星期|礼拜)?[一二三四五六日天])*)",
    r"(?P<every>每)个?月(?P<month_day>[12]?[0-9]|3[01])[号日]",
    r"(?P<days_ahead>今天|今日|大后天|明天|明日|后天|后日|[今明](?=[早晚]))",
    r"(?P<which_week>下|这|本)?个?(?:周|星期|礼拜)(?P<weekday>[一二三四五六日天])",
    r"(?P<iso>[0-9]{4}-[0-9]{1,2}-[0-9]{1,2})(?![0-9-])",
    r"(?:(?P<zh_year>[0-9]{4})年)?(?P<zh_month>[0-9]{1,2})月(?P<zh_day>[0-9]{1,2})[日号]",
    r"(?P<part>凌晨|早上|早晨|上午|中午|下午|傍晚|晚上|早(?=[0-9一二两三四五六七八九十])|(?<=[今明])早|(?<=[今明])晚上?)",
    r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?![0-9])",
    rf"(?P<hour>{_ZH_NUMBER})\s*[点时](?:钟|整)?(?:(?P<minute>半|[一三]刻|[0-9]{{2}}(?![0-9个])|{_ZH_NUMBER}(?=分))分?)?",
)


@dataclass(frozen=True, slots=True)
class Grammar:
    """The pieces that times are made of in one language; each is found at most once in a time."""

    pieces: tuple[re.Pattern[str], ...]
    has_spaces: bool

    def read(self, text: str, at: int = 0) -> tuple[dict[str, str], int]:
        """What the named parts of the time at this place are, and where it ends; nothing when none is."""
        found: dict[str, str] = {}
        end = at
        while True:
            place = _GAP.match(text, end)
            begins = end if place is None else place.end()
            match = next(filter(None, (piece.match(text, begins) for piece in self.pieces)), None)
            if match is None or match.end() == begins:
                return found, end
            named = {name: value for name, value in match.groupdict().items() if value is not None}
            if found.keys() & named.keys() or ("relative" in found | named and found):
                return found, end
            found |= named
            end = match.end()

    def may_begin(self, text: str, at: int) -> bool:
        """Whether a time may begin there: between words, where the language has them."""
        return not text[at].isspace() and (at == 0 or not self.has_spaces or not text[at - 1].isalnum())


_GAP = re.compile(r"\s*(?:,|，)?\s*")
ENGLISH = Grammar(tuple(re.compile(piece, re.IGNORECASE) for piece in _ENGLISH), has_spaces=True)
CHINESE = Grammar(tuple(re.compile(piece) for piece in _CHINESE), has_spaces=False)
