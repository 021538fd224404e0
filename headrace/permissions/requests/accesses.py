"""Finds the actions and resources for which a request needs permission, before its operation runs. Pure functions.

Names and resource types come from `authorization.json`; exceptions of single services are in `requests/`. An operation
whose permissions no source documents has no accesses, and `why_unknown` returns the reason.

Permissions that a request needs beside its own action: to tag resources that it creates, and to pass roles.

Sources: each service's documentation of creation with tags (named beside it), and for roles
docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from headrace.core.arn import make_arn
from headrace.core.system_tags import is_system
from headrace.permissions.policies.model import Access
from headrace.permissions.requests import apis, lambda_, others, s3
from headrace.permissions.requests.keys import key_permissions
from headrace.permissions.requests.lambda_ import kinesis_permissions, lambda_permissions
from headrace.permissions.requests.table import (
    Find,
    Request,
    RequiredPermission,
    as_named_and_read,
    find_nothing,
    is_free,
    names_no_resource,
    permissions_by_table,
    prefix_of,
)

# The prefixes of operations that only set tags.
_TAGS_ONLY = ("Tag", "AddTags", "CreateTags", "PutBucketTagging")
# The further action that a creation with tags (`Tags` or `tags` in the request) needs, by the services' references
# (CreateStream: "you must also have the kinesis:AddTagsToStream permission").
_TAGGING: dict[tuple[str, str], str] = {
    ("kinesis", "CreateStream"): "kinesis:AddTagsToStream",
    ("kinesis", "CreateChannel"): "kinesis:TagResource",
    ("kinesis", "CreateQueue"): "kinesis:TagResource",
    ("kinesis", "RegisterStreamConsumer"): "kinesis:TagResource",
    ("firehose", "CreateDeliveryStream"): "firehose:TagDeliveryStream",
    ("lambda", "CreateFunction"): "lambda:TagResource",
    ("lambda", "CreateEventSourceMapping"): "lambda:TagResource",
    ("emr", "RunJobFlow"): "elasticmapreduce:AddTags",
    ("emr", "CreateStudio"): "elasticmapreduce:AddTags",
    ("emr-serverless", "CreateApplication"): "emr-serverless:TagResource",
    ("emr-serverless", "StartJobRun"): "emr-serverless:TagResource",
    ("sqs", "CreateQueue"): "sqs:TagQueue",
    ("sns", "CreateTopic"): "sns:TagResource",
    ("dynamodb", "CreateTable"): "dynamodb:TagResource",
    ("logs", "CreateLogGroup"): "logs:TagResource",
    ("events", "PutRule"): "events:TagResource",
    ("events", "CreateEventBus"): "events:TagResource",
    ("kms", "CreateKey"): "kms:TagResource",
    ("kms", "ReplicateKey"): "kms:TagResource",
    ("ssm", "PutParameter"): "ssm:AddTagsToResource",
    ("secretsmanager", "CreateSecret"): "secretsmanager:TagResource",
    ("ecr", "CreateRepository"): "ecr:TagResource",
    ("stepfunctions", "CreateStateMachine"): "states:TagResource",
    ("iam", "CreateRole"): "iam:TagRole",
    ("iam", "CreateUser"): "iam:TagUser",
    ("iam", "CreatePolicy"): "iam:TagPolicy",
    ("iam", "CreateInstanceProfile"): "iam:TagInstanceProfile",
    ("glue", "CreateJob"): "glue:TagResource",
    ("glue", "CreateCrawler"): "glue:TagResource",
    ("cloudwatch", "PutMetricAlarm"): "cloudwatch:TagResource",
    ("pipes", "CreatePipe"): "pipes:TagResource",
}
# The service principals to which a service's requests pass roles.
PASSED_TO = {
    "apigateway": "apigateway.amazonaws.com",
    "apigatewayv2": "apigateway.amazonaws.com",
    "backup": "backup.amazonaws.com",
    "batch": "batch.amazonaws.com",
    "cloudformation": "cloudformation.amazonaws.com",
    "cloudwatch": "streams.metrics.cloudwatch.amazonaws.com",
    "codebuild": "codebuild.amazonaws.com",
    "codedeploy": "codedeploy.amazonaws.com",
    "ecs": "ecs-tasks.amazonaws.com",
    "emr": "elasticmapreduce.amazonaws.com",
    "emr-serverless": "emr-serverless.amazonaws.com",
    "events": "events.amazonaws.com",
    "firehose": "firehose.amazonaws.com",
    "glue": "glue.amazonaws.com",
    "iot": "iot.amazonaws.com",
    "kinesis": "kinesis.amazonaws.com",
    "kinesisanalyticsv2": "kinesisanalytics.amazonaws.com",
    "lambda": "lambda.amazonaws.com",
    "logs": "logs.amazonaws.com",
    "pipes": "pipes.amazonaws.com",
    "s3": "s3.amazonaws.com",
    "sagemaker": "sagemaker.amazonaws.com",
    "scheduler": "scheduler.amazonaws.com",
    "ssm": "ssm.amazonaws.com",
    "stepfunctions": "states.amazonaws.com",
    "transfer": "transfer.amazonaws.com",
}
# What the names of members that hold roles end with; API Gateway's are `credentials`, also as an update's path.
_OF_ROLES = ("role", "rolearn", "credentials", "credentialsarn")
_PROFILE = "JobFlowRole"
_TO_EC2 = "ec2.amazonaws.com"
# Roles in requests that are not passed: EMR's runtime roles are assumed by the cluster (emr-steps-runtime-roles.html),
# and the members of this name of alarms and parameters are not roles.
_NOT_PASSED = {
    ("emr", "AddJobFlowSteps"), ("emr", "GetClusterSessionCredentials"), ("emr", "GetOnClusterAppUIPresignedURL"),
    ("emr", "GetPersistentAppUIPresignedURL"), ("emr", "StartSession"),
}  # fmt: skip
# Members that name a role without its ARN.
_BY_NAME = {
    ("emr", "ServiceRole"), ("emr", "AutoScalingRole"), ("emr", "UserRole"), ("glue", "Role"), ("ssm", "IamRole"),
}  # fmt: skip


def tag_permissions(request: Request, resources: tuple[str, ...]) -> Iterator[RequiredPermission]:
    """Yield the permission to tag the resources that a request creates with tags."""
    action = _TAGGING.get((request.service, request.operation))
    if action is not None and tags_of(request):
        yield RequiredPermission(action, _list_tagged(request, resources))


def _list_tagged(request: Request, resources: tuple[str, ...]) -> tuple[str, ...]:
    """Return the ARNs of the tagged resources, with `*` for ids that new resources do not have yet."""
    tagged = {
        ("kinesis", "CreateChannel"): request.arn("kinesis", "channel/*"),
        ("kinesis", "CreateQueue"): request.arn("kinesis", "queue/*"),
        ("kinesis", "RegisterStreamConsumer"): f"{request.text('StreamARN')}/consumer/{request.text('ConsumerName')}:*",
        ("lambda", "CreateEventSourceMapping"): request.arn("lambda", "event-source-mapping:*"),
        ("emr", "RunJobFlow"): request.arn("elasticmapreduce", "cluster/*"),
        ("emr", "CreateStudio"): request.arn("elasticmapreduce", "studio/*"),
        ("emr-serverless", "CreateApplication"): request.arn("emr-serverless", "/applications/*"),
        ("kms", "CreateKey"): request.arn("kms", "key/*"),
    }.get((request.service, request.operation))  # fmt: skip
    if tagged is not None:
        return (tagged,)
    if request.service == "emr-serverless":
        return tuple(f"{resource}/jobruns/*" for resource in resources)
    return resources


def tags_of(request: Request) -> dict[str, str]:
    """Return the tags in a request, in any form, without CloudFormation's system tags, which need no permission."""
    tags = _tags_of(request.parameters)
    return {key: value for key, value in tags.items() if not is_system(key)}


