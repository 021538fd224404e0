"""Firehose through boto3: serialization, validation, behaviour."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import InProcessCloud
from tests.support.server import wait_until

ROLE = "arn:aws:iam::000000000000:role/r"


@pytest.fixture
def cloud(data_dir: Path) -> Iterator[InProcessCloud]:
    with InProcessCloud(data_dir) as cloud:
        cloud.client("s3").create_bucket(Bucket="lake")
        yield cloud


@pytest.fixture
def firehose(cloud: InProcessCloud) -> Any:
    return cloud.client("firehose")


def destination(**more: Any) -> dict[str, Any]:
    hints = {"SizeInMBs": 1, "IntervalInSeconds": 0}
    return {"RoleARN": ROLE, "BucketARN": "arn:aws:s3:::lake", "BufferingHints": hints, **more}


def create(firehose: Any, name: str = "d", **more: Any) -> None:
    firehose.create_delivery_stream(
        DeliveryStreamName=name, ExtendedS3DestinationConfiguration=destination(**more)
    )


def refused(call: Any, **params: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**params)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def objects(cloud: InProcessCloud) -> dict[str, bytes]:
    s3 = cloud.client("s3")
    keys = [item["Key"] for item in s3.list_objects_v2(Bucket="lake").get("Contents", [])]
    return {key: s3.get_object(Bucket="lake", Key=key)["Body"].read() for key in keys}


# --- serialization ----------------------------------------------------------------------------


def test_a_body_that_is_not_json_is_refused(cloud: InProcessCloud):
    answer = cloud.json_request("Firehose_20150804.PutRecord", b"{")
    assert answer.status == 400
    assert b"SerializationException" in bytes(answer.body)


def test_a_member_of_the_wrong_type_is_refused(cloud: InProcessCloud):
    body = b'{"DeliveryStreamName": 5, "Record": {"Data": ""}}'
    answer = cloud.json_request("Firehose_20150804.PutRecord", body)
    assert b"NUMBER_VALUE can not be converted to a String" in bytes(answer.body)


# --- validation -------------------------------------------------------------------------------


def test_a_missing_delivery_stream(firehose: Any):
    assert refused(firehose.put_record, DeliveryStreamName="no", Record={"Data": b"x"}) == (
        "ResourceNotFoundException",
        "Firehose no under account 000000000000 not found.",
    )


def test_a_name_that_is_taken(firehose: Any):
    create(firehose)
    code, _ = refused(
        firehose.create_delivery_stream,
        DeliveryStreamName="d",
        ExtendedS3DestinationConfiguration=destination(),
    )
    assert code == "ResourceInUseException"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"BufferingHints": {"SizeInMBs": 200}}, "less than or equal to 128"),
        ({"BufferingHints": {"IntervalInSeconds": 901}}, "less than or equal to 900"),
        ({"CompressionFormat": "Snappy"}, "headrace does not support"),
        ({"S3BackupMode": "Enabled"}, "headrace does not support S3 backup"),
        ({"DynamicPartitioningConfiguration": {"Enabled": True}}, "dynamic partitioning"),
        (
            {"ProcessingConfiguration": {"Enabled": True, "Processors": [{"Type": "Lambda"}]}},
            "the processor Lambda",
        ),
    ],
)
def test_what_cannot_be_delivered_is_refused_not_dropped(firehose: Any, more: Any, words: str):
    code, message = refused(
        firehose.create_delivery_stream,
        DeliveryStreamName="d",
        ExtendedS3DestinationConfiguration=destination(**more),
    )
    assert code in ("InvalidArgumentException", "ValidationException")
    assert words in message
    assert firehose.list_delivery_streams()["DeliveryStreamNames"] == []


def test_another_destination_is_refused(firehose: Any):
    code, message = refused(
        firehose.create_delivery_stream,
        DeliveryStreamName="d",
        HttpEndpointDestinationConfiguration={
            "EndpointConfiguration": {"Url": "https://example.com"},
            "S3Configuration": destination(),
        },
    )
    assert (code, message) == (
        "InvalidArgumentException",
        "headrace does not support delivery to HttpEndpoint yet.",
    )


def test_a_record_that_is_too_large(firehose: Any):
    create(firehose)
    code, message = refused(
        firehose.put_record, DeliveryStreamName="d", Record={"Data": b"x" * (1000 * 1024 + 1)}
    )
    assert code == "ValidationException"
    assert "Member must have length less than or equal to 1024000" in message


def test_a_source_that_is_not_there(firehose: Any):
    code, message = refused(
        firehose.create_delivery_stream,
        DeliveryStreamName="d",
        DeliveryStreamType="KinesisStreamAsSource",
        KinesisStreamSourceConfiguration={
            "KinesisStreamARN": "arn:aws:kinesis:us-east-1:000000000000:stream/no",
            "RoleARN": ROLE,
        },
        ExtendedS3DestinationConfiguration=destination(),
    )
    assert code == "ResourceNotFoundException"
    assert "Kinesis stream no" in message


# --- behaviour --------------------------------------------------------------------------------


def test_direct_puts_arrive(cloud: InProcessCloud, firehose: Any):
    create(firehose, Prefix="in/")
    answer = firehose.put_record_batch(
        DeliveryStreamName="d", Records=[{"Data": b"one"}, {"Data": b"two"}]
    )
    assert answer["FailedPutCount"] == 0
    assert len({response["RecordId"] for response in answer["RequestResponses"]}) == 2
    found = wait_until(lambda: objects(cloud), what="the object")
    assert b"".join(found.values()) == b"onetwo"
    assert all(key.startswith("in/20") and "/d-1-" in key for key in found)


def test_a_stream_is_delivered_and_describe_says_so(cloud: InProcessCloud, firehose: Any):
    kinesis = cloud.client("kinesis")
    kinesis.create_stream(StreamName="s", ShardCount=2)
    arn = kinesis.describe_stream_summary(StreamName="s")["StreamDescriptionSummary"]["StreamARN"]
    firehose.create_delivery_stream(
        DeliveryStreamName="d",
        DeliveryStreamType="KinesisStreamAsSource",
        KinesisStreamSourceConfiguration={"KinesisStreamARN": arn, "RoleARN": ROLE},
        ExtendedS3DestinationConfiguration=destination(),
    )
    for key in "abcdef":
        kinesis.put_record(StreamName="s", Data=key.encode(), PartitionKey=key)
    wait_until(
        lambda: sorted(b"".join(objects(cloud).values())) == sorted(b"abcdef"), what="delivery"
    )
    described = firehose.describe_delivery_stream(DeliveryStreamName="d")
    source = described["DeliveryStreamDescription"]["Source"]["KinesisStreamSourceDescription"]
    assert source["KinesisStreamARN"] == arn
    code, _ = refused(firehose.put_record, DeliveryStreamName="d", Record={"Data": b"x"})
    assert code == "InvalidArgumentException"


def test_an_update_changes_where_records_go(cloud: InProcessCloud, firehose: Any):
    create(firehose)
    firehose.update_destination(
        DeliveryStreamName="d",
        CurrentDeliveryStreamVersionId="1",
        DestinationId="destinationId-000000000001",
        ExtendedS3DestinationUpdate={"Prefix": "moved/"},
    )
    firehose.put_record(DeliveryStreamName="d", Record={"Data": b"x"})
    found = wait_until(lambda: objects(cloud), what="the object")
    assert all(key.startswith("moved/") for key in found)
    assert refused(
        firehose.update_destination,
        DeliveryStreamName="d",
        CurrentDeliveryStreamVersionId="1",
        DestinationId="destinationId-000000000001",
        ExtendedS3DestinationUpdate={},
    )[0] == ("ConcurrentModificationException")


def test_tags_and_deletion(firehose: Any):
    create(firehose)
    firehose.tag_delivery_stream(DeliveryStreamName="d", Tags=[{"Key": "a", "Value": "1"}])
    assert firehose.list_tags_for_delivery_stream(DeliveryStreamName="d")["Tags"] == [
        {"Key": "a", "Value": "1"}
    ]
    firehose.delete_delivery_stream(DeliveryStreamName="d")
    assert firehose.list_delivery_streams()["DeliveryStreamNames"] == []
