"""S3: the names of operations and actions differ, and one request can need several actions.

Source: docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html ("Required permissions for
Amazon S3 API operations"), and for condition keys list_amazons3.html of the Service Authorization Reference.
"""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import parse_qsl, unquote

from headrace.core.arn import bucket_arn
from headrace.permissions.requests.table import Request, RequiredPermission

# Operations on a bucket whose action has another name.
_ON_BUCKET = {
    "HeadBucket": "ListBucket",
    "ListObjects": "ListBucket",
    "ListObjectsV2": "ListBucket",
    "ListObjectVersions": "ListBucketVersions",
    "ListMultipartUploads": "ListBucketMultipartUploads",
    "CreateBucketMetadataConfiguration": "CreateBucketMetadataTableConfiguration",
    "DeleteBucketMetadataConfiguration": "DeleteBucketMetadataTableConfiguration",
    "GetBucketMetadataConfiguration": "GetBucketMetadataTableConfiguration",
    "DeleteBucketAnalyticsConfiguration": "PutAnalyticsConfiguration",
    "DeleteBucketCors": "PutBucketCORS",
    "DeleteBucketEncryption": "PutEncryptionConfiguration",
    "DeleteBucketIntelligentTieringConfiguration": "PutIntelligentTieringConfiguration",
    "DeleteBucketInventoryConfiguration": "PutInventoryConfiguration",
    "DeleteBucketLifecycle": "PutLifecycleConfiguration",
    "DeleteBucketMetricsConfiguration": "PutMetricsConfiguration",
    "DeleteBucketOwnershipControls": "PutBucketOwnershipControls",
    "DeleteBucketReplication": "PutReplicationConfiguration",
    "DeleteBucketTagging": "PutBucketTagging",
    "DeletePublicAccessBlock": "PutBucketPublicAccessBlock",
    "GetBucketAccelerateConfiguration": "GetAccelerateConfiguration",
    "GetBucketAnalyticsConfiguration": "GetAnalyticsConfiguration",
    "GetBucketCors": "GetBucketCORS",
    "GetBucketEncryption": "GetEncryptionConfiguration",
    "GetBucketIntelligentTieringConfiguration": "GetIntelligentTieringConfiguration",
    "GetBucketInventoryConfiguration": "GetInventoryConfiguration",
    "GetBucketLifecycle": "GetLifecycleConfiguration",
    "GetBucketLifecycleConfiguration": "GetLifecycleConfiguration",
    "GetBucketMetricsConfiguration": "GetMetricsConfiguration",
    "GetBucketNotificationConfiguration": "GetBucketNotification",
    "GetBucketReplication": "GetReplicationConfiguration",
    "GetObjectLockConfiguration": "GetBucketObjectLockConfiguration",
    "GetPublicAccessBlock": "GetBucketPublicAccessBlock",
    "ListBucketAnalyticsConfigurations": "GetAnalyticsConfiguration",
    "ListBucketIntelligentTieringConfigurations": "GetIntelligentTieringConfiguration",
    "ListBucketInventoryConfigurations": "GetInventoryConfiguration",
    "ListBucketMetricsConfigurations": "GetMetricsConfiguration",
    "PutBucketAccelerateConfiguration": "PutAccelerateConfiguration",
    "PutBucketAnalyticsConfiguration": "PutAnalyticsConfiguration",
    "PutBucketCors": "PutBucketCORS",
    "PutBucketEncryption": "PutEncryptionConfiguration",
    "PutBucketIntelligentTieringConfiguration": "PutIntelligentTieringConfiguration",
    "PutBucketInventoryConfiguration": "PutInventoryConfiguration",
    "PutBucketLifecycle": "PutLifecycleConfiguration",
    "PutBucketLifecycleConfiguration": "PutLifecycleConfiguration",
    "PutBucketMetricsConfiguration": "PutMetricsConfiguration",
    "PutBucketNotificationConfiguration": "PutBucketNotification",
    "PutBucketReplication": "PutReplicationConfiguration",
    "PutObjectLockConfiguration": "PutBucketObjectLockConfiguration",
    "PutPublicAccessBlock": "PutBucketPublicAccessBlock",
}
_ON_OBJECT = {
    "HeadObject": "GetObject",
    "SelectObjectContent": "GetObject",
    "CreateMultipartUpload": "PutObject",
    "UploadPart": "PutObject",
    "CompleteMultipartUpload": "PutObject",
    "ListParts": "ListMultipartUploadParts",
}
# Reads and writes with a separate action for object versions.
_OF_VERSIONS = {
    "GetObject": "GetObjectVersion",
    "HeadObject": "GetObjectVersion",
    "DeleteObject": "DeleteObjectVersion",
    "GetObjectAcl": "GetObjectVersionAcl",
    "PutObjectAcl": "PutObjectVersionAcl",
    "GetObjectTagging": "GetObjectVersionTagging",
    "PutObjectTagging": "PutObjectVersionTagging",
    "DeleteObjectTagging": "DeleteObjectVersionTagging",
    "GetObjectAttributes": "GetObjectVersionAttributes",
}
_EVERYWHERE = {
    "ListBuckets": "s3:ListAllMyBuckets",
    "ListDirectoryBuckets": "s3express:ListAllMyDirectoryBuckets",
}
# Operations of directory buckets, whose actions belong to another service prefix.
_EXPRESS = ("CreateSession", "RenameObject")
_SPECIAL = ("DeleteObjects", "CopyObject", "UploadPartCopy", "WriteGetObjectResponse")
# Operations without an action of their name.
RENAMED = frozenset({*_ON_BUCKET, *_ON_OBJECT, *_EVERYWHERE, *_EXPRESS, *_SPECIAL})
_WRITES = ("PutObject", "CopyObject", "CreateMultipartUpload")
_GRANTS = ("GrantFullControl", "GrantRead", "GrantReadACP", "GrantWriteACP")
# The condition key for a parameter.
_KEYS = {
    "Prefix": "s3:prefix",
    "Delimiter": "s3:delimiter",
    "MaxKeys": "s3:max-keys",
    "VersionId": "s3:versionid",
    "ACL": "s3:x-amz-acl",
    "ServerSideEncryption": "s3:x-amz-server-side-encryption",
    "SSEKMSKeyId": "s3:x-amz-server-side-encryption-aws-kms-key-id",
    "StorageClass": "s3:x-amz-storage-class",
    "CopySource": "s3:x-amz-copy-source",
    "MetadataDirective": "s3:x-amz-metadata-directive",
    "ObjectLockMode": "s3:object-lock-mode",
    "IfNoneMatch": "s3:if-none-match",
    "IfMatch": "s3:if-match",
}


