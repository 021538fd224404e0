"""Reads records as rows of a relation, as Spark reads them, for the runner without Spark."""

from __future__ import annotations

import base64
import contextlib
import csv
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, cast

from headrace.sql import conversions
from headrace.sql.avro import BAD, avro_decoder, avro_encoder
from headrace.sql.conversions import OF_JSON, OF_LINES, read_decimal, read_double, read_whole
from headrace.sql.operators import moment
from headrace.sql.plan import Relation
from headrace.sql.types import SqlType

_DECODER = json.JSONDecoder()
# A field may be as long as a record.
csv.field_size_limit(1 << 25)


@dataclass(frozen=True)
class Record:
    """A record of Kinesis: `data` is bytes, text, or a JSON value, which is then read; `arrival` is when it came.

    `number` is its sequence number; the runner numbers a record without one.
    """

    data: Any
    key: str = ""
    arrival: datetime = conversions.EPOCH
    number: str = ""


def sequence_number(shard: int, index: int) -> str:
    """Return a sequence number as Kinesis's are made, with a shard's number and a record's place in the shard."""
    return str((2 << 184) | (index << 80) | (shard << 4) | 2)


def shard_of(number: str) -> int | None:
    """Return the number of the shard that is in a sequence number; None for a text that is none.

    Observed: AWS's example of a Lambda event (shardId-000000000006) has it there, and kinesalite decodes AWS's so.
    """
    return (int(number) >> 4) & 0xFFFF_FFFF if number.isdecimal() else None


@dataclass
class Row:
    """A row of a relation, with its event's time, and its record's sequence number and arrival."""

    columns: dict[str, Any]
    key: str
    time: datetime
    deleted: bool = False
    number: str = ""
    arrival: datetime | None = None


def read_record(relation: Relation, record: Record) -> Row | None:
    """Return the row that a record is; None for one that cannot be read, or whose time cannot."""
    data = record.data
    if isinstance(data, bytes) and relation.format != "AVRO":
        data = data.decode("utf-8", "replace")
    if relation.is_table and _is_nothing(data):
        of_key = _key_values(relation, record.key)
        if None in of_key.values():
            # What it deletes is not known.
            return None
        columns = dict.fromkeys([column.name for column in relation.columns]) | of_key
        return Row(columns, record.key, record.arrival, deleted=True, number=record.number)
    try:
        columns = _columns(relation, data)
        of_key = _key_values(relation, record.key)
        columns |= {name: value for name, value in of_key.items() if columns[name] is None}
        if relation.needs_key() and None in [columns[name] for name in of_key]:
            return None
        time = _time(relation, columns, record.arrival)
    except BAD:
        return None
    if time is None:
        return None
    return Row(columns, record.key, time, number=record.number, arrival=record.arrival)


def _is_nothing(data: Any) -> bool:
    text = data.decode("latin-1") if isinstance(data, bytes) else data
    return text is None or (isinstance(text, str) and text.strip(" ") in ("", "null"))


def _key_values(relation: Relation, key: str) -> dict[str, Any]:
    """Return what a partition key says of the key's columns: each one's part of it; None of what says nothing."""
    keys = relation.key_columns()
    parts = [key] if len(keys) == 1 else key.split("|")
    if len(parts) != len(keys):
        return dict.fromkeys([one.name for one in keys])
    return {one.name: _key_value(part, one.type) for one, part in zip(keys, parts, strict=True)}


def _key_value(text: str, type_: SqlType) -> Any:
    try:
        return None if type_.of else conversions.cast(text, type_)
    except BAD:
        return None


def error_of(relation: Relation, record: Record) -> dict[str, Any]:
    """Return what the stream of errors has of a record that cannot be read."""
    data = record.data
    if not isinstance(data, bytes):
        data = (data if isinstance(data, str) else json.dumps(data)).encode()
    return {
        "relation": relation.name,
        "message": "the record cannot be read, or its time cannot",
        "data": base64.b64encode(data).decode(),
        "partitionKey": record.key,
        "sequenceNumber": record.number,
        "arrival": record.arrival,
    }


def record_of(relation: Relation, values: dict[str, Any]) -> tuple[str, bytes]:
    """Return the partition key and the data of a record with these values; the columns without one are NULL."""
    row = {one.name: conversions.as_json(values.get(one.name)) for one in relation.columns}
    keys = [
        conversions.text(values[one.name])
        for one in relation.key_columns()
        if values.get(one.name) is not None
    ]
    # Kinesis takes no empty key.
    key = "|".join(keys) or "-"
    if relation.format == "AVRO":
        return key, avro_encoder(relation.schemas[-1][1])(row)
    if relation.is_value:
        (of_value,) = (row[one.name] for one in relation.columns if not one.is_key)
        return key, json.dumps(of_value, ensure_ascii=False).encode()
    if relation.format == "JSON":
        return key, json.dumps(row, ensure_ascii=False).encode()
    texts = ["" if one is None else conversions.text(one) for one in row.values()]
    if relation.format == "RAW":
        of_value = [
            text for text, one in zip(texts, relation.columns, strict=True) if not one.is_key
        ]
        return key, "".join(of_value).encode()
    return key, relation.delimiter.join(
        _quoted(text, relation.delimiter) for text in texts
    ).encode()


def _quoted(text: str, delimiter: str) -> str:
    """Return a field of a record as Spark writes it: in quotes where it needs them."""
    if not any(mark in text for mark in (delimiter, '"', "\n", "\r")):
        return text
    return '"' + text.replace('"', '""') + '"'


