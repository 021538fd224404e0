"""Creates Glue's Iceberg tables: writes the first metadata file of a table with OpenTableFormatInput.

Source: docs.aws.amazon.com/glue/latest/dg/populate-otf.html, and iceberg.apache.org/spec for the metadata (documented,
read 2026). Which Hive types are refused, and the sentences, are assumed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from headrace.core.values import get_list, get_mapping, parse_json
from headrace.moto.iceberg_metadata import (
    TableSchema,
    build_metadata,
    find_last_id,
    new_metadata_path,
    put_metadata,
)

# Converts between Hive's type names, which Glue's columns use, and Iceberg's types. Pure functions.

_MOST_LEVELS = 64
_PLAIN = {
    "boolean": "boolean",
    "int": "int",
    "integer": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp with local time zone": "timestamptz",
    "binary": "binary",
}
_HIVE = {"long": "bigint", "timestamptz": "timestamp", "time": "string", "uuid": "string"}
_DECIMAL = re.compile(r"decimal\((\d{1,2}),\s*(\d{1,2})\)")
_CHARS = re.compile(r"(?:var)?char\(\d+\)")


class NoIcebergType(ValueError):
    """A type has no counterpart in Iceberg; the message is a sentence that says so."""


class _Ids:
    def __init__(self, last: int) -> None:
        self.last = last

    def next(self) -> int:
        self.last += 1
        return self.last


def columns_of(
    fields: Sequence[Mapping[str, Any]], columns: Sequence[Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], int]:
    """Return a schema's fields in the form of Iceberg's metadata, and the highest field id. Raises NoIcebergType.

    Args:
        fields: an IcebergSchema's; empty for none, and then `columns` define the schema.
        columns: a StorageDescriptor's.
    """
    if fields:
        return _read_fields(fields)
    ids = _Ids(len(columns))
    schema_fields: list[dict[str, Any]] = []
    for index, column in enumerate(columns):
        field: dict[str, Any] = {
            "id": index + 1,
            "name": str(column["Name"]),
            "required": False,
            "type": _type_of(str(column.get("Type") or "string").strip().lower(), ids, 0),
        }
        if column.get("Comment"):
            field["doc"] = str(column["Comment"])
        schema_fields.append(field)
    if not schema_fields:
        raise NoIcebergType("An Iceberg table needs a column.")
    return schema_fields, ids.last


def _read_fields(fields: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    schema_fields: list[dict[str, Any]] = []
    for column in fields:
        kind = column["Type"]
        if isinstance(kind, str) and kind.lstrip().startswith("{"):
            try:
                kind = parse_json(kind)
            except ValueError as error:
                raise NoIcebergType(f"The type of field {column['Name']} is no JSON.") from error
        field = {
            "id": int(column["Id"]),
            "name": str(column["Name"]),
            "required": bool(column["Required"]),
            "type": kind,
        }
        if column.get("Doc"):
            field["doc"] = str(column["Doc"])
        schema_fields.append(field)
    return schema_fields, find_last_id(schema_fields)


def _type_of(text: str, ids: _Ids, level: int) -> Any:
    if text in _PLAIN:
        return _PLAIN[text]
    if _CHARS.fullmatch(text):
        return "string"
    decimal = _DECIMAL.fullmatch(text)
    if decimal is not None and 1 <= int(decimal.group(1)) <= 38:
        return f"decimal({int(decimal.group(1))}, {int(decimal.group(2))})"
    outer, bracket, inner = text.partition("<")
    if not bracket or not inner.endswith(">") or level > _MOST_LEVELS:
        raise NoIcebergType(f"Type {text[:100]} is none of an Iceberg table.")
    parts = _parts(inner[:-1])
    if outer == "array" and len(parts) == 1:
        element = ids.next()
        return {
            "type": "list",
            "element-id": element,
            "element": _type_of(parts[0], ids, level + 1),
            "element-required": False,
        }
    if outer == "map" and len(parts) == 2:
        key, value = ids.next(), ids.next()
        return {
            "type": "map",
            "key-id": key,
            "key": _type_of(parts[0], ids, level + 1),
            "value-id": value,
            "value": _type_of(parts[1], ids, level + 1),
            "value-required": False,
        }
    if outer == "struct":
        return _struct(parts, ids, level)
    raise NoIcebergType(f"Type {text[:100]} is none of an Iceberg table.")


def _struct(parts: Sequence[str], ids: _Ids, level: int) -> dict[str, Any]:
    numbers = [ids.next() for _ in parts]
    fields: list[dict[str, Any]] = []
    for number, part in zip(numbers, parts, strict=True):
        name, colon, kind = part.partition(":")
        if not colon or not name.strip():
            raise NoIcebergType(f"{part[:100]} is no field of a struct.")
        field_type = _type_of(kind.strip(), ids, level + 1)
        fields.append({"id": number, "name": name.strip(), "required": False, "type": field_type})
    return {"type": "struct", "fields": fields}


def _parts(text: str) -> list[str]:
    """Return the parts between commas that are outside brackets."""
    parts, start, depth = list[str](), 0, 0
    for index, letter in enumerate(text):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth:
            parts.append(text[start:index].strip())
            start = index + 1
    return [*parts, text[start:].strip()]


def hive_name(kind: Any) -> str:
    """Return Hive's name of an Iceberg type."""
    if isinstance(kind, str):
        if kind.startswith("fixed"):
            return "binary"
        return _HIVE.get(kind, kind.replace(", ", ","))
    of = cast("dict[str, Any]", kind)
    match of["type"]:
        case "list":
            return f"array<{hive_name(of['element'])}>"
        case "map":
            return f"map<{hive_name(of['key'])},{hive_name(of['value'])}>"
        case _:
            fields = ",".join(f"{f['name']}:{hive_name(f['type'])}" for f in of["fields"])
            return f"struct<{fields}>"


