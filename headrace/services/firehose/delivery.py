"""Delivering: one worker a delivery stream, from buffer to object, each record exactly once.

The buffer is memory only: it can always be read again from the source. A delivery is decided in three steps,
each durable before the next: the *intent* (which records, by shard and sequence number, under which object
name), the object, and the new positions. After a kill the intent is carried out again, to the same bytes under the
same name, so nothing is lost and nothing is there twice. (AWS promises at-least-once.)
"""

from __future__ import annotations

import gzip
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import (
    LogLine,
    LogSink,
    Metric,
    MetricSink,
    ObjectStore,
    SchemaCatalog,
    StreamRecord,
)
from headrace.core.values import listed, mapped
from headrace.services.firehose import prefix
from headrace.services.firehose.failures import Failed, error_lines
from headrace.services.firehose.sources import END, TRIM_HORIZON, Source, position_text
from headrace.services.firehose.state import DeliveryStream, DeliveryStreams, Progress

if TYPE_CHECKING:
    from headrace.services.firehose.convert import Converted

log = logging.getLogger(__name__)

READ_RECORDS = 10_000
READ_BYTES = 4 * 1024 * 1024
MIB = 1024 * 1024
CONVERSION_FAILED = "format-conversion-failed"


@dataclass(slots=True)
class Buffer:
    """Records read and not yet delivered, by shard, and where each shard would go on."""

    records: dict[str, list[StreamRecord]] = field(default_factory=dict[str, list[StreamRecord]])
    after: dict[str, str] = field(default_factory=dict[str, str])
    size_bytes: int = 0
    since_s: float = 0.0

    @property
    def count(self) -> int:
        """Records in all."""
        return sum(map(len, self.records.values()))


@dataclass(frozen=True, slots=True)
class Ports:
    """What deliveries need of the rest of the cloud."""

    clock: Clock
    ids: Ids
    objects: ObjectStore
    schemas: SchemaCatalog
    logs: LogSink
    metrics: MetricSink


