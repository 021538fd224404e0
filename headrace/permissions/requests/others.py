"""Moto's services whose requests need more than the table says: SQS, SNS, DynamoDB, KMS, Logs, IAM, and so on.

Source: each service's page of the Service Authorization Reference (docs.aws.amazon.com/service-authorization/latest/
reference/list_SERVICE.html); other sources are named where they are used.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from headrace.core.arn import bucket_arn, make_arn, partition_of
from headrace.permissions.requests.lambda_ import key_arn
from headrace.permissions.requests.table import Request, RequiredPermission

RequiredPermissions = tuple[RequiredPermission, ...] | None
_PARTIQL = re.compile(r"\s*(select|insert|update|delete|exists)\b", re.IGNORECASE)
_PARTIQL_NAME = r'(?:"([^"]+)"|(\w+))'
_PARTIQL_TABLE = re.compile(
    rf"\b(?:from|into|update)\s+{_PARTIQL_NAME}(?:\s*\.\s*{_PARTIQL_NAME})?", re.IGNORECASE
)


# --- queues and topics ----------------------------------------------------------------------------

_SQS_BATCHES = {
    "SendMessageBatch": "SendMessage",
    "DeleteMessageBatch": "DeleteMessage",
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibility",
}


def sqs_permissions(request: Request) -> RequiredPermissions:
    """A queue's URL ends in its account and its name; batches need the single action (SendMessageBatch's reference)."""
    action = f"sqs:{_SQS_BATCHES.get(request.operation, request.operation)}"
    url = request.text("QueueUrl")
    if url:
        account, _, name = url.rstrip("/").rpartition("/")
        account = account.rpartition("/")[2]
        owner = account if account.isdigit() else request.account
        return (RequiredPermission(action, (make_arn("sqs", request.region, owner, name),)),)
    return None


def sns_permissions(request: Request) -> RequiredPermissions:
    """A message goes to a topic, an endpoint, or a telephone number, which is not a resource."""
    if request.operation in ("Publish", "PublishBatch"):
        target = request.text("TopicArn") or request.text("TargetArn")
        return (RequiredPermission("sns:Publish", (target or "*",)),)
    if request.operation == "Subscribe":
        names = {"Protocol": "sns:protocol", "Endpoint": "sns:endpoint"}
        context = {key: (request.text(name),) for name, key in names.items() if request.text(name)}
        return (RequiredPermission("sns:Subscribe", (request.text("TopicArn"),), context),)
    if request.text("SubscriptionArn"):  # a subscription's ARN is the topic's ARN and an id
        topic = request.text("SubscriptionArn").rpartition(":")[0]
        return (RequiredPermission(f"sns:{request.operation}", (topic,)),)
    return None


# --- DynamoDB -------------------------------------------------------------------------------------

_OF_TRANSACTION = {
    "Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem",
    "Get": "GetItem",
}  # fmt: skip


def dynamodb_permissions(request: Request) -> RequiredPermissions:
    """A batch needs an action for each table, a query of an index needs the index, PartiQL needs one for each verb."""
    operation, parameters = request.operation, request.parameters
    if operation in ("BatchGetItem", "BatchWriteItem"):
        tables = cast("Mapping[str, Any]", parameters.get("RequestItems") or {})
        return (
            RequiredPermission(
                f"dynamodb:{operation}", tuple(_table(request, name) for name in tables)
            ),
        )
    if operation in ("TransactGetItems", "TransactWriteItems"):
        entries = cast("list[Mapping[str, Any]]", parameters.get("TransactItems") or [])
        return _of_transaction(request, entries)
    if operation in ("ExecuteStatement", "BatchExecuteStatement", "ExecuteTransaction"):
        return _of_partiql(request)
    name, index = request.text("TableName"), request.text("IndexName")
    if index and operation in (
        "Query",
        "Scan",
        "DescribeContributorInsights",
        "UpdateContributorInsights",
    ):
        return (
            RequiredPermission(
                f"dynamodb:{operation}", (f"{_table(request, name)}/index/{index}",)
            ),
        )
    return None


def dynamodbstreams_permissions(request: Request) -> RequiredPermissions:
    """A shard iterator begins with its stream's ARN and a bar (observed of AWS's); ListStreams has no resource."""
    if request.operation == "GetRecords":
        iterator = request.text("ShardIterator")
        stream, bar, _ = iterator.partition("|")
        arn = stream if bar else request.find("dynamodbstreams", "iterator", iterator)
        return (RequiredPermission("dynamodb:GetRecords", (arn,)),) if arn else None
    return None


def _table(request: Request, name: str) -> str:
    return name if name.startswith("arn:") else request.arn("dynamodb", f"table/{name}")


def _of_transaction(
    request: Request, entries: Iterable[Mapping[str, Any]]
) -> tuple[RequiredPermission, ...]:
    row: dict[tuple[str, str], RequiredPermission] = {}
    for entry in entries:
        for kind, operand in entry.items():
            if kind in _OF_TRANSACTION and isinstance(operand, Mapping):
                table = _table(
                    request, str(cast("Mapping[str, Any]", operand).get("TableName", ""))
                )
                action = f"dynamodb:{_OF_TRANSACTION[kind]}"
                row[(action, table)] = RequiredPermission(action, (table,))
    return tuple(row.values())


def _of_partiql(request: Request) -> RequiredPermissions:
    listed: Any = request.parameters.get("Statements") or request.parameters.get("TransactStatements") or [
        request.parameters
    ]  # fmt: skip
    row: list[RequiredPermission] = []
    for statement in cast("list[Mapping[str, Any]]", listed):
        target = partiql_target(str(statement.get("Statement", "")))
        if target is None:  # it is refused
            continue
        verb, table, index = target
        resource = _table(request, table) + (f"/index/{index}" if index else "")
        name = "Select" if verb == "EXISTS" else verb.capitalize()
        row.append(RequiredPermission(f"dynamodb:PartiQL{name}", (resource,)))
    return tuple(row)


def partiql_target(text: str) -> tuple[str, str, str] | None:
    """Return a statement's verb in upper case, its table and its index; None when there is none.

    Who runs a statement must refuse it when it finds anything else in it.
    """
    verb, table = _PARTIQL.match(text), _PARTIQL_TABLE.search(text)
    if verb is None or table is None:
        return None
    return verb[1].upper(), table[1] or table[2], table[3] or table[4] or ""


# --- logs, events, keys ---------------------------------------------------------------------------

# Tags are on the group's ARN without the rest (cloudwatch-logs/iam-access-control-overview-cwl.html).
_ON_GROUP_ITSELF = ("TagResource", "UntagResource", "ListTagsForResource")


def logs_permissions(request: Request) -> RequiredPermissions:
    """A log group's resource is `GROUP:log-stream:STREAM` (seen in AWS's refusals), so policies need `:*`."""
    if request.operation in _ON_GROUP_ITSELF or not _groups(request):
        return None
    stream = request.text("logStreamName")
    resources = tuple(f"{group}:log-stream:{stream}" for group in _groups(request))
    action = "GetLogEvents" if request.operation == "GetLogObject" else request.operation
    # For another account's destination too (documented: Subscription-Filter-CrossAccount-Permissions).
    destination = request.text("destinationArn")
    parts = destination.split(":", 5)
    if len(parts) == 6 and parts[2] == "logs" and parts[4] != request.account:
        resources = (*resources, destination)
    return (RequiredPermission(f"logs:{action}", resources),)


def _groups(request: Request) -> list[str]:
    names_of_groups: list[str] = []
    for name in ("logGroupName", "logGroupIdentifier"):
        names_of_groups += [request.text(name)] if request.text(name) else []
    for name in ("logGroupNames", "logGroupIdentifiers"):
        names_of_groups += cast("list[str]", request.parameters.get(name) or [])
    return [
        name.removesuffix(":*") if name.startswith("arn:") else request.arn("logs", f"log-group:{name}")
        for name in names_of_groups
    ]  # fmt: skip


_ON_RULE = {
    "DeleteRule", "DescribeRule", "DisableRule", "EnableRule", "ListTargetsByRule", "PutRule", "PutTargets",
    "RemoveTargets",
}  # fmt: skip


def events_permissions(request: Request) -> RequiredPermissions:
    """The ARN of a rule on the default bus has no bus name; PutEvents needs the buses that its events name."""
    if request.operation == "PutEvents":
        return _put_events(request)
    if request.operation not in _ON_RULE:
        return None
    bus = request.text("EventBusName").rpartition("/")[2]
    name = request.text("Rule") or request.text("Name")
    path = f"{bus}/{name}" if bus not in ("", "default") else name
    return (
        RequiredPermission(f"events:{request.operation}", (request.arn("events", f"rule/{path}"),)),
    )


_BUS_ARN = re.compile(r"arn:[^:]+:events:[^:]*:[^:]*:event-bus/[^/:]+")


def _buses(request: Request, named: str) -> tuple[str, ...]:
    """Return the ARN of the bus that a name means, and of the one that moto takes it for, which reads its end alone."""
    if _BUS_ARN.fullmatch(named):
        return (named,)
    written = named if named.startswith("arn:") else request.arn("events", f"event-bus/{named}")
    read = request.arn("events", f"event-bus/{named.rpartition('/')[2]}")
    return tuple(dict.fromkeys((written, read)))


def _put_events(request: Request) -> tuple[RequiredPermission, ...]:
    row: dict[tuple[str, str, str], RequiredPermission] = {}
    for entry in cast("list[Mapping[str, Any]]", request.parameters.get("Entries") or []):
        bus = str(entry.get("EventBusName") or "default")
        source, kind = str(entry.get("Source", "")), str(entry.get("DetailType", ""))
        context = {"events:source": (source,), "events:detail-type": (kind,)}
        for arn in _buses(request, bus):
            row[(arn, source, kind)] = RequiredPermission("events:PutEvents", (arn,), context)
    return tuple(row.values())


def kms_permissions(request: Request) -> RequiredPermissions:
    """A key is always named by its ARN; ReEncrypt needs permission on both keys."""
    context = _encryption_context(request)
    if request.operation == "ReEncrypt":
        source = key_arn(request, request.text("SourceKeyId")) or _key_in_text(request)
        target = key_arn(request, request.text("DestinationKeyId"))
        both = (("From", "Source", source), ("To", "Destination", target))
        return tuple(
            RequiredPermission(f"kms:ReEncrypt{way}", (arn,), _encryption_context(request, side))
            for way, side, arn in both
            if arn
        )
    if request.operation == "Decrypt" and not request.text("KeyId"):
        return (RequiredPermission("kms:Decrypt", (_key_in_text(request),), context),)
    alias, target = request.text("AliasName"), request.text("TargetKeyId")
    if alias:
        of_alias = request.find("kms", "alias", alias) or ""
        key = key_arn(request, target) if target else of_alias
        resources = (request.arn("kms", alias), *((key,) if key else ()))
        return (RequiredPermission(f"kms:{request.operation}", resources),)
    if request.operation == "ReplicateKey":
        # Documented (multi-region-keys-auth): the caller also makes a key in the replica's Region.
        arn = key_arn(request, request.text("KeyId"))
        return (
            RequiredPermission("kms:ReplicateKey", (arn,)),
            RequiredPermission("kms:CreateKey", ("*",)),
        )
    if request.text("KeyId"):
        arn = key_arn(request, request.text("KeyId"))
        return (RequiredPermission(f"kms:{request.operation}", (arn,), context),) if arn else ()
    return None


# moto's encrypted texts begin with the id of their key.
_ID_BYTES = 36


def _key_in_text(request: Request) -> str:
    """Return the ARN of the key that an encrypted text names; it is none's, if the text is no such text."""
    blob: Any = request.parameters.get("CiphertextBlob") or b""
    try:
        text = blob if isinstance(blob, bytes) else base64.b64decode(str(blob))
    except ValueError:
        text = b""
    return request.arn("kms", f"key/{text[:_ID_BYTES].decode(errors='replace')}")


