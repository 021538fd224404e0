"""Relations as CREATE and its WITH clause declare them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.sql.errors import Place, SqlError
from headrace.sql.plan import (
    Relation,
    RelationColumn,
)
from headrace.sql.statements import (
    Property,
)
from headrace.sql.types import BIGINT, STRING, TIMESTAMP
from headrace.sql.typing import check_pattern, near

_STREAM_NAMES, _FORMAT_NAMES = ("stream", "kafka_topic", "object"), ("format", "value_format")
_PROPERTIES = frozenset({
    *_STREAM_NAMES, *_FORMAT_NAMES, "timestamp", "timestamp_format", "value_delimiter", "partitions", "replicas",
    "key_format", "retention_ms", "key",
})  # fmt: skip
_FORMATS = {"JSON": "JSON", "DELIMITED": "CSV", "CSV": "CSV", "RAW": "RAW", "KAFKA": "RAW"}
_TIMES = (BIGINT, STRING, TIMESTAMP)


def declare_relation(
    name: str,
    columns: tuple[RelationColumn, ...],
    properties: Sequence[Property],
    place: Place,
) -> Relation:
    """Return a relation with what its WITH clause says."""
    values = {one.name: one for one in properties}
    for one in properties:
        if one.name not in _PROPERTIES:
            raise SqlError(
                f"no property {one.name!r}{near(one.name, sorted(_PROPERTIES))}", one.place
            )
    if "key" in values:
        columns = _with_key(columns, values["key"])
    format_ = _format(values)
    timestamp = _timestamp(values, columns)
    if "object" in values and not _text(values["object"]).startswith("s3://"):
        raise SqlError(
            "object is the address of a reference table, s3://bucket/key", values["object"].place
        )
    pattern = _text(values.get("timestamp_format"))
    if pattern:
        check_pattern(pattern, values["timestamp_format"].place)
    return Relation(
        name,
        columns,
        stream=_text(next((values[n] for n in _STREAM_NAMES if n in values), None)),
        format=format_,
        delimiter=_text(values.get("value_delimiter")) or ",",
        timestamp=timestamp,
        timestamp_format=pattern,
        place=place,
    )


def _with_key(columns: tuple[RelationColumn, ...], one: Property) -> tuple[RelationColumn, ...]:
    """Return columns of which the one that `KEY = '..'` names, as the old KSQL did it, is the key."""
    name = _text(one)
    if not any(column.name.lower() == name.lower() for column in columns):
        names = [column.name for column in columns]
        raise SqlError(f"key: no column {name!r}{near(name, names)}", one.place)
    if any(column.is_key and column.name.lower() != name.lower() for column in columns):
        raise SqlError(f"key: the columns name another key than {name!r}", one.place)
    return tuple(replace(column, is_key=column.name.lower() == name.lower()) for column in columns)


def _format(values: dict[str, Property]) -> str:
    one = next((values[name] for name in _FORMAT_NAMES if name in values), None)
    if one is None:
        return "JSON"
    name = _text(one).upper()
    if name not in _FORMATS:
        raise SqlError(f"no format {name}; there are JSON, CSV and RAW", one.place)
    return _FORMATS[name]


def _timestamp(values: dict[str, Property], columns: tuple[RelationColumn, ...]) -> str:
    one = values.get("timestamp")
    if one is None:
        return ""
    column = next((c for c in columns if c.name.lower() == _text(one).lower()), None)
    if column is None:
        raise SqlError(
            f"timestamp: no column {_text(one)!r}{near(_text(one), [c.name for c in columns])}",
            one.place,
        )
    if column.type not in _TIMES:
        raise SqlError(
            f"a timestamp is BIGINT (milliseconds), text or TIMESTAMP, not {column.type}",
            one.place,
        )
    if column.type == STRING and "timestamp_format" not in values:
        raise SqlError("a timestamp that is text needs a timestamp_format", one.place)
    return column.name


def _text(one: Property | None) -> str:
    return "" if one is None else str(one.value.value)
