"""Columns that a text does not name: of a stream's records, of a Glue table, or of a schema of Glue's registry."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# A schema is any JSON until it is looked at.
from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from headrace.sql.avro import PRIMITIVES, full_name
from headrace.sql.plan import RelationColumn
from headrace.sql.python_function import fit, load_function
from headrace.sql.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIME,
    TIMESTAMP,
    Location,
    OwnFunction,
    SqlError,
    SqlType,
    array_of,
    common,
    map_of,
    scalar,
)

MOST_RECORDS, MOST_COLUMNS, MOST_LEVELS = 1_000, 1_000, 19
_SCALARS = {bool: BOOLEAN, int: BIGINT, float: DOUBLE, str: STRING}
_JSON_TYPES = {"string": STRING, "integer": BIGINT, "number": DOUBLE, "boolean": BOOLEAN}
_AVRO_TYPES = {"boolean": BOOLEAN, "int": INT, "long": BIGINT, "float": DOUBLE, "double": DOUBLE, "bytes": BYTES,
               "string": STRING, "enum": STRING, "fixed": BYTES}  # fmt: skip
_AVRO_TIMES = {
    f"{kind}timestamp-{unit}" for kind in ("", "local-") for unit in ("millis", "micros")
}


@dataclass(frozen=True)
class Schema:
    """A schema of the registry: `format` is AVRO, JSON or PROTOBUF.

    `versions` are the definitions of its versions by their UUIDs, in order; the last one is that which is asked for.
    """

    format: str
    versions: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class GlueTable:
    """A table of Glue's catalog: its columns with Hive's types, its stream (empty: none), and its classification.

    `format` is the classification in upper case, such as JSON or PARQUET; empty for a table that has none.
    """

    columns: tuple[tuple[str, str], ...]
    stream: str
    format: str
    delimiter: str = ""


class Outside(Protocol):
    """What a text may ask for besides itself. Each raises SqlError with the location for what is not there.

    `failures` are the calls of queries' own functions that failed, by name: how many, and the first one's problem.
    """

    failures: dict[str, tuple[int, str]]

    def records(self, stream: str, location: Location) -> Sequence[bytes]:
        """Return a stream's oldest records, at most MOST_RECORDS."""
        ...

    def table(self, database: str, name: str, location: Location) -> GlueTable:
        """Return a table of Glue's catalog."""
        ...

    def schema(self, registry: str, name: str, version: int | None, location: Location) -> Schema:
        """Return a schema of Glue's registry, up to a version, or all of them."""
        ...

    def file(self, path: str, location: Location) -> str:
        """Return the text of a file that stands beside the SQL's."""
        ...

    def call(self, own: OwnFunction, result: Sequence[Any], arguments: Sequence[Any]) -> Any:
        """Return what a query's own function gives, of the type `result`; raises ValueError if it fails."""
        ...


class Nothing:
    """Answers for a text alone: nothing is there besides it."""

    def __init__(self) -> None:
        self.failures: dict[str, tuple[int, str]] = {}
        self._loaded: dict[OwnFunction, Callable[..., Any]] = {}

    def records(self, stream: str, location: Location) -> Sequence[bytes]:
        """Refuse."""
        raise SqlError(f"INFER reads the records of {stream}, and no cloud is asked here", location)

    def table(self, database: str, name: str, location: Location) -> GlueTable:
        """Refuse."""
        raise SqlError(
            f"glue_table asks Glue for {database}.{name}, and no cloud is asked", location
        )

    def schema(self, registry: str, name: str, version: int | None, location: Location) -> Schema:
        """Refuse."""
        raise SqlError(f"schema_name asks Glue for {name}, and no cloud is asked here", location)

    def file(self, path: str, location: Location) -> str:
        """Refuse."""
        raise SqlError(f"no file {path}: no folder is read here", location)

    def call(self, own: OwnFunction, result: Sequence[Any], arguments: Sequence[Any]) -> Any:
        """Call the function in this process, unbounded; its file is run once."""
        try:
            if own not in self._loaded:
                self._loaded[own] = load_function(own.source, own.file, own.name)
            return fit(self._loaded[own](*arguments), result)
        except Exception as error:
            raise ValueError(f"{own.name}: {error}") from error


