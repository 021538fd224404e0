"""Hive column types: the Arrow type of each, and the conversion of JSON values to it. Pure functions."""

# pyarrow has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportUnknownLambdaType=false

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from headrace.services.firehose import hive_values as values
from headrace.services.firehose.hive_values import Convert, mismatch
from headrace.services.firehose.serde import JsonReadOptions

_INTEGERS: dict[str, tuple[Any, int]] = {
    "tinyint": (pa.int8(), 8),
    "smallint": (pa.int16(), 16),
    "int": (pa.int32(), 32),
    "integer": (pa.int32(), 32),
    "bigint": (pa.int64(), 64),
}
# The limit of nested types; the parser recurses for each level.
MOST_NESTED = 50
_NOTHING = type(None)
_JSON_CLASSES = "org.openx.data.jsonserde.json."


class UnknownType(ValueError):
    """The table has a column with an unsupported type."""


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


def build_column(kind: str, reading: JsonReadOptions) -> Column:
    """Return the column for a Hive type, as a SerDe with the options `reading` fills it. Raises UnknownType."""
    text = kind.strip().lower()
    arrow, convert = _parse_type(text, reading)
    base = text.partition("(")[0]
    plain: tuple[type, ...] = ()
    if base in values.TEXTS:
        plain = (str,)
    elif base in _INTEGERS:
        plain = (int,)
    elif base in ("double", "float"):
        plain = (float, int)
    elif base == "boolean":
        plain = (bool,)
    return Column(text, arrow, convert, frozenset((*plain, _NOTHING)))


def _parse_type(text: str, reading: JsonReadOptions, depth: int = 0) -> tuple[pa.DataType, Convert]:
    if depth > MOST_NESTED:
        raise UnknownType(f"types nest {MOST_NESTED} deep at most")
    text = text.strip()
    base = text.partition("(")[0]
    if base in values.TEXTS:
        return pa.string(), values.build_text_converter(reading)
    if base in _INTEGERS:
        arrow, bits = _INTEGERS[base]
        return arrow, values.build_integer_converter(bits, reading)
    if base in ("double", "float"):
        arrow = pa.float64() if base == "double" else pa.float32()
        return arrow, values.build_float_converter(reading)
    if base == "boolean":
        return pa.bool_(), values.convert_boolean
    if base == "timestamp":
        return pa.timestamp("ns"), values.build_time_converter(reading)
    if base == "date":
        return pa.date32(), values.convert_date
    if base == "binary":
        convert_text = values.build_text_converter(reading)
        return pa.binary(), lambda value: convert_text(value).encode()
    if base == "decimal":
        return _build_decimal(text, reading)
    return _parse_nested(text, reading, depth + 1)


def _build_decimal(text: str, reading: JsonReadOptions) -> tuple[pa.DataType, Convert]:
    numbers = text.partition("(")[2].rstrip(")").split(",")
    precision = int(numbers[0]) if numbers[0] else 10
    scale = int(numbers[1]) if len(numbers) > 1 else 0
    arrow = cast("pa.DataType", pa.decimal128(precision, scale))
    return arrow, values.build_decimal_converter(scale, reading)


def _parse_nested(text: str, reading: JsonReadOptions, depth: int) -> tuple[pa.DataType, Convert]:
    name, _, inner = text.partition("<")
    name = name.strip()
    if not inner.endswith(">"):
        raise UnknownType(text)
    parts = _split(inner[:-1])
    if name == "array" and len(parts) == 1:
        arrow, convert = _parse_type(parts[0], reading, depth)
        return pa.list_(arrow), _build_list_converter(convert, reading)
    if name == "map" and len(parts) == 2:
        key_arrow, key_convert = _parse_map_key(parts[0], reading, depth)
        arrow, convert = _parse_type(parts[1], reading, depth)
        return pa.map_(key_arrow, arrow), _build_map_converter(key_convert, convert, reading)
    if name == "struct":
        members = {
            part.partition(":")[0].strip(" `"): _parse_type(part.partition(":")[2], reading, depth)
            for part in parts
        }
        arrow = pa.struct([(member, kind) for member, (kind, _) in members.items()])
        converters = {member: convert for member, (_, convert) in members.items()}
        return arrow, _build_struct_converter(converters, reading)
    raise UnknownType(text)


def _parse_map_key(text: str, reading: JsonReadOptions, depth: int) -> tuple[pa.DataType, Convert]:
    # A key is text in JSON, whatever its column's type: no SerDe refuses it for that.
    if "<" in text:
        raise UnknownType(f"a key of a map has a plain type, not {text}")
    return _parse_type(text, JsonReadOptions(), depth)


def _build_list_converter(convert: Convert, reading: JsonReadOptions) -> Convert:
    def convert_list(value: Any) -> list[Any]:
        if not isinstance(value, list):
            if reading.hive:
                raise mismatch("java.io.IOException: Start of Array expected")
            value = [value]
        return [_convert_or_none(convert, item) for item in value]

    return convert_list


def _build_map_converter(
    convert_key: Convert, convert: Convert, reading: JsonReadOptions
) -> Convert:
    def convert_map(value: Any) -> list[tuple[Any, Any]]:
        if not isinstance(value, dict):
            raise _refuse_map(value, reading)
        entries = {key.lower() if reading.lowers_keys else key: item for key, item in value.items()}
        return [(convert_key(key), _convert_or_none(convert, v)) for key, v in entries.items()]

    return convert_map


def _build_struct_converter(converters: dict[str, Convert], reading: JsonReadOptions) -> Convert:
    def convert_struct(value: Any) -> dict[str, Any]:
        if isinstance(value, list) and not reading.hive:
            # By position; what is missing is null, and what is too much is dropped.
            value = dict(zip(converters, value, strict=False))
        if not isinstance(value, dict):
            raise _refuse_struct(value, reading)
        if reading.case_insensitive:
            lower: dict[str, Any] = {}
            for key, item in value.items():
                lower.setdefault(key.lower(), item)
            value = lower
        return {
            member: _convert_or_none(convert, value.get(member))
            for member, convert in converters.items()
        }

    return convert_struct


def _refuse_map(value: Any, reading: JsonReadOptions) -> ValueError:
    if reading.hive:
        return mismatch("java.io.IOException: Start of Object expected")
    # A cast error (observed by others); its classes are those of the SerDe's source (assumed).
    kind = f"{_JSON_CLASSES}JSONArray" if isinstance(value, list) else _name_java_class(value)
    return mismatch(f"{kind} cannot be cast to {_JSON_CLASSES}JSONObject")


def _refuse_struct(value: Any, reading: JsonReadOptions) -> ValueError:
    if reading.hive:
        return mismatch("java.io.IOException: Start of Object expected")
    text = value if isinstance(value, str) else values.render_value(value)
    return mismatch(
        f"Data is not JSONObject  but {_name_java_class(value)} with value {text[:100]}"
    )


def _name_java_class(value: Any) -> str:
    names = {bool: "Boolean", int: "Long", float: "Double"}
    return f"java.lang.{names.get(type(value), 'String')}"


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
