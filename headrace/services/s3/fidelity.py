"""The parameters that S3 accepts without acting on them, by operation; all others are enforced.

Besides: nothing is encrypted, since objects are plain files, so an ETag is the MD5 of the bytes with KMS and customers'
keys too; ACLs and policies are kept and shown but let nobody in or out; a request's signature is checked with `--auth`
only; a bucket's replication, logging, metrics, analytics, inventories and tiers are kept only. Websites are answered
under `bucket.s3-website.localhost`; browsers' forms are taken, and their signatures not verified.
Keys that cannot be a file's path, and keys whose path is another's folder (`a` beside `a/b`), are objects to
every client of the API, but Spark, which reads the files, does not see them.
"""

from headrace.core.ports import FidelityLevel

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
# Nobody pays here.
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
# Algorithms whose checksums of a whole upload are not built; UploadPart and PutObject refuse them.
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

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    name: {
        **_OWN.get(name, {}),
        **({"RequestPayer": "ignored"} if name in _PAYING else {}),
    }
    for name in sorted({*_OWN, *_PAYING})
}
