"""IoT: things, policies, certificates, rules."""

from __future__ import annotations

from typing import Any, cast

from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Values,
    declare_sources,
)

# iot-core limits: "Maximum number of named policy versions".
_MOST_VERSIONS = 5


def _versions(values: Values) -> list[dict[str, Any]]:
    answer = values.context.call("iot", "ListPolicyVersions", {"policyName": values.id})
    return cast("list[dict[str, Any]]", answer["policyVersions"])


def _has_all_versions(values: Values) -> bool:
    return len(_versions(values)) >= _MOST_VERSIONS


@declare_sources("PolicyDocument")
def _oldest_version(values: Values) -> str:
    others = (version for version in _versions(values) if not version["isDefaultVersion"])
    return str(min((version["versionId"] for version in others), key=int))


@declare_sources("CredentialDurationSeconds")
def _read_duration_s(values: Values) -> int:
    """Return how long a role alias' credentials last: without the property, AWS's hour."""
    return int(values.get("CredentialDurationSeconds") or 3600)


DECLARED = [
    DeclaredType(
        "AWS::IoT::TopicRule",
        "iot",
        create=[Call("CreateTopicRule")],
        id="RuleName",
        read=Call("GetTopicRule", {"ruleName": "@id"}),
        update=[Call("ReplaceTopicRule", {"ruleName": "@id"})],
        delete=[Call("DeleteTopicRule", {"ruleName": "@id"})],
        name="RuleName",
        name_length=128,
        name_underscores=True,
        attributes={"Arn": "@answer.ruleArn"},
    ),
    DeclaredType(
        "AWS::IoT::Thing",
        "iot",
        create=[Call("CreateThing")],
        id="ThingName",
        read=Call("DescribeThing", {"thingName": "@id"}),
        update=[Call("UpdateThing", {"thingName": "@id"})],
        delete=[Call("DeleteThing", {"thingName": "@id"})],
        name="ThingName",
        name_length=128,
    ),
    DeclaredType(
        "AWS::IoT::ThingType",
        "iot",
        create=[Call("CreateThingType")],
        id="ThingTypeName",
        read=Call("DescribeThingType", {"thingTypeName": "@id"}),
        delete=[Call("DeleteThingType", {"thingTypeName": "@id"})],
        name="ThingTypeName",
        name_length=128,
    ),
    DeclaredType(
        "AWS::IoT::Policy",
        "iot",
        create=[Call("CreatePolicy")],
        id="PolicyName",
        read=Call("GetPolicy", {"policyName": "@id"}),
        update=[
            Call(
                "DeletePolicyVersion",
                {"policyName": "@id", "policyVersionId": _oldest_version},
                only=("PolicyDocument",),
                only_if=_has_all_versions,
            ),
            Call(
                "CreatePolicyVersion",
                {"policyName": "@id", "setAsDefault": lambda _: True},
                only=("PolicyDocument",),
            ),
        ],
        delete=[Call("DeletePolicy", {"policyName": "@id"})],
        name="PolicyName",
        name_length=128,
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::IoT::PolicyPrincipalAttachment",
        "iot",
        create=[Call("AttachPrincipalPolicy")],
        id=lambda v: f"{v.get('PolicyName')}|{v.get('Principal')}",
        delete=[
            Call("DetachPrincipalPolicy", {"policyName": "PolicyName", "principal": "Principal"})
        ],
    ),
    DeclaredType(
        "AWS::IoT::ThingPrincipalAttachment",
        "iot",
        create=[Call("AttachThingPrincipal", only=("ThingName", "Principal"))],
        id=lambda v: f"{v.get('ThingName')}|{v.get('Principal')}",
        delete=[Call("DetachThingPrincipal", {"thingName": "ThingName", "principal": "Principal"})],
    ),
    DeclaredType(
        "AWS::IoT::RoleAlias",
        "iot",
        create=[Call("CreateRoleAlias")],
        id="RoleAlias",
        name="RoleAlias",
        read=Call("DescribeRoleAlias", {"roleAlias": "@id"}),
        update=[
            Call(
                "UpdateRoleAlias",
                {"roleAlias": "@id", "credentialDurationSeconds": _read_duration_s},
            )
        ],
        delete=[Call("DeleteRoleAlias", {"roleAlias": "@id"})],
        attributes={"RoleAliasArn": "@answer.roleAliasDescription.roleAliasArn"},
    ),
    DeclaredType(
        "AWS::IoT::ThingGroup",
        "iot",
        create=[Call("CreateThingGroup")],
        id="ThingGroupName",
        name="ThingGroupName",
        read=Call("DescribeThingGroup", {"thingGroupName": "@id"}),
        update=[Call("UpdateThingGroup", {"thingGroupName": "@id"})],
        delete=[Call("DeleteThingGroup", {"thingGroupName": "@id"})],
        attributes={"Arn": "@answer.thingGroupArn", "Id": "@answer.thingGroupId"},
    ),
]
