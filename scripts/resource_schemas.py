"""Writes facts from AWS's resource type schemas: `schemas.json`, `property_types.json` and `aws_types.json`.

The files are in headrace/services/cloudformation/resources/; the second has each property's type, the third the names
of all of AWS's resource types.

`python -m scripts.resource_schemas` reads them from cfn-lint, which contains AWS's published schemas of us-east-1. With
--check it writes nothing, and exits 1 when a file is stale.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from headrace.services.cloudformation.resources import TYPES, list_declared_types

ROOT = Path(__file__).parent.parent
DECLARED_TYPES = set(list_declared_types())
FILE = ROOT / "headrace" / "services" / "cloudformation" / "resources" / "schemas.json"
TYPES_FILE = FILE.with_name("property_types.json")
NAMES_FILE = FILE.with_name("aws_types.json")
REGION = "us-east-1"
_NAMES = {
    "string": "String",
    "integer": "Integer",
    "number": "Number",
    "boolean": "Boolean",
    "object": "Object",
}


# Types that AWS documents and cfn-lint does not have yet, in the form of AWS's schemas. Of a queue, the pages of its
# property types are documented (TemplateReference/aws-properties-kinesis-queue-*); what identifies it, and which
# attributes it has, is assumed to be as for StreamConsumer.
_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}
NEWER: dict[str, dict[str, Any]] = {
    "AWS::Kinesis::Queue": {
        "properties": {
            "QueueARN": _TEXT,
            "QueueAttributes": {"$ref": "#/definitions/QueueAttributes"},
            "QueueCreationTimestamp": _TEXT,
            "QueueName": _TEXT,
            "QueueStatus": _TEXT,
            "StreamConfigurationList": {
                "type": "array",
                "items": {"$ref": "#/definitions/QueueStreamConfiguration"},
            },
            "Tags": {"type": "array", "items": {"$ref": "#/definitions/Tag"}},
        },
        "definitions": {
            "DeadLetterConfiguration": {
                "type": "object",
                "properties": {"MaxReceiveCount": _NUMBER, "TargetType": _TEXT},
                "required": ["TargetType"],
            },
            "QueueAttributes": {
                "type": "object",
                "properties": {
                    "DeadLetterConfiguration": {"$ref": "#/definitions/DeadLetterConfiguration"},
                    "VisibilityTimeoutSeconds": _NUMBER,
                },
            },
            "QueueStartingPosition": {
                "type": "object",
                "properties": {"Timestamp": {}, "Type": _TEXT},
                "required": ["Type"],
            },
            "QueueStreamConfiguration": {
                "type": "object",
                "properties": {
                    "StartingPosition": {"$ref": "#/definitions/QueueStartingPosition"},
                    "StreamARN": _TEXT,
                },
                "required": ["StreamARN"],
            },
            "Tag": {
                "type": "object",
                "properties": {"Key": _TEXT, "Value": _TEXT},
                "required": ["Key", "Value"],
            },
        },
        "required": ["QueueName", "StreamConfigurationList"],
        "primaryIdentifier": ["/properties/QueueARN"],
        "createOnlyProperties": ["/properties/QueueName", "/properties/StreamConfigurationList"],
        "readOnlyProperties": [
            "/properties/QueueARN",
            "/properties/QueueCreationTimestamp",
            "/properties/QueueStatus",
        ],
    }
}


def aws_schema(name: str) -> dict[str, Any]:
    """Return a type's schema: cfn-lint's, or else that of `NEWER`."""
    if name in NEWER and name not in PROVIDER_SCHEMA_MANAGER.get_resource_types(REGION):
        return NEWER[name]
    schema: Any = PROVIDER_SCHEMA_MANAGER.get_resource_schema(REGION, name).schema
    return schema


def aws_names() -> set[str]:
    """Return the names of all of AWS's resource types."""
    return {*PROVIDER_SCHEMA_MANAGER.get_resource_types(REGION), *NEWER}