class Folder(Nothing):
    """Answers for a text in a folder, whose files alone are there besides it."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def file(self, path: str, location: Location) -> str:
        """Return the text of a file beside the SQL's; raises SqlError."""
        return read_beside(self._folder, path, location)


def read_beside(folder: Path, path: str, location: Location) -> str:
    """Return the text of a file whose path is taken from `folder`; raises SqlError."""
    try:
        return (folder / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise SqlError(f"{path} is no UTF-8 text", location) from None
    except OSError as error:
        raise SqlError(f"{path} is not read: {error.strerror}", location) from None


# Records.


@dataclass
class _Seen:
    """What the values of one place have been."""

    type: SqlType | None = None
    fields: dict[str, _Seen] = field(default_factory=dict[str, "_Seen"])
    element: _Seen | None = None
    kinds: set[str] = field(default_factory=set[str])

    def take(self, value: Any, level: int) -> None:
        if value is None:
            return
        if level >= MOST_LEVELS:
            self.kinds.add("text")
        elif isinstance(value, dict):
            self.kinds.add("object")
            for name, one in value.items():
                if name not in self.fields and len(self.fields) >= MOST_COLUMNS:
                    self.kinds.add("text")
                    return
                self.fields.setdefault(name, _Seen()).take(one, level + 1)
        elif isinstance(value, list):
            self.kinds.add("array")
            self.element = self.element or _Seen()
            for one in value:
                self.element.take(one, level + 1)
        else:
            self.kinds.add("scalar")
            type_ = _SCALARS[type(value)]
            if type_ == BIGINT and not -(2**63) <= value < 2**63:
                type_ = DOUBLE
            wider = type_ if self.type is None else common(self.type, type_)
            # Values of no common type are read as their text.
            self.type = STRING if wider is None else wider

    def result(self) -> SqlType:
        if len(self.kinds) != 1 or "text" in self.kinds:
            return STRING
        if "array" in self.kinds:
            return array_of(self.element.result() if self.element else STRING)
        if "object" in self.kinds:
            names = {name.lower() for name in self.fields}
            if not self.fields or len(names) < len(self.fields):
                return STRING
            types = tuple(one.result() for one in self.fields.values())
            return SqlType("STRUCT", types, tuple(self.fields))
        return self.type or STRING


def columns_of_records(
    stream: str, records: Iterable[bytes], location: Location
) -> tuple[RelationColumn, ...]:
    """Return the columns that records of JSON have: all their members, each of a type that holds all its values.

    A member that is never there but as null, an object whose members' names differ in case alone, and values of no
    common type are STRING: their JSON. Raises SqlError if no record is an object of JSON.
    """
    seen, count, readable = _Seen(), 0, 0
    for record in records:
        count += 1
        try:
            value = json.loads(record)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            readable += 1
            seen.take(value, 0)
    if not count:
        raise SqlError(
            f"the stream {stream} has no records to infer columns from: name the columns, or put a record first",
            location,
        )
    if not readable:
        raise SqlError(
            f"none of the first {count:,} records of {stream} is an object of JSON: name the columns",
            location,
        )
    if len(seen.fields) >= MOST_COLUMNS:
        raise SqlError(f"the records of {stream} have {MOST_COLUMNS:,} members or more", location)
    return _columns([(name, one.result()) for name, one in seen.fields.items()], stream, location)


def _columns(
    pairs: Sequence[tuple[str, SqlType]], what: str, location: Location
) -> tuple[RelationColumn, ...]:
    names: dict[str, str] = {}
    for name, _ in pairs:
        other = names.setdefault(name.lower(), name)
        if other != name:
            raise SqlError(
                f"{what} has {other!r} and {name!r}, which are one name to SQL: name the columns",
                location,
            )
    if not pairs:
        raise SqlError(f"{what} has no columns", location)
    return tuple(RelationColumn(name, type_) for name, type_ in pairs)


# Schemas of the registry.


def columns_of_schema(name: str, schema: Schema, location: Location) -> tuple[RelationColumn, ...]:
    """Return the columns of the last version of a schema; raises SqlError for one that has none."""
    if schema.format not in ("AVRO", "JSON"):
        raise SqlError(f"the schema {name} is {schema.format}; there are AVRO and JSON", location)
    try:
        definition = json.loads(schema.versions[-1][1])
        of = _Avro(definition).type_of if schema.format == "AVRO" else _json_type
        type_ = of(definition, 0)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise SqlError(f"the schema {name} cannot be read: {error}", location) from None
    if type_.name != "STRUCT":
        raise SqlError(f"the schema {name} is {type_}; a stream's is a record", location)
    return _columns(list(zip(type_.fields, type_.of, strict=True)), f"the schema {name}", location)


class _Avro:
    """Gives the types of a schema, whose named types may be named before them."""

    def __init__(self, schema: Any) -> None:
        self._names: dict[str, Any] = {}
        self._note(schema, "", 0)

    def _note(self, schema: Any, space: str, level: int) -> None:
        if level > 100:
            raise ValueError("it nests too deeply")
        if isinstance(schema, list):
            for one in schema:
                self._note(one, space, level + 1)
        elif isinstance(schema, dict):
            if "name" in schema:
                space, full = full_name(schema, space)
                self._names[full] = self._names[full.rpartition(".")[2]] = schema
            for one in schema.get("fields", ()):
                self._note(one["type"], space, level + 1)
            for member in ("items", "values", "type"):
                if isinstance(schema.get(member), (dict, list)):
                    self._note(schema[member], space, level + 1)

    def type_of(self, schema: Any, level: int) -> SqlType:
        if level > MOST_LEVELS:
            return STRING
        if isinstance(schema, list):
            others = [one for one in schema if one != "null"]
            if len(others) != 1:
                return STRING
            return self.type_of(others[0], level)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, (dict, list)):
            return self.type_of(kind, level)
        if kind == "record":
            fields = schema["fields"]
            types = tuple(self.type_of(one["type"], level + 1) for one in fields)
            return SqlType("STRUCT", types, tuple(one["name"] for one in fields))
        if kind == "array":
            return array_of(self.type_of(schema["items"], level + 1))
        if kind == "map":
            return map_of(STRING, self.type_of(schema["values"], level + 1))
        if kind not in PRIMITIVES and kind not in ("enum", "fixed"):
            return self.type_of(self._names[kind], level + 1)
        logical = schema.get("logicalType", "") if isinstance(schema, dict) else ""
        if logical in _AVRO_TIMES:
            return TIMESTAMP
        if logical == "decimal":
            return SqlType("DECIMAL", digits=(schema["precision"], schema.get("scale", 0)))
        if logical == "date":
            return DATE
        return TIME if logical.startswith("time-") else _AVRO_TYPES.get(kind, STRING)


