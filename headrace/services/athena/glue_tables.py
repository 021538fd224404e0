"""What Glue's tables hold: locations, views, and the members that UpdateTable takes. Pure functions."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

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
        view = json.loads(base64.b64decode(encoded))
        return {
            "view": str(view["originalSql"]),
            "database": str(view.get("schema") or table["DatabaseName"]),
        }
    except (ValueError, KeyError, TypeError) as error:
        raise CatalogRefused(f"INVALID_VIEW: Invalid view JSON: {text[:200]}") from error
