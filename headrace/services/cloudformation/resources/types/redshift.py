"""Redshift's clusters and their groups; `headrace/services/redshift/` runs them."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import Call, DeclaredType

DECLARED = [
    DeclaredType(
        "AWS::Redshift::Cluster",
        "redshift",
        create=[Call("CreateCluster")],
        id="ClusterIdentifier",
        read=Call("DescribeClusters", {"ClusterIdentifier": "@id"}),
        update=[Call("ModifyCluster", {"ClusterIdentifier": "@id"})],
        # Deleting it would delete its tables: a change that no call supports creates another cluster, or fails and says
        # so.
        deletes_others=True,
        delete=[
            Call(
                "DeleteCluster",
                {"ClusterIdentifier": "@id", "SkipFinalClusterSnapshot": lambda _: True},
            )
        ],
        name="ClusterIdentifier",
        name_lower=True,
        attributes={
            "Endpoint.Address": "@answer.Clusters.0.Endpoint.Address",
            "Endpoint.Port": lambda v: str(v.answer["Clusters"][0]["Endpoint"]["Port"]),
        },
    ),
    DeclaredType(
        "AWS::Redshift::ClusterSubnetGroup",
        "redshift",
        create=[
            Call("CreateClusterSubnetGroup", {"ClusterSubnetGroupName": "ClusterSubnetGroupName"})
        ],
        id="ClusterSubnetGroupName",
        delete=[Call("DeleteClusterSubnetGroup", {"ClusterSubnetGroupName": "@id"})],
        name="ClusterSubnetGroupName",
        name_lower=True,
    ),
    DeclaredType(
        "AWS::Redshift::ClusterParameterGroup",
        "redshift",
        create=[Call("CreateClusterParameterGroup")],
        id="ParameterGroupName",
        delete=[Call("DeleteClusterParameterGroup", {"ParameterGroupName": "@id"})],
        name="ParameterGroupName",
        name_lower=True,
    ),
]
