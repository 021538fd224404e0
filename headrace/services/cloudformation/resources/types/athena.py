"""Athena: workgroups, data catalogs, named queries."""

from __future__ import annotations

from typing import Any

from headrace.core.arn import make_arn
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
    declare_sources,
    own_name,
)


def _tag(service: str, kind: str, member: str, *calls: str) -> tuple[str, str, str, Source]:
    """Return the calls for the tags of a resource whose ARN ends with its name."""

    def arn(values: Values) -> str:
        scope = values.context.region, values.context.account
        return make_arn(service, *scope, f"{kind}/{values.id}")

    add, remove = calls
    return add, remove, member, arn


_WORKGROUP = {
    "EnforceWorkGroupConfiguration": True,
    "PublishCloudWatchMetricsEnabled": False,
    "RequesterPaysEnabled": False,
    "EngineVersion": {"SelectedEngineVersion": "AUTO"},
}


_RESULTS = ("OutputLocation", "EncryptionConfiguration", "ExpectedBucketOwner", "AclConfiguration")


@declare_sources("WorkGroupConfiguration")
def _workgroup_updates(values: Values) -> dict[str, Any]:
    """Return a workgroup's whole configuration as updates, in which missing settings are removed."""
    configuration: dict[str, Any] = {**_WORKGROUP, **(values.get("WorkGroupConfiguration") or {})}
    results: dict[str, Any] = dict(configuration.pop("ResultConfiguration", None) or {})
    gone = {f"Remove{name}": True for name in _RESULTS if name not in results}
    for name in ("BytesScannedCutoffPerQuery", "CustomerContentEncryptionConfiguration"):
        if name not in configuration:
            configuration[f"Remove{name}"] = True
    return {**configuration, "ResultConfigurationUpdates": {**results, **gone}}


_ATHENA = ("ResourceARN", "TagResource", "UntagResource")


DECLARED = [
    DeclaredType(
        "AWS::Athena::WorkGroup",
        "athena",
        create=[
            Call("CreateWorkGroup"),
            Call("UpdateWorkGroup", {"WorkGroup": "@id"}, only=("State",), when="State"),
        ],
        id="Name",
        read=Call("GetWorkGroup", {"WorkGroup": "@id"}),
        update=[
            Call(
                "UpdateWorkGroup",
                {
                    "WorkGroup": "@id",
                    "ConfigurationUpdates": _workgroup_updates,
                    "State": declare_sources("State")(lambda v: v.get("State") or "ENABLED"),
                },
                only=("Description",),
            )
        ],
        tag=_tag("athena", "workgroup", *_ATHENA),
        delete=[Call("DeleteWorkGroup", {"WorkGroup": "@id"})],
        name="Name",
        names={"WorkGroupConfiguration": "Configuration"},
        attributes={"CreationTime": lambda v: str(v.answer["WorkGroup"].get("CreationTime", ""))},
    ),
    DeclaredType(
        "AWS::Athena::NamedQuery",
        "athena",
        create=[Call("CreateNamedQuery", {"Name": own_name("Name", 128)})],
        id="@answer.NamedQueryId",
        delete=[Call("DeleteNamedQuery", {"NamedQueryId": "@id"})],
        attributes={"NamedQueryId": "@id"},
    ),
    DeclaredType(
        "AWS::Athena::DataCatalog",
        "athena",
        create=[Call("CreateDataCatalog")],
        id="Name",
        read=Call("GetDataCatalog", {"Name": "@id"}),
        update=[Call("UpdateDataCatalog", {"Name": "@id"}, empties=True)],
        tag=_tag("athena", "datacatalog", *_ATHENA),
        delete=[Call("DeleteDataCatalog", {"Name": "@id"})],
        name="Name",
    ),
    DeclaredType(
        "AWS::Athena::PreparedStatement",
        "athena",
        create=[Call("CreatePreparedStatement")],
        id="StatementName",
        read=Call("GetPreparedStatement", {"StatementName": "@id", "WorkGroup": "WorkGroup"}),
        update=[
            Call("UpdatePreparedStatement", {"StatementName": "@id", "WorkGroup": "WorkGroup"})
        ],
        delete=[
            Call("DeletePreparedStatement", {"StatementName": "@id", "WorkGroup": "WorkGroup"})
        ],
        name="StatementName",
        name_underscores=True,
    ),
]
