"""Gives Cloud Control the resource types: creates, changes and deletes single resources outside of stacks.

Implements `headrace.core.ports.control.ResourceTypes`. A change that would replace the resource is refused, as on AWS.

Reads the whole model of a live resource, as Cloud Control shows it: also properties that nobody gave.

AWS's schemas (`property_types.json`) say which members a property may have; each that the service answers is shown, so
that defaults appear and a change by another API is seen (documented: GetResource returns "the current state").
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.core.ports.control import (
    KnownResource,
    ResourceCancelled,
    ResourcePlace,
    ResourceRefused,
)
from headrace.core.system_tags import is_system
from headrace.services.cloudformation import model_members
from headrace.services.cloudformation.changes.imports import means_existing
from headrace.services.cloudformation.errors import (
    Cancelled,
    ResourceFailed,
    log_defect,
    reason_of,
)
from headrace.services.cloudformation.resources import resource_type
from headrace.services.cloudformation.resources.base import (
    Context,
    Ports,
    ResourceResult,
    ResourceType,
    list_changed_properties,
)
from headrace.services.cloudformation.resources.reading import Outline, ReadingRules
from headrace.services.cloudformation.resources.schemas import (
    ObjectTypes,
    Type,
    list_names,
    object_types,
)
from headrace.services.cloudformation.store import Stacks

# Pairs of properties of which a service answers both, although a resource has one; the second is shown by default.
_ALTERNATIVES = {
    "AWS::KinesisFirehose::DeliveryStream": (
        ("S3DestinationConfiguration", "ExtendedS3DestinationConfiguration"),
    )
}
# Properties that a model shows whole and as the service has them, whatever the template gave.
_WHOLE = {
    "AWS::ApiGateway::Stage": ("MethodSettings",),
    "AWS::Lambda::EventSourceMapping": ("FunctionName",),
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
    calls = kind.reading.calls if isinstance(kind.reading, ReadingRules) else ()
    named = {*kind.properties, *(name for call in calls for name in call.properties)}
    names = [name for name in types.get("", ({}, []))[0] if name in named]
    outlines = {name: _outline(types[""][0][name], types, 0) for name in names}
    for first, second in _ALTERNATIVES.get(kind.name, ()):
        outlines.pop(first if first not in known else second, None)
    guides = {name: _merge(outlines.get(name), value) for name, value in known.items()}
    guides.update({name: outlines[name] for name in _WHOLE.get(kind.name, ()) if name in guides})
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


def _is_unlike(known: Any, value: Any) -> bool:
    return isinstance(known, (dict, list)) and isinstance(value, str)


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
        if all(item == [] for item in pruned.values()):
            return None
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


# These exist only in a stack, or have nothing behind them.
_OF_STACKS = (
    *("Custom::", "AWS::CloudFormation::", "AWS::CDK::"),
    *("AWS::SNS::TopicPolicy", "AWS::SQS::QueuePolicy"),
)
# The prefix of generated names, in place of a stack's name.
_NAME = "cloudcontrol"


class SingleResources:
    """See `headrace.core.ports.control.ResourceTypes`. Thread-safe: it keeps nothing."""

    def __init__(self, stacks: Stacks, ports: Ports) -> None:
        self._stacks = stacks
        self._ports = ports

    def is_known(self, kind: str) -> bool:
        """See `ResourceTypes.is_known`."""
        return resource_type(kind) is not None

    def knows(self, kind: str) -> bool:
        """See `ResourceTypes.knows`."""
        return not kind.startswith(_OF_STACKS) and self.is_known(kind)

    def create(
        self, place: ResourcePlace, kind: str, properties: Mapping[str, Any]
    ) -> KnownResource:
        """See `ResourceTypes.create`."""
        kind_found, context, new = (
            self._type(kind),
            self._context(place, kind),
            dict(properties),
        )
        with _refusals(kind, kind_found.name_of(new)):
            kind_found.check(kind, new)
            existing = kind_found.find(context, new) if kind_found.find is not None else None
            if existing:
                raise _exists(kind, existing)
            return self._build_known_resource(kind_found, kind_found.create(context, new), new)

    def read(
        self, place: ResourcePlace, kind: str, identifier: str, known: KnownResource | None
    ) -> KnownResource | None:
        """See `ResourceTypes.read`."""
        kind_found, context = self._type(kind), self._context(place, kind)
        reading = kind_found.reading
        is_found_by_id = reading is not None and (reading.named or is_listed(kind))
        if known is None and not is_found_by_id:
            return None
        with _refusals(kind, identifier):
            if known is None:
                known = _adopt(kind_found, context, identifier)
            if known is None:
                return None
            model = read_model(kind_found, context, known.identifier, known.properties)
            if model is None:
                return None
            tags = None
            if "Tags" in kind_found.properties:
                tags = model_members.read_tags(context, kind, known)
            if tags is not None and (tags or "Tags" in known.properties):
                model["Tags"] = tags
            if isinstance(model.get("Tags"), dict):  # such as a pipe's
                by_key = cast("dict[str, Any]", model.pop("Tags")).items()
                own = {key: value for key, value in by_key if not is_system(key)}
                model.update({"Tags": own} if own or "Tags" in known.properties else {})
            model_members.complete(kind, model)
            return _split(kind_found, known, model)

    def readable(self, kind: str, properties: Mapping[str, Any]) -> dict[str, Any]:
        """See `ResourceTypes.readable`."""
        shown = without_write_only(kind, properties)
        shown = {n: value for n, value in shown.items() if model_members.is_shown(kind, n)}
        for first, second in _ALTERNATIVES.get(kind, ()):
            if first in properties and first not in shown:
                # AWS was recorded to show the other one, with its default (2026-07-13).
                shown[second] = {"S3BackupMode": "Disabled", **properties[first]}
        return shown

    def identifier_of(self, kind: str, resource: KnownResource) -> str:
        """See `ResourceTypes.identifier_of`."""
        names = list_names(kind, "primary")
        values = {**resource.attributes, **resource.properties}
        # What neither a template gives nor the service answers by name is the physical id.
        parts = [str(values.get(name, resource.identifier)) for name in names]
        is_compound = len(names) > 1 and len(set(names) - values.keys()) <= 1
        return "|".join(parts) if is_compound else resource.identifier

    def list_identifiers(self, place: ResourcePlace, kind: str) -> list[str]:
        """See `ResourceTypes.list_identifiers`."""
        with _refusals(kind, ""):
            return list_live(self._context(place, kind), kind)

    def update(
        self,
        place: ResourcePlace,
        kind: str,
        before: KnownResource,
        properties: Mapping[str, Any],
    ) -> KnownResource:
        """See `ResourceTypes.update`."""
        kind_found = self._type(kind)
        old, new = (
            model_members.without_system_tags(each) for each in (before.properties, properties)
        )
        with _refusals(kind, before.identifier):
            kind_found.check(kind, new)
            changed = list_changed_properties(old, new)
            fixed = [name for name in changed if kind_found.replaces(name)]
            if not fixed and kind_found.is_replaced((), old, new):
                fixed = changed
            if fixed:
                shown = ", ".join(f"/properties/{name}" for name in fixed)
                raise ResourceRefused(
                    "NotUpdatable",
                    f"Invalid patch update: createOnlyProperties [{shown}] cannot be updated",
                )
            result = ResourceResult(before.identifier, dict(before.attributes))
            if changed and kind_found.update is not None:
                result = kind_found.update(self._context(place, kind), before.identifier, old, new)
            return self._build_known_resource(kind_found, result, new)

    def delete(self, place: ResourcePlace, kind: str, resource: KnownResource) -> None:
        """See `ResourceTypes.delete`."""
        with _refusals(kind, resource.identifier):
            properties = dict(resource.properties)
            self._type(kind).delete(self._context(place, kind), resource.identifier, properties)

    def in_stacks(self, account: str, region: str, kind: str) -> list[KnownResource]:
        """See `ResourceTypes.in_stacks`."""
        return [
            KnownResource(
                resource.physical_id, resource.properties, resource.attributes, resource.updated_ms
            )
            for stack, resource in self._stacks.resources_of_type(account, region, kind)
            if stack.exists and resource.physical_id and not resource.status.startswith("DELETE_")
        ]

    def _type(self, kind: str) -> ResourceType:
        known = resource_type(kind)
        if known is None:
            raise ResourceRefused("InvalidRequest", f"The type {kind} is not known")
        return known

    def _build_known_resource(
        self, kind: ResourceType, result: ResourceResult, properties: Mapping[str, Any]
    ) -> KnownResource:
        # A generated name is also a property of the resource.
        name = {kind.named_by[0]: result.physical_id} if len(kind.named_by) == 1 else {}
        shown = name if name and kind.named_by[0] not in properties else {}
        return KnownResource(
            result.physical_id,
            {**properties, **shown},
            result.attributes,
            self._ports.clock.now_ms(),
        )

    def _context(self, place: ResourcePlace, kind: str) -> Context:
        ports = self._ports
        return Context(
            control=ports.control,
            clock=ports.clock,
            ids=ports.ids,
            account=place.account,
            region=place.region,
            stack_name=_NAME,
            stack_id="",
            logical_id=kind.rpartition("::")[2],
            tags={},
            endpoint_url=ports.endpoint_url(),
            responses=ports.responses,
            functions=ports.functions,
            stop=place.stop,
            note_made=place.note_made,
        )


def _split(kind: ResourceType, known: KnownResource, model: dict[str, Any]) -> KnownResource:
    """Return a resource with a live model: what nobody can set is an attribute, so that no patch sends it."""
    read_only = {
        name: value
        for name, value in model.items()
        if name not in kind.properties and name not in known.properties
    }
    own = {name: value for name, value in model.items() if name not in read_only}
    return replace(known, properties=own, attributes={**known.attributes, **read_only})


def _adopt(kind: ResourceType, context: Context, identifier: str) -> KnownResource | None:
    """Return a resource that neither a stack nor Cloud Control made; None: it does not exist."""
    assert kind.reading is not None
    name = {kind.named_by[0]: identifier} if len(kind.named_by) == 1 else {}
    result = kind.reading.adopt(context, identifier, name)
    return None if result is None else KnownResource(result.physical_id, {}, result.attributes)


def _exists(kind: str, identifier: str) -> ResourceRefused:
    return ResourceRefused(
        "AlreadyExists", f"Resource of type '{kind}' with identifier '{identifier}' already exists."
    )


@contextlib.contextmanager
def _refusals(kind: str, identifier: str) -> Generator[None]:
    """Convert a resource type's errors to ResourceRefused, with the code for the kind of refusal."""
    try:
        yield
    except Cancelled as error:
        raise ResourceCancelled(str(error)) from error
    except ResourceFailed as error:
        raise ResourceRefused("InvalidRequest", str(error)) from error
    except AwsError as error:
        if means_existing(error):
            raise _exists(kind, identifier) from error
        code = "GeneralServiceException" if error.status >= 500 else "InvalidRequest"
        raise ResourceRefused(code, reason_of(error)) from error
    except ResourceRefused:
        raise
    except Exception as error:
        log_defect(f"{kind} {identifier}", error)
        raise ResourceRefused("InternalFailure", reason_of(error)) from error
