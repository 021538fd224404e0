"""Types of names and delivery on the web: CloudFront, Route 53, ACM, Cloud Map.

CloudFront's distributions and access identities.

Route 53: hosted zones and records.

ACM's certificates.

Cloud Map: namespaces, services and their instances.
"""

from __future__ import annotations

from typing import Any

from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources.base import Properties
from headrace.services.cloudformation.resources.declaration import (
    Call,
    ComputedProperty,
    DeclaredType,
    Source,
    Values,
    build_arn,
    declare_sources,
    own_name,
)


def _namespace_id(values: Values) -> str:
    params = {"OperationId": values.answer["OperationId"]}
    operation = values.context.call("servicediscovery", "GetOperation", params)["Operation"]
    return str(operation["Targets"]["NAMESPACE"])


_namespace_arn = build_arn("servicediscovery", "namespace/")


def _namespace(kind: str, **attributes: Source) -> DeclaredType:
    """Return the type of a namespace: `Http` or `PrivateDns`."""
    return DeclaredType(
        f"AWS::ServiceDiscovery::{kind}Namespace",
        "servicediscovery",
        create=[
            Call(f"Create{kind}Namespace", {"CreatorRequestId": lambda v: v.context.ids.uuid()})
        ],
        id=_namespace_id,
        read=Call("GetNamespace", {"Id": "@id"}),
        update=[
            Call(
                f"Update{kind}Namespace",
                {
                    "Id": "@id",
                    "Namespace": declare_sources("Description")(
                        lambda v: {"Description": v.get("Description") or ""}
                    ),
                },
            )
        ],
        tag=("TagResource", "UntagResource", "ResourceARN", _namespace_arn),
        delete=[Call("DeleteNamespace", {"Id": "@id"})],
        attributes={"Id": "@id", "Arn": _namespace_arn, **attributes},
    )


_ZONE = "@answer.Namespace.Properties.DnsProperties.HostedZoneId"


def _instance_id(values: Values) -> str:
    params = {"ServiceId": values.get("ServiceId")}
    instances = values.context.call("servicediscovery", "ListInstances", params)["Instances"]
    return str(values.get("InstanceId") or instances[-1]["Id"])


