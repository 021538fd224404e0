"""Commits the changes of records to an Iceberg table as one snapshot, exactly once.

A snapshot's summary names its delivery, which tells after a kill whether the delivery was committed. Updates and
deletions rewrite the data files that hold their keys (copy on write), because pyiceberg writes no delete files. AWS's
Firehose writes delete files; the rows are the same.

Delivers a buffer to Iceberg tables: makes one commit for each table, and returns the outcome of each record.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false, reportUnknownParameterType=false

from __future__ import annotations

# pyarrow has no types.
import functools
import hashlib

# pyarrow has no types.
import itertools
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute
from pyiceberg import exceptions
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, In
from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files, schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Snapshot

from headrace.aws.calls.errors import AwsError
from headrace.core.ports import BucketNotFound, ObjectNotFound
from headrace.core.values import get_list
from headrace.services.firehose.destinations import common, iceberg_routing
from headrace.services.firehose.destinations.common import Attempt, DeliveryRefusal, Outcome
from headrace.services.firehose.destinations.iceberg_catalog import (
    ACCESS_DENIED,
    CloudCatalog,
    LostCommit,
    TableFiles,
    TablesCatalog,
)
from headrace.services.firehose.destinations.iceberg_routing import (
    DELETE,
    DENIED,
    INSERT,
    TABLE_NOT_FOUND,
    Change,
    Name,
    find_glue,
    find_table_bucket,
)
from headrace.services.firehose.destinations.iceberg_values import Reason, convert_rows
from headrace.services.firehose.permits import RoleDenied
from headrace.services.firehose.records import FailedRecord
from headrace.services.firehose.state import table_errors

# pyarrow creates its functions when it is imported, so pyright does not know them.
_compute: Any = pyarrow.compute
# The key of the delivery's id in a snapshot's summary.
DELIVERY_ID = "headrace.firehose.delivery-id"
# Observed by others in users' error output, 2026; its sentence is assumed.
NO_KEYS = "Iceberg.UniqueKeysNotFound"
# How often a conflicting commit is repeated at once; then it waits as all retries do.
_AT_ONCE = 4
_ROW = "__row"
Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class TableChanges:
    """The changes of records to a table.

    Attributes:
        rows: the rows to add, in order.
        keys: one row for each key whose existing rows are deleted; None to delete nothing.
        refused: code and sentence by the record's index.
    """

    rows: pa.Table
    keys: pa.Table | None
    refused: dict[int, Reason]


def commit(
    catalog: Catalog,
    name: Name,
    changes: Sequence[Change],
    unique_keys: Sequence[str],
    delivery_id: str,
) -> dict[int, Reason]:
    """Commit records' changes to a table, unless this delivery is already committed; return refusals by index.

    Args:
        catalog: finds the table.
        name: the table's name.
        changes: the records' changes, in order.
        unique_keys: columns that identify a row; empty for the table's identifier fields.
        delivery_id: always the same for the same records, over retries and kills.

    Raises LostCommit, pyiceberg's exceptions, RoleDenied, AwsError, BucketNotFound, ObjectNotFound, OSError.
    """
    for left in range(_AT_ONCE, -1, -1):
        table = catalog.load_table(tuple(name))
        done = _find_snapshot(table, delivery_id)
        if done is not None:
            # The refusals are those of the table's schema at that commit.
            return combine_changes(changes, _find_schema(table, done), unique_keys).refused
        effect = combine_changes(changes, table.schema(), unique_keys)
        try:
            _add_snapshot(table, effect, delivery_id)
        except LostCommit:
            if not left:
                raise
        else:
            return effect.refused
    raise AssertionError("the last try returns or raises")


def _find_snapshot(table: Table, delivery_id: str) -> Snapshot | None:
    for snapshot in reversed(table.metadata.snapshots):
        if snapshot.summary and snapshot.summary.additional_properties.get(DELIVERY_ID) == (
            delivery_id
        ):
            return snapshot
    return None


def _find_schema(table: Table, snapshot: Snapshot) -> Schema:
    schema_id = snapshot.schema_id
    return table.schema() if schema_id is None else table.schemas()[schema_id]


# --- the records' changes ------------------------------------------------------------------------------


def combine_changes(
    changes: Sequence[Change], schema: Schema, unique_keys: Sequence[str]
) -> TableChanges:
    """Return the combined effect of records, applied in order, on a table with this schema.

    An update replaces all rows with its key, and is inserted if there are none (assumed: AWS deletes, then inserts).
    """
    arrow = schema_to_pyarrow(schema, include_field_ids=False)
    keys = list(unique_keys) or sorted(schema.identifier_field_names())
    writes = [index for index, change in enumerate(changes) if change.operation != DELETE]
    rows_read = convert_rows([changes[index].record.data for index in writes], schema)
    rows = pa.Table.from_arrays(
        [rows_read.columns[column.name] for column in schema.columns],
        schema=pa.schema([field.with_nullable(True) for field in arrow]),
    )
    refused = {writes[row]: reason for row, reason in rows_read.refused.items()}
    if all(change.operation == INSERT for change in changes):
        kept = [row for row in range(len(writes)) if row not in rows_read.refused]
        return TableChanges(_take_rows(rows, kept, arrow), None, refused)
    missing = _explain_missing_keys(keys, schema)
    if missing:
        for index, change in enumerate(changes):
            if change.operation != INSERT:
                refused.setdefault(index, (NO_KEYS, missing))
        kept = [row for row, index in enumerate(writes) if index not in refused]
        return TableChanges(_take_rows(rows, kept, arrow), None, refused)
    keys_by_index = _find_keys(changes, schema, keys, rows, writes, refused)
    live, gone = _resolve_writes(changes, keys_by_index, refused)
    kept = [row for row, index in enumerate(writes) if index in live]
    types = [arrow.field(key).type for key in keys]
    columns = [
        pa.array([key[at] for key in gone], _find_plain_type(kind)) for at, kind in enumerate(types)
    ]
    return TableChanges(
        _take_rows(rows, kept, arrow), pa.table(columns, names=keys) if gone else None, refused
    )


def _take_rows(rows: pa.Table, kept: Sequence[int], arrow: pa.Schema) -> pa.Table:
    taken = rows.take(pa.array(kept, pa.int64()))
    return pa.Table.from_arrays(taken.columns, schema=arrow)


def _explain_missing_keys(keys: Sequence[str], schema: Schema) -> str:
    """Return why these keys cannot identify a table's rows; empty when they can."""
    if not keys:
        return "The table has neither UniqueKeys in the configuration nor identifier fields."
    names = {column.name for column in schema.columns}
    absent = [key for key in keys if key not in names]
    return f"Unique key {absent[0]} is no column of the table." if absent else ""


