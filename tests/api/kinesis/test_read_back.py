"""Every member that a call takes is read back, or it is said why not. See `tests.support.read_back`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.services.kinesis.actions import ACTIONS
from headrace.services.kinesis.api import FIDELITY
from tests.api.kinesis.streams import arn_of
from tests.support.cloud import InProcessCloud
from tests.support.read_back import Case, Read, check, never_given, not_read_back, overlooked

ARN = arn_of("flights")
# boto3 sends requests with it to a host of the stream's own; tests/api/kinesis/test_addressing.py sends it.
NO_ID = {"StreamId": "sent to another host"}
PROVISIONED: Read = ("CreateStream", {"StreamName": "flights", "ShardCount": 2})
ON_DEMAND: Read = (
    "CreateStream",
    {"StreamName": "flights", "StreamModeDetails": {"StreamMode": "ON_DEMAND"}},
)
COMMITTED: Read = (
    "UpdateAccountSettings",
    {"MinimumThroughputBillingCommitment": {"Status": "ENABLED"}},
)
DESCRIBE: Read = ("DescribeStreamSummary", {"StreamName": "flights"})
TAGS: Read = ("ListTagsForStream", {"StreamName": "flights"})


def channel_arn(client: Any) -> str:
    """Return the ARN of the only channel."""
    return str(client.list_channels()["ChannelSummaries"][0]["ChannelARN"])


CHANNEL: Read = ("DescribeChannel", lambda client: {"ChannelARN": channel_arn(client)})
CHANNEL_TAGS: Read = (
    "ListTagsForResource",
    lambda client: {"ResourceARN": channel_arn(client)},
)
BUCKET: dict[str, Any] = {
    "BucketARN": "arn:aws:s3:::lake",
    "ExpectedBucketOwner": "000000000000",
    "CompressionType": "GZIP",
}
FEEDS = [{"StreamARN": ARN, "RecordConfiguration": {"RecordFormatType": "STRING"}}]
ROLE = "arn:aws:iam::000000000000:role/delivery"
MAKE_CHANNEL: Read = (
    "CreateChannel",
    {
        "ChannelName": "c",
        "ServiceExecutionRoleARN": ROLE,
        "StreamConfigurationList": FEEDS,
        "S3DestinationConfiguration": {"StorageConfiguration": BUCKET},
    },
)
TO_TABLE = "S3TablesDestinationConfiguration"
TABLES = {TO_TABLE: "a case of its own; channels/test_tables.py changes one"}
LETTERS = {
    "BucketARN": "arn:aws:s3:::letters",
    "ExpectedBucketOwner": "111111111111",
    "ErrorOutputPrefix": "bad/",
}
NAMED = {"StreamName": "flights", "StreamARN": ARN}
STATEMENT = {
    "Effect": "Allow",
    "Principal": {"AWS": "000000000001"},
    "Action": ["kinesis:GetRecords"],
    "Resource": ARN,
}
POLICY = json.dumps({"Version": "2012-10-17", "Statement": [STATEMENT]})
NOT_KEPT = {
    # A queue's ARN is not known before it is made, and a record's handle not before it is received.
    "CreateQueue": "tests/api/kinesis/queues/test_control.py reads queues back",
    "PutRecord": "tests/api/kinesis/test_put_record.py reads records back",
    "PutRecords": "tests/api/kinesis/test_put_records.py reads records back",
    "UpdateDeadLetterQueueRecordsVisibility": "tests/api/kinesis/queues/test_delivery.py sees its effect",
    "UpdateQueue": "tests/api/kinesis/queues/test_control.py reads queues back",
    "UpdateQueueRecordsVisibility": "tests/api/kinesis/queues/test_delivery.py sees its effect",
}

CASES = [
    Case(
        "CreateChannel",
        [CHANNEL, CHANNEL_TAGS],
        before=[ON_DEMAND],
        given={
            "ChannelName": "c",
            "ServiceExecutionRoleARN": ROLE,
            "StreamConfigurationList": FEEDS,
            "S3DestinationConfiguration.DataFreshnessInSeconds": 777,
            "S3DestinationConfiguration.StorageConfiguration": {
                **BUCKET,
                "OutputKeyTemplate": "a!{extension}",
                "StorageClass": "GLACIER_IR",
            },
            "S3DestinationConfiguration.DeadLetterQueueS3Configuration": LETTERS,
            "EncryptionConfiguration.KeyId": "alias/aws/s3",
        },
        without=TABLES,
    ),
    Case(
        "CreateChannel",
        [CHANNEL, CHANNEL_TAGS],
        before=[ON_DEMAND],
        given={
            "ChannelName": "c",
            "ServiceExecutionRoleARN": ROLE,
            "StreamConfigurationList": [
                {
                    "StreamARN": ARN,
                    "RecordConfiguration": {
                        "RecordFormatType": "GSR_JSON",
                        "GSRSchemaARN": "arn:aws:glue:us-east-1:000000000000:schema/r/s",
                    },
                }
            ],
            f"{TO_TABLE}.DataFreshnessInSeconds": 777,
            f"{TO_TABLE}.S3TablesConfigurationList": [
                {
                    "TableBucketARN": "arn:aws:s3tables:us-east-1:000000000000:bucket/lake",
                    "Namespace": "air",
                    "TableName": "flights",
                    "CompressionType": "SNAPPY",
                    "PartitionSpec": {
                        "PartitionFields": [{"Transform": "TIME_HOUR", "SourceName": "at"}]
                    },
                }
            ],
            f"{TO_TABLE}.DeadLetterQueueS3Configuration": LETTERS,
            "EncryptionConfiguration.KeyId": "alias/aws/s3",
        },
        without={"S3DestinationConfiguration": "the other kind of destination"},
        title="to a table",
    ),
    Case(
        "UpdateChannel",
        [CHANNEL],
        before=[ON_DEMAND, MAKE_CHANNEL],
        given={
            "ChannelARN": channel_arn,
            "S3DestinationConfiguration.DataFreshnessInSeconds": 777,
        },
        without=TABLES,
    ),
    Case(
        "CreateStream",
        [DESCRIBE, TAGS],
        before=[COMMITTED],
        given={
            "StreamName": "flights",
            "StreamModeDetails.StreamMode": "ON_DEMAND",
            "MaxRecordSizeInKiB": 2048,
        },
        without={"ShardCount": "an on-demand stream has none"},
        named={"WarmThroughputMiBps": "TargetMiBps"},
        title="on demand",
    ),
    Case(
        "CreateStream",
        [DESCRIBE, TAGS],
        given={
            "StreamName": "flights",
            "StreamModeDetails.StreamMode": "PROVISIONED",
            "MaxRecordSizeInKiB": 2048,
            "RecordDistributionStrategy": "USER_PARTITION_KEY",
        },
        without={
            "WarmThroughputMiBps": "of on-demand streams",
        },
        named={"ShardCount": "OpenShardCount"},
        unseen={"RecordDistributionStrategy": "shown for on-demand streams; it has no other here"},
        title="provisioned",
    ),
    Case("AddTagsToStream", [DESCRIBE, TAGS], before=[PROVISIONED], without=NO_ID, given=NAMED),
    Case(
        "EnableEnhancedMonitoring",
        [DESCRIBE],
        before=[PROVISIONED],
        without=NO_ID,
        given={**NAMED, "ShardLevelMetrics": ["IncomingBytes"]},
    ),
    Case(
        "IncreaseStreamRetentionPeriod",
        [DESCRIBE],
        before=[PROVISIONED],
        without=NO_ID,
        given={**NAMED, "RetentionPeriodHours": 37},
    ),
    Case(
        "PutResourcePolicy",
        [DESCRIBE, ("GetResourcePolicy", {"ResourceARN": ARN})],
        before=[PROVISIONED],
        without=NO_ID,
        given={"ResourceARN": ARN, "Policy": POLICY},
        named={"ResourceARN": "StreamARN"},
    ),
    Case(
        "RegisterStreamConsumer",
        [DESCRIBE, ("DescribeStreamConsumer", {"StreamARN": ARN, "ConsumerName": "reader"})],
        before=[PROVISIONED],
        without=NO_ID,
        given={"StreamARN": ARN, "ConsumerName": "reader"},
        unseen={"Tags": "test_tags_of_a_consumer_are_shown: its ARN is not known before"},
    ),
    Case(
        "StartStreamEncryption",
        [DESCRIBE],
        before=[PROVISIONED],
        without=NO_ID,
        given={**NAMED, "EncryptionType": "KMS", "KeyId": "alias/aws/kinesis"},
    ),
    Case(
        "TagResource",
        [DESCRIBE, TAGS],
        before=[PROVISIONED],
        without=NO_ID,
        given={"ResourceARN": ARN},
        named={"ResourceARN": "StreamARN"},
    ),
    Case(
        "UpdateAccountSettings",
        [("DescribeAccountSettings", {})],
        given={"MinimumThroughputBillingCommitment": {"Status": "ENABLED"}},
    ),
    Case(
        "UpdateMaxRecordSize",
        [DESCRIBE],
        before=[PROVISIONED],
        without=NO_ID,
        given={"StreamARN": ARN, "MaxRecordSizeInKiB": 2048},
    ),
    Case(
        "UpdateShardCount",
        [DESCRIBE],
        before=[PROVISIONED],
        without=NO_ID,
        given={**NAMED, "TargetShardCount": 3},
        unseen={"ScalingType": "it has one value"},
    ),
    Case(
        "UpdateStreamMode",
        [DESCRIBE],
        before=[COMMITTED, PROVISIONED],
        without=NO_ID,
        given={
            "StreamARN": ARN,
            "StreamModeDetails.StreamMode": "ON_DEMAND",
            "WarmThroughputMiBps": 7,
        },
        named={"WarmThroughputMiBps": "TargetMiBps"},
    ),
    Case(
        "UpdateStreamRecordDistributionStrategy",
        [DESCRIBE],
        before=[ON_DEMAND],
        without=NO_ID,
        given={"StreamARN": ARN},
    ),
    Case(
        "UpdateStreamWarmThroughput",
        [DESCRIBE],
        before=[COMMITTED, ON_DEMAND],
        without=NO_ID,
        given={**NAMED, "WarmThroughputMiBps": 7},
        named={"WarmThroughputMiBps": "TargetMiBps"},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.operation} {case.title}".strip())
def test_what_a_call_takes_is_read_back(kinesis: Any, cloud: InProcessCloud, case: Case):
    if "Channel" in case.operation:
        cloud.client("s3").create_bucket(Bucket="lake")
    assert check("kinesis", case, kinesis, FIDELITY) == []


def test_every_call_that_keeps_something_is_read_back():
    assert overlooked("kinesis", CASES) == []
    assert not_read_back("kinesis", ACTIONS, CASES) == list(NOT_KEPT)
    never = never_given("kinesis", CASES)
    tables = [f"UpdateChannel.{TO_TABLE}"]
    assert [name for name in never if not name.endswith(".StreamId")] == tables


def test_tags_of_a_consumer_are_shown(kinesis: Any, cloud: InProcessCloud):
    kinesis.create_stream(StreamName="flights", ShardCount=1)
    made = kinesis.register_stream_consumer(
        StreamARN=ARN, ConsumerName="reader", Tags={"team": "ours"}
    )
    arn = made["Consumer"]["ConsumerARN"]
    shown = kinesis.list_tags_for_resource(ResourceARN=arn)["Tags"]
    assert shown == [{"Key": "team", "Value": "ours"}]
