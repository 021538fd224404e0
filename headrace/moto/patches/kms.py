"""KMS: AWS managed keys, keys named by their ARN, and what a disabled key refuses."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import copy
import functools
import hashlib
import inspect
import json
import threading
from collections.abc import Mapping
from typing import Any

from headrace.aws.calls.errors import AwsError, validation_error
from headrace.moto.current_cloud import unix_time

_MANAGED_KEYS = {
    "alias/aws/s3": "Default key that protects my S3 objects when no other key is defined",
    "alias/aws/dynamodb": "Default key that protects my DynamoDB data when no other key is defined",
    "alias/aws/ebs": "Default key that protects my EBS volumes when no other key is defined",
}


def correct_keys(module: Any) -> None:
    """Mark AWS managed keys as AWS's (observed in DescribeKey's recorded answers), and accept ARNs of keys."""
    create = module.KmsBackend.create_alias

    @functools.wraps(create)
    def create_alias(self: Any, target_key_id: str, alias_name: str) -> Any:
        # Only services come here with such an alias: the answer to CreateAlias refuses it before.
        alias = create(self, target_key_id, alias_name)
        alias.created_s = alias.updated_s = unix_time()
        if alias_name.startswith("alias/aws/"):
            key = self.keys[self.get_key_id(target_key_id)]
            key.key_manager = "AWS"
            key.description = _MANAGED_KEYS.get(alias_name, key.description)
        return alias

    update = module.KmsBackend.update_alias

    @functools.wraps(update)
    def update_alias(self: Any, target_key_id: str, alias_name: str) -> Any:
        alias = update(self, target_key_id, alias_name)
        alias.updated_s = unix_time()
        return alias

    module.KmsBackend.create_alias = create_alias
    module.KmsBackend.update_alias = update_alias
    for name in ("enable_key", "disable_key"):
        setattr(module.KmsBackend, name, _of_key_with_material(getattr(module.KmsBackend, name)))
    for name in ("enable_key", "disable_key", "cancel_key_deletion", "schedule_key_deletion"):
        setattr(module.KmsBackend, name, _of_any_name(getattr(module.KmsBackend, name)))


def date_aliases(module: Any) -> None:
    """Patch `moto.kms.responses`: aliases have dates; one of AWS's that has no key yet has neither key nor dates.

    Documented: ListAliases. An alias of an earlier version's data has no dates.
    """
    list_all = module.KmsResponse.list_aliases

    def list_aliases(self: Any) -> str:
        answer = json.loads(list_all(self))
        made = {alias.alias_name: alias for alias in self.kms_backend.list_aliases()}
        for shown in answer["Aliases"]:
            alias = made.get(shown["AliasName"])
            if alias is None:
                del shown["TargetKeyId"]
            elif hasattr(alias, "created_s"):
                shown |= {"CreationDate": alias.created_s, "LastUpdatedDate": alias.updated_s}
        return json.dumps(answer)

    module.KmsResponse.list_aliases = list_aliases


_AGREES = {"ECC_NIST_P256", "ECC_NIST_P384", "ECC_NIST_P521", "SM2"}


def usage_of(key: Any) -> str:
    """Return what a key is for; in clouds of earlier versions a symmetric key has nothing there."""
    return key.key_usage or "ENCRYPT_DECRYPT"


def algorithms_of(key: Any) -> list[str]:
    """Return the algorithms that a key can be used with."""
    usage, spec = usage_of(key), key.key_spec
    if usage == "GENERATE_VERIFY_MAC":
        return [spec.replace("_", "_SHA_")]
    if usage == "KEY_AGREEMENT":
        return ["ECDH"]
    return (
        key.encryption_algorithms if usage == "ENCRYPT_DECRYPT" else key.signing_algorithms
    ) or []


def material_of(key: Any) -> str:
    """Return the id of a symmetric key's material, "" of another key."""
    if key.key_spec != "SYMMETRIC_DEFAULT" or key.key_state == "PendingImport":
        return ""
    return hashlib.sha256(key.key_material).hexdigest()


_ALGORITHMS = {
    "ENCRYPT_DECRYPT": "EncryptionAlgorithms",
    "GENERATE_VERIFY_MAC": "MacAlgorithms",
    "KEY_AGREEMENT": "KeyAgreementAlgorithms",
    "SIGN_VERIFY": "SigningAlgorithms",
}