class Delivery:
    """The `Worker` of one delivery stream. `step` is called by one thread at a time."""

    def __init__(
        self,
        stream: DeliveryStream,
        source: Source,
        streams: DeliveryStreams,
        ports: Ports,
        is_current: Callable[[], bool],
    ) -> None:
        self.name = f"firehose {stream.name}"
        self._stream = stream
        self._source = source
        self._streams = streams
        self._ports = ports
        self._is_current = is_current
        self._progress = streams.progress(stream.stream_id)
        self._buffer = Buffer()

    @property
    def progress(self) -> Progress:
        """How far it has come."""
        return self._progress

    @property
    def buffered_records(self) -> int:
        """Records in the buffer."""
        return self._buffer.count

    # --- the worker ---------------------------------------------------------------------------

    def step(self) -> float:
        """Deliver what a kill left, read what is new, deliver what is due."""
        try:
            if self._progress.intent is not None:
                self._carry_out(self._read_again(self._progress.intent))
            more = self._fill()
            wait_s = self._wait_s()
            if self._buffer.count and wait_s <= 0:
                self._deliver()
                return 0.0
            if not self._buffer.count and self._buffer.after:
                # Only ends of shards: nothing to write, but their children may now be read.
                self._advance(self._buffer.after)
                return 0.0
        except Exception as error:
            self._say(f"The delivery failed and will be tried again: {error}")
            raise
        return 0.0 if more else wait_s

    def _hints(self) -> tuple[int, float]:
        hints = self._stream.destination["BufferingHints"]
        return int(hints["SizeInMBs"]) * MIB, float(hints["IntervalInSeconds"])

    def _wait_s(self) -> float:
        """Return the seconds until the buffer is due; infinite for an empty one."""
        if not self._buffer.count:
            return math.inf
        size_bytes, interval_s = self._hints()
        if self._buffer.size_bytes >= size_bytes:
            return 0.0
        return max(0.0, self._buffer.since_s + interval_s - self._ports.clock.monotonic_s())

    def _fill(self) -> bool:
        """Read what is there into the buffer; whether there may be more at once."""
        buffer = self._buffer
        size_bytes, _ = self._hints()
        more = False
        for shard_id in self._source.readable(self._progress):
            if buffer.size_bytes >= size_bytes:
                return False
            position = buffer.after.get(shard_id) or self._progress.positions.get(
                shard_id, TRIM_HORIZON
            )
            if position == END:
                continue
            got = self._source.read(
                shard_id, position, READ_RECORDS, min(READ_BYTES, size_bytes - buffer.size_bytes)
            )
            if got.records:
                if not buffer.count:
                    buffer.since_s = self._ports.clock.monotonic_s()
                buffer.records.setdefault(shard_id, []).extend(got.records)
                buffer.size_bytes += sum(len(record.data) for record in got.records)
                more = True
                self._count_incoming(got.records)
            if got.next_position is None:
                buffer.after[shard_id] = END
            elif got.records:
                buffer.after[shard_id] = position_text(got.next_position)
        return more

    # --- delivering ---------------------------------------------------------------------------

    def _deliver(self) -> None:
        buffer = self._buffer
        records = [record for shard in sorted(buffer.records) for record in buffer.records[shard]]
        now_ms = self._ports.clock.now_ms()
        intent = {
            "version": self._stream.version,
            "at_ms": min(record.approximate_arrival_ms for record in records),
            "named_ms": now_ms,
            "uuid": self._ports.ids.uuid(),
            "random": self._ports.ids.hex(11),
            "from": {
                shard: self._progress.positions.get(shard, TRIM_HORIZON) for shard in buffer.records
            },
            "counts": {shard: len(found) for shard, found in buffer.records.items()},
            "after": buffer.after,
        }
        self._progress.intent = intent
        self._save()
        self._carry_out(records)

    def _read_again(self, intent: dict[str, Any]) -> list[StreamRecord]:
        """Return the very records of an intent, from the source."""
        records: list[StreamRecord] = []
        for shard_id in sorted(intent["counts"]):
            left, position = intent["counts"][shard_id], intent["from"][shard_id]
            while left > 0:
                got = self._source.read(shard_id, position, min(left, READ_RECORDS), READ_BYTES)
                if not got.records:
                    # Retention, or the stream's deletion, has overtaken the delivery.
                    self._say(f"{left} records of {shard_id} were gone before they were delivered")
                    break
                records += got.records
                left -= len(got.records)
                if got.next_position is None:
                    break
                position = position_text(got.next_position)
        return records

    def _carry_out(self, records: list[StreamRecord]) -> None:
        intent = self._progress.intent
        assert intent is not None
        if not self._is_current():
            return
        if records:
            self._write(records, intent)
        self._progress.delivered_records += len(records)
        self._progress.intent = None
        self._advance(intent["after"])
        for shard_id in intent["counts"]:
            self._source.delivered(shard_id, intent["at_ms"])

    def _advance(self, after: dict[str, str]) -> None:
        self._progress.positions.update(after)
        self._save()
        self._buffer = Buffer()

    def _save(self) -> None:
        self._streams.save_progress(self._stream.stream_id, self._progress)

    def _write(self, records: list[StreamRecord], intent: dict[str, Any]) -> None:
        stream = self._stream
        failed: list[Failed] = []
        if stream.conversion is not None:
            made = self._convert(records, stream.conversion)
            body, failed = made.data, made.failed
            rows = made.rows
        else:
            delimiter = self._delimiter()
            body = b"".join([record.data + delimiter for record in records])
            rows = len(records)
        if failed:
            self._put(error_lines(failed, intent["named_ms"]), intent, CONVERSION_FAILED)
            self._progress.failed_records += len(failed)
            self._say(f"{len(failed)} records could not be converted: {failed[0].message}")
        if rows:
            self._put(body, intent, "")
            self._progress.delivered_objects += 1
            self._progress.delivered_bytes += len(body)
        self._count_delivered(records, len(body))

    def _convert(self, records: list[StreamRecord], conversion: dict[str, Any]) -> Converted:
        # pyarrow takes a fifth of a second to import, and a cloud must be healthy within one.
        from headrace.services.firehose import convert

        table = conversion["SchemaConfiguration"]
        schema = self._ports.schemas.table(
            table["DatabaseName"],
            table["TableName"],
            account=table.get("CatalogId") or self._stream.account,
            region=table.get("Region") or self._stream.region,
        )
        serializer = conversion["OutputFormatConfiguration"]["Serializer"]["ParquetSerDe"]
        compression = serializer.get("Compression") or "SNAPPY"
        return convert.to_parquet(
            records, schema, compression="NONE" if compression == "UNCOMPRESSED" else compression
        )

    def _delimiter(self) -> bytes:
        processing = mapped(self._stream.destination, "ProcessingConfiguration")
        if not processing.get("Enabled"):
            return b""
        for processor in listed(processing, "Processors"):
            if processor["Type"] == "AppendDelimiterToRecord":
                values = {
                    p["ParameterName"]: p["ParameterValue"] for p in listed(processor, "Parameters")
                }
                text = str(values.get("Delimiter", "\\n"))
                return text.replace("\\n", "\n").replace("\\t", "\t").encode()
        return b""

    def _put(self, body: bytes, intent: dict[str, Any], error_type: str) -> None:
        stream = self._stream
        text = stream.error_prefix if error_type else stream.prefix
        if error_type and not text:
            # AWS's default: the type's name under the prefix.
            text = f"{stream.prefix}{error_type}/"
        folder = prefix.evaluate(
            text,
            intent["at_ms"],
            time_zone=stream.time_zone,
            random=intent["random"],
            error_type=error_type,
        )
        at = datetime.fromtimestamp(intent["named_ms"] / 1000, UTC).strftime("%Y-%m-%d-%H-%M-%S")
        name = f"{stream.name}-{intent['version']}-{at}-{intent['uuid']}"
        encoding = None
        if not error_type:
            name += self._extension()
            if stream.destination.get("CompressionFormat") == "GZIP":
                # A fixed time in the header: a delivery done again gives the same bytes.
                body, encoding = gzip.compress(body, mtime=0), "gzip"
        self._ports.objects.put(
            stream.bucket,
            folder + name,
            body,
            content_type="application/octet-stream",
            content_encoding=encoding,
        )

    def _extension(self) -> str:
        given = self._stream.destination.get("FileExtension")
        if given:
            return str(given)
        if self._stream.conversion is not None:
            return ".parquet"
        return ".gz" if self._stream.destination.get("CompressionFormat") == "GZIP" else ""

    # --- telling ------------------------------------------------------------------------------

    def _say(self, message: str) -> None:
        log.warning("%s: %s", self.name, message)
        options = mapped(self._stream.destination, "CloudWatchLoggingOptions")
        if options.get("Enabled") and options.get("LogGroupName"):
            self._ports.logs.put(
                options["LogGroupName"],
                options.get("LogStreamName") or "DestinationDelivery",
                [LogLine(self._ports.clock.now_ms(), message)],
                account=self._stream.account,
                region=self._stream.region,
            )

    def _count_incoming(self, records: list[StreamRecord]) -> None:
        self._measure(
            ("IncomingRecords", len(records), "Count"),
            ("IncomingBytes", sum(len(record.data) for record in records), "Bytes"),
        )

    def _count_delivered(self, records: list[StreamRecord], size_bytes: int) -> None:
        now_ms = self._ports.clock.now_ms()
        oldest_ms = min(record.approximate_arrival_ms for record in records)
        self._measure(
            ("DeliveryToS3.Records", len(records), "Count"),
            ("DeliveryToS3.Bytes", size_bytes, "Bytes"),
            ("DeliveryToS3.Success", 1, "Count"),
            ("DeliveryToS3.DataFreshness", max(0, now_ms - oldest_ms) / 1000, "Seconds"),
        )

    def _measure(self, *data: tuple[str, float, str]) -> None:
        now_ms = self._ports.clock.now_ms()
        dimensions = (("DeliveryStreamName", self._stream.name),)
        self._ports.metrics.put(
            [
                Metric("AWS/Firehose", name, value, unit, dimensions, now_ms)
                for name, value, unit in data
            ],
            account=self._stream.account,
            region=self._stream.region,
        )
