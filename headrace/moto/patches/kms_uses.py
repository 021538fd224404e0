"""KMS: what is encrypted, signed and authenticated with a key, and what of it AWS refuses.

The codes and the sentences are AWS's recorded answers, where no comment says something else.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import base64
import functools
import hmac
import json
import re
from datetime import UTC
from typing import Any

from headrace.aws.calls.errors import AwsError, validation_error
from headrace.moto.current_cloud import CURRENT
from headrace.moto.patches.kms import algorithms_of, check_usable, material_of, usage_of
from headrace.moto.storage.changes import MOTO_LOCK

_SYMMETRIC = "SYMMETRIC_DEFAULT"
_KEY_ID = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|mrk-[0-9a-f-]{32,36}", re.IGNORECASE
)


def answer_uses(module: Any) -> None:
    """Answer what uses keys as AWS does: moto knows no algorithms, digests, pairs of data keys and trials."""
    response = module.KmsResponse
    response._validate_cmk_id = _check_key_id
    response._get_param = _with_own_arns(response._get_param)
    for method in (
        encrypt, decrypt, re_encrypt, sign, verify, generate_mac, verify_mac, get_public_key,
        generate_data_key, generate_data_key_without_plaintext, generate_data_key_pair,
        generate_data_key_pair_without_plaintext, generate_random, replicate_key,
    ):  # fmt: skip
        setattr(response, method.__name__, method)
    response.kms_backend = property(_without_deleted(response.kms_backend.fget))
    set_alias = response._set_alias

    def check_prefix_and_set(self: Any, update: bool = False) -> str:
        if not str(self._get_param("AliasName")).startswith("alias/"):
            raise validation_error(
                'Alias must start with the prefix "alias/". Please see '
                "https://docs.aws.amazon.com/kms/latest/developerguide/kms-alias.html"
            )
        return set_alias(self, update)

    response._set_alias = check_prefix_and_set


def _without_deleted(find: Any) -> Any:
    """Let go of the keys whose waiting period has ended, before any request finds them: moto keeps them for ever."""

    def backend_of(self: Any) -> Any:
        backend, now_ms = find(self), CURRENT.clock.now_ms()
        with MOTO_LOCK:
            for key in list(backend.keys.values()):
                ends = key.deletion_date if key.key_state == "PendingDeletion" else None
                if ends is not None and ends.replace(tzinfo=UTC).timestamp() * 1000 <= now_ms:
                    del backend.keys[key.id]
                    backend.tagger.delete_all_tags_for_resource(key.id)
        return backend

    return backend_of


_NAMES = frozenset({"KeyId", "TargetKeyId", "SourceKeyId", "DestinationKeyId"})
_ARN = re.compile(r"(arn:[a-z-]+:kms):([^:]*):([^:]*):(key|alias)/[^:]+")


def _with_own_arns(get_param: Any) -> Any:
    """Refuse the ARN of no key and no alias of this account and Region, whatever the request is.

    moto reads of an ARN only what follows `:key/`, and permissions are asked for the whole ARN.
    """

    @functools.wraps(get_param)
    def own_param(self: Any, name: str, default: Any = None) -> Any:
        value = get_param(self, name, default)
        if name in _NAMES and isinstance(value, str) and value.startswith("arn:"):
            _check_arn(self, value)
        return value

    return own_param


def _check_arn(self: Any, arn: str) -> None:
    found = _ARN.fullmatch(arn)
    if found is None:
        raise AwsError("NotFoundException", f"Invalid keyId '{arn}'")  # assumed
    service, region, account, kind = found.groups()
    if region != self.region:
        raise AwsError("NotFoundException", f"Invalid arn {region}")
    if (service, account) != (f"arn:{self.partition}:kms", self.current_account):
        absent = f"Key '{arn}' does not exist" if kind == "key" else f"Alias {arn} is not found."
        raise AwsError("NotFoundException", absent)


def _check_key_id(self: Any, key_id: str) -> None:
    if key_id.startswith("arn:"):
        if ":key/" not in key_id:
            raise AwsError("NotFoundException", f"Invalid keyId '{key_id}'")
    elif not _KEY_ID.fullmatch(key_id):
        raise AwsError("NotFoundException", f"Invalid keyId '{key_id}'")
    if self.kms_backend.get_key_id(key_id) not in self.kms_backend.keys:
        raise AwsError("NotFoundException", f"Key '{self._display_arn(key_id)}' does not exist")


# --- which key, and whether it may be used so ---------------------------------------------------


def _find_usable(self: Any, key_id: Any) -> Any:
    """Return a key. Raises AwsError when there is none, or when nobody may use it now."""
    self._validate_key_id(key_id)
    key = self.kms_backend.describe_key(key_id)
    check_usable(key)
    return key


def _key_for(self: Any, usage: str, operation: str, member: str = "KeyId") -> Any:
    """Return the key that a request names. Raises AwsError when it cannot be used so, now or at all."""
    key = _find_usable(self, self._get_param(member))
    if usage_of(key) != usage:
        raise AwsError(
            "InvalidKeyUsageException",
            f"{key.arn} key usage is {usage_of(key)} which is not valid for {operation}.",
        )
    return key


def _check_algorithm(key: Any, algorithm: str) -> None:
    if algorithm not in algorithms_of(key):
        raise AwsError(
            "InvalidKeyUsageException",
            f"Algorithm {algorithm} is incompatible with key spec {key.key_spec}.",
        )


def _end_trial(self: Any) -> None:
    """Raise what AWS answers to a request with DryRun that it would have done (documented)."""
    if self._get_param("DryRun"):
        raise AwsError(
            "DryRunOperationException",
            "The request would have succeeded, but the DryRun option is set.",
        )


def _wordless(code: str) -> Exception:
    """Return the error of an answer that has a code only."""
    from moto.core.exceptions import JsonRESTError

    error = JsonRESTError(code, "")
    error.description = json.dumps({"__type": code})
    return error


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _with_material(answer: dict[str, Any], key: Any, name: str = "KeyMaterialId") -> dict[str, Any]:
    material = material_of(key)
    return {**answer, **({name: material} if material else {})}


# --- encrypting ---------------------------------------------------------------------------------


def _padding(algorithm: str) -> Any:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    digest = hashes.SHA1() if algorithm.endswith("SHA_1") else hashes.SHA256()
    return padding.OAEP(padding.MGF1(digest), digest, None)


def _encrypt(self: Any, key: Any, plaintext: bytes, algorithm: str, context: Any) -> bytes:
    _check_algorithm(key, algorithm)
    if algorithm == _SYMMETRIC:
        return self.kms_backend.encrypt(key.id, plaintext, context)[0]
    # What the padding takes: two digests and two bytes.
    most = key.private_key.key_size // 8 - (42 if algorithm.endswith("SHA_1") else 66)
    if len(plaintext) > most:
        raise validation_error(
            f"Algorithm {algorithm} and key spec {key.key_spec} cannot encrypt data larger than {most} bytes."
        )
    return key.private_key.private_key.public_key().encrypt(plaintext, _padding(algorithm))


def _decrypt(self: Any, key: Any, blob: bytes, algorithm: str, context: Any) -> tuple[bytes, Any]:
    """Return what a ciphertext says, and its key, which is `key` if there is one."""
    backend = self.kms_backend
    # Before this version moto encrypted with the symmetric algorithm for every key; its texts name the key.
    if key is None or algorithm == _SYMMETRIC or blob.startswith(key.id.encode()):
        plaintext, arn = backend.decrypt(blob, context, None)
        used = backend.describe_key(arn)
        if key is not None and key.id != used.id:
            raise AwsError(
                "IncorrectKeyException",
                "The key ID in the request does not identify a CMK that can perform this operation.",
            )
        if used.key_spec == _SYMMETRIC:
            _check_algorithm(used, algorithm)
        return plaintext, used
    _check_algorithm(key, algorithm)
    try:
        return key.private_key.private_key.decrypt(blob, _padding(algorithm)), key
    except ValueError:
        raise _wordless("InvalidCiphertextException") from None


def encrypt(self: Any) -> str:
    """Answer Encrypt."""
    key = _key_for(self, "ENCRYPT_DECRYPT", "Encrypt")
    algorithm = self._get_param("EncryptionAlgorithm", _SYMMETRIC)
    context = self._get_param("EncryptionContext", {})
    blob = _encrypt(self, key, self._get_param("Plaintext"), algorithm, context)
    _end_trial(self)
    answer = {
        "CiphertextBlob": _text(blob),
        "EncryptionAlgorithm": algorithm,
        "KeyId": key.arn,
    }
    return json.dumps(answer)


def decrypt(self: Any) -> str:
    """Answer Decrypt."""
    key_id = self._get_param("KeyId")
    key = _find_usable(self, key_id) if key_id else None
    algorithm = self._get_param("EncryptionAlgorithm", _SYMMETRIC)
    context = self._get_param("EncryptionContext", {})
    plaintext, used = _decrypt(self, key, self._get_param("CiphertextBlob"), algorithm, context)
    _end_trial(self)
    answer = {
        "EncryptionAlgorithm": algorithm,
        "KeyId": used.arn,
        "Plaintext": _text(plaintext),
    }
    return json.dumps(_with_material(answer, used))


def re_encrypt(self: Any) -> str:
    """Answer ReEncrypt."""
    source_id = self._get_param("SourceKeyId")
    source = _find_usable(self, source_id) if source_id else None
    before = self._get_param("SourceEncryptionAlgorithm", _SYMMETRIC)
    context = self._get_param("SourceEncryptionContext", {})
    plaintext, source = _decrypt(self, source, self._get_param("CiphertextBlob"), before, context)
    # The operation's name is told by a comment of LocalStack's tests, which AWS was asked with.
    key = _key_for(self, "ENCRYPT_DECRYPT", "ReEncryptTo", "DestinationKeyId")
    after = self._get_param("DestinationEncryptionAlgorithm", _SYMMETRIC)
    context = self._get_param("DestinationEncryptionContext", {})
    blob = _encrypt(self, key, plaintext, after, context)
    _end_trial(self)
    answer = {
        "CiphertextBlob": _text(blob),
        "DestinationEncryptionAlgorithm": after,
        "KeyId": key.arn,
        "SourceEncryptionAlgorithm": before,
        "SourceKeyId": source.arn,
    }
    answer = _with_material(answer, source, "SourceKeyMaterialId")
    return json.dumps(_with_material(answer, key, "DestinationKeyMaterialId"))


# --- data keys ----------------------------------------------------------------------------------


def generate_data_key(self: Any, *, shows: bool = True) -> str:
    """Answer GenerateDataKey."""
    operation = "GenerateDataKey" if shows else "GenerateDataKeyWithoutPlaintext"
    key = _key_for(self, "ENCRYPT_DECRYPT", operation)
    length, spec = self._get_param("NumberOfBytes"), self._get_param("KeySpec")
    if bool(length) == bool(spec):
        raise validation_error("Please specify either number of bytes or key spec.")
    context = self._get_param("EncryptionContext", {})
    plaintext, blob, _ = self.kms_backend.generate_data_key(
        key_id=key.id, encryption_context=context, number_of_bytes=length, key_spec=spec
    )
    _end_trial(self)
    answer = {"CiphertextBlob": _text(blob), "KeyId": key.arn}
    if shows:
        answer["Plaintext"] = _text(plaintext)
    return json.dumps(_with_material(answer, key))


def generate_data_key_without_plaintext(self: Any) -> str:
    """Answer GenerateDataKeyWithoutPlaintext."""
    return generate_data_key(self, shows=False)


_PAIRS = ("RSA_2048", "RSA_3072", "RSA_4096", *(f"ECC_{name}" for name in (
    "NIST_P256", "NIST_P384", "NIST_P521", "SECG_P256K1")))  # fmt: skip


def generate_data_key_pair(self: Any, *, shows: bool = True) -> str:
    """Answer GenerateDataKeyPair."""
    from cryptography.hazmat.primitives import serialization
    from moto.kms.utils import generate_private_key

    operation = "GenerateDataKeyPair" if shows else "GenerateDataKeyPairWithoutPlaintext"
    with MOTO_LOCK:
        key = _key_for(self, "ENCRYPT_DECRYPT", operation)
    _check_algorithm(key, _SYMMETRIC)
    _end_trial(self)
    spec = self._get_param("KeyPairSpec")
    if spec not in _PAIRS:
        raise AwsError("UnsupportedOperationException", f"headrace makes no pairs of {spec} keys.")
    # Every other request to moto's services passes meanwhile.
    pair: Any = generate_private_key(spec)
    private = pair.private_key.private_bytes(
        serialization.Encoding.DER,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    blob = _encrypt(self, key, private, _SYMMETRIC, self._get_param("EncryptionContext", {}))
    answer = {
        "KeyId": key.arn,
        "KeyPairSpec": spec,
        "PrivateKeyCiphertextBlob": _text(blob),
        "PublicKey": _text(pair.public_key()),
    }
    if shows:
        answer["PrivateKeyPlaintext"] = _text(private)
    return json.dumps(_with_material(answer, key))


def generate_data_key_pair_without_plaintext(self: Any) -> str:
    """Answer GenerateDataKeyPairWithoutPlaintext."""
    return generate_data_key_pair(self, shows=False)


def generate_random(self: Any) -> str:
    """Answer GenerateRandom."""
    from moto.kms.utils import generate_data_key as random_bytes

    length = self._get_param("NumberOfBytes")
    if length is None:
        raise validation_error("NumberOfBytes is required.")
    return json.dumps({"Plaintext": _text(random_bytes(length))})


# --- signatures and codes -----------------------------------------------------------------------


def _signing_ways(self: Any, algorithm: str) -> tuple[Any, ...]:
    """Return what cryptography takes besides message and signature. Raises AwsError for a digest of another length."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, utils

    digest = getattr(hashes, f"SHA{algorithm[-3:]}")()
    used: Any = digest
    if self._get_param("MessageType") == "DIGEST":
        if len(self._get_param("Message")) != digest.digest_size:
            raise validation_error(f"Digest is invalid length for algorithm {algorithm}.")
        used = utils.Prehashed(digest)
    if algorithm.startswith("ECDSA"):
        return (ec.ECDSA(used),)
    if "PSS" in algorithm:
        return padding.PSS(padding.MGF1(digest), digest.digest_size), used
    return padding.PKCS1v15(), used


