"""Every action of Firehose under random requests. Thirty requests an action here, 10,000 with `--nightly`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.session import get_session

from tests.fuzz.json_service import JsonFuzz
from tests.fuzz.requests import Known
from tests.support.cloud import InProcessCloud

OPERATIONS = get_session().get_service_model("firehose").operation_names
REQUESTS = 30
NIGHTLY_REQUESTS = 10_000
NAMES = ("flights", "gates")
ROLE = "arn:aws:iam::000000000000:role/r"
LAKE = "arn:aws:s3:::lake"


@pytest.fixture(scope="module")
def fuzz(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JsonFuzz]:
    with InProcessCloud(tmp_path_factory.mktemp("fuzz") / "data") as cloud:
        cloud.client("s3").create_bucket(Bucket="lake")
        client = cloud.client("firehose")

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


def known() -> Known:
    """Return sound values for members by name."""

    def one_of(*values: Any) -> Any:
        return lambda random: random.choice(values)

    others = ("Redshift", "Elasticsearch", "Splunk", "HttpEndpoint", "Snowflake", "Iceberg")
    names = ("AmazonOpenSearchServerless", "Amazonopensearchservice", *others)
    return {
        "DeliveryStreamName": one_of(*NAMES, *NAMES, "new"),
        "DeliveryStreamType": one_of("DirectPut"),
        "RoleARN": one_of(ROLE),
        "BucketARN": one_of(LAKE),
        "CurrentDeliveryStreamVersionId": one_of("1", "2"),
        "DestinationId": one_of("destinationId-000000000001"),
        "CompressionFormat": one_of("GZIP", "UNCOMPRESSED"),
        "S3BackupMode": one_of("Disabled"),
        "Prefix": one_of("raw/", "!{timestamp:yyyy}/", "!{x:y}", "!{"),
        # Else nearly every request would be refused for having more than one destination.
        **{f"{name}DestinationConfiguration": one_of(None) for name in names},
        "S3DestinationConfiguration": one_of(None),
    }


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_request_breaks_an_action(
    fuzz: JsonFuzz, operation: str, how_many: Callable[[int, int], int], seed: int
):
    statuses = fuzz.run(operation, how_many(REQUESTS, NIGHTLY_REQUESTS), seed)
    assert len(statuses) > REQUESTS // 2


def test_sound_requests_reach_what_they_are_about(fuzz: JsonFuzz):
    assert 5 < fuzz.run("DescribeDeliveryStream", 40).count(200) < 40
