"""Hive's types, which Glue's columns have: parses them, and names them as DuckDB, Arrow and Athena do. Pure functions.

Source: docs.aws.amazon.com/athena/latest/ug/data-types.html (documented).

What Glue's tables hold: locations, views, and the members that UpdateTable takes. Pure functions.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from headrace.core.values import parse_json

if TYPE_CHECKING:
    import pyarrow

MOST_LEVELS = 64
# Hive's name -> DuckDB's, Athena's in results.
_PLAIN = {
    "boolean": ("BOOLEAN", "boolean"),
    "tinyint": ("TINYINT", "tinyint"),
    "smallint": ("SMALLINT", "smallint"),
    "int": ("INTEGER", "integer"),
    "integer": ("INTEGER", "integer"),
    "bigint": ("BIGINT", "bigint"),
    "float": ("FLOAT", "float"),
    "real": ("FLOAT", "float"),
    "double": ("DOUBLE", "double"),
    "string": ("VARCHAR", "varchar"),
    "varchar": ("VARCHAR", "varchar"),
    "char": ("VARCHAR", "char"),
    "date": ("DATE", "date"),
    "timestamp": ("TIMESTAMP", "timestamp"),
    "binary": ("BLOB", "varbinary"),
    "decimal": ("DECIMAL", "decimal"),
}
# DuckDB's id of a type -> Hive's name, for tables that a query makes, and Athena's name in results.
_OF_DUCKDB = {
    "boolean": ("boolean", "boolean"),
    "tinyint": ("tinyint", "tinyint"),
    "smallint": ("smallint", "smallint"),
    "integer": ("int", "integer"),
    "bigint": ("bigint", "bigint"),
    "hugeint": ("bigint", "bigint"),
    "uhugeint": ("bigint", "bigint"),
    "utinyint": ("smallint", "smallint"),
    "usmallint": ("int", "integer"),
    "uinteger": ("bigint", "bigint"),
    "ubigint": ("bigint", "bigint"),
    "float": ("float", "float"),
    "double": ("double", "double"),
    "varchar": ("string", "varchar"),
    "json": ("string", "json"),
    "uuid": ("string", "varchar"),
    "date": ("date", "date"),
    "time": ("string", "time"),
    "timestamp": ("timestamp", "timestamp"),
    "timestamp_s": ("timestamp", "timestamp"),
    "timestamp_ms": ("timestamp", "timestamp"),
    "timestamp_ns": ("timestamp", "timestamp"),
    "timestamp with time zone": ("timestamp", "timestamp with time zone"),
    "interval": ("string", "interval day to second"),
    "blob": ("binary", "varbinary"),
    "list": ("array", "array"),
    "array": ("array", "array"),
    "struct": ("struct", "row"),
    "map": ("map", "map"),
    '"null"': ("string", "unknown"),
    "null": ("string", "unknown"),
}


class NoHiveType(ValueError):
    """A text is no type of Hive's; the message is a sentence that says so."""


@dataclass(frozen=True, slots=True)
class HiveType:
    """A type.

    Attributes:
        name: in lower case, without arguments.
        sizes: precision and scale of a decimal, the length of a varchar.
        children: an array's element; a map's key and value; a struct's fields.
        fields: the names of a struct's fields.
    """

    name: str
    sizes: tuple[int, ...] = ()
    children: tuple[HiveType, ...] = ()
    fields: tuple[str, ...] = ()

    @property
    def duckdb(self) -> str:
        """The type as DuckDB writes it."""
        parts = [child.duckdb for child in self.children]
        if self.name == "array":
            return f"{parts[0]}[]"
        if self.name == "map":
            return f"MAP({parts[0]}, {parts[1]})"
        if self.name == "struct":
            columns = zip(self.fields, parts, strict=True)
            return f"STRUCT({', '.join(f'{quote(name)} {part}' for name, part in columns)})"
        if self.name == "decimal":
            precision, scale = self.sizes if len(self.sizes) == 2 else (*(self.sizes or (10,)), 0)
            return f"DECIMAL({precision}, {scale})"
        return _PLAIN[self.name][0]

    def to_arrow(self) -> pyarrow.DataType:
        """Return the type as Arrow has it."""
        import pyarrow as pa

        parts = [child.to_arrow() for child in self.children]
        if self.name == "array":
            return pa.list_(parts[0])
        if self.name == "map":
            return pa.map_(parts[0], parts[1])
        if self.name == "struct":
            return pa.struct(list(zip(self.fields, parts, strict=True)))
        if self.name == "decimal":
            return pa.decimal128(*(self.sizes or (10, 0)))
        arrow: dict[str, Any] = {
            "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INTEGER": pa.int32(),
            "BIGINT": pa.int64(), "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "VARCHAR": pa.string(),
            "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us"), "BLOB": pa.binary(),
        }  # fmt: skip
        return arrow[_PLAIN[self.name][0]]


def quote(name: str) -> str:
    """Return a name as a quoted identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def parse_type(text: str) -> HiveType:
    """Parse a column's type, such as `struct<a:int,b:array<string>>`. Raises NoHiveType."""
    parsed, rest = _parse(text.strip(), 0)
    if rest.strip():
        raise NoHiveType(f"The type {text[:200]} ends with {rest.strip()[:50]}")
    return parsed


