"""Relations as CREATE and its WITH clause declare them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from headrace.sql.inference import (
    Outside,
    avro_schema,
    columns_of_records,
    columns_of_schema,
    columns_of_table,
)
from headrace.sql.plan import (
    KSQL,
    ROW_OFFSET,
    ROW_PARTITION,
    ROWTIME,
    WINDOW_END,
    WINDOW_START,
    Named,
    Relation,
    RelationColumn,
)
from headrace.sql.statements import (
    Column,
    CreateSource,
    Property,
)
from headrace.sql.types import BIGINT, STRING, TIMESTAMP, Location, SqlError, near
from headrace.sql.values import check_pattern

_STREAM_NAMES, _FORMAT_NAMES = ("stream", "kafka_topic", "object"), ("format", "value_format")
_PROPERTIES = frozenset({
    *_STREAM_NAMES, *_FORMAT_NAMES, "timestamp", "timestamp_format", "value_delimiter", "partitions", "replicas",
    "key_format", "retention_ms", "key", "glue_table", "registry_name", "schema_name", "schema_version",
    "wrap_single_value",
})  # fmt: skip
_FORMATS = {
    "JSON": "JSON",
    "DELIMITED": "CSV",
    "CSV": "CSV",
    "RAW": "RAW",
    "KAFKA": "RAW",
    "AVRO": "AVRO",
}
_OF_CONFLUENT = "is of Confluent's registry: schema_name, registry_name and schema_version name a schema of Glue's"
# Formats and properties of Kafka's that have no meaning here, with a way round.
_NO_FORMATS = {
    **dict.fromkeys(
        ("PROTOBUF", "PROTOBUF_NOSR"),
        "Spark reads it with a package alone: let a Lambda function put the records into a stream of JSON or AVRO",
    ),
    "JSON_SR": f"it {_OF_CONFLUENT}; JSON reads the records",
}
_NO_PROPERTIES = {
    **dict.fromkeys(
        ("value_schema_id", "key_schema_id", "value_schema_full_name", "key_schema_full_name",
         "value_avro_schema_full_name", "value_protobuf_nullable_representation",
         "key_protobuf_nullable_representation"),
        _OF_CONFLUENT,
    ),
    **dict.fromkeys(
        ("window_type", "window_size"),
        "is of a Kafka topic's keys: a record of Kinesis carries no window beside its key, but WINDOWSTART as a column",
    ),
}  # fmt: skip
# ksqlDB's words for characters that a text of SQL does not show.
_DELIMITERS = {"SPACE": " ", "TAB": "\t"}
# Glue's, where a request names none.
_DEFAULT_REGISTRY = "default-registry"
_TIMES = (BIGINT, STRING, TIMESTAMP)


def declare_relation(
    name: str,
    columns: tuple[RelationColumn, ...],
    properties: Sequence[Property],
    location: Location,
    origin: Origin | None = None,
) -> Relation:
    """Return a relation with what its WITH clause and the `origin` of its columns say."""
    values = _check_properties(properties)
    origin = origin or Origin()
    if "key" in values:
        columns = _with_key(columns, values["key"])
    format_ = _format(values) or origin.format or "JSON"
    timestamp = _timestamp(values, columns)
    if "object" in values and not _text(values["object"]).startswith("s3://"):
        raise SqlError(
            "object is the address of a reference table, s3://bucket/key", values["object"].location
        )
    pattern = _text(values.get("timestamp_format"))
    if pattern:
        check_pattern(pattern, values["timestamp_format"].location)
    delimiter = _delimiter(values, format_) or origin.delimiter or ","
    nested = next((one for one in columns if one.type.of), None)
    if format_ == "CSV" and nested is not None:
        raise SqlError(
            f"a line of CSV has no {nested.type.name}, such as {nested.name}; JSON has", location
        )
    _check_keys(columns, values, location)
    maps = [one for column in columns for one in column.type.maps() if one.of[0] != STRING]
    if format_ == "JSON" and maps:
        raise SqlError(f"a MAP in JSON has keys of STRING, not {maps[0].of[0]}", location)
    is_value = _is_value(values, columns, format_)
    schemas = origin.schemas
    if format_ == "AVRO" and not schemas:
        # In Avro a value alone has the bytes of a record with one field.
        fields = tuple(one for one in columns if not (is_value and one.is_key))
        schemas = (("", avro_schema(name, fields, location)),)
    return Relation(
        name,
        columns,
        stream=_text(next((values[n] for n in _STREAM_NAMES if n in values), None))
        or origin.stream,
        format=format_,
        delimiter=_DELIMITERS.get(delimiter.upper(), delimiter),
        timestamp=timestamp,
        timestamp_format=pattern,
        is_value=is_value and format_ == "JSON",
        schemas=schemas if format_ == "AVRO" else (),
        origin=origin.about,
        location=location,
    )


def _is_value(
    values: dict[str, Property], columns: tuple[RelationColumn, ...], format_: str
) -> bool:
    """Return whether records are values alone, as ksqlDB's WRAP_SINGLE_VALUE = FALSE says."""
    one = values.get("wrap_single_value")
    if one is None:
        return False
    if not isinstance(one.value.value, bool):
        raise SqlError("wrap_single_value is TRUE or FALSE", one.location)
    count = sum(not column.is_key for column in columns)
    if count != 1:
        raise SqlError(
            f"wrap_single_value is of one column besides the key, and there are {count}",
            one.location,
        )
    if format_ in ("CSV", "RAW"):
        raise SqlError(f"a value alone is read of JSON and AVRO, not of {format_}", one.location)
    return not one.value.value


