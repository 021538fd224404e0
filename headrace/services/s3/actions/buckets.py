"""The operations on buckets: create, describe, list and delete.

The configurations that have an Id, so that a bucket may have many: metrics, analytics, inventory, tiering.

They are checked, stored and returned, but have no effect. Sources: AWS's answers to LocalStack's
tests/aws/services/s3/test_s3.py and test_s3_api.py, recorded in 2025 (observed); API_Put... of each (documented).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NotRequired, TypedDict, cast

from headrace.aws.calls.errors import AwsError, build_malformed_xml
from headrace.aws.calls.operation import Action, Call, operation, operation_model
from headrace.aws.shapes.s3 import (
    CreateBucketInput,
    CreateBucketOutput,
    DeleteBucketInput,
    GetBucketAclInput,
    GetBucketAclOutput,
    GetBucketLocationInput,
    GetBucketLocationOutput,
    Grant,
    HeadBucketInput,
    HeadBucketOutput,
    InventoryConfiguration,
    ListBucketsInput,
    ListBucketsOutput,
    ObjectLockConfiguration,
    OwnershipControls,
    PublicAccessBlockConfiguration,
    PutBucketAclInput,
    Tagging,
    VersioningConfiguration,
)
from headrace.services.s3 import acls, errors
from headrace.services.s3.acls import OWNER
from headrace.services.s3.backend import S3
from headrace.services.s3.errors import (
    LISTED_CONFIGURATIONS,
    LISTED_CONFIGURATIONS_PAGE,
    invalid_argument,
    invalid_bucket_name,
)
from headrace.services.s3.routing import TABLE_STORAGE, is_bucket_name
from headrace.services.s3.state import Bucket, NamesBucket, NamesConfiguration

# us-east-1, us-gov-west-1, us-isob-east-1.
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-[0-9]+")
_BUCKET_ARN = re.compile(r"arn:aws[a-z-]*:s3:::[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


@dataclass(frozen=True, slots=True)
class ConfigurationKind:
    """A kind of configuration that has an Id.

    Attributes:
        name: the name in PutBucket<name>Configuration and in the members.
        check: refuses values that the API model allows and AWS does not.
    """

    name: str
    check: Callable[[Any], None] = lambda _: None

    @property
    def member(self) -> str:
        """The member of inputs and outputs that holds the value."""
        return f"{self.name}Configuration"


def _check_inventory(value: InventoryConfiguration) -> None:
    target = value["Destination"]["S3BucketDestination"]
    if not _BUCKET_ARN.fullmatch(str(target.get("Bucket"))):
        raise AwsError("InvalidS3DestinationBucket", "Invalid bucket ARN.")


_KINDS = [
    ConfigurationKind("Analytics"),
    ConfigurationKind("IntelligentTiering"),
    ConfigurationKind("Inventory", _check_inventory),
    ConfigurationKind("Metrics"),
]


def _build_put(kind: ConfigurationKind) -> Action:
    name = f"PutBucket{kind.member}"

    def put(s3: S3, call: Call, request: NamesConfiguration) -> None:
        value = cast("dict[str, Any]", request)[kind.member]
        shape = cast("Any", operation_model("s3", name)).input_shape.members[kind.member]
        with s3.lock:
            bucket = s3.bucket(request["Bucket"])
            if not _is_of_model(shape, value):
                raise build_malformed_xml()
            if value["Id"] != request["Id"]:
                raise AwsError(
                    "IdMismatch", "Document ID does not match the specified configuration ID."
                )
            kind.check(value)
            kept: dict[str, Any] = bucket.configurations.get(kind.member, {})
            if request["Id"] not in kept and len(kept) >= LISTED_CONFIGURATIONS:
                raise AwsError(
                    "TooManyConfigurations",
                    "You are attempting to create a new configuration but have already reached the"
                    f" {LISTED_CONFIGURATIONS:,}-configuration limit.",
                )
            # This turns dates into text.
            new = json.loads(json.dumps(value, default=str))
            bucket.configurations[kind.member] = {**kept, request["Id"]: new}
            s3.save_bucket(request["Bucket"], bucket)

    return operation(name)(put)


def _build_get(kind: ConfigurationKind) -> Action:
    def get(s3: S3, call: Call, request: NamesConfiguration) -> Mapping[str, object]:
        return {kind.member: _find_configurations(s3, kind, request)}

    return operation(f"GetBucket{kind.member}")(get)


def _build_delete(kind: ConfigurationKind) -> Action:
    def delete(s3: S3, call: Call, request: NamesConfiguration) -> None:
        with s3.lock:
            _find_configurations(s3, kind, request)
            bucket = s3.bucket(request["Bucket"])
            kept: dict[str, Any] = bucket.configurations[kind.member]
            left = {name: value for name, value in kept.items() if name != request["Id"]}
            bucket.configurations[kind.member] = left
            s3.save_bucket(request["Bucket"], bucket)

    return operation(f"DeleteBucket{kind.member}")(delete)


def _build_list(kind: ConfigurationKind) -> Action:
    def list_all(s3: S3, call: Call, request: NamesBucket) -> Mapping[str, object]:
        kept: dict[str, Any] = s3.bucket(request["Bucket"]).configurations.get(kind.member, {})
        token = request.get("ContinuationToken")
        after = "" if token is None else _decode_token(token)  # pyrefly: ignore[bad-argument-type]
        names = sorted(name for name in kept if name > after)
        page = names[:LISTED_CONFIGURATIONS_PAGE]
        answer: dict[str, object] = {"IsTruncated": len(page) < len(names)}
        if token is not None:
            answer["ContinuationToken"] = token
        if page:
            answer[f"{kind.member}List"] = [kept[name] for name in page]
        if answer["IsTruncated"]:
            answer["NextContinuationToken"] = base64.b64encode(page[-1].encode()).decode()
        return answer

    return operation(f"ListBucket{kind.member}s")(list_all)


def _find_configurations(
    s3: S3, kind: ConfigurationKind, request: NamesConfiguration
) -> Mapping[str, object]:
    kept: dict[str, Any] = s3.bucket(request["Bucket"]).configurations.get(kind.member, {})
    if request["Id"] not in kept:
        raise AwsError("NoSuchConfiguration", "The specified configuration does not exist.", 404)
    return kept[request["Id"]]


def _decode_token(token: str) -> str:
    try:
        return base64.b64decode(token, validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise invalid_argument("The continuation token provided is incorrect") from error


def _is_of_model(shape: Any, value: Any) -> bool:
    """Whether a value has all members that the API model requires, and only valid enumeration values."""
    if shape.type_name == "structure":
        if not isinstance(value, dict):
            return False
        members = cast("dict[str, Any]", value)
        return all(members.get(name) is not None for name in shape.required_members) and all(
            _is_of_model(shape.members[name], one)
            for name, one in members.items()
            if name in shape.members and one is not None
        )
    if shape.type_name == "list":
        return isinstance(value, list) and all(
            _is_of_model(shape.member, one) for one in cast("list[Any]", value)
        )
    choices: list[str] | None = getattr(shape, "enum", None)
    return not choices or value in choices


LISTED: list[Action] = [
    make(kind) for kind in _KINDS for make in (_build_put, _build_get, _build_delete, _build_list)
]


def _check_location(call: Call, request: CreateBucketInput) -> str | None:
    """Return the region that a request states; None when it states none. Raises AwsError for one that does not fit."""
    constraint = request.get("CreateBucketConfiguration", {}).get("LocationConstraint")
    if constraint == "us-east-1":
        raise AwsError(
            "InvalidLocationConstraint",
            "The specified location-constraint is not valid",
            400,
            {"LocationConstraint": constraint},
        )
    if not _REGION.fullmatch(call.region):
        # s3cmd signs with the region `US`, and again with the one that this answer names (the code and the member are
        # what it reads; the sentence is documented).
        region = constraint or "us-east-1"
        raise AwsError(
            "AuthorizationHeaderMalformed",
            f"The authorization header is malformed; the region '{call.region}' is wrong; expecting '{region}'",
            400,
            {"Region": region},
        )
    stated = "eu-west-1" if constraint == "EU" else constraint
    if call.region not in ("us-east-1", stated):
        raise AwsError(
            "IllegalLocationConstraintException",
            f"The {constraint or 'unspecified'} location constraint is incompatible for the region specific endpoint"
            " this request was sent to.",
        )
    return stated


@operation("CreateBucket")
def create_bucket(s3: S3, call: Call, request: CreateBucketInput) -> CreateBucketOutput:
    """Create a bucket. Source: API_CreateBucket."""
    name = request["Bucket"]
    if not is_bucket_name(name):
        raise invalid_bucket_name(name)
    stated = _check_location(call, request)
    with s3.lock:
        if s3.has_bucket(name):
            present = s3.bucket(name)
            if present.account != call.account:
                raise AwsError(
                    "BucketAlreadyExists",
                    "The requested bucket name is not available. The bucket namespace is shared by all users of the"
                    " system. Please select a different name and try again.",
                    409,
                    {"BucketName": name},
                )
            # AWS's old rule: in us-east-1, and only there, an account may create a bucket that it already owns.
            if call.region != "us-east-1" or present.region != "us-east-1":
                raise AwsError(
                    "BucketAlreadyOwnedByYou",
                    "Your previous request to create the named bucket succeeded and you already own it.",
                    409,
                    {"BucketName": name},
                )
        else:
            region = stated or "us-east-1"
            bucket = Bucket(
                call.account, region, call.now_ms, dict(_list_first_configurations(request))
            )
            grants = acls.list_bucket_grants(request, bucket)
            if grants:
                bucket.configurations[acls.NAME] = grants
            if bucket.versioning:
                bucket.versioned_since_ms = call.now_ms
            s3.save_bucket(name, bucket)
    return {"Location": f"/{name}"}


OWNERSHIPS = ("BucketOwnerPreferred", "ObjectWriter", "BucketOwnerEnforced")


class FirstConfigurations(TypedDict):
    """The configurations of a new bucket."""

    PublicAccessBlock: PublicAccessBlockConfiguration
    BucketOwnershipControls: OwnershipControls
    ObjectLockConfiguration: NotRequired[ObjectLockConfiguration]
    BucketVersioning: NotRequired[VersioningConfiguration]
    BucketTagging: NotRequired[Tagging]


def _list_first_configurations(request: CreateBucketInput) -> FirstConfigurations:
    """Return the configurations of a new bucket. Since April 2023, AWS blocks public access and turns ACLs off."""
    ownership = request.get("ObjectOwnership")
    if ownership is None:
        ownership = "BucketOwnerEnforced"
    if ownership not in OWNERSHIPS:
        raise AwsError(
            "InvalidArgument",
            f"Invalid x-amz-object-ownership header: {ownership}",
            400,
            {"ArgumentName": "x-amz-object-ownership"},
        )
    first: FirstConfigurations = {
        "PublicAccessBlock": {
            "BlockPublicAcls": True,
            "IgnorePublicAcls": True,
            "BlockPublicPolicy": True,
            "RestrictPublicBuckets": True,
        },
        "BucketOwnershipControls": {"Rules": [{"ObjectOwnership": ownership}]},
    }
    if request.get("ObjectLockEnabledForBucket") in (True, "true"):
        first["ObjectLockConfiguration"] = {"ObjectLockEnabled": "Enabled"}
        first["BucketVersioning"] = {"Status": "Enabled"}
    tags = request.get("CreateBucketConfiguration", {}).get("Tags")
    if tags:
        first["BucketTagging"] = {"TagSet": tags}
    return first


@operation("HeadBucket")
def head_bucket(s3: S3, call: Call, request: HeadBucketInput) -> HeadBucketOutput:
    """Return a bucket's region, if the bucket exists. Source: API_HeadBucket."""
    return {"BucketRegion": s3.bucket(request["Bucket"]).region, "AccessPointAlias": False}


