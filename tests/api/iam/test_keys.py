"""KMS keys: who puts into, reads from or delivers to something encrypted may use its key, or is refused as on AWS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.iam.test_services import make_function, put_policy, until
from tests.support.cloud import InProcessCloud
from tests.support.iam import ACCOUNT, REGION, allow, as_role, make_role, refusal, statements

STREAM = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/secret"
READS = ["kinesis:GetRecords", "kinesis:GetShardIterator", "kinesis:DescribeStream", "kinesis:ListShards"]  # fmt: skip


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("keys"), iam="enforce") as cloud:
        yield cloud


@pytest.fixture(scope="module")
def key(cloud: InProcessCloud) -> str:
    """A key whose policy leaves it to the account's identities, as the default policy does."""
    return cloud.client("kms").create_key()["KeyMetadata"]["Arn"]


@pytest.fixture(scope="module")
def stream(cloud: InProcessCloud, key: str) -> str:
    kinesis = cloud.client("kinesis")
    kinesis.create_stream(StreamName="secret", ShardCount=1)
    kinesis.start_stream_encryption(StreamName="secret", EncryptionType="KMS", KeyId=key)
    return STREAM


def via(service: str) -> dict[str, Any]:
    return {"StringEquals": {"kms:ViaService": f"{service}.{REGION}.amazonaws.com"}}


def test_a_producer_and_a_consumer_need_the_key(cloud: InProcessCloud, key: str, stream: str):
    make_role(cloud, "producer", allow("kinesis:*", stream))
    kinesis = as_role(cloud, "producer", "kinesis")
    record = {"StreamName": "secret", "Data": b"1", "PartitionKey": "a"}
    # As users saw it: serverless-operations/serverless-apigateway-service-proxy#101.
    code, status, sentence = refusal(kinesis.put_record, **record)
    assert (code, status) == ("KMSAccessDeniedException", 400)
    assert "assumed-role/producer/" in sentence
    assert f"is not authorized to perform: kms:GenerateDataKey on resource: {key}" in sentence
    use = {**allow("kms:GenerateDataKey", key), "Condition": via("kinesis")}
    put_policy(cloud, "producer", allow("kinesis:*", stream), use)
    shard_id = kinesis.put_record(**record)["ShardId"]
    iterator = kinesis.get_shard_iterator(
        StreamName="secret", ShardId=shard_id, ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    code, _, sentence = refusal(kinesis.get_records, ShardIterator=iterator)
    assert (code, "kms:Decrypt" in sentence) == ("KMSAccessDeniedException", True)


def test_a_key_may_only_be_used_by_the_service_that_the_policy_names(
    cloud: InProcessCloud, key: str, stream: str
):
    use = {**allow("kms:GenerateDataKey", key), "Condition": via("s3")}
    make_role(cloud, "elsewhere", allow("kinesis:*", stream), use)
    kinesis = as_role(cloud, "elsewhere", "kinesis")
    found = refusal(kinesis.put_record, StreamName="secret", Data=b"1", PartitionKey="a")
    assert found[0] == "KMSAccessDeniedException"


def test_a_grant_counts_until_it_is_revoked(cloud: InProcessCloud, key: str, stream: str):
    role = make_role(cloud, "granted", allow("kinesis:*", stream))
    kms, kinesis = cloud.client("kms"), as_role(cloud, "granted", "kinesis")
    record = {"StreamName": "secret", "Data": b"1", "PartitionKey": "a"}
    assert refusal(kinesis.put_record, **record)[0] == "KMSAccessDeniedException"
    grant = kms.create_grant(KeyId=key, GranteePrincipal=role, Operations=["GenerateDataKey"])
    kinesis.put_record(**record)
    kms.revoke_grant(KeyId=key, GrantId=grant["GrantId"])
    assert refusal(kinesis.put_record, **record)[0] == "KMSAccessDeniedException"


def test_the_policy_of_a_key_alone_lets_a_role(cloud: InProcessCloud):
    role = make_role(cloud, "keyed", allow("kinesis:*", "*"))
    rule = {**allow("kms:*", "*"), "Principal": {"AWS": [role, f"arn:aws:iam::{ACCOUNT}:root"]}}
    policy = json.dumps(statements(rule))
    own = cloud.client("kms").create_key(Policy=policy)["KeyMetadata"]["Arn"]
    kinesis = cloud.client("kinesis")
    kinesis.create_stream(StreamName="keyed", ShardCount=1)
    kinesis.start_stream_encryption(StreamName="keyed", EncryptionType="KMS", KeyId=own)
    as_role(cloud, "keyed", "kinesis").put_record(StreamName="keyed", Data=b"1", PartitionKey="a")


def test_aws_own_keys_are_everybodys(cloud: InProcessCloud):
    kinesis = cloud.client("kinesis")
    kinesis.create_stream(StreamName="plain", ShardCount=1)
    kinesis.start_stream_encryption(
        StreamName="plain", EncryptionType="KMS", KeyId="alias/aws/kinesis"
    )
    make_role(cloud, "anybody", allow("kinesis:*", "*"))
    put = as_role(cloud, "anybody", "kinesis").put_record
    put(StreamName="plain", Data=b"1", PartitionKey="a")


def test_a_mapping_decrypts_with_the_functions_role(cloud: InProcessCloud, key: str, stream: str):
    role = make_role(cloud, "undecrypting", allow(READS, stream))
    make_function(cloud, "decrypts", role)
    create = cloud.client("lambda").create_event_source_mapping
    settings = {"FunctionName": "decrypts", "EventSourceArn": stream, "StartingPosition": "LATEST"}
    assert refusal(create, **settings)[0] == "InvalidParameterValueException"
    put_policy(cloud, "undecrypting", allow(READS, stream), allow("kms:Decrypt", key))
    create(**settings)


def test_a_delivery_decrypts_with_its_role(cloud: InProcessCloud, key: str, stream: str):
    cloud.client("s3").create_bucket(Bucket="lake")
    trusts = "firehose.amazonaws.com"
    put = allow("s3:PutObject", "arn:aws:s3:::lake/*")
    role = make_role(cloud, "delivers", allow(READS, stream), put, trusts=trusts)
    create = cloud.client("firehose").create_delivery_stream
    settings = {
        "DeliveryStreamName": "secret",
        "DeliveryStreamType": "KinesisStreamAsSource",
        "KinesisStreamSourceConfiguration": {"KinesisStreamARN": stream, "RoleARN": role},
        "ExtendedS3DestinationConfiguration": {
            "RoleARN": role,
            "BucketARN": "arn:aws:s3:::lake",
            "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 0},
        },
    }
    assert "kinesis:GetRecords" in refusal(create, **settings)[2]
    put_policy(cloud, "delivers", allow(READS, stream), put, allow("kms:Decrypt", key))
    create(**settings)
    # A bucket that encrypts by itself asks for the key too.
    cloud.client("s3").put_bucket_encryption(
        Bucket="lake",
        ServerSideEncryptionConfiguration={
            "Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}}]
        },
    )  # fmt: skip
    cloud.client("kinesis").put_record(StreamName="secret", Data=b"1", PartitionKey="a")

    def error() -> str:
        return next((s["last_error"] for s in cloud.cloud.firehose.statuses()), "")

    assert "kms:GenerateDataKey" in until(error)
    cloud.client("firehose").delete_delivery_stream(DeliveryStreamName="secret")


def test_objects_are_written_and_read_with_their_key(cloud: InProcessCloud, key: str):
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket="vault")
    s3.put_bucket_encryption(
        Bucket="vault",
        ServerSideEncryptionConfiguration={
            "Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}}]
        },
    )  # fmt: skip
    make_role(cloud, "keeper", allow("s3:*", "*"))
    mine = as_role(cloud, "keeper", "s3")
    code, status, sentence = refusal(mine.put_object, Bucket="vault", Key="k", Body=b"")
    assert (code, status, "kms:GenerateDataKey" in sentence) == ("AccessDenied", 403, True)
    mine.put_object(Bucket="vault", Key="plain", Body=b"", ServerSideEncryption="AES256")
    mine.get_object(Bucket="vault", Key="plain")
    s3.put_object(Bucket="vault", Key="k", Body=b"")
    assert "kms:Decrypt" in refusal(mine.get_object, Bucket="vault", Key="k")[2]
    put_policy(cloud, "keeper", allow("s3:*", "*"), allow("kms:*", key))
    mine.get_object(Bucket="vault", Key="k")


