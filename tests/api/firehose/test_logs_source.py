"""A delivery stream that unpacks CloudWatch Logs takes records from CloudWatch Logs alone, as on AWS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.testing.waiting import until
from tests.support.cloud import InProcessCloud

ROLE = "arn:aws:iam::000000000000:role/r"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("logs") / "data") as running:
        running.client("s3").create_bucket(Bucket="lake")
        parameters = [{"ParameterName": "DataMessageExtraction", "ParameterValue": "true"}]
        packed = [{"ParameterName": "CompressionFormat", "ParameterValue": "GZIP"}]
        running.client("firehose").create_delivery_stream(
            DeliveryStreamName="logs",
            ExtendedS3DestinationConfiguration={
                "RoleARN": ROLE,
                "BucketARN": "arn:aws:s3:::lake",
                "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 0},
                "ProcessingConfiguration": {
                    "Enabled": True,
                    "Processors": [
                        {"Type": "Decompression", "Parameters": packed},
                        {"Type": "CloudWatchLogProcessing", "Parameters": parameters},
                    ],
                },
            },
        )
        yield running


@pytest.mark.parametrize(
    ("operation", "given"),
    [
        ("put_record", {"Record": {"Data": b"x"}}),
        ("put_record_batch", {"Records": [{"Data": b"x"}]}),
    ],
)
def test_others_are_refused(cloud: InProcessCloud, operation: str, given: dict[str, Any]):
    put = getattr(cloud.client("firehose"), operation)
    with pytest.raises(ClientError) as caught:
        put(DeliveryStreamName="logs", **given)
    answer: Any = caught.value.response
    error = answer["Error"]
    assert error["Code"] == "InvalidSourceException"
    assert error["Message"] == (
        "Only requests from CloudWatch Logs are supported when CloudWatch Logs decompression is enabled."
    )


def test_a_subscription_is_delivered(cloud: InProcessCloud):
    logs: Any = cloud.client("logs")
    s3: Any = cloud.client("s3")
    group = "g"
    logs.create_log_group(logGroupName=group)
    logs.create_log_stream(logGroupName=group, logStreamName="s")
    logs.put_subscription_filter(
        logGroupName=group,
        filterName="f",
        filterPattern="",
        destinationArn="arn:aws:firehose:us-east-1:000000000000:deliverystream/logs",
        roleArn=ROLE,
    )
    event = {"timestamp": cloud.cloud.clock.now_ms(), "message": "hello g"}
    logs.put_log_events(logGroupName=group, logStreamName="s", logEvents=[event])

    def is_there() -> bool:
        found = s3.list_objects_v2(Bucket="lake").get("Contents", [])
        bodies = [s3.get_object(Bucket="lake", Key=item["Key"])["Body"].read() for item in found]
        return f"hello {group}".encode() in b"".join(bodies)

    until(is_there)
