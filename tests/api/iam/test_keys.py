"""KMS keys: who puts into, reads from or delivers to something encrypted may use its key, or is refused as on AWS."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.iam.test_services import make_function, put_policy
from tests.support.cloud import InProcessCloud
from tests.support.iam import ACCOUNT, REGION, allow, as_role, make_role, refusal, statements
from tests.support.server import wait_until

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

    assert "kms:GenerateDataKey" in wait_until(error)
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


# --- encryption contexts, states of keys, and keys that are named ---------------------------------


def revoke_all(cloud: InProcessCloud, key: str) -> None:
    kms = cloud.client("kms")
    for grant in kms.list_grants(KeyId=key)["Grants"]:
        kms.revoke_grant(KeyId=key, GrantId=grant["GrantId"])


@pytest.mark.parametrize(
    ("constraints", "is_let"),
    [
        ({"EncryptionContextEquals": {"aws:kinesis:arn": STREAM}}, True),
        ({"EncryptionContextSubset": {"aws:kinesis:arn": STREAM}}, True),
        ({"EncryptionContextSubset": {"aws:kinesis:arn": f"{STREAM}-2"}}, False),
        ({"EncryptionContextEquals": {"aws:kinesis:arn": STREAM, "more": "x"}}, False),
    ],
)
def test_a_grant_counts_in_its_encryption_context(
    cloud: InProcessCloud, key: str, stream: str, constraints: dict[str, Any], is_let: bool
):
    name = f"contexts-{zlib.crc32(str(constraints).encode())}"
    role = make_role(cloud, name, allow("kinesis:*", stream))
    cloud.client("kms").create_grant(
        KeyId=key, GranteePrincipal=role, Operations=["GenerateDataKey"], Constraints=constraints
    )
    put = as_role(cloud, name, "kinesis").put_record
    record = {"StreamName": "secret", "Data": b"1", "PartitionKey": "a"}
    if is_let:
        put(**record)
    else:
        assert refusal(put, **record)[0] == "KMSAccessDeniedException"
    revoke_all(cloud, key)


def test_a_grant_for_ones_own_calls_asks_for_their_encryption_context(
    cloud: InProcessCloud, key: str
):
    role = make_role(cloud, "encrypts")
    cloud.client("kms").create_grant(
        KeyId=key,
        GranteePrincipal=role,
        Operations=["Encrypt", "Decrypt"],
        Constraints={"EncryptionContextSubset": {"team": "blue"}},
    )
    kms = as_role(cloud, "encrypts", "kms")
    mine = {"team": "blue", "more": "x"}
    made = kms.encrypt(KeyId=key, Plaintext=b"1", EncryptionContext=mine)["CiphertextBlob"]
    assert kms.decrypt(KeyId=key, CiphertextBlob=made, EncryptionContext=mine)["Plaintext"] == b"1"
    for context in ({}, {"team": "red"}):
        found = refusal(kms.encrypt, KeyId=key, Plaintext=b"1", EncryptionContext=context)
        assert found[0] == "AccessDeniedException"
    revoke_all(cloud, key)


def test_a_policy_may_let_a_key_be_used_for_one_stream(
    cloud: InProcessCloud, key: str, stream: str
):
    def use(arn: str) -> dict[str, Any]:
        condition = {"StringEquals": {"kms:EncryptionContext:aws:kinesis:arn": arn}}
        return {**allow("kms:GenerateDataKey", key), "Condition": condition}

    make_role(cloud, "of-one-stream", allow("kinesis:*", stream), use(f"{stream}-2"))
    put = as_role(cloud, "of-one-stream", "kinesis").put_record
    record = {"StreamName": "secret", "Data": b"1", "PartitionKey": "a"}
    assert refusal(put, **record)[0] == "KMSAccessDeniedException"
    put_policy(cloud, "of-one-stream", allow("kinesis:*", stream), use(stream))
    put(**record)


def test_a_stream_is_as_good_as_its_key(cloud: InProcessCloud):
    """Codes: API_PutRecord.html and API_GetRecords.html; sentences assumed."""
    kms, kinesis = cloud.client("kms"), cloud.client("kinesis")
    kinesis.create_stream(StreamName="keys", ShardCount=1)
    start = {"StreamName": "keys", "EncryptionType": "KMS"}
    for key_id in (
        *("alias/none", "11111111-1111-1111-1111-111111111111"),
        *("arn:", "arn:aws:kms:nowhere:1:key/x"),
    ):
        found = refusal(kinesis.start_stream_encryption, **start, KeyId=key_id)
        assert found[:2] == ("KMSNotFoundException", 400)
    own = kms.create_key()["KeyMetadata"]["Arn"]
    kms.create_alias(AliasName="alias/keys", TargetKeyId=own)
    kinesis.start_stream_encryption(**start, KeyId="alias/keys")
    record = {"StreamName": "keys", "Data": b"1", "PartitionKey": "a"}
    shard_id = kinesis.put_record(**record)["ShardId"]
    iterator = kinesis.get_shard_iterator(
        StreamName="keys", ShardId=shard_id, ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    records = [{"Data": b"1", "PartitionKey": "a"}]

    def refusals() -> set[str]:
        return {
            refusal(kinesis.put_record, **record)[0],
            refusal(kinesis.put_records, StreamName="keys", Records=records)[0],
            refusal(kinesis.get_records, ShardIterator=iterator)[0],
        }

    # A customer's key is asked for by its alias, too.
    make_role(cloud, "aliased", allow("kinesis:*", "*"))
    found = refusal(as_role(cloud, "aliased", "kinesis").put_record, **record)
    assert (found[0], own in found[2]) == ("KMSAccessDeniedException", True)
    kms.disable_key(KeyId=own)
    assert refusals() == {"KMSDisabledException"}
    kms.schedule_key_deletion(KeyId=own, PendingWindowInDays=7)
    assert refusals() == {"KMSInvalidStateException"}
    kms.cancel_key_deletion(KeyId=own)
    assert refusals() == {"KMSDisabledException"}
    kms.enable_key(KeyId=own)
    kinesis.put_record(**record)
    assert len(kinesis.get_records(ShardIterator=iterator)["Records"]) == 2


def test_a_buckets_key_is_not_asked_for_where_another_is_named(cloud: InProcessCloud, key: str):
    s3, kms = cloud.client("s3"), cloud.client("kms")
    other = kms.create_key()["KeyMetadata"]["Arn"]
    s3.create_bucket(Bucket="keyed")
    default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}
    s3.put_bucket_encryption(
        Bucket="keyed",
        ServerSideEncryptionConfiguration={
            "Rules": [{"ApplyServerSideEncryptionByDefault": default}]
        },
    )
    mine = allow("s3:*", "*"), allow(["kms:GenerateDataKey", "kms:Decrypt"], other)
    make_role(cloud, "names-keys", *mine)
    own = as_role(cloud, "names-keys", "s3")
    named = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": other}
    own.put_object(Bucket="keyed", Key="a", Body=b"1", **named)
    own.get_object(Bucket="keyed", Key="a")
    # AWS's own key for S3, which is everybody's in the account.
    own.put_object(Bucket="keyed", Key="b", Body=b"1", ServerSideEncryption="aws:kms")
    upload = own.create_multipart_upload(Bucket="keyed", Key="c", **named)["UploadId"]
    part = {"Bucket": "keyed", "Key": "c", "UploadId": upload}
    made = own.upload_part(**part, PartNumber=1, Body=b"1")
    parts = {"Parts": [{"PartNumber": 1, "ETag": made["ETag"]}]}
    own.complete_multipart_upload(**part, MultipartUpload=parts)
    for broken in (
        lambda: own.put_object(Bucket="keyed", Key="d", Body=b"1"),
        lambda: own.create_multipart_upload(Bucket="keyed", Key="d"),
    ):
        assert key in refusal(broken)[2]
    # What is encrypted for one folder may be used for it alone.
    use = allow(["kms:GenerateDataKey"], key)
    use["Condition"] = {
        "StringLike": {"kms:EncryptionContext:aws:s3:arn": "arn:aws:s3:::keyed/in/*"}
    }
    put_policy(cloud, "names-keys", *mine, use)
    own.put_object(Bucket="keyed", Key="in/d", Body=b"1")
    assert refusal(own.put_object, Bucket="keyed", Key="out/d", Body=b"1")[0] == "AccessDenied"


def test_a_delivery_asks_for_the_key_that_it_names(cloud: InProcessCloud, key: str):
    s3, firehose = cloud.client("s3"), cloud.client("firehose")
    other = cloud.client("kms").create_key()["KeyMetadata"]["Arn"]
    s3.create_bucket(Bucket="named")
    default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}
    s3.put_bucket_encryption(
        Bucket="named",
        ServerSideEncryptionConfiguration={
            "Rules": [{"ApplyServerSideEncryptionByDefault": default}]
        },
    )
    # As controlling-access.html of Firehose's guide has it.
    use = allow(["kms:GenerateDataKey", "kms:Decrypt"], other)
    use["Condition"] = {
        **via("s3"),
        "StringLike": {"kms:EncryptionContext:aws:s3:arn": "arn:aws:s3:::named/*"},
    }
    put = allow("s3:PutObject", "arn:aws:s3:::named/*")
    role = make_role(cloud, "names-one", put, use, trusts="firehose.amazonaws.com")
    firehose.create_delivery_stream(
        DeliveryStreamName="named",
        ExtendedS3DestinationConfiguration={
            "RoleARN": role,
            "BucketARN": "arn:aws:s3:::named",
            "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 0},
            "EncryptionConfiguration": {"KMSEncryptionConfig": {"AWSKMSKeyARN": other}},
        },
    )
    firehose.put_record(DeliveryStreamName="named", Record={"Data": b"1"})
    assert wait_until(lambda: s3.list_objects_v2(Bucket="named").get("Contents"))
    firehose.delete_delivery_stream(DeliveryStreamName="named")


def test_a_tables_key_is_asked_for(cloud: InProcessCloud, key: str):
    """encryption.usagenotes.html: to make the table and, for each principal, to use it."""
    make_role(cloud, "tables", allow("dynamodb:*", "*"))
    mine = as_role(cloud, "tables", "dynamodb")
    table = {
        "TableName": "secret",
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "BillingMode": "PAY_PER_REQUEST",
        "SSESpecification": {"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": key},
    }
    assert "kms:DescribeKey" in refusal(mine.create_table, **table)[2]
    cloud.client("dynamodb").create_table(**table)
    item = {"TableName": "secret", "Item": {"id": {"S": "1"}}}
    code, _, sentence = refusal(mine.put_item, **item)
    assert (code, "kms:Decrypt" in sentence) == ("AccessDeniedException", True)
    use = allow("kms:Decrypt", key)
    use["Condition"] = {
        "StringEquals": {
            **via("dynamodb")["StringEquals"],
            "kms:EncryptionContext:aws:dynamodb:tableName": "secret",
        }
    }
    put_policy(cloud, "tables", allow("dynamodb:*", "*"), use)
    mine.put_item(**item)
    assert mine.get_item(TableName="secret", Key={"id": {"S": "1"}})["Item"]
    # AWS's own key is everybody's.
    own = {**table, "TableName": "plain", "SSESpecification": {"Enabled": True, "SSEType": "KMS"}}
    cloud.client("dynamodb").create_table(**own)
    put_policy(cloud, "tables", allow("dynamodb:*", "*"))
    mine.put_item(**{**item, "TableName": "plain"})


def test_a_log_group_takes_a_key_that_lets_logs_use_it(cloud: InProcessCloud, key: str):
    logs, kms = cloud.client("logs"), cloud.client("kms")
    arn = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:kept"
    # hashicorp/terraform-provider-aws#29282
    sentence = f"The specified KMS key does not exist or is not allowed to be used with Arn '{arn}'"
    refused = ("AccessDeniedException", 400, sentence)
    create = {"logGroupName": "kept", "kmsKeyId": key}
    assert refusal(logs.create_log_group, **create) == refused
    none = key.rpartition("/")[0] + "/none"
    assert refusal(logs.create_log_group, **{**create, "kmsKeyId": none}) == refused
    # encrypt-log-data-kms.html
    lets = {
        **allow(["kms:Encrypt*", "kms:Decrypt*", "kms:GenerateDataKey*", "kms:Describe*"], "*"),
        "Principal": {"Service": f"logs.{REGION}.amazonaws.com"},
        "Condition": {"ArnEquals": {"kms:EncryptionContext:aws:logs:arn": arn}},
    }
    root = {**allow("kms:*", "*"), "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}}
    own = kms.create_key(Policy=json.dumps(statements(root, lets)))["KeyMetadata"]["Arn"]
    logs.create_log_group(logGroupName="kept", kmsKeyId=own)
    (shown,) = logs.describe_log_groups(logGroupNamePrefix="kept")["logGroups"]
    assert shown["kmsKeyId"] == own
    logs.create_log_group(logGroupName="other")
    found = refusal(logs.associate_kms_key, logGroupName="other", kmsKeyId=own)
    assert found == (*refused[:2], sentence.replace("kept", "other"))
    logs.disassociate_kms_key(logGroupName="kept")
    logs.associate_kms_key(logGroupName="kept", kmsKeyId=own)


def test_a_topic_asks_for_its_key(cloud: InProcessCloud, key: str):
    sns = cloud.client("sns")
    topic = sns.create_topic(Name="secret", Attributes={"KmsMasterKeyId": key})["TopicArn"]
    make_role(cloud, "publishes", allow("sns:*", "*"))
    publish = as_role(cloud, "publishes", "sns").publish
    code, _, sentence = refusal(publish, TopicArn=topic, Message="1")
    assert (code, "kms:GenerateDataKey" in sentence) == ("KMSAccessDenied", True)
    put_policy(cloud, "publishes", allow("sns:*", "*"), allow("kms:GenerateDataKey", key))
    assert "kms:Decrypt" in refusal(publish, TopicArn=topic, Message="1")[2]
    use = allow(["kms:GenerateDataKey*", "kms:Decrypt"], key)
    put_policy(cloud, "publishes", allow("sns:*", "*"), {**use, "Condition": via("sns")})
    assert publish(TopicArn=topic, Message="1")["MessageId"]


def test_a_topic_needs_the_key_of_a_queue_that_it_sends_to(cloud: InProcessCloud, key: str):
    """sns/latest/dg/sns-enable-encryption-for-topic-sqs-queue-subscriptions.html: the key's policy lets SNS."""
    sns, sqs, kms = cloud.client("sns"), cloud.client("sqs"), cloud.client("kms")
    topic = sns.create_topic(Name="to-secret")["TopicArn"]
    root = {**allow("kms:*", "*"), "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}}
    lets = {
        **allow(["kms:GenerateDataKey*", "kms:Decrypt"], "*"),
        "Principal": {"Service": "sns.amazonaws.com"},
        "Condition": {"ArnEquals": {"aws:SourceArn": topic}},
    }
    open_key = kms.create_key(Policy=json.dumps(statements(root, lets)))["KeyMetadata"]["Arn"]
    received: dict[str, int] = {}
    for name, own in (("closed", key), ("opened", open_key)):
        arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"
        sends = {**allow("sqs:SendMessage", arn), "Principal": {"Service": "sns.amazonaws.com"}}
        attributes = {"KmsMasterKeyId": own, "Policy": json.dumps(statements(sends))}
        url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
        sns.publish(TopicArn=topic, Message="1")
        received[name] = len(sqs.receive_message(QueueUrl=url).get("Messages", ()))
    assert received == {"closed": 0, "opened": 1}
