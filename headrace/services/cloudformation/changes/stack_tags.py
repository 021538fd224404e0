"""Puts a stack's tags on its resources, and updates and removes them when the stack's tags change.

Documented: CloudFormation propagates the stack's tags to the resources that can have tags (API_UpdateStack, Tags).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from headrace.core.arn import make_arn
from headrace.core.system_tags import is_system, may_set
from headrace.core.values import get_list
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources.base import Ports, attribute_text
from headrace.services.cloudformation.state import Resource, Stack

# The types whose tags the tagging API changes, with the attribute that holds the ARN.
_ARNS = {
    "AWS::CloudWatch::Alarm": "Arn",
    "AWS::DynamoDB::Table": "Arn",
    "AWS::EMRServerless::Application": "Arn",
    "AWS::Events::Rule": "Arn",
    "AWS::KMS::Key": "Arn",
    "AWS::Kinesis::Stream": "Arn",
    "AWS::KinesisFirehose::DeliveryStream": "Arn",
    "AWS::Lambda::Function": "Arn",
    "AWS::Logs::LogGroup": "Arn",
    "AWS::S3::Bucket": "Arn",
    "AWS::SNS::Topic": "TopicArn",
    "AWS::SQS::Queue": "Arn",
}
# Those of which the physical id gives the ARN: the service in it, and what precedes the id.
_IDS = {
    "AWS::EMR::Cluster": ("elasticmapreduce", "cluster/"),
    "AWS::Lambda::EventSourceMapping": ("lambda", "event-source-mapping:"),
    "AWS::SSM::Parameter": ("ssm", "parameter/"),
}

# The tagging API does not know roles (documented).
_ROLE = "AWS::IAM::Role"

# The types for which AWS was recorded to show only the template's tags.
_WITHOUT = {
    "AWS::DynamoDB::Table",
    "AWS::EC2::TransitGateway",
    "AWS::EC2::TransitGatewayAttachment",
    _ROLE,
    "AWS::OpenSearchService::Domain",
    "AWS::SNS::Topic",
    "AWS::SQS::Queue",
    "AWS::SSM::Parameter",
}


def follows(kind: str) -> bool:
    """Whether resources of a type follow changes of the stack's tags."""
    return kind in _ARNS or kind in _IDS or kind == _ROLE


def differ(stack: Stack, tags: Mapping[str, str]) -> bool:
    """Whether the stack's tags before its update differ from these."""
    return stack.previous is not None and dict(stack.previous["tags"]) != dict(tags)


def system_tags(stack: Stack, resource: Resource) -> dict[str, str]:
    """Return the tags that CloudFormation itself puts on a resource.

    Documented for all resources that can have tags: user guide, "Resource tag". Recorded: functions, REST APIs, stages,
    usage plans, secrets, DHCP options and route tables have them; those of `_WITHOUT` do not.
    """
    if resource.type in _WITHOUT:
        return {}
    return {
        "aws:cloudformation:stack-name": stack.name,
        "aws:cloudformation:logical-id": resource.logical_id,
        "aws:cloudformation:stack-id": stack.stack_id,
    }


def retag(
    ports: Ports,
    stack: Stack,
    resource: Resource,
    before: Mapping[str, str],
    after: Mapping[str, str],
) -> None:
    """Change a resource's tags from `before` to `after`. Raises ResourceFailed, AwsError."""
    changed = {key: value for key, value in after.items() if before.get(key) != value}
    gone = sorted(set(before) - set(after))
    if resource.type == _ROLE:
        _retag_role(ports, stack, resource.physical_id, changed, gone)
        return
    for operation, params in (
        ("TagResources", {"Tags": changed}),
        ("UntagResources", {"TagKeys": gone}),
    ):
        if not any(params.values()):
            continue
        arns = {"ResourceARNList": [_arn_of(stack, resource)]}
        with may_set(changed):
            answer = _call(ports, stack, "resourcegroupstaggingapi", operation, {**arns, **params})
        for failure in answer["FailedResourcesMap"].values():
            raise ResourceFailed(str(failure["ErrorMessage"]))


def _retag_role(
    ports: Ports, stack: Stack, name: str, changed: Mapping[str, str], gone: list[str]
) -> None:
    role = {"RoleName": name}
    if gone:
        _call(ports, stack, "iam", "UntagRole", {**role, "TagKeys": gone})
    if changed:
        tags = [{"Key": key, "Value": value} for key, value in changed.items()]
        _call(ports, stack, "iam", "TagRole", {**role, "Tags": tags})


def tags_now(ports: Ports, stack: Stack, resource: Resource) -> dict[str, str]:
    """Return a resource's tags, without AWS's own. Raises AwsError."""
    entries: list[dict[str, Any]]
    if resource.type == _ROLE:
        role = {"RoleName": resource.physical_id}
        entries = [_call(ports, stack, "iam", "ListRoleTags", role)]
    else:
        arns = {"ResourceARNList": [_arn_of(stack, resource)]}
        answer = _call(ports, stack, "resourcegroupstaggingapi", "GetResources", arns)
        entries = answer["ResourceTagMappingList"]
    tags = [tag for entry in entries for tag in get_list(entry, "Tags")]
    return {tag["Key"]: str(tag["Value"]) for tag in tags if not is_system(tag["Key"])}


def _call(
    ports: Ports, stack: Stack, service: str, operation: str, params: Mapping[str, Any]
) -> dict[str, Any]:
    return ports.control.call(
        service, operation, params, account=stack.account, region=stack.region
    )


def all_tags(properties: Mapping[str, Any], of_stack: Mapping[str, str]) -> dict[str, str]:
    """Return a resource's tags: its stack's, and its own, which win."""
    own: Any = properties.get("Tags") or {}
    if isinstance(own, dict):
        named = cast("dict[str, Any]", own)
        return {**of_stack, **{key: attribute_text(value) for key, value in named.items()}}
    return {
        **of_stack,
        **{tag["Key"]: str(tag.get("Value", "")) for tag in get_list(properties, "Tags")},
    }


def _arn_of(stack: Stack, resource: Resource) -> str:
    if resource.type in _IDS:
        service, before = _IDS[resource.type]
        name = before + resource.physical_id.removeprefix("/")
        return make_arn(service, stack.region, stack.account, name)
    return str(resource.attributes[_ARNS[resource.type]]).removesuffix(":*")
