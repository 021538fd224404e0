"""KMS: AWS managed keys, keys named by their ARN, and what a disabled key refuses."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import functools
import inspect
from typing import Any

from headrace.aws.calls.errors import AwsError

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
        if alias_name.startswith("alias/aws/"):
            key = self.keys[self.get_key_id(target_key_id)]
            key.key_manager = "AWS"
            key.description = _MANAGED_KEYS.get(alias_name, key.description)
        return alias

    module.KmsBackend.create_alias = create_alias
    for name in ("enable_key", "disable_key", "cancel_key_deletion", "schedule_key_deletion"):
        setattr(module.KmsBackend, name, _of_any_name(getattr(module.KmsBackend, name)))


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
        plaintext, arn = decrypt(self, *args, **named)
        _check_usable(self.describe_key(arn))
        return plaintext, arn

    @functools.wraps(replicate)
    def replicate_usable_key(self: Any, key_id: str, replica_region: str) -> Any:
        key = self.describe_key(key_id)
        _check_usable(key)
        if not key.multi_region:
            # The code is documented (API_ReplicateKey), the sentence is assumed.
            raise AwsError(
                "UnsupportedOperationException", f"{key.arn} is not a multi-region primary key."
            )
        return replicate(self, key_id, replica_region)

    backend.decrypt, backend.replicate_key = decrypt_by_usable_key, replicate_usable_key


def _of_usable_key(method: Any) -> Any:
    """Make a method, one of whose arguments is `key_id`, refuse a key that nobody may use now."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    def call_with_usable_key(self: Any, *args: Any, **named: Any) -> Any:
        key_id = signature.bind(self, *args, **named).arguments["key_id"]
        _check_usable(self.describe_key(key_id))
        return method(self, *args, **named)

    return call_with_usable_key


def _check_usable(key: Any) -> None:
    if key.key_state == "PendingDeletion":
        raise AwsError("KMSInvalidStateException", f"{key.arn} is pending deletion.")
    if not key.enabled:
        raise AwsError("DisabledException", f"{key.arn} is disabled.")


def _of_any_name(method: Any) -> Any:
    """Make a method that takes a key's id take its ARN too."""

    @functools.wraps(method)
    def call_with_key_id(self: Any, key_id: str, *args: Any, **more: Any) -> Any:
        return method(self, self.get_key_id(key_id), *args, **more)

    return call_with_key_id
