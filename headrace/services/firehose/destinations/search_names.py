"""The name of the index that a record goes to: its stream's, and the part of its arrival time that it rotates by.

Source: docs.aws.amazon.com/firehose/latest/dev/basic-deliver.html, "Index rotation" (documented). Of its
example for OneWeek, which is ISO's week, the rule beside it says otherwise; the rule is followed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta


def index_name(base: str, rotation: str, arrival_ms: int) -> str:
    """Return an index's name, as of when a record arrived (UTC)."""
    suffix = _SUFFIXES[rotation](datetime.fromtimestamp(arrival_ms / 1000, UTC))
    return f"{base}-{suffix}" if suffix else base


def us_week(day: date) -> tuple[int, int]:
    """Return year and week: weeks begin on Sunday, and a year's first is the one with its first Saturday."""
    saturday = day + timedelta(days=(5 - day.weekday()) % 7)
    return saturday.year, (saturday.timetuple().tm_yday - 1) // 7 + 1


def _week(moment: datetime) -> str:
    year, week = us_week(moment.date())
    return f"{year}-w{week:02d}"


_SUFFIXES: dict[str, Callable[[datetime], str]] = {
    "NoRotation": lambda _: "",
    "OneHour": lambda moment: f"{moment:%Y-%m-%d-%H}",
    "OneDay": lambda moment: f"{moment:%Y-%m-%d}",
    "OneWeek": _week,
    "OneMonth": lambda moment: f"{moment:%Y-%m}",
}