def sign(self: Any) -> str:
    """Answer Sign."""
    key = _key_for(self, "SIGN_VERIFY", "Sign")
    algorithm = self._get_param("SigningAlgorithm")
    _check_algorithm(key, algorithm)
    ways = _signing_ways(self, algorithm)
    signature = key.private_key.private_key.sign(self._get_param("Message"), *ways)
    _end_trial(self)
    answer = {"KeyId": key.arn, "Signature": _text(signature), "SigningAlgorithm": algorithm}
    return json.dumps(answer)


def verify(self: Any) -> str:
    """Answer Verify."""
    from cryptography.exceptions import InvalidSignature

    key = _key_for(self, "SIGN_VERIFY", "Verify")
    algorithm = self._get_param("SigningAlgorithm")
    _check_algorithm(key, algorithm)
    ways = _signing_ways(self, algorithm)
    signature = base64.b64decode(self._get_param("Signature"))
    public = key.private_key.private_key.public_key()
    try:
        public.verify(signature, self._get_param("Message"), *ways)
    except InvalidSignature:
        raise _wordless("KMSInvalidSignatureException") from None
    _end_trial(self)
    answer = {"KeyId": key.arn, "SignatureValid": True, "SigningAlgorithm": algorithm}
    return json.dumps(answer)