def _check_keys(
    columns: tuple[RelationColumn, ...], values: dict[str, Property], location: Location
) -> None:
    """Refuse a key that ksqlDB refuses: one with a MAP, and one beside the format NONE."""
    for column in columns:
        if column.is_key and column.type.maps():
            raise SqlError(f"a key has no MAP, as {column.name} is one", location)
        one = values.get("key_format")
        if column.is_key and one is not None and _text(one).upper() == "NONE":
            raise SqlError(
                f"key_format NONE is of a stream without a key, not {column.name}", one.location
            )


def _delimiter(values: dict[str, Property], format_: str) -> str:
    one = values.get("value_delimiter")
    if one is None:
        return ""
    if format_ != "CSV":
        raise SqlError(f"{format_} has no delimiter; CSV has", one.location)
    if not _text(one).strip():
        raise SqlError("a delimiter is a character, such as ';', or TAB or SPACE", one.location)
    return _text(one)


def check_columns(statement: CreateSource, dialect: str) -> None:
    """Refuse columns that a stream or a table cannot have."""
    names = Counter(column.name.lower() for column in statement.columns)
    for column in statement.columns:
        if names[column.name.lower()] > 1:
            raise SqlError(f"column {column.name!r} is there twice", column.location)
        if dialect == KSQL:
            check_name(column.name, column.location)
        if column.key == "HEADERS":
            raise SqlError(
                "a record of Kinesis has no headers: put what they say into its data",
                column.location,
            )
        if column.key == "PRIMARY KEY" and not statement.is_table:
            raise SqlError("a stream has a KEY; a PRIMARY KEY is a table's", column.location)
        if column.key == "KEY" and statement.is_table:
            raise SqlError("a table has a PRIMARY KEY", column.location)


def check_output(output: Named) -> None:
    """Refuse a name of a query's column that is another one's of every row, or of a window's."""
    location = output.expression.location
    check_name(output.name, location)
    is_bound = output.name.upper() in (WINDOW_START, WINDOW_END)
    if is_bound and output.expression != Column(output.name.upper()):
        raise SqlError(
            f"{output.name.upper()} is a window's: give the column another name", location
        )


def check_name(name: str, location: Location) -> None:
    """Refuse a column that has the name of what every row has, as ksqlDB does."""
    if name.upper() in (ROWTIME, ROW_PARTITION, ROW_OFFSET):
        raise SqlError(
            f"every row has a {name.upper()} of its own: give the column another name by AS",
            location,
        )


@dataclass(frozen=True)
class Origin:
    """Columns that the text does not name, and what else is known from where they come.

    `schemas` are Avro's definitions by the UUIDs of their versions; `about` says in words where the columns come from.
    """

    columns: tuple[RelationColumn, ...] = ()
    stream: str = ""
    format: str = ""
    delimiter: str = ""
    schemas: tuple[tuple[str, str], ...] = ()
    about: str = ""


def origin_of(statement: CreateSource, outside: Outside) -> Origin:
    """Return what INFER, glue_table or schema_name give; an empty one if the statement has none of these."""
    values = _check_properties(statement.properties)
    sources = [one for one in ("glue_table", "schema_name") if one in values]
    if statement.inferred_from:
        sources.insert(0, "INFER")
    if len(sources) > 1:
        raise SqlError(
            f"{sources[0]} and {sources[1]} both give columns: one of them", statement.location
        )
    if not sources:
        return Origin()
    if sources[0] == "INFER":
        return _infer_origin(statement, values, outside)
    return _of_table(values, outside) if sources[0] == "glue_table" else _of_schema(values, outside)


