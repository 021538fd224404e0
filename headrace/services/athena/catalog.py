"""Glue's catalogue as queries need it: describes tables and their objects, and stores what a query writes.

Sentences of refusals: Hive's and Trino's where they are known, else assumed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import partition_of
from headrace.core.clock import Clock
from headrace.core.ports import (
    BucketNotFound,
    CallerIdentity,
    ControlPlane,
    Guard,
    ObjectInfo,
    ObjectNotFound,
    ObjectStore,
)
from headrace.services.athena.formats import WRITTEN, storage_of
from headrace.services.athena.hive_types import (
    PATH_EXISTS,
    TABLE_EXISTS,
    CatalogRefused,
    folder_values,
    is_iceberg,
    split_location,
    view_query,
)
from headrace.services.athena.projection import (
    Projection,
    ProjectionRefused,
    is_projected,
    read_projection,
)

MOST_FILES = 200_000
_FAILED = "FAILED: Execution Error, return code 1 from org.apache.hadoop.hive.ql.exec.DDLTask. "


class Catalog:
    """Glue's catalogue of one account and region, and its tables' objects. Thread-safe, as its parts are."""

    def __init__(
        self,
        control: ControlPlane,
        objects: ObjectStore,
        clock: Clock,
        *,
        guard: Guard,
        acting: CallerIdentity | None,
        account: str,
        region: str,
    ) -> None:
        self._control = control
        self._objects = objects
        self._clock = clock
        self._guard, self._acting = guard, acting
        self._account, self._region = account, region

    def call(self, operation: str, **params: Any) -> dict[str, Any]:
        """Call Glue. Raises AwsError."""
        return self._control.call(
            "glue",
            operation,
            params,
            account=self._account,
            region=self._region,
            acting=self._acting,
        )

    def pages(self, operation: str, member: str, **params: Any) -> Iterator[dict[str, Any]]:
        """Yield what a call of Glue lists, page by page."""
        token: str | None = None
        while True:
            more = {"NextToken": token} if token else {}
            answer = self.call(operation, **params, **more)
            yield from answer.get(member, [])
            token = answer.get("NextToken")
            if not token:
                return

    def table(self, database: str, name: str) -> dict[str, Any]:
        """Return Glue's table. Raises CatalogRefused."""
        try:
            return dict(self.call("GetTable", DatabaseName=database, Name=name)["Table"])
        except AwsError as error:
            if error.code != "EntityNotFoundException":
                raise
        try:
            self.call("GetDatabase", Name=database)
        except AwsError as error:
            if error.code != "EntityNotFoundException":
                raise
            raise CatalogRefused(f"SCHEMA_NOT_FOUND: Schema '{database}' does not exist") from error
        raise CatalogRefused(
            f"TABLE_NOT_FOUND: Table 'awsdatacatalog.{database}.{name}' does not exist"
        )

    def _check(self, action: str, resource: str, reason: str) -> None:
        """Check that the query's caller may do something in S3. Raises CatalogRefused."""
        if self._acting is not None and (
            denial := self._guard.denial(
                self._acting, action, f"arn:{partition_of(self._region)}:s3:::{resource}"
            )
        ):
            raise CatalogRefused(f"{reason} (Service: Amazon S3; Status Code: 403): {denial}")

    def check_output(self, location: str, query_id: str) -> None:
        """Check that a query's results can be stored at a location. Raises CatalogRefused."""
        bucket, prefix = split_location(location)
        try:
            self._objects.home(bucket)
        except BucketNotFound as error:
            raise CatalogRefused(
                f"The S3 bucket of the results does not exist: {location}"
            ) from error
        self.check_put(bucket, f"{prefix}{query_id}")

    def check_put(self, bucket: str, key: str) -> None:
        """Check that an object may be stored. Raises CatalogRefused."""
        at = f"s3://{bucket}/{key}"
        self._check(
            "s3:PutObject", f"{bucket}/{key}", f"Access denied when writing to location: {at}"
        )

    def put(self, bucket: str, key: str, file: Path) -> None:
        """Store an object. Raises CatalogRefused, BucketNotFound, KeyRefused."""
        self.check_put(bucket, key)
        self._objects.put(bucket, key, file)

    # What a query reads

    def describe(self, database: str, name: str) -> dict[str, Any]:
        """Return a table as `headrace.services.athena.tables` takes it: `{"missing": reason}` when it is not there."""
        try:
            return self._describe(self.table(database, name))
        except (CatalogRefused, ProjectionRefused) as error:
            return {"missing": str(error)}
        except BucketNotFound:
            return {
                "missing": f"HIVE_METASTORE_ERROR: The bucket of the table {database}.{name} does not exist"
            }

    def _describe(self, table: Mapping[str, Any]) -> dict[str, Any]:
        if table.get("TableType") == "VIRTUAL_VIEW":
            return view_query(table)
        storage: Mapping[str, Any] = table.get("StorageDescriptor") or {}
        parameters: Mapping[str, str] = table.get("Parameters") or {}
        serde: Mapping[str, Any] = storage.get("SerdeInfo") or {}
        columns = [
            (c["Name"].lower(), c.get("Type") or "string") for c in storage.get("Columns") or []
        ]
        keys = [
            (c["Name"].lower(), c.get("Type") or "string") for c in table.get("PartitionKeys") or []
        ]
        described: dict[str, Any] = {
            "columns": columns,
            "keys": keys,
            "serde": serde.get("SerializationLibrary") or "",
            "parameters": {**parameters, **(serde.get("Parameters") or {})},
            "files": [],
        }
        if is_iceberg(table):
            # Which files it has stands in its metadata: the query's process asks for each by `find_object`.
            described["metadata"] = parameters.get("metadata_location", "")
            described["keys"] = []
            return described
        location = storage.get("Location") or ""
        if is_projected(parameters) and keys:
            files = self._list_projected_files(parameters, [name for name, _ in keys], location)
        elif keys:
            files = self._partition_files(table)
        else:
            files = ((info, uri, []) for info, uri in self._files(location))
        for number, (info, uri, values) in enumerate(files):
            if number >= MOST_FILES:
                raise CatalogRefused(
                    f"headrace reads tables of at most {MOST_FILES} objects in Athena"
                )
            path = self._readable_path(uri.split("/", 3)[2], info.key)
            described["files"].append(
                {"path": path, "uri": uri, "values": values, "size_bytes": info.size_bytes}
            )
        return described

    def _readable_path(self, bucket: str, key: str) -> str:
        """Return an object's file, if the query's caller may read it. Raises CatalogRefused, BucketNotFound."""
        self._check(
            "s3:GetObject",
            f"{bucket}/{key}",
            f"PERMISSION_DENIED: Access denied when reading s3://{bucket}/{key}",
        )
        return str(self._objects.file(bucket, key))

    def find_object(self, location: str) -> dict[str, str]:
        """Return the `path` of an object's file: `{"missing": reason}` without it, or the right to read it."""
        try:
            bucket, key = split_location(location)
            return {"path": self._readable_path(bucket, key.removesuffix("/"))}
        except CatalogRefused as error:
            return {"missing": str(error)}
        except (BucketNotFound, ObjectNotFound):
            return {"missing": f"HIVE_CANNOT_OPEN_SPLIT: {location} does not exist"}

    def list_all(self) -> list[dict[str, Any]]:
        """Return all databases with their tables' names, kinds and columns, for `information_schema`."""
        databases: list[dict[str, Any]] = []
        for database in self.pages("GetDatabases", "DatabaseList"):
            tables: list[dict[str, Any]] = []
            for table in self.pages("GetTables", "TableList", DatabaseName=database["Name"]):
                storage = table.get("StorageDescriptor") or {}
                columns = [*(storage.get("Columns") or []), *(table.get("PartitionKeys") or [])]
                is_view = table.get("TableType") == "VIRTUAL_VIEW"
                tables.append(
                    {
                        "name": table["Name"],
                        "kind": "VIEW" if is_view else "BASE TABLE",
                        "columns": [(one["Name"], one.get("Type") or "string") for one in columns],
                        "keys": [one["Name"] for one in table.get("PartitionKeys") or []],
                    }
                )
            databases.append({"name": database["Name"], "tables": tables})
        return databases

    def _files(self, location: str) -> Iterator[tuple[ObjectInfo, str]]:
        """Return the objects under a location, without the hidden and the empty ones, as Hive does."""
        bucket, prefix = split_location(location)
        return self._visible(bucket, prefix)

    def _visible(self, bucket: str, prefix: str) -> Iterator[tuple[ObjectInfo, str]]:
        for info in self.list_objects(bucket, prefix):
            name = info.key.rsplit("/", 1)[-1]
            if info.size_bytes and name and not name.startswith(("_", ".")):
                yield info, f"s3://{bucket}/{info.key}"

    def list_objects(self, bucket: str, prefix: str) -> Iterator[ObjectInfo]:
        """Yield the objects whose keys begin with a prefix. Raises CatalogRefused, BucketNotFound."""
        self._check(
            "s3:ListBucket",
            bucket,
            f"PERMISSION_DENIED: Access denied when listing s3://{bucket}/{prefix}",
        )
        return self._objects.list(bucket, prefix)

    def _partition_files(
        self, table: Mapping[str, Any]
    ) -> Iterator[tuple[ObjectInfo, str, list[str]]]:
        for partition in self.partitions(table):
            location = (partition.get("StorageDescriptor") or {}).get("Location") or ""
            for info, uri in self._files(location):
                yield info, uri, [str(value) for value in partition["Values"]]

    def partitions(self, table: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return a table's partitions."""
        return list(
            self.pages(
                "GetPartitions",
                "Partitions",
                DatabaseName=table["DatabaseName"],
                TableName=table["Name"],
            )
        )

    def _list_projected_files(
        self, parameters: Mapping[str, str], keys: Sequence[str], location: str
    ) -> Iterator[tuple[ObjectInfo, str, list[str]]]:
        projection = self._projection(parameters, keys, location)
        bucket, _, prefix = projection.prefix.partition("://")[2].partition("/")
        for info, uri in self._visible(bucket, prefix):
            values = projection.values_of(uri)
            if values is not None:
                yield info, uri, values

    def _projection(
        self, parameters: Mapping[str, str], keys: Sequence[str], location: str
    ) -> Projection:
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).replace(tzinfo=None)
        return read_projection(parameters, keys, location, now)

    # What a query writes

    def describe_target(self, database: str, name: str) -> dict[str, Any]:
        """Return a table as an INSERT takes it: `{"missing": reason}` when it cannot be written."""
        try:
            table = self.table(database, name)
        except CatalogRefused as error:
            return {"missing": str(error)}
        parameters: Mapping[str, str] = table.get("Parameters") or {}
        storage: Mapping[str, Any] = table.get("StorageDescriptor") or {}
        serde: Mapping[str, Any] = storage.get("SerdeInfo") or {}
        library = str(serde.get("SerializationLibrary") or "")
        form = WRITTEN.get(library.rsplit(".", 1)[-1])
        if is_iceberg(table):
            return {"metadata": parameters.get("metadata_location", "")}
        if form is None:
            return {"missing": f"NOT_SUPPORTED: headrace does not INSERT into {library} in Athena"}
        delimiters: Mapping[str, str] = serde.get("Parameters") or {}
        compression = parameters.get("write.compression")
        if form in ("PARQUET", "ORC"):  # `orc.compress` and `parquet.compression` are Hive's own
            hive_key = "orc.compress" if form == "ORC" else "parquet.compression"
            compression = compression or parameters.get(hive_key)
        return {
            "columns": [(c["Name"].lower(), c["Type"]) for c in storage.get("Columns") or []],
            "keys": [(c["Name"].lower(), c["Type"]) for c in table.get("PartitionKeys") or []],
            "format": form,
            "delimiter": delimiters.get("field.delim"),
            "compression": compression,
        }

    def store(self, written: Mapping[str, Any], query_id: str, output: str) -> list[str]:
        """Put the files of a query that writes where they belong; return their URIs. Raises CatalogRefused.

        Args:
            written: what `headrace.services.athena.child` says of them.
            query_id: the execution's.
            output: where the execution's results go, in the form `s3://bucket/prefix/`.
        """
        act = written["act"]
        if act["action"] == "insert":
            table = self.table(*act["table"])
            location = table["StorageDescriptor"]["Location"]
            if written["keys"] and is_projected(table.get("Parameters") or {}):
                return self._put_projected(table, written, query_id)
            uris = self._put_files(written, location, query_id)
            self._add_written(table, written)
            return uris
        if act["action"] == "unload":
            return self._put_files(written, self.check_empty(act["options"]["location"]), query_id)
        return self._create_as(written, query_id, output)

    def check_empty(self, location: str) -> str:
        """Return a location at which nothing lies yet. Raises CatalogRefused."""
        try:
            bucket, prefix = split_location(location)
            is_taken = next(self.list_objects(bucket, prefix), None) is not None
        except BucketNotFound as error:
            raise CatalogRefused(
                f"HIVE_WRITER_OPEN_ERROR: The bucket of {location} does not exist"
            ) from error
        if is_taken:
            raise CatalogRefused(f"{PATH_EXISTS}: Target directory already exists: {location}")
        return location

    def _put_files(self, written: Mapping[str, Any], location: str, query_id: str) -> list[str]:
        bucket, prefix = split_location(location)
        uris: list[str] = []
        for number, file in enumerate(written["files"]):
            under = "" if file["under"] == "." else f"{file['under']}/"
            name = f"{query_id.replace('-', '_')}_{number:05d}{written['suffix']}"
            key = f"{prefix}{under}{name}"
            self.put(bucket, key, Path(file["path"]))
            uris.append(f"s3://{bucket}/{key}")
        return uris

    def _put_projected(
        self, table: Mapping[str, Any], written: Mapping[str, Any], query_id: str
    ) -> list[str]:
        """Put files where the table's projection finds them; one that it would not find is refused (assumed)."""
        projection = self._projection(
            table["Parameters"],
            [name for name, _ in written["keys"]],
            table["StorageDescriptor"]["Location"],
        )
        located: dict[str, list[Mapping[str, Any]]] = {}
        for file in written["files"]:
            values = folder_values(file["under"])
            location = projection.location_of(values)
            if location is None:
                raise CatalogRefused(
                    f"HIVE_PARTITION_VALUE_UNSUPPORTED: The table's projection has no partition {values}"
                )
            located.setdefault(location, []).append({**file, "under": "."})
        return [
            uri
            for location, files in located.items()
            for uri in self._put_files({**written, "files": files}, location, query_id)
        ]

    def _add_written(self, table: Mapping[str, Any], written: Mapping[str, Any]) -> None:
        keys = [name for name, _ in written["keys"]]
        if not keys:
            return
        folders = sorted({file["under"] for file in written["files"]})
        added = [[values[key] for key in keys] for values in map(folder_values, folders)]
        places = [
            f"{table['StorageDescriptor']['Location'].rstrip('/')}/{folder}/" for folder in folders
        ]
        self.add_partitions(table, list(zip(added, places, strict=True)), if_not_exists=True)

    def _create_as(self, written: Mapping[str, Any], query_id: str, output: str) -> list[str]:
        act = written["act"]
        database, name = act["table"]
        options = act["options"]
        location = options.get("external_location") or f"{output}tables/{query_id}/"
        try:
            self.check_new(database, name)
        except CatalogRefused as error:
            if options.get("if_not_exists") and str(error).startswith(TABLE_EXISTS):
                return []
            raise
        uris = self._put_files(written, self.check_empty(location), query_id)
        table = {
            "Name": name,
            "TableType": "EXTERNAL_TABLE",
            "Parameters": {"EXTERNAL": "TRUE", "has_encrypted_data": "false"},
            "PartitionKeys": [{"Name": key, "Type": kind} for key, kind in written["keys"]],
            "StorageDescriptor": {
                **storage_of(written["format"], written["delimiter"]),
                "Location": location,
                "Columns": [{"Name": column, "Type": kind} for column, kind in written["made"]],
            },
        }
        self.call("CreateTable", DatabaseName=database, TableInput=table)
        self._add_written(self.table(database, name), written)
        return uris

    def delete_objects(self, uris: Sequence[str]) -> dict[str, str]:
        """Remove objects of S3. Raises CatalogRefused."""
        for uri in uris:
            place = uri.partition("://")[2]
            self._check(
                "s3:DeleteObject", place, f"Access denied when deleting from location: {uri}"
            )
        self.discard(uris)
        return {}

    def discard(self, uris: Iterable[str]) -> None:
        """Remove objects that a query has stored itself."""
        for uri in uris:
            bucket, _, key = uri.partition("://")[2].partition("/")
            self._objects.delete(bucket, key)

    def check_new(self, database: str, name: str) -> None:
        """Check that there is no such table. Raises CatalogRefused."""
        try:
            self.table(database, name)
        except CatalogRefused as error:
            if str(error).startswith("TABLE_NOT_FOUND"):
                return
            raise
        raise CatalogRefused(
            f"{TABLE_EXISTS}: Table 'awsdatacatalog.{database}.{name}' already exists"
        )

    def add_partitions(
        self,
        table: Mapping[str, Any],
        partitions: Sequence[tuple[list[str], str]],
        *,
        if_not_exists: bool,
    ) -> list[list[str]]:
        """Add partitions by their values and locations; return the values of the new ones. Raises CatalogRefused."""
        known = {tuple(map(str, one["Values"])) for one in self.partitions(table)}
        new = [(values, at) for values, at in partitions if tuple(values) not in known]
        if len(new) < len(partitions) and not if_not_exists:
            raise CatalogRefused(
                f"{_FAILED}AlreadyExistsException(message:Partition already exists.)"
            )
        storage = dict(table["StorageDescriptor"])
        for start in range(0, len(new), 100):  # BatchCreatePartition takes a hundred
            inputs = [
                {"Values": values, "StorageDescriptor": {**storage, "Location": at}}
                for values, at in new[start : start + 100]
            ]
            self.call(
                "BatchCreatePartition",
                DatabaseName=table["DatabaseName"],
                TableName=table["Name"],
                PartitionInputList=inputs,
            )
        return [values for values, _ in new]
