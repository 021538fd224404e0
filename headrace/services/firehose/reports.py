"""Reports a delivery stream's errors to CloudWatch Logs and its metrics to CloudWatch.

Metrics of puts and calls are aggregated: CloudWatch gets one value a second instead of one per request.
"""

from __future__ import annotations

import json
import logging
import threading
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
)
from headrace.core.values import get_mapping
from headrace.services.firehose.destinations import DESTINATIONS
from headrace.services.firehose.errors import ACTIVE_PARTITIONS, find_quota
from headrace.services.firehose.metrics import EMITTED, NAMESPACE, Measure
from headrace.services.firehose.output import NotPut
from headrace.services.firehose.permits import KeyUnusable, RoleDenied, may_log
from headrace.services.firehose.records import FailedRecord
from headrace.services.firehose.state import DeliveryStream

Statistics = tuple[float, float, float, float]
# So many different values wait to be added up.
_MOST_REPEATED = 1000


class Tally:
    """The count, sum, minimum and maximum of each metric. Thread-safe.

    Many puts have the same values, which are counted first and added up later.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._repeated: dict[tuple[tuple[str, float], ...], int] = {}
        self._found: dict[str, Statistics] = {}

    def note(self, *values: tuple[str, float]) -> None:
        """Add metric values."""
        with self._lock:
            repeated = self._repeated
            repeated[values] = repeated.get(values, 0) + 1
            if len(repeated) >= _MOST_REPEATED:
                self._add_up()

    def take(self) -> list[tuple[Measure, Statistics]]:
        """Return the values since the last call, and reset them."""
        with self._lock:
            self._add_up()
            tally, self._found = self._found, {}
        return [((name, 0.0, EMITTED[name]), statistics) for name, statistics in tally.items()]

    def _add_up(self) -> None:
        repeated, self._repeated = self._repeated, {}
        for values, times in repeated.items():
            for name, value in values:
                count, total, least, most = self._found.get(name, (0, 0, value, value))
                self._found[name] = (
                    count + times,
                    total + value * times,
                    min(least, value),
                    max(most, value),
                )


log = logging.getLogger(__name__)

LOG_STREAM = "DestinationDelivery"
_SEND_EVERY_MS = 1000
# The configuration member that identifies a destination, by kind.
_NAMES = (
    "BucketARN",
    "DomainARN",
    "ClusterEndpoint",
    "CollectionEndpoint",
    "HECEndpoint",
    "ClusterJDBCURL",
)


@dataclass(frozen=True, slots=True)
class DeliveryFigures:
    """The figures of a finished delivery.

    Attributes:
        records: how many records were delivered, without those in the error output.
        refused: how many records the destination refused, which went to the error output.
        partitions: how many partitions were active; None without dynamic partitioning.
        outputs: how many error-output objects were put.
        is_backup: whether it delivered only the backup, which has its own buffer.
    """

    records: int
    size_bytes: int
    objects: int
    oldest_ms: int
    backup_records: int = 0
    backup_bytes: int = 0
    partitions: int | None = None
    exceeded: bool = False
    outputs: int = 0
    is_backup: bool = False
    refused: int = 0


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
        self._tally = Tally()
        self._sent_ms = 0

    @property
    def _metrics_name(self) -> str:
        return DESTINATIONS[self._stream.destination_kind].metrics

    # --- errors -------------------------------------------------------------------------------

    def failure(self, error: Exception) -> None:
        """Report that a delivery failed and will be tried again."""
        s3: Mapping[str, Any] | None = None
        metrics = self._metrics_name
        if isinstance(error, NotPut):
            metrics = self._backup_metrics if error.is_backup else "DeliveryToS3"
            s3, error = error.s3, error.cause
        match error:
            case BucketNotFound():
                code, message = "S3.NoSuchBucket", "The specified bucket does not exist."
            case RoleDenied():
                code, message = error.code, error.message
            case KeyUnusable():
                code, message = f"KMS.{error.code}", error.message
                self.measure((error.metric, 1, "Count"))
            case SchemaNotFound():
                code = "DataFormatConversion.EntityNotFound"
                message = f"The specified table or database could not be found: {error}"
            case _:
                code, message = f"Headrace.{type(error).__name__}", str(error)
        self.last_error = f"{code}: {message}"
        self._put_log(code, f"The delivery failed and will be tried again. {message}", s3)
        self.measure((f"{metrics}.Success", 0, "Count"))

    @property
    def _backup_metrics(self) -> str:
        """The prefix of the backup's metrics: OpenSearch's backup counts as a delivery to S3 (documented)."""
        return "DeliveryToS3" if "OpenSearch" in self._metrics_name else "BackupToS3"

    def report_refused(self, failed: Sequence[FailedRecord]) -> None:
        """Report that records went to the error output, with one line for each code: AWS also logs samples."""
        for code, (count, message) in _group_by_code(failed).items():
            self._put_log(code, f"{count} records went to the error output. First: {message}")

    def will_retry(self, failed: Sequence[FailedRecord]) -> None:
        """Report that records could not be delivered and will be tried again."""
        for code, (count, message) in _group_by_code(failed).items():
            self.last_error = f"{code}: {message}"
            self._put_log(code, f"{count} records will be tried again. {message}")
        self.measure((f"{self._metrics_name}.Success", 0, "Count"))

    def report_dropped(self, failed: Sequence[FailedRecord]) -> None:
        """Report that records are lost; AWS does not put them into the error output either."""
        for code, (count, message) in _group_by_code(failed).items():
            self._put_log(code, f"{count} records were dropped. {message}")

    def report_gone(self, shard_id: str, records: int) -> None:
        """Report that retention or the stream's deletion removed records before they were delivered."""
        self._put_log(
            "Kinesis.RecordsGone",
            f"{records} records of {shard_id} were gone before they could be delivered.",
        )

    def _put_log(self, code: str, message: str, s3: Mapping[str, Any] | None = None) -> None:
        """Write to an S3 configuration's log, if it has one, else to the destination's."""
        stream, named = self._stream, self._stream.destination
        if s3 is not None and get_mapping(s3, "CloudWatchLoggingOptions").get("Enabled"):
            named = s3
        log.warning("firehose %s: %s: %s", stream.name, code, message)
        options = get_mapping(named, "CloudWatchLoggingOptions")
        if not options.get("Enabled") or not options.get("LogGroupName"):
            return
        text = json.dumps(
            {
                "deliveryStreamARN": stream.arn,
                "destination": _name_of(named),
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
            # Documented (monitoring-with-cloudwatch-logs.html): whoever asks for logs makes group and stream.
            makes=False,
        )

    # --- metrics ------------------------------------------------------------------------------

    def read(self, records: int, size_bytes: int, behind_ms: int) -> None:
        """Report that records were read from a Kinesis stream, and how far behind its newest record they are."""
        self.measure(
            ("DataReadFromKinesisStream.Records", records, "Count"),
            ("DataReadFromKinesisStream.Bytes", size_bytes, "Bytes"),
            ("KinesisMillisBehindLatest", behind_ms, "Milliseconds"),
        )

    def incoming(self, operation: str, records: int, size_bytes: int, began_ms: int) -> None:
        """Report the records of a direct put, and when its request began."""
        now_ms = self._clock.now_ms()
        values = [
            ("IncomingRecords", records),
            ("IncomingBytes", size_bytes),
            ("IncomingPutRequests", 1),
            (f"{operation}.Bytes", size_bytes),
            (f"{operation}.Requests", 1),
            (f"{operation}.Latency", max(0, now_ms - began_ms)),
        ]
        if operation == "PutRecordBatch":
            values.append(("PutRecordBatch.Records", records))
        self._tally.note(*values)
        if now_ms - self._sent_ms >= _SEND_EVERY_MS:
            self.send()

    def report_throttled(self, records: int) -> None:
        """Report records that were refused because of a quota."""
        self._tally.note(("ThrottledRecords", records))

    def report_call(self, name: str, began_ms: int) -> None:
        """Report a call, by the prefix of its metrics, and when it began."""
        latency_ms = max(0, self._clock.now_ms() - began_ms)
        self._tally.note((f"{name}.Requests", 1), (f"{name}.Latency", latency_ms))
        self.send()

    def send(self) -> None:
        """Send the counts since the last call. The worker also calls it."""
        now_ms = self._sent_ms = self._clock.now_ms()
        tally = self._tally.take()
        if not tally:
            return
        quota = find_quota(self._stream.region)
        if not self._stream.source_arn:
            # AWS's quotas, even if they are not enforced (`--limits`): alarms and graphs divide by them.
            self.measure(
                ("BytesPerSecondLimit", quota.size_bytes, "Bytes"),
                ("RecordsPerSecondLimit", quota.records, "Count"),
                ("PutRequestsPerSecondLimit", quota.requests, "Count"),
            )
        self._metrics.put(
            [
                Metric(NAMESPACE, name, value, unit, self._dimensions, now_ms, statistics)
                for (name, value, unit), statistics in tally
            ],
            account=self._stream.account,
            region=self._stream.region,
        )

    def report_delivered(self, delivered: DeliveryFigures) -> None:
        """Report that a delivery is done."""
        self.last_error = ""
        name, age_ms = self._metrics_name, self._clock.now_ms() - delivered.oldest_ms
        fresh_s = max(0, age_ms) / 1000
        if not delivered.is_backup:
            measures: list[Measure] = [
                (f"{name}.Records", delivered.records, "Count"),
                (f"{name}.Bytes", delivered.size_bytes, "Bytes"),
                (f"{name}.Success", 1, "Count"),
                (f"{name}.DataFreshness", fresh_s, "Seconds"),
                (f"{name}.IncomingRowCount", delivered.records + delivered.refused, "Count"),
                (f"{name}.SuccessfulRowCount", delivered.records, "Count"),
                (f"{name}.FailedRowCount", delivered.refused, "Count"),
            ]
            # On AWS, some destinations lack some of these metrics.
            self.measure(*(measure for measure in measures if measure[0] in EMITTED))
        if delivered.objects:
            self.measure(("DeliveryToS3.ObjectCount", delivered.objects, "Count"))
        if delivered.backup_records:
            backup = self._backup_metrics
            self.measure(
                (f"{backup}.Records", delivered.backup_records, "Count"),
                (f"{backup}.Bytes", delivered.backup_bytes, "Bytes"),
                (f"{backup}.Success", 1, "Count"),
                (f"{backup}.DataFreshness", fresh_s, "Seconds"),
            )
        elif delivered.outputs and name != "DeliveryToS3":
            self.measure(("DeliveryToS3.Success", 1, "Count"))
        if delivered.partitions is not None:
            self.measure(
                ("ActivePartitionsLimit", ACTIVE_PARTITIONS, "Count"),
                ("PartitionCount", delivered.partitions, "Count"),
                ("PartitionCountExceeded", float(delivered.exceeded), "Count"),
            )
            if delivered.size_bytes:
                # Measured over the time in which the buffer filled; assumed to be AWS's measure too.
                per_s = delivered.size_bytes / max(1.0, fresh_s)
                self.measure(("PerPartitionThroughput", per_s, "Bytes/Second"))

    def measure(self, *measures: Measure) -> None:
        """Send metric values."""
        if not measures:
            return
        now_ms = self._clock.now_ms()
        self._metrics.put(
            [
                Metric(NAMESPACE, name, value, unit, self._dimensions, now_ms)
                for name, value, unit in measures
            ],
            account=self._stream.account,
            region=self._stream.region,
        )

    @property
    def _dimensions(self) -> tuple[tuple[str, str], ...]:
        return (("DeliveryStreamName", self._stream.name),)


def _group_by_code(failed: Sequence[FailedRecord]) -> dict[str, tuple[int, str]]:
    """Return by code the number of failures and the first one's message."""
    groups: dict[str, tuple[int, str]] = {}
    for failure in failed:
        words = failure.log_message or failure.message
        count, message = groups.get(failure.code, (0, words))
        groups[failure.code] = (count + 1, message)
    return groups


def _name_of(destination: Mapping[str, Any]) -> str:
    """Return a destination's name in the log."""
    url = get_mapping(destination, "EndpointConfiguration").get("Url")
    # AWS's name for an Iceberg destination in the log is unknown; headrace uses its catalogue.
    url = url or get_mapping(destination, "CatalogConfiguration").get("CatalogARN")
    for name in _NAMES:
        url = url or destination.get(name)
    return str(url or "")