def only_system_tags(request: Request) -> bool:
    """Whether a request only sets CloudFormation's system tags."""
    if not request.operation.startswith(_TAGS_ONLY):
        return False
    tags = _tags_of(request.parameters)
    tagging: Any = request.parameters.get("Tagging")
    if isinstance(tagging, Mapping):
        of_bucket = cast("Mapping[str, Any]", tagging)
        tags = _tags_of({"Tags": of_bucket.get("TagSet")})
    return bool(tags) and all(map(is_system, tags))


def _tags_of(parameters: Mapping[str, Any]) -> dict[str, str]:
    for name in ("Tags", "tags", "TagList", "tagList"):
        parameter: Any = parameters.get(name)
        if isinstance(parameter, Mapping):
            return {
                str(key): str(value) for key, value in cast("Mapping[Any, Any]", parameter).items()
            }
        if isinstance(parameter, list):
            listed = cast("list[Any]", parameter)
            return dict(_pair(cast("Any", tag)) for tag in listed if isinstance(tag, Mapping))
    return {}


def _pair(tag: Mapping[str, Any]) -> tuple[str, str]:
    lower = {key.lower(): value for key, value in tag.items()}
    key = lower.get("key", lower.get("tagkey", ""))
    return str(key), str(lower.get("value", lower.get("tagvalue", "")) or "")


