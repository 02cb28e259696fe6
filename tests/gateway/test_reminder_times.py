"""Due times in zones whose clocks change, rules that repeat, and how both are told."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

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
    next_repeat,
)

BERLIN, SYDNEY, TOKYO = ZoneInfo("Europe/Berlin"), ZoneInfo("Australia/Sydney"), ZoneInfo("Asia/Tokyo")
NOW = datetime(2026, 11, 30, 16, 4, tzinfo=BERLIN)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("local", "zone", "moment", "shift"),
    [
        ("2026-12-01T09:00", BERLIN, utc(2026, 12, 1, 8), ""),
        ("2026-03-29T02:30", BERLIN, utc(2026, 3, 29, 1, 30), "skipped"),
        ("2026-10-25T02:30", BERLIN, utc(2026, 10, 25, 0, 30), "twice"),
        ("2026-10-04T02:15", SYDNEY, utc(2026, 10, 3, 16, 15), "skipped"),
        ("2026-03-29T03:00", BERLIN, utc(2026, 3, 29, 1), ""),
        ("2026-03-29T02:30", TOKYO, utc(2026, 3, 28, 17, 30), ""),
    ],
)
def test_a_time_that_clocks_skip_or_repeat_is_decided_and_told(
    local: str, zone: ZoneInfo, moment: datetime, shift: str
) -> None:
    found = at_wall_clock(datetime.fromisoformat(local), zone)

    assert (found.local.astimezone(UTC), found.shift) == (moment, shift)


def test_days_keep_the_time_on_the_wall_and_hours_are_counted() -> None:
    evening = datetime(2026, 10, 24, 18, 0, tzinfo=BERLIN)

    assert from_now(evening, 1, 0).local == datetime(2026, 10, 25, 18, 0, tzinfo=BERLIN)
    assert from_now(evening, 0, 86_400).local == datetime(2026, 10, 25, 17, 0, tzinfo=BERLIN)


def repeats(cron: str, after: datetime, zone: ZoneInfo, count: int) -> list[str]:
    found = []
    for _ in range(count):
        following = next_repeat(cron, after, zone)
        assert following is not None
        after = following
        found.append(f"{following:%d %H:%M %z}")
    return found


def test_a_rule_keeps_the_time_on_the_wall_over_both_changes_of_clocks() -> None:
    spring = repeats("0 8 * * *", utc(2026, 3, 27, 12), BERLIN, 3)
    autumn = repeats("0 8 * * *", utc(2026, 10, 23, 12), BERLIN, 3)

    assert spring == ["28 08:00 +0100", "29 08:00 +0200", "30 08:00 +0200"]
    assert autumn == ["24 08:00 +0200", "25 08:00 +0100", "26 08:00 +0100"]


def test_a_repeat_in_a_skipped_hour_comes_after_it_and_one_in_a_repeated_hour_once() -> None:
    spring = repeats("30 2 * * *", utc(2026, 3, 27, 12), BERLIN, 3)
    autumn = repeats("30 2 * * *", utc(2026, 10, 23, 12), BERLIN, 3)

    assert spring == ["28 02:30 +0100", "29 03:00 +0200", "30 02:30 +0200"]
    assert autumn == ["24 02:30 +0200", "25 02:30 +0200", "26 02:30 +0100"]


def test_asked_within_the_second_of_two_hours_a_repeat_is_still_to_come() -> None:
    second_quarter_past_two = utc(2026, 10, 25, 1, 15)

    assert repeats("30 2 * * *", second_quarter_past_two, BERLIN, 1) == ["26 02:30 +0100"]


def test_half_hours_go_on_through_the_hour_that_comes_twice() -> None:
    half_hours = repeats("*/30 * * * *", utc(2026, 10, 25, 0, 15), BERLIN, 4)

    assert half_hours == ["25 02:30 +0200", "25 02:00 +0100", "25 02:30 +0100", "25 03:00 +0100"]


@pytest.mark.parametrize(
    ("cron", "key"),
    [
        ("* * * * *", "remind_too_often"),
        ("*/10 * * * *", "remind_too_often"),
        ("0,50 9-11 * * *", "remind_too_often"),
        ("0,1 0 1 1 *", "remind_too_often"),
        ("0 0 31 2 *", "remind_bad_cron"),
        ("0 9 * *", "remind_bad_cron"),
        ("0 0 9 * * 1", "remind_bad_cron"),
        ("61 9 * * *", "remind_bad_cron"),
        ("nonsense at all times ok", "remind_bad_cron"),
        ("1," * 60 + "1 9 * * *", "remind_bad_cron"),
    ],
)
def test_a_rule_that_is_none_or_comes_too_often_is_refused(cron: str, key: str) -> None:
    with pytest.raises(BadTime, match=key):
        check_rule(cron, NOW, BERLIN)


@pytest.mark.parametrize("cron", ["*/15 * * * *", "0 8 * * 1-5", "0 0 29 2 *", "0 9 L * *", "0 9 * * 1#1"])
def test_a_rule_of_every_quarter_of_an_hour_or_less_is_fine(cron: str) -> None:
    assert check_rule(cron, NOW, BERLIN) > NOW


def test_what_is_past_or_too_far_is_refused() -> None:
    with pytest.raises(BadTime, match="remind_past"):
        check_moment(Moment(NOW), NOW)
    with pytest.raises(BadTime, match="remind_far"):
        check_moment(Moment(NOW + timedelta(days=9000)), NOW)


@pytest.mark.parametrize("name", ["Nowhere/Town", "", "../../etc/passwd", "Europe"])
def test_a_zone_that_nobody_knows_is_refused(name: str) -> None:
    with pytest.raises(BadTime, match="remind_bad_zone"):
        find_zone(name)


def test_a_moment_is_told_by_day_and_time() -> None:
    def told(*parts: int, language: str = "en") -> str:
        return describe_moment(datetime(*parts, tzinfo=BERLIN), NOW, language)  # type: ignore[arg-type, misc]

    assert told(2026, 11, 30, 18, 0) == "today, 30 November at 18:00"
    assert told(2026, 12, 1, 9, 0) == "tomorrow, 1 December at 09:00"
    assert told(2027, 3, 1, 18, 30) == "Monday 1 March 2027 at 18:30"
    assert told(2026, 11, 30, 16, 4, 20) == "today, 30 November at 16:04:20"
    assert told(2026, 12, 4, 9, 0, language="zh-CN") == "12月4日星期五 09:00"


@pytest.mark.parametrize(
    ("cron", "english", "chinese"),
    [
        ("0 8 * * *", "every day at 08:00", "每天 08:00"),
        ("30 8 * * 1-5", "every weekday at 08:30", "每个工作日 08:30"),
        ("0 19 * * 1,3,0", "every Monday, Wednesday, Sunday at 19:00", "每逢星期一、星期三、星期日 19:00"),
        ("0 9 5 * *", "on day 5 of every month at 09:00", "每月 5 日 09:00"),
        ("*/20 * * * *", "every 20 minutes", "每 20 分钟"),
        ("0 * * * *", "every hour", "每小时"),
        ("0 */6 * * *", "every 6 hours", "每 6 小时"),
        ("0 9 1-7 * 1", "by the rule `0 9 1-7 * 1`", "按规则 `0 9 1-7 * 1`"),
        ("0 9 * * MON", "by the rule `0 9 * * MON`", "按规则 `0 9 * * MON`"),
        ("0 9-17 * * *", "by the rule `0 9-17 * * *`", "按规则 `0 9-17 * * *`"),
    ],
)
def test_a_rule_is_told_in_words_where_there_are_words(cron: str, english: str, chinese: str) -> None:
    assert describe_rule(cron, "en") == english
    assert describe_rule(cron, "zh") == chinese
