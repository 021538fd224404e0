"""KMS's keys: what they encrypt and sign, and what a key that is disabled, or waits for its deletion, refuses."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from botocore.exceptions import ClientError
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_public_key

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


def test_a_replica_is_none_of_the_primary_and_every_region_knows_them_all(kms: Any) -> None:
    primary = _key(kms, MultiRegion=True)
    for region in ("eu-west-1", "eu-west-2"):
        kms.replicate_key(KeyId=primary, ReplicaRegion=region, Description=region)
    with pytest.raises(ClientError, match="AlreadyExistsException"):
        kms.replicate_key(KeyId=primary, ReplicaRegion="eu-west-2")
    shown = kms.describe_key(KeyId=primary)["KeyMetadata"]
    assert (shown["Description"], shown["MultiRegionConfiguration"]["MultiRegionKeyType"]) == (
        "",
        "PRIMARY",
    )
    replicas = [one["Region"] for one in shown["MultiRegionConfiguration"]["ReplicaKeys"]]
    assert replicas == ["eu-west-1", "eu-west-2"]


@pytest.mark.parametrize("length", [1, 12, 1024])
def test_random_bytes_are_as_many_as_asked_for(kms: Any, length: int) -> None:
    assert len(kms.generate_random(NumberOfBytes=length)["Plaintext"]) == length


def test_what_was_encrypted_with_a_public_key_is_decrypted(kms: Any) -> None:
    key = _key(kms, KeySpec="RSA_2048", KeyUsage="ENCRYPT_DECRYPT")
    public: Any = load_der_public_key(kms.get_public_key(KeyId=key)["PublicKey"])
    algorithm = "RSAES_OAEP_SHA_256"
    blob = public.encrypt(b"x", OAEP(MGF1(SHA256()), SHA256(), None))
    named = {"KeyId": key, "EncryptionAlgorithm": algorithm}
    assert kms.decrypt(CiphertextBlob=blob, **named)["Plaintext"] == b"x"
    assert (
        _refusal(kms.decrypt, CiphertextBlob=b"x" * 256, **named)[0] == "InvalidCiphertextException"
    )
    assert _refusal(kms.encrypt, KeyId=key, Plaintext=b"x") == (
        "InvalidKeyUsageException",
        "Algorithm SYMMETRIC_DEFAULT is incompatible with key spec RSA_2048.",
    )


def test_a_text_is_decrypted_by_its_own_algorithm(kms: Any) -> None:
    key = kms.create_key()["KeyMetadata"]["KeyId"]
    blob = kms.encrypt(KeyId=key, Plaintext=b"x")["CiphertextBlob"]
    for named in ({}, {"KeyId": key}):
        with pytest.raises(ClientError, match=r"InvalidKeyUsageException.*is incompatible"):
            kms.decrypt(CiphertextBlob=blob, EncryptionAlgorithm="RSAES_OAEP_SHA_256", **named)


def test_encrypted_again_for_another_key(kms: Any) -> None:
    key, other = _key(kms), _key(kms, KeySpec="RSA_2048", KeyUsage="ENCRYPT_DECRYPT")
    blob = kms.encrypt(KeyId=key, Plaintext=b"x")["CiphertextBlob"]
    to = {"DestinationKeyId": other, "DestinationEncryptionAlgorithm": "RSAES_OAEP_SHA_1"}
    answer = kms.re_encrypt(CiphertextBlob=blob, **to)
    named = {"KeyId": other, "EncryptionAlgorithm": "RSAES_OAEP_SHA_1"}
    assert kms.decrypt(CiphertextBlob=answer["CiphertextBlob"], **named)["Plaintext"] == b"x"
    assert "DestinationKeyMaterialId" not in answer
    signing = _key(kms, KeySpec="ECC_NIST_P256", KeyUsage="SIGN_VERIFY")
    code, _ = _refusal(kms.re_encrypt, CiphertextBlob=blob, DestinationKeyId=signing)
    assert code == "InvalidKeyUsageException"


def test_a_digest_is_signed_as_its_message_is(kms: Any) -> None:
    for spec, algorithm in (("ECC_NIST_P256", "ECDSA_SHA_256"), ("RSA_2048", "RSASSA_PSS_SHA_256")):
        key = _key(kms, KeySpec=spec, KeyUsage="SIGN_VERIFY")
        named = {"KeyId": key, "SigningAlgorithm": algorithm}
        digest = {"Message": sha256(b"m").digest(), "MessageType": "DIGEST"}
        signature = kms.sign(**named, **digest)["Signature"]
        assert kms.verify(**named, Message=b"m", Signature=signature)["SignatureValid"]


def test_a_trial_does_nothing(kms: Any) -> None:
    key = _key(kms)
    code, _ = _refusal(kms.encrypt, KeyId=key, Plaintext=b"x", DryRun=True)
    assert code == "DryRunOperationException"
    code, _ = _refusal(
        kms.generate_data_key_pair, KeyId=key, KeyPairSpec="ECC_NIST_P256", DryRun=True
    )
    assert code == "DryRunOperationException"


def test_a_key_without_material_is_not_used(kms: Any) -> None:
    key = _key(kms, Origin="EXTERNAL")
    shown = kms.describe_key(KeyId=key)["KeyMetadata"]
    assert (shown["KeyState"], shown["Enabled"]) == ("PendingImport", False)
    code, sentence = _refusal(kms.encrypt, KeyId=key, Plaintext=b"x")
    assert (code, sentence) == ("KMSInvalidStateException", f"{shown['Arn']} is pending import.")
    assert _refusal(kms.enable_key, KeyId=key)[0] == "KMSInvalidStateException"


@pytest.mark.parametrize(
    ("spec", "usage"), [("RSA_2048", "KEY_AGREEMENT"), ("HMAC_256", "SIGN_VERIFY")]
)
def test_a_key_is_only_for_what_its_spec_can_do(kms: Any, spec: str, usage: str) -> None:
    assert _refusal(kms.create_key, KeySpec=spec, KeyUsage=usage)[0] == "ValidationException"


def test_a_replica_is_of_another_region_and_shares_no_grants_and_no_aliases(tmp_path: Path) -> None:
    with MotoLab(tmp_path / "moto") as lab:
        kms, there = lab.client("kms"), lab.client("kms", region="eu-west-1")
        primary = _key(kms, MultiRegion=True)
        code, _ = _refusal(kms.replicate_key, KeyId=primary, ReplicaRegion="us-east-1")
        assert code == "AlreadyExistsException"
        grant = {"GranteePrincipal": "arn:aws:iam::000000000000:root", "Operations": ["Encrypt"]}
        kms.create_grant(KeyId=primary, **grant)
        kms.create_alias(AliasName="alias/here", TargetKeyId=primary)
        kms.replicate_key(KeyId=primary, ReplicaRegion="eu-west-1")
        assert there.list_grants(KeyId=primary)["Grants"] == []
        assert _refusal(there.encrypt, KeyId="alias/here", Plaintext=b"x")[0] == "NotFoundException"
        there.create_alias(AliasName="alias/there", TargetKeyId=primary)
        assert _refusal(kms.encrypt, KeyId="alias/there", Plaintext=b"x")[0] == "NotFoundException"


def test_a_replicas_policy_is_checked(kms: Any) -> None:
    primary = _key(kms, MultiRegion=True)
    replicate = {"KeyId": primary, "ReplicaRegion": "eu-west-1", "Policy": "no policy"}
    assert _refusal(kms.replicate_key, **replicate)[0] == "MalformedPolicyDocumentException"


@pytest.mark.parametrize(
    "form",
    [
        "arn:aws:kms:us-east-1:000000000000:x/:key/{}",
        "arn:aws:kms:us-east-1:000000000000:key/{}:key/other",
        "arn:aws:kms:us-east-1:000000000000:alias/mine:alias/other",
        "arn:aws-cn:kms:us-east-1:000000000000:key/{}",
        "arn:aws:kms:us-east-1:111111111111:key/{}",
        "arn:aws:kms:us-east-1:111111111111:alias/mine",
        "arn:aws:kms:eu-west-1:000000000000:alias/mine",
    ],
)
def test_a_key_is_not_found_by_another_arn(kms: Any, form: str) -> None:
    key = _key(kms)
    kms.create_alias(AliasName="alias/mine", TargetKeyId=key)
    name = form.format(key)
    secret = kms.encrypt(KeyId=key, Plaintext=b"x")["CiphertextBlob"]
    grant = {"GranteePrincipal": "arn:aws:iam::000000000000:root", "Operations": ["Encrypt"]}
    refusals = [
        _refusal(kms.encrypt, KeyId=name, Plaintext=b"x"),
        _refusal(kms.decrypt, KeyId=name, CiphertextBlob=secret),
        _refusal(kms.re_encrypt, CiphertextBlob=secret, DestinationKeyId=name),
        _refusal(kms.create_grant, KeyId=name, **grant),
        _refusal(kms.schedule_key_deletion, KeyId=name),
        _refusal(kms.update_alias, AliasName="alias/mine", TargetKeyId=name),
    ]
    assert {code for code, _ in refusals} == {"NotFoundException"}


@pytest.mark.parametrize("pair", [True, False])
def test_other_requests_pass_while_prime_numbers_are_looked_for(
    kms: Any, monkeypatch: pytest.MonkeyPatch, *, pair: bool
) -> None:
    from moto.kms import utils

    key, make, passed = _key(kms), utils.generate_private_key, list[str]()

    def make_slowly(spec: str) -> Any:
        other = Thread(target=lambda: passed.append(_key(kms)))
        other.start()
        other.join(timeout=30)
        return make(spec)

    monkeypatch.setattr(utils, "generate_private_key", make_slowly)
    if pair:
        kms.generate_data_key_pair(KeyId=key, KeyPairSpec="ECC_NIST_P256")
        assert passed
    else:
        first, second = (_key(kms, KeySpec="RSA_2048", KeyUsage="SIGN_VERIFY") for _ in range(2))
        assert len(passed) == 2
        assert (
            kms.get_public_key(KeyId=first)["PublicKey"]
            != kms.get_public_key(KeyId=second)["PublicKey"]
        )


def test_pairs_that_are_not_made_are_refused(kms: Any) -> None:
    code, _ = _refusal(kms.generate_data_key_pair, KeyId=_key(kms), KeyPairSpec="SM2")
    assert code == "UnsupportedOperationException"


def test_keys_of_several_regions_that_earlier_versions_made_decrypt_and_replicate(
    kms: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their ids had four characters more than the texts have room for, and one type for all Regions."""
    from moto.kms import models

    long_id = "mrk-4442985a-9464-4560-89a2-03389f8ca3d5"
    monkeypatch.setattr(models, "generate_key_id", lambda multi_region=False: long_id)
    key = _key(kms, MultiRegion=True)
    stored: Any = models.kms_backends["000000000000"]["us-east-1"].keys[key]
    stored.multi_region_configuration["MultiRegionKeyType"] = "REPLICA"
    secret = kms.encrypt(KeyId=key, Plaintext=b"x")["CiphertextBlob"]
    assert kms.decrypt(CiphertextBlob=secret)["Plaintext"] == b"x"
    kms.replicate_key(KeyId=key, ReplicaRegion="eu-west-1")
    shown = kms.describe_key(KeyId=key)["KeyMetadata"]["MultiRegionConfiguration"]
    assert shown["MultiRegionKeyType"] == "PRIMARY"