def role_permissions(request: Request) -> Iterator[RequiredPermission]:
    """Yield iam:PassRole for each role that the request passes to a service."""
    service = PASSED_TO.get(request.service)
    if service is None or (request.service, request.operation) in _NOT_PASSED:
        return
    seen: set[str] = set()
    given: list[Any] = [request.parameters]
    if request.service in apis.SERVICES:
        given.append(apis.definition_of(request))
    for name, value in _role_members(given):
        to = _TO_EC2 if name == _PROFILE else service
        arn = _role_arn(request, name, value)
        if arn and arn not in seen:
            seen.add(arn)
            yield RequiredPermission("iam:PassRole", (arn,), {"iam:passedtoservice": (to,)})


def _role_members(value: Any) -> Iterator[tuple[str, str]]:
    # This runs for every call of a role; most requests have only texts.
    if isinstance(value, (dict, Mapping)):
        members = cast("Mapping[str, Any]", value)
        if isinstance(members.get("path"), str) and isinstance(members.get("value"), str):
            members = {members["path"]: members["value"], **members}
        for name, member in members.items():
            if isinstance(member, str):
                if name.lower().endswith(_OF_ROLES):
                    yield name, member
            elif isinstance(member, (dict, list, tuple, Mapping)):
                yield from _role_members(member)
    elif isinstance(value, (list, tuple)):
        for member in cast("list[Any]", value):
            yield from _role_members(member)


def _role_arn(request: Request, name: str, value: str) -> str:
    """Return the ARN of a role in a request; empty when the value is not a role."""
    if value.startswith("arn:"):
        return value if ":role/" in value else ""
    if name == _PROFILE:
        profile = request.find("iam", "instance profile", value)
        return profile or make_arn("iam", "", request.account, f"role/{value}")
    if (request.service, name) in _BY_NAME:
        arn = request.find("iam", "role", value)
        return arn or make_arn("iam", "", request.account, f"role/{value}")
    return ""


_RULES: dict[str, Callable[[Request], tuple[RequiredPermission, ...] | None]] = {
    **dict.fromkeys(apis.SERVICES, apis.api_permissions),
    "kinesis": kinesis_permissions,
    "lambda": lambda_permissions,
    "s3": s3.s3_permissions,
    **others.RULES,
    **lambda_.RULES,
}
# Operations that need no permission: those on the caller's own identity (by their references), and those for which an
# identity provider vouches.
FREE = {
    ("sts", name)
    for name in (
        "GetCallerIdentity",
        "GetSessionToken",
        "AssumeRoleWithSAML",
        "AssumeRoleWithWebIdentity",
    )
}