def show_keys(module: Any) -> None:
    """Make keys as AWS does, and show the members that AWS shows (recorded)."""
    key, backend = module.Key, module.KmsBackend
    show, make_id, create = key.to_dict, module.generate_key_id, backend.create_key

    @functools.wraps(show)
    def to_dict(self: Any) -> dict[str, Any]:
        members = show(self)["KeyMetadata"]
        for name in _ALGORITHMS.values():
            members.pop(name, None)
        members |= {"KeyUsage": usage_of(self), "MultiRegion": bool(self.multi_region)}
        members[_ALGORITHMS[usage_of(self)]] = algorithms_of(self)
        if material := material_of(self):
            members["CurrentKeyMaterialId"] = material
        if self.multi_region:
            is_primary = self.arn == self.multi_region_configuration["PrimaryKey"]["Arn"]
            kind = {"MultiRegionKeyType": "PRIMARY" if is_primary else "REPLICA"}
            members["MultiRegionConfiguration"] = {**self.multi_region_configuration, **kind}
        return {"KeyMetadata": members}

    @functools.wraps(make_id)
    def generate_key_id(multi_region: bool = False) -> str:
        made = make_id(multi_region)
        return "mrk-" + made[4:].replace("-", "") if multi_region else made

    @functools.wraps(create)
    def create_key(
        self: Any, policy: Any, key_usage: Any, key_spec: Any, *more: Any, **named: Any
    ) -> Any:
        spec = key_spec or "SYMMETRIC_DEFAULT"
        usage = key_usage or ("ENCRYPT_DECRYPT" if spec == "SYMMETRIC_DEFAULT" else "")
        _check_usage(spec, usage)
        made = create(self, policy, usage, spec, *more, **named)
        if made.origin == "EXTERNAL":
            # Nothing can be imported here: GetParametersForImport is refused.
            made.key_state, made.enabled = "PendingImport", False
        return made

    key.to_dict, module.generate_key_id, backend.create_key = to_dict, generate_key_id, create_key


class _Ahead(threading.local):
    """The private key that a thread has made for the CreateKey that it runs next."""

    spec = ""
    key: Any = None


_AHEAD = _Ahead()


def make_private_key(params: Mapping[str, Any]) -> None:
    """Make the private key of a CreateKey, before it runs: prime numbers take seconds, and moto's lock is not held."""
    from moto.kms import utils

    spec = str(params.get("KeySpec") or params.get("CustomerMasterKeySpec") or "")
    if spec.startswith("RSA"):
        _AHEAD.key, _AHEAD.spec = utils.generate_private_key(spec), spec


def take_private_keys(module: Any) -> None:
    """Let keys take the private key that was made before, and none if nothing is signed or encrypted with it."""
    make = module.generate_private_key

    def generate_private_key(spec: str) -> Any:
        if spec.startswith(("SYMMETRIC", "HMAC")):
            return None
        if spec != _AHEAD.spec:
            return make(spec)
        key, _AHEAD.key, _AHEAD.spec = _AHEAD.key, None, ""
        return key

    module.generate_private_key = generate_private_key


def _check_usage(spec: str, usage: str) -> None:
    if not usage:
        raise validation_error(
            "You must specify a KeyUsage value for all KMS keys except for symmetric encryption keys."
        )
    can = {
        "ENCRYPT_DECRYPT": spec == "SYMMETRIC_DEFAULT" or spec.startswith(("RSA", "SM2")),
        "GENERATE_VERIFY_MAC": spec.startswith("HMAC"),
        "KEY_AGREEMENT": spec in _AGREES,
        "SIGN_VERIFY": spec.startswith(("RSA", "ECC", "SM2")),
    }
    if not can.get(usage):
        # Documented (API_CreateKey, KeyUsage); the sentence is assumed.
        raise validation_error(f"KeyUsage {usage} is not compatible with KeySpec {spec}")


# The methods of moto's backend that use a key's material; generate_data_key and re_encrypt call the first two.
_USES = ("encrypt", "sign", "verify", "generate_mac", "create_grant", "rotate_key_on_demand")


