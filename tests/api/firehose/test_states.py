"""States of delivery streams and of their encryption, for as long as the cloud is asked to stay in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.testing.clock import MovableClock
from tests.support.cloud import InProcessCloud

DESTINATION = {
    "RoleARN": "arn:aws:iam::000000000000:role/r",
    "BucketARN": "arn:aws:s3:::lake",
}


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, MovableClock]]:
    clock = MovableClock()
    folder = tmp_path_factory.mktemp("states")
    with InProcessCloud(folder / "data", clock=clock, state_delay_ms=60_000) as cloud:
        yield cloud.client("firehose"), clock


def described(firehose: Any) -> dict[str, Any]:
    return firehose.describe_delivery_stream(DeliveryStreamName="d")["DeliveryStreamDescription"]


def code_of(call: Any, **params: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(DeliveryStreamName="d", **params)
    answer: Any = caught.value.response
    return answer["Error"]["Code"]


def test_creating_active_deleting(slow: tuple[Any, MovableClock]):
    firehose, clock = slow
    make: dict[str, Any] = {"DeliveryStreamName": "d", "S3DestinationConfiguration": DESTINATION}
    firehose.create_delivery_stream(**make)
    assert described(firehose)["DeliveryStreamStatus"] == "CREATING"
    # Codes in CREATING and DELETING: observed by others on AWS, 2026.
    assert code_of(firehose.put_record, Record={"Data": b"x"}) == "ResourceNotFoundException"
    assert code_of(firehose.delete_delivery_stream) == "ResourceInUseException"
    assert code_of(firehose.start_delivery_stream_encryption) == "ResourceInUseException"
    firehose.tag_delivery_stream(DeliveryStreamName="d", Tags=[{"Key": "k", "Value": "v"}])
    clock.advance(60)
    assert described(firehose)["DeliveryStreamStatus"] == "ACTIVE"
    assert firehose.put_record(DeliveryStreamName="d", Record={"Data": b"x"})["Encrypted"] is False

    firehose.start_delivery_stream_encryption(DeliveryStreamName="d")
    encryption = described(firehose)["DeliveryStreamEncryptionConfiguration"]
    assert encryption == {"Status": "ENABLING", "KeyType": "AWS_OWNED_CMK"}
    assert firehose.put_record(DeliveryStreamName="d", Record={"Data": b"x"})["Encrypted"] is False
    clock.advance(60)
    assert described(firehose)["DeliveryStreamEncryptionConfiguration"]["Status"] == "ENABLED"
    assert firehose.put_record(DeliveryStreamName="d", Record={"Data": b"x"})["Encrypted"] is True
    firehose.stop_delivery_stream_encryption(DeliveryStreamName="d")
    assert described(firehose)["DeliveryStreamEncryptionConfiguration"]["Status"] == "DISABLING"
    clock.advance(60)
    assert described(firehose)["DeliveryStreamEncryptionConfiguration"]["Status"] == "DISABLED"

    firehose.delete_delivery_stream(DeliveryStreamName="d")
    firehose.delete_delivery_stream(DeliveryStreamName="d")
    assert described(firehose)["DeliveryStreamStatus"] == "DELETING"
    assert code_of(firehose.put_record, Record={"Data": b"x"}) == "ResourceNotFoundException"
    clock.advance(60)
    assert code_of(firehose.describe_delivery_stream) == "ResourceNotFoundException"


def test_an_update_that_changes_nothing_makes_no_version(slow: tuple[Any, MovableClock]):
    firehose, clock = slow
    firehose.create_delivery_stream(
        DeliveryStreamName="d", ExtendedS3DestinationConfiguration=DESTINATION
    )
    clock.advance(60)

    def update(**change: Any) -> str:
        now = described(firehose)
        firehose.update_destination(
            DeliveryStreamName="d",
            CurrentDeliveryStreamVersionId=now["VersionId"],
            DestinationId=now["Destinations"][0]["DestinationId"],
            ExtendedS3DestinationUpdate=change,
        )
        return described(firehose)["VersionId"]

    assert update() == "1"
    assert update(CompressionFormat="UNCOMPRESSED") == "1"
    assert update(CompressionFormat="ZIP") == "2"
    firehose.delete_delivery_stream(DeliveryStreamName="d")
