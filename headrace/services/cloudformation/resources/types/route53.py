"""Route 53: hosted zones and records."""

from __future__ import annotations

from typing import Any

from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources.base import Properties
from headrace.services.cloudformation.resources.declaration import (
    Call,
    ComputedProperty,
    DeclaredType,
    Values,
    declare_sources,
)

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


DECLARED = [
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
]
