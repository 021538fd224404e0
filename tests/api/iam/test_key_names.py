"""What KMS asks for beyond the key that a request names: the key of a text, a replica's Region, a key's state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cloud import InProcessCloud
from tests.support.iam import ACCOUNT, allow, as_role, make_role, refusal

ROOT = f"arn:aws:iam::{ACCOUNT}:root"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("keys"), iam="enforce") as cloud:
        yield cloud


def _key(cloud: InProcessCloud) -> str:
    return cloud.client("kms").create_key()["KeyMetadata"]["Arn"]


def _caller(cloud: InProcessCloud, name: str, *allowed: dict[str, Any]) -> Any:
    make_role(cloud, name, *allowed, trusts=ROOT)
    return as_role(cloud, name, "kms")


def test_decrypting_needs_the_permission_on_the_key_of_the_text(cloud: InProcessCloud):
    key, other = _key(cloud), _key(cloud)
    secret = cloud.client("kms").encrypt(KeyId=key, Plaintext=b"x")["CiphertextBlob"]
    stranger = _caller(cloud, "stranger", allow("kms:*", other))
    code, _, sentence = refusal(stranger.decrypt, CiphertextBlob=secret)
    assert code == "AccessDeniedException"
    assert f"is not authorized to perform: kms:Decrypt on resource: {key}" in sentence
    assert refusal(stranger.decrypt, CiphertextBlob=b"no such text")[0] == "AccessDeniedException"
    reader = _caller(cloud, "reader", allow("kms:Decrypt", key))
    assert reader.decrypt(CiphertextBlob=secret)["Plaintext"] == b"x"


def test_encrypting_anew_needs_the_permission_on_the_key_of_the_text(cloud: InProcessCloud):
    key, other = _key(cloud), _key(cloud)
    secret = cloud.client("kms").encrypt(KeyId=key, Plaintext=b"x")["CiphertextBlob"]
    stranger = _caller(cloud, "renewer", allow("kms:*", other))
    renew = {"CiphertextBlob": secret, "DestinationKeyId": other}
    assert f"kms:ReEncryptFrom on resource: {key}" in refusal(stranger.re_encrypt, **renew)[2]
    of_both = _caller(cloud, "of-both", allow("kms:ReEncrypt*", [key, other]))
    assert of_both.re_encrypt(**renew)["KeyId"] == other


def test_each_side_of_encrypting_anew_has_its_own_context(cloud: InProcessCloud):
    key = _key(cloud)
    context = {"from": "a"}
    plain = {"KeyId": key, "Plaintext": b"x", "EncryptionContext": context}
    secret = cloud.client("kms").encrypt(**plain)["CiphertextBlob"]
    of_context = {"StringEquals": {"kms:EncryptionContext:from": "a"}}
    denied = {**allow("kms:ReEncryptFrom", key), "Effect": "Deny", "Condition": of_context}
    caller = _caller(cloud, "of-context", allow("kms:*", key), denied)
    renew = {"CiphertextBlob": secret, "DestinationKeyId": key, "SourceEncryptionContext": context}
    assert "explicit deny" in refusal(caller.re_encrypt, **renew)[2]


def test_a_replica_needs_the_permissions_to_replicate_and_to_make_keys(cloud: InProcessCloud):
    key = cloud.client("kms").create_key(MultiRegion=True)["KeyMetadata"]["Arn"]
    replicate = {"KeyId": key, "ReplicaRegion": "eu-west-1"}
    caller = _caller(cloud, "half", allow("kms:ReplicateKey", key))
    assert "kms:CreateKey" in refusal(caller.replicate_key, **replicate)[2]
    caller = _caller(cloud, "whole", allow("kms:ReplicateKey", key), allow("kms:CreateKey", "*"))
    assert caller.replicate_key(**replicate)["ReplicaKeyMetadata"]["MultiRegion"]


def test_s3_does_not_encrypt_with_a_key_that_waits_for_its_material(cloud: InProcessCloud):
    key = cloud.client("kms").create_key(Origin="EXTERNAL")["KeyMetadata"]["Arn"]
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket="vault")
    sealed = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key}
    code, _, sentence = refusal(s3.put_object, Bucket="vault", Key="k", Body=b"x", **sealed)
    assert (code, sentence) == ("KMS.KMSInvalidStateException", f"{key} is pending import.")
