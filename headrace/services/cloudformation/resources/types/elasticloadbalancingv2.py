"""Load balancers, listeners and target groups, as stored settings."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
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


DECLARED = [
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
