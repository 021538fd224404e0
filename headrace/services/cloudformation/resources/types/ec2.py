"""EC2: networks and instances, as stored settings."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from headrace.services.cloudformation.resources.declaration import (
    Call,
    ComputedProperty,
    DeclaredType,
    Source,
    Values,
    declare_sources,
    list_removed_tags,
    own_name,
)


def _difference(name: str, *, added: bool) -> ComputedProperty:
    """Return the items that an update adds to a list or removes from it; None without any."""

    def find(values: Values) -> list[str] | None:
        old: list[str] = values.old.get(name) or []
        new: list[str] = values.get(name) or []
        one, other = (new, old) if added else (old, new)
        return [item for item in one if item not in other] or None

    return ComputedProperty((name,), find)


_LAUNCH: dict[str, Source] = {"LaunchTemplateName": own_name("LaunchTemplateName", 128)}


_EGRESS = ComputedProperty((), lambda v: bool(v.get("Egress")))


# The default is Gateway (documented).
_ENDPOINT_TYPE = ComputedProperty(
    ("VpcEndpointType",), lambda v: v.get("VpcEndpointType") or "Gateway"
)


def _true_or_false(name: str) -> ComputedProperty:
    return ComputedProperty((name,), lambda values: {"Value": values.get(name)})


def _first_of_vpc(operation: str, answer: str, member: str) -> Source:
    """Return the source of a VPC's default resource, which EC2 creates with the VPC."""

    def find(values: Values) -> Any:
        params = {"Filters": [{"Name": "vpc-id", "Values": [values.id]}]}
        items: list[dict[str, Any]] = values.context.call("ec2", operation, params).get(answer, [])
        return items[0].get(member) if items else None

    return find


@declare_sources("Tags")
def _own_id(values: Values) -> list[str]:
    return [values.id]


@declare_sources("Tags")
def _tags(values: Values) -> list[dict[str, str]] | None:
    return [{"Key": key, "Value": value} for key, value in values.tags.items()] or None


def _retag(resources: Source) -> list[Call]:
    """Return the calls that set a resource's tags, and remove those that the update removes."""
    return [
        Call("CreateTags", {"Resources": resources, "Tags": _tags}, only=(), when="Tags"),
        Call(
            "DeleteTags",
            {"Resources": resources, "Tags": _list_removed_tags},
            only=(),
            only_if=lambda v: _list_removed_tags(v) is not None,
        ),
    ]


@declare_sources("Tags")
def _list_removed_tags(values: Values) -> list[dict[str, str]] | None:
    keys = list_removed_tags("Tags")(values)
    return None if keys is None else [{"Key": key} for key in keys]


@declare_sources("Tags")
def _allocation(values: Values) -> list[str]:
    answer = values.context.call("ec2", "DescribeAddresses", {"PublicIps": [values.id]})
    return [str(address["AllocationId"]) for address in answer["Addresses"]]


RETAG = _retag(_own_id)


def declare_tagged_type(
    kind: str, noun: str, tag: str, attribute: str, members: Mapping[str, Source] | None = None
) -> DeclaredType:
    """Return a type whose calls and answers have one noun, such as `RouteTable`, and of which only tags change.

    Args:
        kind: the type.
        noun: what its calls and answers name it.
        tag: its kind in TagSpecifications.
        attribute: the attribute with the id.
        members: the sources of members of its creation that have another name than a property.
    """
    return DeclaredType(
        kind,
        "ec2",
        create=[Call(f"Create{noun}", members or {})],
        id=f"@answer.{noun}.{noun}Id",
        update=RETAG,
        delete=[Call(f"Delete{noun}", {f"{noun}Id": "@id"})],
        ec2_tags=tag,
        attributes={attribute: "@id"},
    )


_VPC = {"VpcId": "@id"}


_ROUTE_ENDS = (
    "DestinationCidrBlock",
    "DestinationIpv6CidrBlock",
    "DestinationPrefixListId",
)