def refuse_unusable_keys(module: Any) -> None:
    """Refuse what uses a key that is disabled or waits for its deletion: moto encrypts and signs with it.

    The codes and the sentences are recorded of S3's answers about such keys; which operation refuses is documented
    ("Key states of AWS KMS keys").
    """
    backend = module.KmsBackend
    for name in _USES:
        setattr(backend, name, _of_usable_key(getattr(backend, name)))
    decrypt, replicate = backend.decrypt, backend.replicate_key

    @functools.wraps(decrypt)
    def decrypt_by_usable_key(self: Any, *args: Any, **named: Any) -> Any:
        plaintext, arn = decrypt(_with_short_ids(self), *args, **named)
        check_usable(self.describe_key(arn))
        return plaintext, arn

    @functools.wraps(replicate)
    def replicate_usable_key(self: Any, key_id: str, replica_region: str) -> Any:
        key = self.describe_key(key_id)
        check_usable(key)
        # The type of keys that earlier versions stored is their last replica's.
        if not key.multi_region or key.arn != key.multi_region_configuration["PrimaryKey"]["Arn"]:
            # The code is documented (API_ReplicateKey), the sentence is assumed.
            raise AwsError(
                "UnsupportedOperationException", f"{key.arn} is not a multi-region primary key."
            )
        of_all = key.multi_region_configuration
        if replica_region in [
            one["Region"] for one in (of_all["PrimaryKey"], *of_all["ReplicaKeys"])
        ]:
            # The code is documented, the sentence is assumed.
            raise AwsError(
                "AlreadyExistsException", f"{key.id} already exists in {replica_region}."
            )
        replica = replicate(self, key_id, replica_region)
        # Documented (multi-region-keys-overview): aliases, grants and rotations on demand are each Region's own.
        replica.aliases, replica.grants, replica.rotations = {}, {}, []
        # moto's replica is the same to the letter, and only the primary of stored keys knows the newest replica.
        for one in of_all["ReplicaKeys"]:
            other = module.kms_backends[self.account_id][one["Region"]].keys.get(key.id)
            if other is not None:
                other.multi_region_configuration = {**of_all, "MultiRegionKeyType": "REPLICA"}
        return replica

    backend.decrypt, backend.replicate_key = decrypt_by_usable_key, replicate_usable_key


# What moto's texts have of their key's id.
_ID_BYTES = 36


def _with_short_ids(backend: Any) -> Any:
    """Return a backend that finds keys by what texts have of their ids: earlier versions made longer ones."""
    longer = {key[:_ID_BYTES]: value for key, value in backend.keys.items() if key[_ID_BYTES:]}
    if not longer:
        return backend
    found = copy.copy(backend)
    found.keys = {**longer, **backend.keys}
    return found


def _of_usable_key(method: Any) -> Any:
    """Make a method, one of whose arguments is `key_id`, refuse a key that nobody may use now."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    def call_with_usable_key(self: Any, *args: Any, **named: Any) -> Any:
        key_id = signature.bind(self, *args, **named).arguments["key_id"]
        check_usable(self.describe_key(key_id))
        return method(self, *args, **named)

    return call_with_usable_key


def check_usable(key: Any) -> None:
    """Raise AwsError when nobody may use a key now."""
    if key.key_state == "PendingImport":
        raise AwsError("KMSInvalidStateException", f"{key.arn} is pending import.")
    if key.key_state == "PendingDeletion":
        raise AwsError("KMSInvalidStateException", f"{key.arn} is pending deletion.")
    if not key.enabled:
        raise AwsError("DisabledException", f"{key.arn} is disabled.")


def _of_key_with_material(method: Any) -> Any:
    """Make a method that takes a key's id refuse a key that waits for its material (documented, "Key states")."""

    @functools.wraps(method)
    def call_with_material(self: Any, key_id: str) -> Any:
        if self.keys[key_id].key_state == "PendingImport":
            check_usable(self.keys[key_id])
        return method(self, key_id)

    return call_with_material


def _of_any_name(method: Any) -> Any:
    """Make a method that takes a key's id take its ARN too."""

    @functools.wraps(method)
    def call_with_key_id(self: Any, key_id: str, *args: Any, **more: Any) -> Any:
        return method(self, self.get_key_id(key_id), *args, **more)

    return call_with_key_id