def _find_keys(
    changes: Sequence[Change],
    schema: Schema,
    keys: Sequence[str],
    rows: pa.Table,
    writes: Sequence[int],
    refused: dict[int, Reason],
) -> dict[int, Key]:
    """Return each change's key by index; refuse updates and deletions without one."""
    keys_by_index: dict[int, Key] = dict(
        zip(writes, _build_keys([rows[key] for key in keys]), strict=True)
    )
    deletes = [index for index, change in enumerate(changes) if change.operation == DELETE]
    rows_read = convert_rows([changes[index].record.data for index in deletes], schema, only=keys)
    for row, reason in rows_read.refused.items():
        refused[deletes[row]] = reason
    keys_by_index.update(
        zip(deletes, _build_keys([rows_read.columns[key] for key in keys]), strict=True)
    )
    for index, change in enumerate(changes):
        if change.operation != INSERT and None in keys_by_index[index]:
            code = refused.get(index, (NO_KEYS, ""))[0]
            if code not in _OF_VALUES:
                sentence = f"The record lacks a value of the unique keys {', '.join(keys)}."
                refused[index] = (NO_KEYS, sentence)
    return keys_by_index


# These refusals are more precise than a missing key.
_OF_VALUES = ("Iceberg.SchemaTypeMismatch", "Iceberg.InvalidJson")


def _build_keys(columns: Sequence[pa.Array | pa.ChunkedArray]) -> Iterator[Key]:
    return zip(*[_convert_to_plain(column).to_pylist() for column in columns], strict=True)


def _resolve_writes(
    changes: Sequence[Change], keys_by_index: dict[int, Key], refused: dict[int, Reason]
) -> tuple[set[int], list[Key]]:
    """Return the indexes whose rows exist in the end, and the keys whose existing rows are deleted."""
    live: set[int] = set()
    by_key: dict[Key, list[int]] = {}
    gone: dict[Key, None] = {}
    for index, change in enumerate(changes):
        if index in refused:
            continue
        key = keys_by_index[index]
        if change.operation != INSERT:
            live.difference_update(by_key.pop(key, ()))
            gone[key] = None
        if change.operation != DELETE:
            live.add(index)
            by_key.setdefault(key, []).append(index)
    return live, list(gone)


