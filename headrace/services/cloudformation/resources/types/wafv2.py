"""Services in front of an application: hosted zones, web ACLs, load balancers, container clusters; all stored."""

from __future__ import annotations

from typing import Any

from headrace.core.arn import make_arn
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources.base import Properties
from headrace.services.cloudformation.resources.declaration import (
    Call,
    ComputedProperty,
    DeclaredType,
    Source,
    Values,
    computed_from,
    own_name,
)


def _zone_id(values: Values) -> str:
    """Return a record's hosted zone: by its id, or by its name."""
    if values.get("HostedZoneId"):
        return str(values.get("HostedZoneId"))
    params = {"DNSName": values.get("HostedZoneName")}
    zones = values.context.call("route53", "ListHostedZonesByName", params)["HostedZones"]
    if not zones or zones[0]["Name"] != values.get("HostedZoneName"):
        raise ResourceFailed(f"No hosted zone is named {values.get('HostedZoneName')}")
    return str(zones[0]["Id"]).rpartition("/")[2]


_RECORD = (
    "Name",
    "Type",
    "SetIdentifier",
    "Weight",
    "Region",
    "GeoLocation",
    "Failover",
    "MultiValueAnswer",
    "TTL",
    "AliasTarget",
    "HealthCheckId",
)


def _record(properties: Properties) -> dict[str, Any]:
    record = {name: properties[name] for name in _RECORD if properties.get(name) is not None}
    if properties.get("ResourceRecords"):
        record["ResourceRecords"] = [{"Value": text} for text in properties["ResourceRecords"]]
    return record


def _change(action: str) -> ComputedProperty:
    """Return the change that puts a record into its zone or removes it."""

    def make(values: Values) -> dict[str, Any]:
        record, old = _record(values.properties), _record(values.old)
        changes = [{"Action": action, "ResourceRecordSet": record}]
        # A change of type or set identifier makes another record: without a deletion the old one would stay.
        if old and any(old.get(name) != record.get(name) for name in ("Type", "SetIdentifier")):
            changes.insert(0, {"Action": "DELETE", "ResourceRecordSet": old})
        return {"Changes": changes}

    return ComputedProperty((*_RECORD, "ResourceRecords", "HostedZoneId", "HostedZoneName"), make)


def _is_guarded(values: Values) -> bool:
    """Whether the resource still has the association's web ACL."""
    params = {"ResourceArn": values.get("ResourceArn")}
    answer = values.context.call("wafv2", "GetWebACLForResource", params)
    return answer.get("WebACL", {}).get("ARN") == values.get("WebACLArn")


def _cluster_settings(values: Values) -> list[Properties]:
    # Documented: Container Insights is disabled by default.
    return values.items("ClusterSettings") or [{"Name": "containerInsights", "Value": "disabled"}]


def _namespace_id(values: Values) -> str:
    params = {"OperationId": values.answer["OperationId"]}
    found = values.context.call("servicediscovery", "GetOperation", params)["Operation"]
    return str(found["Targets"]["NAMESPACE"])


def _wafv2(operation: str, answer: str) -> dict[str, Source]:
    """Return the members that name a WAF resource, with the lock token that a change requires."""

    def token(values: Values) -> str:
        name, own_id, scope = values.id.split("|")
        params = {"Name": name, "Id": own_id, "Scope": scope}
        return str(values.context.call("wafv2", operation, params)[answer])

    return {
        "Name": lambda v: v.id.split("|")[0],
        "Id": lambda v: v.id.split("|")[1],
        "Scope": lambda v: v.id.split("|")[2],
        "LockToken": token,
    }


_ECS_TAGS = ("TagResource", "UntagResource", "resourceArn", "@id")


def _namespace_arn(values: Values) -> str:
    place = values.context.region, values.context.account
    return make_arn("servicediscovery", *place, f"namespace/{values.id}")


