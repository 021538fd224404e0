"""Types of scaling: EC2 Auto Scaling, Application Auto Scaling, load balancers.

EC2 Auto Scaling: groups, launch configurations, scaling policies and schedules.

Application Auto Scaling: targets and policies.

Load balancers, listeners and target groups, as stored settings.
"""

from __future__ import annotations

from headrace.aws.calls.errors import AwsError
from headrace.services.cloudformation.resources.base import Properties
from headrace.services.cloudformation.resources.declaration import (
    Call,
    ComputedProperty,
    DeclaredType,
    Source,
    Values,
    declare_sources,
)

_BALANCER: dict[str, Source] = {"LoadBalancerArn": "@id"}


_ATTRIBUTES = Call(
    "ModifyLoadBalancerAttributes",
    {**_BALANCER, "Attributes": "LoadBalancerAttributes"},
    only=(),
    when="LoadBalancerAttributes",
)


_OF_TARGETS = Call(
    "ModifyTargetGroupAttributes",
    {"TargetGroupArn": "@id", "Attributes": "TargetGroupAttributes"},
    only=(),
    when="TargetGroupAttributes",
)


_ELB_TAGS = ("AddTags", "RemoveTags", "ResourceArns", "@id")


_PARTS = ("ResourceId", "ScalableDimension", "ServiceNamespace")


@declare_sources("InstanceMonitoring")
def _monitoring(values: Values) -> dict[str, bool] | None:
    is_detailed = values.get("InstanceMonitoring")
    return None if is_detailed is None else {"Enabled": is_detailed}


def _target(part: int) -> ComputedProperty:
    """Return a part of a scaling policy's target: from its own property, or from the target's id."""

    def find(values: Values) -> str | None:
        part_value = values.get(_PARTS[part])
        if part_value is None and values.get("ScalingTargetId"):
            target = str(values.get("ScalingTargetId"))
            if target.count("|") != len(_PARTS) - 1:
                raise AwsError("ValidationException", f"{target} is no scaling target.")  # assumed
            part_value = target.split("|")[part]
        return part_value

    return declare_sources(_PARTS[part], "ScalingTargetId")(find)


_TARGET: dict[str, Source] = {name: name for name in _PARTS}


_OF_TARGET: dict[str, Source] = {name: _target(at) for at, name in enumerate(_PARTS)}


def _is_scaled(values: Values) -> bool:
    params = {
        "ServiceNamespace": values.get("ServiceNamespace"),
        "ResourceIds": [values.get("ResourceId")],
        "ScalableDimension": values.get("ScalableDimension"),
    }
    answer = values.context.call("application-autoscaling", "DescribeScalableTargets", params)
    return bool(answer.get("ScalableTargets"))


