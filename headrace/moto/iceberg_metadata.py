"""Writes the first metadata file of an Iceberg table that a request creates, in Glue's catalogue or in S3 Tables.

Source: iceberg.apache.org/spec (documented).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from headrace.moto.current_cloud import CURRENT

# Iceberg's last partition field number in a table without partitions.
_NO_PARTITION_FIELD = 999


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A schema: its fields in the form of Iceberg's metadata, the highest field id, the identifying fields' ids."""

    fields: Sequence[Mapping[str, Any]]
    last_id: int
    identifier_ids: Sequence[int] = field(default_factory=list[int])


def find_last_id(fields: Any) -> int:
    """Return the highest field id in fields or types, nested ones too."""
    if isinstance(fields, dict):
        numbers = [0]
        for name, item in cast("dict[str, Any]", fields).items():
            is_id = name == "id" or name.endswith("-id")
            numbers.append(item if is_id and isinstance(item, int) else find_last_id(item))
        return max(numbers)
    if isinstance(fields, list):
        return max([0, *(find_last_id(item) for item in cast("list[Any]", fields))])
    return 0


def build_metadata(
    *,
    location: str,
    schema: TableSchema,
    partitions: Sequence[Mapping[str, Any]] = (),
    sorts: Sequence[Mapping[str, Any]] = (),
    order_id: int = 1,
    properties: Mapping[str, str] | None = None,
    version: int = 2,
) -> dict[str, Any]:
    """Return the metadata of an empty table. `partitions` and `sorts` are Iceberg's; `field-id` may be missing."""
    fields = [
        {"field-id": _NO_PARTITION_FIELD + 1 + index, **field}
        for index, field in enumerate(partitions)
    ]
    first = {
        "type": "struct",
        "schema-id": 0,
        "identifier-field-ids": list(schema.identifier_ids),
        "fields": list(schema.fields),
    }
    default_order = order_id if sorts else 0
    metadata: dict[str, Any] = {
        "format-version": version,
        "table-uuid": _uuid(),
        "location": location,
        "last-updated-ms": CURRENT.clock.now_ms(),
        "last-column-id": schema.last_id,
        "current-schema-id": 0,
        "schemas": [first],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": fields}],
        "last-partition-id": max([_NO_PARTITION_FIELD, *(one["field-id"] for one in fields)]),
        "default-sort-order-id": default_order,
        "sort-orders": [{"order-id": default_order, "fields": list(sorts)}],
        "properties": dict(properties or {}),
        "current-snapshot-id": -1,
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
    }
    if version == 1:
        return {**metadata, "schema": first, "partition-spec": fields}
    return {**metadata, "last-sequence-number": 0, "refs": {}}


def new_metadata_path(location: str) -> str:
    """Return where a table's first metadata file is to be."""
    return f"{location}/metadata/00000-{_uuid()}.metadata.json"


def _uuid() -> str:
    """Return an id that stays the same when the request is repeated after a kill."""
    from moto.moto_api._internal import mock_random

    return str(mock_random.uuid4())


def put_metadata(at: str, metadata: Mapping[str, Any], account: str, region: str) -> None:
    """Write a metadata file to S3. Raises AwsError."""
    if CURRENT.control is None:
        return  # The request is repeated after a kill: the file exists already.
    bucket, _, key = at.removeprefix("s3://").partition("/")
    params = {"Bucket": bucket, "Key": key, "Body": json.dumps(metadata).encode()}
    CURRENT.control.call("s3", "PutObject", params, account=account, region=region)
