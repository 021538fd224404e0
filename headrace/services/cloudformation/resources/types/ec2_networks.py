"""EC2's networks, as stored settings: addresses, interfaces, gateways, security groups (nothing is filtered)."""

from __future__ import annotations

from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.services.cloudformation.resources.declaration import (
    Call,
    ComputedProperty,
    DeclaredType,
    Source,
    Values,
    declare_sources,
    own_name,
)
from headrace.services.cloudformation.resources.types.ec2 import RETAG, declare_tagged_type


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
    declare_tagged_type(
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
    declare_tagged_type("AWS::EC2::VPNGateway", "VpnGateway", "vpn-gateway", "VPNGatewayId"),
    declare_tagged_type(
        "AWS::EC2::CustomerGateway", "CustomerGateway", "customer-gateway", "CustomerGatewayId"
    ),
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
