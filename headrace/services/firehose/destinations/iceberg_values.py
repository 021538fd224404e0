"""Converts JSON values to Iceberg's types as Firehose does. Pure functions.

Source: docs.aws.amazon.com/firehose/latest/dev/apache-iceberg-destination-supp.html (documented, read 2026). Numbers
may be text, times are microseconds or ISO 8601, dates are days or ISO 8601, binary is Base64 (basic, MIME, URL-safe)
or hexadecimal, lists may be text that holds JSON. That structs and maps may be text too, and decimals, is assumed.

Converts records to rows of an Iceberg table; top-level JSON keys are column names, matched exactly. Pure functions.

Source: docs.aws.amazon.com/firehose/latest/dev/apache-iceberg-considerations.html (documented, read 2026): one JSON
object a record, unknown keys are skipped. Codes are from users' reports (observed by others, 2026) except
`iceberg_routing.NOT_JSON`. Assumed: a nullable column may be missing. A record without any known key is refused
(observed by others).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

# pyright would need pydantic's plug-in to know pyiceberg's types fully.
import base64
import binascii
import re
import uuid

# pyarrow has no types.
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, cast

import msgspec
import pyarrow as pa
from pyiceberg import types
from pyiceberg.schema import Schema

from headrace.services.firehose.destinations.iceberg_routing import NOT_JSON

Convert = Callable[[Any], Any]
# Documented: apache-iceberg-considerations.html.
MOST_LEVELS = 16
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})+")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BITS = {types.IntegerType: 31, types.LongType: 63}
_decode = msgspec.json.Decoder().decode


class WrongValue(ValueError):
    """A value does not have the column's type; the message says why."""


class MissingField(ValueError):
    """A required field of a struct has no value; the message names the field."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How values of a type are converted.

    Attributes:
        convert: returns the value for pyarrow; raises WrongValue, MissingField.
        plain: the JSON types whose values pyarrow accepts unchanged.
    """

    convert: Convert
    plain: frozenset[type] = frozenset()


def find_kind(of: types.IcebergType, levels: int = MOST_LEVELS) -> Kind:
    """Return how values of a type are converted. Values nested deeper than `levels` are refused."""
    if levels <= 0:
        return Kind(_refuse_depth)
    match of:
        case types.BooleanType():
            return Kind(_convert_boolean, frozenset({bool, type(None)}))
        case types.IntegerType() | types.LongType():
            bits = _BITS[type(of)]
            return Kind(lambda value: _convert_integer(value, bits), frozenset({int, type(None)}))
        case types.FloatType() | types.DoubleType():
            return Kind(_convert_double, frozenset({float, type(None)}))
        case types.DecimalType():
            return Kind(lambda value: _convert_decimal(value, of.precision, of.scale))
        case types.StringType():
            return Kind(_convert_string, frozenset({str, type(None)}))
        case types.DateType():
            return Kind(_convert_date, frozenset({int, type(None)}))
        case types.TimeType():
            return Kind(_convert_time)
        case types.TimestampType() | types.TimestamptzType():
            return Kind(_convert_timestamp, frozenset({int, type(None)}))
        case types.UUIDType():
            return Kind(_convert_uuid)
        case types.FixedType():
            length = len(of)
            return Kind(lambda value: _convert_fixed(value, length))
        case types.BinaryType():
            return Kind(_convert_binary)
        case types.StructType() | types.ListType() | types.MapType():
            return Kind(_build_nested(of, levels - 1))
        case _:
            # Types of Iceberg v3, which AWS's Firehose does not support.
            return Kind(lambda value: _refuse(value, str(of)))


def _refuse(value: Any, name: str) -> Any:
    shown = repr(value)
    raise WrongValue(f"{shown if len(shown) <= 100 else shown[:100] + '...'} is no {name}")


def _refuse_depth(value: Any) -> Any:
    raise WrongValue(f"it is nested deeper than {MOST_LEVELS} levels")


def _convert_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return _refuse(value, "boolean")


def _convert_integer(value: Any, bits: int) -> int:
    number: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    elif isinstance(value, str) and len(value) <= 20 and _is_plain(value):
        try:
            number = int(value)
        except ValueError:
            number = None
    if number is None or not -(1 << bits) <= number < 1 << bits:
        return _refuse(value, "int" if bits == 31 else "long")
    return number


def _is_plain(text: str) -> bool:
    """Return whether text has no number syntax that only Python accepts."""
    return text.isascii() and "_" not in text


