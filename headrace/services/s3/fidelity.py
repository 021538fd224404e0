"""The parameters that S3 accepts without acting on them, by operation; all others are enforced.

Besides: a request's signature is checked with `--auth` only; there is no access control.
Keys that cannot be a file's path, and keys whose path is another's folder (`a` beside `a/b`), are objects to
every client of the API, but Spark, which reads the files, does not see them.
"""

from headrace.core.ports import FidelityLevel

_ACCESS: dict[str, FidelityLevel] = {
    "ACL": "ignored",
    "GrantFullControl": "ignored",
    "GrantRead": "ignored",
    "GrantReadACP": "ignored",
    "GrantWriteACP": "ignored",
}
_STORAGE: dict[str, FidelityLevel] = {
    "StorageClass": "ignored",
    "ServerSideEncryption": "ignored",
    "SSEKMSKeyId": "ignored",
    "SSEKMSEncryptionContext": "ignored",
    "SSECustomerAlgorithm": "ignored",
    "SSECustomerKey": "ignored",
    "SSECustomerKeyMD5": "ignored",
    "BucketKeyEnabled": "ignored",
    "ObjectLockMode": "ignored",
    "ObjectLockRetainUntilDate": "ignored",
    "ObjectLockLegalHoldStatus": "ignored",
    "RequestPayer": "ignored",
    "ExpectedBucketOwner": "ignored",
}
# The standard library computes CRC32, SHA1 and SHA256, which are enforced.
_CHECKSUMS: dict[str, FidelityLevel] = {"ChecksumCRC32C": "stored", "ChecksumCRC64NVME": "stored"}

_WHOLE_CHECKSUMS: dict[str, FidelityLevel] = {
    "ChecksumCRC32": "ignored",
    "ChecksumCRC32C": "ignored",
    "ChecksumCRC64NVME": "ignored",
    "ChecksumSHA1": "ignored",
    "ChecksumSHA256": "ignored",
    "ChecksumType": "ignored",
    "MpuObjectSize": "ignored",
}

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    "CreateBucket": {**_ACCESS, "GrantWrite": "ignored", "ObjectLockEnabledForBucket": "stored"},
    "PutBucketVersioning": {"VersioningConfiguration.MFADelete": "stored", "MFA": "ignored"},
    "PutBucketEncryption": {"ServerSideEncryptionConfiguration": "stored"},
    "PutBucketLifecycleConfiguration": {"LifecycleConfiguration": "stored"},
    "PutBucketPolicy": {"Policy": "stored"},
    "PutPublicAccessBlock": {"PublicAccessBlockConfiguration": "stored"},
    "PutBucketOwnershipControls": {"OwnershipControls": "stored"},
    "PutBucketLogging": {"BucketLoggingStatus": "stored"},
    "PutBucketWebsite": {"WebsiteConfiguration": "stored"},
    "PutBucketReplication": {"ReplicationConfiguration": "stored"},
    "PutBucketAccelerateConfiguration": {"AccelerateConfiguration": "stored"},
    "PutBucketRequestPayment": {"RequestPaymentConfiguration": "stored"},
    "PutObjectLockConfiguration": {"ObjectLockConfiguration": "stored"},
    "PutObject": {**_ACCESS, **_STORAGE, **_CHECKSUMS, "WriteOffsetBytes": "ignored"},
    "CopyObject": {**_ACCESS, **_STORAGE},
    "CreateMultipartUpload": {**_ACCESS, **_STORAGE},
    "UploadPart": {**_CHECKSUMS},
    "CompleteMultipartUpload": _WHOLE_CHECKSUMS,
    "DeleteObject": {"MFA": "ignored", "BypassGovernanceRetention": "ignored"},
    "DeleteObjects": {"MFA": "ignored", "BypassGovernanceRetention": "ignored"},
}