@operation("DeleteBucket")
def delete_bucket(s3: S3, call: Call, request: DeleteBucketInput) -> None:
    """Delete an empty bucket. Source: API_DeleteBucket."""
    name = request["Bucket"]
    with s3.lock, s3.files.lock:
        bucket = s3.bucket(name)
        if not bucket.versioning and next(s3.files.scan(name), None) is not None:
            raise AwsError(
                "BucketNotEmpty",
                "The bucket you tried to delete is not empty",
                409,
                {"BucketName": name},
            )
        if s3.histories.has_any(name) or next(s3.files.scan(name), None) is not None:
            raise AwsError(
                "BucketNotEmpty",
                "The bucket you tried to delete is not empty. You must delete all versions in the bucket.",
                409,
                {"BucketName": name},
            )
        s3.delete_bucket(name)


@operation("ListBuckets")
def list_buckets(s3: S3, call: Call, request: ListBucketsInput) -> ListBucketsOutput:
    """Return the account's buckets, sorted by name. Source: API_ListBuckets."""
    prefix = request.get("Prefix") or ""
    after = request.get("ContinuationToken") or ""
    most = request.get("MaxBuckets")
    limit = errors.LIST_BUCKETS if most is None else most
    if not 1 <= limit <= errors.LIST_BUCKETS:  # the range is documented, the message is assumed
        sentence = "Argument max-buckets must be an integer between 1 and 10000."
        raise invalid_argument(sentence, "max-buckets", str(most))
    names = sorted(
        name
        for name, bucket in s3.buckets().items()
        if bucket.account == call.account
        and name.startswith(prefix)
        and name > after
        and not name.endswith(TABLE_STORAGE)
        and request.get("BucketRegion") in (None, bucket.region)
    )
    answer: ListBucketsOutput = {
        "Owner": OWNER,
        "Buckets": [
            {
                "Name": name,
                "CreationDate": datetime.fromtimestamp(s3.bucket(name).created_ms // 1000, UTC),
                "BucketRegion": s3.bucket(name).region,
            }
            for name in names[:limit]
        ],
    }
    if len(names) > limit:
        answer["ContinuationToken"] = names[limit - 1]
    return answer


@operation("GetBucketLocation")
def get_bucket_location(
    s3: S3, call: Call, request: GetBucketLocationInput
) -> GetBucketLocationOutput:
    """Return a bucket's region; for us-east-1 the value is empty. Source: API_GetBucketLocation."""
    region = s3.bucket(request["Bucket"]).region
    return {} if region == "us-east-1" else {"LocationConstraint": region}


@operation("GetBucketAcl")
def get_bucket_acl(s3: S3, call: Call, request: GetBucketAclInput) -> GetBucketAclOutput:
    """Return a bucket's grants; by default the owner has full control. Source: API_GetBucketAcl."""
    grants: acls.Grants = s3.bucket(request["Bucket"]).configurations.get(acls.NAME) or []
    return {"Owner": OWNER, "Grants": cast("list[Grant]", acls.render_grants(grants))}


@operation("PutBucketAcl")
def put_bucket_acl(s3: S3, call: Call, request: PutBucketAclInput) -> None:
    """Replace a bucket's grants. They are stored and returned, but do not give access. Source: API_PutBucketAcl."""
    with s3.lock:
        bucket = s3.bucket(request["Bucket"])
        bucket.configurations[acls.NAME] = acls.read_new_grants(request, bucket, is_bucket=True)
        s3.save_bucket(request["Bucket"], bucket)
