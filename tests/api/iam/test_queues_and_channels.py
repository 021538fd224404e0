"""Kinesis queues and channels: who may create and use them, whose key is used, and what a channel's role may do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.iam.test_services import put_policy
from tests.api.kinesis.channels.lab import SCHEMA, SCHEMA_ARN, TABLES_ARN, to_table
from tests.support.cloud import InProcessCloud
from tests.support.iam import ACCOUNT, REGION, allow, as_role, make_role, refusal, statements

STREAM = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/jobs"
QUEUES = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:queue/*"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("queues"), iam="enforce") as cloud:
        kinesis = cloud.client("kinesis")
        for name in ("jobs", "feed"):
            kinesis.create_stream(StreamName=name, StreamModeDetails={"StreamMode": "ON_DEMAND"})
        cloud.client("s3").create_bucket(Bucket="lake")
        yield cloud


def create(kinesis: Any, name: str, **more: Any) -> dict[str, Any]:
    return {
        "QueueName": name,
        "StreamConfigurationList": [{"StreamARN": STREAM}],
        **more,
    }


def queue_of(cloud: InProcessCloud, name: str) -> str:
    kinesis = cloud.client("kinesis")
    answer = kinesis.create_queue(**create(kinesis, name))
    return answer["QueueDescription"]["QueueARN"]


def test_to_create_one_takes_the_queue_the_stream_and_the_tags(cloud: InProcessCloud):
    make_role(cloud, "maker", allow("kinesis:CreateQueue", QUEUES))
    kinesis = as_role(cloud, "maker", "kinesis")
    code, _, sentence = refusal(kinesis.create_queue, **create(kinesis, "made"))
    assert (code, "kinesis:AssociateStreamsWithQueue" in sentence) == (
        "AccessDeniedException",
        True,
    )
    assert STREAM in sentence
    both = [
        allow("kinesis:CreateQueue", QUEUES),
        allow("kinesis:AssociateStreamsWithQueue", STREAM),
    ]
    put_policy(cloud, "maker", *both)
    _, _, sentence = refusal(kinesis.create_queue, **create(kinesis, "made", Tags={"a": "b"}))
    assert "kinesis:TagResource" in sentence
    kinesis.create_queue(**create(kinesis, "made"))


def test_a_consumer_needs_each_action_on_the_queue(cloud: InProcessCloud):
    queue, other = queue_of(cloud, "mine"), queue_of(cloud, "other")
    make_role(cloud, "consumer", allow("kinesis:ReceiveQueueRecords", queue))
    kinesis = as_role(cloud, "consumer", "kinesis")
    cloud.client("kinesis").put_record(StreamName="jobs", Data=b"1", PartitionKey="a")
    (record,) = kinesis.receive_queue_records(QueueARN=queue)["QueueRecords"]
    entry = [{"ReceiptHandle": record["ReceiptHandle"]}]
    for call, params, action in (
        (kinesis.receive_queue_records, {"QueueARN": other}, "ReceiveQueueRecords"),
        (kinesis.receive_dead_letter_queue_records, {"QueueARN": queue}, "ReceiveDeadLetter"),
        (kinesis.acknowledge_queue_records, {"QueueARN": queue, "Entries": entry}, "Acknowledge"),
        (kinesis.describe_queue, {"QueueARN": queue}, "DescribeQueue"),
        (kinesis.list_queues, {}, "ListQueues"),
    ):
        code, _, sentence = refusal(call, **params)
        assert (code, f"kinesis:{action}" in sentence) == ("AccessDeniedException", True)


def test_a_policy_of_the_queue_allows_what_the_role_does_not(cloud: InProcessCloud):
    queue = queue_of(cloud, "shared")
    role = make_role(cloud, "guest")
    statement = {**allow("kinesis:DescribeQueue", queue), "Principal": {"AWS": role}}
    cloud.client("kinesis").put_resource_policy(
        ResourceARN=queue, Policy=json.dumps(statements(statement))
    )
    guest = as_role(cloud, "guest", "kinesis")
    assert guest.describe_queue(QueueARN=queue)["QueueDescription"]["QueueName"] == "shared"


def test_a_consumer_of_an_encrypted_stream_needs_its_key(cloud: InProcessCloud):
    owner = cloud.client("kinesis")
    key = cloud.client("kms").create_key()["KeyMetadata"]["Arn"]
    owner.start_stream_encryption(StreamName="jobs", EncryptionType="KMS", KeyId=key)
    queue = queue_of(cloud, "secret")
    owner.put_record(StreamName="jobs", Data=b"1", PartitionKey="a")
    receive = allow("kinesis:ReceiveQueueRecords", queue)
    make_role(cloud, "reader", receive)
    kinesis = as_role(cloud, "reader", "kinesis")
    code, _, sentence = refusal(kinesis.receive_queue_records, QueueARN=queue)
    assert (code, "kms:Decrypt" in sentence) == ("KMSAccessDeniedException", True)
    context = {"StringEquals": {"kms:EncryptionContext:aws:kinesis:arn": STREAM}}
    put_policy(cloud, "reader", receive, {**allow("kms:Decrypt", key), "Condition": context})
    assert len(kinesis.receive_queue_records(QueueARN=queue)["QueueRecords"]) == 1
    cloud.client("kms").disable_key(KeyId=key)
    assert refusal(owner.receive_queue_records, QueueARN=queue)[0] == "KMSDisabledException"


# --- channels -------------------------------------------------------------------------------------

FEED = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/feed"
CHANNELS = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:channel/*"
TRUSTS_KINESIS = {
    "Effect": "Allow",
    "Principal": {"Service": "kinesis.amazonaws.com"},
    "Action": "sts:AssumeRole",
    "Condition": {
        "StringEquals": {"aws:SourceAccount": ACCOUNT},
        "ArnLike": {"aws:SourceArn": CHANNELS},
    },
}


def channel(name: str, role: str) -> dict[str, Any]:
    records = {"RecordFormatType": "STRING"}
    return {
        "ChannelName": name,
        "ServiceExecutionRoleARN": role,
        "StreamConfigurationList": [{"StreamARN": FEED, "RecordConfiguration": records}],
        "S3DestinationConfiguration": {
            "StorageConfiguration": {
                "BucketARN": "arn:aws:s3:::lake",
                "ExpectedBucketOwner": ACCOUNT,
                "CompressionType": "NONE",
            }
        },
    }


def service_role(cloud: InProcessCloud, name: str, *allowed: dict[str, Any]) -> str:
    """Make a role that Kinesis may assume for channels; return its ARN."""
    iam = cloud.client("iam")
    trust = json.dumps(statements(TRUSTS_KINESIS))
    arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    if allowed:
        iam.put_role_policy(
            RoleName=name, PolicyName="p", PolicyDocument=json.dumps(statements(*allowed))
        )
    return str(arn)


def test_to_create_a_channel_takes_the_stream_the_role_and_the_tags(cloud: InProcessCloud):
    role = service_role(cloud, "writer", allow("s3:PutObject", "arn:aws:s3:::lake/*"))
    make_role(cloud, "channel-maker", allow("kinesis:CreateChannel", CHANNELS))
    kinesis = as_role(cloud, "channel-maker", "kinesis")
    have = [allow("kinesis:CreateChannel", CHANNELS)]
    for action, resource in (
        ("kinesis:AssociateStreamsWithChannel", FEED),
        ("kinesis:TagResource", CHANNELS),
        ("iam:PassRole", role),
    ):
        code, _, sentence = refusal(kinesis.create_channel, **channel("c", role), Tags={"a": "b"})
        assert (code, action in sentence) == ("AccessDeniedException", True), sentence
        have.append(allow(action, resource))
        put_policy(cloud, "channel-maker", *have)
    answer = kinesis.create_channel(**channel("c", role), Tags={"a": "b"})["ChannelDescription"]
    owner = cloud.client("kinesis")
    shown = owner.describe_channel(ChannelARN=answer["ChannelARN"])["ChannelDescription"]
    assert shown["ChannelStatus"] == "ACTIVE"
    for call, params in (
        (kinesis.describe_channel, {"ChannelARN": answer["ChannelARN"]}),
        (kinesis.list_channels, {}),
        (kinesis.delete_channel, {"ChannelARN": answer["ChannelARN"]}),
    ):
        assert refusal(call, **params)[0] == "AccessDeniedException"
    owner.delete_channel(ChannelARN=answer["ChannelARN"])


def test_a_role_that_cannot_write_makes_the_channel_failed(cloud: InProcessCloud):
    owner = cloud.client("kinesis")
    stranger = make_role(cloud, "stranger")
    for role, words in (
        (stranger, "cannot be assumed"),
        (service_role(cloud, "idle"), "s3:PutObject"),
    ):
        arn = owner.create_channel(**channel("f", role))["ChannelDescription"]["ChannelARN"]
        shown = owner.describe_channel(ChannelARN=arn)["ChannelDescription"]
        assert shown["ChannelStatus"] == "FAILED"
        assert words in shown["ChannelStatusReason"]
        owner.delete_channel(ChannelARN=arn)


def test_a_role_needs_the_permissions_of_the_table_that_it_fills(cloud: InProcessCloud):
    owner = cloud.client("kinesis")
    cloud.client("s3tables").create_table_bucket(name="lake-tables")
    cloud.client("glue").create_registry(RegistryName="registry")
    cloud.client("glue").create_schema(
        RegistryId={"RegistryName": "registry"},
        SchemaName="flights",
        DataFormat="JSON",
        Compatibility="NONE",
        SchemaDefinition=json.dumps(SCHEMA),
    )
    have = [allow("s3:PutObject", "arn:aws:s3:::failures/*")]
    cloud.client("s3").create_bucket(Bucket="failures")
    role = service_role(cloud, "table-writer", *have)
    request = to_table()
    request["ServiceExecutionRoleARN"] = role
    request["StreamConfigurationList"][0]["StreamARN"] = FEED
    for action, resource in (
        ("glue:GetSchemaVersion", SCHEMA_ARN),
        ("s3tables:CreateNamespace", TABLES_ARN),
        ("s3tables:CreateTable", TABLES_ARN),
        ("s3tables:GetTable", f"{TABLES_ARN}/table/*"),
        ("s3tables:GetTableMetadataLocation", f"{TABLES_ARN}/table/*"),
        ("s3tables:UpdateTableMetadataLocation", f"{TABLES_ARN}/table/*"),
        ("s3tables:GetTableData", f"{TABLES_ARN}/table/*"),
        ("s3tables:PutTableData", f"{TABLES_ARN}/table/*"),
    ):
        arn = owner.create_channel(**request)["ChannelDescription"]["ChannelARN"]
        shown = owner.describe_channel(ChannelARN=arn)["ChannelDescription"]
        assert action in shown["ChannelStatusReason"]
        owner.delete_channel(ChannelARN=arn)
        have.append(allow(action, resource))
        put_policy(cloud, "table-writer", *have)
    arn = owner.create_channel(**request)["ChannelDescription"]["ChannelARN"]
    shown = owner.describe_channel(ChannelARN=arn)["ChannelDescription"]
    assert shown.get("ChannelStatusReason", "") == ""
    assert shown["ChannelStatus"] == "ACTIVE"
    owner.delete_channel(ChannelARN=arn)
