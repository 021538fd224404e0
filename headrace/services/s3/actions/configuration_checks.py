"""Checks new configurations of a bucket, and fills in defaults as AWS does."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from headrace.aws.errors import AwsError, malformed_xml
from headrace.aws.operation import Call
from headrace.core.system_tags import are_set_now, is_refused, is_system
from headrace.services.s3 import (
    encryption,
    lifecycle,
    limits,
    locks,
    website,
)
from headrace.services.s3.actions.buckets import OWNERSHIPS
from headrace.services.s3.backend import S3
from headrace.services.s3.errors import invalid_request
from headrace.services.s3.policies import check_bucket_policy
from headrace.services.s3.state import Bucket
from headrace.services.s3.writes import bad_tag, checked_tags


def _check_one_rule(value: dict[str, Any], request: dict[str, Any], bucket: Bucket) -> None:
    rules: list[dict[str, str]] = value.get("Rules") or []
    if len(rules) != 1 or rules[0].get("ObjectOwnership") not in OWNERSHIPS:
        raise malformed_xml()


def _check_acceleration(value: dict[str, Any], request: dict[str, Any], bucket: Bucket) -> None:
    if value.get("Status") not in ("Enabled", "Suspended"):
        raise malformed_xml()
    if "." in request["Bucket"]:
        raise invalid_request(
            "S3 Transfer Acceleration is not supported for buckets with periods (.) in their names"
        )


def with_sizes(value: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Return lifecycle rules with their TransitionDefaultMinimumObjectSize. Raises AwsError."""
    lifecycle.check(value)
    sizes = request.get(lifecycle.SIZES) or lifecycle.DEFAULT_SIZES
    if sizes not in (lifecycle.DEFAULT_SIZES, "varies_by_storage_class"):
        raise invalid_request(f"Invalid TransitionDefaultMinimumObjectSize found: {sizes}")
    return {**value, lifecycle.SIZES: sizes}


def _check_tags(value: dict[str, Any], request: dict[str, Any], bucket: Bucket) -> None:
    tags = _pairs_of(value)
    held = dict(_pairs_of(bucket.configurations.get("BucketTagging") or {}))
    # PutBucketTagging replaces all tags, so the request must repeat AWS's own tags unchanged.
    checked_tags(
        [(k, v) for k, v in tags if not are_set_now(k) and not (is_system(k) and held.get(k) == v)],
        "System tags cannot be added/updated by requester",
        limits.TAGS_PER_BUCKET,
    )
    if gone := sorted(k for k in set(held) - set(dict(tags)) if is_refused(k)):
        raise bad_tag("System tags cannot be removed by requester", gone[0])


def system_tags(value: Mapping[str, Any] | None) -> list[dict[str, str]]:
    """Return the tags that DeleteBucketTagging does not remove: AWS's own tags (assumed)."""
    return [{"Key": k, "Value": v} for k, v in _pairs_of(value or {}) if is_refused(k)]


def _pairs_of(value: Mapping[str, Any]) -> list[tuple[str, str]]:
    tags: list[dict[str, str]] = value.get("TagSet") or []
    return [(tag.get("Key", ""), tag.get("Value", "")) for tag in tags]


def _check_encryption(value: dict[str, Any], request: dict[str, Any], bucket: Bucket) -> None:
    encryption.check_configuration(value)


def _check_payer(value: dict[str, Any], request: dict[str, Any], bucket: Bucket) -> None:
    if value.get("Payer") not in ("Requester", "BucketOwner"):
        raise malformed_xml()


def check_logging(s3: S3, value: dict[str, Any], bucket: Bucket) -> None:
    """Refuse access logging to a bucket that is missing or in another region. Raises AwsError."""
    enabled: dict[str, Any] = value.get("LoggingEnabled") or {}
    if not enabled:
        return
    target = str(enabled.get("TargetBucket"))
    if not s3.has_bucket(target):
        raise AwsError(
            "InvalidTargetBucketForLogging",
            "The target bucket for logging does not exist",
            400,
            {"TargetBucket": target},
        )
    there = s3.bucket(target).region
    if there != bucket.region:
        # The spelling of the code and the space at the end of the message are AWS's.
        source = {} if bucket.region == "us-east-1" else {"SourceBucketLocation": bucket.region}
        raise AwsError(
            "CrossLocationLoggingProhibitted",
            "Cross S3 location logging not allowed. ",
            403,
            {**source, "TargetBucketLocation": there},
        )


def checked_replication(
    s3: S3, call: Call, value: dict[str, Any], bucket: Bucket
) -> dict[str, Any]:
    """Return a checked replication configuration in which each rule has an ID. Raises AwsError."""
    if bucket.versioning != "Enabled":
        raise invalid_request(
            "Versioning must be 'Enabled' on the bucket to apply a replication configuration"
        )
    rules: list[dict[str, Any]] = value.get("Rules") or []
    if not rules:
        raise malformed_xml()
    for rule in rules:
        target = str(rule.get("Destination", {}).get("Bucket", "")).rpartition(":::")[2]
        if not s3.has_bucket(target) or s3.bucket(target).versioning != "Enabled":
            raise invalid_request("Destination bucket must have versioning enabled.")
    # AWS gives a random ID to a rule that has none.
    named = [
        {**rule, "ID": rule.get("ID") or f"{call.request_id}-{i}"} for i, rule in enumerate(rules)
    ]
    return {**value, "Rules": named}


# The configuration's name -> its check, which takes the value, the request and the bucket and raises AwsError.
CHECKS: dict[str, Callable[[dict[str, Any], dict[str, Any], Bucket], None]] = {
    encryption.NAME: _check_encryption,
    locks.NAME: lambda value, _, bucket: locks.check_configuration(value, bucket),
    "BucketOwnershipControls": _check_one_rule,
    "BucketTagging": _check_tags,
    "BucketAccelerateConfiguration": _check_acceleration,
    "BucketRequestPayment": _check_payer,
    website.NAME: lambda value, _, __: website.check(value),
}


def check_policy(s3: S3, call: Call, request: Mapping[str, Any]) -> None:
    """Refuse a policy that AWS refuses. Raises AwsError, BucketNotFound."""
    name = str(request["Bucket"])
    s3.bucket(name)
    text = request.get("Policy", "")
    check_bucket_policy(text, name, functools.partial(s3.has_principal, call.account))