def avro_schema(name: str, columns: Sequence[RelationColumn], location: Location) -> str:
    """Return the Avro schema of a relation's own columns: each may be null. Raises SqlError for what Avro has not."""
    record = _record(
        "KsqlDataSourceSchema", [(one.name, one.type) for one in columns], name, location
    )
    return json.dumps(record)


def _record(
    record: str, pairs: Sequence[tuple[str, SqlType]], relation: str, location: Location
) -> dict[str, Any]:
    for name, _ in pairs:
        if not (name.isascii() and name.isidentifier()):
            raise SqlError(f"{name!r} of {relation} is no name in Avro", location)
    fields = [
        {"name": name, "type": ["null", _avro_type(type_, f"{record}_{name}", relation, location)]}
        for name, type_ in pairs
    ]
    return {"type": "record", "name": record, "fields": fields}


def _avro_type(type_: SqlType, path: str, relation: str, location: Location) -> Any:
    def inner(part: SqlType, word: str) -> list[Any]:
        return ["null", _avro_type(part, f"{path}_{word}", relation, location)]

    match type_.name:
        case "STRUCT":
            return _record(path, list(zip(type_.fields, type_.of, strict=True)), relation, location)
        case "ARRAY":
            return {"type": "array", "items": inner(type_.of[0], "item")}
        case "MAP":
            if type_.of[0] != STRING:
                raise SqlError(f"a MAP in Avro has keys of STRING, not {type_.of[0]}", location)
            return {"type": "map", "values": inner(type_.of[1], "value")}
        case "DECIMAL":
            precision, scale = type_.digits
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": precision,
                "scale": scale,
            }
        case "TIMESTAMP":
            return {"type": "long", "logicalType": "timestamp-millis"}
        case "DATE":
            return {"type": "int", "logicalType": "date"}
        case "INT":
            return "int"
        case "BIGINT":
            return "long"
        case "BOOLEAN" | "DOUBLE" | "BYTES":
            return type_.name.lower()
        case _:
            return "string"


