"""Iceberg tables in a query's process: reads them, writes rows to files, and commits each change as one snapshot.

It runs in the child process of `headrace.services.athena.child` alone. The parent opens and stores the files, with the
rights of the query's caller, and replaces the table's metadata only where it is still what the query has read: else
rows that are added are committed again on the newer one, and any other change fails. What is deleted or changed is
rewritten with its file (copy on write), as pyiceberg writes no delete files; Athena writes them, for the same rows.
Source: docs.aws.amazon.com/athena/latest/ug/querying-iceberg.html, trino.io/docs/current/connector/iceberg.html
(documented); the sentences are Trino's.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pyarrow.fs import LocalFileSystem
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import ValidationError, ValidationException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import (
    ArrowScan,
    PyArrowFile,
    PyArrowFileIO,
    _ConvertToIcebergWithoutIDs,
    _dataframe_to_data_files,
    _read_all_delete_files,
    schema_to_pyarrow,
    visit_pyarrow,
)
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, CreateTableTransaction, StagedTable, Table
from pyiceberg.transforms import parse_transform
from pyiceberg.typedef import EMPTY_DICT, Properties
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from headrace.core.extras import forbid_location_providers
from headrace.services.athena.hive_types import HiveType, parse_type
from headrace.services.athena.statements import StatementRefused

forbid_location_providers()

_CHUNK_BYTES = 64 * 1024**2
# How often rows are committed again when others change the table meanwhile.
_TRIES = 20
_HIVE = {"long": "bigint", "timestamptz": "timestamp", "time": "string", "uuid": "string"}
# Documented: querying-iceberg-creating-tables.html, with their defaults.
_MIN_FILE_BYTES = ("optimize_rewrite_min_data_file_size_bytes", 402_653_184)
_MIN_FILES = ("optimize_rewrite_data_file_threshold", 5)
_MIN_DELETES = ("optimize_rewrite_delete_file_threshold", 2)
_MAX_AGE_S = ("vacuum_max_snapshot_age_seconds", 432_000)
_MIN_SNAPSHOTS = ("vacuum_min_snapshots_to_keep", 1)


class Parent(Protocol):
    """What asks the parent process; any thread may."""

    def find_object(self, location: str) -> str:
        """Return the path of an object's file. Raises StatementRefused."""
        ...

    def ask(self, **message: Any) -> Any:
        """Return the parent's answer to a message."""
        ...


class LostCommit(Exception):
    """The table has changed since it was read."""


class _Files(PyArrowFileIO):
    """Opens objects of S3 where they lie in this machine's file system; new ones lie in the query's folder first."""

    def __init__(self, parent: Parent, folder: Path) -> None:
        super().__init__()
        self._parent, self._folder = parent, folder
        self._lock = threading.Lock()
        self._count = itertools.count()
        self.new: dict[str, str] = {}

    def new_input(self, location: str) -> PyArrowFile:
        path = self.new.get(location) or self._parent.find_object(location)
        return PyArrowFile(location, path, LocalFileSystem())

    def new_output(self, location: str) -> PyArrowFile:
        with self._lock:
            path = self.new[location] = str(self._folder / f"new-{next(self._count)}")
        return PyArrowFile(location, path, LocalFileSystem())

    def delete(self, location: Any) -> None:
        """Remove an object of S3."""
        self._parent.ask(delete=[location if isinstance(location, str) else location.location])


class Catalog(NoopCatalog, MetastoreCatalog):
    """The parent's catalogue. Used by one thread at a time."""

    def __init__(self, parent: Parent, folder: Path) -> None:
        super().__init__("athena")
        self._parent = parent
        self.files = _Files(parent, folder)

    def _load_file_io(
        self, properties: Properties = EMPTY_DICT, location: str | None = None
    ) -> FileIO:
        return self.files

    def open(self, name: tuple[str, str], location: str) -> Table:
        """Return the table that a metadata file describes. Raises StatementRefused."""
        metadata = FromInputFile.table_metadata(self.files.new_input(location))
        return Table(name, metadata, location, self.files, self)

    def load_table(self, identifier: Any) -> Table:
        """See `Catalog.load_table`: as the table is now. Raises StatementRefused."""
        (described,) = self._parent.ask(tables=[identifier])
        if "missing" in described:
            raise StatementRefused(described["missing"])
        return self.open(identifier, described["metadata"])

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        """See `Catalog.commit_table`. Raises LostCommit, StatementRefused."""
        is_new = isinstance(table, StagedTable)
        staged = self._update_and_stage_table(
            None if is_new else table, table.name(), requirements, updates
        )
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        answer = self._parent.ask(
            commit={
                "table": list(table.name()),
                "base": "" if is_new else table.metadata_location,
                "metadata": staged.metadata_location,
                "location": staged.metadata.location,
                "columns": _glue_columns(staged.metadata.schema()),
                "files": self.files.new,
            }
        )
        if "conflict" in answer:
            raise LostCommit
        self.files.new.clear()
        # pydantic's alias, which pyright does not know.
        response: Any = CommitTableResponse
        return response(metadata=staged.metadata, metadata_location=staged.metadata_location)


