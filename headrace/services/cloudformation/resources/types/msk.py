"""MSK's clusters, serverless ones too, as stored settings."""

from __future__ import annotations

from typing import Any

from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Values,
    declare_sources,
)


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
]