def test_what_waited_for_its_deletion_is_gone_when_that_has_come(tmp_path: Path) -> None:
    day_s = 24 * 3600
    with MotoLab(tmp_path / "moto") as lab:
        kms, secrets = lab.client("kms"), lab.client("secretsmanager")
        key = _key(kms)
        kms.create_alias(AliasName="alias/a", TargetKeyId=key)
        kms.schedule_key_deletion(KeyId=key, PendingWindowInDays=7)
        secrets.create_secret(Name="s", SecretString="old")
        secrets.delete_secret(SecretId="s", RecoveryWindowInDays=7)
        lab.clock.advance(7 * day_s - 60)
        assert kms.describe_key(KeyId=key)["KeyMetadata"]["KeyState"] == "PendingDeletion"
        assert _refusal(secrets.create_secret, Name="s")[0] == "InvalidRequestException"
        lab.clock.advance(120)
        assert _refusal(kms.cancel_key_deletion, KeyId=key)[0] == "NotFoundException"
        assert _refusal(secrets.restore_secret, SecretId="s")[0] == "ResourceNotFoundException"
        kms.create_alias(AliasName="alias/a", TargetKeyId=_key(kms))
        secrets.create_secret(Name="s", SecretString="new")
        assert secrets.get_secret_value(SecretId="s")["SecretString"] == "new"


def test_aliases_have_dates_and_those_that_aws_has_not_used_no_key(tmp_path: Path) -> None:
    with MotoLab(tmp_path / "moto") as lab:
        kms = lab.client("kms")
        first, second = _key(kms), _key(kms)
        kms.create_alias(AliasName="alias/mine", TargetKeyId=first)
        made = lab.clock.now_ms() // 1000
        lab.clock.advance(60)
        kms.update_alias(AliasName="alias/mine", TargetKeyId=second)
        lab.restart()
        kms = lab.client("kms")
        used = kms.describe_key(KeyId="alias/aws/s3")["KeyMetadata"]["KeyId"]
        shown = {alias["AliasName"]: alias for alias in kms.list_aliases()["Aliases"]}
        mine = shown["alias/mine"]
        assert mine["TargetKeyId"] == second
        assert int(mine["CreationDate"].timestamp()) == made
        assert int(mine["LastUpdatedDate"].timestamp()) == made + 60
        assert shown["alias/aws/s3"]["TargetKeyId"] == used
        assert "CreationDate" in shown["alias/aws/s3"]
        assert {*shown["alias/aws/ebs"]} == {"AliasName", "AliasArn"}
