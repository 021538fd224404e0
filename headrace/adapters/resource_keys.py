"""Finds the customer managed KMS key of a stream, an object or its bucket, a queue, a topic, a secret or a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.ports import BucketNotFound, ObjectNotFound


class ResourceKeys:
    """Finds KMS keys in the state of the services, without a request. Thread-safe.

    Args:
        stream_key: returns the key of a stream, by ARN.
        bucket: returns a bucket's configurations, by name. Raises BucketNotFound.
        object_encryption: returns the stored encryption of an object. Raises ObjectNotFound, AwsError.
        upload_encryption: returns the stored encryption of a multipart upload, by bucket, key and id. Raises AwsError.
        delivery_stream_key: returns the key of a delivery stream, by ARN.
        held: returns the key of a queue, a topic or a secret, by ARN.
        resolved: returns the ARN of a key from its id or alias, account and region.
    """

    def __init__(
        self,
        *,
        stream_key: Callable[[str], str],
        bucket: Callable[[str], tuple[Mapping[str, Any], str, str]],
        object_encryption: Callable[[str, str], Mapping[str, str]],
        upload_encryption: Callable[[str, str, str], Mapping[str, str]],
        delivery_stream_key: Callable[[str], str],
        held: Callable[[str], str],
        resolved: Callable[[str, str, str], str],
    ) -> None:
        self._stream_key = stream_key
        self._bucket = bucket
        self._object_encryption = object_encryption
        self._upload_encryption = upload_encryption
        self._delivery_stream_key = delivery_stream_key
        self._held = held
        self._resolved = resolved

    def of(self, service: str, kind: str, resource: str) -> str:
        """Return the ARN of a resource's key; empty for AWS's own keys and without encryption.

        `kind` is `object key` for the key with which an object was written, `key` for the key of the next write, or
        `upload key` for the key of a multipart upload, whose id follows the ARN after a space. For `key scope` it
        returns the ARN of the bucket when the bucket has one S3 Bucket Key for all objects.
        """
        if not resource.startswith("arn:") or "*" in resource:
            return ""
        try:
            return self._of(service, kind, resource)
        except (BucketNotFound, ObjectNotFound, LookupError, AwsError):
            return ""  # the service itself reports that the resource does not exist

    def _of(self, service: str, kind: str, resource: str) -> str:
        if service == "kinesis":
            return self._stream_key(resource.partition("/consumer/")[0])
        if service == "firehose":
            return self._delivery_stream_key(resource)
        if service in ("sqs", "sns", "secretsmanager", "dynamodb"):
            return self._held(resource)
        if service != "s3":
            return ""
        bucket, _, key = resource.removeprefix("arn:aws:s3:::").partition("/")
        configurations, account, region = self._bucket(bucket)
        if kind == "key scope":
            return f"arn:aws:s3:::{bucket}" if _has_bucket_key(configurations) else ""
        if kind == "upload key":
            key, _, upload_id = key.rpartition(" ")
            given = str(self._upload_encryption(bucket, key, upload_id).get("key") or "")
        elif kind == "object key":
            given = str(self._object_encryption(bucket, key).get("key") or "")
        else:
            given = _default_key(configurations)
        return self._resolved(given, account, region) if given else ""


def _has_bucket_key(configurations: Mapping[str, Any]) -> bool:
    configuration: Mapping[str, Any] = configurations.get("BucketEncryption") or {}
    rules: Any = configuration.get("Rules") or ()
    return any(str(rule.get("BucketKeyEnabled")).lower() == "true" for rule in rules)


def _default_key(configurations: Mapping[str, Any]) -> str:
    """Return the KMS key of a bucket's default encryption; empty for S3 managed keys and without encryption."""
    configuration: Mapping[str, Any] = configurations.get("BucketEncryption") or {}
    for rule in configuration.get("Rules") or ():
        default: Mapping[str, Any] = rule.get("ApplyServerSideEncryptionByDefault") or {}
        if str(default.get("SSEAlgorithm", "")).startswith("aws:kms"):
            return str(default.get("KMSMasterKeyID") or "")
    return ""
