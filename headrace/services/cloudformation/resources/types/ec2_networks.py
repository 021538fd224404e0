"""EC2: addresses, interfaces, options and gateways of networks, as stored settings."""

from __future__ import annotations

from typing import Any, cast

from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Values,
    declare_sources,
)
from headrace.services.cloudformation.resources.types.ec2 import RETAG, tagged_type

# Property -> its key in CreateDhcpOptions' list.
_DHCP = {
    "DomainName": "domain-name",
    "DomainNameServers": "domain-name-servers",
    "NetbiosNameServers": "netbios-name-servers",
    "NetbiosNodeType": "netbios-node-type",
    "NtpServers": "ntp-servers",
}


@declare_sources(*_DHCP)
def _dhcp_configurations(values: Values) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name, key in _DHCP.items():
        value = values.get(name)
        if value is not None:
            texts = cast("list[Any]", value) if isinstance(value, list) else [value]
            rows.append({"Key": key, "Values": [str(text) for text in texts]})
    return rows


def _describe_acls(values: Values, **params: Any) -> list[dict[str, Any]]:
    return values.context.call("ec2", "DescribeNetworkAcls", params)["NetworkAcls"]


@declare_sources("SubnetId")
def _acl_association(values: Values) -> str:
    """Return the association that a subnet has now: each has one, at first with its VPC's default list."""
    subnet = values.get("SubnetId")
    acls = _describe_acls(values, Filters=[{"Name": "association.subnet-id", "Values": [subnet]}])
    associations = (one for acl in acls for one in acl["Associations"])
    return str(next(o["NetworkAclAssociationId"] for o in associations if o["SubnetId"] == subnet))


def _default_acl(values: Values) -> str:
    """Return the default list of the VPC that the association's list belongs to."""
    (own,) = _describe_acls(values, NetworkAclIds=[values.get("NetworkAclId")])
    of_vpc = _describe_acls(values, Filters=[{"Name": "vpc-id", "Values": [own["VpcId"]]}])
    return str(next(acl["NetworkAclId"] for acl in of_vpc if acl["IsDefault"]))


def _has_association(values: Values) -> bool:
    """Whether the subnet still has this list."""
    (acl,) = _describe_acls(values, NetworkAclIds=[values.get("NetworkAclId")])
    return any(one["SubnetId"] == values.get("SubnetId") for one in acl["Associations"])


def _has_options(values: Values) -> bool:
    """Whether the VPC still has these options: an update replaces the association before the old one is deleted."""
    params = {"VpcIds": [values.get("VpcId")]}
    (vpc,) = values.context.call("ec2", "DescribeVpcs", params)["Vpcs"]
    return vpc["DhcpOptionsId"] == values.get("DhcpOptionsId")


def _has_address(values: Values) -> bool:
    """Whether the address is still that of the association's interface or instance."""
    name = "AllocationIds" if values.get("AllocationId") else "PublicIps"
    params = {name: [values.get("AllocationId") or values.get("EIP")]}
    addresses = values.context.call("ec2", "DescribeAddresses", params)["Addresses"]
    return any(
        values.get(owner) is not None and address.get(owner) == values.get(owner)
        for address in addresses
        for owner in ("NetworkInterfaceId", "InstanceId")
    )


def _block_id(values: Values) -> str:
    for name in ("CidrBlockAssociation", "Ipv6CidrBlockAssociation"):
        if association := values.answer.get(name):
            return str(association["AssociationId"])
    raise KeyError("AssociationId")


_INTERFACE = "@answer.NetworkInterfaces.0"

DECLARED = [
    DeclaredType(
        "AWS::EC2::EIPAssociation",
        "ec2",
        # An address moves to another interface without being released first (documented: API_AssociateAddress).
        create=[
            Call("AssociateAddress", {"PublicIp": "EIP", "AllowReassociation": lambda _: True})
        ],
        id="@answer.AssociationId",
        delete=[Call("DisassociateAddress", {"AssociationId": "@id"})],
        holds=_has_address,
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::EC2::SubnetNetworkAclAssociation",
        "ec2",
        create=[Call("ReplaceNetworkAclAssociation", {"AssociationId": _acl_association})],
        id="@answer.NewAssociationId",
        delete=[
            Call(
                "ReplaceNetworkAclAssociation",
                {"AssociationId": "@id", "NetworkAclId": _default_acl},
            )
        ],
        holds=_has_association,
        attributes={"AssociationId": "@id"},
    ),
    DeclaredType(
        "AWS::EC2::VPCCidrBlock",
        "ec2",
        create=[Call("AssociateVpcCidrBlock")],
        id=_block_id,
        delete=[Call("DisassociateVpcCidrBlock", {"AssociationId": "@id"})],
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::EC2::NetworkInterface",
        "ec2",
        create=[Call("CreateNetworkInterface", {"Groups": "GroupSet"})],
        id="@answer.NetworkInterface.NetworkInterfaceId",
        read=Call("DescribeNetworkInterfaces", {"NetworkInterfaceIds": lambda v: [v.id]}),
        update=[
            Call(
                "ModifyNetworkInterfaceAttribute",
                {"NetworkInterfaceId": "@id", "Groups": "GroupSet"},
                only=(),
                when="GroupSet",
            ),
            *RETAG,
        ],
        delete=[Call("DeleteNetworkInterface", {"NetworkInterfaceId": "@id"})],
        ec2_tags="network-interface",
        attributes={
            "Id": "@id",
            "PrimaryPrivateIpAddress": f"{_INTERFACE}.PrivateIpAddress",
            "VpcId": f"{_INTERFACE}.VpcId",
            "SecondaryPrivateIpAddresses": lambda v: [
                address["PrivateIpAddress"]
                for address in v.list_answered("NetworkInterfaces.0.PrivateIpAddresses")
                if not address["Primary"]
            ],
        },
    ),
    tagged_type(
        "AWS::EC2::DHCPOptions",
        "DhcpOptions",
        "dhcp-options",
        "DhcpOptionsId",
        {"DhcpConfigurations": _dhcp_configurations},
    ),
    DeclaredType(
        "AWS::EC2::VPCDHCPOptionsAssociation",
        "ec2",
        create=[Call("AssociateDhcpOptions")],
        id=lambda v: f"{v.get('DhcpOptionsId')}|{v.get('VpcId')}",
        delete=[
            Call("AssociateDhcpOptions", {"DhcpOptionsId": lambda _: "default", "VpcId": "VpcId"})
        ],
        holds=_has_options,
    ),
    tagged_type("AWS::EC2::VPNGateway", "VpnGateway", "vpn-gateway", "VPNGatewayId"),
    tagged_type(
        "AWS::EC2::CustomerGateway", "CustomerGateway", "customer-gateway", "CustomerGatewayId"
    ),
]
