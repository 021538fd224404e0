"""Server-side encryption by a customer's key: it must be one that can be used, at the start and at each put."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import InProcessCloud
from tests.support.server import wait_until

DESTINATION = {
    "RoleARN": "arn:aws:iam::000000000000:role/r",
    "BucketARN": "arn:aws:s3:::lake",
}
NO_KEY = "arn:aws:kms:us-east-1:000000000000:key/11111111-1111-1111-1111-111111111111"
ELSEWHERE = "arn:aws:kms:us-west-2:000000000000:key/11111111-1111-1111-1111-111111111111"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("encryption") / "data") as running:
        running.client("s3").create_bucket(Bucket="lake")
        yield running


def customers(key_arn: str) -> dict[str, str]:
    return {"KeyType": "CUSTOMER_MANAGED_CMK", "KeyARN": key_arn}


def refused(call: Any, **params: Any) -> tuple[str, str, str]:
    with pytest.raises(ClientError) as caught:
        call(DeliveryStreamName="d", **params)
    answer: Any = caught.value.response
    return answer["Error"]["Code"], answer.get("code", ""), answer["Error"]["Message"]


def test_a_key_that_cannot_be_used_is_refused(firehose: Any, cloud: InProcessCloud):
    # Documented: API_StartDeliveryStreamEncryption, API_PutRecord; sentences are KMS' own (assumed).
    missing = "InvalidKMSResourceException", "NotFoundException", f"Key '{NO_KEY}' does not exist"
    make: dict[str, Any] = {"ExtendedS3DestinationConfiguration": DESTINATION}
    given = {"DeliveryStreamEncryptionConfigurationInput": customers(NO_KEY)}
    assert refused(firehose.create_delivery_stream, **make, **given) == missing
    assert firehose.list_delivery_streams()["DeliveryStreamNames"] == []

    firehose.create_delivery_stream(DeliveryStreamName="d", **make)
    start, stop = (
        firehose.start_delivery_stream_encryption,
        firehose.stop_delivery_stream_encryption,
    )
    assert refused(start, **given) == missing
    given = {"DeliveryStreamEncryptionConfigurationInput": customers(ELSEWHERE)}
    assert refused(start, **given)[0] == "InvalidKMSResourceException"
    found = firehose.describe_delivery_stream(DeliveryStreamName="d")["DeliveryStreamDescription"]
    assert found["DeliveryStreamEncryptionConfiguration"] == {"Status": "DISABLED"}

    kms = cloud.client("kms")
    key = kms.create_key()["KeyMetadata"]["Arn"]
    given = {"DeliveryStreamEncryptionConfigurationInput": customers(key)}
    start(DeliveryStreamName="d", **given)
    one, several = {"Record": {"Data": b"x"}}, {"Records": [{"Data": b"x"}]}
    assert firehose.put_record(DeliveryStreamName="d", **one)["Encrypted"] is True
    kms.disable_key(KeyId=key)
    disabled = "InvalidKMSResourceException", "DisabledException", f"{key} is disabled."
    assert refused(firehose.put_record, **one) == disabled
    assert refused(firehose.put_record_batch, **several) == disabled
    assert refused(start, **given) == disabled
    kms.enable_key(KeyId=key)
    assert firehose.put_record_batch(DeliveryStreamName="d", **several)["FailedPutCount"] == 0
    kms.schedule_key_deletion(KeyId=key, PendingWindowInDays=7)
    assert refused(firehose.put_record, **one)[1] == "InvalidStateException"
    stop(DeliveryStreamName="d")
    assert firehose.put_record(DeliveryStreamName="d", **one)["Encrypted"] is False


def test_objects_are_encrypted_by_the_key_of_the_configuration(
    firehose: Any, cloud: InProcessCloud
):
    kms, s3, logs = cloud.client("kms"), cloud.client("s3"), cloud.client("logs")
    key = kms.create_key()["KeyMetadata"]["Arn"]
    logs.create_log_group(logGroupName="g")
    logs.create_log_stream(logGroupName="g", logStreamName="s")
    kms.disable_key(KeyId=key)
    firehose.create_delivery_stream(
        DeliveryStreamName="d",
        ExtendedS3DestinationConfiguration={
            **DESTINATION,
            "Prefix": "encrypted/",
            "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 0},
            "EncryptionConfiguration": {"KMSEncryptionConfig": {"AWSKMSKeyARN": key}},
            "CloudWatchLoggingOptions": {
                "Enabled": True,
                "LogGroupName": "g",
                "LogStreamName": "s",
            },
        },
    )
    firehose.put_record(DeliveryStreamName="d", Record={"Data": b"x"})
    wait_until(lambda: logs.get_log_events(logGroupName="g", logStreamName="s")["events"])
    event = json.loads(
        logs.get_log_events(logGroupName="g", logStreamName="s")["events"][0]["message"]
    )
    # The code is documented for a key that is missing; for a disabled one it is assumed.
    assert event["errorCode"] == "S3.KMS.DisabledException"
    assert s3.list_objects_v2(Bucket="lake", Prefix="encrypted/")["KeyCount"] == 0
    kms.enable_key(KeyId=key)
    wait_until(lambda: s3.list_objects_v2(Bucket="lake", Prefix="encrypted/")["KeyCount"])
    name = s3.list_objects_v2(Bucket="lake", Prefix="encrypted/")["Contents"][0]["Key"]
    head = s3.head_object(Bucket="lake", Key=name)
    assert (head["ServerSideEncryption"], head["SSEKMSKeyId"]) == ("aws:kms", key)


def test_a_key_may_be_another_accounts(firehose: Any, cloud: InProcessCloud):
    key = cloud.client("kms", account="111111111111").create_key()["KeyMetadata"]["Arn"]
    put = cloud.client("s3").put_object
    made = put(Bucket="lake", Key="k", Body=b"", ServerSideEncryption="aws:kms", SSEKMSKeyId=key)
    assert made["SSEKMSKeyId"] == key
    firehose.create_delivery_stream(
        DeliveryStreamName="d",
        ExtendedS3DestinationConfiguration=DESTINATION,
        DeliveryStreamEncryptionConfigurationInput=customers(key),
    )
    assert firehose.put_record(DeliveryStreamName="d", Record={"Data": b"x"})["Encrypted"] is True
