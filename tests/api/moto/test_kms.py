"""KMS's keys: what a key that is disabled, or waits for its deletion, refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.moto_lab import MotoLab


@pytest.fixture
def kms(tmp_path: Path) -> Iterator[Any]:
    with MotoLab(tmp_path / "moto") as lab:
        yield lab.client("kms")


def _key(kms: Any, **more: Any) -> str:
    return kms.create_key(**more)["KeyMetadata"]["KeyId"]


def _refusal(call: Any, **params: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as refusal:
        call(**params)
    error: Any = refusal.value.response.get("Error")
    return error["Code"], error["Message"]


def test_a_disabled_key_encrypts_and_decrypts_nothing(kms: Any) -> None:
    key = _key(kms)
    kms.create_alias(AliasName="alias/k", TargetKeyId=key)
    secret = kms.encrypt(KeyId=key, Plaintext=b"x")["CiphertextBlob"]
    kms.disable_key(KeyId=key)
    said = ("DisabledException", f"arn:aws:kms:us-east-1:000000000000:key/{key} is disabled.")
    assert _refusal(kms.encrypt, KeyId="alias/k", Plaintext=b"x") == said
    assert _refusal(kms.decrypt, CiphertextBlob=secret) == said
    assert _refusal(kms.generate_data_key, KeyId=key, KeySpec="AES_256") == said
    assert _refusal(kms.re_encrypt, CiphertextBlob=secret, DestinationKeyId=_key(kms)) == said
    kms.enable_key(KeyId=key)
    assert kms.decrypt(CiphertextBlob=secret)["Plaintext"] == b"x"


def test_a_key_that_waits_for_its_deletion_is_not_used_until_that_is_cancelled(kms: Any) -> None:
    key = _key(kms)
    secret = kms.encrypt(KeyId=key, Plaintext=b"x")["CiphertextBlob"]
    kms.schedule_key_deletion(KeyId=key, PendingWindowInDays=7)
    code, sentence = _refusal(kms.decrypt, CiphertextBlob=secret)
    assert (code, sentence.split("/")[1]) == (
        "KMSInvalidStateException",
        f"{key} is pending deletion.",
    )
    kms.cancel_key_deletion(KeyId=key)
    assert _refusal(kms.decrypt, CiphertextBlob=secret)[0] == "DisabledException"


def test_a_disabled_key_signs_and_authenticates_nothing(kms: Any) -> None:
    signing = _key(kms, KeyUsage="SIGN_VERIFY", KeySpec="ECC_NIST_P256")
    algorithm = {"SigningAlgorithm": "ECDSA_SHA_256", "Message": b"m"}
    signature = kms.sign(KeyId=signing, **algorithm)["Signature"]
    mac = _key(kms, KeyUsage="GENERATE_VERIFY_MAC", KeySpec="HMAC_256")
    for key in (signing, mac):
        kms.disable_key(KeyId=key)
    refusals = [
        _refusal(kms.sign, KeyId=signing, **algorithm),
        _refusal(kms.verify, KeyId=signing, Signature=signature, **algorithm),
        _refusal(kms.generate_mac, KeyId=mac, Message=b"m", MacAlgorithm="HMAC_SHA_256"),
    ]
    assert {code for code, _ in refusals} == {"DisabledException"}


def test_a_key_of_one_region_is_not_replicated(kms: Any) -> None:
    code, _ = _refusal(kms.replicate_key, KeyId=_key(kms), ReplicaRegion="eu-west-1")
    assert code == "UnsupportedOperationException"
    primary = _key(kms, MultiRegion=True)
    replica = kms.replicate_key(KeyId=primary, ReplicaRegion="eu-west-1")
    assert replica["ReplicaKeyMetadata"]["Arn"].split(":")[3] == "eu-west-1"
