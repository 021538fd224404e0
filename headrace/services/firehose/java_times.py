"""Formats times in patterns of Java's DateTimeFormatter, which Firehose's prefixes have (`!{timestamp:yyyy/MM/dd}`).

Documented: docs.aws.amazon.com/firehose/latest/dev/s3-prefixes.html says that any valid pattern is valid there, and
java.time.format.DateTimeFormatter what the letters mean. The locale is the United States' (assumed): a week begins on
Sunday, and the first week of a year has January 1. The results are those of Java 17. Not formatted: `zzzz`, `v` and
`B`, names of zones and of times of the day.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta

_RUN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z'\[\]{}#]+|[\[\]]")
_MOST_LETTERS = 19
# The modified Julian day 0, as a day of Python's.
_DAY_0_OF_JULIAN = date(1858, 11, 17).toordinal()
_LAST_DAY = date.max.toordinal()
_HOUR_NS, _SECOND_NS = 3_600_000_000_000, 1_000_000_000

_Format = Callable[[datetime, int], str]


class BadPattern(ValueError):
    """A pattern that Java's DateTimeFormatter does not have."""


def format_java_time(pattern: str, at: datetime) -> str:
    """Return a time in a pattern. Raises BadPattern."""
    parts: list[str] = []
    end = opened = 0
    for match in _RUN.finditer(pattern):
        if match.start() != end:
            break
        end = match.end()
        text, letter = match.group(0), match.group(2)
        if match.group(1) is not None:
            parts.append(match.group(1).replace("''", "'") or "'")
        elif letter is not None:
            most, function = _LETTERS.get(letter, (0, _number))
            if len(text) > most:
                raise BadPattern(pattern)
            parts.append(function(at, len(text)))
        elif text not in "[]":
            parts.append(text)
        else:
            # Brackets mark what is optional: it is always there when a time is formatted. Java closes open ones itself.
            opened += 1 if text == "[" else -1
            if opened < 0:
                raise BadPattern(pattern)
    if end != len(pattern):
        raise BadPattern(pattern)
    return "".join(parts)


def _number(value: int | datetime, count: int) -> str:
    return f"{value:0{count}d}"


def _year(year: int, count: int) -> str:
    return f"{year % 100:02d}" if count == 2 else _number(year, count)


def _text(names: Callable[[datetime, str], str], number: Callable[[datetime], int]) -> _Format:
    """Return a field's format: a number, or its short, full or narrow name from three letters on."""

    def format_field(at: datetime, count: int) -> str:
        if count < 3:
            return _number(number(at), count)
        return names(at, {3: "short", 4: "full", 5: "narrow"}[count])

    return format_field


def _month_name(at: datetime, style: str) -> str:
    name = at.strftime("%B")
    return {"short": at.strftime("%b"), "full": name, "narrow": name[0]}[style]


def _day_name(at: datetime, style: str) -> str:
    name = at.strftime("%A")
    return {"short": name[:3], "full": name, "narrow": name[0]}[style]


def _quarter(at: datetime) -> int:
    return (at.month + 2) // 3


def _quarter_name(at: datetime, style: str) -> str:
    quarter = _quarter(at)
    ordinal = ("1st", "2nd", "3rd", "4th")[quarter - 1]
    return {"short": f"Q{quarter}", "full": f"{ordinal} quarter", "narrow": str(quarter)}[style]


def _sunday_before(day: date) -> int:
    """Return the ordinal of the Sunday that begins a day's week, which may lie before the first day of all."""
    return day.toordinal() - day.isoweekday() % 7


def _week_year(at: datetime) -> int:
    """Return the year of a week: the one in which its Saturday lies, as the week of January 1 is the first."""
    saturday = _sunday_before(at.date()) + 6
    return date.fromordinal(saturday).year if saturday <= _LAST_DAY else date.max.year + 1


def _week(at: datetime) -> int:
    year = _week_year(at)
    return 1 if year > date.max.year else _weeks_since(date(year, 1, 1), at)


def _week_of_month(at: datetime) -> int:
    return _weeks_since(at.date().replace(day=1), at)


def _weeks_since(first: date, at: datetime) -> int:
    """Return the number of a week, that of the day `first` being 1."""
    return (_sunday_before(at.date()) - _sunday_before(first)) // 7 + 1


def _nanos_of_day(at: datetime) -> int:
    return at.hour * _HOUR_NS + (at.minute * 60 + at.second) * _SECOND_NS + at.microsecond * 1000


