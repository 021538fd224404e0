"""Put, Get and Delete of each configuration of a bucket, such as its policy or its CORS rules, made from one table.

The same three functions serve all rows: of a request they know what all rows share, and a value has its row's shape.
"""

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from headrace.aws.calls.errors import AwsError, build_malformed_xml
from headrace.aws.calls.operation import Action, Call, operation
from headrace.aws.shapes import s3 as shapes
from headrace.aws.shapes.s3 import (
    GetBucketPolicyStatusInput,
    GetBucketPolicyStatusOutput,
    GetBucketVersioningInput,
    GetBucketVersioningOutput,
    PutBucketVersioningInput,
)
from headrace.core.arn import s3_path_of
from headrace.core.ports import BucketNotFound
from headrace.core.system_tags import are_set_now, is_refused, is_system
from headrace.services.s3 import (
    encryption,
    errors,
    lifecycle,
    locks,
    notification_rules,
    website,
)
from headrace.services.s3.acls import check_bucket_policy
from headrace.services.s3.actions.buckets import OWNERSHIPS
from headrace.services.s3.backend import S3
from headrace.services.s3.errors import invalid_request
from headrace.services.s3.object_headers import bad_tag, check_tags
from headrace.services.s3.state import Bucket, NamesBucket

# Checks new configurations of a bucket, and fills in defaults as AWS does.


def _check_one_rule(value: shapes.OwnershipControls, request: NamesBucket, bucket: Bucket) -> None:
    rules = value.get("Rules") or []
    if len(rules) != 1 or rules[0].get("ObjectOwnership") not in OWNERSHIPS:
        raise build_malformed_xml()


def _check_acceleration(
    value: shapes.AccelerateConfiguration, request: NamesBucket, bucket: Bucket
) -> None:
    if value.get("Status") not in ("Enabled", "Suspended"):
        raise build_malformed_xml()
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
        errors.TAGS_PER_BUCKET,
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
        raise build_malformed_xml()


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
        raise build_malformed_xml()
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


_MFA_DELETE = (None, "", "Enabled", "Disabled")


@dataclass(frozen=True, slots=True)
class Configuration:
    """A kind of bucket configuration (AWS: a sub-resource of a bucket).

    Attributes:
        name: the name in Put<name>, Get<name> and Delete<name>.
        member: the member of Put's input that holds the value.
        flat: whether the members of the value are members of Get's output; otherwise the value is one member.
        missing: the error code of Get when there is no value; "" when Get then returns an empty output.
        sentence: the message of that error.
        deletable: whether there is a Delete operation.
        delete_name: the name of the Delete operation if it is not Delete<name>.
        default: the JSON of the value that a bucket has before any Put.
    """

    name: str
    member: str
    flat: bool = False
    missing: str = ""
    sentence: str = ""
    deletable: bool = True
    delete_name: str = ""
    default: str = ""


