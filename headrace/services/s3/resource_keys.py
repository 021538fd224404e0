"""Finds the KMS key of a bucket, an object or a multipart upload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.core.arn import bucket_arn, s3_path_of
from headrace.services.s3.backend import S3


def find_key(s3: S3, kind: str, resource: str) -> tuple[str, str, str]:
    """Return the id or ARN of a key, its account and region; "" without one. Raises LookupError, AwsError.

    `kind` is `object key` for the key with which an object was written, `key` for the key of the next write, or
    `upload key` for the key of a multipart upload, whose id follows the ARN after a space. For `key scope` it returns
    the ARN of the bucket, without an account, when the bucket has one S3 Bucket Key for all objects.
    """
    name, _, key = s3_path_of(resource).partition("/")
    bucket = s3.bucket(name)
    if kind == "key scope":
        return (
            bucket_arn(bucket.region, name) if _has_bucket_key(bucket.configurations) else "",
            "",
            "",
        )
    if kind == "upload key":
        key, _, upload_id = key.rpartition(" ")
        named = str(s3.uploads.find(name, key, upload_id).encryption.get("key") or "")
    elif kind == "object key":
        named = str(s3.object(name, key).encryption.get("key") or "")
    else:
        named = _find_default_key(bucket.configurations)
    return named, bucket.account, bucket.region


def _has_bucket_key(configurations: Mapping[str, Any]) -> bool:
    configuration: Mapping[str, Any] = configurations.get("BucketEncryption") or {}
    rules: Any = configuration.get("Rules") or ()
    return any(str(rule.get("BucketKeyEnabled")).lower() == "true" for rule in rules)


def _find_default_key(configurations: Mapping[str, Any]) -> str:
    """Return the KMS key of a bucket's default encryption; empty for S3 managed keys and without encryption."""
    configuration: Mapping[str, Any] = configurations.get("BucketEncryption") or {}
    for rule in configuration.get("Rules") or ():
        default: Mapping[str, Any] = rule.get("ApplyServerSideEncryptionByDefault") or {}
        if str(default.get("SSEAlgorithm", "")).startswith("aws:kms"):
            return str(default.get("KMSMasterKeyID") or "")
    return ""
