"""Cloud Map: namespaces, services and their instances."""

from __future__ import annotations

from headrace.core.arn import make_arn
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
    declare_sources,
    own_name,
)

_ID = {"Id": "@id"}


def _namespace_id(values: Values) -> str:
    params = {"OperationId": values.answer["OperationId"]}
    operation = values.context.call("servicediscovery", "GetOperation", params)["Operation"]
    return str(operation["Targets"]["NAMESPACE"])


def _namespace_arn(values: Values) -> str:
    scope = values.context.region, values.context.account
    return make_arn("servicediscovery", *scope, f"namespace/{values.id}")


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


DECLARED = [
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