def _code_of(self: Any, operation: str) -> tuple[Any, str, str]:
    """Return the key, the algorithm and the code of a request's message."""
    from moto.kms.utils import generate_hmac

    key = _key_for(self, "GENERATE_VERIFY_MAC", operation)
    algorithm = self._get_param("MacAlgorithm")
    _check_algorithm(key, algorithm)
    return key, algorithm, generate_hmac(key.key_material, self._get_param("Message"), algorithm)


def generate_mac(self: Any) -> str:
    """Answer GenerateMac."""
    key, algorithm, code = _code_of(self, "GenerateMac")
    _end_trial(self)
    return json.dumps({"KeyId": key.arn, "Mac": code, "MacAlgorithm": algorithm})


def verify_mac(self: Any) -> str:
    """Answer VerifyMac."""
    key, algorithm, code = _code_of(self, "VerifyMac")
    if not hmac.compare_digest(str(self._get_param("Mac")), str(code)):
        raise _wordless("KMSInvalidMacException")
    _end_trial(self)
    return json.dumps({"KeyId": key.arn, "MacAlgorithm": algorithm, "MacValid": True})


# --- public keys and replicas -------------------------------------------------------------------


def get_public_key(self: Any) -> str:
    """Answer GetPublicKey; that KeyId is the ARN is asserted by LocalStack's tests, which AWS was asked with."""
    key_id = self._get_param("KeyId")
    self._validate_key_id(key_id)
    key = self.kms_backend.describe_key(key_id)
    check_usable(key)
    if key.key_spec == _SYMMETRIC or key.key_spec.startswith("HMAC"):
        # The code is documented (API_GetPublicKey), the sentence is assumed.
        raise AwsError(
            "UnsupportedOperationException",
            f"{key.arn} key spec is {key.key_spec} which is not valid for this operation.",
        )
    metadata = key.to_dict()["KeyMetadata"]
    members = (
        "CustomerMasterKeySpec", "KeySpec", "KeyUsage", "EncryptionAlgorithms", "SigningAlgorithms",
        "KeyAgreementAlgorithms",
    )  # fmt: skip
    answer = {name: metadata[name] for name in members if name in metadata}
    public = _text(key.private_key.public_key())
    return json.dumps({**answer, "KeyId": key.arn, "PublicKey": public})


def replicate_key(self: Any) -> str:
    """Answer ReplicateKey; the replica can be used at once, and AWS's first answer says that it is being created."""
    key_id = self._get_param("KeyId")
    self._validate_key_id(key_id)
    region = self._get_param("ReplicaRegion")
    replica = self.kms_backend.replicate_key(self.kms_backend.get_key_id(key_id), region)
    replica.description = self._get_param("Description", "")
    replica.policy = self._get_param("Policy") or replica.generate_default_policy()
    tags = self._get_param("Tags", [])
    if tags:
        from moto.kms.models import kms_backends

        kms_backends[self.current_account][region].tagger.tag_resource(replica.id, tags)
    metadata = replica.to_dict()["KeyMetadata"] | {"Enabled": False, "KeyState": "Creating"}
    answer = {"ReplicaKeyMetadata": metadata, "ReplicaPolicy": replica.policy}
    return json.dumps({**answer, **({"ReplicaTags": tags} if tags else {})})
