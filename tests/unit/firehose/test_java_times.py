"""Patterns of Java's DateTimeFormatter. The expected texts are what Java 17 prints (Locale.US)."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from headrace.services.firehose.java_times import BadPattern, format_java_time

AT = datetime(2026, 3, 7, 4, 5, 6, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("yyyy/MM/dd/HH", "2026/03/07/04"),
        ("'year='yyyy'/month='MM'/day='dd'/hour='HH", "year=2026/month=03/day=07/hour=04"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2026-03-07T04:05:06.123Z"),
        ("EEE, d MMM yy h a", "Sat, 7 Mar 26 4 AM"),
        ("EEEE MMMMM L", "Saturday M 3"),
        ("QQ-QQQ-QQQQ-q", "01-Q1-1st quarter-1"),
        ("D/DDD/F/g", "66/066/7/61106"),
        ("k K A n N", "4 4 14706123 123456000 14706123456000"),
        ("G GGGG uu u", "AD Anno Domini 26 2026"),
        ("w ww W e c", "10 10 1 7 7"),
        ("z VV O X x Z ZZZZ ZZZZZ", "UTC UTC GMT Z +00 +0000 GMT Z"),
        ("yyyy['-'MM]", "2026-03"),
        ("HH 'o''clock' ''", "04 o'clock '"),
    ],
)
def test_patterns(pattern: str, expected: str):
    assert format_java_time(pattern, AT) == expected


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        ((2025, 12, 27), "2025 52 4"),
        ((2025, 12, 28), "2026 01 5"),
        ((2026, 1, 3), "2026 01 1"),
        ((2026, 1, 4), "2026 02 2"),
        ((2024, 12, 31), "2025 01 5"),
        ((2027, 1, 1), "2027 01 1"),
        ((1, 1, 1), "0001 01 1"),  # its Sunday is before the first day of all
    ],
)
def test_a_week_belongs_to_the_year_of_its_saturday(day: tuple[int, int, int], expected: str):
    assert format_java_time("YYYY ww W", datetime(*day, 12, tzinfo=UTC)) == expected


def test_the_last_week_of_all_belongs_to_the_year_after():
    assert format_java_time("ww W", datetime(9999, 12, 31, tzinfo=UTC)) == "01 5"


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("America/New_York", "EST America/New_York GMT-5 GMT-05:00 -05 -0500 -05:00 -0500 -05:00"),
        ("Asia/Kolkata", "IST Asia/Kolkata GMT+5:30 GMT+05:30 +0530 +0530 +05:30 +0530 +05:30"),
    ],
)
def test_zones(zone: str, expected: str):
    at = AT.astimezone(ZoneInfo(zone))
    assert format_java_time("z VV O OOOO x xx xxx Z ZZZZZ", at) == expected


@pytest.mark.parametrize(
    "pattern",
    [
        "R",
        "yyyy-b",
        "HHH",
        "dddd",
        "V",
        "cc",
        "OO",
        "S" * 10,
        "y" * 20,
        "{",
        "'open",
        "yyyy]",
        "[]]",
    ],
)
def test_what_java_refuses(pattern: str):
    with pytest.raises(BadPattern):
        format_java_time(pattern, AT)
