"""Reads the whole model of a live resource, as Cloud Control shows it: also properties that nobody gave.

AWS's schemas (`property_types.json`) say which members a property may have; each that the service answers is shown, so
that defaults appear and a change by another API is seen (documented: GetResource returns "the current state").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from headrace.core.system_tags import is_system
from headrace.services.cloudformation.resources.base import Context, ResourceType
from headrace.services.cloudformation.resources.property_types import (
    ObjectTypes,
    Type,
    object_types,
)
from headrace.services.cloudformation.resources.reading import Outline
from headrace.services.cloudformation.resources.schemas import list_names

# Pairs of properties of which a service answers both, although a resource has one; the second is shown by default.
_ALTERNATIVES = {
    "AWS::KinesisFirehose::DeliveryStream": (
        ("S3DestinationConfiguration", "ExtendedS3DestinationConfiguration"),
    )
}
# Levels of an outline; a type may contain itself.
_DEEPEST = 8


def read_model(
    kind: ResourceType, context: Context, physical_id: str, known: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return a live resource's properties; None: it does not exist. Raises AwsError.

    A property of `known` that cannot be read keeps its value there.
    """
    if kind.reading is None:
        return dict(known)
    types = object_types(kind.name)
    names = [name for name in kind.properties if name in types.get("", ({}, []))[0]]
    outlines = {name: _outline(types[""][0][name], types, 0) for name in names}
    for first, second in _ALTERNATIVES.get(kind.name, ()):
        outlines.pop(first if first not in known else second, None)
    guides = {name: _merge(outlines.get(name), value) for name, value in known.items()}
    seen = kind.reading.read(context, physical_id, {**outlines, **guides})
    if seen is None:
        return None
    # A property that was read, and differs in a form that the template's cannot have, is read by its outline.
    unlike = {name for name, value in seen.items() if _is_unlike(known.get(name), value)}
    if unlike:
        by_outline = {**known, **{n: outlines[n] for n in unlike if n in outlines}}
        seen.update(kind.reading.read(context, physical_id, by_outline) or {})
    model = {name: value for name, value in known.items() if name not in seen}
    for name, value in seen.items():
        shown = _prune(value, types[""][0][name], types) if name in names else value
        if shown is not None and (shown not in ([], {}) or name in known):
            model[name] = shown
    return model


@dataclass(frozen=True, slots=True)
class _ListCall:
    """How a service lists its resources.

    Attributes:
        items: the member of the answer with the list.
        identifier: the member of an item that is a resource's physical id; "" when the item is it.
        tokens: the members of the request and of the answer for the next page.
    """

    service: str
    operation: str
    items: str
    identifier: str = ""
    tokens: tuple[str, str] = ("NextToken", "NextToken")


_MARKER = ("Marker", "Marker")
_LISTS = {
    "AWS::ApiGateway::RestApi": _ListCall("apigateway", "GetRestApis", "items", "id", ("position", "position")),
    "AWS::ApiGatewayV2::Api": _ListCall("apigatewayv2", "GetApis", "Items", "ApiId"),
    "AWS::CloudWatch::Alarm": _ListCall("cloudwatch", "DescribeAlarms", "MetricAlarms", "AlarmName"),
    "AWS::DynamoDB::Table": _ListCall(
        "dynamodb", "ListTables", "TableNames", "", ("ExclusiveStartTableName", "LastEvaluatedTableName")
    ),
    "AWS::Events::EventBus": _ListCall("events", "ListEventBuses", "EventBuses", "Name"),
    "AWS::IAM::Role": _ListCall("iam", "ListRoles", "Roles", "RoleName", _MARKER),
    "AWS::IAM::User": _ListCall("iam", "ListUsers", "Users", "UserName", _MARKER),
    "AWS::KMS::Key": _ListCall("kms", "ListKeys", "Keys", "KeyId", ("Marker", "NextMarker")),
    "AWS::Kinesis::Stream": _ListCall("kinesis", "ListStreams", "StreamNames"),
    "AWS::KinesisFirehose::DeliveryStream": _ListCall(
        "firehose", "ListDeliveryStreams", "DeliveryStreamNames", "", ("ExclusiveStartDeliveryStreamName", "")
    ),
    "AWS::Lambda::Function": _ListCall(
        "lambda", "ListFunctions", "Functions", "FunctionName", ("Marker", "NextMarker")
    ),
    "AWS::Logs::LogGroup": _ListCall(
        "logs", "DescribeLogGroups", "logGroups", "logGroupName", ("nextToken", "nextToken")
    ),
    "AWS::S3::Bucket": _ListCall("s3", "ListBuckets", "Buckets", "Name"),
    "AWS::SNS::Topic": _ListCall("sns", "ListTopics", "Topics", "TopicArn"),
    "AWS::SQS::Queue": _ListCall("sqs", "ListQueues", "QueueUrls"),
    "AWS::SSM::Parameter": _ListCall("ssm", "DescribeParameters", "Parameters", "Name"),
    "AWS::SecretsManager::Secret": _ListCall("secretsmanager", "ListSecrets", "SecretList", "ARN"),
    "AWS::StepFunctions::StateMachine": _ListCall(
        "stepfunctions", "ListStateMachines", "stateMachines", "stateMachineArn", ("nextToken", "nextToken")
    ),
}  # fmt: skip


