"""Delivers a buffer to Iceberg tables: makes one commit for each table, and returns the outcome of each record."""

# pyarrow has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg import exceptions
from pyiceberg.catalog import Catalog

from headrace.aws.calls.errors import AwsError
from headrace.core.ports import BucketNotFound, ObjectNotFound
from headrace.core.values import get_list
from headrace.services.firehose.destinations import common, iceberg_commit, iceberg_routing
from headrace.services.firehose.destinations.base import Attempt, DeliveryRefusal, Outcome
from headrace.services.firehose.destinations.iceberg_catalog import (
    ACCESS_DENIED,
    CloudCatalog,
    LostCommit,
    TableFiles,
    TablesCatalog,
)
from headrace.services.firehose.destinations.iceberg_glue import (
    DENIED,
    TABLE_NOT_FOUND,
    find_glue,
    find_table_bucket,
)
from headrace.services.firehose.destinations.iceberg_routing import Change, Name
from headrace.services.firehose.failures import FailedRecord
from headrace.services.firehose.permits import RoleDenied
from headrace.services.firehose.state import table_errors

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
        refused = iceberg_commit.commit(catalog, name, changes, keys, delivery_id)
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
