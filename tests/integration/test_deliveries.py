"""Firehose to S3: buffered objects under the prefix that was asked for, compressed, from a stream too."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from tests.integration.clouds import CloudUnderTest

LINES = [f"line {number}\n".encode() for number in range(20)]


def deliver(cloud: CloudUnderTest, bucket: str, stream: str | None = None, **settings: Any) -> str:
    """Make a delivery stream to a bucket, with a source or for direct puts; return its name."""
    firehose, name = cloud.client("firehose"), cloud.name("delivery")
    source: dict[str, Any] = {"DeliveryStreamType": "DirectPut"}
    if stream is not None:
        arn = cloud.until_active(stream)["StreamARN"]
        source = {
            "DeliveryStreamType": "KinesisStreamAsSource",
            "KinesisStreamSourceConfiguration": {"KinesisStreamARN": arn, "RoleARN": cloud.role()},
        }
    firehose.create_delivery_stream(
        DeliveryStreamName=name,
        **source,
        ExtendedS3DestinationConfiguration={
            "BucketARN": f"arn:aws:s3:::{bucket}", "RoleARN": cloud.role(),
            "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 1}, **settings,
        },
    )  # fmt: skip
    cloud.at_end(lambda: firehose.delete_delivery_stream(DeliveryStreamName=name))

    def is_active() -> bool:
        answer = firehose.describe_delivery_stream(DeliveryStreamName=name)
        state = answer["DeliveryStreamDescription"]["DeliveryStreamStatus"]
        assert not state.endswith("FAILED"), state
        return bool(state == "ACTIVE")

    cloud.until(is_active, f"delivery stream {name} is ACTIVE")
    return name


def put(cloud: CloudUnderTest, delivery: str) -> None:
    """Put the lines in two calls."""
    for part in (LINES[:10], LINES[10:]):
        cloud.client("firehose").put_record_batch(
            DeliveryStreamName=delivery, Records=[{"Data": line} for line in part]
        )


def test_lines_arrive_in_s3_once_and_in_order(cloud: CloudUnderTest) -> None:
    bucket = cloud.bucket()
    put(cloud, deliver(cloud, bucket))
    cloud.until(
        lambda: sum(body.count(b"\n") for body in cloud.objects(bucket).values()) >= 20,
        "twenty lines",
    )
    objects = cloud.objects(bucket)
    # Between objects of one second their keys say no order: they end in a random suffix, on AWS too.
    found = sorted(body.splitlines(keepends=True) for body in objects.values())
    places = [[LINES.index(line) for line in lines] for lines in found]
    assert [sorted(each) for each in places] == places
    assert sorted(place for each in places for place in each) == list(range(len(LINES)))


def test_calls_within_the_interval_share_an_object(cloud: CloudUnderTest) -> None:
    bucket = cloud.bucket()
    put(cloud, deliver(cloud, bucket, BufferingHints={"SizeInMBs": 1, "IntervalInSeconds": 2}))
    cloud.until(
        lambda: sum(body.count(b"\n") for body in cloud.objects(bucket).values()) >= 20,
        "twenty lines",
    )
    assert len(cloud.objects(bucket)) == 1


@pytest.mark.parametrize("compression", ["GZIP"])
def test_objects_are_compressed_as_asked(cloud: CloudUnderTest, compression: str) -> None:
    bucket = cloud.bucket()
    put(cloud, deliver(cloud, bucket, CompressionFormat=compression))
    objects = cloud.until(lambda: cloud.objects(bucket), "an object")
    body = next(iter(objects.values()))
    assert body[:2] == b"\x1f\x8b", "the object is not compressed"
    assert gzip.decompress(body).startswith(b"line ")


def test_a_prefixs_expressions_become_the_time(cloud: CloudUnderTest) -> None:
    bucket = cloud.bucket()
    settings = {"Prefix": "year=!{timestamp:yyyy}/", "ErrorOutputPrefix": "errors/"}
    put(cloud, deliver(cloud, bucket, **settings))
    key = next(iter(cloud.until(lambda: cloud.objects(bucket), "an object")))
    assert key.startswith("year=20"), key
    assert "{" not in key


def test_a_stream_is_delivered_from_its_first_new_record_on(cloud: CloudUnderTest) -> None:
    bucket, stream = cloud.bucket(), cloud.stream()
    deliver(cloud, bucket, stream)
    cloud.put(stream, [("key", number) for number in range(20)])
    cloud.until(
        lambda: b"".join(cloud.objects(bucket).values()).endswith(b"19"), "the last record in S3"
    )
    delivered = b"".join(body for _, body in sorted(cloud.objects(bucket).items()))
    assert delivered == b"".join(str(number).encode() for number in range(20))
