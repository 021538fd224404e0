"""AWS's throughput quotas of direct puts, which `limits=aws` holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.aws.calls.errors import AwsError
from headrace.services.firehose import errors
from headrace.services.firehose.errors import MIB, Throttle, find_quota
from tests.api.kinesis.conftest import StillClock
from tests.support.cloud import InProcessCloud
from tests.support.objects import MemoryMetrics

S3 = {"RoleARN": "arn:aws:iam::000000000000:role/r", "BucketARN": "arn:aws:s3:::lake"}
NAME = "flights"


class Lab:
    def __init__(self, cloud: InProcessCloud, clock: StillClock) -> None:
        self.clock = clock
        self.cloud = cloud
        self.metrics = MemoryMetrics()

    def client(self, region: str) -> Any:
        """Return a client of a region, where the delivery stream is made anew."""
        self.clock.advance(10)
        client = self.cloud.client("firehose", region=region)
        for name in client.list_delivery_streams()["DeliveryStreamNames"]:
            client.delete_delivery_stream(DeliveryStreamName=name)
        client.create_delivery_stream(
            DeliveryStreamName=NAME, ExtendedS3DestinationConfiguration=S3
        )
        return client

    def batch(self, client: Any, *sizes: int) -> list[str | None]:
        """Put records; return each one's error code, None for those that are stored."""
        answer = client.put_record_batch(
            DeliveryStreamName=NAME, Records=[{"Data": b"x" * size} for size in sizes]
        )
        found = [item.get("ErrorCode") for item in answer["RequestResponses"]]
        assert answer["FailedPutCount"] == len([code for code in found if code])
        assert all(
            item["ErrorMessage"] == "Slow down."
            for item in answer["RequestResponses"]
            if "ErrorCode" in item
        )
        return found


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    clock = StillClock()
    with InProcessCloud(tmp_path_factory.mktemp("d") / "data", clock=clock, limits="aws") as cloud:
        yield Lab(cloud, clock)


SLOW = "ServiceUnavailableException"


def test_bytes_over_the_quota_are_refused_record_by_record_and_come_back_with_time(lab: Lab):
    client = lab.client("eu-central-1")
    half = MIB // 2 // 1000 * 1000
    assert lab.batch(client, half, half, half, half) == [None, None, SLOW, SLOW]
    lab.clock.advance(1)
    assert lab.batch(client, half) == [None]


def test_large_regions_take_five_times_as_much(lab: Lab):
    assert find_quota("us-east-1").size_bytes == 5 * find_quota("eu-central-1").size_bytes
    client = lab.client("us-east-1")
    assert lab.batch(client, *[1_000_000] * 4) == [None] * 4
    assert lab.batch(client, *[1_000_000] * 4) == [None, SLOW, SLOW, SLOW]


def test_a_record_over_the_quota_is_refused_as_a_call(lab: Lab):
    client = lab.client("eu-central-1")
    lab.batch(client, 1_000_000, 48_000)
    with pytest.raises(ClientError, match=r"Slow down\.") as caught:
        client.put_record(DeliveryStreamName=NAME, Record={"Data": b"x" * 1000})
    answer: Any = caught.value.response
    assert answer["Error"]["Code"] == SLOW
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 503


def test_requests_over_the_quota_are_refused(lab: Lab):
    lab.client("eu-central-1")
    (stream,) = lab.cloud.cloud.firehose.all("000000000000", "eu-central-1")
    throttle, quota = Throttle(), find_quota("eu-central-1")
    found = [throttle.admit(stream, [1, 1], 0) for _ in range(quota.requests + 1)]
    assert found == [*[[True, True]] * quota.requests, [False, False]]


def test_refused_records_are_counted_and_the_others_are(lab: Lab, monkeypatch: pytest.MonkeyPatch):
    client = lab.client("eu-central-1")
    (stream,) = lab.cloud.cloud.firehose.all("000000000000", "eu-central-1")
    reports = lab.cloud.cloud.firehose.reports(stream)
    monkeypatch.setattr(reports, "_metrics", lab.metrics)
    lab.batch(client, 900_000, 900_000, 1)
    reports.send()
    sums = {m.name: m.statistics[1] for m in lab.metrics.metrics if m.statistics}
    assert sums["ThrottledRecords"] == 1
    assert (sums["IncomingRecords"], sums["IncomingBytes"]) == (2, 900_001)


def test_other_calls_are_five_a_second(lab: Lab):
    client = lab.client("eu-central-1")
    lab.clock.advance(10)
    for _ in range(5):
        client.describe_delivery_stream(DeliveryStreamName=NAME)
    with pytest.raises(ClientError) as caught:
        client.describe_delivery_stream(DeliveryStreamName=NAME)
    answer: Any = caught.value.response
    assert answer["Error"]["Code"] == "LimitExceededException"


def refused(call: Any, **params: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(DeliveryStreamName=NAME, **params)
    answer: Any = caught.value.response
    return answer["Error"]["Code"], answer["Error"]["Message"]


def test_encryption_is_changed_25_times_a_day(lab: Lab):
    # Documented: API_StartDeliveryStreamEncryption.
    client = lab.client("eu-central-1")
    for number in range(25):
        lab.clock.advance(1)
        call = (
            client.stop_delivery_stream_encryption
            if number % 2
            else client.start_delivery_stream_encryption
        )
        call(DeliveryStreamName=NAME)
    start, stop = client.start_delivery_stream_encryption, client.stop_delivery_stream_encryption
    assert refused(start)[0] == refused(stop)[0] == "LimitExceededException"
    lab.clock.advance(86_400 - 24)
    stop(DeliveryStreamName=NAME)
    assert refused(start)[0] == "LimitExceededException"


def test_a_region_has_so_many_delivery_streams_and_a_key_too(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
):
    # Documented: API_CreateDeliveryStream, API_DeliveryStreamEncryptionConfigurationInput.
    client = lab.client("eu-central-1")
    lab.clock.advance(10)
    firehose = lab.cloud.cloud.firehose
    (stream,) = firehose.all("000000000000", "eu-central-1")
    monkeypatch.setattr(firehose, "all", lambda *_: [stream] * errors.STREAMS)
    make: dict[str, Any] = {"ExtendedS3DestinationConfiguration": S3}
    code, sentence = refused(client.create_delivery_stream, **make)
    assert code == "ResourceInUseException"
    monkeypatch.setattr(firehose, "exists", lambda *_: False)
    code, sentence = refused(client.create_delivery_stream, **make)
    assert code == "LimitExceededException"
    assert sentence.startswith("You have already consumed your firehose quota of 5000 hoses.")
    key = "arn:aws:kms:eu-central-1:000000000000:key/k"
    others = [
        replace(stream, stream_id=str(number), encryption={"KeyARN": key}) for number in range(500)
    ]
    errors.check_key(others[1:], stream, key)
    with pytest.raises(AwsError, match="LimitExceededException"):
        errors.check_key(others, stream, key)
    # It does not count against the key that it has already.
    errors.check_key(others, others[0], key)


def test_without_limits_nothing_is_refused(tmp_path: Path):
    with InProcessCloud(tmp_path / "data", clock=StillClock()) as cloud:
        lab = Lab(cloud, StillClock())
        client = lab.client("eu-central-1")
        assert lab.batch(client, *[1_000_000] * 4) == [None] * 4
