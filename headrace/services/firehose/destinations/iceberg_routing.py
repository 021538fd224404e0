"""Finds the Iceberg table and the operation of each record: insert, update or delete.

The function's `otfMetadata` has priority, then the query's result, then the configuration if it has a single table.
Source: docs.aws.amazon.com/firehose/latest/dev/apache-iceberg-format-input-record-different.html (documented, read
2026).

Calls the catalogue of Iceberg tables with Firehose's role: Glue's, or S3 Tables behind Glue's `s3tablescatalog`.

That the table bucket is integrated with Glue, and the role's access is IAM's and not Lake Formation's, is assumed.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import Arn
from headrace.core.ports import CallerIdentity, ControlPlane
from headrace.core.values import get_list, section
from headrace.services.firehose.errors import invalid
from headrace.services.firehose.permits import SESSION
from headrace.services.firehose.queries import Found, Queries, is_json
from headrace.services.firehose.records import FailedRecord, Record
from headrace.services.firehose.s3_settings import find_query
from headrace.services.firehose.state import DeliveryStream

INSERT, UPDATE, DELETE = "insert", "update", "delete"
OPERATIONS = (INSERT, UPDATE, DELETE)
# AWS publishes no list of codes. Codes in users' reports are observed by others; these two are assumed.
NOT_JSON = "Iceberg.InvalidJson"
NO_ROUTE = "Iceberg.RoutingInformationNotFound"
_NOT_JSON = "Non JSON record provided"
_MEMBERS = ("destinationDatabaseName", "destinationTableName", "operation")
# The names that Iceberg's Glue catalogue accepts (documented: it links to IcebergToGlueConverter's patterns).
_NAME = re.compile(r"[a-z0-9_]{1,252}")


class Name(NamedTuple):
    """A table's database and name."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


@dataclass(frozen=True, slots=True)
class Change:
    """A record's change to a table: `operation` is one of OPERATIONS."""

    record: Record
    operation: str


def name_of(table: Mapping[str, Any]) -> Name:
    """Return the name of a DestinationTableConfiguration."""
    return Name(str(table["DestinationDatabaseName"]), str(table["DestinationTableName"]))


def is_name(name: Name) -> bool:
    """Return whether an Iceberg table can have that name."""
    return all(_NAME.fullmatch(part) for part in name)


def list_tables(configuration: Mapping[str, Any]) -> dict[Name, Mapping[str, Any]]:
    """Return the DestinationTableConfigurations by table name."""
    tables = get_list(configuration, "DestinationTableConfigurationList")
    return {name_of(table): table for table in tables}


def route_records(
    records: Sequence[Record], configuration: Mapping[str, Any], queries: Queries
) -> tuple[dict[Name, list[Change]], list[FailedRecord]]:
    """Return the records' changes by table, in order, and the records without a table.

    Args:
        records: the processed records.
        configuration: the destination's configuration.
        queries: runs the query of the MetadataExtraction processor, if there is one.
    """
    changes: dict[Name, list[Change]] = {}
    failed: list[FailedRecord] = []
    tables = list_tables(configuration)
    only = next(iter(tables)) if len(tables) == 1 else None
    for record, result in zip(
        records, _run_query(records, find_query(configuration), queries), strict=True
    ):
        if isinstance(result, str) and not _is_complete(record.otf):
            code = NOT_JSON if result == _NOT_JSON else NO_ROUTE
            failed.append(FailedRecord(record, code, f"The JSONQuery expression fails: {result}"))
            continue
        routing = {**({} if isinstance(result, str) else result), **(record.otf or {})}
        route = _route(routing, only)
        if isinstance(route, str):
            failed.append(FailedRecord(record, NO_ROUTE, route))
            continue
        name, operation = route
        changes.setdefault(name, []).append(Change(record, operation))
    return changes, failed


def _run_query(records: Sequence[Record], query: str, queries: Queries) -> Iterator[Found]:
    """Yield the query's result for each record; a record that is not one JSON object fails later, as a row."""
    if not query:
        yield from ({} for _ in records)
        return
    good = [is_json(record.data) for record in records]
    answers = iter(
        queries.run(query, [r.data for r, fits in zip(records, good, strict=True) if fits])
    )
    for fits in good:
        yield next(answers) if fits else _NOT_JSON


