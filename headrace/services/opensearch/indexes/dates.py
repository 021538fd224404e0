"""Date math in queries (`now-1d/d`), and rounding to units of time. All times are UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headrace.services.opensearch.indexes.fields import date_ms

_UNITS_MS = {
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "H": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}


def date_math_ms(text: str, now_ms: int, *, up: bool = False) -> int | None:
    """Return the time of `now-15m`, `now/d` or `2026-01-01||+1M/d`; `up` rounds up; None for any other text."""
    if text.startswith("now"):
        start, rest = now_ms, text[3:]
    else:
        date, separator, rest = text.partition("||")
        base_ms = date_ms(date)
        if not separator or base_ms is None:
            return None
        start = base_ms
    moment = datetime.fromtimestamp(start / 1000, UTC)
    at = 0
    while at < len(rest):
        end = at + 1
        while end < len(rest) and rest[end].isdecimal():
            end += 1
        sign, digits, unit = rest[at], rest[at + 1 : end], rest[end : end + 1]
        if sign not in "+-/" or not unit or len(digits) > 6:
            return None
        try:
            if sign == "/":
                moment = floor_to(moment, unit)
                if up:
                    moment = shift(moment, unit, 1) - timedelta(milliseconds=1)
            else:
                moment = shift(moment, unit, int(digits or 1) * (1 if sign == "+" else -1))
        except (ValueError, OverflowError):
            return None
        at = end + 1
    return int(moment.timestamp() * 1000)


def floor_to(moment: datetime, unit: str) -> datetime:
    """Round a moment down to a unit. Weeks begin on Monday. Raises ValueError for an unknown unit."""
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    match unit:
        case "s":
            return moment.replace(microsecond=0)
        case "m":
            return moment.replace(second=0, microsecond=0)
        case "h" | "H":
            return moment.replace(minute=0, second=0, microsecond=0)
        case "d":
            return day
        case "w":
            return day - timedelta(days=day.weekday())
        case "M":
            return day.replace(day=1)
        case "q":
            return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
        case "y":
            return day.replace(month=1, day=1)
        case _:
            raise ValueError(unit)


def shift(moment: datetime, unit: str, count: int) -> datetime:
    """Return a moment some units later. Raises ValueError for an unknown unit, OverflowError beyond the calendar."""
    if unit in _UNITS_MS:
        return moment + timedelta(milliseconds=_UNITS_MS[unit] * count)
    months = {"M": 1, "q": 3, "y": 12}.get(unit)
    if months is None:
        raise ValueError(unit)
    total = moment.year * 12 + moment.month - 1 + months * count
    year, month = divmod(total, 12)
    next_month = datetime(year + (month == 11), (month + 1) % 12 + 1, 1, tzinfo=UTC)
    last_day = (next_month - timedelta(days=1)).day
    return moment.replace(year=year, month=month + 1, day=min(moment.day, last_day))
