"""Hive column types: the Arrow type of each, and the conversion of JSON values to it. Pure functions."""

# pyarrow has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportUnknownLambdaType=false

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, cast

import pyarrow as pa

from headrace.services.firehose import joda

Convert = Callable[[Any], Any]

_INTEGERS: dict[str, tuple[Any, int]] = {
    "tinyint": (pa.int8(), 8),
    "smallint": (pa.int16(), 16),
    "int": (pa.int32(), 32),
    "integer": (pa.int32(), 32),
    "bigint": (pa.int64(), 64),
}
_TEXTS = ("string", "varchar", "char")
# The limit of nested types; the parser recurses for each level.
MOST_NESTED = 50
_NOTHING = type(None)
# yyyy-[M]M-[d]d HH:mm:ss[.S]: the format of the OpenX SerDe that is not ISO 8601.
_SHORT_TIME = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})([ T].*)?")


class UnknownType(ValueError):
    """The table has a column with an unsupported type."""


class WrongValue(ValueError):
    """A value does not fit its column."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's type, and the values that it accepts.

    Attributes:
        name: the Hive type.
        arrow: the Arrow type.
        convert: converts a JSON value (never None) to the column's type; raises WrongValue or the exceptions of
            Python's conversions.
        plain: the Python types that Arrow accepts unchanged, with the same meaning.
    """

    name: str
    arrow: pa.DataType
    convert: Convert
    plain: frozenset[type]


def build_column(kind: str, time_formats: Sequence[str] = ()) -> Column:
    """Return the column for a Hive type; see `Reading` for `time_formats`. Raises UnknownType."""
    text = kind.strip().lower()
    arrow, convert = _parse_type(text)
    if time_formats and text == "timestamp":
        convert = _build_time_converter(time_formats)
    base = text.partition("(")[0]
    plain: tuple[type, ...] = ()
    if base in _TEXTS:
        plain = (str,)
    elif base in _INTEGERS:
        plain = (int,)
    elif base in ("double", "float"):
        plain = (float, int)
    elif base == "boolean":
        plain = (bool,)
    return Column(text, arrow, convert, frozenset((*plain, _NOTHING)))


def _parse_type(text: str, depth: int = 0) -> tuple[pa.DataType, Convert]:
    if depth > MOST_NESTED:
        raise UnknownType(f"types nest {MOST_NESTED} deep at most")
    text = text.strip()
    base = text.partition("(")[0]
    if base in _TEXTS:
        return pa.string(), _convert_text
    if base in _INTEGERS:
        arrow, bits = _INTEGERS[base]
        return arrow, _build_integer_converter(bits)
    if base in ("double", "float"):
        return (pa.float64() if base == "double" else pa.float32()), _convert_float
    if base == "boolean":
        return pa.bool_(), _convert_boolean
    if base == "timestamp":
        return pa.timestamp("ns"), _convert_timestamp
    if base == "date":
        return pa.date32(), _convert_date
    if base == "binary":
        return pa.binary(), lambda value: _convert_text(value).encode()
    if base == "decimal":
        return _build_decimal(text)
    return _parse_nested(text, depth + 1)


def _parse_nested(text: str, depth: int) -> tuple[pa.DataType, Convert]:
    name, _, inner = text.partition("<")
    name = name.strip()
    if not inner.endswith(">"):
        raise UnknownType(text)
    parts = _split(inner[:-1])
    if name == "array" and len(parts) == 1:
        arrow, convert = _parse_type(parts[0], depth)
        return pa.list_(arrow), lambda value: [
            _convert_or_none(convert, v) for v in _is(list, value)
        ]
    if name == "map" and len(parts) == 2:
        key_arrow, key_convert = _parse_type(parts[0], depth)
        arrow, convert = _parse_type(parts[1], depth)

        def as_map(value: Any) -> Any:
            return [
                (key_convert(key), _convert_or_none(convert, v))
                for key, v in _is(dict, value).items()
            ]

        return pa.map_(key_arrow, arrow), as_map
    if name == "struct":
        fields = [
            (part.partition(":")[0].strip(), _parse_type(part.partition(":")[2], depth))
            for part in parts
        ]
        arrow = pa.struct([(field, kind) for field, (kind, _) in fields])

        def as_struct(value: Any) -> Any:
            members = {key.lower(): item for key, item in _is(dict, value).items()}
            return {
                field: _convert_or_none(convert, members.get(field))
                for field, (_, convert) in fields
            }

        return arrow, as_struct
    raise UnknownType(text)


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for index, letter in enumerate(text):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]


