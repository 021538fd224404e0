"""Builds S3 from its parts, describes it to the gateway and the cloud, and says what it accepts without acting on it.

Finds the KMS key of a bucket, an object or a multipart upload.

More differences from AWS: objects are plain files and not encrypted, so an ETag is the MD5 of the bytes even with KMS
or customer-provided keys. ACLs are stored and returned, but never allow or refuse a request; policies refuse requests
only with `--iam enforce`. Signatures of requests are checked only with `--auth`. A bucket's replication, logging,
metrics, analytics, inventory and tiering configurations are stored but have no effect. Websites are served at
`bucket.s3-website.localhost`. Browsers' forms are accepted without verifying their signatures. A key that cannot be a
file's path, or whose path is a folder of another key (`a` beside `a/b`), is an object for every API client, but Spark,
which reads the files, does not see it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from headrace.aws.calls.errors import FaultErrors
from headrace.aws.protocols.owned_service import Strictness
from headrace.aws.protocols.service import Profile, ServiceApi
from headrace.core.arn import bucket_arn, s3_path_of
from headrace.core.clock import Clock
from headrace.core.config import Durability
from headrace.core.ids import Ids
from headrace.core.ports import FidelityLevel, Guard, PrincipalCheck, accept_principal
from headrace.moto.without_effect import S3_ROWS
from headrace.services.s3.actions import ACTIONS
from headrace.services.s3.actions.configurations import policy_of
from headrace.services.s3.backend import S3
from headrace.services.s3.encryption import Keys
from headrace.services.s3.errors import translate
from headrace.services.s3.fast_path import Admit, RawRequests
from headrace.services.s3.files import ObjectFiles
from headrace.services.s3.history import Histories
from headrace.services.s3.notification_rules import Targets
from headrace.services.s3.notifications import Notifications
from headrace.services.s3.object_reads import may_be_quick
from headrace.services.s3.store import Buckets, HistoryIndex, ObjectIndex
from headrace.services.s3.uploads import Uploads
from headrace.store.database import Database


def find_key(s3: S3, kind: str, resource: str) -> tuple[str, str, str]:
    """Return the id or ARN of a key, its account and region; "" without one. Raises LookupError, AwsError.

    `kind` is `object key` for the key with which an object was written, `key` for the key of the next write, or
    `upload key` for the key of a multipart upload, whose id follows the ARN after a space. For `key scope` it returns
    the ARN of the bucket, without an account, when the bucket has one S3 Bucket Key for all objects.
    """
    name, _, key = s3_path_of(resource).partition("/")
    bucket = s3.bucket(name)
    if kind == "key scope":
        return bucket_arn(bucket.region, name) if bucket.has_bucket_key else "", "", ""
    if kind == "upload key":
        key, _, upload_id = key.rpartition(" ")
        named = str(s3.uploads.find(name, key, upload_id).encryption.get("key") or "")
    elif kind == "object key":
        named = str(s3.object(name, key).encryption.get("key") or "")
    else:
        named = bucket.default_key
    return named, bucket.account, bucket.region


PROFILE = Profile(
    signing_scopes=("s3express", "s3-object-lambda", "s3-outposts"),
    takes_the_rest=True,
    # Browsers send preflight requests (OPTIONS) without a signature.
    unsigned_methods=frozenset({"OPTIONS"}),
    fault_errors=FaultErrors(
        throttle=("SlowDown", "Please reduce your request rate.", 503),
        error=("InternalError", "We encountered an internal error. Please try again.", 500),
    ),
)


def build_s3(
    *,
    data_dir: Path,
    clock: Clock,
    ids: Ids,
    database: Database,
    durability: Durability = "os",
    keys: Keys | None = None,
    targets: Targets | None = None,
    guard: Guard | None = None,
    has_principal: PrincipalCheck = accept_principal,
) -> S3:
    """Return S3 with its parts. `S3.start` loads the buckets."""
    index = ObjectIndex(database)
    files = ObjectFiles(data_dir, ids=ids, index=index, durability=durability)
    return S3(
        clock=clock,
        buckets=Buckets(database),
        files=files,
        uploads=Uploads(data_dir, clock=clock, ids=ids, database=database, settle=files.settle),
        notifications=Notifications(
            clock=clock, ids=ids, database=database, targets=targets, guard=guard
        ),
        histories=Histories(files, HistoryIndex(database), ids),
        keys=keys,
        has_principal=has_principal,
    )


def s3_api(
    s3: S3,
    *,
    strict: bool = False,
    admit: Admit | None = None,
    before_policies_change: Callable[[], None] = lambda: None,
) -> ServiceApi:
    """Return the service for the gateway.

    `admit`: notes who signed a browser's form, in the form's fields. `before_policies_change`: see `Permissions`.
    """
    strictness = Strictness.of("s3", ACTIONS, FIDELITY) if strict else None
    return ServiceApi(
        name="s3",
        backend=s3,
        actions=ACTIONS,
        translate=translate,
        profile=PROFILE,
        fidelity=FIDELITY,
        fidelity_notes=FIDELITY_NOTES,
        raw=RawRequests(s3, ACTIONS, strictness, admit, before_policies_change).answer_raw,
        may_be_quick=may_be_quick,
        policy_of=functools.partial(policy_of, s3),
        key_of=functools.partial(find_key, s3),
    )


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
