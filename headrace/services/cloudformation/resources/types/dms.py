"""DMS: endpoints, replication instances and tasks, as stored settings; `headrace cdc` captures a database."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
    own_name,
)


def _found_by(name: str) -> Source:
    return lambda values: [{"Name": name, "Values": [values.id]}]


def _identifier(name: str) -> dict[str, Source]:
    return {name: own_name(name, 63)}


def _has_group(values: Values) -> bool:
    name = values.get("ReplicationSubnetGroupIdentifier")
    if not name:
        return False
    rows = values.context.call("dms", "DescribeReplicationSubnetGroups", {})
    groups = rows["ReplicationSubnetGroups"]
    return any(group["ReplicationSubnetGroupIdentifier"] == name for group in groups)


def _has_endpoint(values: Values) -> bool:
    name = values.get("EndpointIdentifier")
    endpoints = values.context.call("dms", "DescribeEndpoints", {})["Endpoints"] if name else ()
    return any(endpoint["EndpointIdentifier"] == name.lower() for endpoint in endpoints)


DECLARED = [
    DeclaredType(
        "AWS::DMS::Endpoint",
        "dms",
        create=[Call("CreateEndpoint")],
        name="EndpointIdentifier",
        name_length=63,
        id="@answer.Endpoint.EndpointArn",
        read=Call("DescribeEndpoints", {"Filters": _found_by("endpoint-arn")}),
        exists=_has_endpoint,
        delete=[Call("DeleteEndpoint", {"EndpointArn": "@id"})],
        attributes={"EndpointArn": "@id", "ExternalId": lambda v: v.last},
    ),
    DeclaredType(
        "AWS::DMS::ReplicationInstance",
        "dms",
        create=[
            Call("CreateReplicationInstance", _identifier("ReplicationInstanceIdentifier")),
        ],
        id="@answer.ReplicationInstance.ReplicationInstanceArn",
        read=Call(
            "DescribeReplicationInstances", {"Filters": _found_by("replication-instance-arn")}
        ),
        delete=[Call("DeleteReplicationInstance", {"ReplicationInstanceArn": "@id"})],
        attributes={
            "Id": "@id",
            **{
                f"ReplicationInstance{kind}IpAddresses": (
                    f"@answer.ReplicationInstances.0.ReplicationInstance{kind}IpAddresses"
                )
                for kind in ("Private", "Public")
            },
        },
    ),
    DeclaredType(
        "AWS::DMS::ReplicationTask",
        "dms",
        create=[Call("CreateReplicationTask", _identifier("ReplicationTaskIdentifier"))],
        id="@answer.ReplicationTask.ReplicationTaskArn",
        read=Call("DescribeReplicationTasks", {"Filters": _found_by("replication-task-arn")}),
        delete=[Call("DeleteReplicationTask", {"ReplicationTaskArn": "@id"})],
        attributes={"ReplicationTaskArn": "@id"},
    ),
    DeclaredType(
        "AWS::DMS::ReplicationSubnetGroup",
        "dms",
        create=[Call("CreateReplicationSubnetGroup")],
        id="ReplicationSubnetGroupIdentifier",
        exists=_has_group,
        name="ReplicationSubnetGroupIdentifier",
        name_lower=True,
        delete=[Call("DeleteReplicationSubnetGroup", {"ReplicationSubnetGroupIdentifier": "@id"})],
    ),
]