# The members that an update can change; type and interval are fixed (documented: UpdateHealthCheck.html).
_CHECKED = (
    "IPAddress",
    "Port",
    "ResourcePath",
    "FullyQualifiedDomainName",
    "SearchString",
    "FailureThreshold",
    "Inverted",
    "HealthThreshold",
    "ChildHealthChecks",
    "EnableSNI",
    "Regions",
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


_ID = {"Id": "@id"}


# Lists that the API wraps in an object with their length.
_COUNTED = (
    "Aliases",
    "AllowedMethods",
    "CacheBehaviors",
    "CachedMethods",
    "CustomErrorResponses",
    "FunctionAssociations",
    "Headers",
    "Items",
    "LambdaFunctionAssociations",
    "OriginGroups",
    "Origins",
    "OriginCustomHeaders",
    "OriginSSLProtocols",
    "Locations",
    "QueryStringCacheKeys",
    "WhitelistedNames",
    "TrustedKeyGroups",
    "TrustedSigners",
)


def _count_lists(value: Any) -> Any:
    """Return a distribution's configuration with its lists in the API's form."""
    if isinstance(value, list):
        return [_count_lists(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(value, dict):
        return value
    counted: dict[str, Any] = {}
    for name, item in value.items():  # pyright: ignore[reportUnknownVariableType]
        key, inner = str(name), _count_lists(item)  # pyright: ignore[reportUnknownArgumentType]
        if key in _COUNTED and isinstance(inner, list):
            counted[key] = {"Quantity": len(inner), "Items": inner}  # pyright: ignore[reportUnknownArgumentType]
        else:
            counted[key] = inner
    return counted


def _methods(behaviour: dict[str, Any]) -> dict[str, Any]:
    """Return a cache behaviour with its cached methods inside the allowed ones, as in the API."""
    settings = dict(behaviour)
    cached = settings.pop("CachedMethods", None)
    if "AllowedMethods" in settings and cached is not None:
        settings["AllowedMethods"] = {**settings["AllowedMethods"], "CachedMethods": cached}
    settings.setdefault("TargetOriginId", "")
    return settings


@declare_sources("DistributionConfig")
def _distribution(values: Values) -> dict[str, Any]:
    config: dict[str, Any] = _count_lists(values.get("DistributionConfig"))
    config["DefaultCacheBehavior"] = _methods(config.get("DefaultCacheBehavior") or {})
    behaviours = config.get("CacheBehaviors")
    if behaviours:
        behaviours["Items"] = [_methods(behaviour) for behaviour in behaviours["Items"]]
    config.setdefault("CallerReference", f"{values.context.stack_name}-{values.context.logical_id}")
    config.setdefault("Comment", "")
    return config


def _etag_of(operation: str) -> ComputedProperty:
    """Return the ETag that an update or deletion must give."""
    return ComputedProperty(
        (),
        lambda values: values.context.call("cloudfront", operation, {"Id": values.id})["ETag"],
    )


def _add_tags(values: Values) -> dict[str, Any]:
    tags = [{"Key": key, "Value": value} for key, value in values.tags.items()]
    return {"DistributionConfig": _distribution(values), "Tags": {"Items": tags}}


@declare_sources("FunctionCode")
def _code(values: Values) -> bytes:
    return str(values.get("FunctionCode")).encode()


def _function_name(values: Values) -> str:
    return values.last


DECLARED = [
    DeclaredType(
        "AWS::CloudFront::Distribution",
        "cloudfront",
        create=[
            Call(
                "CreateDistributionWithTags",
                {
                    "DistributionConfigWithTags": ComputedProperty(
                        ("DistributionConfig", "Tags"), _add_tags
                    )
                },
                only=(),
                tagged=False,
            )
        ],
        id="@answer.Distribution.Id",
        read=Call("GetDistribution", _ID),
        update=[
            Call(
                "UpdateDistribution",
                {
                    **_ID,
                    "IfMatch": _etag_of("GetDistribution"),
                    "DistributionConfig": _distribution,
                },
            )
        ],
        delete=[Call("DeleteDistribution", {**_ID, "IfMatch": "@answer.ETag"})],
        attributes={"DomainName": "@answer.Distribution.DomainName", "Id": "@id"},
    ),
    DeclaredType(
        "AWS::CloudFront::OriginAccessControl",
        "cloudfront",
        create=[Call("CreateOriginAccessControl")],
        id="@answer.OriginAccessControl.Id",
        read=Call("GetOriginAccessControl", _ID),
        update=[Call("UpdateOriginAccessControl", _ID)],
        delete=[Call("DeleteOriginAccessControl", _ID)],
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::CloudFront::Function",
        "cloudfront",
        create=[Call("CreateFunction", {"FunctionCode": _code})],
        id="@answer.FunctionSummary.FunctionMetadata.FunctionARN",
        read=Call("DescribeFunction", {"Name": _function_name}),
        delete=[Call("DeleteFunction", {"Name": _function_name, "IfMatch": "@answer.ETag"})],
        name="Name",
        attributes={
            "FunctionARN": "@id",
            "FunctionMetadata.FunctionARN": "@id",
            "Stage": "@answer.FunctionSummary.FunctionMetadata.Stage",
        },
    ),
    DeclaredType(
        "AWS::CloudFront::PublicKey",
        "cloudfront",
        create=[Call("CreatePublicKey")],
        id="@answer.PublicKey.Id",
        read=Call("GetPublicKey", _ID),
        delete=[Call("DeletePublicKey", {**_ID, "IfMatch": _etag_of("GetPublicKey")})],
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::CloudFront::KeyGroup",
        "cloudfront",
        create=[Call("CreateKeyGroup")],
        id="@answer.KeyGroup.Id",
        read=Call("GetKeyGroup", _ID),
        delete=[Call("DeleteKeyGroup", {**_ID, "IfMatch": _etag_of("GetKeyGroup")})],
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::Route53::HealthCheck",
        "route53",
        create=[
            Call(
                "CreateHealthCheck",
                {"CallerReference": lambda v: v.context.ids.uuid()},
            )
        ],
        id="@answer.HealthCheck.Id",
        update=[
            Call(
                "UpdateHealthCheck",
                {
                    "HealthCheckId": "@id",
                    **{name: f"HealthCheckConfig.{name}" for name in _CHECKED},
                },
                only=(),
            )
        ],
        delete=[Call("DeleteHealthCheck", {"HealthCheckId": "@id"})],
        attributes={"HealthCheckId": "@id"},
    ),
    DeclaredType(
        "AWS::Route53::HostedZone",
        "route53",
        create=[
            Call(
                "CreateHostedZone",
                {
                    "CallerReference": lambda v: v.context.ids.uuid(),
                    "VPC": declare_sources("VPCs")(lambda v: (v.get("VPCs") or [None])[0]),
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
                    "Comment": declare_sources("HostedZoneConfig")(
                        lambda v: v.get("HostedZoneConfig.Comment") or ""
                    ),
                },
            )
        ],
        delete=[Call("DeleteHostedZone", {"Id": "@id"})],
        attributes={"Id": "@id", "NameServers": "@answer.DelegationSet.NameServers"},
    ),
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
        "AWS::ServiceDiscovery::Service",
        "servicediscovery",
        create=[Call("CreateService")],
        id="@answer.Service.Id",
        read=Call("GetService", _ID),
        update=[Call("UpdateService", _ID, into="Service", always=True)],
        tag=("TagResource", "UntagResource", "ResourceARN", "@answer.Service.Arn"),
        delete=[Call("DeleteService", _ID)],
        attributes={"Id": "@id", "Arn": "@answer.Service.Arn", "Name": "@answer.Service.Name"},
    ),
    _namespace("Http"),
    _namespace("PrivateDns", HostedZoneId=_ZONE),
    DeclaredType(
        "AWS::ServiceDiscovery::Instance",
        "servicediscovery",
        create=[
            Call(
                "RegisterInstance",
                {
                    "InstanceId": own_name("InstanceId", 64),
                    "Attributes": "InstanceAttributes",
                },
            )
        ],
        id=_instance_id,
        update=[
            Call(
                "RegisterInstance",
                {
                    "ServiceId": "ServiceId",
                    "InstanceId": "@id",
                    "Attributes": "InstanceAttributes",
                },
            )
        ],
        delete=[Call("DeregisterInstance", {"ServiceId": "ServiceId", "InstanceId": "@id"})],
    ),
]
