"""Computes when `rate(...)`, `cron(...)` and `at(...)` of EventBridge rules and schedules are due. Pure functions.

Documented: https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html and
https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-scheduled-rule-pattern.html.
"""

from __future__ import annotations

import calendar
import functools
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_UNITS = {"minute": 60, "hour": 3600, "day": 86_400}
_MONTHS = {name.upper(): at for at, name in enumerate(calendar.month_abbr) if name}
_DAYS = {name: at for at, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"), 1)}
_EXACT = re.compile(
    r"rate\([0-9]+ [a-z]+\)|cron\([^()]*\)|at\([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\)"
)
_NO_NAMES: dict[str, int] = {}
_FIELDS = (
    ("minutes", 0, 59, _NO_NAMES),
    ("hours", 0, 23, _NO_NAMES),
    ("day of month", 1, 31, _NO_NAMES),
    ("month", 1, 12, _MONTHS),
    ("day of week", 1, 7, _DAYS),
    ("year", 1970, 2199, _NO_NAMES),
)
# How many days ahead to look for a matching time: leap days are eight years apart at most.
_MOST_DAYS = 366 * 9


class BadExpression(ValueError):
    """The text is not a schedule expression; the message says why."""


@dataclass(frozen=True, slots=True)
class _Cron:
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: str
    months: frozenset[int]
    weekdays: str
    years: frozenset[int]

    def after(self, moment: datetime) -> datetime | None:
        """Return the first matching time after `moment`, both naive local times."""
        day = moment.date()
        for _ in range(_MOST_DAYS):
            if day.year in self.years and day.month in self.months and self.is_on(day):
                for hour in self.hours:
                    for minute in self.minutes:
                        start = datetime.combine(day, time(hour, minute))
                        if start > moment:
                            return start
            day += timedelta(days=1)
        return None

    def is_on(self, day: date) -> bool:
        """Whether a day matches, whatever its month and year. Raises ValueError for an invalid field."""
        if self.days != "?":
            return day.day in _month_days(self.days, day.year, day.month)
        weekday = (day.weekday() + 1) % 7 + 1
        last = calendar.monthrange(day.year, day.month)[1]
        for part in self.weekdays.split(","):
            name, number_sign, nth = part.partition("#")
            if number_sign:
                if weekday == _number(name, 4) and (day.day - 1) // 7 + 1 == int(nth):
                    return True
            elif part.endswith("L"):
                day_number = _number(part[:-1], 4) if part != "L" else 7
                if weekday == day_number and (part == "L" or day.day > last - 7):
                    return True
            elif weekday in _numbers(part, 4):
                return True
        return False


def _month_days(text: str, year: int, month: int) -> set[int]:
    last = calendar.monthrange(year, month)[1]
    month_days: set[int] = set()
    for part in text.split(","):
        if part == "L":
            month_days.add(last)
        elif part.startswith("L-"):
            month_days.add(last - int(part[2:]))
        elif part.endswith("W"):
            day = last if part == "LW" else min(int(part[:-1]), last)
            weekday = date(year, month, day).weekday()
            if weekday == 5:
                day += -1 if day > 1 else 2
            elif weekday == 6:
                day += 1 if day < last else -2
            month_days.add(day)
        else:
            month_days.update(_numbers(part, 2))
    return month_days


def _number(text: str, field: int) -> int:
    name, first, last, names = _FIELDS[field]
    number = names.get(text.upper()) if not text.isdecimal() else int(text)
    if number is None or not first <= number <= last:
        raise BadExpression(f"{text!r} is not a valid {name}")
    return number


def _numbers(text: str, field: int) -> tuple[int, ...]:
    _, first, last, _ = _FIELDS[field]
    numbers: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        low, dash, high = span.partition("-")
        if slash and (not step.isdecimal() or int(step) < 1):
            raise BadExpression(f"the step of {part!r} is not a whole number above 0")
        if span in ("*", "?"):
            start, end = first, last
        else:
            start = _number(low, field)
            end = _number(high, field) if dash else last if slash else start
        steps = (
            range(start, end + 1)
            if start <= end
            else (*range(start, last + 1), *range(first, end + 1))
        )
        numbers.update(steps[:: int(step) if slash else 1])
    return tuple(sorted(numbers))


@functools.lru_cache(maxsize=1000)
def _cron(text: str) -> _Cron:
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise BadExpression(f"a cron expression has six fields, not {len(parts)}")
    if (parts[2] == "?") == (parts[4] == "?"):
        raise BadExpression("exactly one of day of month and day of week must be '?'")
    cron = _Cron(
        _numbers(parts[0], 0),
        _numbers(parts[1], 1),
        parts[2].upper(),
        frozenset(_numbers(parts[3], 3)),
        parts[4].upper(),
        frozenset(_numbers(parts[5], 5)),
    )
    try:
        # The years may all be past: the days are checked in any case.
        cron.is_on(date(2026, 1, 1))
        cron.after(datetime.combine(date(2026, 1, 1), time()))
    except ValueError as error:
        raise BadExpression(str(error)) from error
    return cron


def next_time(
    expression: str, *, since: datetime, after: datetime, zone: str = "UTC"
) -> datetime | None:
    """Return the next time, in UTC, at which an expression is due; None when there is none. Raises BadExpression.

    Args:
        expression: as AWS writes it.
        since: the time from which a rate counts its periods.
        after: the result is later than this time; both times have a zone.
        zone: the time zone of `cron` and `at`.
    """
    match = re.fullmatch(r"(rate|cron|at)\((.*)\)", expression.strip())
    if match is None:
        raise BadExpression("an expression is rate(...), cron(...) or at(...)")
    kind, inner = match.groups()
    if kind == "rate":
        period = _rate_s(inner)
        passed = max(0.0, (after - since).total_seconds())
        return since + timedelta(seconds=period * (passed // period + 1))
    zone_info = _zone(zone)
    if kind == "at":
        try:
            moment = datetime.fromisoformat(inner).replace(tzinfo=zone_info).astimezone(UTC)
        except ValueError as error:
            raise BadExpression(f"{inner!r} is not a time") from error
        return moment if moment > after else None
    local_time = _cron(inner).after(after.astimezone(zone_info).replace(tzinfo=None))
    return None if local_time is None else local_time.replace(tzinfo=zone_info).astimezone(UTC)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise BadExpression(f"{name!r} is not a time zone") from error


def check_expression(expression: str, *, zone: str = "UTC") -> None:
    """Refuse what AWS refuses when a schedule or a rule is made. Raises BadExpression.

    `next_time` is more lenient, since stored schedules may be older than these checks. Observed: spaces around an
    expression or a rate, and times of `at` with a zone or without seconds, are refused.
    """
    if not _EXACT.fullmatch(expression):
        raise BadExpression("an expression is rate(...), cron(...) or at(...)")
    _zone(zone)
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    next_time(expression, since=moment, after=moment, zone=zone)


def _rate_s(text: str) -> int:
    match = re.fullmatch(r"\s*([0-9]{1,6})\s+(minute|hour|day)s?\s*", text)
    if match is None or not int(match[1]):
        raise BadExpression("a rate is a number and minutes, hours or days")
    return int(match[1]) * _UNITS[match[2]]
