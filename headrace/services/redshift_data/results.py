"""Converts query results to the Data API's forms: typed fields, columns, or CSV."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Sequence
from typing import Any

from headrace.aws.shapes.redshift_data import ColumnMetadata, Field
from headrace.core.ports.warehouses import Column, Result
from headrace.services.redshift_data.state import StoredResult

_SIGNED = frozenset({"int2", "int4", "int8", "float4", "float8", "numeric"})
_TEXTS = frozenset({"varchar", "bpchar", "super"})
# Bytes are stored as a JSON object with this key and the bytes in base64.
_BYTES = "\x00b:"


def to_stored(result: Result) -> StoredResult | None:
    """Return a result in the form in which it is stored; None when it has no columns."""
    if result.columns is None:
        return None
    rows: list[Sequence[Any]] = [[_plain(value) for value in row] for row in result.rows]
    return StoredResult([column_of(column) for column in result.columns], rows)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return _BYTES + base64.b64encode(value).decode()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def column_of(column: Column) -> ColumnMetadata:
    """Return a column's ColumnMetadata."""
    return {
        "isCaseSensitive": column.type_name in _TEXTS,
        "isCurrency": False,
        "isSigned": column.type_name in _SIGNED,
        "label": column.name,
        "name": column.name,
        "nullable": int(column.nullable),
        "precision": column.precision or (column.length if column.type_name in _TEXTS else 0),
        "scale": column.scale,
        "schemaName": column.schema,
        "tableName": column.table,
        "typeName": column.type_name,
        "length": column.length,
    }


def size_of(kept: StoredResult) -> int:
    """Return the approximate size of a result in bytes."""
    return sum(len(value) if isinstance(value, str) else 8 for row in kept.rows for value in row)


def fields_of(row: Sequence[Any]) -> list[Field]:
    """Return a row as typed fields."""
    return [_field(value) for value in row]


def _field(value: Any) -> Field:
    match value:
        case None:
            return {"isNull": True}
        case bool():
            return {"booleanValue": value}
        case int():
            return {"longValue": value}
        case float():
            return {"doubleValue": value}
        case str() if value.startswith(_BYTES):
            return {"blobValue": base64.b64decode(value[len(_BYTES) :])}
        case _:
            return {"stringValue": str(value)}


def csv_of(kept: StoredResult, rows: Sequence[Sequence[Any]], *, first: bool) -> str:
    """Return rows as CSV; the first page begins with the column names."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    if first:
        writer.writerow([column.get("name", "") for column in kept.columns])
    for row in rows:
        writer.writerow([_to_json(value) for value in row])
    return text.getvalue()


def _to_json(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and value.startswith(_BYTES):
        return base64.b64decode(value[len(_BYTES) :]).hex()
    return "" if value is None else value