def test_a_queue_and_a_delivery_stream_ask_for_their_key(cloud: InProcessCloud, key: str):
    url = cloud.client("sqs").create_queue(QueueName="secret", Attributes={"KmsMasterKeyId": key})[
        "QueueUrl"
    ]
    make_role(cloud, "sender", allow(["sqs:*", "firehose:*"], "*"))
    send = as_role(cloud, "sender", "sqs").send_message
    code, status, sentence = refusal(send, QueueUrl=url, MessageBody="1")
    assert (code, status) == ("KMS.AccessDeniedException", 400)
    assert "kms:GenerateDataKey" in sentence
    firehose = cloud.client("firehose")
    firehose.create_delivery_stream(
        DeliveryStreamName="direct",
        DeliveryStreamEncryptionConfigurationInput={"KeyType": "CUSTOMER_MANAGED_CMK", "KeyARN": key},
        ExtendedS3DestinationConfiguration={
            "RoleARN": make_role(cloud, "direct", trusts="firehose.amazonaws.com"),
            "BucketARN": "arn:aws:s3:::nowhere",
        },
    )  # fmt: skip
    put = as_role(cloud, "sender", "firehose").put_record
    found = refusal(put, DeliveryStreamName="direct", Record={"Data": b"1"})
    assert found[:2] == ("InvalidKMSResourceException", 400)
    secrets = cloud.client("secretsmanager")
    secrets.create_secret(Name="secret", SecretString="1", KmsKeyId=key)
    read = as_role(cloud, "sender", "secretsmanager").get_secret_value
    mine = allow(["sqs:*", "firehose:*", "secretsmanager:*"], "*")
    put_policy(cloud, "sender", mine)
    assert "kms:Decrypt" in refusal(read, SecretId="secret")[2]
    put_policy(cloud, "sender", mine, allow("kms:*", key))
    read(SecretId="secret")
    send(QueueUrl=url, MessageBody="1")
    put(DeliveryStreamName="direct", Record={"Data": b"1"})