def _route_id(values: Values) -> str:
    ends = [str(values.get(name)) for name in _ROUTE_ENDS if values.get(name)]
    return "|".join([str(values.get("RouteTableId")), *ends])


_VPC_SWITCHES = [
    Call(
        "ModifyVpcAttribute",
        {**_VPC, name: _true_or_false(name)},
        only=(),
        when=name,
    )
    for name in ("EnableDnsSupport", "EnableDnsHostnames")
]


_SUBNET_SWITCHES = [
    Call(
        "ModifySubnetAttribute",
        {"SubnetId": "@id", name: _true_or_false(name)},
        only=(),
        when=name,
    )
    for name in ("MapPublicIpOnLaunch", "AssignIpv6AddressOnCreation")
]


@declare_sources("AvailabilityZone", "Tenancy")
def _placement(values: Values) -> dict[str, Any] | None:
    members = {name: values.get(name) for name in ("AvailabilityZone", "Tenancy")}
    return {name: value for name, value in members.items() if value is not None} or None


@declare_sources("IamInstanceProfile")
def _profile(values: Values) -> dict[str, str] | None:
    name = values.get("IamInstanceProfile")
    return None if name is None else {"Name": str(name)}


@declare_sources("Monitoring")
def _monitoring(values: Values) -> dict[str, bool] | None:
    is_detailed = values.get("Monitoring")
    return None if is_detailed is None else {"Enabled": is_detailed}


@declare_sources("UserData")
def _user_data(values: Values) -> str | None:
    """Return the user data as text: botocore encodes it."""
    encoded = values.get("UserData")
    return None if encoded is None else base64.b64decode(encoded).decode("latin-1")


_LOCATION: dict[str, Source] = {
    "Placement": _placement,
    "IamInstanceProfile": _profile,
    "Monitoring": _monitoring,
    "UserData": _user_data,
}