def _glue_columns(schema: Schema) -> list[dict[str, Any]]:
    columns: list[dict[str, Any]] = []
    for field in schema.columns:
        column: dict[str, Any] = {
            "Name": field.name,
            "Type": _hive_name(field.field_type),
            "Parameters": {
                "iceberg.field.id": str(field.field_id),
                "iceberg.field.optional": str(field.optional).lower(),
                "iceberg.field.current": "true",
            },
        }
        columns.append({**column, "Comment": field.doc} if field.doc else column)
    return columns


def _hive_name(kind: IcebergType) -> str:
    if isinstance(kind, StructType):
        fields = ",".join(f"{one.name}:{_hive_name(one.field_type)}" for one in kind.fields)
        return f"struct<{fields}>"
    if isinstance(kind, ListType):
        return f"array<{_hive_name(kind.element_type)}>"
    if isinstance(kind, MapType):
        return f"map<{_hive_name(kind.key_type)},{_hive_name(kind.value_type)}>"
    name = str(kind)
    return "binary" if name.startswith("fixed") else _HIVE.get(name, name.replace(", ", ","))


def columns_of(schema: Schema) -> list[tuple[str, HiveType]]:
    """Return a schema's columns as queries have them."""
    return [
        (field.name.lower(), parse_type(_hive_name(field.field_type))) for field in schema.columns
    ]


# Reads


