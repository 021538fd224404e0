"""What S3 accepts without acting on it. Operation -> parameter -> level; the rest is enforced."""

from headrace.core.ports import FidelityLevel

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    "PutBucketVersioning": {"VersioningConfiguration": "stored"},
    "PutBucketEncryption": {"ServerSideEncryptionConfiguration": "stored"},
    "PutBucketLifecycleConfiguration": {"LifecycleConfiguration": "stored"},
    "PutBucketNotificationConfiguration": {"NotificationConfiguration": "stored"},
    "PutBucketPolicy": {"Policy": "stored"},
    "PutPublicAccessBlock": {"PublicAccessBlockConfiguration": "stored"},
    "PutBucketLogging": {"BucketLoggingStatus": "stored"},
    "PutBucketCors": {"CORSConfiguration": "stored"},
    "PutObject": {
        "ACL": "ignored",
        "StorageClass": "ignored",
        "ServerSideEncryption": "ignored",
        "SSEKMSKeyId": "ignored",
        "ChecksumCRC32C": "stored",
        "ChecksumCRC64NVME": "stored",
    },
}
