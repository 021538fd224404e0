"""What AWS's live models show beside a template's properties: tags, and members that no call here answers.

Recorded: GetResource of stacks' resources, 2026-06-13 to 2026-07-13 (go-to-k/cdk-real-drift, tests/corpus).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from headrace.core.arn import make_arn
from headrace.core.ports.control import KnownResource
from headrace.core.system_tags import is_system
from headrace.services.cloudformation.changes import stack_tags
from headrace.services.cloudformation.resources.base import Context

# The types whose recorded models have CloudFormation's own tags. Those of tables, pipes and delivery streams have none;
# that the models of types without a recording have none is assumed.
_WITH_SYSTEM_TAGS = {
    "AWS::ApiGateway::RestApi",
    "AWS::ApiGateway::Stage",
    "AWS::Events::Rule",
    "AWS::Lambda::EventSourceMapping",
    "AWS::Lambda::Function",
    "AWS::Logs::LogGroup",
    "AWS::SNS::Topic",
}
_ARNS = ("Arn", "TopicArn", "StreamARN")


@dataclass(frozen=True, slots=True)
class _TagCall:
    """How a service answers a resource's tags.

    Attributes:
        member: the member of the request that names the resource.
        named: returns its value; an empty text: it is not known.
        tags: the member of the answer with the tags.
    """

    service: str
    operation: str
    member: str
    named: Callable[[Context, KnownResource], str]
    tags: str = "Tags"


def _attribute(name: str) -> Callable[[Context, KnownResource], str]:
    return lambda _, known: str(known.attributes.get(name, ""))


def _log_group(_: Context, known: KnownResource) -> str:
    return str(known.attributes.get("Arn", "")).removesuffix(":*")


def _rest_api(context: Context, known: KnownResource) -> str:
    return make_arn("apigateway", context.region, "", f"/restapis/{known.identifier}")


def _stage(context: Context, known: KnownResource) -> str:
    api = known.properties.get("RestApiId")
    path = f"/restapis/{api}/stages/{known.identifier}"
    return make_arn("apigateway", context.region, "", path) if api else ""


# Other types' tags are the tagging API's, as far as they follow their stack's; see `stack_tags`.
_TAG_CALLS = {
    "AWS::ApiGateway::RestApi": _TagCall("apigateway", "GetTags", "resourceArn", _rest_api, "tags"),
    "AWS::ApiGateway::Stage": _TagCall("apigateway", "GetTags", "resourceArn", _stage, "tags"),
    "AWS::Events::EventBus": _TagCall(
        "events", "ListTagsForResource", "ResourceARN", _attribute("Arn")
    ),
    "AWS::IAM::Role": _TagCall("iam", "ListRoleTags", "RoleName", lambda _, k: k.identifier),
    "AWS::Kinesis::StreamConsumer": _TagCall(
        "kinesis", "ListTagsForResource", "ResourceARN", _attribute("ConsumerARN")
    ),
    "AWS::Lambda::EventSourceMapping": _TagCall(
        "lambda", "ListTags", "Resource", _attribute("EventSourceMappingArn")
    ),
    "AWS::Logs::LogGroup": _TagCall(
        "logs", "ListTagsForResource", "resourceArn", _log_group, "tags"
    ),
    "AWS::StepFunctions::StateMachine": _TagCall(
        "stepfunctions", "ListTagsForResource", "resourceArn", _attribute("Arn"), "tags"
    ),
}


def read_tags(context: Context, kind: str, known: KnownResource) -> list[dict[str, str]] | None:
    """Return the tags that a live resource's model has; None: they cannot be read. Raises AwsError."""
    arn = next((known.attributes[name] for name in _ARNS if name in known.attributes), None)
    if (call := _TAG_CALLS.get(kind)) is not None:
        params = {call.member: call.named(context, known)}
        if not params[call.member]:
            return None
        tags = _pairs(context.call(call.service, call.operation, params).get(call.tags) or [])
    elif stack_tags.follows(kind) and arn:
        params = {"ResourceARNList": [str(arn)]}
        answer = context.call("resourcegroupstaggingapi", "GetResources", params)
        tags = [pair for entry in answer["ResourceTagMappingList"] for pair in entry["Tags"]]
    else:
        return None
    return [
        {"Key": tag["Key"], "Value": tag["Value"]}
        for tag in tags
        if kind in _WITH_SYSTEM_TAGS or not is_system(tag["Key"])
    ]


