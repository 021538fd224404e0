"""EC2's security groups and their rules. Nothing is filtered: all is stored."""

from __future__ import annotations

from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.services.cloudformation.resources.declaration import (
    Call,
    ComputedProperty,
    DeclaredType,
    Source,
    Values,
    own_name,
)
from headrace.services.cloudformation.resources.types.ec2 import RETAG


def _permission(rule: dict[str, Any], peer: str) -> dict[str, Any]:
    """Return a template's flat rule as one of EC2's permissions; `peer` is Source or Destination."""
    permission: dict[str, Any] = {"IpProtocol": str(rule.get("IpProtocol", "-1"))}
    for name in ("FromPort", "ToPort"):
        if name in rule:
            permission[name] = int(rule[name])
    about = {"Description": rule["Description"]} if rule.get("Description") else {}
    if rule.get("CidrIp"):
        permission["IpRanges"] = [{"CidrIp": rule["CidrIp"], **about}]
    if rule.get("CidrIpv6"):
        permission["Ipv6Ranges"] = [{"CidrIpv6": rule["CidrIpv6"], **about}]
    if rule.get(f"{peer}PrefixListId"):
        permission["PrefixListIds"] = [{"PrefixListId": rule[f"{peer}PrefixListId"], **about}]
    pair = {
        "GroupId": rule.get(f"{peer}SecurityGroupId"),
        "GroupName": rule.get(f"{peer}SecurityGroupName"),
        "UserId": rule.get(f"{peer}SecurityGroupOwnerId"),
    }
    pair = {key: value for key, value in pair.items() if value}
    if pair:
        permission["UserIdGroupPairs"] = [{**pair, **about}]
    return permission


def _permissions(peer: str, path: str = "") -> ComputedProperty:
    """Return the permissions of a list of rules at `path`, or of the resource itself."""
    flat = ("IpProtocol", "FromPort", "ToPort", "CidrIp", "CidrIpv6", "Description")
    parts = (*flat, *(f"{peer}{end}" for end in ("PrefixListId", "SecurityGroupId")))
    if peer == "Source":
        parts = (*parts, "SourceSecurityGroupName", "SourceSecurityGroupOwnerId")

    def make(values: Values) -> list[dict[str, Any]]:
        rules = values.get(path) if path else [values.properties]
        return [_permission(rule, peer) for rule in rules or []]

    return ComputedProperty((path,) if path else parts, make)


_EVERYWHERE: dict[str, Any] = {"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}


def _rules(peer: str, name: str) -> ComputedProperty:
    """Set a group's own rules to the template's, and return the group's id.

    Rules of other resources stay, and so do those added outside a stack. Duplicate and missing rules are no error: in a
    rollback, some changes of the failed update were never made.
    """
    direction = name.removeprefix("SecurityGroup")
    # The default allows all outbound traffic.
    default = [_EVERYWHERE] if direction == "Egress" else []

    def bring(values: Values) -> str:
        before, after = (
            [_permission(rule, peer) for rule in rules.get(name) or default]
            for rules in (values.old, values.properties)
        )
        for verb, rules, fine in (
            (
                "Revoke",
                [permission for permission in before if permission not in after],
                "NotFound",
            ),
            (
                "Authorize",
                [permission for permission in after if permission not in before],
                "Duplicate",
            ),
        ):
            for rule in rules:
                params = {"GroupId": values.id, "IpPermissions": [rule]}
                try:
                    values.context.call("ec2", f"{verb}SecurityGroup{direction}", params)
                except AwsError as error:
                    if error.code != f"InvalidPermission.{fine}":
                        raise
        return values.id

    return ComputedProperty((name,), bring)


def _each(source: ComputedProperty) -> ComputedProperty:
    """Return the source of a list of one."""
    return ComputedProperty(source.properties, lambda values: [source(values)])


def _build_description_call(kind: str) -> Call:
    """Return the call that changes a rule's description, with the rule itself."""
    peer = "Source" if kind == "Ingress" else "Destination"
    permissions = _permissions(peer)
    own = ComputedProperty(("Description",), permissions.function)
    operation = f"UpdateSecurityGroupRuleDescriptions{kind}"
    group: Source = lambda v: v.get("GroupId")  # noqa: E731
    return Call(operation, {"GroupId": group, "IpPermissions": own}, only=())


_GROUP = {"GroupId": "@id"}


def _rule(kind: str, peer: str) -> DeclaredType:
    permissions = _permissions(peer)
    return DeclaredType(
        f"AWS::EC2::SecurityGroup{kind}",
        "ec2",
        create=[
            Call(
                f"AuthorizeSecurityGroup{kind}",
                {"GroupId": "GroupId", "IpPermissions": permissions},
                only=("GroupName",) if kind == "Ingress" else (),
            )
        ],
        id=lambda v: next(
            iter(
                answered_rule["SecurityGroupRuleId"]
                for answered_rule in v.list_answered("SecurityGroupRules")
            ),
            f"{v.get('GroupId')}|{kind}|{v.context.logical_id}",
        ),
        update=[_build_description_call(kind)],
        delete=[
            Call(f"RevokeSecurityGroup{kind}", {"GroupId": "GroupId", "IpPermissions": permissions})
        ],
        attributes={"Id": "@id"},
    )


DECLARED = [
    DeclaredType(
        "AWS::EC2::SecurityGroup",
        "ec2",
        create=[
            Call(
                "CreateSecurityGroup",
                {
                    "GroupName": own_name("GroupName", 255),
                    "Description": "GroupDescription",
                },
            ),
            Call(
                "AuthorizeSecurityGroupIngress",
                {**_GROUP, "IpPermissions": _permissions("Source", "SecurityGroupIngress")},
                only=(),
                when="SecurityGroupIngress",
            ),
            # The template's rules replace the default rule, which allows everything.
            Call(
                "RevokeSecurityGroupEgress",
                {
                    **_GROUP,
                    "IpPermissions": lambda _: [
                        {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
                    ],
                },
                only=(),
                when="SecurityGroupEgress",
            ),
            Call(
                "AuthorizeSecurityGroupEgress",
                {**_GROUP, "IpPermissions": _permissions("Destination", "SecurityGroupEgress")},
                only=(),
                when="SecurityGroupEgress",
            ),
        ],
        id="@answer.GroupId",
        update=[
            Call(
                "DescribeSecurityGroups",
                {"GroupIds": _each(_rules("Source", "SecurityGroupIngress"))},
                only=(),
            ),
            Call(
                "DescribeSecurityGroups",
                {"GroupIds": _each(_rules("Destination", "SecurityGroupEgress"))},
                only=(),
            ),
            *RETAG,
        ],
        delete=[Call("DeleteSecurityGroup", _GROUP)],
        ec2_tags="security-group",
        attributes={"GroupId": "@id", "VpcId": "VpcId", "Id": "@id"},
    ),
    _rule("Ingress", "Source"),
    _rule("Egress", "Destination"),
]
