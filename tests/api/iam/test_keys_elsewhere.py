"""A KMS key is used in its own region alone, by every service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cloud import InProcessCloud
from tests.support.iam import ACCOUNT, refusal


@pytest.fixture
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("data") / "data") as cloud:
        yield cloud


def test_no_service_uses_a_key_of_another_region(cloud: InProcessCloud):
    key = cloud.client("kms", region="eu-west-1").create_key()["KeyMetadata"]["Arn"]
    own = cloud.client("kms").create_key()["KeyMetadata"]["Arn"]
    secrets, logs = cloud.client("secretsmanager"), cloud.client("logs")
    for absent in (key, own.replace(ACCOUNT, "222222222222"), f"{own[:-1]}z", "alias/none"):
        found = refusal(secrets.create_secret, Name="far", SecretString="1", KmsKeyId=absent)
        assert found[:2] == ("EncryptionFailure", 400)
    secrets.create_secret(Name="far", SecretString="1", KmsKeyId=own)
    secrets.create_secret(Name="managed", SecretString="1", KmsKeyId="alias/aws/secretsmanager")
    assert refusal(secrets.update_secret, SecretId="far", KmsKeyId=key)[0] == "EncryptionFailure"
    found = refusal(logs.create_log_group, logGroupName="far", kmsKeyId=key)
    assert found[0] == "AccessDeniedException"
    kinesis = cloud.client("kinesis")
    kinesis.create_stream(StreamName="far", ShardCount=1)
    start = kinesis.start_stream_encryption
    found = refusal(start, StreamName="far", EncryptionType="KMS", KeyId=key)
    assert found[0] == "KMSNotFoundException"