def find_snapshot(stored: Table, kind: str, value: Any) -> int:
    """Return the id of the snapshot that a query names by `version` or by `timestamp`, in microseconds.

    Raises StatementRefused.
    """
    if kind == "timestamp":
        snapshot = stored.snapshot_as_of_timestamp(int(value or 0) // 1000)
        if snapshot is None:
            name = ".".join(f'"{part}"' for part in stored.name())
            moment = datetime.fromtimestamp(int(value or 0) / 1_000_000, UTC).isoformat()
            raise StatementRefused(
                f"INVALID_ARGUMENTS: No version history table {name} at or before {moment}"
            )
        return snapshot.snapshot_id
    snapshot = (
        stored.snapshot_by_name(value)
        if isinstance(value, str)
        else stored.snapshot_by_id(int(value))
    )
    if snapshot is None:
        raise StatementRefused(
            f"INVALID_ARGUMENTS: Cannot find snapshot with reference name: {value}"
            if isinstance(value, str)
            else f"INVALID_ARGUMENTS: Iceberg snapshot ID does not exists: {value}"
        )
    return snapshot.snapshot_id


def read(stored: Table, snapshot_id: int | None) -> tuple[Schema, Iterator[tuple[Any, DataFile]]]:
    """Return a snapshot's schema, and its rows in batches with their file; None for the current one."""
    scan = stored.scan(snapshot_id=snapshot_id)
    schema = scan.projection()

    def batches() -> Iterator[tuple[Any, DataFile]]:
        for task in scan.plan_files():
            reader = ArrowScan(stored.metadata, stored.io, schema, AlwaysTrue())
            deletes = _read_all_delete_files(stored.io, [task])
            for batch in reader._record_batches_from_scan_tasks_and_deletes([task], deletes):  # noqa: SLF001 - `to_record_batches` keeps a file's batches in memory
                yield batch, task.file

    return schema, batches()


# Changes


def write(stored: Table, reader: Iterable[Any], most_bytes: int) -> tuple[list[DataFile], int]:
    """Write batches of rows to data files in the query's folder; return the files and the number of rows.

    The files have about `most_bytes` together: more are refused, since no limit of the kernel counts them all.

    Raises StatementRefused.
    """
    schema = schema_to_pyarrow(stored.schema(), include_field_ids=False)
    write_id, counter = uuid.uuid4(), itertools.count()
    files: list[DataFile] = []
    count = 0
    for chunk in _chunks(reader):
        columns: list[Any] = []
        for field, column in zip(schema, chunk.columns, strict=True):
            if not field.nullable and column.null_count:
                raise StatementRefused(
                    f"CONSTRAINT_VIOLATION: NULL value not allowed for NOT NULL column: {field.name}"
                )
            try:
                columns.append(column.cast(field.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise StatementRefused(
                    f"NOT_SUPPORTED: headrace does not write the column {field.name}: {error}"
                ) from error
        rows = pa.Table.from_arrays(columns, schema=schema)
        files += _dataframe_to_data_files(
            stored.metadata, rows, stored.io, write_uuid=write_id, counter=counter
        )
        count += len(rows)
        if sum(file.file_size_in_bytes for file in files) > most_bytes:
            raise StatementRefused(
                f"EXCEEDED_RESOURCE_LIMIT: Query writes more than the {most_bytes} bytes that headrace gives it"
            )
    return files, count


def _chunks(reader: Iterable[Any]) -> Iterator[pa.Table]:
    batches: list[Any] = []
    size_bytes = 0
    for batch in reader:
        batches.append(batch)
        size_bytes += batch.nbytes
        if size_bytes >= _CHUNK_BYTES:
            yield pa.Table.from_batches(batches)
            batches, size_bytes = [], 0
    if size_bytes or any(len(batch) for batch in batches):
        yield pa.Table.from_batches(batches)


def _conflict(stored: Table) -> StatementRefused:
    name = ".".join(stored.name())
    return StatementRefused(
        f"ICEBERG_COMMIT_ERROR: Failed to commit Iceberg update to table: {name}"
    )


def append(catalog: Catalog, stored: Table, added: Sequence[DataFile]) -> None:
    """Commit new files, on the newest metadata when others have changed the table. Raises StatementRefused."""
    if not added:
        return None
    written = {file.file_path: catalog.files.new[file.file_path] for file in added}
    for _ in range(_TRIES):
        try:
            return _commit(stored, added, ())
        except LostCommit:
            catalog.files.new = dict(written)
            stored = catalog.load_table(stored.name())
    raise _conflict(stored)


def replace(stored: Table, added: Sequence[DataFile], removed: Sequence[DataFile]) -> None:
    """Commit new files in the place of others. Raises StatementRefused when others have changed the table."""
    try:
        _commit(stored, added, removed)
    except LostCommit as error:
        raise _conflict(stored) from error


def _commit(stored: Table, added: Sequence[DataFile], removed: Sequence[DataFile]) -> None:
    transaction = stored.transaction()
    update = transaction.update_snapshot()
    with update.overwrite() if removed else update.fast_append() as snapshot:
        for file in added:
            snapshot.append_data_file(file)
        for file in removed:
            snapshot.delete_data_file(file)
    transaction.commit_transaction()


def stage(
    catalog: Catalog,
    name: tuple[str, str],
    columns: Sequence[tuple[str, str]],
    options: Mapping[str, Any],
) -> Table:
    """Return a new table that no commit has stored yet. Raises StatementRefused.

    Args:
        catalog: which is to have it.
        name: database and name.
        columns: names and Hive types.
        options: `location`; `partitions`, as `headrace.services.athena.ddl` reads them; `properties`.
    """
    fields = [(column, parse_type(kind)) for column, kind in columns]
    small = next((kind.name for _, kind in fields if kind.name in ("tinyint", "smallint")), None)
    if small is not None:
        raise StatementRefused(f"NOT_SUPPORTED: Type not supported for Iceberg: {small}")
    arrow = pa.schema([(column, kind.to_arrow()) for column, kind in fields])
    schema = assign_fresh_schema_ids(visit_pyarrow(arrow, _ConvertToIcebergWithoutIDs()))
    partitions: list[PartitionField] = []
    for number, part in enumerate(options["partitions"]):
        try:
            source = schema.find_field(part["column"])
        except ValueError as error:
            raise StatementRefused(
                "INVALID_TABLE_PROPERTY: Unable to parse partitioning value: Cannot find source column: "
                f"{part['column']}"
            ) from error
        transform = parse_transform(part["transform"])
        if not transform.can_transform(source.field_type):
            raise StatementRefused(
                f"INVALID_TABLE_PROPERTY: Unable to parse partitioning value: Invalid source type "
                f"{source.field_type} for transform: {part['transform']}"
            )
        partitions.append(PartitionField(source.field_id, 1000 + number, transform, part["name"]))
    return catalog._create_staged_table(  # noqa: SLF001 - what `create_table` commits
        name,
        schema,
        options["location"],
        PartitionSpec(*partitions),
        properties=options["properties"],
    )


def create(stored: Any, added: Sequence[DataFile]) -> None:
    """Commit a staged table with its first rows. Raises StatementRefused."""
    transaction = CreateTableTransaction(stored)
    if added:
        with transaction.update_snapshot().fast_append() as snapshot:
            for file in added:
                snapshot.append_data_file(file)
    transaction.commit_transaction()


def _number(stored: Table, named: tuple[str, int]) -> int:
    text = stored.properties.get(named[0], "")
    return int(text) if text.isdecimal() else named[1]


def small_files(stored: Table) -> list[str]:
    """Return the URIs of the data files that OPTIMIZE rewrites: small ones beside others, or with delete files."""
    least = _number(stored, _MIN_FILE_BYTES)
    by_partition: dict[Any, list[str]] = {}
    chosen: list[str] = []
    for task in stored.scan().plan_files():
        if len(task.delete_files) >= _number(stored, _MIN_DELETES):
            chosen.append(task.file.file_path)
        elif task.file.file_size_in_bytes < least:
            key = (task.file.spec_id, str(task.file.partition))
            by_partition.setdefault(key, []).append(task.file.file_path)
    several = [path for paths in by_partition.values() if len(paths) > 1 for path in paths]
    return [*chosen, *(several if len(several) >= _number(stored, _MIN_FILES) else ())]


def data_files(stored: Table, uris: set[str]) -> list[DataFile]:
    """Return the current data files that have these URIs."""
    return [task.file for task in stored.scan().plan_files() if task.file.file_path in uris]


def vacuum(catalog: Catalog, stored: Table, now_ms: int) -> None:
    """Expire the table's old snapshots, and remove the files that no other needs. Raises StatementRefused."""
    since_ms = now_ms - _number(stored, _MAX_AGE_S) * 1000
    referenced = {ref.snapshot_id for ref in stored.metadata.refs.values()}
    newest = sorted(stored.snapshots(), key=lambda one: one.timestamp_ms, reverse=True)
    expired = [
        one
        for one in newest[max(1, _number(stored, _MIN_SNAPSHOTS)) :]
        if one.timestamp_ms <= since_ms and one.snapshot_id not in referenced
    ]
    if not expired:
        return
    gone = {one.snapshot_id for one in expired}
    kept = _reachable(catalog, [one for one in newest if one.snapshot_id not in gone])
    needless = _reachable(catalog, expired) - kept
    try:
        stored.maintenance.expire_snapshots().by_ids(sorted(gone)).commit()
    except LostCommit as error:
        raise _conflict(stored) from error
    catalog._parent.ask(delete=sorted(needless))  # noqa: SLF001


def _reachable(catalog: Catalog, snapshots: Iterable[Any]) -> set[str]:
    uris: set[str] = set()
    for snapshot in snapshots:
        uris.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(catalog.files):
            if manifest.manifest_path not in uris:
                uris.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(catalog.files, discard_deleted=True)
                uris.update(entry.data_file.file_path for entry in entries)
    return uris


def alter(stored: Table, action: str, options: Mapping[str, Any]) -> None:
    """Commit a change of the schema or of the properties. Raises StatementRefused."""
    transaction = stored.transaction()
    try:
        if action == "set_properties":
            transaction.set_properties(options["properties"])
        elif action == "unset_properties":
            transaction.remove_properties(*options["names"])
        else:
            with transaction.update_schema(case_sensitive=False) as update:
                _change_schema(update, action, options)
        transaction.commit_transaction()
    except LostCommit as error:
        raise _conflict(stored) from error
    except (ValueError, ValidationError, ValidationException) as error:
        raise StatementRefused(f"FAILED: SemanticException {error}") from error


def _change_schema(update: Any, action: str, options: Mapping[str, Any]) -> None:
    if action == "add_columns":
        for column in options["columns"]:
            update.add_column(
                column["Name"], _iceberg_type(column["Type"]), doc=column.get("Comment")
            )
    elif action == "drop_column":
        update.delete_column(options["column"])
    else:
        name, column = options["column"], options["to"]
        kind = _iceberg_type(column["Type"])
        # A nested type has ids of its own: only what is without parts can become another.
        is_plain = not isinstance(kind, StructType | ListType | MapType)
        update.update_column(name, kind if is_plain else None, doc=column.get("Comment"))
        if column["Name"] != name:
            update.rename_column(name, column["Name"])
        if options.get("after"):
            update.move_after(name, options["after"])
        elif options.get("is_first"):
            update.move_first(name)


def _iceberg_type(text: str) -> IcebergType:
    kind = parse_type(text)
    if kind.name in ("tinyint", "smallint"):
        raise StatementRefused(f"NOT_SUPPORTED: Type not supported for Iceberg: {kind.name}")
    schema: Any = visit_pyarrow(pa.schema([("c", kind.to_arrow())]), _ConvertToIcebergWithoutIDs())
    field: NestedField = schema.columns[0]
    return field.field_type
