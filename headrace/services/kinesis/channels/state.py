"""The dataclass for a channel, whose fields are the JSON document that stores it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from headrace.core.arn import make_arn

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
