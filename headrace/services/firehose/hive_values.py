"""Plain values of Hive types from JSON, as the OpenX and the Hive SerDe read them. Pure functions.

What each takes and refuses, with its sentences, was observed on AWS by others (floci #3235, #3333 and #3521, September
2026), unless a line says otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from headrace.services.firehose import serde
from headrace.services.firehose.serde import JsonReadOptions

Convert = Callable[[Any], Any]

TEXTS = ("string", "varchar", "char")
_NOT_NUMERIC = "Current token (VALUE_STRING) not numeric, can not use numeric value accessors"
_NOT_PLAIN = "One or more fields have incorrect format. Exception when validating field (root)"
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_NUMBER = re.compile(r"[+-]?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
_NOT_FINITE = ("NaN", "Infinity", "-Infinity", "+Infinity")
# java.sql.Timestamp.valueOf: yyyy-[m]m-[d]d hh:mm:ss[.f...], and the SerDe's strict ISO 8601.
_SPACED_TIME = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2}) (\d{1,2}):(\d{1,2}):(\d{1,2})(\.\d{1,9})?")
_ISO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?")
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")
# From here on a number is milliseconds, not seconds.
_LEAST_MILLIS = 10**12


class WrongValue(ValueError):
    """A value does not fit its column; the message is AWS's sentence."""


def mismatch(cause: str) -> WrongValue:
    """Return the refusal of a value, for a reason."""
    return WrongValue(f"Data does not match the schema. {cause}")


def render_value(value: Any) -> str:
    """Return a value as JSON, cut to 100 characters."""
    return json.dumps(value, default=str)[:100]


def _refuse_input(value: Any) -> WrongValue:
    text = value if isinstance(value, str) else render_value(value)
    return mismatch(f'For input string: "{text[:100]}"')


def build_text_converter(reading: JsonReadOptions) -> Convert:
    """Return a converter to text: OpenX makes JSON of objects and lists, Hive refuses them."""

    def convert(value: Any) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, (dict, list)):
            if reading.hive:
                raise WrongValue(_NOT_PLAIN)
            return _write_json(_lower_keys(value) if reading.lowers_keys else value)
        return _write_json(value)

    return convert


def _write_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _lower_keys(value: Any) -> Any:
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {key.lower(): _lower_keys(item) for key, item in members.items()}
    if isinstance(value, list):
        return [_lower_keys(item) for item in cast("list[Any]", value)]
    return value


def build_integer_converter(bits: int, reading: JsonReadOptions) -> Convert:
    """Return a converter to a signed integer of `bits`; text only for OpenX, as Java's parseInt reads it."""
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def convert(value: Any) -> int:
        _refuse_text_in_hive(value, reading)
        if isinstance(value, str) and _INTEGER.fullmatch(value):
            number = int(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            number = value
        elif isinstance(value, float) and value.is_integer():
            number = int(value)
        else:
            raise _refuse_input(value)
        if low <= number <= high:
            return number
        raise mismatch(f"{render_value(value)} is not an integer of {bits} bits")

    return convert


def build_float_converter(reading: JsonReadOptions) -> Convert:
    """Return a converter to a floating-point number."""

    def convert(value: Any) -> float:
        _refuse_text_in_hive(value, reading)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        text = value.strip() if isinstance(value, str) else ""
        if _NUMBER.fullmatch(text) or text in _NOT_FINITE:
            return float(text)
        raise _refuse_input(value)

    return convert


def build_decimal_converter(scale: int, reading: JsonReadOptions) -> Convert:
    """Return a converter to a decimal number with `scale` digits after the point."""

    def convert(value: Any) -> Decimal:
        _refuse_text_in_hive(value, reading)
        if isinstance(value, (bool, dict, list)):
            raise _refuse_input(value)
        try:
            return Decimal(str(value)).quantize(Decimal(1).scaleb(-scale))
        except (InvalidOperation, ValueError) as error:
            raise _refuse_input(value) from error

    return convert


def _refuse_text_in_hive(value: Any, reading: JsonReadOptions) -> None:
    if reading.hive and isinstance(value, str):
        raise mismatch(_NOT_NUMERIC)


def convert_boolean(value: Any) -> bool:
    """Return a boolean, also from `true` and `false` as text (assumed for the Hive SerDe)."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise _refuse_input(value)


def convert_date(value: Any) -> date:
    """Return a date of the form yyyy-[M]M-[d]d."""
    match = _DATE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise _refuse_input(value)
    try:
        return date(*map(int, match.groups()))
    except ValueError as error:
        raise _refuse_input(value) from error


def build_time_converter(reading: JsonReadOptions) -> Convert:
    """Return a converter to a UTC time without a zone.

    OpenX takes numbers, also as text, ISO 8601 and `2026-9-7 1:2:3`. Hive takes the configured formats and then that
    last form alone: java.sql.Timestamp.valueOf (documented).
    """
    return _build_hive_times(reading.time_formats) if reading.hive else _convert_openx_time


def _convert_openx_time(value: Any) -> datetime:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _read_epoch(value, value)
    if isinstance(value, str):
        if _ISO_TIME.fullmatch(value):
            return _read_iso(value)
        if _NUMBER.fullmatch(value):
            return _read_epoch(float(value), value)
    return _read_spaced(value)


def _read_iso(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise _refuse_input(text) from error
    return at if at.tzinfo is None else at.astimezone(UTC).replace(tzinfo=None)


def _read_epoch(number: float, value: Any) -> datetime:
    return _from_seconds(number / 1000 if abs(number) >= _LEAST_MILLIS else number, value)


def _from_seconds(seconds: float, value: Any) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError) as error:
        raise _refuse_input(value) from error


def _read_spaced(value: Any) -> datetime:
    match = _SPACED_TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise _refuse_input(value)
    *numbers, fraction = match.groups()
    micros = int((fraction or ".0")[1:].ljust(6, "0")[:6])
    year, month, day, hour, minute, second = map(int, numbers)
    try:
        at = datetime(year, month, day, hour, minute, second, micros, UTC)
    except ValueError as error:
        raise _refuse_input(value) from error
    return at.replace(tzinfo=None)


def _build_hive_times(formats: Sequence[str]) -> Convert:
    readers = [serde.build_reader(pattern) for pattern in formats if pattern != serde.MILLIS]
    in_millis = serde.MILLIS in formats

    def convert(value: Any) -> datetime:
        text = value if isinstance(value, str) else render_value(value)
        if in_millis and _NUMBER.fullmatch(text):
            return _from_seconds(float(text) / 1000, value)
        for read in readers:
            at = read(text)
            if at is not None:
                return at
        return _read_spaced(value)

    return convert
