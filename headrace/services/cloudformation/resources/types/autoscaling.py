"""EC2 Auto Scaling: groups, launch configurations, scaling policies and schedules."""

from __future__ import annotations

from headrace.services.cloudformation.resources.base import Properties
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Values,
    declare_sources,
)


@declare_sources("VPCZoneIdentifier")
def _subnets(values: Values) -> str | None:
    """Return the subnets in the API's form: one text."""
    subnets = values.get("VPCZoneIdentifier")
    return ",".join(subnets) if subnets else None


def _group_tags(values: Values) -> list[Properties]:
    """Return an Auto Scaling group's tags in CreateOrUpdateTags' form."""
    group = {"ResourceId": values.id, "ResourceType": "auto-scaling-group"}
    return [{**tag, **group} for tag in values.items("Tags")]


def _tags_gone(values: Values) -> list[Properties]:
    """Return the tags that the update removes."""
    kept = {tag["Key"] for tag in values.items("Tags")}
    group = {"ResourceId": values.id, "ResourceType": "auto-scaling-group"}
    before: list[Properties] = values.old.get("Tags") or []
    return [{**tag, **group} for tag in before if tag["Key"] not in kept]


def _policy_name(values: Values) -> str:
    return values.id.rpartition("policyName/")[2]


DECLARED = [
    DeclaredType(
        "AWS::AutoScaling::LaunchConfiguration",
        "autoscaling",
        create=[Call("CreateLaunchConfiguration")],
        id="LaunchConfigurationName",
        delete=[Call("DeleteLaunchConfiguration", {"LaunchConfigurationName": "@id"})],
        name="LaunchConfigurationName",
        name_length=255,
    ),
    DeclaredType(
        "AWS::AutoScaling::AutoScalingGroup",
        "autoscaling",
        create=[
            Call(
                "CreateAutoScalingGroup",
                {"VPCZoneIdentifier": _subnets, "AvailabilityZones": "AvailabilityZones"},
                tagged=False,
            )
        ],
        id="AutoScalingGroupName",
        read=Call("DescribeAutoScalingGroups", {"AutoScalingGroupNames": lambda v: [v.id]}),
        update=[
            Call(
                "UpdateAutoScalingGroup",
                {"AutoScalingGroupName": "@id", "VPCZoneIdentifier": _subnets},
            ),
            Call(
                "DeleteTags",
                {"Tags": declare_sources("Tags")(_tags_gone)},
                only=(),
                only_if=lambda v: bool(_tags_gone(v)),
            ),
            Call(
                "CreateOrUpdateTags",
                {"Tags": declare_sources("Tags")(_group_tags)},
                only=(),
                only_if=lambda v: bool(_group_tags(v)),
            ),
        ],
        # Deleting it would delete its policies, hooks and scheduled actions.
        deletes_others=True,
        delete=[
            Call(
                "DeleteAutoScalingGroup",
                {"AutoScalingGroupName": "@id", "ForceDelete": lambda _: True},
            )
        ],
        # In moto the account's own role always exists.
        names={"ServiceLinkedRoleARN": "-"},
        name="AutoScalingGroupName",
        name_length=255,
        attributes={"AutoScalingGroupARN": "@answer.AutoScalingGroups.0.AutoScalingGroupARN"},
    ),
    DeclaredType(
        "AWS::AutoScaling::ScalingPolicy",
        "autoscaling",
        create=[Call("PutScalingPolicy")],
        id="@answer.PolicyARN",
        update=[Call("PutScalingPolicy", {"PolicyName": _policy_name})],
        delete=[
            Call(
                "DeletePolicy",
                {"AutoScalingGroupName": "AutoScalingGroupName", "PolicyName": _policy_name},
            )
        ],
        name="PolicyName",
        name_length=255,
        attributes={"Arn": "@id", "PolicyName": _policy_name},
    ),
    DeclaredType(
        "AWS::AutoScaling::ScheduledAction",
        "autoscaling",
        create=[Call("PutScheduledUpdateGroupAction")],
        id="ScheduledActionName",
        read=Call("DescribeScheduledActions", {"ScheduledActionNames": lambda v: [v.id]}),
        update=[Call("PutScheduledUpdateGroupAction", {"ScheduledActionName": "@id"})],
        delete=[
            Call(
                "DeleteScheduledAction",
                {"AutoScalingGroupName": "AutoScalingGroupName", "ScheduledActionName": "@id"},
            )
        ],
        name="ScheduledActionName",
        name_length=255,
        attributes={"ScheduledActionName": "@id"},
    ),
]
