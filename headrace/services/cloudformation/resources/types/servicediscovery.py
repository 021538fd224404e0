"""Cloud Map's namespaces."""

from __future__ import annotations

from headrace.core.arn import make_arn
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Values,
    declare_sources,
)

_ID = {"Id": "@id"}


def _namespace_id(values: Values) -> str:
    params = {"OperationId": values.answer["OperationId"]}
    operation = values.context.call("servicediscovery", "GetOperation", params)["Operation"]
    return str(operation["Targets"]["NAMESPACE"])


def _namespace_arn(values: Values) -> str:
    scope = values.context.region, values.context.account
    return make_arn("servicediscovery", *scope, f"namespace/{values.id}")


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
    DeclaredType(
        "AWS::ServiceDiscovery::HttpNamespace",
        "servicediscovery",
        create=[Call("CreateHttpNamespace", {"CreatorRequestId": lambda v: v.context.ids.uuid()})],
        id=_namespace_id,
        update=[
            Call(
                "UpdateHttpNamespace",
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
        attributes={
            "Id": "@id",
            "Arn": _namespace_arn,
        },
    ),
]