def _is_complete(otf: Mapping[str, str] | None) -> bool:
    return otf is not None and all(otf.get(member) for member in _MEMBERS)


def _route(routing: Mapping[str, str | None], only: Name | None) -> tuple[Name, str] | str:
    """Return a record's table and operation, or why it has none."""
    database, table = (routing.get(member) for member in _MEMBERS[:2])
    operation = routing.get(_MEMBERS[2]) or INSERT
    if operation not in OPERATIONS:
        return f"The operation must be one of insert, update, delete, and is: {operation}"
    if database and table:
        return Name(database, table), operation
    if only is not None:
        return only, operation
    return "No destinationDatabaseName and destinationTableName for the record."


NOT_FOUND = "EntityNotFoundException"
TABLE_NOT_FOUND = "NotFoundException"
CONCURRENT = "ConcurrentModificationException"
DENIED = ("AccessDenied", "AccessDeniedException")
# Documented: glue-federation-s3tables.html; what follows it is the table bucket's name.
_S3_TABLES = "catalog/s3tablescatalog/"


@dataclass(frozen=True, slots=True)
class Glue:
    """Glue's operations on a destination's catalogue, with its role. Thread-safe."""

    control: ControlPlane
    account: str
    region: str
    role: str

    def call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Call an operation. Raises AwsError."""
        return self.control.call(
            "glue",
            operation,
            params,
            account=self.account,
            region=self.region,
            acting=CallerIdentity(self.role, SESSION),
        )


@dataclass(frozen=True, slots=True)
class TableBucket:
    """S3 Tables' operations on the tables of a destination's table bucket, with its role. Thread-safe."""

    control: ControlPlane
    arn: Arn
    role: str

    def call(self, name: Name, operation: str, **params: Any) -> dict[str, Any]:
        """Call an operation on a table. Raises AwsError."""
        return self.control.call(
            "s3tables",
            operation,
            {
                "tableBucketARN": str(self.arn),
                "namespace": name.database,
                "name": name.table,
                **params,
            },
            account=self.arn.account,
            region=self.arn.region,
            acting=CallerIdentity(self.role, SESSION),
        )


def find_table_bucket(
    control: ControlPlane, configuration: Mapping[str, Any]
) -> TableBucket | None:
    """Return the table bucket that a destination's catalogue is; None when it is Glue's own."""
    arn = Arn.parse(str(section(configuration, "CatalogConfiguration")["CatalogARN"]))
    if not arn.resource.startswith(_S3_TABLES):
        return None
    resource = f"bucket/{arn.resource.removeprefix(_S3_TABLES)}"
    bucket = dataclasses.replace(arn, service="s3tables", resource=resource)
    return TableBucket(control, bucket, str(configuration["RoleARN"]))


def find_glue(control: ControlPlane, configuration: Mapping[str, Any]) -> Glue:
    """Return the catalogue that a destination names."""
    arn = Arn.parse(str(section(configuration, "CatalogConfiguration")["CatalogARN"]))
    return Glue(control, arn.account, arn.region, str(configuration["RoleARN"]))


def check_tables(control: ControlPlane | None, stream: DeliveryStream) -> None:
    """Raise AwsError for a destination with tables that its role cannot read or that do not exist.

    AWS checks this at creation (observed by others, 2026); that it also checks at updates is assumed.
    """
    if stream.destination_kind != "Iceberg" or control is None:
        return
    glue = find_glue(control, stream.destination)
    bucket = find_table_bucket(control, stream.destination)
    for name in list_tables(stream.destination):
        try:
            if bucket is None:
                glue.call("GetTable", {"DatabaseName": name.database, "Name": name.table})
            else:
                bucket.call(name, "GetTable")
        except AwsError as error:
            if error.code not in (NOT_FOUND, TABLE_NOT_FOUND, *DENIED):
                raise
            raise invalid(
                f"Role {glue.role} is not authorized to perform: glue:GetTable for the given table or the table does"
                " not exist."
            ) from error
