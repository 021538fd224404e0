"""A delivery stream's errors are logged where its log group and stream are, and make neither."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cloud import ACCOUNT, InProcessCloud
from tests.support.server import wait_until


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("data") / "data") as cloud:
        yield cloud


def test_a_missing_log_group_is_not_made(
    firehose: Any, cloud: InProcessCloud, caplog: pytest.LogCaptureFixture
):
    # Documented: https://docs.aws.amazon.com/firehose/latest/dev/monitoring-with-cloudwatch-logs.html
    firehose.create_delivery_stream(
        DeliveryStreamName="d",
        ExtendedS3DestinationConfiguration={
            "RoleARN": f"arn:aws:iam::{ACCOUNT}:role/r",
            "BucketARN": "arn:aws:s3:::gone",
            "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 0},
            "CloudWatchLoggingOptions": {
                "Enabled": True,
                "LogGroupName": "missing",
                "LogStreamName": "s",
            },
        },
    )
    firehose.put_record(DeliveryStreamName="d", Record={"Data": b"x"})
    wait_until(lambda: "The specified log group does not exist" in caplog.text)
    assert cloud.client("logs").describe_log_groups()["logGroups"] == []