def _offset(at: datetime, count: int, zero: str, colon_from: int) -> str:
    """Return an offset with one to five letters, from `+01` to `+01:00`."""
    minutes = int((at.utcoffset() or timedelta()).total_seconds()) // 60
    if not minutes and zero:
        return zero
    sign, rest = "-" if minutes < 0 else "+", abs(minutes)
    hours, rest = divmod(rest, 60)
    if count == 1 and not rest:
        return f"{sign}{hours:02d}"
    return f"{sign}{hours:02d}{':' if count >= colon_from and count % 2 else ''}{rest:02d}"


def _rfc_offset(at: datetime, count: int) -> str:
    if count == 4:
        return _gmt_offset(at, 4)
    return _offset(at, 5, "Z", 3) if count == 5 else _offset(at, 2, "", 9)


def _gmt_offset(at: datetime, count: int) -> str:
    minutes = int((at.utcoffset() or timedelta()).total_seconds()) // 60
    if not minutes:
        return "GMT"
    hours, rest = divmod(abs(minutes), 60)
    sign = "-" if minutes < 0 else "+"
    short = f"{hours}:{rest:02d}" if rest else str(hours)
    return f"GMT{sign}{short if count == 1 else f'{hours:02d}:{rest:02d}'}"


def _but(refused: int, format_field: _Format) -> _Format:
    """Return a field's format that refuses a number of letters."""

    def checked(at: datetime, count: int) -> str:
        if count == refused:
            raise BadPattern(count)
        return format_field(at, count)

    return checked


def _of(value: Callable[[datetime], int]) -> _Format:
    return lambda at, count: _number(value(at), count)


# A letter's most repetitions, and how it formats.
_LETTERS: dict[str, tuple[int, _Format]] = {
    "G": (5, lambda _, n: {4: "Anno Domini", 5: "A"}.get(n, "AD")),
    "y": (_MOST_LETTERS, lambda at, n: _year(at.year, n)),
    "u": (_MOST_LETTERS, lambda at, n: _year(at.year, n)),
    "Y": (_MOST_LETTERS, lambda at, n: _year(_week_year(at), n)),
    "Q": (5, _text(_quarter_name, _quarter)),
    "q": (5, _text(_quarter_name, _quarter)),
    "M": (5, _text(_month_name, lambda at: at.month)),
    "L": (5, _text(_month_name, lambda at: at.month)),
    "w": (2, _of(_week)),
    "W": (1, _of(_week_of_month)),
    "d": (2, _of(lambda at: at.day)),
    "D": (3, _of(lambda at: at.timetuple().tm_yday)),
    "F": (1, _of(lambda at: (at.day - 1) % 7 + 1)),
    "g": (_MOST_LETTERS, _of(lambda at: at.toordinal() - _DAY_0_OF_JULIAN)),
    "E": (5, lambda at, n: _day_name(at, {4: "full", 5: "narrow"}.get(n, "short"))),
    "e": (5, _text(_day_name, lambda at: at.isoweekday() % 7 + 1)),
    "c": (5, _but(2, _text(_day_name, lambda at: at.isoweekday() % 7 + 1))),
    "a": (1, lambda at, _: at.strftime("%p")),
    "H": (2, _of(lambda at: at.hour)),
    "k": (2, _of(lambda at: at.hour or 24)),
    "K": (2, _of(lambda at: at.hour % 12)),
    "h": (2, _of(lambda at: at.hour % 12 or 12)),
    "m": (2, _of(lambda at: at.minute)),
    "s": (2, _of(lambda at: at.second)),
    "S": (9, lambda at, n: f"{at.microsecond:06d}".ljust(9, "0")[:n]),
    "A": (_MOST_LETTERS, _of(lambda at: _nanos_of_day(at) // 1_000_000)),
    "n": (_MOST_LETTERS, _of(lambda at: at.microsecond * 1000)),
    "N": (_MOST_LETTERS, _of(_nanos_of_day)),
    "V": (2, _but(1, lambda at, _: str(at.tzinfo))),
    "z": (3, lambda at, _: str(at.tzname())),
    "O": (4, _but(2, _but(3, _gmt_offset))),
    "X": (5, lambda at, n: _offset(at, n, "Z", 3)),
    "x": (5, lambda at, n: _offset(at, n, "", 3)),
    "Z": (5, _rfc_offset),
}