def is_listed(kind: str) -> bool:
    """Whether a type's service lists its resources by their physical ids, so that each can be read by that alone."""
    return kind in _LISTS


def list_live(context: Context, kind: str) -> list[str]:
    """Return the physical ids of a type's resources that its service lists; none of other types. Raises AwsError."""
    call = _LISTS.get(kind)
    if call is None:
        return []
    asked, answered = call.tokens
    identifiers: list[str] = []
    params: dict[str, Any] = {}
    while True:
        answer = context.call(call.service, call.operation, params)
        items: list[Any] = answer.get(call.items) or []
        page = [str(item[call.identifier]) if call.identifier else str(item) for item in items]
        identifiers += page
        if answered:
            token = answer.get(answered)
        else:  # Firehose says only that there are more
            token = page[-1] if page and answer.get("HasMoreDeliveryStreams") else None
        if not token:
            return identifiers
        params = {asked: token}


def without_write_only(kind: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return properties without those that AWS's schema marks as write-only."""
    shown: Any = dict(properties)
    for path in list_names(kind, "writeOnly"):
        shown = _without(shown, path.split("/"))
    return shown


def _without(value: Any, path: Sequence[str]) -> Any:
    name, *rest = path
    if name == "*" and isinstance(value, list):
        return [_without(item, rest) if rest else item for item in cast("list[Any]", value)]
    if not isinstance(value, Mapping):
        return value
    members = dict(cast("Mapping[str, Any]", value))
    if rest and name in members:
        members[name] = _without(members[name], rest)
    elif not rest:
        members.pop(name, None)
    return members


def read_tags(context: Context, arn: str) -> list[dict[str, str]]:
    """Return a resource's tags, without AWS's own. Raises AwsError."""
    answer = context.call("resourcegroupstaggingapi", "GetResources", {"ResourceARNList": [arn]})
    return [
        {"Key": tag["Key"], "Value": tag["Value"]}
        for entry in answer["ResourceTagMappingList"]
        for tag in entry["Tags"]
        if not is_system(tag["Key"])
    ]


def _is_unlike(known: Any, value: Any) -> bool:
    return isinstance(known, dict | list) and isinstance(value, str)


def _outline(kind: Type, types: ObjectTypes, depth: int) -> Any:
    """Return a value with every member that a type may have, all None, which guides the reading."""
    if isinstance(kind, list):
        item = _outline(kind[0], types, depth + 1) if kind else None
        return [] if item is None else [item]
    if kind.startswith("#") and depth < _DEEPEST:
        members = types[kind[1:]][0]
        return Outline(
            {name: _outline(member, types, depth + 1) for name, member in members.items()}
        )
    return None


def _merge(outline: Any, known: Any) -> Any:
    """Return an outline with the template's values in it."""
    if not isinstance(outline, Outline) or not isinstance(known, dict):
        return known
    members = cast("dict[str, Any]", known)
    merged = {name: _merge(outline.get(name), value) for name, value in members.items()}
    return Outline({**outline, **merged}, known)


def _prune(value: Any, kind: Type, types: ObjectTypes) -> Any:
    """Return a value without what the resource does not have; None: without anything."""
    if isinstance(kind, list) and isinstance(value, list):
        inner: Type = kind[0] if kind else "Object"
        items = [_prune(item, inner, types) for item in cast("list[Any]", value)]
        return [item for item in items if item is not None]
    if isinstance(kind, str) and kind.startswith("#") and isinstance(value, dict):
        members, required = types[kind[1:]]
        pruned = {
            name: _prune(item, members.get(name, "Object"), types)
            for name, item in cast("dict[str, Any]", value).items()
        }
        pruned = {name: item for name, item in pruned.items() if item is not None}
        # Such as {"EncryptionType": "NONE"}: no setting in a template's form.
        return None if not pruned or any(name not in pruned for name in required) else pruned
    return _in_type(value, kind)


def _in_type(value: Any, kind: Type) -> Any:
    """Convert the text of a service that knows only texts."""
    if kind == "Integer" and isinstance(value, str) and value.lstrip("-").isdecimal():
        return int(value)
    if kind == "Boolean" and value in ("true", "false"):
        return value == "true"
    return value