def _encryption_context(request: Request, side: str = "") -> dict[str, tuple[str, ...]]:
    encryption_context = cast(
        "Mapping[str, str]", request.parameters.get(f"{side}EncryptionContext") or {}
    )
    context: dict[str, tuple[str, ...]] = {
        f"kms:encryptioncontext:{key.lower()}": (value,)
        for key, value in encryption_context.items()
    }
    if encryption_context:
        context["kms:encryptioncontextkeys"] = tuple(encryption_context)
    return context


# --- identities and the rest ----------------------------------------------------------------------


_STS_FREE = (
    "GetCallerIdentity",
    "GetSessionToken",
    "AssumeRoleWithSAML",
    "AssumeRoleWithWebIdentity",
)


def sts_permissions(request: Request) -> RequiredPermissions:
    """GetCallerIdentity needs no permission (its reference); tags and a source identity need their own.

    For users of an identity provider, the role's trust policy decides, and the caller needs nothing
    (`headrace.services.iam.sts_sessions`).
    """
    if request.operation in _STS_FREE:
        return ()
    if request.operation != "AssumeRole":
        return None
    names = {
        "ExternalId": "sts:externalid",
        "RoleSessionName": "sts:rolesessionname",
        "SourceIdentity": "sts:sourceidentity",
    }
    context = {key: (request.text(name),) for name, key in names.items() if request.text(name)}
    if request.text("TokenCode"):
        # STS checks the device's code; with a wrong one it returns no session.
        context |= {"aws:multifactorauthpresent": ("true",), "aws:multifactorauthage": ("0",)}
    role = (request.text("RoleArn"),)
    row = [RequiredPermission(f"sts:{request.operation}", role, context)]
    if request.parameters.get("Tags"):
        row.append(RequiredPermission("sts:TagSession", role, context))
    if request.text("SourceIdentity"):
        row.append(RequiredPermission("sts:SetSourceIdentity", role, context))
    return tuple(row)