def _convert_or_none(convert: Convert, value: Any) -> Any:
    return None if value is None else convert(value)


def _is(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise WrongValue(
            f"{_render_value(value)} is not {'a list' if kind is list else 'an object'}"
        )
    return value


def _render_value(value: Any) -> str:
    return json.dumps(value, default=str)[:100]


def _convert_text(value: Any) -> str:
    # As in the OpenX SerDe, a value that is not text becomes its JSON.
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _build_integer_converter(bits: int) -> Convert:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def convert(value: Any) -> int:
        if type(value) is int and low <= value <= high:
            return value
        try:
            number = float(value) if not isinstance(value, bool) else None
            if number is not None and number == int(number) and low <= number <= high:
                return int(number)
        except (TypeError, ValueError, OverflowError):
            pass
        raise WrongValue(f"{_render_value(value)} is not an integer of {bits} bits")

    return convert


def _convert_float(value: Any) -> float:
    if isinstance(value, bool):
        raise WrongValue(f"{_render_value(value)} is not a number")
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise WrongValue(f"{_render_value(value)} is not a number") from error


def _convert_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise WrongValue(f"{_render_value(value)} is not a boolean")


def _convert_timestamp(value: Any) -> datetime:
    if isinstance(value, int | float) and not isinstance(value, bool):
        # Epoch seconds, or milliseconds when the number is too large for seconds.
        seconds = value / 1000 if abs(value) >= 10**11 else float(value)
        try:
            return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
        except (ValueError, OverflowError, OSError) as error:
            raise WrongValue(f"{_render_value(value)} is not a timestamp") from error
    text = str(value).strip()
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = _parse_short_time(text)
    if at.tzinfo is None or at.tzinfo is UTC:
        return at.replace(tzinfo=None)
    return at.astimezone(UTC).replace(tzinfo=None)


def _build_time_converter(formats: Sequence[str]) -> Convert:
    """Return a converter that tries the Hive SerDe's formats and then the default."""
    read = [joda.build_reader(pattern) for pattern in formats if pattern != joda.MILLIS]
    in_millis = joda.MILLIS in formats

    def convert(value: Any) -> datetime:
        if in_millis and isinstance(value, int | float | str) and not isinstance(value, bool):
            try:
                at = datetime.fromtimestamp(float(value) / 1000, UTC)
                return at.replace(tzinfo=None)
            except (ValueError, OverflowError, OSError):
                pass  # Not a number: another format may fit.
        for reader in read:
            at = reader(str(value))
            if at is not None:
                return at
        return _convert_timestamp(value)

    return convert


def _parse_short_time(text: str) -> datetime:
    match = _SHORT_TIME.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)
        year, month, day, rest = match.groups(default="")
        return datetime.fromisoformat(f"{year}-{month:0>2}-{day:0>2}{rest}")
    except ValueError as error:
        raise WrongValue(f"{_render_value(text)} is not a timestamp") from error


def _convert_date(value: Any) -> date:
    try:
        return date.fromisoformat(str(value)[:10])
    except ValueError as error:
        raise WrongValue(f"{_render_value(value)} is not a date") from error


def _build_decimal(text: str) -> tuple[pa.DataType, Convert]:
    numbers = text.partition("(")[2].rstrip(")").split(",")
    precision = int(numbers[0]) if numbers[0] else 10
    scale = int(numbers[1]) if len(numbers) > 1 else 0

    def convert(value: Any) -> Decimal:
        try:
            return Decimal(str(value)).quantize(Decimal(1).scaleb(-scale))
        except (InvalidOperation, ValueError) as error:
            raise WrongValue(f"{_render_value(value)} is not a decimal") from error

    return cast("pa.DataType", pa.decimal128(precision, scale)), convert
