"""Creates Glue's Iceberg tables: writes the first metadata file of a table with OpenTableFormatInput.

Source: docs.aws.amazon.com/glue/latest/dg/populate-otf.html, and iceberg.apache.org/spec for the metadata (documented,
read 2026). Which Hive types are refused, and the sentences, are assumed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from headrace.core.values import get_list, get_mapping
from headrace.moto.current_cloud import CURRENT
from headrace.services.glue.hive_types import NoIcebergType, columns_of, hive_name

_VERSIONS = ("1", "2")
# Iceberg's last partition field number in a table without partitions.
_NO_PARTITION_FIELD = 999


def name_of(given: Mapping[str, Any]) -> str:
    """Return the name of the table to create. Raises moto's JsonRESTError."""
    name = (given.get("TableInput") or {}).get("Name") or given.get("Name")
    if not name:
        raise _invalid("A table needs a name.")
    return str(name)


def table_input_of(given: Mapping[str, Any], account: str, region: str) -> dict[str, Any]:
    """Write an Iceberg table's metadata file to S3, and return CreateTable's TableInput.

    Raises moto's JsonRESTError, and AwsError when S3 refuses the file.
    """
    iceberg = given["OpenTableFormatInput"]["IcebergInput"]
    table = dict(given.get("TableInput") or {})
    table["Name"] = name_of(given)
    if iceberg.get("MetadataOperation") != "CREATE":
        raise _invalid("MetadataOperation of an Iceberg table must be CREATE.")
    version = str(iceberg.get("Version") or "2")
    if version not in _VERSIONS:
        raise _invalid(f"Iceberg tables have version 1 or 2, not {version}.")
    if table.get("PartitionKeys"):
        raise _invalid("Cannot create partitions in an iceberg table")
    storage = dict(table.get("StorageDescriptor") or {})
    wanted = get_mapping(iceberg, "CreateIcebergTableInput")
    location = str(wanted.get("Location") or storage.get("Location") or "").rstrip("/")
    if not location.startswith("s3://"):
        raise _invalid("An Iceberg table needs a location in S3.")
    metadata = _metadata(wanted, storage, location, int(version))
    at = f"{location}/metadata/00000-{_uuid()}.metadata.json"
    _put(at, metadata, account, region)
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


def _uuid() -> str:
    """Return an id that stays the same when the request is repeated after a kill."""
    from moto.moto_api._internal import mock_random

    return str(mock_random.uuid4())


def _metadata(
    wanted: Mapping[str, Any], storage: Mapping[str, Any], location: str, version: int
) -> dict[str, Any]:
    try:
        fields, last_id = columns_of(
            get_list(get_mapping(wanted, "Schema"), "Fields"), get_list(storage, "Columns")
        )
    except NoIcebergType as error:
        raise _invalid(str(error)) from error
    schema = {
        "type": "struct",
        "schema-id": 0,
        "identifier-field-ids": get_list(get_mapping(wanted, "Schema"), "IdentifierFieldIds"),
        "fields": fields,
    }
    partitions = [
        {
            "name": field["Name"],
            "transform": field["Transform"],
            "source-id": field["SourceId"],
            "field-id": field.get("FieldId") or _NO_PARTITION_FIELD + 1 + place,
        }
        for place, field in enumerate(get_list(get_mapping(wanted, "PartitionSpec"), "Fields"))
    ]
    order = get_mapping(wanted, "WriteOrder")
    sorts = [
        {
            "transform": field["Transform"],
            "source-id": field["SourceId"],
            "direction": field["Direction"],
            "null-order": field["NullOrder"],
        }
        for field in get_list(order, "Fields")
    ]
    order_id = int(order.get("OrderId") or 1) if sorts else 0
    made: dict[str, Any] = {
        "format-version": version,
        "table-uuid": _uuid(),
        "location": location,
        "last-updated-ms": CURRENT.clock.now_ms(),
        "last-column-id": last_id,
        "current-schema-id": 0,
        "schemas": [schema],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": partitions}],
        "last-partition-id": max([_NO_PARTITION_FIELD, *(p["field-id"] for p in partitions)]),
        "default-sort-order-id": order_id,
        "sort-orders": [{"order-id": order_id, "fields": sorts}],
        "properties": get_mapping(wanted, "Properties"),
        "current-snapshot-id": -1,
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
    }
    if version == 1:
        return {**made, "schema": schema, "partition-spec": partitions}
    return {**made, "last-sequence-number": 0, "refs": {}}


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


def _put(at: str, metadata: Mapping[str, Any], account: str, region: str) -> None:
    if CURRENT.control is None:
        return  # The request is repeated after a kill: the file exists already.
    bucket, _, key = at.removeprefix("s3://").partition("/")
    params = {"Bucket": bucket, "Key": key, "Body": json.dumps(metadata).encode()}
    CURRENT.control.call("s3", "PutObject", params, account=account, region=region)