def s3_permissions(request: Request) -> tuple[RequiredPermission, ...] | None:
    """Return the permissions that an operation needs; None when its action has its name."""
    operation = request.operation
    if operation in _EVERYWHERE:
        return (RequiredPermission(_EVERYWHERE[operation], ("*",)),)
    if operation in _ON_BUCKET:
        return (_on_bucket(request, _ON_BUCKET[operation]),)
    if operation == "DeleteObjects":
        return _deletions(request)
    if operation in _WRITES:
        return _writes(request)
    if operation == "UploadPartCopy":
        return (_on_object(request, "PutObject"), *_list_copy_permissions(request))
    if operation in _EXPRESS:
        return (RequiredPermission("s3express:CreateSession", (_bucket(request),)),)
    if operation == "WriteGetObjectResponse":
        return (RequiredPermission("s3-object-lambda:WriteGetObjectResponse", ("*",)),)
    if request.text("VersionId") and operation in _OF_VERSIONS:
        return (_on_object(request, _OF_VERSIONS[operation]),)
    if request.text("Key"):
        return _on_key(request)
    return None if "Bucket" not in request.parameters else (_on_bucket(request, operation),)


def _on_key(request: Request) -> tuple[RequiredPermission, ...]:
    own = _on_object(request, _ON_OBJECT.get(request.operation, request.operation))
    if request.operation == "GetObjectAttributes":
        return (own, _on_object(request, "GetObject"))
    return (own,)


