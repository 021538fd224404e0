"""Calls the Glue catalogue with Firehose's role, to look up and commit the metadata of Iceberg tables."""

from __future__ import annotations

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
CONCURRENT = "ConcurrentModificationException"
DENIED = ("AccessDenied", "AccessDeniedException")


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
    for database, table in iceberg_routing.list_tables(stream.destination):
        try:
            glue.call("GetTable", {"DatabaseName": database, "Name": table})
        except AwsError as error:
            if error.code != NOT_FOUND and error.code not in DENIED:
                raise
            raise invalid(
                f"Role {glue.role} is not authorized to perform: glue:GetTable for the given table or the table does"
                " not exist."
            ) from error