# --- the snapshot ---------------------------------------------------------------------------------


def _add_snapshot(table: Table, effect: TableChanges, delivery_id: str) -> None:
    """Commit an effect as one snapshot, unless it changes nothing. Raises LostCommit."""
    # A repeated try overwrites the files of the earlier one, which are in no snapshot.
    files = _Files(table, uuid.uuid5(uuid.NAMESPACE_OID, f"{delivery_id}/{table.name()}"))
    added = files.of(effect.rows)
    replaced = files.replace_rows(effect.keys) if effect.keys is not None else []
    if not added and not replaced:
        return
    transaction = Transaction(table)
    update = transaction.update_snapshot(snapshot_properties={DELIVERY_ID: delivery_id})
    with update.overwrite() if replaced else update.fast_append() as snapshot:
        for file in added:
            snapshot.append_data_file(file)
        for before, after in replaced:
            snapshot.delete_data_file(before)
            for file in after:
                snapshot.append_data_file(file)
    transaction.commit_transaction()


class _Files:
    """Data files of a table, with the same names at each try."""

    def __init__(self, table: Table, write_uuid: uuid.UUID) -> None:
        self._table = table
        self._write_uuid = write_uuid
        self._counter = itertools.count(0)

    def of(self, rows: pa.Table) -> list[DataFile]:
        """Write rows; return their files, an empty list for no rows."""
        if not len(rows):
            return []
        files = _dataframe_to_data_files(
            self._table.metadata,
            rows,
            self._table.io,
            write_uuid=self._write_uuid,
            counter=self._counter,
        )
        return list(files)

    def replace_rows(self, keys: pa.Table) -> list[tuple[DataFile, list[DataFile]]]:
        """Return the files that hold rows with these keys, each with the files that replace it."""
        replaced: list[tuple[DataFile, list[DataFile]]] = []
        for task in self._table.scan(row_filter=_filter_of(keys)).plan_files():
            rows = ArrowScan(
                table_metadata=self._table.metadata,
                io=self._table.io,
                projected_schema=self._table.schema(),
                row_filter=AlwaysTrue(),
            ).to_table(tasks=[task])
            kept = rows.filter(_compute.invert(_build_mask(rows, keys)))
            if len(kept) < len(rows):
                replaced.append((task.file, self.of(kept)))
        return replaced


def _filter_of(keys: pa.Table) -> BooleanExpression:
    """Return a filter that every row with one of the keys matches, and few others."""
    expression: BooleanExpression = AlwaysTrue()
    for name in keys.column_names:
        one_of: Any = In
        expression = And(expression, one_of(name, set(keys[name].to_pylist())))
    return expression


def _build_mask(rows: pa.Table, keys: pa.Table) -> pa.Array:
    """Return a mask of the rows that have one of the keys."""
    names = keys.column_names
    columns = [_convert_to_plain(rows[name]).combine_chunks() for name in names]
    key_columns = [
        keys[name].cast(column.type) for name, column in zip(names, columns, strict=True)
    ]
    if len(names) == 1:
        return _compute.is_in(columns[0], value_set=key_columns[0].combine_chunks())
    numbers = pa.array(range(len(rows)), pa.int64())
    left = pa.table([*columns, numbers], names=[*names, _ROW])
    joined = left.join(pa.table(key_columns, names=names), keys=names, join_type="left semi")
    return _compute.is_in(numbers, value_set=joined[_ROW].combine_chunks())