# The type of an IAM operation's resource, by the parameter that names it; the first parameter in the request counts.
_IAM_KINDS = (
    ("RoleName", "role"),
    ("UserName", "user"),
    ("GroupName", "group"),
    ("InstanceProfileName", "instance-profile"),
)


def iam_permissions(request: Request) -> RequiredPermissions:
    """The ARN of an existing resource has a path, which the request lacks; a role in a profile is passed."""
    action = f"iam:{request.operation}"
    names = {"PolicyArn": "iam:policyarn", "PermissionsBoundary": "iam:permissionsboundary"}
    context = {key: (request.text(name),) for name, key in names.items() if request.text(name)}
    if request.operation in ("AddRoleToInstanceProfile", "RemoveRoleFromInstanceProfile"):
        profile = request.text("InstanceProfileName")
        row = [RequiredPermission(action, (_iam_arn(request, "instance-profile", profile),))]
        if request.operation == "AddRoleToInstanceProfile":
            role = _iam_arn(request, "role", request.text("RoleName"))
            row.append(
                RequiredPermission(
                    "iam:PassRole", (role,), {"iam:passedtoservice": ("ec2.amazonaws.com",)}
                )
            )
        return tuple(row)
    if request.operation in ("AddUserToGroup", "RemoveUserFromGroup"):
        return (
            RequiredPermission(action, (_iam_arn(request, "group", request.text("GroupName")),)),
        )
    for parameter, kind in _IAM_KINDS:
        name = request.text(parameter)
        if name:
            return (RequiredPermission(action, (_iam_arn(request, kind, name),), context),)
    return None


