"""Delivery to an S3 bucket: a buffer becomes one object, joined or converted, and compressed.

The destination of another service's orders: objects whose names, bytes and checks are the order's own.

Kinesis' channels are such orders; see `headrace.core.ports.data`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from headrace.core.ports import BucketNotFound, ObjectOrder
from headrace.core.values import get_mapping
from headrace.services.firehose import output, s3_settings
from headrace.services.firehose.destinations.common import Attempt, Outcome, compute_backoff_s
from headrace.services.firehose.errors import RETRY_DEFAULT_S, invalid
from headrace.services.firehose.metrics import Measure
from headrace.services.firehose.permits import RoleDenied
from headrace.services.firehose.records import (
    CONVERSION_FAILED,
    DELIVERED,
    PROCESSING_FAILED,
    FailedRecord,
    Ports,
    build_processing_line,
    conversion_line,
)
from headrace.services.firehose.state import DeliveryStream, is_partitioned

if TYPE_CHECKING:
    from headrace.services.firehose.convert import ConvertedFile


@dataclass(slots=True)
class OrderedStream(DeliveryStream):
    """A delivery stream that carries out an order. No request sees it."""

    order: ObjectOrder = field(default=cast("ObjectOrder", None))

    @property
    def has_aggregates(self) -> bool:
        """False: an order gets the stream's records as they are."""
        return False


def order_of(stream: DeliveryStream) -> ObjectOrder:
    """Return the order that a stream carries out."""
    assert isinstance(stream, OrderedStream)
    return stream.order