_VERSIONS = ("1", "2")


def name_of(request: Mapping[str, Any]) -> str:
    """Return the name of the table to create. Raises moto's JsonRESTError."""
    name = (request.get("TableInput") or {}).get("Name") or request.get("Name")
    if not name:
        raise _invalid("A table needs a name.")
    return str(name)


def table_input_of(request: Mapping[str, Any], account: str, region: str) -> dict[str, Any]:
    """Write an Iceberg table's metadata file to S3, and return CreateTable's TableInput.

    Raises moto's JsonRESTError, and AwsError when S3 refuses the file.
    """
    iceberg = request["OpenTableFormatInput"]["IcebergInput"]
    table = dict(request.get("TableInput") or {})
    table["Name"] = name_of(request)
    if iceberg.get("MetadataOperation") != "CREATE":
        raise _invalid("MetadataOperation of an Iceberg table must be CREATE.")
    version = str(iceberg.get("Version") or "2")
    if version not in _VERSIONS:
        raise _invalid(f"Iceberg tables have version 1 or 2, not {version}.")
    if table.get("PartitionKeys"):
        raise _invalid("Cannot create partitions in an iceberg table")
    storage = dict(table.get("StorageDescriptor") or {})
    create_iceberg_table_input = get_mapping(iceberg, "CreateIcebergTableInput")
    location = str(
        create_iceberg_table_input.get("Location") or storage.get("Location") or ""
    ).rstrip("/")
    if not location.startswith("s3://"):
        raise _invalid("An Iceberg table needs a location in S3.")
    metadata = _metadata(create_iceberg_table_input, storage, location, int(version))
    at = new_metadata_path(location)
    put_metadata(at, metadata, account, region)
    storage["Location"] = location
    storage["Columns"] = _glue_columns(metadata)
    table["StorageDescriptor"] = storage
    table.setdefault("TableType", "EXTERNAL_TABLE")
    table["Parameters"] = {
        **(table.get("Parameters") or {}),
        "table_type": "ICEBERG",
        "metadata_location": at,
    }
    return table


def _invalid(message: str) -> Exception:
    from moto.core.exceptions import JsonRESTError

    return JsonRESTError("InvalidInputException", message)


def _metadata(
    iceberg_input: Mapping[str, Any], storage: Mapping[str, Any], location: str, version: int
) -> dict[str, Any]:
    schema, order = get_mapping(iceberg_input, "Schema"), get_mapping(iceberg_input, "WriteOrder")
    try:
        fields, last_id = columns_of(get_list(schema, "Fields"), get_list(storage, "Columns"))
    except NoIcebergType as error:
        raise _invalid(str(error)) from error
    return build_metadata(
        location=location,
        schema=TableSchema(fields, last_id, get_list(schema, "IdentifierFieldIds")),
        partitions=_rename_members(get_list(get_mapping(iceberg_input, "PartitionSpec"), "Fields")),
        sorts=_rename_members(get_list(order, "Fields")),
        order_id=int(order.get("OrderId") or 1),
        properties=get_mapping(iceberg_input, "Properties"),
        version=version,
    )


_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


def _rename_members(fields: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return fields of Glue's API with Iceberg's names: `source-id` for `SourceId`."""
    return [
        {_WORD.sub("-", name).lower(): value for name, value in field.items() if value}
        for field in fields
    ]


def _glue_columns(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    columns: list[dict[str, Any]] = []
    for field in metadata["schemas"][0]["fields"]:
        column: dict[str, Any] = {
            "Name": field["name"],
            "Type": hive_name(field["type"]),
            "Parameters": {
                "iceberg.field.id": str(field["id"]),
                "iceberg.field.optional": str(not field["required"]).lower(),
                "iceberg.field.current": "true",
            },
        }
        if field.get("doc"):
            column["Comment"] = field["doc"]
        columns.append(column)
    return columns
