"""What stands in front of an application: hosted zones, web ACLs, balancers, clusters of containers; all stored."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declared import Call, Declared, made_of, own_name

TYPES = [
    Declared(
        "AWS::Route53::HostedZone",
        "route53",
        create=[
            Call(
                "CreateHostedZone",
                {
                    "CallerReference": lambda v: v.context.ids.uuid(),
                    "VPC": made_of("VPCs")(lambda v: (v.get("VPCs") or [None])[0]),
                },
            )
        ],
        id=lambda v: str(v.answer["HostedZone"]["Id"]).rpartition("/")[2],
        read=Call("GetHostedZone", {"Id": "@id"}),
        delete=[Call("DeleteHostedZone", {"Id": "@id"})],
        attributes={"Id": "@id", "NameServers": "@answer.DelegationSet.NameServers"},
    ),
    Declared(
        "AWS::ECS::Cluster",
        "ecs",
        create=[Call("CreateCluster")],
        id="ClusterName",
        read=Call("DescribeClusters", {"clusters": lambda v: [v.id]}),
        delete=[Call("DeleteCluster", {"cluster": "@id"})],
        name="ClusterName",
        name_length=255,
        attributes={"Arn": "@answer.clusters.0.clusterArn"},
    ),
    Declared(
        "AWS::ECS::TaskDefinition",
        "ecs",
        create=[
            Call(
                "RegisterTaskDefinition",
                {"family": own_name("Family", 255)},
            )
        ],
        id="@answer.taskDefinition.taskDefinitionArn",
        delete=[Call("DeregisterTaskDefinition", {"taskDefinition": "@id"})],
        names={"Family": "family"},
        attributes={"TaskDefinitionArn": "@id"},
    ),
    Declared(
        "AWS::WAFv2::WebACL",
        "wafv2",
        create=[Call("CreateWebACL")],
        id=lambda v: f"{v.get('Name')}|{v.answer['Summary']['Id']}|{v.get('Scope')}",
        read=Call(
            "GetWebACL",
            {
                "Name": "Name",
                "Scope": "Scope",
                "Id": lambda v: v.id.split("|")[1] if "|" in v.id else None,
            },
        ),
        delete=[
            Call(
                "DeleteWebACL",
                {
                    "Name": lambda v: v.id.split("|")[0],
                    "Id": lambda v: v.id.split("|")[1],
                    "Scope": "Scope",
                    "LockToken": "@answer.LockToken",
                },
            )
        ],
        attributes={
            "Arn": "@answer.WebACL.ARN",
            "Id": "@answer.WebACL.Id",
            "Capacity": lambda v: str(v.answer["WebACL"].get("Capacity", 0)),
            "LabelNamespace": "@answer.WebACL.LabelNamespace",
        },
    ),
    Declared(
        "AWS::ElasticLoadBalancingV2::TargetGroup",
        "elbv2",
        create=[Call("CreateTargetGroup")],
        id="@answer.TargetGroups.0.TargetGroupArn",
        delete=[Call("DeleteTargetGroup", {"TargetGroupArn": "@id"})],
        name="Name",
        name_length=32,
        attributes={
            "TargetGroupArn": "@id",
            "TargetGroupFullName": lambda v: v.id.rpartition(":")[2],
        },
    ),
    Declared(
        "AWS::ElasticLoadBalancingV2::LoadBalancer",
        "elbv2",
        create=[Call("CreateLoadBalancer")],
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
    Declared(
        "AWS::ElasticLoadBalancingV2::Listener",
        "elbv2",
        create=[Call("CreateListener")],
        id="@answer.Listeners.0.ListenerArn",
        delete=[Call("DeleteListener", {"ListenerArn": "@id"})],
        attributes={"ListenerArn": "@id"},
    ),
]
