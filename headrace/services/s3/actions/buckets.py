"""The operations on buckets: create, describe, list and delete."""

from datetime import UTC, datetime
from typing import NotRequired, TypedDict, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
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
    ListBucketsInput,
    ListBucketsOutput,
    ObjectLockConfiguration,
    OwnershipControls,
    PublicAccessBlockConfiguration,
    PutBucketAclInput,
    Tagging,
    VersioningConfiguration,
)
from headrace.services.s3 import acls, limits
from headrace.services.s3.acls import OWNER
from headrace.services.s3.backend import S3
from headrace.services.s3.errors import invalid_argument, invalid_bucket_name
from headrace.services.s3.names import TABLE_STORAGE, is_bucket_name
from headrace.services.s3.state import Bucket


@operation("CreateBucket")
def create_bucket(s3: S3, call: Call, request: CreateBucketInput) -> CreateBucketOutput:
    """Create a bucket. Source: API_CreateBucket."""
    name = request["Bucket"]
    if not is_bucket_name(name):
        raise invalid_bucket_name(name)
    constraint = request.get("CreateBucketConfiguration", {}).get("LocationConstraint")
    if constraint == "us-east-1":
        raise AwsError(
            "InvalidLocationConstraint",
            "The specified location-constraint is not valid",
            400,
            {"LocationConstraint": constraint},
        )
    stated = "eu-west-1" if constraint == "EU" else constraint
    if call.region not in ("us-east-1", stated):
        raise AwsError(
            "IllegalLocationConstraintException",
            f"The {constraint or 'unspecified'} location constraint is incompatible for the region specific endpoint"
            " this request was sent to.",
        )
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
    limit = limits.LIST_BUCKETS if most is None else most
    if not 1 <= limit <= limits.LIST_BUCKETS:  # the range is documented, the message is assumed
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