def _has_scaling_policy(values: Values) -> bool:
    params = {
        "ServiceNamespace": _target(2)(values),
        "ResourceId": _target(0)(values),
        "ScalableDimension": _target(1)(values),
        "PolicyNames": [values.get("PolicyName")],
    }
    answer = values.context.call("application-autoscaling", "DescribeScalingPolicies", params)
    return bool(answer.get("ScalingPolicies"))


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
        create=[Call("CreateLaunchConfiguration", {"InstanceMonitoring": _monitoring})],
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
    DeclaredType(
        "AWS::ApplicationAutoScaling::ScalableTarget",
        "application-autoscaling",
        create=[Call("RegisterScalableTarget")],
        id=lambda v: "|".join(str(v.get(name)) for name in _PARTS),
        update=[Call("RegisterScalableTarget")],
        delete=[Call("DeregisterScalableTarget", _TARGET)],
        attributes={"Id": "@id"},
        exists=_is_scaled,
    ),
    DeclaredType(
        "AWS::ApplicationAutoScaling::ScalingPolicy",
        "application-autoscaling",
        create=[Call("PutScalingPolicy", _OF_TARGET)],
        id="@answer.PolicyARN",
        exists=_has_scaling_policy,
        update=[Call("PutScalingPolicy", _OF_TARGET)],
        delete=[Call("DeleteScalingPolicy", {**_OF_TARGET, "PolicyName": "PolicyName"})],
        attributes={"Arn": "@id"},
    ),
    DeclaredType(
        "AWS::ElasticLoadBalancingV2::TargetGroup",
        "elbv2",
        create=[Call("CreateTargetGroup"), _OF_TARGETS],
        id="@answer.TargetGroups.0.TargetGroupArn",
        update=[Call("ModifyTargetGroup", {"TargetGroupArn": "@id"}), _OF_TARGETS],
        tag=_ELB_TAGS,
        delete=[Call("DeleteTargetGroup", {"TargetGroupArn": "@id"})],
        name="Name",
        name_length=32,
        attributes={
            "TargetGroupArn": "@id",
            "TargetGroupFullName": lambda v: v.id.rpartition(":")[2],
        },
    ),
    DeclaredType(
        "AWS::ElasticLoadBalancingV2::LoadBalancer",
        "elbv2",
        create=[Call("CreateLoadBalancer"), _ATTRIBUTES],
        update=[
            Call("SetSecurityGroups", _BALANCER, only=("SecurityGroups",), when="SecurityGroups"),
            Call("SetSubnets", _BALANCER, only=("Subnets", "SubnetMappings")),
            Call("SetIpAddressType", _BALANCER, only=("IpAddressType",), when="IpAddressType"),
            _ATTRIBUTES,
        ],
        tag=_ELB_TAGS,
        id="@answer.LoadBalancers.0.LoadBalancerArn",
        read=Call(
            "DescribeLoadBalancers",
            {
                "LoadBalancerArns": lambda v: [v.id] if v.id.startswith("arn:") else None,
                "Names": lambda v: None if v.id.startswith("arn:") else [v.id],
            },
        ),
        read_as={
            "Name": "@answer.LoadBalancers.0.LoadBalancerName",
            "Subnets": lambda v: [
                zone["SubnetId"] for zone in v.answer["LoadBalancers"][0]["AvailabilityZones"]
            ],
        },
        delete=[Call("DeleteLoadBalancer", {"LoadBalancerArn": "@id"})],
        name="Name",
        name_length=32,
        attributes={
            "LoadBalancerArn": "@id",
            "DNSName": "@answer.LoadBalancers.0.DNSName",
            "CanonicalHostedZoneID": "@answer.LoadBalancers.0.CanonicalHostedZoneId",
            "LoadBalancerName": "@answer.LoadBalancers.0.LoadBalancerName",
            "LoadBalancerFullName": lambda v: v.id.partition("loadbalancer/")[2],
            "SecurityGroups": "@answer.LoadBalancers.0.SecurityGroups",
        },
    ),
    DeclaredType(
        "AWS::ElasticLoadBalancingV2::Listener",
        "elbv2",
        create=[Call("CreateListener")],
        id="@answer.Listeners.0.ListenerArn",
        update=[Call("ModifyListener", {"ListenerArn": "@id"})],
        tag=_ELB_TAGS,
        delete=[Call("DeleteListener", {"ListenerArn": "@id"})],
        attributes={"ListenerArn": "@id"},
    ),
    DeclaredType(
        "AWS::ElasticLoadBalancingV2::ListenerRule",
        "elbv2",
        create=[Call("CreateRule")],
        id="@answer.Rules.0.RuleArn",
        read=Call("DescribeRules", {"RuleArns": lambda v: [v.id]}),
        update=[
            Call("ModifyRule", {"RuleArn": "@id"}),
            Call(
                "SetRulePriorities",
                {
                    "RulePriorities": declare_sources("Priority")(
                        lambda v: [{"RuleArn": v.id, "Priority": v.get("Priority")}]
                    )
                },
                only=(),
            ),
        ],
        tag=("AddTags", "RemoveTags", "ResourceArns", "@id"),
        delete=[Call("DeleteRule", {"RuleArn": "@id"})],
        attributes={"RuleArn": "@id", "IsDefault": lambda _: "false"},
    ),
    DeclaredType(
        "AWS::ElasticLoadBalancingV2::ListenerCertificate",
        "elbv2",
        create=[Call("AddListenerCertificates")],
        id=lambda v: f"{v.get('ListenerArn')}|{len(v.items('Certificates'))}",
        delete=[
            Call(
                "RemoveListenerCertificates",
                {"ListenerArn": "ListenerArn", "Certificates": "Certificates"},
            )
        ],
        attributes={"Id": "@id"},
    ),
]
