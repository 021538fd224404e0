"""What tests of channels do again and again, through boto3."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

from headrace.testing.clock import MovableClock
from tests.api.kinesis.streams import arn_of
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud

STREAM, BUCKET, ERRORS = "flights", "lake", "failures"
STREAM_ARN = arn_of(STREAM)
ROLE = f"arn:aws:iam::{ACCOUNT}:role/delivery"
FRESHNESS_S = 300
TIMEOUT_S = 30


def storage(**more: Any) -> dict[str, Any]:
    return {
        "BucketARN": f"arn:aws:s3:::{BUCKET}",
        "ExpectedBucketOwner": ACCOUNT,
        "CompressionType": "NONE",
        **more,
    }


def request(name: str = "c", *, kind: str = "JSON", **more: Any) -> dict[str, Any]:
    """Return a request; `destination` are members of S3DestinationConfiguration, `stored` of its storage."""
    destination = more.pop("destination", {})
    stored = more.pop("stored", {})
    return {
        "ChannelName": name,
        "ServiceExecutionRoleARN": ROLE,
        "StreamConfigurationList": [
            {"StreamARN": STREAM_ARN, "RecordConfiguration": {"RecordFormatType": kind}}
        ],
        "S3DestinationConfiguration": {"StorageConfiguration": storage(**stored), **destination},
        **more,
    }


class ChannelLab:
    """One on-demand stream, two buckets, and a channel on the stream."""

    def __init__(self, cloud: InProcessCloud, clock: MovableClock) -> None:
        self.cloud = cloud
        self.clock = clock
        self.kinesis = cloud.client("kinesis")
        self.s3 = cloud.client("s3")

    def build(self) -> None:
        on_demand = {"StreamMode": "ON_DEMAND"}
        self.kinesis.create_stream(StreamName=STREAM, StreamModeDetails=on_demand)
        for bucket in (BUCKET, ERRORS):
            self.s3.create_bucket(Bucket=bucket)

    def channel(self, name: str = "c", **more: Any) -> str:
        answer = self.kinesis.create_channel(**request(name, **more))
        return str(answer["ChannelDescription"]["ChannelARN"])

    def described(self, arn: str) -> dict[str, Any]:
        return dict(self.kinesis.describe_channel(ChannelARN=arn)["ChannelDescription"])

    def put(self, *datas: bytes) -> None:
        records = [{"Data": data, "PartitionKey": str(n)} for n, data in enumerate(datas)]
        assert (
            self.kinesis.put_records(StreamName=STREAM, Records=records)["FailedRecordCount"] == 0
        )

    def deliver(self) -> None:
        """Let the data freshness pass, and wait until everything is delivered."""
        channels = self.cloud.cloud.kinesis.channels
        deadline_s = time.monotonic() + TIMEOUT_S
        while not all(
            (channels.status_of_delivery(one) or {"is_drained": True})["is_drained"]
            for one in channels.all()
        ):
            assert time.monotonic() < deadline_s
            self.clock.advance(FRESHNESS_S)
            time.sleep(0.01)

    def cloud_time(self, at_s: float) -> str:
        """Return a time as ISO text."""
        return datetime.fromtimestamp(at_s, UTC).isoformat()

    def keys(self, bucket: str = BUCKET) -> list[str]:
        return [one["Key"] for one in self.s3.list_objects_v2(Bucket=bucket).get("Contents", [])]

    def bodies(self, bucket: str = BUCKET) -> list[bytes]:
        return [self.s3.get_object(Bucket=bucket, Key=k)["Body"].read() for k in self.keys(bucket)]


# Channels to streaming tables.
SCHEMA: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer", "maximum": 1_000_000},
        "at": {"type": "string", "format": "date-time"},
        "price": {"type": "number", "multipleOf": 0.01},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}
SCHEMA_ARN = f"arn:aws:glue:{REGION}:{ACCOUNT}:schema/registry/flights"
TABLES_ARN = f"arn:aws:s3tables:{REGION}:{ACCOUNT}:bucket/lake-tables"
AT = "2026-03-04T05:06:07Z"


def to_table(kind: str = "JSON", **more: Any) -> dict[str, Any]:
    """Return a request; `table` are members of its S3TablesConfiguration."""
    table = {
        "TableBucketARN": TABLES_ARN,
        "Namespace": "air",
        "TableName": "flights",
        "CompressionType": "ZSTD",
        "PartitionSpec": {"PartitionFields": [{"Transform": "TIME_HOUR", "SourceName": "at"}]},
        **more.pop("table", {}),
    }
    whole = request("t", kind=kind, **more)
    del whole["S3DestinationConfiguration"]
    records = whole["StreamConfigurationList"][0]["RecordConfiguration"]
    records["GSRSchemaARN"] = SCHEMA_ARN
    whole["S3TablesDestinationConfiguration"] = {
        "DeadLetterQueueS3Configuration": {
            "BucketARN": f"arn:aws:s3:::{ERRORS}",
            "ExpectedBucketOwner": ACCOUNT,
        },
        "S3TablesConfigurationList": [table],
    }
    return whole


class TablesLab(ChannelLab):
    """See `ChannelLab`; with a table bucket and a schema."""

    def build(self) -> None:
        super().build()
        self.tables = self.cloud.client("s3tables")
        self.glue = self.cloud.client("glue")
        self.tables.create_table_bucket(name="lake-tables")
        self.glue.create_registry(RegistryName="registry")
        self.version_id = self.register("flights", SCHEMA)

    def register(self, name: str, schema: Any, data_format: str = "JSON") -> str:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        answer = self.glue.create_schema(
            RegistryId={"RegistryName": "registry"},
            SchemaName=name,
            DataFormat=data_format,
            Compatibility="NONE",
            SchemaDefinition=text,
        )
        return str(answer["SchemaVersionId"])

    def create(self, **more: Any) -> str:
        answer = self.kinesis.create_channel(**to_table(**more))
        return str(answer["ChannelDescription"]["ChannelARN"])

    def reason(self, arn: str) -> str:
        described = self.described(arn)
        assert described["ChannelStatus"] == "FAILED"
        return str(described["ChannelStatusReason"])

    def letters(self) -> list[dict[str, Any]]:
        return [json.loads(line) for body in self.bodies(ERRORS) for line in body.splitlines()]
