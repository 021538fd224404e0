"""EC2's network: VPCs, subnets, routes, gateways, endpoints, security groups. Nothing is routed: all is stored."""

from __future__ import annotations

from typing import Any

from headrace.services.cloudformation.resources.declaration import (
    Call,
    Declared,
    MadeOf,
    Source,
    Values,
    made_of,
    own_name,
)


def _permission(rule: dict[str, Any], peer: str) -> dict[str, Any]:
    """Return a template's rule, which is flat, as one of EC2's permissions; `peer` is Source or Destination."""
    found: dict[str, Any] = {"IpProtocol": str(rule.get("IpProtocol", "-1"))}
    for name in ("FromPort", "ToPort"):
        if name in rule:
            found[name] = int(rule[name])
    about = {"Description": rule["Description"]} if rule.get("Description") else {}
    if rule.get("CidrIp"):
        found["IpRanges"] = [{"CidrIp": rule["CidrIp"], **about}]
    if rule.get("CidrIpv6"):
        found["Ipv6Ranges"] = [{"CidrIpv6": rule["CidrIpv6"], **about}]
    if rule.get(f"{peer}PrefixListId"):
        found["PrefixListIds"] = [{"PrefixListId": rule[f"{peer}PrefixListId"], **about}]
    pair = {
        "GroupId": rule.get(f"{peer}SecurityGroupId"),
        "GroupName": rule.get(f"{peer}SecurityGroupName"),
        "UserId": rule.get(f"{peer}SecurityGroupOwnerId"),
    }
    pair = {key: value for key, value in pair.items() if value}
    if pair:
        found["UserIdGroupPairs"] = [{**pair, **about}]
    return found


def _permissions(peer: str, path: str = "") -> MadeOf:
    """Return the permissions of a list of rules at `path`, or of the resource itself."""
    flat = ("IpProtocol", "FromPort", "ToPort", "CidrIp", "CidrIpv6", "Description")
    parts = (*flat, *(f"{peer}{end}" for end in ("PrefixListId", "SecurityGroupId")))
    if peer == "Source":
        parts = (*parts, "SourceSecurityGroupName", "SourceSecurityGroupOwnerId")

    def make(values: Values) -> list[dict[str, Any]]:
        rules = values.get(path) if path else [values.properties]
        return [_permission(rule, peer) for rule in rules or []]

    return MadeOf((path,) if path else parts, make)


_LAUNCH: dict[str, Source] = {"LaunchTemplateName": own_name("LaunchTemplateName", 128)}
_EGRESS = MadeOf((), lambda v: bool(v.get("Egress")))
# Gateway is what a template gets that gives none (documented).
_ENDPOINT_TYPE = MadeOf(("VpcEndpointType",), lambda v: v.get("VpcEndpointType") or "Gateway")


def _true_or_false(name: str) -> MadeOf:
    return MadeOf((name,), lambda values: {"Value": values.get(name)})


def _first_of_vpc(operation: str, answer: str, member: str) -> Source:
    """Return what finds the default thing of a VPC, which EC2 makes with it."""

    def find(values: Values) -> Any:
        params = {"Filters": [{"Name": "vpc-id", "Values": [values.id]}]}
        found: list[dict[str, Any]] = values.context.call("ec2", operation, params).get(answer, [])
        return found[0].get(member) if found else None

    return find


@made_of("Tags")
def _own_id(values: Values) -> list[str]:
    return [values.id]


@made_of("Tags")
def _tags(values: Values) -> list[dict[str, str]] | None:
    return [{"Key": key, "Value": value} for key, value in values.tags.items()] or None


_RETAG = Call("CreateTags", {"Resources": _own_id, "Tags": _tags}, only=(), when="Tags")
_GROUP = {"GroupId": "@id"}
_VPC = {"VpcId": "@id"}
_ROUTE_ENDS = (
    "DestinationCidrBlock",
    "DestinationIpv6CidrBlock",
    "DestinationPrefixListId",
)


def _route_id(values: Values) -> str:
    ends = [str(values.get(name)) for name in _ROUTE_ENDS if values.get(name)]
    return "|".join([str(values.get("RouteTableId")), *ends])


