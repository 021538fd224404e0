"""S3 Tables: a table's files lie in headrace's S3, CreateTable writes its metadata, only what is empty is deleted.

Source: docs.aws.amazon.com/AmazonS3/latest/API, API_s3Buckets_CreateTable and s3-tables-buckets-delete (documented);
the refusals' sentences are assumed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from typing import Any

from headrace.core.values import get_list, get_mapping
from headrace.moto.current_cloud import CURRENT
from headrace.moto.iceberg_metadata import (
    TableSchema,
    build_metadata,
    find_last_id,
    new_metadata_path,
    put_metadata,
)
from headrace.moto.storage.stored_names import stored_as

_PRIMITIVE = re.compile(
    r"boolean|int|long|float|double|date|time|timestamp|timestamptz|string|uuid|binary"
    r"|decimal\(\d{1,2}, ?\d{1,2}\)|fixed\[\d{1,9}\]"
)
_SUFFIX = "--table-s3"


@stored_as("s3tables_storage")
class Storage:
    """The bucket that holds a table's files, by its name."""

    def __init__(self, name: str) -> None:
        self.name = name


def keep_files(module: Any) -> None:
    """Keep the files of tables in headrace's S3, and refuse to delete what is not empty."""
    table, backend = module.Table, module.S3TablesBackend
    delete_bucket, delete_namespace = backend.delete_table_bucket, backend.delete_namespace

    def create_storage(self: Any) -> Storage:
        name = f"{module.random.uuid4()}{_SUFFIX}"
        if CURRENT.storage is not None:
            CURRENT.storage.create(name, account=self.account_id, region=self.region_name)
        return Storage(name)

    def delete_table(
        self: Any, table_bucket_arn: str, namespace: str, name: str, version_token: str | None
    ) -> None:
        gone = self.get_table(table_bucket_arn, namespace, name)
        if version_token and version_token != gone.version_token:
            raise module.VersionTokenMismatch
        # The table first: a kill between the two leaves files without a table.
        del self.table_buckets[table_bucket_arn].namespaces[namespace].tables[name]
        if CURRENT.storage is not None:
            CURRENT.storage.remove(gone._bucket.name)

    @functools.wraps(delete_bucket)
    def delete_table_bucket(self: Any, table_bucket_arn: str) -> None:
        if self.get_table_bucket(table_bucket_arn).namespaces:
            raise module.ConflictException("The bucket that you tried to delete is not empty.")
        delete_bucket(self, table_bucket_arn)

    @functools.wraps(delete_namespace)
    def delete_empty_namespace(self: Any, table_bucket_arn: str, namespace: str) -> None:
        if self.get_namespace(table_bucket_arn, namespace).tables:
            raise module.ConflictException("The namespace that you tried to delete is not empty.")
        delete_namespace(self, table_bucket_arn, namespace)

    def name_by_id(self: Any) -> str:
        """Return AWS's ARN of a table, which stays when the table is renamed."""
        return f"{self.table_bucket_arn}/table/{self._bucket.name.removesuffix(_SUFFIX)}"

    table._create_underlying_bucket = create_storage
    table.arn = property(name_by_id)
    backend.delete_table = delete_table
    backend.delete_table_bucket = delete_table_bucket
    backend.delete_namespace = delete_empty_namespace


def write_metadata(module: Any) -> None:
    """Let CreateTable write the metadata of a table that its request describes."""
    response = module.S3TablesResponse
    create = response.create_table

    @functools.wraps(create)
    def create_table(self: Any) -> Any:
        iceberg = get_mapping(get_mapping(json.loads(self.body), "metadata"), "iceberg")
        # Read before the table is there: a refusal must leave none.
        schema = _read_schema(iceberg) if iceberg else None
        status, headers, body = create(self)
        if schema is not None:
            table = _find_table(self)
            location = table.warehouse_location
            order = get_mapping(iceberg, "writeOrder")
            metadata = build_metadata(
                location=location,
                schema=schema,
                partitions=get_list(get_mapping(iceberg, "partitionSpec"), "fields"),
                sorts=get_list(order, "fields"),
                order_id=int(order.get("order-id") or 1),
                properties=get_mapping(iceberg, "properties"),
            )
            at = new_metadata_path(location)
            put_metadata(at, metadata, table.account_id, table.region_name)
            table.metadata_location = at
        return status, headers, body

    response.create_table = create_table


def _find_table(response: Any) -> Any:
    from urllib.parse import unquote

    _, bucket, namespace = response.raw_path.lstrip("/").split("/")
    name = json.loads(response.body)["name"]
    return response.s3tables_backend.get_table(unquote(bucket), namespace, name)


def _read_schema(iceberg: Mapping[str, Any]) -> TableSchema:
    """Return a request's schema, with ids where it has none. Raises moto's BadRequestException."""
    whole = get_mapping(iceberg, "schemaV2")
    field_list = get_list(whole or get_mapping(iceberg, "schema"), "fields")
    fields: list[dict[str, Any]] = []
    for index, field in enumerate(field_list):
        kind = field["type"]
        if isinstance(kind, str) and _PRIMITIVE.fullmatch(kind) is None:
            raise _refuse(f"Type {kind[:100]} of field {field['name']} is none of Iceberg's.")
        fields.append(
            {
                "id": int(field.get("id") or index + 1),
                "name": field["name"],
                "required": bool(field.get("required")),
                "type": kind,
                **({"doc": field["doc"]} if field.get("doc") else {}),
            }
        )
    if not fields:
        raise _refuse("The schema of a table needs a field.")
    if len({field["id"] for field in fields}) < len(fields):
        raise _refuse("The ids of a schema's fields must be unique.")
    return TableSchema(fields, find_last_id(fields), get_list(whole, "identifier-field-ids"))


def _refuse(message: str) -> Exception:
    from moto.s3tables.exceptions import BadRequestException

    return BadRequestException(message)