TYPES = [
    DeclaredType(
        "AWS::Route53::HostedZone",
        "route53",
        create=[
            Call(
                "CreateHostedZone",
                {
                    "CallerReference": lambda v: v.context.ids.uuid(),
                    "VPC": computed_from("VPCs")(lambda v: (v.get("VPCs") or [None])[0]),
                },
            )
        ],
        id=lambda v: str(v.answer["HostedZone"]["Id"]).rpartition("/")[2],
        read=Call("GetHostedZone", {"Id": "@id"}),
        update=[
            Call(
                "UpdateHostedZoneComment",
                {
                    "Id": "@id",
                    "Comment": computed_from("HostedZoneConfig")(
                        lambda v: v.get("HostedZoneConfig.Comment") or ""
                    ),
                },
            )
        ],
        delete=[Call("DeleteHostedZone", {"Id": "@id"})],
        attributes={"Id": "@id", "NameServers": "@answer.DelegationSet.NameServers"},
    ),
    DeclaredType(
        "AWS::ECS::Cluster",
        "ecs",
        create=[Call("CreateCluster")],
        id="ClusterName",
        read=Call("DescribeClusters", {"clusters": lambda v: [v.id]}),
        # Deleting it would delete its services and tasks.
        deletes_others=True,
        update=[
            Call(
                "UpdateCluster",
                {
                    "cluster": "@id",
                    "settings": computed_from("ClusterSettings")(_cluster_settings),
                },
            ),
            Call(
                "PutClusterCapacityProviders",
                {
                    "cluster": "@id",
                    "capacityProviders": computed_from("CapacityProviders")(
                        lambda v: v.get("CapacityProviders") or []
                    ),
                    "defaultCapacityProviderStrategy": computed_from(
                        "DefaultCapacityProviderStrategy"
                    )(lambda v: v.get("DefaultCapacityProviderStrategy") or []),
                },
                only=(),
            ),
        ],
        tag=("TagResource", "UntagResource", "resourceArn", "@answer.clusters.0.clusterArn"),
        delete=[Call("DeleteCluster", {"cluster": "@id"})],
        name="ClusterName",
        name_length=255,
        attributes={"Arn": "@answer.clusters.0.clusterArn"},
    ),
    DeclaredType(
        "AWS::ECS::TaskDefinition",
        "ecs",
        create=[
            Call(
                "RegisterTaskDefinition",
                {"family": own_name("Family", 255)},
            )
        ],
        id="@answer.taskDefinition.taskDefinitionArn",
        tag=_ECS_TAGS,
        delete=[Call("DeregisterTaskDefinition", {"taskDefinition": "@id"})],
        attributes={"TaskDefinitionArn": "@id"},
    ),
    DeclaredType(
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
        update=[
            Call(
                "UpdateWebACL",
                {
                    **_wafv2("GetWebACL", "LockToken"),
                    "Rules": computed_from("Rules")(lambda v: v.get("Rules") or []),
                },
                empties=True,
            )
        ],
        tag=("TagResource", "UntagResource", "ResourceARN", "@answer.WebACL.ARN"),
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
]
TYPES.extend(
    [
        DeclaredType(
            "AWS::Route53::RecordSet",
            "route53",
            create=[
                Call(
                    "ChangeResourceRecordSets",
                    {"HostedZoneId": _zone_id, "ChangeBatch": _change("CREATE")},
                    only=(),
                )
            ],
            id="Name",
            update=[
                Call(
                    "ChangeResourceRecordSets",
                    {"HostedZoneId": _zone_id, "ChangeBatch": _change("UPSERT")},
                    only=(),
                )
            ],
            delete=[
                Call(
                    "ChangeResourceRecordSets",
                    {"HostedZoneId": _zone_id, "ChangeBatch": _change("DELETE")},
                )
            ],
        ),
        DeclaredType(
            "AWS::CertificateManager::Certificate",
            "acm",
            create=[Call("RequestCertificate")],
            id="@answer.CertificateArn",
            delete=[Call("DeleteCertificate", {"CertificateArn": "@id"})],
            attributes={"Id": "@id"},
        ),
        DeclaredType(
            "AWS::WAFv2::IPSet",
            "wafv2",
            create=[Call("CreateIPSet", {"Name": own_name("Name", 128)})],
            id=lambda v: (
                f"{v.answer['Summary']['Name']}|{v.answer['Summary']['Id']}|{v.get('Scope')}"
            ),
            read=Call(
                "GetIPSet",
                {
                    "Name": lambda v: v.id.split("|")[0],
                    "Id": lambda v: v.id.split("|")[1],
                    "Scope": "Scope",
                },
            ),
            update=[Call("UpdateIPSet", _wafv2("GetIPSet", "LockToken"))],
            tag=("TagResource", "UntagResource", "ResourceARN", "@answer.IPSet.ARN"),
            delete=[
                Call(
                    "DeleteIPSet",
                    {
                        "Name": lambda v: v.id.split("|")[0],
                        "Id": lambda v: v.id.split("|")[1],
                        "Scope": "Scope",
                        "LockToken": "@answer.LockToken",
                    },
                )
            ],
            attributes={"Arn": "@answer.IPSet.ARN", "Id": "@answer.IPSet.Id"},
        ),
        DeclaredType(
            "AWS::WAFv2::WebACLAssociation",
            "wafv2",
            create=[Call("AssociateWebACL")],
            id=lambda v: f"{v.get('WebACLArn')}|{v.get('ResourceArn')}",
            delete=[Call("DisassociateWebACL", {"ResourceArn": "ResourceArn"})],
            holds=_is_guarded,
        ),
        DeclaredType(
            "AWS::ECS::Service",
            "ecs",
            create=[
                Call(
                    "CreateService",
                    {
                        "serviceName": own_name("ServiceName", 255),
                        # Without it, moto fails for Fargate clusters.
                        "desiredCount": lambda v: v.get("DesiredCount") or 0,
                    },
                )
            ],
            id="@answer.service.serviceArn",
            update=[
                Call(
                    "UpdateService",
                    {
                        "cluster": "Cluster",
                        "service": lambda v: v.id.rpartition("/")[2],
                        "desiredCount": computed_from("DesiredCount")(
                            lambda v: v.get("DesiredCount") or 0
                        ),
                    },
                    empties=True,
                )
            ],
            tag=_ECS_TAGS,
            delete=[
                Call(
                    "DeleteService",
                    {
                        "cluster": "Cluster",
                        "service": lambda v: v.id.rpartition("/")[2],
                        "force": lambda _: True,
                    },
                )
            ],
            attributes={"Name": "@answer.service.serviceName", "ServiceArn": "@id"},
        ),
        DeclaredType(
            "AWS::ServiceDiscovery::HttpNamespace",
            "servicediscovery",
            create=[
                Call("CreateHttpNamespace", {"CreatorRequestId": lambda v: v.context.ids.uuid()})
            ],
            id=_namespace_id,
            update=[
                Call(
                    "UpdateHttpNamespace",
                    {
                        "Id": "@id",
                        "Namespace": computed_from("Description")(
                            lambda v: {"Description": v.get("Description") or ""}
                        ),
                    },
                )
            ],
            tag=("TagResource", "UntagResource", "ResourceARN", _namespace_arn),
            delete=[Call("DeleteNamespace", {"Id": "@id"})],
            attributes={
                "Id": "@id",
                "Arn": _namespace_arn,
            },
        ),
    ]
)
