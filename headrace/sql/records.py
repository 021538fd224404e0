"""Reads records as rows of a relation, as Spark reads them, for the runner without Spark."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.sql import conversions, java_times
from headrace.sql.operators import moment
from headrace.sql.plan import (
    Relation,
)


@dataclass(frozen=True)
class Record:
    """A record of Kinesis: `data` is a JSON value, or text; `arrival` is when it came."""

    data: Any
    key: str = ""
    arrival: datetime = conversions.EPOCH


@dataclass
class Row:
    """A row of a relation, with its event's time."""

    columns: dict[str, Any]
    key: str
    time: datetime
    deleted: bool = False


def read_record(relation: Relation, record: Record) -> Row | None:
    """Return the row that a record is; None for one that cannot be read, or whose time cannot."""
    data = record.data
    if relation.is_table and data in (None, "", "null"):
        columns = {column.name: None for column in relation.columns}
        for column in relation.key_columns():
            columns[column.name] = conversions.cast(record.key, column.type)
        return Row(columns, record.key, record.arrival, deleted=True)
    try:
        columns = _columns(relation, data)
        keys = relation.key_columns()
        if len(keys) == 1 and columns[keys[0].name] is None:
            columns[keys[0].name] = conversions.cast(record.key, keys[0].type)
        time = _time(relation, columns, record.arrival)
    except (ValueError, ArithmeticError, TypeError, LookupError):
        return None
    return None if time is None else Row(columns, record.key, time)


def _columns(relation: Relation, data: Any) -> dict[str, Any]:
    if relation.format == "JSON":
        fields = _as(dict, json.loads(data) if isinstance(data, str) else data)
        return {c.name: _json_value(fields.get(c.name), c.type) for c in relation.columns}
    if relation.format == "CSV":
        parts = _delimited(str(data), relation.delimiter)
        if len(parts) != len(relation.columns):
            raise ValueError(data)
        return {
            c.name: _csv_value(part, c.type)
            for c, part in zip(relation.columns, parts, strict=False)
        }
    names = [c for c in relation.columns if not c.is_key]
    return {
        c.name: conversions.cast(str(data), c.type) if c in names else None
        for c in relation.columns
    }


def _json_value(value: Any, type_: Any) -> Any:
    """Return a JSON value as a type; raises ValueError for one of another type, as Spark's from_json finds it."""
    if value is None:
        return None
    match type_.name:
        case "STRING" | "TIME":
            return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        case "BOOLEAN":
            fits = isinstance(value, bool)
        case "INT" | "BIGINT":
            bound = 2**31 if type_.name == "INT" else 2**63
            fits = (
                isinstance(value, int) and not isinstance(value, bool) and -bound <= value < bound
            )
        case "DOUBLE":
            fits = isinstance(value, (int, float)) and not isinstance(value, bool)
            value = float(value) if fits else value
        case "ARRAY":
            return [_json_value(item, type_.of[0]) for item in _as(list, value)]
        case "MAP":
            return {key: _json_value(item, type_.of[1]) for key, item in _as(dict, value).items()}
        case "STRUCT":
            fields = _as(dict, value)
            return {
                name: _json_value(fields.get(name), of)
                for name, of in zip(type_.fields, type_.of, strict=False)
            }
        case _:
            return conversions.cast(value, type_)
    if not fits:
        raise ValueError(value)
    return value


def _as(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise ValueError(value)  # noqa: TRY004 - the record is bad, not the code
    return value


def _delimited(text: str, delimiter: str) -> list[str]:
    """Return a record's parts; one in quotes may have the delimiter in it."""
    if '"' not in text or len(delimiter) > 1:
        return text.split(delimiter)
    return next(csv.reader([text], delimiter=delimiter, escapechar="\\"))


def _csv_value(text: str, type_: Any) -> Any:
    if text == "":
        return None
    value = conversions.cast(text, type_)
    if value is None:
        raise ValueError(text)
    return value


def _time(relation: Relation, columns: dict[str, Any], arrival: datetime) -> datetime | None:
    if not relation.timestamp:
        return arrival
    value = columns[relation.timestamp]
    if value is None or isinstance(value, datetime):
        return value
    return (
        moment(value)
        if isinstance(value, int)
        else java_times.read(value, relation.timestamp_format)
    )
