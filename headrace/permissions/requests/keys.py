"""The KMS actions that a request needs because what it touches is encrypted with a customer's key.

Sources: streams/latest/dev/permissions-user-key-KMS.html, AmazonS3/latest/userguide/UsingKMSEncryption.html,
AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html, sns/latest/dg/sns-key-management.html,
secretsmanager/latest/userguide/security-encryption.html, firehose/latest/dev/encryption.html (of PutRecord's callers:
AWS's notice of April 2026, github.com/ministryofjustice/modernisation-platform/issues/12960),
kms/latest/developerguide/services-parameter-store.html.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.permissions.requests.lambda_ import key_arn
from headrace.permissions.requests.request import Need, Request

_READS = ("kms:Decrypt",)
_WRITES = ("kms:GenerateDataKey",)
_BOTH = ("kms:GenerateDataKey", "kms:Decrypt")
# What a service does with the key for its caller; `find(service, "key", resource)` says which key that is.
_NEEDS: dict[str, tuple[str, ...]] = {
    "kinesis:PutRecord": _WRITES,
    "kinesis:PutRecords": _WRITES,
    "kinesis:GetRecords": _READS,
    "kinesis:SubscribeToShard": _READS,
    "s3:PutObject": _WRITES,
    "s3:GetObject": _READS,
    "s3:GetObjectVersion": _READS,
    "firehose:PutRecord": _BOTH,
    "firehose:PutRecordBatch": _BOTH,
    "sqs:SendMessage": _BOTH,
    "sqs:ReceiveMessage": _READS,
    "sns:Publish": _BOTH,
    "secretsmanager:GetSecretValue": _READS,
    "secretsmanager:PutSecretValue": _BOTH,
    "ssm:GetParameter": _READS,
    "ssm:GetParameters": _READS,
    "ssm:GetParametersByPath": _READS,
}
# S3 reads back the parts of an upload that it puts together.
_OF_PARTS = ("UploadPart", "UploadPartCopy", "CreateMultipartUpload", "CompleteMultipartUpload")


def key_needs(request: Request, needs: Iterable[Need]) -> Iterator[Need]:
    """Yield what the needs bring with them on keys, each once."""
    seen: set[tuple[str, str]] = set()
    for need in needs:
        actions = _NEEDS.get(need.action, ())
        if request.operation in _OF_PARTS:
            actions = _BOTH
        for resource in need.resources or () if actions else ():
            key = _key_of(request, need, resource)
            for action in actions if key else ():
                if (action, key) not in seen:
                    seen.add((action, key))
                    yield Need(action, (key,), _context(request, need))


def actions_on_key(action: str) -> tuple[str, ...]:
    """Return what a service does with the key of a resource for whoever does `action` on it."""
    return _NEEDS.get(action, ())


def kind_of_key(action: str) -> str:
    """Return the kind of key to look for: an object is read with the key that it was written with."""
    return "object key" if action in ("s3:GetObject", "s3:GetObjectVersion") else "key"


def keys_of_service(service: str, account: str, region: str) -> dict[str, tuple[str, ...]]:
    """Return the condition keys that a service adds when it uses a key for its caller."""
    return {
        "kms:viaservice": (f"{service}.{region}.amazonaws.com",),
        "kms:calleraccount": (account,),
    }


def _key_of(request: Request, need: Need, resource: str) -> str:
    """Return the ARN of the customer's key of a resource; empty for AWS's own keys and for none."""
    if need.action == "s3:PutObject" and request.text("SSEKMSKeyId"):
        return key_arn(request, request.text("SSEKMSKeyId"))
    if need.action == "s3:PutObject" and request.text("ServerSideEncryption") == "AES256":
        return ""
    return request.find(need.action.partition(":")[0], kind_of_key(need.action), resource) or ""


def _context(request: Request, need: Need) -> dict[str, tuple[str, ...]]:
    return keys_of_service(need.action.partition(":")[0], request.account, request.region)
