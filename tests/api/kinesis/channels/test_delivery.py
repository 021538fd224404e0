"""What a channel puts into buckets: which records, in which objects, under which keys."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cramjam
import pytest

from headrace.core.ports import DeliveredObjects, NoGuard
from headrace.services.kinesis.channel_orders import ChannelOrder
from headrace.services.kinesis.metrics import channel_metrics
from headrace.testing.clock import MovableClock
from tests.api.kinesis.channels.lab import BUCKET, ERRORS, STREAM, STREAM_ARN, ChannelLab
from tests.api.kinesis.streams import split_first
from tests.support.cloud import ACCOUNT, InProcessCloud

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"


def test_records_from_active_on_are_delivered_as_they_are(lab: ChannelLab):
    lab.put(b'{"n": 0}')
    lab.channel()
    lab.put(b'{"n": 1}', b'{"n":\n2}')
    assert lab.keys() == []
    lab.deliver()
    (body,) = lab.bodies()
    records = {b'{"n": 1}', b'{"n":\n2}'}
    assert set(body.replace(b"}{", b"}\0{").split(b"\0")) == records


def test_nothing_that_was_put_while_the_channel_was_creating_is_delivered(tmp_path: Path):
    clock = MovableClock()
    with InProcessCloud(tmp_path / "data", clock=clock, state_delay_ms=60_000) as cloud:
        lab = ChannelLab(cloud, clock)
        lab.build()
        clock.advance(60)
        arn = lab.channel(kind="STRING")
        lab.put(b"early")
        assert lab.described(arn)["ChannelStatus"] == "CREATING"
        clock.advance(60)
        assert lab.described(arn)["ChannelStatus"] == "ACTIVE"
        lab.put(b"late")
        lab.deliver()
        assert lab.bodies() == [b"late"]


def test_an_object_waits_for_the_data_freshness_of_the_cloud_s_time(lab: ChannelLab):
    arn = lab.channel(destination={"DataFreshnessInSeconds": 900})
    lab.put(b"1")
    order = lab.cloud.cloud.kinesis.channels.by_arn(arn)
    assert order is not None
    channels = lab.cloud.cloud.kinesis.channels

    def buffered() -> Any:
        return (channels.status_of_delivery(order) or {})["buffered_records"]

    while buffered() != 1:
        pass
    lab.clock.advance(800)
    assert lab.keys() == []
    assert buffered() == 1
    lab.clock.advance(200)
    lab.deliver()
    assert lab.bodies() == [b"1"]


@pytest.mark.parametrize(
    ("compression", "suffix", "unpack"),
    [
        ("NONE", "", bytes),
        ("GZIP", ".gz", gzip.decompress),
        ("ZSTD", ".zst", lambda body: bytes(cramjam.zstd.decompress(body))),
    ],
)
def test_the_default_key_names_the_channel_and_the_minute(
    lab: ChannelLab, compression: str, suffix: str, unpack: Callable[[bytes], bytes]
):
    arn = lab.channel(kind="STRING", stored={"CompressionType": compression})
    channel_id = arn.rpartition("/")[2]
    lab.put(b"abc")
    lab.deliver()
    (key,) = lab.keys()
    now = datetime.fromtimestamp(lab.clock.now_ms() / 1000, UTC)
    folder, _, name = key.rpartition("/")
    assert folder.startswith(f"kinesis-channel/c/{channel_id}/{now:%Y/%m/}")
    pattern = rf"c-{channel_id}-\d{{4}}-\d\d-\d\d-\d\d-\d\d-{UUID}{re.escape(suffix)}"
    assert re.fullmatch(pattern, name)
    (body,) = lab.bodies()
    assert unpack(body) == b"abc"


def test_a_key_template_and_a_storage_class_are_followed(lab: ChannelLab):
    template = "data/stream=!{stream-name}/!{yy}!{MM}!{dd}/!{channel-name}!{extension:.json}"
    lab.channel(stored={"OutputKeyTemplate": template, "StorageClass": "GLACIER_IR"})
    lab.put(b"{}")
    lab.deliver()
    (key,) = lab.keys()
    assert re.fullmatch(rf"data/stream={STREAM}/\d{{6}}/c-{UUID}\.json", key)
    assert lab.s3.head_object(Bucket=BUCKET, Key=key)["StorageClass"] == "GLACIER_IR"


def test_records_of_a_producer_s_aggregate_stay_together(lab: ChannelLab):
    aggregate = bytes.fromhex("f3899ac2") + b"\x0a\x01a"
    lab.channel(kind="BYTE_ARRAY")
    lab.put(aggregate)
    lab.deliver()
    assert lab.bodies() == [aggregate]


@pytest.mark.parametrize(
    ("kind", "good", "bad"), [("JSON", b'{"a": 1}', b"{a"), ("STRING", b"\xc3\xa4", b"\xff\xfe")]
)
def test_a_record_of_another_format_goes_to_the_dead_letters(
    lab: ChannelLab, kind: str, good: bytes, bad: bytes
):
    letters = {
        "BucketARN": f"arn:aws:s3:::{ERRORS}",
        "ExpectedBucketOwner": ACCOUNT,
        "ErrorOutputPrefix": "bad/",
    }
    arn = lab.channel(kind=kind, destination={"DeadLetterQueueS3Configuration": letters})
    lab.put(good, bad)
    lab.deliver()
    assert lab.bodies() == [good]
    (key,), (body,) = lab.keys(ERRORS), lab.bodies(ERRORS)
    assert re.fullmatch(rf"bad/c-{UUID}\.json", key)
    line = json.loads(body)
    iterators = lab.kinesis.list_shards(StreamName=STREAM)["Shards"]
    assert line.pop("shardId") in {one["ShardId"] for one in iterators}
    assert line.pop("sequenceNumber").isdigit()
    assert line.pop("arrivalTimestamp") > 0
    assert line.pop("errorMessage").startswith("The record is not a valid ")
    assert line == {
        "channelARN": arn,
        "streamARN": STREAM_ARN,
        "errorCode": "S3.InvalidRecordFormat",
    }


def test_without_dead_letters_errors_go_to_the_bucket(lab: ChannelLab):
    arn = lab.channel()
    lab.put(b"no json")
    lab.deliver()
    (key,) = lab.keys()
    assert key.startswith(f"kinesis-channel/errors/c/{arn.rpartition('/')[2]}/c-")


def test_reshards_lose_nothing(lab: ChannelLab):
    lab.channel(kind="STRING")
    texts = [f"<{n}>".encode() for n in range(40)]
    lab.put(*texts[:20])
    split_first(lab.cloud, STREAM_ARN, lab.clock.now_ms())
    lab.put(*texts[20:])
    lab.deliver()
    assert sorted(re.findall(rb"<\d+>", b"".join(lab.bodies()))) == sorted(texts)


def test_a_deleted_bucket_is_waited_for(lab: ChannelLab):
    # Assumed: AWS's agent toolkit lists what suspends a channel (its owner, its table, its partition column), not this.
    arn = lab.channel(
        kind="STRING",
        LoggingConfiguration={"CloudWatchLogs": {"Enabled": True, "LogGroupName": "g"}},
    )
    lab.s3.delete_bucket(Bucket=BUCKET)
    lab.put(b"kept")
    channels = lab.cloud.cloud.kinesis.channels
    order = channels.find(arn, lab.clock.now_ms())
    while not (channels.status_of_delivery(order) or {})["last_error"]:
        lab.clock.advance(60)
    assert lab.described(arn)["ChannelStatus"] == "ACTIVE"
    lab.s3.create_bucket(Bucket=BUCKET)
    lab.deliver()
    assert lab.bodies() == [b"kept"]


def test_a_bucket_of_another_account_ends_the_channel(lab: ChannelLab):
    arn = lab.channel(kind="STRING")
    lab.s3.delete_bucket(Bucket=BUCKET)
    lab.cloud.client("s3", account="111111111111").create_bucket(Bucket=BUCKET)
    lab.put(b"secret")
    while lab.described(arn)["ChannelStatus"] == "ACTIVE":
        lab.clock.advance(60)
    shown = lab.described(arn)
    assert (shown["ChannelStatus"], shown["ChannelStatusReason"]) == (
        "FAILED",
        f"The bucket {BUCKET} is not owned by the expected account.",
    )
    assert (
        lab.cloud.client("s3", account="111111111111").list_objects_v2(Bucket=BUCKET)["KeyCount"]
        == 0
    )


def test_metrics_have_three_dimensions(lab: ChannelLab):
    arn = lab.channel(kind="STRING")
    running = lab.cloud.cloud.kinesis.channels.find(arn, lab.clock.now_ms())
    # One of its own: the worker takes the counts of the one that runs whenever a minute ends.
    order = ChannelOrder(
        running.channel,
        running.stream,
        clock=lab.clock,
        guard=NoGuard(),
        logs=None,
        fail=lambda channel, reason: None,
        note_table=lambda channel, definition, arn: None,
    )
    order.note_read(2, 4)
    order.note_delivered(DeliveredObjects(records=1, refused=1, stored_bytes=3, age_ms=301_500))
    metrics = {one.name: one for one in channel_metrics(order, "AWS/Kinesis", 0)}
    assert {name.removeprefix("DeliveryToS3."): one.value for name, one in metrics.items()} == {
        "BytesIn": 4,
        "BytesProcessed": 4,
        "BytesOut": 3,
        "RecordCount": 2,
        "SuccessfulRecordCount": 1,
        "FailedRecordCount": 1,
        "DeliverySuccess": 1,
        "DLQDeliverySuccess": 1,
        "DataFreshness": 301,
    }
    assert metrics["DeliveryToS3.DataFreshness"].unit == "Seconds"
    assert metrics["DeliveryToS3.BytesOut"].dimensions == (
        ("ChannelId", arn.rpartition("/")[2]),
        ("ChannelName", "c"),
        ("StreamName", STREAM),
    )
    assert channel_metrics(order, "AWS/Kinesis", 0) == []
    running.channel.table = {"TableName": "t"}
    order.note_read(1, 2)
    order.note_delivered(DeliveredObjects(records=1, refused=0, stored_bytes=2, age_ms=0))
    assert {one.name for one in channel_metrics(order, "AWS/Kinesis", 0)} == {
        f"DeliveryToIceberg.{name}"
        for name in (
            *("BytesIn", "BytesProcessed", "BytesOut", "TotalRowCount", "SuccessfulRowCount"),
            *("FailedRowCount", "CommitSuccess", "DataFreshness"),
        )
    }
    running.channel.table = {}
