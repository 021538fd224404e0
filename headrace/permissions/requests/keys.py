"""The KMS actions that a request needs because its resource is encrypted with a customer's key.

Sources: streams/latest/dev/permissions-user-key-KMS.html, AmazonS3/latest/userguide/UsingKMSEncryption.html,
streams/latest/dev/queues-iam.html,
AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html, sns/latest/dg/sns-key-management.html,
secretsmanager/latest/userguide/security-encryption.html, firehose/latest/dev/encryption.html (of PutRecord's callers:
AWS's notice of April 2026, github.com/ministryofjustice/modernisation-platform/issues/12960),
kms/latest/developerguide/services-parameter-store.html, amazondynamodb/latest/developerguide/encryption.usagenotes.html
(the table's key is decrypted for each principal), and each service's own on its encryption context.

The KMS actions that a service does for a caller with a resource's key, and the grants that allow them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from headrace.permissions.policies.model import Access, Context, Principal
from headrace.permissions.requests.lambda_ import key_arn
from headrace.permissions.requests.table import Request, RequiredPermission

ENCRYPTION_CONTEXT = "kms:encryptioncontext:"
_READS = ("kms:Decrypt",)
_WRITES = ("kms:GenerateDataKey",)
_BOTH = ("kms:GenerateDataKey", "kms:Decrypt")
# The KMS actions that a service does for its caller; `find(service, "key", resource)` finds the key.
_NEEDS: dict[str, tuple[str, ...]] = {
    "kinesis:PutRecord": _WRITES,
    "kinesis:PutRecords": _WRITES,
    "kinesis:GetRecords": _READS,
    "kinesis:SubscribeToShard": _READS,
    "kinesis:ReceiveQueueRecords": _READS,
    "kinesis:ReceiveDeadLetterQueueRecords": _READS,
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
    **dict.fromkeys(
        (
            "dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query", "dynamodb:Scan", "dynamodb:PutItem",
            "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:BatchWriteItem", "dynamodb:ConditionCheckItem",
            "dynamodb:PartiQLSelect", "dynamodb:PartiQLInsert", "dynamodb:PartiQLUpdate", "dynamodb:PartiQLDelete",
        ),
        _READS,
    ),
}  # fmt: skip
# By service: the name of the resource in the encryption context that the service passes to KMS.
_CONTEXTS = {
    "kinesis": "aws:kinesis:arn",
    "s3": "aws:s3:arn",
    "sqs": "aws:sqs:arn",
    "sns": "aws:sns:topicArn",
    "secretsmanager": "SecretARN",
    "ssm": "PARAMETER_ARN",
}
# Creating a table needs permission to describe the key and to create a grant (encryption.usagenotes.html).
_ON_NEW_TABLES = ("kms:DescribeKey", "kms:CreateGrant")
# S3 decrypts the parts of a multipart upload when it completes it.
_OF_PARTS = ("UploadPart", "UploadPartCopy", "CreateMultipartUpload", "CompleteMultipartUpload")


def key_permissions(
    request: Request, permissions: Iterable[RequiredPermission]
) -> Iterator[RequiredPermission]:
    """Yield the permissions on keys that other permissions imply, each once."""
    seen: set[tuple[str, str]] = set()
    yield from _table_key_permissions(request)
    for permission in permissions:
        actions = _NEEDS.get(permission.action, ())
        if request.operation in _OF_PARTS:
            actions = _BOTH
        for resource in permission.resources or () if actions else ():
            key = _key_of(request, permission, resource)
            for action in actions if key else ():
                if (action, key) not in seen:
                    seen.add((action, key))
                    yield RequiredPermission(
                        action, (key,), _context(request, permission, resource)
                    )


def _table_key_permissions(request: Request) -> Iterator[RequiredPermission]:
    """Yield the permissions that encrypting a table with a customer's key needs."""
    if request.service != "dynamodb" or request.operation not in ("CreateTable", "UpdateTable"):
        return
    encryption: Any = request.parameters.get("SSESpecification")
    named = ""
    if isinstance(encryption, Mapping):
        named = str(cast("Mapping[str, Any]", encryption).get("KMSMasterKeyId") or "")
    key = "" if not named or "alias/aws/" in named else key_arn(request, named)
    for action in _ON_NEW_TABLES if key else ():
        table = request.arn("dynamodb", f"table/{request.text('TableName')}")
        yield RequiredPermission(
            action, (key,), keys_of_service("dynamodb", request.account, request.region, table)
        )


def actions_on_key(action: str) -> tuple[str, ...]:
    """Return the KMS actions on a resource's key that a service does for a caller of `action`."""
    return _NEEDS.get(action, ())


def kind_of_key(action: str) -> str:
    """Return the kind of key to find: an object is read with the key with which it was written."""
    return "object key" if action in ("s3:GetObject", "s3:GetObjectVersion") else "key"