def _convert_double(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return _refuse(value, "double")
    if isinstance(value, str) and _is_plain(value):
        try:
            return float(value)
        except ValueError:
            return _refuse(value, "double")
    return _refuse(value, "double")


def _convert_decimal(value: Any, precision: int, scale: int) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return _refuse(value, "decimal")
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return _refuse(value, "decimal")
    name = f"decimal({precision}, {scale})"
    if not number.is_finite() or number.adjusted() >= precision - scale:
        return _refuse(value, name)
    rounded = round(number, scale)
    return rounded if rounded == number else _refuse(value, name)


def _convert_string(value: Any) -> str:
    """Return text; a value of another type becomes its JSON (assumed)."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _convert_date(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return value if -(1 << 31) <= value < 1 << 31 else _refuse(value, "date")
    if isinstance(value, str):
        try:
            return (date.fromisoformat(value) - date(1970, 1, 1)).days
        except ValueError:
            return _refuse(value, "date")
    return _refuse(value, "date")


def _convert_time(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value if 0 <= value < 86_400_000_000 else _refuse(value, "time")
    if isinstance(value, str):
        try:
            at = time.fromisoformat(value)
        except ValueError:
            return _refuse(value, "time")
        if at.tzinfo is None:
            seconds = at.hour * 3600 + at.minute * 60 + at.second
            return seconds * 1_000_000 + at.microsecond
    return _refuse(value, "time")


def _convert_timestamp(value: Any) -> int:
    """Return microseconds; a time with an offset is converted to UTC, one without is unchanged."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if -(1 << 63) <= value < 1 << 63 else _refuse(value, "timestamp")
    if isinstance(value, str) and "T" in value:
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            return _refuse(value, "timestamp")
        since = (at if at.tzinfo is not None else at.replace(tzinfo=UTC)) - _EPOCH
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return _refuse(value, "timestamp")


def _convert_uuid(value: Any) -> bytes:
    if isinstance(value, str):
        try:
            return uuid.UUID(value).bytes
        except ValueError:
            return _refuse(value, "uuid")
    return _refuse(value, "uuid")


def _convert_binary(value: Any) -> bytes:
    """Decode binary text. Text of only hexadecimal digits is hexadecimal, although it could be Base64 (assumed)."""
    if not isinstance(value, str):
        return _refuse(value, "binary")
    if _HEX.fullmatch(value):
        return bytes.fromhex(value)
    text = value.replace("\r\n", "").replace("\n", "").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return _refuse(value, "binary")


def _convert_fixed(value: Any, length: int) -> bytes:
    data = _convert_binary(value)
    return data if len(data) == length else _refuse(value, f"fixed[{length}]")


def _parse_json(value: Any) -> Any:
    """Parse text as JSON; return any other value unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return _decode(value.encode())
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return value


def _build_nested(of: types.StructType | types.ListType | types.MapType, levels: int) -> Convert:
    match of:
        case types.StructType():
            fields = [
                (f.name, f.required, find_kind(f.field_type, levels).convert) for f in of.fields
            ]
            return lambda value: _convert_struct(value, fields)
        case types.ListType():
            convert, required = find_kind(of.element_type, levels).convert, of.element_required
            return lambda value: _convert_list(value, convert, required=required)
        case types.MapType():
            return _build_map_converter(of, levels)


def _convert_struct(value: Any, fields: list[tuple[str, bool, Convert]]) -> dict[str, Any]:
    document = _parse_json(value)
    if not isinstance(document, dict):
        return _refuse(value, "struct")
    items = cast("dict[str, Any]", document)
    fields_by_name: dict[str, Any] = {}
    for name, required, convert in fields:
        cell = items.get(name)
        if cell is None and required:
            raise MissingField(name)
        fields_by_name[name] = None if cell is None else convert(cell)
    return fields_by_name


def _convert_list(value: Any, convert: Convert, *, required: bool) -> list[Any]:
    parsed = _parse_json(value)
    if not isinstance(parsed, list):
        return _refuse(value, "list")
    items = cast("list[Any]", parsed)
    if required and None in items:
        return _refuse(value, "list without nulls")
    return [None if item is None else convert(item) for item in items]


def _build_map_converter(of: types.MapType, levels: int) -> Convert:
    key, convert = find_kind(of.key_type, levels).convert, find_kind(of.value_type, levels).convert
    required = of.value_required

    def convert_map(value: Any) -> list[tuple[Any, Any]]:
        document = _parse_json(value)
        if not isinstance(document, dict):
            return _refuse(value, "map")
        items = cast("dict[str, Any]", document)
        if required and None in items.values():
            return _refuse(value, "map without nulls")
        return [
            (key(name), None if item is None else convert(item)) for name, item in items.items()
        ]

    return convert_map


MISSING_COLUMN = "Iceberg.MissingColumnWithinRecord"
WRONG_TYPE = "Iceberg.SchemaTypeMismatch"
# What an out-of-range value can raise during conversion.
_REFUSALS = (ValueError, TypeError, ArithmeticError, RecursionError, pa.ArrowException)
Reason = tuple[str, str]


@dataclass(slots=True)
class Rows:
    """Rows of a table, one for each record.

    Attributes:
        columns: the values by column; None in a refused row.
        refused: code and sentence by the record's index.
    """

    columns: dict[str, pa.Array]
    refused: dict[int, Reason] = field(default_factory=dict[int, Reason])


def convert_rows(datas: Sequence[bytes], schema: Schema, only: Sequence[str] = ()) -> Rows:
    """Convert records to rows.

    Args:
        datas: JSON objects.
        schema: the table's schema.
        only: the columns to convert, others are null; for a deletion its keys, which must have values.
    """
    items, refused = _parse_records(datas)
    result = Rows({}, refused)
    arrow = _build_arrow_schema(schema)
    names = {column.name for column in schema.columns}
    for index, item in enumerate(items):
        if index not in refused and names.isdisjoint(item):
            refused[index] = (
                MISSING_COLUMN,
                f"No key of the record is a column of {sorted(names)}.",
            )
    for column in schema.columns:
        if only and column.name not in only:
            result.columns[column.name] = pa.nulls(len(items), arrow.field(column.name).type)
            continue
        cells = [item.get(column.name) for item in items]
        if column.required or only:
            for index, cell in enumerate(cells):
                if cell is None and index not in refused:
                    sentence = f"Column {column.name} is required and the record has none."
                    refused[index] = (MISSING_COLUMN, sentence)
        kind = find_kind(column.field_type)
        array, wrong = _convert_column(cells, kind, arrow.field(column.name).type)
        for index, reason in wrong.items():
            code, sentence = reason
            refused.setdefault(index, (code, f"{column.name}: {sentence}"))
        result.columns[column.name] = array
    return result


def _build_arrow_schema(schema: Schema) -> pa.Schema:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return schema_to_pyarrow(schema, include_field_ids=False)


def _parse_records(datas: Sequence[bytes]) -> tuple[list[dict[str, Any]], dict[int, Reason]]:
    items: list[dict[str, Any]] = []
    refused: dict[int, Reason] = {}
    for index, data in enumerate(datas):
        try:
            item = _decode(data)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            refused[index] = (NOT_JSON, f"The record is not one JSON object: {error}")
            item = {}
        if not isinstance(item, dict):
            refused[index] = (NOT_JSON, "The record is not one JSON object.")
            item = {}
        items.append(cast("dict[str, Any]", item))
    return items, refused


def _convert_column(
    cells: list[Any], kind: Kind, arrow: pa.DataType
) -> tuple[pa.Array, dict[int, Reason]]:
    """Return a column, and by index why a value does not fit; such a value is null."""
    if set(map(type, cells)) <= kind.plain:
        try:
            return pa.array(cells, arrow), {}
        except _REFUSALS:
            pass  # Some value is out of the type's range; the code below finds it.
    wrong: dict[int, Reason] = {}
    values: list[Any] = []
    for index, cell in enumerate(cells):
        value = None
        try:
            value = None if cell is None else kind.convert(cell)
        except MissingField as error:
            wrong[index] = (MISSING_COLUMN, f"field {error} is required and the record has none.")
        except _REFUSALS as error:
            words = str(error) if isinstance(error, WrongValue) else f"refused: {error}"
            wrong[index] = (WRONG_TYPE, words)
        values.append(value)
    try:
        return _build_array(values, arrow), wrong
    except _REFUSALS:
        pass
    for index, value in enumerate(values):
        try:
            _build_array([value], arrow)
        except _REFUSALS as error:
            values[index] = None
            wrong[index] = (WRONG_TYPE, f"refused: {error}")
    return _build_array(values, arrow), wrong


def _build_array(values: list[Any], arrow: pa.DataType) -> pa.Array:
    if isinstance(arrow, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(arrow, pa.array(values, arrow.storage_type))
    return pa.array(values, arrow)