def _bucket(request: Request) -> str:
    name = request.text("Bucket")
    return name if name.startswith("arn:") else bucket_arn(request.region, name)


def _on_bucket(request: Request, action: str) -> RequiredPermission:
    context = {
        _KEYS[name]: (str(value),)
        for name, value in request.parameters.items()
        if name in _KEYS and value not in (None, "")
    }
    return RequiredPermission(f"s3:{action}", (_bucket(request),), context)


def _on_object(request: Request, action: str, key: str | None = None) -> RequiredPermission:
    bucket = _bucket(request)
    separator = "/object/" if ":accesspoint/" in bucket else "/"
    name = request.text("Key") if key is None else key
    context = dict(_on_bucket(request, action).context)
    tags = dict(parse_qsl(request.text("Tagging"), keep_blank_values=True))
    if tags:
        context |= {f"s3:requestobjecttag/{k.lower()}": (v,) for k, v in tags.items()}
        context["s3:requestobjecttagkeys"] = tuple(tags)
    return RequiredPermission(f"s3:{action}", (f"{bucket}{separator}{name}",), context)


def _writes(request: Request) -> tuple[RequiredPermission, ...]:
    row = [_on_object(request, "PutObject")]
    if request.operation == "CopyObject":
        row.extend(_list_copy_permissions(request))
    if request.text("Tagging"):
        row.append(_on_object(request, "PutObjectTagging"))
    if request.text("ACL") or any(request.text(name) for name in _GRANTS):
        row.append(_on_object(request, "PutObjectAcl"))
    if request.text("ObjectLockMode"):
        row.append(_on_object(request, "PutObjectRetention"))
    if request.text("ObjectLockLegalHoldStatus"):
        row.append(_on_object(request, "PutObjectLegalHold"))
    return tuple(row)


def _list_copy_permissions(request: Request) -> tuple[RequiredPermission, ...]:
    """Return the permissions that reading the source of a copy needs."""
    source, version = _source(request)
    if not source:
        return ()
    row = [RequiredPermission("s3:GetObjectVersion" if version else "s3:GetObject", (source,))]
    if request.operation == "CopyObject" and request.text("TaggingDirective") != "REPLACE":
        row.append(
            RequiredPermission(
                "s3:GetObjectVersionTagging" if version else "s3:GetObjectTagging", (source,)
            )
        )
    return tuple(row)


def _source(request: Request) -> tuple[str, str]:
    """Return the ARN and the version that CopySource names (`bucket/key?versionId=v`, a mapping in boto3)."""
    source: Any = request.parameters.get("CopySource", "")
    if isinstance(source, dict):
        named = cast("dict[str, Any]", source)
        return bucket_arn(request.region, f"{named['Bucket']}/{named['Key']}"), str(
            named.get("VersionId", "")
        )
    path, _, version = str(source).partition("?versionId=")
    path = unquote(path).lstrip("/")
    if path.startswith("arn:"):
        return path, version
    return (bucket_arn(request.region, path) if path else ""), version


def _deletions(request: Request) -> tuple[RequiredPermission, ...]:
    listed: Any = request.parameters.get("Delete") or {}
    row: dict[tuple[str, str], RequiredPermission] = {}
    for entry in listed.get("Objects") or ():
        action = "DeleteObjectVersion" if entry.get("VersionId") else "DeleteObject"
        row[(action, str(entry.get("Key", "")))] = _on_object(
            request, action, str(entry.get("Key", ""))
        )
    return tuple(row.values())