def _iam_arn(request: Request, kind: str, name: str) -> str:
    path = request.text("Path").strip("/")
    if request.operation.startswith("Create") and path:
        name = f"{path}/{name}"
    arn = None if request.operation.startswith("Create") else request.find("iam", kind, name)
    partition = partition_of(request.region)
    return arn or f"arn:{partition}:iam::{request.account}:{kind}/{name}"


def secrets_permissions(request: Request) -> RequiredPermissions:
    """A secret's ARN ends in six random letters; when they are unknown, `??????` stands for them."""
    if request.operation == "BatchGetSecretValue":
        return _batch_of_secrets(request)
    secret_id = request.text("SecretId") or (
        request.text("Name") if request.operation == "CreateSecret" else ""
    )
    if not secret_id:
        return None
    action = f"secretsmanager:{request.operation}"
    return (RequiredPermission(action, (_secret_arn(request, secret_id),)),)


def _secret_arn(request: Request, secret_id: str) -> str:
    """Return the ARN of a secret from its name, or from its ARN with or without the random letters."""
    arn = request.find("secretsmanager", "secret", secret_id)
    if arn is None and secret_id.startswith("arn:"):
        return secret_id
    return arn or request.arn("secretsmanager", f"secret:{secret_id}-??????")


def _batch_of_secrets(request: Request) -> RequiredPermissions:
    """Reading many secrets needs the permission on each, too (documented: API_BatchGetSecretValue)."""
    ids = cast("list[str]", request.parameters.get("SecretIdList") or [])
    arns = [_secret_arn(request, str(one)) for one in ids]
    if filters := request.parameters.get("Filters"):
        found = request.find("secretsmanager", "secrets", json.dumps(filters))
        arns += (found or request.arn("secretsmanager", "secret:*")).split()
    return (
        RequiredPermission("secretsmanager:BatchGetSecretValue"),
        *(RequiredPermission("secretsmanager:GetSecretValue", (arn,)) for arn in arns),
    )