def _rule(kind: str, peer: str) -> Declared:
    permissions = _permissions(peer)
    return Declared(
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
            iter(each["SecurityGroupRuleId"] for each in v.answered("SecurityGroupRules")),
            f"{v.get('GroupId')}|{kind}|{v.context.logical_id}",
        ),
        delete=[
            Call(f"RevokeSecurityGroup{kind}", {"GroupId": "GroupId", "IpPermissions": permissions})
        ],
        attributes={"Id": "@id"},
    )


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
TYPES = [
    Declared(
        "AWS::EC2::VPC",
        "ec2",
        create=[Call("CreateVpc"), *_VPC_SWITCHES],
        id="@answer.Vpc.VpcId",
        update=[*_VPC_SWITCHES, _RETAG],
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
                each["AssociationId"] for each in v.answered("Vpc.CidrBlockAssociationSet")
            ],
            "Ipv6CidrBlocks": lambda v: [
                each["Ipv6CidrBlock"] for each in v.answered("Vpc.Ipv6CidrBlockAssociationSet")
            ],
        },
    ),
    Declared(
        "AWS::EC2::Subnet",
        "ec2",
        create=[Call("CreateSubnet"), *_SUBNET_SWITCHES],
        id="@answer.Subnet.SubnetId",
        read=Call("DescribeSubnets", {"SubnetIds": lambda v: [v.id]}),
        update=[*_SUBNET_SWITCHES, _RETAG],
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
    Declared(
        "AWS::EC2::RouteTable",
        "ec2",
        create=[Call("CreateRouteTable")],
        id="@answer.RouteTable.RouteTableId",
        update=[_RETAG],
        delete=[Call("DeleteRouteTable", {"RouteTableId": "@id"})],
        ec2_tags="route-table",
        attributes={"RouteTableId": "@id"},
    ),
    Declared(
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
    Declared(
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
    Declared(
        "AWS::EC2::InternetGateway",
        "ec2",
        create=[Call("CreateInternetGateway")],
        id="@answer.InternetGateway.InternetGatewayId",
        update=[_RETAG],
        delete=[Call("DeleteInternetGateway", {"InternetGatewayId": "@id"})],
        ec2_tags="internet-gateway",
        attributes={"InternetGatewayId": "@id"},
    ),
    Declared(
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
    Declared(
        "AWS::EC2::EIP",
        "ec2",
        create=[Call("AllocateAddress")],
        id="@answer.PublicIp",
        read=Call("DescribeAddresses", {"PublicIps": lambda v: [v.id]}),
        delete=[Call("ReleaseAddress", {"AllocationId": "@answer.Addresses.0.AllocationId"})],
        ec2_tags="elastic-ip",
        attributes={"AllocationId": "@answer.Addresses.0.AllocationId", "PublicIp": "@id"},
    ),
    Declared(
        "AWS::EC2::NatGateway",
        "ec2",
        create=[Call("CreateNatGateway")],
        id="@answer.NatGateway.NatGatewayId",
        update=[_RETAG],
        delete=[Call("DeleteNatGateway", {"NatGatewayId": "@id"})],
        ec2_tags="natgateway",
        attributes={"NatGatewayId": "@id"},
    ),
    Declared(
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
            # What a template gives stands in place of the rule that allows everything.
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
        update=[_RETAG],
        delete=[Call("DeleteSecurityGroup", _GROUP)],
        ec2_tags="security-group",
        attributes={"GroupId": "@id", "VpcId": "VpcId", "Id": "@id"},
    ),
    _rule("Ingress", "Source"),
    _rule("Egress", "Destination"),
    Declared(
        "AWS::EC2::VPCEndpoint",
        "ec2",
        create=[Call("CreateVpcEndpoint", {"VpcEndpointType": _ENDPOINT_TYPE})],
        id="@answer.VpcEndpoint.VpcEndpointId",
        read=Call("DescribeVpcEndpoints", {"VpcEndpointIds": lambda v: [v.id]}),
        delete=[Call("DeleteVpcEndpoints", {"VpcEndpointIds": lambda v: [v.id]})],
        ec2_tags="vpc-endpoint",
        attributes={
            "Id": "@id",
            "DnsEntries": lambda v: [
                f"{each.get('HostedZoneId', '')}:{each.get('DnsName', '')}"
                for each in v.answered("VpcEndpoints.0.DnsEntries")
            ],
        },
    ),
    Declared(
        "AWS::EC2::FlowLog",
        "ec2",
        create=[
            Call(
                "CreateFlowLogs",
                {"ResourceIds": made_of("ResourceId")(lambda v: [v.get("ResourceId")])},
            )
        ],
        id="@answer.FlowLogIds.0",
        delete=[Call("DeleteFlowLogs", {"FlowLogIds": lambda v: [v.id]})],
        ec2_tags="vpc-flow-log",
        attributes={"Id": "@id"},
    ),
    Declared(
        "AWS::EC2::NetworkAcl",
        "ec2",
        create=[Call("CreateNetworkAcl")],
        id="@answer.NetworkAcl.NetworkAclId",
        update=[_RETAG],
        delete=[Call("DeleteNetworkAcl", {"NetworkAclId": "@id"})],
        ec2_tags="network-acl",
        attributes={"Id": "@id"},
    ),
    Declared(
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
        delete=[
            Call(
                "DeleteNetworkAclEntry",
                {"NetworkAclId": "NetworkAclId", "RuleNumber": "RuleNumber", "Egress": _EGRESS},
            )
        ],
        attributes={"Id": "@id"},
    ),
    Declared(
        "AWS::EC2::LaunchTemplate",
        "ec2",
        create=[Call("CreateLaunchTemplate", _LAUNCH)],
        id="@answer.LaunchTemplate.LaunchTemplateId",
        delete=[Call("DeleteLaunchTemplate", {"LaunchTemplateId": "@id"})],
        attributes={
            "LaunchTemplateId": "@id",
            "DefaultVersionNumber": lambda _: "1",
            "LatestVersionNumber": lambda _: "1",
        },
    ),
    Declared(
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
]
