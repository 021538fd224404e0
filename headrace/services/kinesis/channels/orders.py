"""`ChannelOrder`: what the delivery engine is told of a channel, and what it tells the channel."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from headrace.core.arn import make_arn
from headrace.core.clock import Clock
from headrace.core.ports import (
    BucketTarget,
    CallerIdentity,
    DeliveredObjects,
    Guard,
    LogLine,
    LogSink,
    TableTarget,
)
from headrace.services.kinesis.channels.key_templates import expand
from headrace.services.kinesis.channels.state import Channel
from headrace.services.kinesis.counters import Stat
from headrace.services.kinesis.state import Stream

log = logging.getLogger(__name__)

# The session name of the service execution role is assumed.
SESSION = "KinesisChannel"
_COMPRESSIONS = {"NONE": "UNCOMPRESSED"}
_OF_TABLE_BUCKETS = ("CreateNamespace", "CreateTable")
_OF_TABLES = (
    "GetTable",
    "GetTableMetadataLocation",
    "UpdateTableMetadataLocation",
    "GetTableData",
    "PutTableData",
)
# The metrics of tables, by those of buckets. Documented for MSK's channels.
_OF_ROWS = {
    "RecordCount": "TotalRowCount",
    "SuccessfulRecordCount": "SuccessfulRowCount",
    "FailedRecordCount": "FailedRowCount",
    "DeliverySuccess": "CommitSuccess",
}


class ChannelOrder:
    """Implements `headrace.core.ports.ObjectOrder` for a channel. Thread-safe.

    Attributes:
        channel: the channel; its settings may change.
        stream: its stream.
    """

    def __init__(
        self,
        channel: Channel,
        stream: Stream,
        *,
        clock: Clock,
        guard: Guard,
        logs: LogSink | None,
        fail: Callable[[Channel, str], None],
        note_table: Callable[[Channel, str, str], None],
    ) -> None:
        """Take `fail`, which makes the channel FAILED for a reason, and `note_table`, which stores what was made."""
        self.channel = channel
        self.stream = stream
        self._clock = clock
        self._guard = guard
        self._logs = logs
        self._fail = fail
        self._note_table = note_table
        self._lock = threading.Lock()
        self._stats: dict[str, Stat] = {}

    # --- what is delivered where ---------------------------------------------------------------

    @property
    def order_id(self) -> str:
        """The channel's id."""
        return self.channel.channel_id

    @property
    def name(self) -> str:
        """The channel's name."""
        return self.channel.name

    @property
    def account(self) -> str:
        """The channel's account."""
        return self.channel.account

    @property
    def region(self) -> str:
        """The channel's region."""
        return self.channel.region

    @property
    def stream_arn(self) -> str:
        """The stream's ARN."""
        return self.stream.arn

    @property
    def from_ms(self) -> int:
        """When the channel became ACTIVE (0: at once): what is older is never delivered."""
        return self.channel.active_ms

    @property
    def role_arn(self) -> str:
        """The service execution role."""
        return self.channel.role_arn

    @property
    def interval_s(self) -> float:
        """The data freshness."""
        return self.channel.freshness_s

    @property
    def target(self) -> BucketTarget | TableTarget:
        """See `ObjectOrder.target`."""
        storage = self.channel.storage
        if self.channel.table:
            return self._build_table()
        compression = storage["CompressionType"]
        return BucketTarget(
            arn=storage["BucketARN"],
            owner=storage["ExpectedBucketOwner"],
            key_arn=self.channel.key_arn,
            storage_class=storage["StorageClass"],
            compression=_COMPRESSIONS.get(compression, compression),
        )

    def _build_table(self) -> TableTarget:
        channel, table = self.channel, self.channel.table
        fields: list[dict[str, str]] = table["PartitionSpec"]["PartitionFields"]
        return TableTarget(
            bucket_arn=table["TableBucketARN"],
            namespace=table["Namespace"],
            name=table["TableName"],
            compression=table["CompressionType"],
            partition_columns=tuple(one["SourceName"] for one in fields),
            schema_arn=channel.schema_arn,
            has_header=channel.record_format == "GSR_JSON",
            key_arn=channel.key_arn,
            definition=channel.definition,
            arn=channel.table_arn,
        )

    @property
    def error_target(self) -> BucketTarget:
        """See `ObjectOrder.error_target`."""
        letters = self.channel.dead_letters
        return BucketTarget(
            arn=letters["BucketARN"],
            owner=letters["ExpectedBucketOwner"],
            key_arn=self.channel.key_arn,
        )

    def object_key(self, now_ms: int, unique: str) -> str:
        """See `ObjectOrder.object_key`."""
        storage, channel = self.channel.storage, self.channel
        names = names_of(channel.name, channel.channel_id, self.stream.name)
        template, compression = storage["OutputKeyTemplate"], storage["CompressionType"]
        return expand(template, compression, names, now_ms, unique)

    def error_key(self, now_ms: int, unique: str) -> str:
        """See `ObjectOrder.error_key`. What follows the prefix is assumed."""
        return f"{self.channel.dead_letters['ErrorOutputPrefix']}{self.channel.name}-{unique}.json"

    def find_fault(self, data: bytes) -> tuple[str, str] | None:
        """See `ObjectOrder.find_fault`. Codes and sentences are assumed."""
        kind = self.channel.record_format
        try:
            if kind == "STRING":
                data.decode()
            elif kind == "JSON":
                msgspec.json.decode(data)
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            what = "a valid UTF-8 string" if kind == "STRING" else "a valid JSON payload"
            return "S3.InvalidRecordFormat", f"The record is not {what}: {error}"
        return None

    def join(self, datas: Sequence[bytes]) -> bytes:
        """Return the records as they are (documented), one after the other (assumed: with nothing between them)."""
        return b"".join(datas)

    def describe_fault(self, fault: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `ObjectOrder.describe_fault`.

        Documented of MSK's channels: the identifiers of the records and the error's context, not the data. The members'
        names are assumed.
        """
        return {"channelARN": self.channel.arn, "streamARN": self.stream.arn, **fault}

    def list_permissions(self) -> list[tuple[str, str]]:
        """Return the actions and resources that the role needs. Of buckets documented; of tables as MSK's channels."""
        now_ms, target = self._clock.now_ms(), self.target
        errors = ("s3:PutObject", f"{self.error_target.arn}/{self.error_key(now_ms, 'x')}")
        if not isinstance(target, TableTarget):
            return [("s3:PutObject", f"{target.arn}/{self.object_key(now_ms, 'x')}"), errors]
        # Its ARN has an id that it gets when it is made.
        table = target.arn or f"{target.bucket_arn}/table/*"
        return [
            ("glue:GetSchemaVersion", target.schema_arn),
            *((f"s3tables:{name}", target.bucket_arn) for name in _OF_TABLE_BUCKETS),
            *((f"s3tables:{name}", table) for name in _OF_TABLES),
            errors,
        ]

    # --- what happens --------------------------------------------------------------------------

    def note_read(self, records: int, size_bytes: int) -> None:
        """See `ObjectOrder.note_read`."""
        self._note("BytesIn", size_bytes)
        self._note("BytesProcessed", size_bytes)
        self._note("RecordCount", records)

    def note_delivered(self, delivered: DeliveredObjects) -> None:
        """See `ObjectOrder.note_delivered`."""
        self._note("BytesOut", delivered.stored_bytes)
        self._note("SuccessfulRecordCount", delivered.records)
        self._note("FailedRecordCount", delivered.refused)
        self._note("DeliverySuccess", 1)
        self._note("DataFreshness", delivered.age_ms // 1000)
        if delivered.refused:
            self._note("DLQDeliverySuccess", delivered.refused)

    def note_error(self, code: str, message: str) -> None:
        """See `ObjectOrder.note_error`. The line's members are assumed."""
        channel = self.channel
        log.warning("channel %s: %s: %s", channel.name, code, message)
        if self._logs is None or not channel.logging["Enabled"]:
            return
        group, stream = channel.logging["LogGroupName"], channel.logging["LogStreamName"]
        name = f"log-group:{group}:log-stream:{stream}"
        resource = make_arn("logs", channel.region, channel.account, name)
        acting = CallerIdentity(channel.role_arn, SESSION)
        if self._guard.denial(acting, "logs:PutLogEvents", resource):
            return
        text = json.dumps(
            {
                "channelARN": channel.arn,
                "streamARN": self.stream.arn,
                "destination": channel.destination,
                "errorCode": code,
                "message": message,
            }
        )
        lines = [LogLine(self._clock.now_ms(), text)]
        self._logs.put(group, stream, lines, account=channel.account, region=channel.region)

    def note_table(self, definition: str, arn: str) -> None:
        """See `ObjectOrder.note_table`."""
        self._note_table(self.channel, definition, arn)

    def note_suspended(self, reason: str) -> None:
        """See `ObjectOrder.note_suspended`.

        Documented: the channel is suspended for ever. Assumed: it is FAILED then, as the API has no other state for it.
        """
        self._fail(self.channel, reason)

    def take_stats(self) -> dict[str, Stat]:
        """Return the counts of the metrics since the last call, by name, and reset them."""
        with self._lock:
            taken, self._stats = self._stats, {}
        return taken

    def _note(self, metric: str, value: int) -> None:
        metric = _OF_ROWS.get(metric, metric) if self.channel.table else metric
        with self._lock:
            self._stats.setdefault(metric, Stat()).note(value)


def names_of(name: str, channel_id: str, stream_name: str) -> dict[str, str]:
    """Return the values of a key template's names."""
    return {"channel-name": name, "channel-id": channel_id, "stream-name": stream_name}
