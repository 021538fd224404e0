"""Every action of Firehose under random requests. Thirty requests an action here, 10,000 with `--nightly`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.session import get_session

from tests.fuzz.json_service import JsonFuzz
from tests.fuzz.requests import Known
from tests.fuzz.upkeep import Caller
from tests.support.cloud import InProcessCloud

OPERATIONS = get_session().get_service_model("firehose").operation_names
REQUESTS = 30
NIGHTLY_REQUESTS = 10_000
NAMES = ("flights", "gates")
ROLE = "arn:aws:iam::000000000000:role/r"
LAKE = "arn:aws:s3:::lake"
# By operation and kind of destination, how many requests were taken.
reached: dict[tuple[str, str], int] = {}


@pytest.fixture(scope="module")
def fuzz(place: Path) -> Iterator[JsonFuzz]:
    with InProcessCloud(place / "data") as cloud:
        cloud.client("s3").create_bucket(Bucket="lake")
        client = Caller("firehose", "firehose", cloud.handle)

        def put_right() -> None:
            names = client.list_delivery_streams(Limit=100)["DeliveryStreamNames"]
            for name in set(names) - set(NAMES):
                client.delete_delivery_stream(DeliveryStreamName=name)
            for name in set(NAMES) - set(names):
                destination = {"RoleARN": ROLE, "BucketARN": LAKE}
                client.create_delivery_stream(
                    DeliveryStreamName=name, ExtendedS3DestinationConfiguration=destination
                )

        yield JsonFuzz(cloud, "firehose", "Firehose_20150804", known, put_right)


KINDS = (
    *("Amazonopensearchservice", "AmazonOpenSearchServerless", "Elasticsearch", "HttpEndpoint"),
    *("Splunk", "Redshift", "Iceberg", "Snowflake", "S3"),
)


def known(kind: str = "ExtendedS3") -> Known:
    """Return sound values for members by name; of destinations only those of a kind are given."""

    def one_of(*values: Any) -> Any:
        return lambda random: random.choice(values)

    return {
        "DeliveryStreamName": one_of(*NAMES, *NAMES, "new"),
        "DeliveryStreamType": one_of("DirectPut"),
        "RoleARN": one_of(ROLE),
        "BucketARN": one_of(LAKE),
        "CurrentDeliveryStreamVersionId": one_of("1", "2"),
        "DestinationId": one_of("destinationId-000000000001"),
        "CompressionFormat": one_of("GZIP", "UNCOMPRESSED"),
        "S3BackupMode": one_of(None, None, None, "Disabled", "AllData"),
        "Prefix": one_of("raw/", "raw/", "raw/", "!{timestamp:yyyy}/", "!{x:y}", "!{"),
        # Else nearly every request would be refused for having more than one destination.
        **{
            f"{name}Destination{end}": one_of(None)
            for name in ("ExtendedS3", *KINDS)
            for end in ("Configuration", "Update")
            if name != kind
        },
        "Url": one_of("https://example.com/in", "http://127.0.0.1:9/"),
        "HECEndpoint": one_of("https://example.com"),
        "HECToken": one_of("a-token"),
        "DomainARN": one_of("arn:aws:es:us-east-1:000000000000:domain/flights"),
        "ClusterEndpoint": one_of(None, None, "https://example.com"),
        "CollectionEndpoint": one_of("https://example.com"),
        "IndexName": one_of("flights", "flights", "Flights", ""),
        "KinesisStreamSourceConfiguration": one_of(None),
        "MSKSourceConfiguration": one_of(None),
        "DatabaseSourceConfiguration": one_of(None),
        "DirectPutSourceConfiguration": one_of(None),
        # Mostly sound, so that what lies behind is reached.
        "BufferingHints": one_of(
            None, None, {"SizeInMBs": 1, "IntervalInSeconds": 60}, {"SizeInMBs": 1}
        ),
        "CloudWatchLoggingOptions": one_of(None, None, None, {"Enabled": True}),
        "EncryptionConfiguration": one_of(None),
        "SecretsManagerConfiguration": one_of(None, None, None, {"Enabled": True}),
        "VpcConfiguration": one_of(None),
        "DeliveryStreamEncryptionConfigurationInput": one_of(None),
        "Tags": one_of(None, [{"Key": "a", "Value": "b"}]),
        "ProcessingConfiguration": one_of(None, None, {"Enabled": False}, {"Enabled": True}),
        "ErrorOutputPrefix": one_of(
            "bad/", "bad/!{firehose:error-output-type}/", "!{firehose:error-output-type}/", "!{"
        ),
    }


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_request_breaks_an_action(
    fuzz: JsonFuzz, operation: str, how_many: Callable[[int, int], int], seed: int
):
    statuses = fuzz.run(operation, how_many(REQUESTS, NIGHTLY_REQUESTS), seed)
    assert len(statuses) > REQUESTS // 2


@pytest.mark.parametrize("operation", ["CreateDeliveryStream", "UpdateDestination"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_destination_breaks_an_action(
    fuzz: JsonFuzz,
    monkeypatch: pytest.MonkeyPatch,
    operation: str,
    kind: str,
    how_many: Callable[[int, int], int],
    seed: int,
):
    monkeypatch.setattr(fuzz, "_known", lambda: known(kind))
    statuses = fuzz.run(operation, how_many(6 * REQUESTS, NIGHTLY_REQUESTS), seed + 1)
    assert len(statuses) > REQUESTS // 2
    reached.setdefault((operation, kind), 0)
    reached[operation, kind] += statuses.count(200)


def test_sound_destinations_are_taken():
    """After the test above: that its requests come further than the first refusal."""
    taken = {kind for (_, kind), count in reached.items() if count}
    if len(reached) == 2 * len(KINDS):
        assert len(taken) >= 3


def test_sound_requests_reach_what_they_are_about(fuzz: JsonFuzz):
    assert 5 < fuzz.run("DescribeDeliveryStream", 40).count(200) < 40
