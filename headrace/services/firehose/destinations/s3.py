"""Delivery to an S3 bucket: a buffer becomes one object, joined or converted, and compressed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.services.firehose import destination, output
from headrace.services.firehose.destinations.base import Attempt, Hints, Outcome
from headrace.services.firehose.failures import (
    CONVERSION_FAILED,
    DELIVERED,
    Failed,
    conversion_line,
)
from headrace.services.firehose.metrics import Measure
from headrace.services.firehose.permits import check_object
from headrace.services.firehose.processing import delimiter_of

if TYPE_CHECKING:
    from headrace.services.firehose.convert import Converted

MIB = 1024 * 1024


class S3Destination:
    """See `Destination`. A bucket that is not there, or refuses, is tried for ever."""

    kind = "ExtendedS3"
    error_type = CONVERSION_FAILED
    metrics = "DeliveryToS3"

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """See `Destination.checked`."""
        return destination.checked(given)

    def updated(self, present: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
        """See `Destination.updated`."""
        return destination.updated(present, update)

    def described(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """See `Destination.described`."""
        shown = dict(configuration)
        if "S3BackupConfiguration" in shown:
            shown["S3BackupDescription"] = shown.pop("S3BackupConfiguration")
        return {
            "S3DestinationDescription": {
                name: shown[name] for name in destination.PLAIN_MEMBERS if name in shown
            },
            "ExtendedS3DestinationDescription": shown,
        }

    def hints(self, configuration: Mapping[str, Any]) -> Hints:
        """See `Destination.hints`."""
        hints = configuration["BufferingHints"]
        return Hints(int(hints["SizeInMBs"]) * MIB, float(hints["IntervalInSeconds"]))

    def retry_s(self, configuration: Mapping[str, Any]) -> float:
        """See `Destination.retry_s`. Nothing in `Outcome.retry` comes from here."""
        return 0.0

    def wait_s(self, attempts: int, ids_random: float) -> float:
        """See `Destination.wait_s`."""
        return 0.0

    def deliver(self, attempt: Attempt) -> Outcome:
        """See `Destination.deliver`. The object's bytes are the same at each try, unless the table has changed."""
        stream, key = attempt.stream, attempt.intent.keys[DELIVERED]
        outcome = Outcome()
        body: bytes | None = None
        encoding: str | None = None
        if stream.conversion is None:
            if attempt.records:
                delimiter = delimiter_of(stream.destination)
                joined = delimiter.join([record.data for record in attempt.records])
                body, encoding = output.compressed_for(stream, joined, key)
        elif attempt.records:
            made = output.converted(stream, attempt.records, attempt.ports)
            outcome.failed = made.failed
            body = made.data if made.rows else None
            outcome.measured += _conversion(attempt, made)
        objects = attempt.ports.objects
        if body is None:
            if attempt.again and any(item.key == key for item in objects.list(stream.bucket, key)):
                objects.delete(stream.bucket, key)
            return outcome
        check_object(attempt.ports.guard, stream.s3, key)
        objects.put(
            stream.bucket,
            key,
            body,
            content_type="application/octet-stream",
            content_encoding=encoding,
        )
        outcome.objects, outcome.size_bytes = 1, len(body)
        return outcome

    def error_line(self, failure: Failed, attempt: Attempt) -> dict[str, Any]:
        """See `Destination.error_line`: a record that did not fit the table."""
        table = output.table_of(attempt.stream)
        return conversion_line(failure, attempt.intent.decided_ms, table)


def _conversion(attempt: Attempt, made: Converted) -> list[Measure]:
    size_bytes = sum(len(record.data) for record in attempt.records)
    failed_bytes = sum(len(failure.record.data) for failure in made.failed)
    return [
        ("SucceedConversion.Records", len(attempt.records) - len(made.failed), "Count"),
        ("SucceedConversion.Bytes", size_bytes - failed_bytes, "Bytes"),
        ("FailedConversion.Records", len(made.failed), "Count"),
        ("FailedConversion.Bytes", failed_bytes, "Bytes"),
    ]
