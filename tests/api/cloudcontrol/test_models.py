"""Cloud Control's models: what AWS shows of a resource beside the properties that its maker gave."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.cloudcontrol.test_cloudcontrol import make, patch, read
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("control") / "data") as cloud:
        yield cloud


@pytest.fixture
def control(cloud: InProcessCloud) -> Any:
    return cloud.client("cloudcontrol")


_KEYS = {
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
}
_S3 = {"BucketARN": "arn:aws:s3:::filled", "RoleARN": f"arn:aws:iam::{ACCOUNT}:role/r"}
_SCHEDULE = {
    "FlexibleTimeWindow": {"Mode": "OFF"},
    "ScheduleExpression": "rate(1 hour)",
    "Target": {"Arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:q", "RoleArn": _S3["RoleARN"]},
}


# What AWS was recorded to show of resources that were made with few properties (2026-06-13 to 2026-07-13).
@pytest.mark.parametrize(
    ("kind", "given", "shown", "unshown"),
    [
        (
            "AWS::KinesisFirehose::DeliveryStream",
            {"DeliveryStreamName": "plain", "S3DestinationConfiguration": _S3},
            {
                "DeliveryStreamType": "DirectPut",
                "ExtendedS3DestinationConfiguration": {
                    **_S3,
                    "BufferingHints": {"IntervalInSeconds": 300, "SizeInMBs": 5},
                    "CompressionFormat": "UNCOMPRESSED",
                    "EncryptionConfiguration": {"NoEncryptionConfig": "NoEncryption"},
                    "CloudWatchLoggingOptions": {"Enabled": False},
                    "S3BackupMode": "Disabled",
                },
            },
            {"S3DestinationConfiguration"},
        ),
        (
            "AWS::DynamoDB::Table",
            {"TableName": "plain", "BillingMode": "PAY_PER_REQUEST", **_KEYS},
            {
                "SSESpecification": {"SSEEnabled": False},
                "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": False},
                "TimeToLiveSpecification": {"Enabled": False},
                "WarmThroughput": {"ReadUnitsPerSecond": 12000, "WriteUnitsPerSecond": 4000},
                "DeletionProtectionEnabled": False,
            },
            {"ProvisionedThroughput", "KinesisStreamSpecification"},
        ),
        (
            "AWS::Scheduler::Schedule",
            {"Name": "plain", **_SCHEDULE},
            {
                "GroupName": "default",
                "Target": {
                    **_SCHEDULE["Target"],
                    "RetryPolicy": {"MaximumEventAgeInSeconds": 86400, "MaximumRetryAttempts": 185},
                },
            },
            set(),
        ),
        (
            "AWS::SNS::Topic",
            {"TopicName": "plain"},
            {"FifoTopic": False, "ArchivePolicy": {}},
            set(),
        ),
        ("AWS::Logs::LogGroup", {"LogGroupName": "plain"}, {"LogGroupClass": "STANDARD"}, set()),
        (
            "AWS::Lambda::Function",
            {
                "FunctionName": "plain",
                "Runtime": "python3.12",
                "Handler": "index.handler",
                "Role": _S3["RoleARN"],
                "Code": {"ZipFile": "def handler(event, context): pass"},
            },
            {
                "RecursiveLoop": "Terminate",
                "RuntimeManagementConfig": {"UpdateRuntimeOn": "Auto"},
                "EphemeralStorage": {"Size": 512},
            },
            set(),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_model_has_the_defaults_that_aws_shows(
    cloud: InProcessCloud,
    control: Any,
    kind: str,
    given: dict[str, Any],
    shown: dict[str, Any],
    unshown: set[str],
) -> None:
    cloud.client("s3").create_bucket(Bucket="filled")
    cloud.client("sqs").create_queue(QueueName="q")
    event = make(control, kind, given)
    assert event["OperationStatus"] == "SUCCESS", event
    model = read(control, kind, event["Identifier"])
    assert {name: model.get(name) for name in shown} == shown
    assert not unshown & model.keys()


def test_a_buckets_default_encryption_is_read_and_patched(
    cloud: InProcessCloud, control: Any
) -> None:
    kind = "AWS::S3::Bucket"
    make(control, kind, {"BucketName": "sealed"})

    def rule() -> dict[str, Any]:
        encryption = read(control, kind, "sealed")["BucketEncryption"]
        (one,) = encryption["ServerSideEncryptionConfiguration"]
        return one

    assert rule() == {
        "ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"},
        "BucketKeyEnabled": False,
    }
    path = "/BucketEncryption/ServerSideEncryptionConfiguration/0/BucketKeyEnabled"
    patched = patch(control, kind, "sealed", {"op": "replace", "path": path, "value": True})
    assert patched["OperationStatus"] == "SUCCESS", patched
    assert rule()["BucketKeyEnabled"] is True


def test_settings_that_another_api_changed_are_read(cloud: InProcessCloud, control: Any) -> None:
    kind, dynamodb = "AWS::DynamoDB::Table", cloud.client("dynamodb")
    make(control, kind, {"TableName": "changed", "BillingMode": "PAY_PER_REQUEST", **_KEYS})
    cloud.client("kinesis").create_stream(StreamName="changes", ShardCount=1)
    stream = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/changes"
    dynamodb.enable_kinesis_streaming_destination(TableName="changed", StreamArn=stream)
    dynamodb.update_continuous_backups(
        TableName="changed",
        PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True},
    )
    model = read(control, kind, "changed")
    assert model["KinesisStreamSpecification"]["StreamArn"] == stream
    assert model["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is True
