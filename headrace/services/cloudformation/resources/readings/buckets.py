"""How buckets are read back: each property by its own call, compared in S3's form."""

from __future__ import annotations

from typing import Any

from headrace.services.cloudformation.resources.reading import ReadCall, ReadingRules
from headrace.services.cloudformation.resources.types.s3 import bucket_made, in_the_apis_form

# Property -> the call that reads it, its place in the answer, and the error code that means that it is not set.
_READ = {
    "BucketEncryption": (
        "GetBucketEncryption",
        "ServerSideEncryptionConfiguration",
        "ServerSideEncryptionConfigurationNotFoundError",
    ),
    "VersioningConfiguration": ("GetBucketVersioning", ".", ""),
    "PublicAccessBlockConfiguration": (
        "GetPublicAccessBlock",
        "PublicAccessBlockConfiguration",
        "NoSuchPublicAccessBlockConfiguration",
    ),
    "OwnershipControls": (
        "GetBucketOwnershipControls",
        "OwnershipControls",
        "OwnershipControlsNotFoundError",
    ),
    "CorsConfiguration": ("GetBucketCors", ".", "NoSuchCORSConfiguration"),
    "ObjectLockConfiguration": (
        "GetObjectLockConfiguration",
        "ObjectLockConfiguration",
        "ObjectLockConfigurationNotFoundError",
    ),
    "LoggingConfiguration": ("GetBucketLogging", ".", ""),
    "WebsiteConfiguration": ("GetBucketWebsite", ".", "NoSuchWebsiteConfiguration"),
    "AccelerateConfiguration": ("GetBucketAccelerateConfiguration", ".", ""),
    "LifecycleConfiguration": (
        "GetBucketLifecycleConfiguration",
        ".",
        "NoSuchLifecycleConfiguration",
    ),
    "NotificationConfiguration": ("GetBucketNotificationConfiguration", ".", ""),
}


_LISTS = ("TopicConfigurations", "QueueConfigurations", "LambdaFunctionConfigurations")


def _turned(name: str, bucket: str, wanted: Any) -> Any:
    """Return a property in the API's form."""
    turned = in_the_apis_form(name, bucket, wanted)
    if name != "NotificationConfiguration":
        return turned
    # A notification of another kind is also a difference.
    return {name: turned.get(name, []) for name in _LISTS} | turned


def _setting(name: str) -> ReadCall:
    operation, path, unset = _READ[name]
    return ReadCall(
        operation,
        {"Bucket": "@id"},
        properties={name: path},
        unset=(unset,) if unset else (),
        turn=lambda bucket, wanted: _turned(name, bucket, wanted),
    )


BUCKET = ReadingRules(
    "AWS::S3::Bucket",
    "s3",
    (
        ReadCall("GetBucketLocation", {"Bucket": "@id"}, properties={"BucketName": "@id"}),
        *(_setting(name) for name in _READ),
    ),
    made=bucket_made,
)
BUCKET_POLICY = ReadingRules(
    "AWS::S3::BucketPolicy",
    "s3",
    (
        ReadCall(
            "GetBucketPolicy",
            {"Bucket": "@id"},
            properties={"Bucket": "@id", "PolicyDocument": "Policy"},
        ),
    ),
)