# Operations of other names than their action (documented at each: "the public IAM action associated with this API").
_OTHER_ACTIONS = {
    ("glue", "GetUnfilteredPartitionMetadata"): "GetPartition",
    ("glue", "GetUnfilteredPartitionsMetadata"): "GetPartitions",
    ("glue", "GetUnfilteredTableMetadata"): "GetTable",
}


def accesses_of(
    service: str,
    operation: str,
    parameters: Mapping[str, Any],
    account: str,
    region: str,
    find: Find = find_nothing,
) -> tuple[Access, ...]:
    """Return the accesses that a request needs, its own action first, unless `why_unknown` has a reason.

    `service` is botocore's name, `parameters` are named as in botocore's model, `account` and `region` are the
    request's. `find` finds the ARNs of resources that parameters name otherwise (see `requests.request.Find`).
    Thread-safe; no I/O except the first read of the table.
    """
    is_unknown = bool(why_unknown(service, operation))
    if is_unknown and service not in PASSED_TO:
        return ()
    named = _OTHER_ACTIONS.get((service, operation), operation)
    request = Request(service, named, parameters, account, region, find)
    shared = {"aws:requestedregion": (region,)}
    # Roles are passed too where it is unknown what else is needed.
    needed = role_permissions(request) if is_unknown else _list_required_permissions(request)
    return tuple(
        Access(
            permission.action,
            resource,
            request.owner_of(resource),
            {**shared, **permission.context},
        )
        for permission in needed
        for named in permission.resources or ("*",)
        for resource in as_named_and_read(permission.action, named, request)
    )


def needs_nothing(service: str, operation: str) -> bool:
    """Whether AWS asks for no permission at all."""
    return (service, operation) in FREE or is_free(service, operation)


def why_unknown(service: str, operation: str) -> str:
    """Return why it is unknown what an operation needs; empty when it is known."""
    prefix = prefix_of(service)
    if prefix is None:
        return f"No table says which actions {service} needs."
    if needs_nothing(service, operation):
        return f"AWS lets everybody call {operation}."
    if names_no_resource(service, operation):
        return f"A request of {service}'s {operation} does not say which resource it is for."
    if operation.lower() in prefix.actions or (service, operation) in RENAMED:
        return ""
    if service in apis.SERVICES:
        return ""
    return f"No source says which action {service}'s {operation} needs."


def _list_required_permissions(request: Request) -> Iterator[RequiredPermission]:
    if only_system_tags(request):
        return
    tags = tags_of(request)
    rule = _RULES.get(request.service)
    permissions = rule(request) if rule is not None else None
    if permissions is None:
        permissions = permissions_by_table(request)
    context = {f"aws:requesttag/{key.lower()}": (value,) for key, value in tags.items()}
    keys: Any = (
        request.parameters.get("TagKeys") or request.parameters.get("tagKeys") or tuple(tags)
    )
    if keys:
        context["aws:tagkeys"] = tuple(keys)
    own = tuple(
        RequiredPermission(n.action, n.resources, {**context, **n.context}) for n in permissions
    )
    yield from own
    if own:
        for permission in tag_permissions(request, own[0].resources or ()):
            yield RequiredPermission(permission.action, permission.resources, context)
        yield from role_permissions(request)
        yield from key_permissions(request, own)


# Operations whose name differs from their action.
RENAMED = frozenset(
    {
        *(("s3", name) for name in s3.RENAMED),
        *_OTHER_ACTIONS,
        *(("lambda", name) for name in ("Invoke", "InvokeWithResponseStream", "GetLayerVersionByArn")),
        *(("sqs", name) for name in ("SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch")),
        ("sns", "PublishBatch"),
        *(
            ("dynamodb", name)
            for name in (
                "BatchExecuteStatement", "ExecuteStatement", "ExecuteTransaction", "TransactGetItems",
                "TransactWriteItems",
            )
        ),
        ("logs", "GetLogObject"),
        ("redshift-data", "GetStatementResultV2"),
        ("kms", "ReEncrypt"),
    }
)  # fmt: skip
