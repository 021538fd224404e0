"""Reads and writes times in Java's patterns, as Spark does: the letters that both know alike."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

# Each run of letters: the expression that reads it, and its part of a time.
_READERS = {
    "yyyy": (r"(\d{4})", "year"),
    "MM": (r"(\d{2})", "month"),
    "M": (r"(\d{1,2})", "month"),
    "dd": (r"(\d{2})", "day"),
    "d": (r"(\d{1,2})", "day"),
    "HH": (r"(\d{2})", "hour"),
    "H": (r"(\d{1,2})", "hour"),
    "hh": (r"(\d{2})", "hour of 12"),
    "h": (r"(\d{1,2})", "hour of 12"),
    "mm": (r"(\d{2})", "minute"),
    "m": (r"(\d{1,2})", "minute"),
    "ss": (r"(\d{2})", "second"),
    "s": (r"(\d{1,2})", "second"),
    **{"S" * n: (rf"(\d{{{n}}})", "fraction") for n in range(1, 10)},
    "X": (r"(Z|[+-]\d{2}(?:\d{2})?)", "zone"),
    "XX": (r"(Z|[+-]\d{4})", "zone"),
    "XXX": (r"(Z|[+-]\d{2}:\d{2})", "zone"),
    "Z": (r"([+-]\d{4})", "zone"),
}
_PIECES = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")


@lru_cache(256)
def pieces(pattern: str) -> tuple[tuple[bool, str], ...]:
    """Return a pattern's pieces: whether it is a letter's run, and its text; raises ValueError for one not known."""
    result: list[tuple[bool, str]] = []
    position = 0
    for piece in _PIECES.finditer(pattern):
        if piece.start() != position:
            break
        position = piece.end()
        if piece[2]:
            if piece.group() not in _READERS:
                raise ValueError(f"a time's pattern has no {piece.group()!r}")
            result.append((True, piece.group()))
        else:
            literal = piece.group() if piece[1] is None else piece[1].replace("''", "'") or "'"
            result.append((False, literal))
    if position != len(pattern):
        raise ValueError(f"{pattern!r} is no pattern of a time")
    return tuple(result)


@lru_cache(256)
def _reader(pattern: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    parts: list[str] = []
    names: list[str] = []
    for is_letters, text in pieces(pattern):
        if is_letters:
            expression, name = _READERS[text]
            parts.append(expression)
            names.append(name)
        else:
            parts.append(re.escape(text))
    return re.compile("".join(parts)), tuple(names)


def read(text: str, pattern: str) -> datetime:
    """Return the time that `text` says; UTC where it names no zone. Raises ValueError."""
    expression, names = _reader(pattern)
    match = expression.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not like {pattern!r}")
    parts = dict(zip(names, match.groups(), strict=False))
    zone = parts.pop("zone", "Z")
    micros = int(parts.pop("fraction", "0").ljust(9, "0")[:6])
    moment = {
        "year": 1970,
        "month": 1,
        "day": 1,
        **{name: int(value) for name, value in parts.items()},
    }
    return datetime(**moment, microsecond=micros, tzinfo=_zone(zone)).astimezone(UTC)  # type: ignore[arg-type]


def _zone(text: str) -> timezone:
    if text == "Z":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)


def write(moment: datetime, pattern: str) -> str:
    """Return `moment` in UTC as the pattern says. Raises ValueError."""
    moment = moment.astimezone(UTC)
    values = {
        "y": moment.year, "M": moment.month, "d": moment.day,
        "H": moment.hour, "h": (moment.hour + 11) % 12 + 1, "m": moment.minute, "s": moment.second,
    }  # fmt: skip
    written: list[str] = []
    for is_letters, text in pieces(pattern):
        if not is_letters:
            written.append(text)
        elif text[0] == "S":
            written.append(f"{moment.microsecond:06}000"[: len(text)])
        elif text[0] == "X":
            written.append("Z")
        elif text == "Z":
            written.append("+0000")
        else:
            written.append(f"{values[text[0]]:0{len(text)}}")
    return "".join(written)
