"""The KMS actions that a request needs because what it touches is encrypted with a customer's key.

Sources: streams/latest/dev/permissions-user-key-KMS.html, AmazonS3/latest/userguide/UsingKMSEncryption.html,
AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html, sns/latest/dg/sns-key-management.html,
secretsmanager/latest/userguide/security-encryption.html, kms/latest/developerguide/services-parameter-store.html.
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


def _key_of(request: Request, need: Need, resource: str) -> str:
    """Return the ARN of the customer's key of a resource; empty for AWS's own keys and for none."""
    if need.action == "s3:PutObject" and request.text("SSEKMSKeyId"):
        return key_arn(request, request.text("SSEKMSKeyId"))
    return request.find(need.action.partition(":")[0], "key", resource) or ""


def _context(request: Request, need: Need) -> dict[str, tuple[str, ...]]:
    service = need.action.partition(":")[0]
    return {
        "kms:viaservice": (f"{service}.{request.region}.amazonaws.com",),
        "kms:calleraccount": (request.account,),
    }
