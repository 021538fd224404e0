"""Calls the catalogue of Iceberg tables with Firehose's role: Glue's, or S3 Tables behind Glue's `s3tablescatalog`.

That the table bucket is integrated with Glue, and the role's access is IAM's and not Lake Formation's, is assumed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import Arn
from headrace.core.ports import CallerIdentity, ControlPlane
from headrace.core.values import section
from headrace.services.firehose.destinations import iceberg_routing
from headrace.services.firehose.errors import invalid
from headrace.services.firehose.permits import SESSION
from headrace.services.firehose.state import DeliveryStream

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

    def call(self, name: iceberg_routing.Name, operation: str, **params: Any) -> dict[str, Any]:
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
    for name in iceberg_routing.list_tables(stream.destination):
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