def _convert_to_plain(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return a column in a comparable type: an extension type's storage type."""
    kind = _find_plain_type(column.type)
    return column if kind == column.type else column.cast(kind)


def _find_plain_type(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


# Observed by others in users' error output, 2026; the sentences are assumed.
NO_TABLE = "Iceberg.GlueTableNotFound"
# Codes and sentences are assumed.
NOT_ICEBERG = "Iceberg.NotAnIcebergTable"
LOST = "Iceberg.CommitConflict"
NO_BUCKET = "S3.NoSuchBucket"
NO_METADATA = "Iceberg.MetadataNotFound"
NOT_WRITABLE = "Iceberg.TableNotWritable"
# The exceptions of pyiceberg and Arrow for tables that they cannot write, such as those with equality deletes.
_OF_TABLES = (
    ValueError,
    TypeError,
    NotImplementedError,
    ArithmeticError,
    pa.ArrowException,
    exceptions.ValidationException,
    exceptions.ResolveError,
)


def deliver(attempt: Attempt) -> Outcome:
    """See `IcebergDestination.deliver`. Tables are independent: if one fails, its records are tried again."""
    outcome, configuration, ports = Outcome(), attempt.stream.destination, attempt.ports
    by_table, unrouted = iceberg_routing.route_records(
        attempt.records, configuration, ports.queries
    )
    outcome.failed += unrouted
    tables = iceberg_routing.list_tables(configuration)
    for name, changes in by_table.items():
        settings = tables.get(name, {})
        _deliver_to(name, changes, settings, attempt, outcome)
    return outcome


def _open_catalog(name: Name, attempt: Attempt) -> Catalog:
    """Return the catalogue that has a table. Raises NoSuchTableError, AwsError."""
    configuration, ports = attempt.stream.destination, attempt.ports
    assert ports.control is not None
    bucket = find_table_bucket(ports.control, configuration)
    if bucket is None:
        return CloudCatalog(find_glue(ports.control, configuration), ports.objects, ports.guard)
    call = functools.partial(bucket.call, name)
    try:
        arn = str(call("GetTable")["tableARN"])
    except AwsError as error:
        if error.code != TABLE_NOT_FOUND:
            raise
        raise exceptions.NoSuchTableError(error.message) from error
    return TablesCatalog(call, TableFiles(ports.objects, ports.guard, bucket.role, arn, ""))


def _build_delivery_id(attempt: Attempt, changes: Sequence[Change]) -> str:
    """Return an id that is unique to the records of a table, and the same over retries and kills."""
    digest = hashlib.sha256()
    for change in changes:
        digest.update(f"{change.record.shard_id}/{change.record.record_id}\n".encode())
    return common.build_stable_id(attempt.stream, digest.hexdigest())


def _deliver_to(
    name: Name,
    changes: Sequence[Change],
    settings: Mapping[str, Any],
    attempt: Attempt,
    outcome: Outcome,
) -> None:
    errors = table_errors(*name)
    error_type = errors if errors in attempt.intent.keys else ""
    keys, delivery_id = get_list(settings, "UniqueKeys"), _build_delivery_id(attempt, changes)
    try:
        catalog = _open_catalog(name, attempt)
        refused = commit(catalog, name, changes, keys, delivery_id)
    except (*_OF_TABLES, *_OF_LOOKING, *_OF_WRITING) as error:
        why = _explain_refusal(name, error)
        if why is None:
            raise
        failed = [
            FailedRecord(c.record, why.code, why.message, attempt.number, error_type=error_type)
            for c in changes
        ]
        if why.is_retryable:
            outcome.retry += failed
        else:
            outcome.failed += failed
        return
    for index, change in enumerate(changes):
        if index in refused:
            code, message = refused[index]
            outcome.failed.append(
                FailedRecord(change.record, code, message, attempt.number, error_type=error_type)
            )
        else:
            outcome.size_bytes += len(change.record.data)


_OF_LOOKING = (
    exceptions.NoSuchTableError,
    exceptions.NoSuchIcebergTableError,
    exceptions.NoSuchPropertyException,
)
_OF_WRITING = (LostCommit, RoleDenied, AwsError, BucketNotFound, ObjectNotFound)


def _explain_refusal(name: Name, error: Exception) -> DeliveryRefusal | None:
    """Return why a commit to a table failed; None for a fault of the cloud itself."""
    match error:
        # The second is a subclass of the first.
        case exceptions.NoSuchIcebergTableError() | exceptions.NoSuchPropertyException():
            words = f"Table {name} is not an Iceberg table."
            return DeliveryRefusal(NOT_ICEBERG, words, is_retryable=False)
        case exceptions.NoSuchTableError():
            # Documented: names that match no table go to the error bucket.
            return DeliveryRefusal(
                NO_TABLE, f"Table {name} could not be found.", is_retryable=False
            )
        case RoleDenied():
            return DeliveryRefusal(error.code, error.message)
        case AwsError() if error.code in DENIED:
            return DeliveryRefusal(ACCESS_DENIED, f"Access was denied. {error.message}")
        case AwsError():
            return None
        case LostCommit():
            return DeliveryRefusal(LOST, f"Table {name} was changed by other commits meanwhile.")
        case BucketNotFound():
            return DeliveryRefusal(NO_BUCKET, "The specified bucket does not exist.")
        case ObjectNotFound():
            return DeliveryRefusal(NO_METADATA, f"A file of table {name} is not there: {error}")
        case _:
            return DeliveryRefusal(NOT_WRITABLE, f"Table {name} cannot be written: {error}")
