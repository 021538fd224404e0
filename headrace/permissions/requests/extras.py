"""Permissions that a request needs beside its own action: to tag resources that it creates, and to pass roles.

Sources: each service's documentation of creation with tags (named beside it), and for roles
docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from headrace.core.arn import make_arn
from headrace.core.system_tags import is_system
from headrace.permissions.requests.request import Request, RequiredPermission

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
    "cloudformation": "cloudformation.amazonaws.com",
    "cloudwatch": "streams.metrics.cloudwatch.amazonaws.com",
    "emr": "elasticmapreduce.amazonaws.com",
    "emr-serverless": "emr-serverless.amazonaws.com",
    "events": "events.amazonaws.com",
    "firehose": "firehose.amazonaws.com",
    "glue": "glue.amazonaws.com",
    "kinesis": "kinesis.amazonaws.com",
    "lambda": "lambda.amazonaws.com",
    "logs": "logs.amazonaws.com",
    "pipes": "pipes.amazonaws.com",
    "s3": "s3.amazonaws.com",
    "scheduler": "scheduler.amazonaws.com",
    "ssm": "ssm.amazonaws.com",
    "stepfunctions": "states.amazonaws.com",
}
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
    for name, value in _role_members(request.parameters):
        to = _TO_EC2 if name == _PROFILE else service
        arn = _role_arn(request, name, value)
        if arn and arn not in seen:
            seen.add(arn)
            yield RequiredPermission("iam:PassRole", (arn,), {"iam:passedtoservice": (to,)})


def _role_members(value: Any) -> Iterator[tuple[str, str]]:
    # This runs for every call of a role; most requests have only texts.
    if isinstance(value, dict | Mapping):
        for name, member in cast("Mapping[str, Any]", value).items():
            if isinstance(member, str):
                if name.lower().endswith(("role", "rolearn")):
                    yield name, member
            elif isinstance(member, dict | list | tuple | Mapping):
                yield from _role_members(member)
    elif isinstance(value, list | tuple):
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