DECLARED = [
    DeclaredType(
        "AWS::EC2::VPC",
        "ec2",
        create=[Call("CreateVpc"), *_VPC_SWITCHES],
        id="@answer.Vpc.VpcId",
        update=[*_VPC_SWITCHES, *RETAG],
        delete=[Call("DeleteVpc", _VPC)],
        ec2_tags="vpc",
        attributes={
            "VpcId": "@id",
            "CidrBlock": "CidrBlock",
            "DefaultSecurityGroup": _first_of_vpc(
                "DescribeSecurityGroups", "SecurityGroups", "GroupId"
            ),
            "DefaultNetworkAcl": _first_of_vpc(
                "DescribeNetworkAcls", "NetworkAcls", "NetworkAclId"
            ),
            "CidrBlockAssociations": lambda v: [
                each["AssociationId"] for each in v.list_answered("Vpc.CidrBlockAssociationSet")
            ],
            "Ipv6CidrBlocks": lambda v: [
                each["Ipv6CidrBlock"] for each in v.list_answered("Vpc.Ipv6CidrBlockAssociationSet")
            ],
        },
    ),
    DeclaredType(
        "AWS::EC2::Subnet",
        "ec2",
        create=[Call("CreateSubnet"), *_SUBNET_SWITCHES],
        id="@answer.Subnet.SubnetId",
        read=Call("DescribeSubnets", {"SubnetIds": lambda v: [v.id]}),
        update=[*_SUBNET_SWITCHES, *RETAG],
        delete=[Call("DeleteSubnet", {"SubnetId": "@id"})],
        ec2_tags="subnet",
        attributes={
            "AvailabilityZone": "@answer.Subnets.0.AvailabilityZone",
            "AvailabilityZoneId": "@answer.Subnets.0.AvailabilityZoneId",
            "Ipv6CidrBlocks": lambda _: [],
            "NetworkAclAssociationId": lambda v: f"aclassoc-{v.id.removeprefix('subnet-')}",
            "SubnetId": "@id",
            "VpcId": "VpcId",
        },
    ),
    declare_tagged_type("AWS::EC2::RouteTable", "RouteTable", "route-table", "RouteTableId"),
    DeclaredType(
        "AWS::EC2::Route",
        "ec2",
        create=[Call("CreateRoute")],
        id=_route_id,
        update=[Call("ReplaceRoute")],
        delete=[
            Call(
                "DeleteRoute",
                {"RouteTableId": "RouteTableId", **{name: name for name in _ROUTE_ENDS}},
            )
        ],
        attributes={
            "CidrBlock": lambda v: next((v.get(name) for name in _ROUTE_ENDS if v.get(name)), None)
        },
    ),
    DeclaredType(
        "AWS::EC2::SubnetRouteTableAssociation",
        "ec2",
        create=[Call("AssociateRouteTable")],
        id="@answer.AssociationId",
        in_place=frozenset({"RouteTableId"}),
        update=[
            Call("ReplaceRouteTableAssociation", {"AssociationId": "@id"}, only=("RouteTableId",))
        ],
        delete=[Call("DisassociateRouteTable", {"AssociationId": "@id"})],
        attributes={"Id": "@id"},
    ),
    declare_tagged_type(
        "AWS::EC2::InternetGateway", "InternetGateway", "internet-gateway", "InternetGatewayId"
    ),
    DeclaredType(
        "AWS::EC2::VPCGatewayAttachment",
        "ec2",
        create=[Call("AttachInternetGateway")],
        id=lambda v: f"IGW|{v.get('VpcId')}",
        delete=[
            Call(
                "DetachInternetGateway",
                {"InternetGatewayId": "InternetGatewayId", "VpcId": "VpcId"},
            )
        ],
        attributes={"AttachmentType": lambda _: "IGW"},
    ),
    DeclaredType(
        "AWS::EC2::EIP",
        "ec2",
        create=[Call("AllocateAddress")],
        id="@answer.PublicIp",
        read=Call("DescribeAddresses", {"PublicIps": lambda v: [v.id]}),
        delete=[Call("ReleaseAddress", {"AllocationId": "@answer.Addresses.0.AllocationId"})],
        ec2_tags="elastic-ip",
        update=_retag(_allocation),
        attributes={"AllocationId": "@answer.Addresses.0.AllocationId", "PublicIp": "@id"},
    ),
    declare_tagged_type("AWS::EC2::NatGateway", "NatGateway", "natgateway", "NatGatewayId"),
    DeclaredType(
        "AWS::EC2::VPCEndpoint",
        "ec2",
        create=[Call("CreateVpcEndpoint", {"VpcEndpointType": _ENDPOINT_TYPE})],
        id="@answer.VpcEndpoint.VpcEndpointId",
        read=Call("DescribeVpcEndpoints", {"VpcEndpointIds": lambda v: [v.id]}),
        update=[
            Call(
                "ModifyVpcEndpoint",
                {
                    "VpcEndpointId": "@id",
                    "AddRouteTableIds": _difference("RouteTableIds", added=True),
                    "RemoveRouteTableIds": _difference("RouteTableIds", added=False),
                    "AddSubnetIds": _difference("SubnetIds", added=True),
                    "RemoveSubnetIds": _difference("SubnetIds", added=False),
                    "AddSecurityGroupIds": _difference("SecurityGroupIds", added=True),
                    "RemoveSecurityGroupIds": _difference("SecurityGroupIds", added=False),
                },
                only=("PolicyDocument",),
            ),
            *RETAG,
        ],
        delete=[Call("DeleteVpcEndpoints", {"VpcEndpointIds": lambda v: [v.id]})],
        ec2_tags="vpc-endpoint",
        attributes={
            "Id": "@id",
            "DnsEntries": lambda v: [
                f"{each.get('HostedZoneId', '')}:{each.get('DnsName', '')}"
                for each in v.list_answered("VpcEndpoints.0.DnsEntries")
            ],
        },
    ),
    DeclaredType(
        "AWS::EC2::FlowLog",
        "ec2",
        create=[
            Call(
                "CreateFlowLogs",
                {"ResourceIds": declare_sources("ResourceId")(lambda v: [v.get("ResourceId")])},
            )
        ],
        id="@answer.FlowLogIds.0",
        delete=[Call("DeleteFlowLogs", {"FlowLogIds": lambda v: [v.id]})],
        ec2_tags="vpc-flow-log",
        attributes={"Id": "@id"},
    ),
    declare_tagged_type("AWS::EC2::NetworkAcl", "NetworkAcl", "network-acl", "Id"),
    DeclaredType(
        "AWS::EC2::NetworkAclEntry",
        "ec2",
        create=[
            Call(
                "CreateNetworkAclEntry",
                {
                    "IcmpTypeCode": "Icmp",
                    "Egress": _EGRESS,
                    "Protocol": "Protocol",
                },
            )
        ],
        id=lambda v: f"{v.get('NetworkAclId')}|{v.get('RuleNumber')}|{v.get('Egress') or False}",
        update=[
            Call(
                "ReplaceNetworkAclEntry",
                {"IcmpTypeCode": "Icmp", "Egress": _EGRESS, "Protocol": "Protocol"},
            )
        ],
        delete=[
            Call(
                "DeleteNetworkAclEntry",
                {"NetworkAclId": "NetworkAclId", "RuleNumber": "RuleNumber", "Egress": _EGRESS},
            )
        ],
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::EC2::LaunchTemplate",
        "ec2",
        create=[Call("CreateLaunchTemplate", _LAUNCH)],
        id="@answer.LaunchTemplate.LaunchTemplateId",
        read=Call("DescribeLaunchTemplates", {"LaunchTemplateIds": lambda v: [v.id]}),
        update=[
            Call(
                "CreateLaunchTemplateVersion",
                {"LaunchTemplateId": "@id"},
                only=("LaunchTemplateData", "VersionDescription"),
            )
        ],
        delete=[Call("DeleteLaunchTemplate", {"LaunchTemplateId": "@id"})],
        attributes={
            "LaunchTemplateId": "@id",
            "DefaultVersionNumber": lambda v: str(
                v.list_answered("LaunchTemplates")[0]["DefaultVersionNumber"]
            ),
            "LatestVersionNumber": lambda v: str(
                v.list_answered("LaunchTemplates")[0]["LatestVersionNumber"]
            ),
        },
    ),
    DeclaredType(
        "AWS::EC2::KeyPair",
        "ec2",
        create=[Call("CreateKeyPair", only=("KeyName", "KeyType", "KeyFormat"))],
        id="KeyName",
        read=Call("DescribeKeyPairs", {"KeyNames": lambda v: [v.id]}),
        delete=[Call("DeleteKeyPair", {"KeyName": "@id"})],
        ec2_tags="key-pair",
        attributes={
            "KeyPairId": "@answer.KeyPairs.0.KeyPairId",
            "KeyFingerprint": "@answer.KeyPairs.0.KeyFingerprint",
        },
    ),
    DeclaredType(
        "AWS::EC2::Instance",
        "ec2",
        create=[
            Call("RunInstances", {"MinCount": lambda _: 1, "MaxCount": lambda _: 1, **_LOCATION})
        ],
        id="@answer.Instances.0.InstanceId",
        read=Call("DescribeInstances", {"InstanceIds": lambda v: [v.id]}),
        update=_retag(_own_id),
        delete=[Call("TerminateInstances", {"InstanceIds": lambda v: [v.id]})],
        attributes={
            "InstanceId": "@id",
            **{
                name: f"@answer.Reservations.0.Instances.0.{member}"
                for name, member in (
                    ("PrivateIp", "PrivateIpAddress"),
                    ("PublicIp", "PublicIpAddress"),
                    ("PrivateDnsName", "PrivateDnsName"),
                    ("PublicDnsName", "PublicDnsName"),
                    ("AvailabilityZone", "Placement.AvailabilityZone"),
                    ("VpcId", "VpcId"),
                )
            },
        },
        ec2_tags="instance",
    ),
]
