"""Record format conversion: JSON to Parquet through a Glue table's schema. Pure functions over records."""

# pyarrow has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportUnknownLambdaType=false

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.core.ports import StreamRecord, TableSchema
from headrace.services.firehose.failures import Failed
from headrace.services.firehose.hive import Convert, WrongValue, column

MALFORMED = "DataFormatConversion.MalformedData"
_decode = msgspec.json.Decoder().decode
_scan = json.JSONDecoder().raw_decode


@dataclass(slots=True)
class Converted:
    """A Parquet file, its rows, and the records left out."""

    data: bytes
    rows: int
    failed: list[Failed] = field(default_factory=list[Failed])


def to_parquet(
    records: Sequence[StreamRecord], schema: TableSchema, *, compression: str
) -> Converted:
    """Return one Parquet file of all objects in `records`; a record with a bad one is left out whole.

    Keys match columns without regard to case, as the OpenX SerDe does; unknown keys are dropped, and
    missing ones are null. Raises UnknownType.
    """
    columns = [(name.lower(), *column(kind)) for name, kind in schema.columns]
    values: list[list[Any]] = [[] for _ in columns]
    failed: list[Failed] = []
    converts = [(name, convert) for name, _, convert in columns]
    rows = 0
    for record in records:
        try:
            made = [_row(item, converts) for item in _objects(record.data)]
        except (WrongValue, ValueError) as error:
            failed.append(Failed(record, MALFORMED, str(error)))
            continue
        for row in made:
            rows += 1
            for cells, value in zip(values, row, strict=True):
                cells.append(value)
    fields = [pa.field(name, arrow) for name, arrow, _ in columns]
    table = pa.table(
        [pa.array(cells, arrow) for cells, (_, arrow, _) in zip(values, columns, strict=True)],
        schema=pa.schema(fields),
    )
    written = io.BytesIO()
    pq.write_table(table, written, compression=compression)
    return Converted(written.getvalue(), rows, failed)


def _objects(data: bytes) -> list[dict[str, Any]]:
    """Return the JSON objects in a record; several may follow each other. Raises ValueError."""
    try:
        found = [_decode(data)]
    except msgspec.DecodeError:
        found = []
        text, place = data.decode(), 0
        while place < len(text):
            if text[place].isspace():
                place += 1
                continue
            value, place = _scan(text, place)
            found.append(value)
        if not found:
            raise ValueError("the record is empty") from None
    for value in found:
        if not isinstance(value, dict):
            raise WrongValue("the record is not a JSON object")
    return cast("list[dict[str, Any]]", found)


def _row(item: dict[str, Any], converts: list[tuple[str, Convert]]) -> list[Any]:
    if any(key != key.lower() for key in item):
        item = {key.lower(): value for key, value in item.items()}
    row: list[Any] = []
    for name, convert in converts:
        value = item.get(name)
        try:
            row.append(None if value is None else convert(value))
        except WrongValue as error:
            raise WrongValue(f"{name}: {error}") from error
    return row