def _pairs(tags: Any) -> list[dict[str, str]]:
    """Return tags as a list of keys and values, which some services answer in a map or in lower case."""
    if isinstance(tags, Mapping):
        by_key = cast("Mapping[str, str]", tags)
        return [{"Key": key, "Value": value} for key, value in by_key.items()]
    return [
        {name.capitalize(): value for name, value in tag.items()}
        for tag in cast("list[dict[str, str]]", tags)
    ]


def without_system_tags(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return properties whose tags have none of CloudFormation's own: nobody else changes or removes those."""
    tags = properties.get("Tags")
    if not isinstance(tags, list):
        return dict(properties)
    own = [t for t in cast("list[dict[str, Any]]", tags) if not is_system(str(t.get("Key", "")))]
    return {**properties, "Tags": own}


def _complete_api(model: dict[str, Any]) -> None:
    endpoint = cast("dict[str, Any]", model.get("EndpointConfiguration") or {})
    if endpoint.get("VpcEndpointIds") == []:
        del endpoint["VpcEndpointIds"]
    # Recorded of edge-optimized, regional and private APIs.
    is_private = endpoint.get("Types") == ["PRIVATE"]
    model.setdefault("SecurityPolicy", "TLS_1_2" if is_private else "TLS_1_0")


def _complete_rule(model: dict[str, Any]) -> None:
    if "Name" in model:
        model.setdefault("Id", model["Name"])


def _complete_table(model: dict[str, Any]) -> None:
    insights = {"ContributorInsightsSpecification": {"Enabled": False}}
    if indexes := cast("list[dict[str, Any]]", model.get("GlobalSecondaryIndexes") or []):
        # A new index of a table on demand is as warm as its table.
        on_demand = model.get("BillingMode") == "PAY_PER_REQUEST" and "WarmThroughput" in model
        warm = {"WarmThroughput": model["WarmThroughput"]} if on_demand else {}
        model["GlobalSecondaryIndexes"] = [{**insights, **warm, **index} for index in indexes]


# Members that every recorded model of a type has.
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "AWS::DynamoDB::Table": {"ContributorInsightsSpecification": {"Enabled": False}, "Tags": []},
    "AWS::Events::Rule": {"Targets": []},
    "AWS::Lambda::Function": {
        "FileSystemConfigs": [],
        "VpcConfig": {"Ipv6AllowedForDualStack": False, "SecurityGroupIds": [], "SubnetIds": []},
    },
    "AWS::Logs::LogGroup": {
        "BearerTokenAuthenticationEnabled": False,
        "DataProtectionPolicy": {},
        "DeletionProtectionEnabled": False,
        "FieldIndexPolicies": [],
    },
    "AWS::Pipes::Pipe": {"EnrichmentParameters": {}, "StateReason": "USER_INITIATED"},
    "AWS::SNS::Topic": {"ArchivePolicy": {}},
}
_COMPLETIONS: dict[str, Callable[[dict[str, Any]], None]] = {
    "AWS::ApiGateway::RestApi": _complete_api,
    "AWS::DynamoDB::Table": _complete_table,
    "AWS::Events::Rule": _complete_rule,
}


def complete(kind: str, model: dict[str, Any]) -> None:
    """Give a live model the members that AWS's have and that no call here answers; a member that it has stays."""
    for name, value in _DEFAULTS.get(kind, {}).items():
        model.setdefault(name, copy.deepcopy(value))
    if (completion := _COMPLETIONS.get(kind)) is not None:
        completion(model)


# The attributes for GetAtt that AWS's models do not have.
_UNSHOWN = {"AWS::DynamoDB::Table": {"TableId"}, "AWS::Events::Rule": {"RuleName"}}


def is_shown(kind: str, name: str) -> bool:
    """Whether the model of a type has a property or attribute."""
    return name not in _UNSHOWN.get(kind, ())