class OrderedDestination:
    """See `Destination`. A missing bucket, or one that refuses, is tried again without limit, as for S3."""

    kind = "Ordered"
    error_type = "validation-failed"
    metrics = "DeliveryToS3"

    def check(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """Refuse: no request can create one."""
        raise invalid("The destination is not one of Firehose's.")

    def update(self, present: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
        """Refuse: no request can change one."""
        return self.check(update)

    def describe(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """Return nothing: no request sees one."""
        return {}

    def retry_s(self, configuration: Mapping[str, Any]) -> float:
        """See `Destination.retry_s`. No record is in `Outcome.retry`."""
        return 0.0

    def wait_s(self, attempts: int, ids_random: float) -> float:
        """See `Destination.wait_s`."""
        return compute_backoff_s(attempts, ids_random)

    def name_objects(
        self, stream: DeliveryStream, kinds: Sequence[str], ports: Ports
    ) -> dict[str, str]:
        """See `ObjectNames.name_objects`."""
        order, now_ms = order_of(stream), ports.clock.now_ms()
        return {
            kind: (order.error_key if kind else order.object_key)(now_ms, ports.ids.uuid())
            for kind in kinds
        }

    def deliver(self, attempt: Attempt) -> Outcome:
        """See `Destination.deliver`. The object's bytes are the same at each try."""
        stream, key = attempt.stream, attempt.intent.keys[DELIVERED]
        order, outcome, datas = order_of(stream), Outcome(), list[bytes]()
        for record in attempt.records:
            fault = order.find_fault(record.data)
            if fault is None:
                datas.append(record.data)
            else:
                outcome.failed.append(FailedRecord(record, *fault, attempt.number))
        if not datas:
            return outcome
        body, encoding = output.compress_for(stream, order.join(datas), key)
        output.put(attempt.ports, stream.destination, key, body, encoding)
        outcome.objects, outcome.size_bytes = 1, len(body)
        return outcome

    def error_line(self, failure: FailedRecord, attempt: Attempt) -> dict[str, Any]:
        """See `Destination.error_line`."""
        record = failure.record
        return dict(
            order_of(attempt.stream).describe_fault(
                {
                    "shardId": record.shard_id,
                    "sequenceNumber": record.source.sequence_number,
                    "arrivalTimestamp": record.arrival_ms,
                    "errorCode": failure.code,
                    "errorMessage": failure.message,
                }
            )
        )


class S3Destination:
    """See `Destination`. A missing bucket, or one that refuses, is tried again without limit.

    With dynamic partitioning, retries end after RetryOptions, and the records of that prefix go to the error output.
    (The model's text of DynamicPartitioningConfiguration documents the retries; what follows them is assumed.)
    """

    kind = "ExtendedS3"
    error_type = CONVERSION_FAILED
    metrics = "DeliveryToS3"

    def check(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """See `Destination.checked`."""
        return s3_settings.check_extended_s3(configuration)

    def update(self, present: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
        """See `Destination.updated`."""
        return s3_settings.update_extended_s3(present, update)

    def describe(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """See `Destination.described`."""
        shown = dict(configuration)
        if "S3BackupConfiguration" in shown:
            shown["S3BackupDescription"] = shown.pop("S3BackupConfiguration")
        return {
            "S3DestinationDescription": {
                name: shown[name] for name in s3_settings.PLAIN_MEMBERS if name in shown
            },
            "ExtendedS3DestinationDescription": shown,
        }

    def retry_s(self, configuration: Mapping[str, Any]) -> float:
        """See `Destination.retry_s`. Only dynamic partitioning returns records in `Outcome.retry`."""
        options = get_mapping(
            get_mapping(configuration, "DynamicPartitioningConfiguration"), "RetryOptions"
        )
        return float(options.get("DurationInSeconds", RETRY_DEFAULT_S))

    def wait_s(self, attempts: int, ids_random: float) -> float:
        """See `Destination.wait_s`. AWS does not document it: assumed to be that of HTTP endpoints."""
        return compute_backoff_s(attempts, ids_random)

    def deliver(self, attempt: Attempt) -> Outcome:
        """See `Destination.deliver`. The object's bytes are the same at each try, unless the table has changed."""
        stream, key = attempt.stream, attempt.intent.keys[DELIVERED]
        outcome = Outcome()
        body: bytes | None = None
        encoding: str | None = None
        if stream.conversion is None:
            if attempt.records:
                delimiter = output.find_delimiter(stream.destination)
                joined = delimiter.join([record.data for record in attempt.records])
                body, encoding = output.compress_for(stream, joined, key)
        elif attempt.records:
            converted = output.convert_records(stream, attempt.records, attempt.ports)
            outcome.failed = converted.failed
            body, encoding = (
                (converted.data, converted.encoding) if converted.rows else (None, None)
            )
            outcome.measured += _measure_conversion(attempt, converted)
        objects = attempt.ports.objects
        if body is None:
            if attempt.again and any(item.key == key for item in objects.list(stream.bucket, key)):
                objects.delete(stream.bucket, key)
            return outcome
        try:
            output.put(attempt.ports, stream.s3, key, body, encoding)
        except (RoleDenied, BucketNotFound) as error:
            if not is_partitioned(stream.destination):
                raise
            outcome.retry = _list_refused(attempt, outcome.failed, error)
            return outcome
        outcome.objects, outcome.size_bytes = 1, len(body)
        return outcome

    def error_line(self, failure: FailedRecord, attempt: Attempt) -> dict[str, Any]:
        """See `Destination.error_line`: for a record that did not fit the table or could not be put."""
        if failure.error_type == PROCESSING_FAILED:
            return build_processing_line(failure, attempt.ports.clock.now_ms())
        table = output.describe_table(attempt.stream)
        return conversion_line(failure, attempt.intent.decided_ms, table)


def _list_refused(
    attempt: Attempt, failed: list[FailedRecord], error: Exception
) -> list[FailedRecord]:
    """Return the records that a partition's prefix did not take, and why; those that `failed` are not among them."""
    code, message = "S3.NoSuchBucket", "The specified bucket does not exist."
    if isinstance(error, RoleDenied):
        code, message = error.code, error.message
    known = set(map(id, [failure.record for failure in failed]))
    return [
        FailedRecord(record, code, message, attempt.number, error_type=PROCESSING_FAILED)
        for record in attempt.records
        if id(record) not in known
    ]


def _measure_conversion(attempt: Attempt, converted: ConvertedFile) -> list[Measure]:
    size_bytes = sum(len(record.data) for record in attempt.records)
    failed_bytes = sum(len(failure.record.data) for failure in converted.failed)
    return [
        ("SucceedConversion.Records", len(attempt.records) - len(converted.failed), "Count"),
        ("SucceedConversion.Bytes", size_bytes - failed_bytes, "Bytes"),
        ("FailedConversion.Records", len(converted.failed), "Count"),
        ("FailedConversion.Bytes", failed_bytes, "Bytes"),
    ]