# The resources of Systems Manager that a request names by type and id -> what precedes the id in their ARNs.
_SSM_KINDS = {
    "Association": "association",
    "Automation": "automation-execution",
    "Document": "document",
    "MaintenanceWindow": "maintenancewindow",
    "ManagedInstance": "managed-instance",
    "OpsItem": "opsitem",
    "OpsMetadata": "opsmetadata",
    "Parameter": "parameter",
    "PatchBaseline": "patchbaseline",
}


def ssm_permissions(request: Request) -> RequiredPermissions:
    """Tags are on resources that a type and an id name."""
    kind = _SSM_KINDS.get(request.text("ResourceType"))
    if kind is None or "Tags" not in request.operation:
        return None
    name = request.text("ResourceId").lstrip("/")
    arn = name if name.startswith("arn:") else request.arn("ssm", f"{kind}/{name}")
    return (RequiredPermission(f"ssm:{request.operation}", (arn,)),)


def cloudwatch_permissions(request: Request) -> RequiredPermissions:
    """Metrics have no resource; their namespace is a condition key."""
    if request.operation == "PutMetricData":
        context = {"cloudwatch:namespace": (request.text("Namespace"),)}
        return (RequiredPermission("cloudwatch:PutMetricData", ("*",), context),)
    return None


def redshift_data_permissions(request: Request) -> RequiredPermissions:
    """Both forms of a result need one action (service-authorization/latest/reference/list_redshift-data.html)."""
    if request.operation != "GetStatementResultV2":
        return None
    return (RequiredPermission("redshift-data:GetStatementResult"),)


def pipes_permissions(request: Request) -> RequiredPermissions:
    """Who has a pipe's logs delivered needs permissions for that (documented: AWS-logs-infrastructure-V2)."""
    configuration: Any = request.parameters.get("LogConfiguration")
    if not configuration or not isinstance(configuration, Mapping):
        return None
    named = cast("Mapping[str, Mapping[str, str]]", configuration)
    needed = [
        RequiredPermission(
            f"pipes:{request.operation}", (request.arn("pipes", f"pipe/{request.text('Name')}"),)
        ),
        RequiredPermission("logs:CreateLogDelivery"),
    ]
    if bucket := named.get("S3LogDestination", {}).get("BucketName"):
        needed.append(
            RequiredPermission("s3:PutBucketPolicy", (bucket_arn(request.region, bucket),))
        )
    return tuple(needed)


RULES: dict[str, Callable[[Request], RequiredPermissions]] = {
    "cloudwatch": cloudwatch_permissions,
    "dynamodb": dynamodb_permissions,
    "dynamodbstreams": dynamodbstreams_permissions,
    "events": events_permissions,
    "iam": iam_permissions,
    "kms": kms_permissions,
    "logs": logs_permissions,
    "pipes": pipes_permissions,
    "redshift-data": redshift_data_permissions,
    "secretsmanager": secrets_permissions,
    "ssm": ssm_permissions,
    "sns": sns_permissions,
    "sqs": sqs_permissions,
    "sts": sts_permissions,
}
