"""What people write after `/remind`, in English and Chinese, and where it is asked back."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.gateway.reminder_phrases import At, Every, Later, Unclear, When, read_length, read_phrase
from trunkline.gateway.reminder_times import BadTime

NOW = datetime.fromisoformat("2026-11-30T16:04")
"""A Monday, as on the wall."""


def at(day: int, hour: int, minute: int = 0, month: int = 12, year: int = 2026) -> At:
    return At(datetime.fromisoformat(f"{year}-{month:02}-{day:02}T{hour:02}:{minute:02}"))


@pytest.mark.parametrize(
    ("words", "when"),
    [
        ("tomorrow at nine", at(1, 9)),
        ("tomorrow at 9 o'clock", at(1, 9)),
        ("tomorrow 9am", at(1, 9)),
        ("at 6pm", at(30, 18, month=11)),
        ("18:30", at(30, 18, 30, month=11)),
        ("@9:15", at(1, 9, 15)),
        ("tonight at 8", at(30, 20, month=11)),
        ("tomorrow evening", at(1, 20)),
        ("tomorrow in the afternoon at 3", at(1, 15)),
        ("tomorrow", at(1, 9)),
        ("at noon tomorrow", at(1, 12)),
        ("the day after tomorrow 10:00", at(2, 10)),
        ("friday 8pm", at(4, 20)),
        ("on Friday, 4 December at 9am", at(4, 9)),
        ("monday at 5pm", at(30, 17, month=11)),
        ("monday at 8am", at(7, 8)),
        ("next monday at 10", at(7, 10)),
        ("5 December 9:00", at(5, 9)),
        ("Dec 5th at 9am", at(5, 9)),
        ("may 5", at(5, 9, month=5, year=2027)),
        ("1 march 2028 at 12:00", at(1, 12, month=3, year=2028)),
        ("2026-12-05T09:30", at(5, 9, 30)),
        ("in 20 minutes", Later(0, 1200)),
        ("in an hour and 5 minutes", Later(0, 3900)),
        ("in 1h30m", Later(0, 5400)),
        ("in half an hour", Later(0, 1800)),
        ("in 2 weeks", Later(14, 0)),
        ("every day", Every("0 9 * * *")),
        ("daily at 9:15", Every("15 9 * * *")),
        ("every weekday at 8", Every("0 8 * * 1-5")),
        ("weekdays at 8:30", Every("30 8 * * 1-5")),
        ("every weekend at noon", Every("0 12 * * 6,0")),
        ("every monday, wednesday and sunday at 7pm", Every("0 19 * * 1,3,0")),
        ("on mondays at 10", Every("0 10 * * 1")),
        ("every morning", Every("0 9 * * *")),
        ("every evening at 9", Every("0 21 * * *")),
        ("weekly", Every("0 9 * * 1")),
        ("every month on the 5th at 9", Every("0 9 5 * *")),
        ("every 20 minutes", Every("*/20 * * * *")),
        ("every hour", Every("0 * * * *")),
        ("every 6 hours", Every("0 */6 * * *")),
        ("0 9 1-7 * MON", Every("0 9 1-7 * MON")),
        ("cron 30 8 * * 1-5", Every("30 8 * * 1-5")),
        ("明天上午9点", at(1, 9)),
        ("明天早上九点", at(1, 9)),
        ("明早8点", at(1, 8)),
        ("今晚八点", at(30, 20, month=11)),
        ("后天下午3点半", at(2, 15, 30)),
        ("周五晚上8点", at(4, 20)),
        ("下周一９：００", at(7, 9)),
        ("12月5日 18点20分", at(5, 18, 20)),
        ("2027年3月1日 10:00", at(1, 10, month=3, year=2027)),
        ("20分钟后", Later(0, 1200)),
        ("一个半小时后", Later(0, 5400)),
        ("半小时后", Later(0, 1800)),
        ("两天后", Later(2, 0)),
        ("每天8点", Every("0 8 * * *")),
        ("每个工作日8:00", Every("0 8 * * 1-5")),
        ("每周一、三 19:00", Every("0 19 * * 1,3")),
        ("每月5号 9点", Every("0 9 5 * *")),
        ("每30分钟", Every("*/30 * * * *")),
    ],
)
def test_a_time_is_understood_before_and_after_what_is_to_be_said(words: str, when: When) -> None:
    assert read_phrase(f"{words} 买牛奶", NOW) == (when, "买牛奶")
    if not isinstance(when, Every) or "*" not in words:
        assert read_phrase(f"牛奶两箱 {words}", NOW) == (when, "牛奶两箱")


@pytest.mark.parametrize(
    ("written", "what"),
    [
        ("me to call Mum tomorrow at 9:00", "call Mum"),
        ("tomorrow at 9:00 to call Mum", "call Mum"),
        ("tomorrow at 9:00: call Mum", "call Mum"),
        ("tomorrow 9 eggs and 3 apples", "9 eggs and 3 apples"),
        ("sun cream tomorrow at noon", "sun cream"),
        ("ask whether Friday suits Bo in 5 minutes", "ask whether Friday suits Bo"),
        ("提醒我明天早上九点开会", "开会"),
    ],
)
def test_what_is_to_be_said_keeps_its_words(written: str, what: str) -> None:
    assert read_phrase(written, NOW)[1] == what


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ("", "remind_what_when"),
        ("call Mum some day", "remind_what_when"),
        ("tomorrow at 9:00", "remind_what"),
        ("today call Mum", "remind_what_time"),
        ("at 6 call Mum", "remind_which_half"),
        ("tomorrow at 3 call Mum", "remind_which_half"),
        ("明天3点 开会", "remind_which_half"),
        ("next friday at 8pm party", "remind_which_week"),
        ("tomorrow at 25:00 x", "remind_no_such_time"),
        ("tomorrow 13pm x", "remind_no_such_time"),
        ("30 february x", "remind_no_such_day"),
        ("every 7 minutes x", "remind_uneven"),
        ("tomorrow at 12 at night x", "remind_midnight"),
    ],
)
def test_what_is_unclear_is_asked_back(words: str, key: str) -> None:
    with pytest.raises(BadTime, match=key):
        read_phrase(words, NOW)


def test_two_fridays_are_named() -> None:
    with pytest.raises(Unclear) as unclear:
        read_phrase("next friday at 8pm party", NOW)

    assert unclear.value.fields == {"first": at(4, 0).local.date(), "second": at(11, 0).local.date()}


def test_a_length_alone_is_read() -> None:
    assert read_length("1h30m") == Later(0, 5400)
    assert read_length("2 days") == Later(2, 0)
    assert read_length("soon") is None
    assert read_length("20m or so") is None
    assert read_length("") is None


@given(st.text(max_size=200))
def test_any_text_is_understood_or_asked_back(text: str) -> None:
    try:
        _, what = read_phrase(text, NOW)
    except BadTime:
        return
    assert what.strip()