def _infer_origin(statement: CreateSource, values: dict[str, Property], outside: Outside) -> Origin:
    for name in _STREAM_NAMES:
        if name in values and _text(values[name]) != statement.inferred_from:
            raise SqlError("FROM STREAM names the stream", values[name].location)
    if _format(values) not in ("", "JSON"):
        raise SqlError(
            "INFER reads JSON, whose members have names; name the columns", statement.location
        )
    stream = statement.inferred_from
    records = outside.records(stream, statement.location)
    columns = columns_of_records(stream, records, statement.location)
    return Origin(
        columns, stream, "JSON", about=f"inferred from {len(records):,} records of {stream}"
    )


def _of_table(values: dict[str, Property], outside: Outside) -> Origin:
    one = values["glue_table"]
    database, _, table = _text(one).rpartition(".")
    database = database or "default"
    glue = outside.table(database, table, one.location)
    columns = columns_of_table(f"the table {database}.{table}", glue, one.location)
    if glue.format not in ("", "JSON", "CSV") and not _format(values):
        raise SqlError(
            f"the table {database}.{table} is {glue.format}, not JSON or CSV: WITH (format = '..') says how its "
            "records are read, and schema_name gives Avro's schema",
            one.location,
        )
    about = f"of the table {database}.{table} of Glue"
    return Origin(columns, glue.stream, glue.format, glue.delimiter, about=about)


def _of_schema(values: dict[str, Property], outside: Outside) -> Origin:
    one = values["schema_name"]
    registry = _text(values.get("registry_name")) or _DEFAULT_REGISTRY
    version = values.get("schema_version")
    if version is not None and not (
        isinstance(version.value.value, int) and version.value.value > 0
    ):
        raise SqlError("schema_version is a number from 1 on", version.location)
    number = None if version is None else version.value.value
    schema = outside.schema(registry, _text(one), number, one.location)
    columns = columns_of_schema(_text(one), schema, one.location)
    about = f"of the schema {_text(one)} in the registry {registry} of Glue"
    if schema.format != "AVRO":
        return Origin(columns, format=schema.format, about=about)
    # A record without Glue's header is of the version that was asked for.
    schemas = (*schema.versions, ("", schema.versions[-1][1]))
    return Origin(columns, format="AVRO", schemas=schemas, about=about)


def _check_properties(properties: Sequence[Property]) -> dict[str, Property]:
    for one in properties:
        if one.name in _NO_PROPERTIES:
            raise SqlError(f"{one.name} {_NO_PROPERTIES[one.name]}", one.location)
        if one.name not in _PROPERTIES:
            raise SqlError(
                f"no property {one.name!r}{near(one.name, sorted(_PROPERTIES))}", one.location
            )
    return {one.name: one for one in properties}


def _with_key(columns: tuple[RelationColumn, ...], one: Property) -> tuple[RelationColumn, ...]:
    """Return columns of which the one that `KEY = '..'` names, as the old KSQL did it, is the key."""
    name = _text(one)
    if not any(column.name.lower() == name.lower() for column in columns):
        names = [column.name for column in columns]
        raise SqlError(f"key: no column {name!r}{near(name, names)}", one.location)
    keys = [column for column in columns if column.is_key and column.name.lower() != name.lower()]
    if [key.name.upper() for key in keys] == ["ROWKEY"] and keys[0].type in [
        column.type for column in columns if column.name.lower() == name.lower()
    ]:
        # The old ksqlDB's: a column with the same as the record's key.
        return columns
    if keys:
        raise SqlError(f"key: the columns name another key than {name!r}", one.location)
    return tuple(replace(column, is_key=column.name.lower() == name.lower()) for column in columns)


def _format(values: dict[str, Property]) -> str:
    one = next((values[name] for name in _FORMAT_NAMES if name in values), None)
    if one is None:
        return ""
    name = _text(one).upper()
    if name not in _FORMATS:
        reason = f": {_NO_FORMATS[name]}" if name in _NO_FORMATS else ""
        raise SqlError(f"no format {name}; there are JSON, CSV, AVRO and RAW{reason}", one.location)
    return _FORMATS[name]


def _timestamp(values: dict[str, Property], columns: tuple[RelationColumn, ...]) -> str:
    one = values.get("timestamp")
    if one is None:
        return ""
    column = next((c for c in columns if c.name.lower() == _text(one).lower()), None)
    if column is None:
        raise SqlError(
            f"timestamp: no column {_text(one)!r}{near(_text(one), [c.name for c in columns])}",
            one.location,
        )
    if column.type not in _TIMES:
        raise SqlError(
            f"a timestamp is BIGINT (milliseconds), text or TIMESTAMP, not {column.type}",
            one.location,
        )
    if column.type == STRING and "timestamp_format" not in values:
        raise SqlError("a timestamp that is text needs a timestamp_format", one.location)
    return column.name


def _text(one: Property | None) -> str:
    return "" if one is None else str(one.value.value)