def _json_type(schema: Mapping[str, Any], level: int) -> SqlType:
    """Return the type of a JSON Schema; what it leaves open is STRING, the JSON's text."""
    kind = schema.get("type", "object" if "properties" in schema else "")
    if isinstance(kind, list):
        others = [one for one in kind if one != "null"]
        kind = others[0] if len(others) == 1 else ""
    if level > MOST_LEVELS:
        return STRING
    if kind == "object" and schema.get("properties"):
        fields = schema["properties"]
        types = tuple(_json_type(one, level + 1) for one in fields.values())
        return SqlType("STRUCT", types, tuple(fields))
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return map_of(STRING, _json_type(schema["additionalProperties"], level + 1))
    if kind == "array" and isinstance(schema.get("items"), dict):
        return array_of(_json_type(schema["items"], level + 1))
    return _JSON_TYPES.get(kind, STRING)


# Tables of the catalog.

_HIVE = {
    "string": STRING,
    "binary": BYTES,
    "float": DOUBLE,
    "tinyint": INT,
    "smallint": INT,
    "integer": INT,
}


def columns_of_table(name: str, table: GlueTable, location: Location) -> tuple[RelationColumn, ...]:
    """Return the columns of a table of Glue's catalog; raises SqlError for a type that SQL has not."""
    pairs: list[tuple[str, SqlType]] = []
    for column, text in table.columns:
        try:
            type_, rest = _hive_type(text.replace(" ", ""), 0)
        except (ValueError, IndexError, RecursionError):
            type_, rest = None, text
        if type_ is None or rest:
            raise SqlError(f"{name} has the column {column} of {text}, which SQL has not", location)
        pairs.append((column, type_))
    return _columns(pairs, name, location)


def _hive_type(text: str, level: int) -> tuple[SqlType, str]:
    """Return the type at the beginning of a text, and the text's rest; raises ValueError."""
    if level > MOST_LEVELS:
        raise ValueError(text)
    end = next((i for i, character in enumerate(text) if character in "<>,():"), len(text))
    word, rest = text[:end].lower(), text[end:]
    if word in ("array", "map", "struct") and rest.startswith("<"):
        names: list[str] = []
        types: list[SqlType] = []
        while rest[0] in "<,":
            rest = rest[1:]
            if word == "struct":
                field_name, _, rest = rest.partition(":")
                names.append(field_name)
            type_, rest = _hive_type(rest, level + 1)
            types.append(type_)
        if rest[0] != ">" or len(types) != {"array": 1, "map": 2}.get(word, len(types)):
            raise ValueError(text)
        return SqlType(word.upper(), tuple(types), tuple(names)), rest[1:]
    digits: tuple[int, ...] = ()
    if rest.startswith("("):
        inside, _, rest = rest[1:].partition(")")
        digits = tuple(map(int, inside.split(",")))
    type_ = _HIVE.get(word) or scalar(
        word, (*digits, 0)[:2] if word == "decimal" and digits else digits
    )
    if type_ is None:
        raise ValueError(text)
    return type_, rest