def schema_of(name: str) -> dict[str, Any]:
    """Return the part of a type's schema that headrace uses."""
    schema = aws_schema(name)

    def names(member: str) -> list[str]:
        pointers: list[str] = schema.get(member) or []
        paths = [pointer.removeprefix("/properties/").split("/") for pointer in pointers]
        # A nested property that is read-only or replaces the resource does not apply to its parent as a whole.
        return sorted(
            {".".join(path) for path in paths if member == "readOnlyProperties" or len(path) == 1}
        )

    fixed: list[str] = schema.get("createOnlyProperties") or []
    inside = [pointer.removeprefix("/properties/") for pointer in fixed]
    # A nested property of which the parent replaces the resource as a whole adds nothing.
    inside = sorted(path for path in inside if "/" in path and path.split("/")[0] not in inside)
    write_only: list[str] = schema.get("writeOnlyProperties") or []
    unread = sorted(pointer.removeprefix("/properties/") for pointer in write_only)
    identifier: list[str] = schema.get("primaryIdentifier") or []
    is_given = not set(identifier) & set(schema.get("readOnlyProperties") or [])
    needed = {
        "required": sorted(schema.get("required") or []),
        "primary": [path.removeprefix("/properties/") for path in identifier],
        "identifier": sorted(path.rpartition("/")[2] for path in identifier) if is_given else [],
        **({"createOnlyInside": inside} if inside else {}),
        **({"writeOnly": unread} if unread else {}),
    }
    if name not in DECLARED_TYPES:
        return needed
    return {
        **needed,
        "properties": sorted(schema["properties"]),
        "createOnly": names("createOnlyProperties"),
        "readOnly": names("readOnlyProperties"),
    }


def types_of(name: str) -> dict[str, list[Any]]:
    """Return the types of a resource's properties and of those of nested objects; see `property_types.json`."""
    schema = aws_schema(name)
    found: dict[str, list[Any]] = {"": []}

    def of_object(node: dict[str, Any]) -> list[Any]:
        types = {each: type_of(inner) for each, inner in node["properties"].items()}
        known = {each: kind for each, kind in sorted(types.items()) if kind is not None}
        return [known, sorted(node.get("required") or [])]

    def type_of(node: dict[str, Any]) -> Any:
        """Return a property's type; None if it has several or an unknown one."""
        reference = str(node.get("$ref", ""))
        if reference:
            defined = reference.removeprefix("#/definitions/")
            target = schema.get("definitions", {}).get(defined)
            if target is None:
                return None
            if target.get("type") != "object" or not target.get("properties"):
                return type_of(target)
            if defined not in found:
                found[defined] = []
                found[defined] = of_object(target)
            return f"#{defined}"
        kind = node.get("type")
        if kind == "array":
            items = node.get("items")
            inner = type_of(items) if isinstance(items, dict) else None
            return [] if inner is None else [inner]
        return _NAMES.get(kind) if isinstance(kind, str) else None

    found[""] = of_object(schema)
    return found


def _text(row: Callable[[str], Any]) -> str:
    kinds = sorted(aws_names() & {*TYPES, *DECLARED_TYPES})
    rows = [f"{json.dumps(kind)}: {json.dumps(row(kind))}" for kind in kinds]
    return "{\n" + ",\n".join(rows) + "\n}\n"


def text() -> str:
    """Return the expected text of `schemas.json`."""
    return _text(schema_of)


def text_of_types() -> str:
    """Return the expected text of `property_types.json`."""
    return _text(types_of)


def text_of_names() -> str:
    """Return the expected text of `aws_types.json`."""
    return (
        json.dumps([name for name in sorted(aws_names()) if name.startswith("AWS::")], indent=0)
        + "\n"
    )


def main(arguments: Sequence[str]) -> int:
    """Write the file, or with --check compare it."""
    written = {FILE: text(), TYPES_FILE: text_of_types(), NAMES_FILE: text_of_names()}
    if "--check" in arguments:
        there = {file: file.read_text() if file.exists() else "" for file in written}
        return 0 if there == written else 1
    for file, content in written.items():
        file.write_text(content)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
