"""MSK's clusters, serverless ones too, and their policies, as stored settings."""

from __future__ import annotations

from typing import Any

from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
    declare_sources,
)

_OF_CLUSTER: dict[str, Source] = {"ClusterArn": "@id"}


@declare_sources("VpcConfigs", "ClientAuthentication")
def _serverless(values: Values) -> dict[str, Any]:
    return {name: values.get(name) for name in ("VpcConfigs", "ClientAuthentication")}


DECLARED = [
    DeclaredType(
        "AWS::MSK::Cluster",
        "kafka",
        create=[Call("CreateCluster")],
        id="@answer.ClusterArn",
        read=Call("DescribeCluster", {"ClusterArn": "@id"}),
        delete=[Call("DeleteCluster", {"ClusterArn": "@id"})],
        attributes={"Arn": "@id"},
    ),
    DeclaredType(
        "AWS::MSK::ServerlessCluster",
        "kafka",
        create=[
            Call(
                "CreateClusterV2",
                {"Serverless": _serverless},
                only=("ClusterName",),
            )
        ],
        id="@answer.ClusterArn",
        read=Call("DescribeClusterV2", {"ClusterArn": "@id"}),
        delete=[Call("DeleteCluster", {"ClusterArn": "@id"})],
        attributes={"Arn": "@id"},
    ),
    DeclaredType(
        "AWS::MSK::ClusterPolicy",
        "kafka",
        create=[Call("PutClusterPolicy")],
        id="ClusterArn",
        read=Call("GetClusterPolicy", _OF_CLUSTER),
        update=[
            # The version is the read one: an update must name it.
            Call("GetClusterPolicy", _OF_CLUSTER, only=(), always=True),
            Call("PutClusterPolicy", {**_OF_CLUSTER, "CurrentVersion": "@answer.CurrentVersion"}),
        ],
        delete=[Call("DeleteClusterPolicy", _OF_CLUSTER)],
    ),
]
