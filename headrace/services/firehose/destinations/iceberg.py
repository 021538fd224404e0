"""The destination Iceberg: records insert, update and delete rows of tables in Glue's catalogue or in S3 Tables."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from typing import Any

from headrace.core.extras import install_command
from headrace.core.values import get_list, get_mapping
from headrace.services.firehose import prefix
from headrace.services.firehose.destinations import common, iceberg_routing
from headrace.services.firehose.destinations.common import Attempt, Outcome, compute_backoff_s
from headrace.services.firehose.errors import invalid, not_built
from headrace.services.firehose.records import FailedRecord, common_members
from headrace.services.firehose.state import ICEBERG_FAILED

# Documented: docs.aws.amazon.com/firehose/latest/dev/buffering-hints.html; Iceberg has the ranges of S3.
RULES = common.KindRules(most_mib=128, backup_modes=("FailedDataOnly", "AllData"))
# AWS's API model calls these members a preview (2026).
_PREVIEWS = ("SchemaEvolutionConfiguration", "TableCreationConfiguration")
_TABLE_BUCKET = re.compile(":catalog/s3tablescatalog/[^/]+$")


class IcebergDestination:
    """See `Destination`. A buffer becomes one snapshot in each table that its records address."""

    kind = "Iceberg"
    # From users' buckets (observed by others, 2025 and 2026).
    error_type = ICEBERG_FAILED
    metrics = "DeliveryToIceberg"

    def check(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """See `Destination.checked`. Sentences are assumed."""
        _check_installed()
        checked = common.check_configuration(configuration, RULES, has_queries=True)
        if checked["S3BackupMode"] != "FailedDataOnly":
            # Documented: the model's text of S3BackupMode.
            raise invalid("S3BackupMode for Iceberg destinations supports only FailedDataOnly.")
        _check_catalog(get_mapping(checked, "CatalogConfiguration"))
        for name in _PREVIEWS:
            if get_mapping(checked, name).get("Enabled"):
                raise not_built(f"{name} of Iceberg destinations, which is a preview on AWS,")
        checked.setdefault("AppendOnly", False)
        checked.setdefault("DestinationTableConfigurationList", [])
        _check_tables(checked)
        return checked

    def update(self, present: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
        """See `Destination.updated`. Documented: AppendOnly can be set at creation only; its sentence is assumed."""
        now = bool(present.get("AppendOnly"))
        if "AppendOnly" in update and bool(update["AppendOnly"]) != now:
            raise invalid("AppendOnly cannot be updated after the delivery stream is created.")
        change = dict(update)
        if "S3Configuration" in change:
            # Only this kind's update has this member name.
            change["S3Update"] = change.pop("S3Configuration")
        return self.check(common.merge_update(present, change))

    def describe(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """See `Destination.described`."""
        return {"IcebergDestinationDescription": common.describe_configuration(configuration)}

    def retry_s(self, configuration: Mapping[str, Any]) -> float:
        """See `Destination.retry_s`."""
        return common.retry_s(configuration)

    def wait_s(self, attempts: int, ids_random: float) -> float:
        """See `Destination.wait_s`. Documented: a failed commit backs off; the duration is assumed."""
        return compute_backoff_s(attempts, ids_random)

    def deliver(self, attempt: Attempt) -> Outcome:
        """See `Destination.deliver`. Exactly once: a snapshot names its delivery.

        Records are applied in order, which AWS does not promise.
        """
        # pyiceberg takes half a second to import, and a cloud must be healthy within one second.
        from headrace.services.firehose.destinations import iceberg_commit

        return iceberg_commit.deliver(attempt)

    def error_line(self, failure: FailedRecord, attempt: Attempt) -> dict[str, Any]:
        """See `Destination.error_line`. Its members are from users' buckets (observed by others, 2026)."""
        record = failure.record
        now_ms = attempt.ports.clock.now_ms()
        return {
            **common_members(failure, now_ms, record.data),
            "errorCode": failure.code,
            "errorMessage": failure.message,
            "EventId": record.record_id,
            "SubsequenceNumber": record.sub,
            "ApproximateArrivalTimestamp": record.arrival_ms,
        }


def _check_installed() -> None:
    if importlib.util.find_spec("pyiceberg") is None:
        raise invalid(
            f"Delivery to Iceberg tables needs pyiceberg, which is not installed here: {install_command('iceberg')}"
        )


def _check_catalog(catalog: Mapping[str, Any]) -> None:
    arn = str(catalog.get("CatalogARN") or "")
    if "WarehouseLocation" in catalog:
        raise not_built("WarehouseLocation of Iceberg destinations, which is a preview on AWS,")
    if not arn:
        raise invalid("CatalogARN is required for Iceberg destinations.")
    if not arn.endswith(":catalog") and not _TABLE_BUCKET.search(arn):
        raise not_built("delivery to catalogs within the Glue Data Catalog")


def _check_tables(configuration: Mapping[str, Any]) -> None:
    seen: set[iceberg_routing.Name] = set()
    for table in get_list(configuration, "DestinationTableConfigurationList"):
        if "PartitionSpec" in table:
            raise not_built("PartitionSpec of Iceberg destinations, which is a preview on AWS,")
        name = iceberg_routing.name_of(table)
        if name in seen:
            raise invalid(f"Table {name} is in DestinationTableConfigurationList twice.")
        seen.add(name)
        # Documented: Iceberg's Glue catalogue accepts no names with a hyphen.
        if not iceberg_routing.is_name(name):
            raise invalid(
                f"Table {name} cannot be an Iceberg table: names have lower case letters, digits and underscores."
            )
        keys = get_list(table, "UniqueKeys")
        if len(set(keys)) != len(keys):
            raise invalid(f"UniqueKeys of table {name} must be unique.")
        prefix.check("", str(table.get("S3ErrorOutputPrefix") or ""))