def _columns(relation: Relation, data: Any) -> dict[str, Any]:
    if relation.format == "AVRO" and isinstance(data, bytes):
        data = _decoder(relation.schemas)(data)
    if relation.format in ("JSON", "AVRO"):
        if relation.is_value:
            data = _object_of(relation, data)
        fields = _require_type(dict, _read_json(data) if isinstance(data, str) else data)
        return {c.name: _json_value(fields.get(c.name), c.type) for c in relation.columns}
    if relation.format == "CSV":
        parts = _split_record(str(data), relation.delimiter)
        # Its key may be the record's partition key alone, as KSQL writes it.
        of_value = [one for one in relation.columns if not one.is_key]
        columns = relation.columns if len(parts) == len(relation.columns) else of_value
        if len(parts) != len(columns):
            raise ValueError(data)
        values = {
            one.name: _csv_value(part, one.type) for one, part in zip(columns, parts, strict=True)
        }
        return {one.name: values.get(one.name) for one in relation.columns}
    names = [c for c in relation.columns if not c.is_key]
    return {
        c.name: conversions.cast(str(data), c.type) if c in names else None
        for c in relation.columns
    }


def _object_of(relation: Relation, data: Any) -> dict[str, Any]:
    """Return the object with the value that a record is."""
    values = json.loads(f"[{data}]") if isinstance(data, str) else [data]
    if len(values) != 1:
        raise ValueError(data)
    return {column.name: values[0] for column in relation.columns if not column.is_key}


@cache
def _decoder(schemas: tuple[tuple[str, str], ...]) -> Callable[[bytes], Any]:
    return avro_decoder(dict(schemas))


def _json_value(value: Any, type_: Any) -> Any:
    """Return a JSON value as a type; raises ValueError for one of another type, as Spark's from_json finds it."""
    if value is None:
        return None
    match type_.name:
        case "STRING":
            text = value if isinstance(value, str) else _json_text(value)
            # Java has a question mark for half a character.
            return text if text.isascii() else text.encode("utf-8", "replace").decode()
        case "BOOLEAN":
            fits = isinstance(value, bool)
        case "INT" | "BIGINT":
            bound = 2**31 if type_.name == "INT" else 2**63
            fits = (
                isinstance(value, int) and not isinstance(value, bool) and -bound <= value < bound
            )
        case "DOUBLE":
            value = OF_JSON.get(value, value) if isinstance(value, str) else value
            fits = isinstance(value, (int, float)) and not isinstance(value, bool)
            value = float(value) if fits else value
        case "DECIMAL":
            return _decimal(value if isinstance(value, str) else json.dumps(value), type_)
        case "BYTES":
            return base64.b64decode(_require_type(str, value), validate=True)
        case "TIMESTAMP" | "DATE" | "TIME":
            return conversions.read_written(value, type_)
        case "ARRAY":
            return [_json_value(item, type_.of[0]) for item in _require_type(list, value)]
        case "MAP":
            return {
                key: _json_value(item, type_.of[1])
                for key, item in _require_type(dict, value).items()
            }
        case "STRUCT":
            fields = _require_type(dict, value)
            return {
                name: _json_value(fields.get(name), of)
                for name, of in zip(type_.fields, type_.of, strict=False)
            }
        case _:
            return conversions.cast(value, type_)
    if not fits:
        raise ValueError(value)
    return value


def _read_json(text: str) -> Any:
    """Return the first value of a text: what follows it is not read, by Spark and by ksqlDB."""
    return _DECODER.raw_decode(text.lstrip(" \t\r\n"))[0]


def _json_text(value: Any) -> str:
    """Return a value as Spark has JSON for a STRING: with the words for no number of digits as texts."""
    with contextlib.suppress(ValueError):  # it has such a number
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    if isinstance(value, list):
        return f"[{','.join(map(_json_text, cast(list[Any], value)))}]"
    if isinstance(value, dict):
        pairs = cast(dict[str, Any], value).items()
        return f"{{{','.join(f'{json.dumps(key)}:{_json_text(one)}' for key, one in pairs)}}}"
    text = json.dumps(value)
    return f'"{text}"' if isinstance(value, float) and not math.isfinite(value) else text


def _require_type(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise ValueError(value)  # noqa: TRY004 - the record is bad, not the code
    return value


def _split_record(text: str, delimiter: str) -> list[str]:
    """Return a record's parts; one in quotes may have the delimiter in it. Its line may end, and is the only one."""
    text = text.rstrip("\r\n")
    if '"' not in text and ("\n" in text or "\r" in text):
        raise ValueError(text)
    if '"' not in text or len(delimiter) > 1:
        return text.split(delimiter)
    try:
        return next(csv.reader([text], delimiter=delimiter, strict=True))
    except csv.Error as error:
        # It has another line after its quotes, or its quotes do not stand around a whole field.
        raise ValueError(text) from error


def _csv_value(text: str, type_: Any) -> Any:
    if text == "":
        return None
    if type_.name in ("TIMESTAMP", "DATE", "TIME"):
        return conversions.read_written(text, type_)
    match type_.name:
        case "BOOLEAN" if text.lower() in ("true", "false"):
            return text.lower() == "true"
        case "INT" | "BIGINT" if read_whole(text) is not None:
            value = conversions.cast(text, type_)
        case "DOUBLE":
            value = read_double(text, OF_LINES)
        case "DECIMAL":
            value = _decimal(text, type_)
        case "BOOLEAN" | "INT" | "BIGINT":
            value = None
        case _:
            value = conversions.cast(text, type_)
    if value is None:
        raise ValueError(text)
    return value


def _decimal(text: str, type_: SqlType) -> Decimal:
    """Return a DECIMAL; raises ValueError for a text that is none, or has more digits."""
    number = read_decimal(text)
    value = None if number is None else conversions.decimal(number, type_)
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
        else conversions.read(value, relation.timestamp_format)
    )
