"""Record format conversion: JSON records become a Parquet or ORC file with a Glue table's columns. Pure functions.

A column of plain values is converted in one call, which is many times faster than value by value. A column with other
values is converted value by value, which also finds the values to refuse.

Hive column types: the Arrow type of each, and the conversion of JSON values to it. Pure functions.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportUnknownLambdaType=false

from __future__ import annotations

# pyarrow has no types.
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import itemgetter
from typing import Any, cast

import msgspec
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from headrace.core.ports import TableSchema

# pyarrow has no types.
from headrace.services.firehose import hive_values as values
from headrace.services.firehose.hive_values import Convert, WrongValue, mismatch
from headrace.services.firehose.records import FailedRecord, Record
from headrace.services.firehose.serde import JsonReadOptions, OrcWriting, ParquetWriteOptions

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


# Codes of AWS's CloudWatch messages (documented); which code belongs to which fault is assumed.
NOT_JSON = "DataFormatConversion.ParseError"
DOES_NOT_FIT = "DataFormatConversion.MalformedData"
# What a bad value can raise during conversion: its record is left out, and the delivery continues.
_REFUSALS = (ValueError, TypeError, ArithmeticError, RecursionError, pa.ArrowException)
_decode = msgspec.json.Decoder().decode
_scan = json.JSONDecoder().raw_decode
Item = dict[str, Any]


@dataclass(slots=True)
class ConvertedFile:
    """A Parquet or ORC file, its rows, the Content-Encoding of its object, and the records left out."""

    data: bytes
    rows: int
    encoding: str | None
    failed: list[FailedRecord] = field(default_factory=list[FailedRecord])


def convert(
    records: Sequence[Record],
    schema: TableSchema,
    reading: JsonReadOptions | None = None,
    writing: ParquetWriteOptions | OrcWriting | None = None,
) -> ConvertedFile:
    """Return one file with all objects in `records`; a record with a bad object is left out entirely.

    Unknown keys are dropped, and missing ones are null. Raises UnknownType.
    """
    reading, writing = reading or JsonReadOptions(), writing or ParquetWriteOptions()
    columns = [(name.lower(), build_column(kind, reading)) for name, kind in schema.columns]
    items, owners, refused = _parse(records)
    items = _rename_keys(items, reading)
    arrays: list[Any] = []
    for name, kind in columns:
        key = reading.key_of.get(name, name)
        key = key.lower() if reading.case_insensitive else key
        array, wrong = _build_array(_read_cells(items, key), kind)
        arrays.append(array)
        for row, message in wrong.items():
            refused.setdefault(owners[row], (DOES_NOT_FIT, message))
    table = pa.table(arrays, schema=pa.schema([(name, kind.arrow) for name, kind in columns]))
    if refused:
        table = table.filter(pa.array([owner not in refused for owner in owners], pa.bool_()))
    failed = [FailedRecord(records[owner], *refused[owner]) for owner in sorted(refused)]
    # The label is AWS's, although the file is Parquet (observed by others, 2026-09); for ORC it is assumed.
    encoding = "hadoop-snappy" if writing.compression == "SNAPPY" else None
    return ConvertedFile(_write_file(table, writing), table.num_rows, encoding, failed)


def _write_file(table: Any, writing: ParquetWriteOptions | OrcWriting) -> bytes:
    file = io.BytesIO()
    if isinstance(writing, OrcWriting):
        _write_orc(table, writing, file)
        return file.getvalue()
    pq.write_table(
        table,
        file,
        compression=writing.compression,
        use_dictionary=writing.dictionary,
        data_page_size=writing.page_size_bytes,
        data_page_version=writing.data_page_version,
        # As Firehose writes them: Spark then reads instants, not local times (observed by users).
        use_deprecated_int96_timestamps=True,
    )
    return file.getvalue()


def _write_orc(table: Any, writing: OrcWriting, file: io.BytesIO) -> None:
    names = list(table.column_names)
    orc.write_table(
        table,
        file,
        file_version=writing.version,
        stripe_size=writing.stripe_bytes,
        compression=writing.compression,
        row_index_stride=writing.row_index_stride,
        padding_tolerance=writing.padding_tolerance,
        dictionary_key_size_threshold=writing.dictionary_threshold,
        bloom_filter_columns=[names.index(name) for name in writing.bloom_columns if name in names],
        bloom_filter_fpp=writing.bloom_rate,
    )


def _parse(
    records: Sequence[Record],
) -> tuple[list[Item], Sequence[int], dict[int, tuple[str, str]]]:
    """Return all objects, each object's record number, and by record number why a record was refused."""
    try:
        parsed = [_decode(record.data) for record in records]
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        parsed = []
    if len(parsed) == len(records) and set(map(type, parsed)) <= {dict}:
        return cast("list[Item]", parsed), range(len(records)), {}
    items: list[Item] = []
    owners: list[int] = []
    refused: dict[int, tuple[str, str]] = {}
    for number, record in enumerate(records):
        try:
            objects = _parse_objects(record.data)
        except (ValueError, RecursionError) as error:
            refused[number] = (NOT_JSON, f"Encountered malformed JSON. {error}")
            continue
        items += objects
        owners += [number] * len(objects)
    return items, owners, refused


