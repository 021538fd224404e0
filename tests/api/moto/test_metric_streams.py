"""CloudWatch's metric streams: their calls, and the minutes that reach Firehose's bucket."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.server import wait_until

ROLE = f"arn:aws:iam::{ACCOUNT}:role/r"
FIREHOSE = f"arn:aws:firehose:{REGION}:{ACCOUNT}:deliverystream/metrics"


def put_stream(cloudwatch: Any, **members: Any) -> str:
    settings = {
        "Name": "s", "FirehoseArn": FIREHOSE, "RoleArn": ROLE, "OutputFormat": "json", **members,
    }  # fmt: skip
    return cloudwatch.put_metric_stream(**settings)["Arn"]


def lines_in(s3: Any) -> list[dict[str, Any]]:
    keys = [o["Key"] for o in s3.list_objects_v2(Bucket="bucket").get("Contents", ())]
    bodies = [s3.get_object(Bucket="bucket", Key=key)["Body"].read().decode() for key in keys]
    return [json.loads(line) for body in bodies for line in body.splitlines()]


def test_streams_are_put_listed_stopped_and_deleted_over_a_restart(data_dir: Path) -> None:
    with InProcessCloud(data_dir) as cloud:
        cloudwatch = cloud.client("cloudwatch")
        arn = put_stream(cloudwatch, Tags=[{"Key": "k", "Value": "v"}])
        assert arn == f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:metric-stream/s"
        put_stream(cloudwatch, Name="t", ExcludeFilters=[{"Namespace": "AWS/EC2"}])
        cloudwatch.stop_metric_streams(Names=["s"])
    with InProcessCloud(data_dir) as cloud:
        cloudwatch = cloud.client("cloudwatch")
        rows = cloudwatch.list_metric_streams()["Entries"]
        assert [(row["Name"], row["State"]) for row in rows] == [("s", "stopped"), ("t", "running")]
        cloudwatch.start_metric_streams(Names=["s"])
        shown = cloudwatch.get_metric_stream(Name="s")
        assert (shown["State"], shown["FirehoseArn"], shown["Arn"]) == ("running", FIREHOSE, arn)
        cloudwatch.tag_resource(ResourceARN=arn, Tags=[{"Key": "l", "Value": "w"}])
        tags = cloudwatch.list_tags_for_resource(ResourceARN=arn)["Tags"]
        assert {tag["Key"]: tag["Value"] for tag in tags} == {"k": "v", "l": "w"}
        cloudwatch.delete_metric_stream(Name="s")
        with pytest.raises(ClientError, match="ResourceNotFoundException"):
            cloudwatch.get_metric_stream(Name="s")


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ({"OutputFormat": "opentelemetry1.0"}, "as json, not as opentelemetry1.0"),
        ({"FirehoseArn": "arn:aws:kinesis:us-east-1:000000000000:stream/s"}, "FirehoseArn must be"),
        (
            {"IncludeFilters": [{"Namespace": "a"}], "ExcludeFilters": [{"Namespace": "b"}]},
            "not both",
        ),
    ],
)
def test_what_a_stream_cannot_be_is_refused(
    data_dir: Path, members: dict[str, Any], sentence: str
) -> None:
    with (
        InProcessCloud(data_dir) as cloud,
        pytest.raises(ClientError, match=sentence),
    ):
        put_stream(cloud.client("cloudwatch"), **members)


def test_ended_minutes_reach_the_bucket(data_dir: Path) -> None:
    with InProcessCloud(data_dir) as cloud:
        s3, cloudwatch = cloud.client("s3"), cloud.client("cloudwatch")
        s3.create_bucket(Bucket="bucket")
        cloud.client("firehose").create_delivery_stream(
            DeliveryStreamName="metrics",
            ExtendedS3DestinationConfiguration={
                "BucketARN": "arn:aws:s3:::bucket",
                "RoleARN": ROLE,
                "BufferingHints": {"IntervalInSeconds": 0, "SizeInMBs": 1},
            },
        )
        put_stream(
            cloudwatch,
            IncludeFilters=[
                {"Namespace": "Shop", "MetricNames": ["Orders"]},
                {"Namespace": "Other"},
            ],
        )
        minute = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=3)
        dimensions = [{"Name": "City", "Value": "Rome"}]
        orders = {"MetricName": "Orders", "Dimensions": dimensions, "Unit": "Count"}
        data = [
            {**orders, "Timestamp": minute + timedelta(seconds=1), "Value": 3.0},
            {
                **orders,
                "Timestamp": minute + timedelta(seconds=9),
                "Values": [1.0, 8.0],
                "Counts": [2, 1],
            },
            {"MetricName": "Visits", "Timestamp": minute, "Value": 1.0},
        ]
        cloudwatch.put_metric_data(Namespace="Shop", MetricData=data)
        cloudwatch.put_metric_data(
            Namespace="Other", MetricData=[{"MetricName": "Now", "Value": 1.0}]
        )
        wait_until(lambda: lines_in(s3))
        # The present minute has not ended, and no filter has Visits.
        assert lines_in(s3) == [
            {
                "metric_stream_name": "s",
                "account_id": ACCOUNT,
                "region": REGION,
                "namespace": "Shop",
                "metric_name": "Orders",
                "dimensions": {"City": "Rome"},
                "timestamp": int(minute.timestamp() * 1000),
                "value": {"max": 8.0, "min": 1.0, "sum": 13.0, "count": 4.0},
                "unit": "Count",
            }
        ]
