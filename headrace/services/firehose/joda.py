"""Parses timestamps with Joda-Time patterns, which the Hive JSON SerDe uses.

Source: joda.org/joda-time/apidocs/org/joda/time/format/DateTimeFormat.html (documented).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from headrace.services.firehose.errors import invalid

MILLIS = "millis"
_RUN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# The regular expression for each letter; numbers match as many digits as the next part allows.
_NUMBERS = {
    "y": "year",
    "Y": "year",
    "u": "year",
    "M": "month",
    "d": "day",
    "H": "hour",
    "h": "half",
    "m": "minute",
    "s": "second",
}


def check_pattern(pattern: str) -> str:
    """Return a valid pattern. Raises AwsError."""
    try:
        _build_expression(pattern)
    except ValueError as error:
        raise invalid(f"Invalid timestamp format: {pattern}") from error  # assumed
    return pattern


def _build_expression(pattern: str) -> re.Pattern[str]:
    parts: list[str] = []
    for match in _RUN.finditer(pattern):
        text, letter = match.group(0), match.group(2)
        if match.group(1) is not None:
            parts.append(re.escape(match.group(1).replace("''", "'") or "'"))
        elif letter is None:
            parts.append(re.escape(text))
        elif letter == "M" and len(text) >= 3:
            parts.append(r"(?P<name>[A-Za-z]{3,9})\.?")
        elif letter == "E":
            parts.append(r"(?P<weekday>[A-Za-z]{3,9})")
        elif letter == "a":
            parts.append(r"(?P<noon>[AaPp][Mm])")
        elif letter == "S":
            parts.append(rf"(?P<part>\d{{1,{max(len(text), 9)}}})")
        elif letter in ("Z", "z", "X"):
            parts.append(r"(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)")
        elif letter in _NUMBERS:
            most = 4 if _NUMBERS[letter] == "year" else 2
            parts.append(rf"(?P<{_NUMBERS[letter]}>\d{{1,{most}}})")
        else:
            raise ValueError(pattern)
    try:
        # Each named group may occur once, which bounds the work on any text; a second one raises re.error.
        return re.compile("".join(parts))
    except re.error as error:
        raise ValueError(pattern) from error


def build_reader(pattern: str) -> Callable[[str], datetime | None]:
    """Return a parser for a pattern; it returns a UTC time without a zone, or None for text that does not match."""
    expression = _build_expression(pattern)

    def read(text: str) -> datetime | None:
        match = expression.fullmatch(text.strip())
        if match is None:
            return None
        try:
            return _build_time(match.groupdict())
        except ValueError:
            return None

    return read


def _build_time(fields: dict[str, str | None]) -> datetime:
    def number(name: str, default: int) -> int:
        value = fields.get(name)
        return default if value is None else int(value)

    year = number("year", 1970)
    if len(fields.get("year") or "1970") <= 2:
        year += 2000 if year < 70 else 1900
    month = number("month", 1)
    name = fields.get("name")
    if name:
        month = _MONTHS.index(name[:3].lower()) + 1
    hour = number("hour", 0)
    if fields.get("half") is not None:
        hour = number("half", 12) % 12 + (12 if (fields.get("noon") or "").lower() == "pm" else 0)
    micros = int((fields.get("part") or "0").ljust(6, "0")[:6])
    zone = fields.get("zone") or "Z"
    offset = "+00:00" if zone in ("Z", "UTC", "GMT") else zone
    day, minute, second = number("day", 1), number("minute", 0), number("second", 0)
    at = datetime(year, month, day, hour, minute, second, micros, UTC).replace(tzinfo=None)
    shifted = datetime.fromisoformat(f"{at.isoformat()}{offset}")
    return shifted.astimezone(UTC).replace(tzinfo=None)
