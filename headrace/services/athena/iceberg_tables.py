"""Glue's and S3's side of Iceberg tables: makes them, and stores what a query's process commits.

The sentences of refusals are Trino's where they are known, else assumed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.services.athena.catalog import Catalog
from headrace.services.athena.hive_types import (
    PATH_EXISTS,
    TABLE_EXISTS,
    CatalogRefused,
    input_of,
    split_location,
)

MOST_METADATA_BYTES = 32 * 1024**2


class IcebergTables:
    """The Iceberg tables of a catalogue. Thread-safe, as the catalogue is."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def check_new(
        self, database: str, name: str, location: str, *, if_not_exists: bool
    ) -> dict[str, bool]:
        """Check that a table and what would lie at its location are new; return whether the table `exists`.

        Raises CatalogRefused, for a table that exists only without `if_not_exists`.
        """
        try:
            self._catalog.check_new(database, name)
        except CatalogRefused as error:
            if if_not_exists and str(error).startswith(TABLE_EXISTS):
                return {"exists": True}
            raise
        try:
            self._catalog.check_empty(location)
        except CatalogRefused as error:
            if not str(error).startswith(PATH_EXISTS):
                raise
            raise CatalogRefused(
                f"ICEBERG_FILESYSTEM_ERROR: Cannot create a table on a non-empty location: {location}"
            ) from error
        return {"exists": False}

    def create(
        self, database: str, table: dict[str, Any], partitions: Sequence[Mapping[str, str]]
    ) -> None:
        """Create an Iceberg table without rows. Raises CatalogRefused, AwsError."""
        storage: Mapping[str, Any] = table["StorageDescriptor"]
        bucket, prefix = split_location(storage["Location"])
        self._catalog.check_put(bucket, f"{prefix}metadata/")
        ids = {column["Name"]: number for number, column in enumerate(storage["Columns"], 1)}
        fields = [
            {
                "SourceId": ids[part["column"]],
                "Transform": part["transform"],
                "Name": part["name"],
                "FieldId": 1000 + number,
            }
            for number, part in enumerate(partitions)
        ]
        iceberg: dict[str, Any] = {
            "Location": storage["Location"],
            "Schema": {"Fields": []},
            "PartitionSpec": {"Fields": fields},
            "Properties": table.pop("properties"),
        }
        table["StorageDescriptor"] = {
            "Location": storage["Location"],
            "Columns": storage["Columns"],
        }
        table["Parameters"] = {"table_type": "ICEBERG"}
        operation = {
            "MetadataOperation": "CREATE",
            "Version": "2",
            "CreateIcebergTableInput": iceberg,
        }
        self._catalog.call(
            "CreateTable",
            DatabaseName=database,
            TableInput=table,
            OpenTableFormatInput={"IcebergInput": operation},
        )

    def commit(self, change: Mapping[str, Any]) -> dict[str, bool]:
        """Store a table's new files, and make its new metadata the current one.

        The files are there before the catalogue names them: a kill leaves the old snapshot, and files of no snapshot.
        Raises CatalogRefused, AwsError, BucketNotFound.

        Args:
            change: the `table`'s database and name; the `base` that the change was made from, empty of a new table; the
                new `metadata`; the `location`; Glue's `columns`; `files` by URI.

        Returns:
            `{"conflict": True}`, and nothing is stored, when the table's metadata is no longer the base.
        """
        database, name = change["table"]
        table: dict[str, Any] = {}
        if change["base"]:
            table = self._catalog.table(database, name)
            if (table.get("Parameters") or {}).get("metadata_location") != change["base"]:
                return {"conflict": True}
        else:
            self._catalog.check_new(database, name)
        for uri, path in change["files"].items():
            bucket, _, key = uri.partition("://")[2].partition("/")
            self._catalog.put(bucket, key, Path(path))
        storage = {
            **(table.get("StorageDescriptor") or {}),
            "Location": change["location"],
            "Columns": change["columns"],
        }
        parameters = {
            **(table.get("Parameters") or {}),
            "table_type": "ICEBERG",
            "metadata_location": change["metadata"],
        }
        changed = {
            **input_of(table),
            "Name": name,
            "TableType": table.get("TableType") or "EXTERNAL_TABLE",
            "StorageDescriptor": storage,
            "Parameters": parameters,
        }
        if not change["base"]:
            self._catalog.call("CreateTable", DatabaseName=database, TableInput=changed)
            return {}
        parameters["previous_metadata_location"] = change["base"]
        try:
            self._catalog.call(
                "UpdateTable",
                DatabaseName=database,
                TableInput=changed,
                SkipArchive=True,
                **({"VersionId": table["VersionId"]} if "VersionId" in table else {}),
            )
        except AwsError as error:
            if error.code != "ConcurrentModificationException":
                raise
            self._catalog.discard(change["files"])
            return {"conflict": True}
        return {}

    def read_metadata(self, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return what an Iceberg table's metadata file says. Raises CatalogRefused."""
        location = table["Parameters"].get("metadata_location", "")
        read = self._catalog.find_object(location)
        if "missing" in read:
            raise CatalogRefused(read["missing"])
        path = Path(read["path"])
        # It is read in the cloud's own process.
        if path.stat().st_size > MOST_METADATA_BYTES:
            raise CatalogRefused(
                f"NOT_SUPPORTED: headrace shows Iceberg tables whose metadata has at most {MOST_METADATA_BYTES} bytes"
            )
        try:
            return dict(json.loads(path.read_bytes()))
        except (ValueError, TypeError, RecursionError) as error:
            raise CatalogRefused(
                f"ICEBERG_INVALID_METADATA: Error reading metadata file: {location}"
            ) from error


def read_parts(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the transform and the column of each field of an Iceberg table's partitions."""
    specs = {spec["spec-id"]: spec["fields"] for spec in metadata["partition-specs"]}
    schemas = {schema.get("schema-id", 0): schema["fields"] for schema in metadata["schemas"]}
    names = {field["id"]: field["name"] for field in schemas[metadata["current-schema-id"]]}
    for field in specs[metadata["default-spec-id"]]:
        yield field["name"], field["transform"], names.get(field["source-id"], "")


def create_lines(table: Mapping[str, Any], name: str, metadata: Mapping[str, Any]) -> Iterator[str]:
    """Yield the statement that makes an Iceberg table, in the form of Athena's documented CREATE TABLE."""
    columns: Sequence[Mapping[str, str]] = table["StorageDescriptor"]["Columns"]
    yield f"CREATE TABLE {name} ("
    for number, column in enumerate(columns):
        comment = f" COMMENT '{column['Comment']}'" if column.get("Comment") else ""
        yield f"  {column['Name']} {column['Type']}{comment}{')' if number == len(columns) - 1 else ','}"
    parts: list[str] = []
    for _, transform, column in read_parts(metadata):
        kind, _, size = transform.rstrip("]").partition("[")
        arguments = f"{size}, `{column}`" if size else f"`{column}`"
        parts.append(f"`{column}`" if kind == "identity" else f"{kind}({arguments})")
    if parts:
        yield f"PARTITIONED BY ({', '.join(parts)})"
    yield f"LOCATION '{metadata['location']}'"
    shown = {"table_type": "iceberg", **metadata.get("properties", {})}
    shown.pop("write.format.default", None)
    codec = shown.pop("write.parquet.compression-codec", None)
    if codec is not None:
        shown["write_compression"] = codec
    yield "TBLPROPERTIES ("
    for number, (key, value) in enumerate(shown.items()):
        yield f"  '{key}'='{value}'{')' if number == len(shown) - 1 else ','}"
