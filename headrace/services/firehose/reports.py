"""What a delivery stream reports: errors to CloudWatch Logs, metrics to CloudWatch."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.core.clock import Clock
from headrace.core.ports import (
    BucketNotFound,
    Guard,
    LogLine,
    LogSink,
    Metric,
    MetricSink,
    NoGuard,
    SchemaNotFound,
    StreamRecord,
)
from headrace.core.values import mapped
from headrace.services.firehose.destinations import DESTINATIONS
from headrace.services.firehose.failures import Failed
from headrace.services.firehose.permits import Denied, may_log
from headrace.services.firehose.state import DeliveryStream

log = logging.getLogger(__name__)

NAMESPACE = "AWS/Firehose"
LOG_STREAM = "DestinationDelivery"
# What names a destination, by its kind's configuration.
_NAMES = (
    "BucketARN",
    "DomainARN",
    "ClusterEndpoint",
    "CollectionEndpoint",
    "HECEndpoint",
    "ClusterJDBCURL",
)


@dataclass(frozen=True, slots=True)
class Delivered:
    """What a delivery did. `partitions`: how many were active, None without dynamic partitioning."""

    records: int
    size_bytes: int
    objects: int
    oldest_ms: int
    backup_records: int = 0
    backup_bytes: int = 0
    partitions: int | None = None
    exceeded: bool = False


class Reports:
    """The reports of one delivery stream. Thread-safe, as its sinks are; never raises."""

    def __init__(
        self,
        stream: DeliveryStream,
        clock: Clock,
        logs: LogSink,
        metrics: MetricSink,
        guard: Guard | None = None,
    ) -> None:
        self._guard = guard or NoGuard()
        self._stream = stream
        self._clock = clock
        self._logs = logs
        self._metrics = metrics
        self.last_error = ""

    @property
    def _metrics_name(self) -> str:
        return DESTINATIONS[self._stream.destination_kind].metrics

    # --- errors -------------------------------------------------------------------------------

    def failure(self, error: Exception) -> None:
        """Report that a delivery failed and will be tried again."""
        match error:
            case BucketNotFound():
                code, message = "S3.NoSuchBucket", "The specified bucket does not exist."
            case Denied():
                code, message = error.code, error.message
            case SchemaNotFound():
                code = "DataFormatConversion.EntityNotFound"
                message = f"The specified table or database could not be found: {error}"
            case _:
                code, message = f"Headrace.{type(error).__name__}", str(error)
        self.last_error = f"{code}: {message}"
        self._put_log(code, f"The delivery failed and will be tried again. {message}")
        self._measure((f"{self._metrics_name}.Success", 0, "Count"))

    def refused(self, failed: Sequence[Failed]) -> None:
        """Report that records went to the error output, a line for each code, as AWS samples them."""
        for code, (count, message) in _by_code(failed).items():
            self._put_log(code, f"{count} records went to the error output. First: {message}")

    def will_retry(self, failed: Sequence[Failed]) -> None:
        """Report that records could not be delivered and will be tried again."""
        for code, (count, message) in _by_code(failed).items():
            self.last_error = f"{code}: {message}"
            self._put_log(code, f"{count} records will be tried again. {message}")
        self._measure((f"{self._metrics_name}.Success", 0, "Count"))

    def dropped(self, failed: Sequence[Failed]) -> None:
        """Report that records are lost: AWS does not put them into the error output either."""
        for code, (count, message) in _by_code(failed).items():
            self._put_log(code, f"{count} records were dropped. {message}")

    def gone(self, shard_id: str, records: int) -> None:
        """Report that retention, or deleting the stream, removed records before they were delivered."""
        self._put_log(
            "Kinesis.RecordsGone",
            f"{records} records of {shard_id} were gone before they could be delivered.",
        )

    def _put_log(self, code: str, message: str) -> None:
        stream = self._stream
        log.warning("firehose %s: %s: %s", stream.name, code, message)
        options = mapped(stream.destination, "CloudWatchLoggingOptions")
        if not options.get("Enabled") or not options.get("LogGroupName"):
            return
        text = json.dumps(
            {
                "deliveryStreamARN": stream.arn,
                "destination": _name_of(stream.destination),
                "deliveryStreamVersionId": stream.version,
                "message": message,
                "errorCode": code,
            }
        )
        group, log_stream = str(options["LogGroupName"]), options.get("LogStreamName") or LOG_STREAM
        if not may_log(self._guard, stream, group, log_stream):
            return
        self._logs.put(
            group,
            log_stream,
            [LogLine(self._clock.now_ms(), text)],
            account=stream.account,
            region=stream.region,
        )

    # --- metrics ------------------------------------------------------------------------------

    def read(self, records: Sequence[StreamRecord]) -> None:
        """Report that records were read from a Kinesis stream."""
        self._measure(
            ("DataReadFromKinesisStream.Records", len(records), "Count"),
            ("DataReadFromKinesisStream.Bytes", sum(len(r.data) for r in records), "Bytes"),
        )

    def incoming(self, records: int, size_bytes: int) -> None:
        """Report that records were put directly."""
        self._measure(
            ("IncomingRecords", records, "Count"),
            ("IncomingBytes", size_bytes, "Bytes"),
        )

    def processed(self, *, records: int, size_bytes: int, seconds: float) -> None:
        """Report that a function transformed records."""
        self._measure(
            ("SucceedProcessing.Records", records, "Count"),
            ("SucceedProcessing.Bytes", size_bytes, "Bytes"),
            ("ExecuteProcessing.Success", 1, "Count"),
            ("ExecuteProcessing.Duration", seconds * 1000, "Milliseconds"),
        )

    def delivered(self, delivered: Delivered) -> None:
        """Report that a delivery is done."""
        self.last_error = ""
        name, age_ms = self._metrics_name, self._clock.now_ms() - delivered.oldest_ms
        self._measure(
            (f"{name}.Records", delivered.records, "Count"),
            (f"{name}.Bytes", delivered.size_bytes, "Bytes"),
            (f"{name}.Success", 1, "Count"),
            (f"{name}.DataFreshness", max(0, age_ms) / 1000, "Seconds"),
        )
        if delivered.objects:
            self._measure(("DeliveryToS3.ObjectCount", delivered.objects, "Count"))
        if delivered.backup_records:
            self._measure(
                ("BackupToS3.Records", delivered.backup_records, "Count"),
                ("BackupToS3.Bytes", delivered.backup_bytes, "Bytes"),
                ("BackupToS3.Success", 1, "Count"),
                ("BackupToS3.DataFreshness", max(0, age_ms) / 1000, "Seconds"),
            )
        if delivered.partitions is not None:
            self._measure(
                ("PartitionCount", delivered.partitions, "Count"),
                ("PartitionCountExceeded", float(delivered.exceeded), "Count"),
            )

    def _measure(self, *data: tuple[str, float, str]) -> None:
        now_ms = self._clock.now_ms()
        dimensions = (("DeliveryStreamName", self._stream.name),)
        self._metrics.put(
            [
                Metric(NAMESPACE, name, value, unit, dimensions, now_ms)
                for name, value, unit in data
            ],
            account=self._stream.account,
            region=self._stream.region,
        )


def _by_code(failed: Sequence[Failed]) -> dict[str, tuple[int, str]]:
    """Return by code how many failed, and the first one's message."""
    found: dict[str, tuple[int, str]] = {}
    for failure in failed:
        words = failure.log_message or failure.message
        count, message = found.get(failure.code, (0, words))
        found[failure.code] = (count + 1, message)
    return found


def _name_of(destination: Mapping[str, Any]) -> str:
    """Return what the log calls a destination."""
    url = mapped(destination, "EndpointConfiguration").get("Url")
    for name in _NAMES:
        url = url or destination.get(name)
    return str(url or "")