def _parse_objects(data: bytes) -> list[Item]:
    """Return the JSON objects in a record, one or several in sequence. Raises ValueError."""
    try:
        items = [_decode(data)]
    except msgspec.DecodeError:
        items = []
        text, offset = data.decode(), 0
        while offset < len(text):
            if text[offset].isspace():
                offset += 1
                continue
            value, offset = _scan(text, offset)
            items.append(value)
        if not items:
            raise ValueError("the record is empty") from None
    if not all(isinstance(value, dict) for value in items):
        raise ValueError("the record is not a JSON object")
    return cast("list[Item]", items)


def _rename_keys(items: list[Item], reading: JsonReadOptions) -> list[Item]:
    """Return the objects with their keys renamed by `reading`; usually nothing changes."""
    keys: set[str] = set()
    for item in items:
        keys.update(item)

    def convert_key(key: str) -> str:
        if reading.dots_to_underscores:
            key = key.replace(".", "_")
        return key.lower() if reading.case_insensitive else key

    names = {key: convert_key(key) for key in keys}
    if all(key == name for key, name in names.items()):
        return items
    return [{names[key]: value for key, value in item.items()} for item in items]


def _read_cells(items: list[Item], key: str) -> list[Any]:
    try:
        return list(map(itemgetter(key), items))
    except KeyError:
        return [item.get(key) for item in items]


def _build_array(cells: list[Any], kind: Column) -> tuple[Any, dict[int, str]]:
    """Return an Arrow array of a column's values, and by row why a value does not fit; such a value is null."""
    if set(map(type, cells)) <= kind.plain:
        try:
            return pa.array(cells, kind.arrow), {}
        except _REFUSALS:
            pass  # Some value is out of the type's range; the code below finds it.
    wrong: dict[int, str] = {}
    values: list[Any] = []
    for row, cell in enumerate(cells):
        try:
            values.append(None if cell is None else kind.convert(cell))
        except _REFUSALS as error:
            values.append(None)
            wrong[row] = str(error if isinstance(error, WrongValue) else mismatch(str(error)))
    try:
        return pa.array(values, kind.arrow), wrong
    except _REFUSALS:
        pass
    fits = [_fits(value, kind) for value in values]
    for row in compress(range(len(values)), [not fit for fit in fits]):
        values[row] = None
        wrong[row] = str(mismatch(f"a value is out of the range of {kind.name}"))
    return pa.array(values, kind.arrow), wrong


def _fits(value: Any, kind: Column) -> bool:
    try:
        pa.array([value], kind.arrow)
    except _REFUSALS:
        return False
    return True
