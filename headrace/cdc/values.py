"""Converts PostgreSQL's texts to JSON's values: plainly, and as Debezium does with `decimal.handling.mode=string`."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec

Convert = Callable[[bytes], Any]

_EPOCH, _EPOCH_DATE = datetime(1970, 1, 1), date(1970, 1, 1)  # noqa: DTZ001 - timestamps without a zone
_MICROSECOND = timedelta(microseconds=1)
_ON_ONE_LINE = bytes.maketrans(b"\n\r", b"  ")


def _text(value: bytes) -> str:
    return value.decode()


def _bool(value: bytes) -> bool:
    return value == b"t"


def _float(value: bytes) -> float | str:
    number = float(value)
    # JSON has no other numbers.
    return number if math.isfinite(number) else value.decode()


def _bytes(value: bytes) -> str:
    return base64.b64encode(bytes.fromhex(value[2:].decode())).decode()


def _days(value: bytes) -> int | str:
    try:
        return (date.fromisoformat(value.decode()) - _EPOCH_DATE).days
    except ValueError:
        return value.decode()  # infinity, or a year that Python does not have


def _timestamp_us(value: bytes) -> int | str:
    try:
        return (datetime.fromisoformat(value.decode()) - _EPOCH) // _MICROSECOND
    except ValueError:
        return value.decode()


def _zoned(value: bytes) -> str:
    try:
        instant = datetime.fromisoformat(value.decode()).astimezone(UTC)
    except ValueError:
        return value.decode()
    return instant.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _time_us(value: bytes) -> int | str:
    hours, minutes, seconds = value.decode().split(":")
    return round((int(hours) * 3600 + int(minutes) * 60) * 1_000_000 + float(seconds) * 1_000_000)


def _json(value: bytes) -> msgspec.Raw:
    # As it stands: reading it would round its numbers, drop a key that comes twice, and end at deep nesting. The line
    # breaks lie outside its texts.
    return msgspec.Raw(value.translate(_ON_ONE_LINE))


def _iso(value: bytes) -> str:
    return value.decode().replace(" ", "T", 1)


_BOOL, _BYTEA, _JSON, _JSONB = 16, 17, 114, 3802
_DATE, _TIME, _TIMESTAMP, _TIMESTAMPTZ = 1082, 1083, 1114, 1184
_SHARED: dict[int, Convert] = {
    _BOOL: _bool,
    _BYTEA: _bytes,
    **dict.fromkeys((20, 21, 23, 26), int),
    **dict.fromkeys((700, 701), _float),
}
_PLAIN: dict[int, Convert] = {
    **_SHARED,
    **dict.fromkeys((_JSON, _JSONB), _json),
    _TIMESTAMP: _iso,
    _TIMESTAMPTZ: _zoned,
}
_DEBEZIUM: dict[int, Convert] = {
    **_SHARED,
    _DATE: _days,
    _TIME: _time_us,
    _TIMESTAMP: _timestamp_us,
    _TIMESTAMPTZ: _zoned,
}
# Arrays by the type of their items.
_ARRAYS = {1000: 16, 1005: 21, 1007: 23, 1016: 20, 1021: 700, 1022: 701, 1009: 25, 1015: 1043, 1231: 1700, 2951: 2950,
           1182: 1082, 1115: 1114, 1185: 1184}  # fmt: skip


def converters(style: str) -> Callable[[int], Convert]:
    """Return what gives a type's conversion, for the style `debezium` or `plain`; types not known stay texts."""
    scalars = _DEBEZIUM if style == "debezium" else _PLAIN

    def convert_for(type_oid: int) -> Convert:
        item = _ARRAYS.get(type_oid)
        if item is not None:
            convert_item = scalars.get(item, _text)
            return lambda value: _array(value.decode(), convert_item)
        return scalars.get(type_oid, _text)

    return convert_for


def _array(text: str, convert: Convert) -> Any:
    """Return an array's items, nested as its dimensions; `[1:2]={..}` has its bounds before the braces."""
    stack: list[list[Any]] = [[]]
    at = text.index("{")
    while at < len(text):
        char = text[at]
        if char == "{":
            stack.append([])
            at += 1
        elif char == "}":
            items = stack.pop()
            stack[-1].append(items)
            at += 1
        elif char == ",":
            at += 1
        elif char == '"':
            at += 1
            item: list[str] = []
            while text[at] != '"':
                at += text[at] == "\\"
                item.append(text[at])
                at += 1
            at += 1
            stack[-1].append(convert("".join(item).encode()))
        else:
            end = at
            while text[end] not in ",}":
                end += 1
            word = text[at:end]
            stack[-1].append(None if word == "NULL" else convert(word.encode()))
            at = end
    return stack[0][0]