def _parse(text: str, level: int) -> tuple[HiveType, str]:
    """Return the type that a text begins with, and what follows it."""
    if level > MOST_LEVELS:
        raise NoHiveType(f"A type has more than {MOST_LEVELS} levels")
    text = text.lstrip()
    length = next(
        (i for i, sign in enumerate(text) if not (sign.isalnum() or sign == "_")), len(text)
    )
    name, rest = text[:length].lower(), text[length:].lstrip()
    if name in ("array", "map", "struct") and rest.startswith("<"):
        return _parse_nested(name, rest[1:], level)
    if name not in _PLAIN:
        raise NoHiveType(f"{text[:100] or 'Nothing'} is no type of Hive's")
    if not rest.startswith("("):
        return HiveType(name), rest
    sizes, closed, rest = rest[1:].partition(")")
    numbers = [number.strip() for number in sizes.split(",")]
    if not closed or len(numbers) > 2 or not all(len(n) < 6 and n.isdecimal() for n in numbers):
        raise NoHiveType(f"{text[:100]} is no type of Hive's")
    return HiveType(name, tuple(int(number) for number in numbers)), rest


def _parse_nested(name: str, text: str, level: int) -> tuple[HiveType, str]:
    fields: list[str] = []
    children: list[HiveType] = []
    while True:
        if name == "struct":
            field, colon, text = text.partition(":")
            if not colon:
                raise NoHiveType("A struct's field has no type")
            fields.append(field.strip().strip("`").lower())
        child, text = _parse(text, level + 1)
        children.append(child)
        text = text.lstrip()
        if text.startswith(","):
            text = text[1:]
            continue
        if not text.startswith(">"):
            raise NoHiveType(f"A type of {name} is not closed")
        if name != "struct" and len(children) != (1 if name == "array" else 2):
            raise NoHiveType(f"A type of {name} has {len(children)} parts")
        return HiveType(name, (), tuple(children), tuple(fields)), text[1:]


def information_name(text: str) -> str:
    """Return a column's type as `information_schema` names it; a text that is no type as it is."""
    try:
        parsed = parse_type(text)
    except NoHiveType:
        return text
    return _information(parsed)


def _information(parsed: HiveType) -> str:
    parts = [_information(child) for child in parsed.children]
    if parsed.name == "struct":
        fields = zip(parsed.fields, parts, strict=True)
        return f"row({', '.join(f'{name} {part}' for name, part in fields)})"
    if parts:
        return f"{parsed.name}({', '.join(parts)})"
    name = "real" if parsed.name in ("float", "real") else _PLAIN[parsed.name][1]
    name = "timestamp(3)" if name == "timestamp" else name
    return f"{name}({','.join(map(str, parsed.sizes))})" if parsed.sizes else name


def hive_name(duckdb_type: Any) -> str:
    """Return the Hive type of a column that a query makes; `duckdb_type` is a DuckDBPyType."""
    kind = str(duckdb_type.id)
    if kind == "decimal":
        sizes = dict(duckdb_type.children)
        return f"decimal({sizes['precision']},{sizes['scale']})"
    if kind in ("list", "array"):
        return f"array<{hive_name(dict(duckdb_type.children)['child'])}>"
    if kind == "map":
        parts = dict(duckdb_type.children)
        return f"map<{hive_name(parts['key'])},{hive_name(parts['value'])}>"
    if kind == "struct":
        return f"struct<{','.join(f'{name}:{hive_name(child)}' for name, child in duckdb_type.children)}>"
    return _OF_DUCKDB.get(kind, ("string", "varchar"))[0]


def athena_name(duckdb_type: Any) -> str:
    """Return the type of a result's column, as GetQueryResults names it."""
    kind = str(duckdb_type.id)
    return "decimal" if kind == "decimal" else _OF_DUCKDB.get(kind, ("string", "varchar"))[1]


VIEW_MARK = "/* Presto View: "
# How the refusals begin that IF NOT EXISTS and a second try look for.
TABLE_EXISTS, PATH_EXISTS = "TABLE_ALREADY_EXISTS", "HIVE_PATH_ALREADY_EXISTS"


class CatalogRefused(Exception):
    """A statement cannot run; the message is Athena's StateChangeReason."""


def split_location(location: str) -> tuple[str, str]:
    """Return the bucket and the key's beginning of a location such as `s3://bucket/folder/`. Raises CatalogRefused."""
    scheme, _, rest = location.partition("://")
    bucket, _, prefix = rest.partition("/")
    if scheme not in ("s3", "s3a", "s3n") or not bucket:
        raise CatalogRefused(f"INVALID_TABLE_PROPERTY: {location} is no location in S3")
    return bucket, prefix if not prefix or prefix.endswith("/") else f"{prefix}/"


def is_iceberg(table: Mapping[str, Any]) -> bool:
    """Whether a table of Glue's is an Iceberg table."""
    return str((table.get("Parameters") or {}).get("table_type", "")).upper() == "ICEBERG"


def input_of(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a table of Glue's that UpdateTable takes."""
    members = (
        "Name", "Description", "Owner", "PartitionKeys", "TableType", "Parameters", "Retention", "StorageDescriptor",
        "ViewOriginalText", "ViewExpandedText",
    )  # fmt: skip
    return {member: table[member] for member in members if member in table}


def folder_values(folder: str) -> dict[str, str]:
    """Return the values in a folder's name of Hive's form: `a=1/b=x%2Fy`."""
    parts = [part.split("=", 1) for part in folder.split("/")]
    return {key: unquote(value) for key, value in parts}


def view_query(table: Mapping[str, Any]) -> dict[str, str]:
    """Return the `view`'s query, and the `database` of its names that have none. Raises CatalogRefused."""
    text = str(table.get("ViewOriginalText") or "")
    try:
        encoded = text.removeprefix(VIEW_MARK).split(" ", 1)[0]
        view = parse_json(base64.b64decode(encoded))
        return {
            "view": str(view["originalSql"]),
            "database": str(view.get("schema") or table["DatabaseName"]),
        }
    except (ValueError, KeyError, TypeError) as error:
        raise CatalogRefused(f"INVALID_VIEW: Invalid view JSON: {text[:200]}") from error