_TABLE = [
    Configuration(
        "BucketEncryption",
        "ServerSideEncryptionConfiguration",
        # Every bucket on AWS is encrypted since 2023.
        default='{"Rules":[{"ApplyServerSideEncryptionByDefault":{"SSEAlgorithm":"AES256"},"BucketKeyEnabled":false}]}',
    ),
    Configuration(
        "PublicAccessBlock",
        "PublicAccessBlockConfiguration",
        missing="NoSuchPublicAccessBlockConfiguration",
        sentence="The public access block configuration was not found",
    ),
    Configuration(
        "BucketPolicy",
        "Policy",
        missing="NoSuchBucketPolicy",
        sentence="The bucket policy does not exist",
    ),
    Configuration(
        "BucketTagging",
        "Tagging",
        flat=True,
        missing="NoSuchTagSet",
        sentence="The TagSet does not exist",
    ),
    Configuration(
        "BucketLifecycleConfiguration",
        "LifecycleConfiguration",
        flat=True,
        missing="NoSuchLifecycleConfiguration",
        sentence="The lifecycle configuration does not exist",
        delete_name="DeleteBucketLifecycle",
    ),
    Configuration(
        "BucketCors",
        "CORSConfiguration",
        flat=True,
        missing="NoSuchCORSConfiguration",
        sentence="The CORS configuration does not exist",
    ),
    Configuration(
        "BucketOwnershipControls",
        "OwnershipControls",
        missing="OwnershipControlsNotFoundError",
        sentence="The bucket ownership controls were not found",
    ),
    Configuration(
        "BucketWebsite",
        "WebsiteConfiguration",
        flat=True,
        missing="NoSuchWebsiteConfiguration",
        sentence="The specified bucket does not have a website configuration",
    ),
    Configuration(
        "BucketReplication",
        "ReplicationConfiguration",
        missing="ReplicationConfigurationNotFoundError",
        sentence="The replication configuration was not found",
    ),
    Configuration(
        "ObjectLockConfiguration",
        "ObjectLockConfiguration",
        missing="ObjectLockConfigurationNotFoundError",
        sentence="Object Lock configuration does not exist for this bucket",
        deletable=False,
    ),
    Configuration("BucketLogging", "BucketLoggingStatus", flat=True, deletable=False),
    Configuration(
        "BucketNotificationConfiguration", "NotificationConfiguration", flat=True, deletable=False
    ),
    Configuration(
        "BucketAccelerateConfiguration", "AccelerateConfiguration", flat=True, deletable=False
    ),
    Configuration(
        "BucketRequestPayment",
        "RequestPaymentConfiguration",
        flat=True,
        deletable=False,
        default='{"Payer":"BucketOwner"}',
    ),
]


def _build_put(row: Configuration) -> Action:
    def put(s3: S3, call: Call, request: NamesBucket) -> Mapping[str, object] | None:
        if row.member == "Policy":
            # Before the lock: whom it names, IAM knows, which may be deleting somebody and wait for this lock.
            check_policy(s3, call, str(request["Bucket"]), request.get("Policy", ""))  # pyrefly: ignore[bad-argument-type]
        with s3.lock:
            bucket = s3.bucket(request["Bucket"])
            value = cast("Any", request.get(row.member, {}))
            kept: object = value
            answer: Mapping[str, object] | None = None
            if row.name == website.CORS_NAME:
                website.check_cors(value)
            if row.name == notification_rules.NAME:
                skips = request.get("SkipDestinationValidation") in (True, "true")
                kept = s3.notifications.check(
                    request["Bucket"], value, account=bucket.account, skip_validation=skips
                )
            if row.name in CHECKS:
                CHECKS[row.name](value, request, bucket)
            if row.name == "BucketLogging":
                check_logging(s3, value, bucket)
            if row.name == "BucketReplication":
                kept = check_replication(s3, call, value, bucket)
            if row.name == lifecycle.NAME:
                sized = add_minimum_size(value, request.get(lifecycle.SIZES))  # pyrefly: ignore[bad-argument-type]
                kept, answer = sized, {lifecycle.SIZES: sized["TransitionDefaultMinimumObjectSize"]}
            # Dates in lifecycle rules become text.
            bucket.configurations[row.name] = json.loads(json.dumps(kept, default=str))
            if row.name == "BucketTagging" and not value.get("TagSet"):
                del bucket.configurations[row.name]
            s3.save_bucket(request["Bucket"], bucket)
        return answer

    return operation(f"Put{row.name}")(put)


def _build_get(row: Configuration) -> Action:
    def get(s3: S3, call: Call, request: NamesBucket) -> Mapping[str, object]:
        bucket = s3.bucket(request["Bucket"])
        value = bucket.configurations.get(row.name)
        if value is None and row.default:
            value = json.loads(row.default)
        if value is None and row.missing:
            raise AwsError(row.missing, row.sentence, 404, {"BucketName": request["Bucket"]})
        return dict(value or {}) if row.flat else {row.member: value}

    return operation(f"Get{row.name}")(get)


