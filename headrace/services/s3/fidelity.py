"""The parameters that S3 accepts without acting on them, by operation; all others are enforced.

More differences from AWS: objects are plain files and not encrypted, so an ETag is the MD5 of the bytes even with KMS
or customer-provided keys. ACLs are stored and returned, but never allow or refuse a request; policies refuse requests
only with `--iam enforce`. Signatures of requests are checked only with `--auth`. A bucket's replication, logging,
metrics, analytics, inventory and tiering configurations are stored but have no effect. Websites are served at
`bucket.s3-website.localhost`. Browsers' forms are accepted without verifying their signatures. A key that cannot be a
file's path, or whose path is a folder of another key (`a` beside `a/b`), is an object for every API client, but Spark,
which reads the files, does not see it.
"""

from headrace.core.ports import FidelityLevel
from headrace.moto.without_effect import S3_ROWS

_GRANTS: dict[str, FidelityLevel] = {
    "ACL": "stored",
    "GrantFullControl": "stored",
    "GrantRead": "stored",
    "GrantReadACP": "stored",
    "GrantWriteACP": "stored",
}
_WRITES: dict[str, FidelityLevel] = {
    **_GRANTS,
    "ServerSideEncryption": "stored",
    "SSEKMSKeyId": "stored",
    "SSEKMSEncryptionContext": "ignored",
    "BucketKeyEnabled": "stored",
    "ObjectLockEventHold": "ignored",
    "ObjectLockEventHoldDurationDays": "ignored",
    "ObjectLockEventHoldDurationYears": "ignored",
}
_ACLS: dict[str, FidelityLevel] = {
    **_GRANTS,
    "GrantWrite": "stored",
    "AccessControlPolicy": "stored",
}
# The operations that have RequestPayer: headrace charges nobody.
_PAYING = (
    "AbortMultipartUpload",
    "CompleteMultipartUpload",
    "CopyObject",
    "CreateMultipartUpload",
    "DeleteObject",
    "DeleteObjects",
    "GetBucketAccelerateConfiguration",
    "GetObject",
    "GetObjectAcl",
    "GetObjectAttributes",
    "GetObjectLegalHold",
    "GetObjectRetention",
    "GetObjectTagging",
    "HeadObject",
    "ListMultipartUploads",
    "ListObjectVersions",
    "ListObjects",
    "ListObjectsV2",
    "ListParts",
    "PutObject",
    "PutObjectAcl",
    "PutObjectLegalHold",
    "PutObjectLockConfiguration",
    "PutObjectRetention",
    "PutObjectTagging",
    "RestoreObject",
    "UploadPart",
    "UploadPartCopy",
)
# headrace cannot compute these checksums. CompleteMultipartUpload ignores them; UploadPart and PutObject refuse them.
_XXHASH: dict[str, FidelityLevel] = {
    "ChecksumXXHASH64": "ignored",
    "ChecksumXXHASH3": "ignored",
    "ChecksumXXHASH128": "ignored",
}

_OWN: dict[str, dict[str, FidelityLevel]] = {
    "AbortMultipartUpload": {"IfMatchInitiatedTime": "ignored"},
    "CompleteMultipartUpload": _XXHASH,
    "CopyObject": {**_WRITES, "AnnotationDirective": "ignored"},
    "CreateBucket": {**_GRANTS, "GrantWrite": "stored", "BucketNamespace": "ignored"},
    "CreateMultipartUpload": _WRITES,
    "DeleteObject": {"MFA": "ignored"},
    "DeleteObjects": {"MFA": "ignored"},
    "ListObjectVersions": {"OptionalObjectAttributes": "ignored"},
    "ListObjects": {"OptionalObjectAttributes": "ignored"},
    "ListObjectsV2": {"OptionalObjectAttributes": "ignored"},
    "PutBucketAccelerateConfiguration": {"AccelerateConfiguration": "stored"},
    "PutBucketAcl": _ACLS,
    "PutBucketEncryption": {"ServerSideEncryptionConfiguration": "stored"},
    "PutBucketAnalyticsConfiguration": {"AnalyticsConfiguration": "stored"},
    "PutBucketIntelligentTieringConfiguration": {"IntelligentTieringConfiguration": "stored"},
    "PutBucketInventoryConfiguration": {"InventoryConfiguration": "stored"},
    "PutBucketMetricsConfiguration": {"MetricsConfiguration": "stored"},
    "PutBucketLogging": {"BucketLoggingStatus": "stored"},
    "PutBucketPolicy": {"ConfirmRemoveSelfBucketAccess": "ignored"},
    "PutBucketReplication": {"ReplicationConfiguration": "stored", "Token": "ignored"},
    "PutBucketRequestPayment": {"RequestPaymentConfiguration": "stored"},
    "PutBucketVersioning": {"VersioningConfiguration.MFADelete": "stored", "MFA": "ignored"},
    "PutObject": {**_WRITES, "WriteOffsetBytes": "ignored"},
    "PutObjectAcl": _ACLS,
    "PutObjectLockConfiguration": {"Token": "ignored"},
    "PutPublicAccessBlock": {"PublicAccessBlockConfiguration": "stored"},
    "RestoreObject": {"RestoreRequest.Tier": "ignored", "RestoreRequest.OutputLocation": "ignored"},
}

FIDELITY_NOTES = {f"{row.operation}.{row.member}": row.sentence for row in S3_ROWS}

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    name: {
        **_OWN.get(name, {}),
        **({"RequestPayer": "ignored"} if name in _PAYING else {}),
    }
    for name in sorted({*_OWN, *_PAYING})
}
