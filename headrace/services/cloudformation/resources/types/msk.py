"""MSK's clusters, as stored settings."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import Call, DeclaredType

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
]