def _build_delete(row: Configuration) -> Action:
    def delete(s3: S3, call: Call, request: NamesBucket) -> None:
        with s3.lock:
            bucket = s3.bucket(request["Bucket"])
            gone = bucket.configurations.pop(row.name, None)
            if row.name == "BucketTagging" and (left := system_tags(gone)):
                bucket.configurations[row.name] = {"TagSet": left}
            if gone is not None:
                s3.save_bucket(request["Bucket"], bucket)

    return operation(row.delete_name or f"Delete{row.name}")(delete)


def _build_actions(row: Configuration) -> list[Action]:
    makers: list[Callable[[Configuration], Action]] = [_build_put, _build_get]
    if row.deletable:
        makers.append(_build_delete)
    return [make(row) for make in makers]


@operation("PutBucketVersioning")
def put_bucket_versioning(s3: S3, call: Call, request: PutBucketVersioningInput) -> None:
    """Enable or suspend versioning. MFA delete is stored but not enforced. Source: API_PutBucketVersioning."""
    with s3.lock, s3.files.lock:
        bucket = s3.bucket(request["Bucket"])
        configuration = request["VersioningConfiguration"]
        status = configuration.get("Status")
        if not status:
            raise AwsError(
                "IllegalVersioningConfigurationException",
                "The Versioning element must be specified",
            )
        if (
            status not in ("Enabled", "Suspended")
            or configuration.get("MFADelete") not in _MFA_DELETE
        ):
            raise build_malformed_xml()
        if status == "Suspended" and "ObjectLockConfiguration" in bucket.configurations:
            raise AwsError(
                "InvalidBucketState",
                "An Object Lock configuration is present on this bucket, so the versioning state cannot be changed.",
                409,
            )
        bucket.configurations["BucketVersioning"] = {
            name: value for name, value in configuration.items() if value
        }
        if status == "Enabled" and not bucket.versioned_since_ms:
            bucket.versioned_since_ms = call.now_ms
        s3.save_bucket(request["Bucket"], bucket)


@operation("GetBucketVersioning")
def get_bucket_versioning(
    s3: S3, call: Call, request: GetBucketVersioningInput
) -> GetBucketVersioningOutput:
    """Return the versioning status; it is empty if versioning was never enabled. Source: API_GetBucketVersioning."""
    kept = s3.bucket(request["Bucket"]).configurations.get("BucketVersioning")
    return cast("GetBucketVersioningOutput", kept or {})


def policy_of(s3: S3, arn: str) -> str | None:
    """Return the JSON policy of the bucket in a bucket's or an object's ARN, or None when there is none."""
    try:
        return s3.bucket(s3_path_of(arn).partition("/")[0]).configurations.get("BucketPolicy")
    except BucketNotFound:
        return None


@operation("GetBucketPolicyStatus")
def get_bucket_policy_status(
    s3: S3, call: Call, request: GetBucketPolicyStatusInput
) -> GetBucketPolicyStatusOutput:
    """Return whether a bucket's policy makes the bucket public. Source: API_GetBucketPolicyStatus."""
    policy = s3.bucket(request["Bucket"]).configurations.get("BucketPolicy")
    if policy is None:
        raise AwsError(
            "NoSuchBucketPolicy",
            "The bucket policy does not exist",
            404,
            {"BucketName": request["Bucket"]},
        )
    statements: list[dict[str, Any]] | dict[str, Any] = json.loads(policy)["Statement"]
    listed = statements if isinstance(statements, list) else [statements]
    is_public = any(
        statement.get("Effect") == "Allow"
        and statement.get("Principal") in ("*", {"AWS": "*"})
        and not statement.get("Condition")
        for statement in listed
    )
    return {"PolicyStatus": {"IsPublic": is_public}}


CONFIGURATIONS: list[Action] = [
    *(action for row in _TABLE for action in _build_actions(row)),
    get_bucket_policy_status,
    get_bucket_versioning,
    put_bucket_versioning,
]
