"""`ChannelOrder`: what the delivery engine is told of a channel, and what it tells the channel.

The dataclass for a channel, whose fields are the JSON document that stores it.

The keys of a channel's objects: checks output key templates, and evaluates them. Pure functions.

Source: docs.aws.amazon.com/streams/latest/dev/data-delivery-s3-key-template.md (documented). Assumed: the sentences;
the times are those of the delivery; the unique suffix stands before the extension, which ends the key.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

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
from headrace.services.kinesis.state import Stat, Stream

DEFAULT_TEMPLATE = (
    "kinesis-channel/!{channel-name}/!{channel-id}/!{yyyy}/!{MM}/!{dd}/!{HH}/"
    "!{channel-name}-!{channel-id}-!{yyyy}-!{MM}-!{dd}-!{HH}-!{mm}!{extension}"
)
# By CompressionType.
EXTENSIONS = {"NONE": "", "GZIP": ".gz", "ZSTD": ".zst"}
# S3's limit is 1,024; the suffix takes up to 38.
_EXPANDED_CHARS = 986
_VARIABLE = re.compile(r"!\{([^{}]*)\}")
_EXTENSION = "extension"
_LITERAL_EXTENSION = re.compile(r"extension:\.[a-z.]+")
_LITERALS = re.compile(r"[A-Za-z0-9!\-_'.*()/=]*")
_NAMES = ("channel-name", "channel-id", "stream-name")
_TIMES = {"yyyy": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M"}


def find_fault(template: str, compression: str, names: Mapping[str, str]) -> str:
    """Return what is wrong with a template, as a sentence; "" for nothing. For `names` see `expand`."""
    if template.startswith("/"):
        return "OutputKeyTemplate must not start with a forward slash."
    if "//" in template:
        return "OutputKeyTemplate must not contain consecutive slashes."
    variables = _VARIABLE.findall(template)
    rest = _VARIABLE.sub("", template)
    if "{" in rest or "}" in rest:
        return "OutputKeyTemplate contains a variable placeholder that is not closed."
    if not _LITERALS.fullmatch(rest):
        return "OutputKeyTemplate contains characters that are not allowed."
    for name in variables:
        if name not in _NAMES and name not in _TIMES and not _is_extension(name):
            return f"OutputKeyTemplate contains the unsupported variable !{{{name}}}."
    extensions = [name for name in variables if _is_extension(name)]
    if len(extensions) > 1:
        return "OutputKeyTemplate can contain at most one extension placeholder."
    if extensions and not template.endswith(f"!{{{extensions[0]}}}"):
        return "The extension placeholder must be at the end of OutputKeyTemplate."
    if compression != "NONE" and not extensions:
        return (
            "OutputKeyTemplate must contain an extension placeholder when compression is enabled."
        )
    segments = _VARIABLE.sub("v", template).split("/")
    if ".." in rest or "." in segments:
        return "OutputKeyTemplate must not contain path traversal."
    expanded = expand(template, compression, names, 0, "")
    if len(expanded) > _EXPANDED_CHARS:
        return f"OutputKeyTemplate is longer than {_EXPANDED_CHARS} characters after its variables are expanded."
    return ""


def expand(
    template: str, compression: str, names: Mapping[str, str], at_ms: int, unique: str
) -> str:
    """Return an object's key: the template with its variables, `unique`, and the extension.

    `names` has the values of channel-name, channel-id and stream-name.
    """
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    extension = ""

    def value(match: re.Match[str]) -> str:
        nonlocal extension
        name = match.group(1)
        if _is_extension(name):
            extension = name.partition(":")[2] or EXTENSIONS[compression]
            return ""
        return names[name] if name in names else at.strftime(_TIMES[name])

    key = _VARIABLE.sub(value, template)
    return f"{key}-{unique}{extension}" if unique else key + extension


def _is_extension(name: str) -> bool:
    return name == _EXTENSION or _LITERAL_EXTENSION.fullmatch(name) is not None


ChannelStatus = Literal["CREATING", "ACTIVE", "UPDATING", "DELETING", "FAILED"]


@dataclass(slots=True)
class Channel:
    """A channel on the stream with `stream_id`.

    Attributes:
        channel_id: the generated last part of the ARN.
        record_format: JSON, STRING or BYTE_ARRAY; JSON or GSR_JSON for a channel to a table.
        storage: AWS's S3StorageConfiguration, complete; empty for a channel to a table.
        dead_letters: AWS's DeadLetterQueueS3Configuration, complete.
        key_arn: the KMS key of the delivered objects; "" without.
        key_id: that key as the request named it.
        logging: AWS's CloudWatchLogs, complete.
        active_ms: from when on records are delivered; 0 when it was ACTIVE at once.
        latest_status, settles_ms: the status that was set last, and when it ends.
        reason: why the channel is FAILED, or will be when CREATING ends; "" for none.
        table: AWS's S3TablesConfiguration; empty for a channel to a bucket.
        schema_arn: the schema in Glue's registry, of a channel to a table.
        definition, table_arn: the schema's text and the table's ARN, once the table is made.
        policy: always None: channels have no policies (API_PutResourcePolicy).
    """

    name: str
    account: str
    region: str
    channel_id: str
    stream_id: str
    created_ms: int
    role_arn: str
    record_format: str
    freshness_s: int
    storage: dict[str, str]
    dead_letters: dict[str, str]
    logging: dict[str, Any]
    key_id: str = ""
    key_arn: str = ""
    tags: dict[str, str] = field(default_factory=dict[str, str])
    active_ms: int = 0
    latest_status: ChannelStatus = "CREATING"
    settles_ms: int = 0
    reason: str = ""
    table: dict[str, Any] = field(default_factory=dict[str, Any])
    schema_arn: str = ""
    definition: str = ""
    table_arn: str = ""
    policy: str | None = None

    @property
    def arn(self) -> str:
        """The channel's ARN."""
        return make_arn("kinesis", self.region, self.account, f"channel/{self.channel_id}")

    @property
    def destination(self) -> str:
        """What it delivers to: the bucket's ARN, or the table's name in its table bucket."""
        if not self.table:
            return self.storage["BucketARN"]
        return f"{self.table['TableBucketARN']}/{self.table['Namespace']}.{self.table['TableName']}"

    def status(self, now_ms: int) -> ChannelStatus:
        """Return AWS's status. A channel that is DELETING stays so until it is removed; FAILED is for ever."""
        if self.latest_status in ("CREATING", "UPDATING") and now_ms >= self.settles_ms:
            self.latest_status, self.settles_ms = "FAILED" if self.reason else "ACTIVE", 0
        return self.latest_status

    def document(self) -> dict[str, Any]:
        """Return the channel's document."""
        return asdict(self)


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
