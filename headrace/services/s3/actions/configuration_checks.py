"""Checks new configurations of a bucket, and fills in defaults as AWS does."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from headrace.aws.calls.errors import AwsError, malformed_xml
from headrace.aws.calls.operation import Call
from headrace.aws.shapes import s3 as shapes
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
from headrace.services.s3.state import Bucket, NamesBucket
from headrace.services.s3.writes import bad_tag, check_tags


def _check_one_rule(value: shapes.OwnershipControls, request: NamesBucket, bucket: Bucket) -> None:
    rules = value.get("Rules") or []
    if len(rules) != 1 or rules[0].get("ObjectOwnership") not in OWNERSHIPS:
        raise malformed_xml()


def _check_acceleration(
    value: shapes.AccelerateConfiguration, request: NamesBucket, bucket: Bucket
) -> None:
    if value.get("Status") not in ("Enabled", "Suspended"):
        raise malformed_xml()
    if "." in request["Bucket"]:
        raise invalid_request(
            "S3 Transfer Acceleration is not supported for buckets with periods (.) in their names"
        )


class LifecycleWithSizes(shapes.BucketLifecycleConfiguration):
    """A lifecycle configuration with the size below which objects stay where they are."""

    TransitionDefaultMinimumObjectSize: str


def add_minimum_size(
    value: shapes.BucketLifecycleConfiguration, sizes: str | None
) -> LifecycleWithSizes:
    """Return lifecycle rules with their TransitionDefaultMinimumObjectSize. Raises AwsError."""
    lifecycle.check(value)
    sizes = sizes or lifecycle.DEFAULT_SIZES
    if sizes not in (lifecycle.DEFAULT_SIZES, "varies_by_storage_class"):
        raise invalid_request(f"Invalid TransitionDefaultMinimumObjectSize found: {sizes}")
    return {**value, "TransitionDefaultMinimumObjectSize": sizes}


def _check_tags(value: shapes.Tagging, request: NamesBucket, bucket: Bucket) -> None:
    tags = _pairs_of(value)
    held = dict(_pairs_of(bucket.configurations.get("BucketTagging")))
    # PutBucketTagging replaces all tags, so the request must repeat AWS's own tags unchanged.
    check_tags(
        [(k, v) for k, v in tags if not are_set_now(k) and not (is_system(k) and held.get(k) == v)],
        "System tags cannot be added/updated by requester",
        limits.TAGS_PER_BUCKET,
    )
    if gone := sorted(k for k in set(held) - set(dict(tags)) if is_refused(k)):
        raise bad_tag("System tags cannot be removed by requester", gone[0])


def system_tags(value: shapes.Tagging | None) -> list[shapes.Tag]:
    """Return the tags that DeleteBucketTagging does not remove: AWS's own tags (assumed)."""
    return [{"Key": k, "Value": v} for k, v in _pairs_of(value) if is_refused(k)]


def _pairs_of(value: shapes.Tagging | None) -> list[tuple[str, str]]:
    tags = value.get("TagSet") or [] if value else []
    return [(tag.get("Key", ""), tag.get("Value", "")) for tag in tags]


def _check_encryption(
    value: shapes.ServerSideEncryptionConfiguration, request: NamesBucket, bucket: Bucket
) -> None:
    encryption.check_configuration(value)


def _check_payer(
    value: shapes.RequestPaymentConfiguration, request: NamesBucket, bucket: Bucket
) -> None:
    if value.get("Payer") not in ("Requester", "BucketOwner"):
        raise malformed_xml()


def check_logging(s3: S3, value: shapes.BucketLoggingStatus, bucket: Bucket) -> None:
    """Refuse access logging to a bucket that is missing or in another region. Raises AwsError."""
    enabled = value.get("LoggingEnabled")
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


def check_replication(
    s3: S3, call: Call, value: shapes.ReplicationConfiguration, bucket: Bucket
) -> shapes.ReplicationConfiguration:
    """Return a checked replication configuration in which each rule has an ID. Raises AwsError."""
    if bucket.versioning != "Enabled":
        raise invalid_request(
            "Versioning must be 'Enabled' on the bucket to apply a replication configuration"
        )
    rules = value.get("Rules") or []
    if not rules:
        raise malformed_xml()
    for rule in rules:
        target = str(rule.get("Destination", {}).get("Bucket", "")).rpartition(":::")[2]
        if not s3.has_bucket(target) or s3.bucket(target).versioning != "Enabled":
            raise invalid_request("Destination bucket must have versioning enabled.")
    # AWS gives a rule without an ID a random one.
    named: list[shapes.ReplicationRule] = [
        {**rule, "ID": rule.get("ID") or f"{call.request_id}-{i}"} for i, rule in enumerate(rules)
    ]
    return {**value, "Rules": named}


# By the configuration's name, with the value in its own shape, the request, and the bucket. They raise AwsError.
CHECKS: dict[str, Callable[[Any, NamesBucket, Bucket], None]] = {
    encryption.NAME: _check_encryption,
    locks.NAME: lambda value, _, bucket: locks.check_configuration(value, bucket),
    "BucketOwnershipControls": _check_one_rule,
    "BucketTagging": _check_tags,
    "BucketAccelerateConfiguration": _check_acceleration,
    "BucketRequestPayment": _check_payer,
    website.NAME: lambda value, _, __: website.check(value),
}


def check_policy(s3: S3, call: Call, name: str, text: str) -> None:
    """Refuse a policy of a bucket that AWS refuses. Raises AwsError, BucketNotFound."""
    s3.bucket(name)
    check_bucket_policy(text, name, functools.partial(s3.has_principal, call.account))
