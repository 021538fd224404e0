"""Changes that cannot be stored, service by service: AWS's 5xx, and everything as it was, in memory too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.store import disk_space
from tests.support.cloud import InProcessCloud
from tests.support.lambda_lab import ROLE, zipped

BUCKET = "bucket-one"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("full") / "data") as cloud:
        kinesis = cloud.client("kinesis")
        kinesis.create_stream(StreamName="s", ShardCount=2)
        arn = kinesis.describe_stream_summary(StreamName="s")["StreamDescriptionSummary"][
            "StreamARN"
        ]
        kinesis.register_stream_consumer(StreamARN=arn, ConsumerName="c", Tags={"a": "1"})
        cloud.client("s3").create_bucket(Bucket=BUCKET)
        cloud.client("lambda").create_function(
            FunctionName="f", Runtime="python3.11", Role=ROLE, Handler="m.handler",
            Code={"ZipFile": zipped({"m.py": "x = 1"})},
        )  # fmt: skip
        cloud.client("firehose").create_delivery_stream(
            DeliveryStreamName="d",
            ExtendedS3DestinationConfiguration={
                "RoleARN": ROLE,
                "BucketARN": f"arn:aws:s3:::{BUCKET}",
            },
        )
        yield cloud


def state(cloud: InProcessCloud) -> dict[str, Any]:
    kinesis, s3 = cloud.client("kinesis"), cloud.client("s3")
    summary = kinesis.describe_stream_summary(StreamName="s")["StreamDescriptionSummary"]
    (consumer,) = kinesis.list_stream_consumers(StreamARN=summary["StreamARN"])["Consumers"]
    function = cloud.client("lambda").get_function(FunctionName="f")
    firehose = cloud.client("firehose")
    delivery = firehose.describe_delivery_stream(DeliveryStreamName="d")[
        "DeliveryStreamDescription"
    ]
    return {
        "summary": summary,
        "stream tags": kinesis.list_tags_for_stream(StreamName="s")["Tags"],
        "shards": kinesis.list_shards(StreamName="s")["Shards"],
        "consumer tags": kinesis.list_tags_for_resource(ResourceARN=consumer["ConsumerARN"])[
            "Tags"
        ],
        "buckets": [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]],
        "versioning": s3.get_bucket_versioning(Bucket=BUCKET).get("Status"),
        "function": function["Configuration"]["Timeout"],
        "function tags": function.get("Tags"),
        "delivery": delivery,
        "delivery tags": firehose.list_tags_for_delivery_stream(DeliveryStreamName="d")["Tags"],
        "mappings": cloud.client("lambda").list_event_source_mappings()["EventSourceMappings"],
    }  # fmt: skip


def _arn(cloud: InProcessCloud) -> str:
    summary = cloud.client("kinesis").describe_stream_summary(StreamName="s")
    return summary["StreamDescriptionSummary"]["StreamARN"]


def _consumer(cloud: InProcessCloud) -> str:
    listed = cloud.client("kinesis").list_stream_consumers(StreamARN=_arn(cloud))
    return listed["Consumers"][0]["ConsumerARN"]


CHANGES: dict[str, Callable[[InProcessCloud], Any]] = {
    "CreateStream": lambda c: c.client("kinesis").create_stream(StreamName="t", ShardCount=1),
    "SplitShard": lambda c: c.client("kinesis").split_shard(
        StreamName="s", ShardToSplit="shardId-000000000000", NewStartingHashKey="100"
    ),
    "MergeShards": lambda c: c.client("kinesis").merge_shards(
        StreamName="s",
        ShardToMerge="shardId-000000000000",
        AdjacentShardToMerge="shardId-000000000001",
    ),
    "AddTagsToStream": lambda c: c.client("kinesis").add_tags_to_stream(
        StreamName="s", Tags={"a": "b"}
    ),
    "IncreaseStreamRetentionPeriod": lambda c: c.client("kinesis").increase_stream_retention_period(
        StreamName="s", RetentionPeriodHours=48
    ),
    "TagResource": lambda c: c.client("kinesis").tag_resource(
        ResourceARN=_consumer(c), Tags={"a": "2"}
    ),
    "RegisterStreamConsumer": lambda c: c.client("kinesis").register_stream_consumer(
        StreamARN=_arn(c), ConsumerName="d"
    ),
    "CreateBucket": lambda c: c.client("s3").create_bucket(Bucket="another"),
    "PutBucketVersioning": lambda c: c.client("s3").put_bucket_versioning(
        Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"}
    ),
    "CreateMultipartUpload": lambda c: c.client("s3").create_multipart_upload(
        Bucket=BUCKET, Key="k"
    ),
    "UpdateFunctionConfiguration": lambda c: c.client("lambda").update_function_configuration(
        FunctionName="f", Timeout=99
    ),
    "TagFunction": lambda c: c.client("lambda").tag_resource(
        Resource="arn:aws:lambda:us-east-1:000000000000:function:f", Tags={"a": "b"}
    ),
    "CreateEventSourceMapping": lambda c: c.client("lambda").create_event_source_mapping(
        EventSourceArn=_arn(c), FunctionName="f", StartingPosition="TRIM_HORIZON"
    ),
    "CreateDeliveryStream": lambda c: c.client("firehose").create_delivery_stream(
        DeliveryStreamName="e",
        ExtendedS3DestinationConfiguration={
            "RoleARN": ROLE,
            "BucketARN": f"arn:aws:s3:::{BUCKET}",
        },
    ),
    "UpdateDestination": lambda c: c.client("firehose").update_destination(
        DeliveryStreamName="d",
        CurrentDeliveryStreamVersionId="1",
        DestinationId="destinationId-000000000001",
        ExtendedS3DestinationUpdate={"Prefix": "new/"},
    ),
    "TagDeliveryStream": lambda c: c.client("firehose").tag_delivery_stream(
        DeliveryStreamName="d", Tags=[{"Key": "a", "Value": "b"}]
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_cannot_be_stored_has_not_happened(
    cloud: InProcessCloud, name: str, monkeypatch: pytest.MonkeyPatch
):
    before = state(cloud)
    with monkeypatch.context() as full:
        full.setattr(disk_space, "free_bytes", lambda _: 0)
        with pytest.raises(ClientError) as caught:
            CHANGES[name](cloud)
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] in (500, 503)
        assert state(cloud) == before
    assert state(cloud) == before


def test_what_was_refused_is_taken_when_there_is_room_again(tmp_path: Path):
    with InProcessCloud(tmp_path) as cloud:
        with pytest.MonkeyPatch.context() as full:
            full.setattr(disk_space, "free_bytes", lambda _: 0)
            with pytest.raises(ClientError):
                cloud.client("kinesis").create_stream(StreamName="s", ShardCount=1)
        cloud.client("kinesis").create_stream(StreamName="s", ShardCount=1)
        assert cloud.client("kinesis").list_streams()["StreamNames"] == ["s"]