def keys_of_service(
    service: str, account: str, region: str, resource: str = ""
) -> dict[str, tuple[str, ...]]:
    """Return the condition keys that a service adds when it uses a key for its caller, on a resource's behalf."""
    keys: dict[str, tuple[str, ...]] = {
        "kms:viaservice": (f"{service}.{region}.amazonaws.com",),
        "kms:calleraccount": (account,),
    }
    context = context_of(service, resource) if resource else {}
    for name, value in context.items():
        keys[f"{ENCRYPTION_CONTEXT}{name.lower()}"] = (value,)
    if context:
        keys["kms:encryptioncontextkeys"] = tuple(context)
    return keys


def context_of(service: str, resource: str) -> dict[str, str]:
    """Return the encryption context in which a service uses a resource's key; {} when none is documented."""
    if service == "dynamodb" and ":table/" in resource:
        account, name = resource.split(":")[4], resource.partition(":table/")[2].partition("/")[0]
        return {"aws:dynamodb:tableName": name, "aws:dynamodb:subscriberId": account}
    name = _CONTEXTS.get(service)
    return {} if name is None else {name: resource}


def _key_of(request: Request, permission: RequiredPermission, resource: str) -> str:
    """Return the ARN of the customer's key of a resource; empty for AWS's own keys and without encryption."""
    upload_id = request.text("UploadId")
    if permission.action == "s3:PutObject" and upload_id:
        return request.find("s3", "upload key", f"{resource} {upload_id}") or ""
    if permission.action == "s3:PutObject" and request.text("SSEKMSKeyId"):
        return key_arn(request, request.text("SSEKMSKeyId"))
    if permission.action == "s3:PutObject" and (
        request.text("ServerSideEncryption") or request.text("SSECustomerAlgorithm")
    ):
        return ""  # SSE-S3, the AWS managed key aws/s3, or SSE-C with a key in the request
    return (
        request.find(permission.action.partition(":")[0], kind_of_key(permission.action), resource)
        or ""
    )


def _context(
    request: Request, permission: RequiredPermission, resource: str
) -> dict[str, tuple[str, ...]]:
    service = permission.action.partition(":")[0]
    if service == "s3":
        resource = request.find("s3", "key scope", resource) or resource
    elif ":queue/" in resource and service == "kinesis":
        resource = request.find("kinesis", "queue's stream", resource) or resource
    return keys_of_service(service, request.account, request.region, resource)


# Finds, in an account and a region, a resource that a request names without an ARN.
FindIn = Callable[[str, str, str, str, str], str | None]


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant on a key.

    Attributes:
        grantee: the principal's ARN.
        operations: the allowed operations, by KMS's names (`Decrypt`).
        equals: the exact encryption context that a use must have; None without this constraint.
        subset: the pairs that the encryption context of a use must contain.
    """

    grantee: str
    operations: tuple[str, ...]
    equals: Mapping[str, str] | None = None
    subset: Mapping[str, str] = field(default_factory=dict[str, str])

    def lets(self, context: Mapping[str, str]) -> bool:
        """Whether a use in an encryption context meets the constraints.

        Source: kms/latest/APIReference/API_GrantConstraints.html. KMS compares names case-sensitively; headrace does
        not, since it has the context as condition keys.
        """
        if self.equals is not None and _lower_names(self.equals) != context:
            return False
        return _lower_names(self.subset).items() <= context.items()


# Returns the grants on a key.
Grants = Callable[[str], Iterable[Grant]]


def _lower_names(context: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in context.items()}


def with_keys(access: Access, keys: Context) -> Access:
    """Return an access with more condition keys."""
    return replace(access, context={**access.context, **keys})


def use_of_key(service: str, action: str, key: str, resource: str = "") -> Access:
    """Return the access to a key, given by ARN, that a service makes for its caller and a resource."""
    region, account = key.split(":", 5)[3:5]
    return with_keys(Access.to(action, key), keys_of_service(service, account, region, resource))


def uses_of_key(find: FindIn, action: str, resource: str) -> Iterator[Access]:
    """Yield the accesses to the customer's key that `action` on an encrypted resource needs."""
    on_key = actions_on_key(action)
    if not on_key:
        return
    service = action.partition(":")[0]
    key = find("", "", service, kind_of_key(action), resource)
    scope = find("", "", service, "key scope", resource) if service == "s3" else None
    for name in on_key if key else ():
        yield use_of_key(service, name, key or "", scope or resource)


def is_granted(grants: Grants, principal: Principal, access: Access) -> bool:
    """Whether a grant on a key allows a caller an access to it."""
    if not access.action.startswith("kms:") or not access.resource.startswith("arn:"):
        return False
    names = {principal.arn, principal.identity_arn}
    operation = access.action.removeprefix("kms:")
    start = len(ENCRYPTION_CONTEXT)
    context = {
        key[start:]: values[0]
        for key, values in access.context.items()
        if key.startswith(ENCRYPTION_CONTEXT)
    }
    return any(
        grant.grantee in names and operation in grant.operations and grant.lets(context)
        for grant in grants(access.resource)
    )
