"""KMS: AWS managed keys, and keys named by their ARN."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import functools
from typing import Any

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


def _of_any_name(method: Any) -> Any:
    """Make a method that takes a key's id take its ARN too."""

    @functools.wraps(method)
    def call_with_key_id(self: Any, key_id: str, *args: Any, **more: Any) -> Any:
        return method(self, self.get_key_id(key_id), *args, **more)

    return call_with_key_id
