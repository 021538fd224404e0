"""Record format conversion: JSON records become a Parquet or ORC file with a Glue table's columns. Pure functions.

A column of plain values is converted in one call, which is many times faster than value by value. A column with other
values is converted value by value, which also finds the values to refuse.
"""

# pyarrow has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportUnknownLambdaType=false

from __future__ import annotations

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
from headrace.services.firehose.failures import FailedRecord
from headrace.services.firehose.hive import Column, build_column
from headrace.services.firehose.hive_values import WrongValue, mismatch
from headrace.services.firehose.records import Record
from headrace.services.firehose.serde import JsonReadOptions, OrcWriting, ParquetWriteOptions

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
