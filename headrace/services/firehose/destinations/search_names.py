"""The index name of a record: the configured name, followed by the rotation period of its arrival time.

Source: docs.aws.amazon.com/firehose/latest/dev/basic-deliver.html, "Index rotation" (documented). Its example for
OneWeek uses ISO's week, which contradicts the rule in the text; headrace follows the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta


def index_name(base: str, rotation: str, arrival_ms: int) -> str:
    """Return the index name for a record's arrival time (UTC)."""
    suffix = _SUFFIXES[rotation](datetime.fromtimestamp(arrival_ms / 1000, UTC))
    return f"{base}-{suffix}" if suffix else base


def compute_us_week(day: date) -> tuple[int, int]:
    """Return year and week: weeks begin on Sunday, and week 1 has the year's first Saturday."""
    saturday = day + timedelta(days=(5 - day.weekday()) % 7)
    return saturday.year, (saturday.timetuple().tm_yday - 1) // 7 + 1


def _render_week(moment: datetime) -> str:
    year, week = compute_us_week(moment.date())
    return f"{year}-w{week:02d}"


_SUFFIXES: dict[str, Callable[[datetime], str]] = {
    "NoRotation": lambda _: "",
    "OneHour": lambda moment: f"{moment:%Y-%m-%d-%H}",
    "OneDay": lambda moment: f"{moment:%Y-%m-%d}",
    "OneWeek": _render_week,
    "OneMonth": lambda moment: f"{moment:%Y-%m}",
}
