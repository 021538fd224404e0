"""What a delivery stream reports: errors to CloudWatch Logs, metrics to CloudWatch."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from headrace.core.clock import Clock
from headrace.core.ports import (
    BucketNotFound,
    LogLine,
    LogSink,
    Metric,
    MetricSink,
    SchemaNotFound,
    StreamRecord,
)
from headrace.core.values import mapped
from headrace.services.firehose.failures import Failed
from headrace.services.firehose.state import DeliveryStream

log = logging.getLogger(__name__)

NAMESPACE = "AWS/Firehose"
LOG_STREAM = "DestinationDelivery"


class Reports:
    """The reports of one delivery stream. Thread-safe, as its sinks are; never raises."""

    def __init__(
        self, stream: DeliveryStream, clock: Clock, logs: LogSink, metrics: MetricSink
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._logs = logs
        self._metrics = metrics
        self.last_error = ""

    # --- errors -------------------------------------------------------------------------------

    def failure(self, error: Exception) -> None:
        """Report that a delivery failed and will be tried again."""
        match error:
            case BucketNotFound():
                code, message = "S3.NoSuchBucket", "The specified bucket does not exist."
            case SchemaNotFound():
                code = "DataFormatConversion.EntityNotFound"
                message = f"The specified table or database could not be found: {error}"
            case _:
                code, message = f"Headrace.{type(error).__name__}", str(error)
        self.last_error = f"{code}: {message}"
        self._put_log(code, f"The delivery failed and will be tried again. {message}")
        self._measure(("DeliveryToS3.Success", 0, "Count"))

    def refused(self, failed: Sequence[Failed]) -> None:
        """Report that records went to the error output."""
        first = failed[0]
        self._put_log(
            first.code, f"{len(failed)} records went to the error output. First: {first.message}"
        )

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
                "destination": stream.destination["BucketARN"],
                "deliveryStreamVersionId": stream.version,
                "message": message,
                "errorCode": code,
            }
        )
        self._logs.put(
            options["LogGroupName"],
            options.get("LogStreamName") or LOG_STREAM,
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

    def incoming(self, datas: Sequence[bytes]) -> None:
        """Report that records were put directly."""
        self._measure(
            ("IncomingRecords", len(datas), "Count"),
            ("IncomingBytes", sum(map(len, datas)), "Bytes"),
        )

    def delivered(self, *, records: int, size_bytes: int, oldest_ms: int) -> None:
        """Report that a delivery is done."""
        self.last_error = ""
        self._measure(
            ("DeliveryToS3.Records", records, "Count"),
            ("DeliveryToS3.Bytes", size_bytes, "Bytes"),
            ("DeliveryToS3.Success", 1, "Count"),
            (
                "DeliveryToS3.DataFreshness",
                max(0, self._clock.now_ms() - oldest_ms) / 1000,
                "Seconds",
            ),
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
