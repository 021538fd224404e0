"""Converts records to rows of an Iceberg table; top-level JSON keys are column names, matched exactly. Pure functions.

Source: docs.aws.amazon.com/firehose/latest/dev/apache-iceberg-considerations.html (documented, read 2026): one JSON
object a record, unknown keys are skipped. Codes are from users' reports (observed by others, 2026) except
`iceberg_routing.NOT_JSON`. Assumed: a nullable column may be missing. A record without any known key is refused
(observed by others).
"""

# pyarrow has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pyarrow as pa
from pyiceberg.schema import Schema

from headrace.services.firehose.destinations.iceberg_routing import NOT_JSON
from headrace.services.firehose.destinations.iceberg_values import (
    Kind,
    MissingField,
    WrongValue,
    find_kind,
)

MISSING_COLUMN = "Iceberg.MissingColumnWithinRecord"
WRONG_TYPE = "Iceberg.SchemaTypeMismatch"
# What an out-of-range value can raise during conversion.
_REFUSALS = (ValueError, TypeError, ArithmeticError, RecursionError, pa.ArrowException)
_decode = msgspec.json.Decoder().decode
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
