"""DescribeCluster, ListClusters, TerminateJobFlows, ModifyCluster, ListBootstrapActions."""

from __future__ import annotations

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import emr as shapes
from headrace.core.values import get_list, present, section
from headrace.services.emr.actions.common import (
    cluster_arn,
    cluster_status,
    job_flows,
    page,
    tag_list,
)
from headrace.services.emr.actions.steps import check_concurrency
from headrace.services.emr.backend import Emr
from headrace.services.emr.errors import CLUSTERS_PER_PAGE, invalid_request, validation
from headrace.services.emr.state import Cluster, ClusterState

# The members of RunJobFlow that DescribeCluster returns unchanged.
_SHOWN = (
    "LogUri",
    "ReleaseLabel",
    "Applications",
    "ServiceRole",
    "Configurations",
    "SecurityConfiguration",
    "AutoScalingRole",
    "ScaleDownBehavior",
    "CustomAmiId",
    "EbsRootVolumeSize",
    "RepoUpgradeOnBoot",
    "KerberosAttributes",
    "OSReleaseLabel",
    "LogEncryptionKmsKeyId",
    "EbsRootVolumeIops",
    "EbsRootVolumeThroughput",
    "ExtendedSupport",
    "MonitoringConfiguration",
    "SessionEnabled",
)
_EC2 = (
    "Ec2KeyName",
    "Ec2SubnetId",
    "EmrManagedMasterSecurityGroup",
    "EmrManagedSlaveSecurityGroup",
    "ServiceAccessSecurityGroup",
    "AdditionalMasterSecurityGroups",
    "AdditionalSlaveSecurityGroups",
)


def _describe(cluster: Cluster) -> shapes.Cluster:
    request, instances = cluster.request, cluster.request["Instances"]
    subnets = get_list(instances, "Ec2SubnetIds")
    if not subnets and instances.get("Ec2SubnetId"):
        subnets = [instances["Ec2SubnetId"]]
    placement = section(instances, "Placement")
    ec2 = {name: instances.get(name) for name in _EC2} | {
        "IamInstanceProfile": request.get("JobFlowRole"),
        "RequestedEc2SubnetIds": subnets,
        "RequestedEc2AvailabilityZones": get_list(placement, "AvailabilityZones"),
        "Ec2AvailabilityZone": placement.get("AvailabilityZone"),
    }
    if subnets and ec2["Ec2SubnetId"] is None:
        ec2["Ec2SubnetId"] = subnets[0]
    fleets = bool(instances.get("InstanceFleets"))
    return present(
        {
            "Id": cluster.id,
            "Name": cluster.name,
            "Status": cluster_status(cluster),
            "Ec2InstanceAttributes": present(ec2),
            "InstanceCollectionType": "INSTANCE_FLEET" if fleets else "INSTANCE_GROUP",
            "AutoTerminate": not cluster.keep_alive,
            "TerminationProtected": cluster.termination_protected,
            "UnhealthyNodeReplacement": cluster.replace_unhealthy,
            "VisibleToAllUsers": cluster.visible,
            "Tags": tag_list(cluster.tags),
            "NormalizedInstanceHours": 0,
            "MasterPublicDnsName": "127.0.0.1",
            "ClusterArn": cluster_arn(cluster),
            "StepConcurrencyLevel": cluster.step_concurrency,
            "RequestedAmiVersion": request.get("AmiVersion"),
            "RunningAmiVersion": request.get("AmiVersion"),
            "PlacementGroups": request.get("PlacementGroupConfigs") or [],
            **{name: request.get(name) for name in _SHOWN},
        }
    )


@operation("DescribeCluster")
def describe_cluster(
    emr: Emr, call: Call, request: shapes.DescribeClusterInput
) -> shapes.DescribeClusterOutput:
    """Return a cluster's description."""
    with emr.store.lock:
        cluster = emr.cluster(request["ClusterId"], account=call.account, region=call.region)
        return {"Cluster": _describe(cluster)}


@operation("ListClusters")
def list_clusters(
    emr: Emr, call: Call, request: shapes.ListClustersInput
) -> shapes.ListClustersOutput:
    """Return an account's clusters, newest first."""
    after, before = request.get("CreatedAfter"), request.get("CreatedBefore")
    states = request.get("ClusterStates") or list(ClusterState)
    with emr.store.lock:
        clusters = [
            {
                "Id": cluster.id,
                "Name": cluster.name,
                "Status": cluster_status(cluster),
                "NormalizedInstanceHours": 0,
                "ClusterArn": cluster_arn(cluster),
            }
            for cluster in reversed(emr.store.clusters())
            if (cluster.account, cluster.region) == (call.account, call.region)
            and cluster.state in states
            and (after is None or cluster.created_ms >= after.timestamp() * 1000)
            and (before is None or cluster.created_ms <= before.timestamp() * 1000)
        ]
    shown, marker = page(clusters, request.get("Marker"), CLUSTERS_PER_PAGE)
    return present({"Clusters": shown, "Marker": marker})


@operation("TerminateJobFlows")
def terminate_job_flows(emr: Emr, call: Call, request: shapes.TerminateJobFlowsInput) -> None:
    """Terminate clusters and their steps, all or none; terminated clusters stay as they are."""
    if not request["JobFlowIds"]:
        raise validation("The JobFlowId list cannot be empty")
    with emr.store.lock:
        clusters = job_flows(emr, call, request["JobFlowIds"])
        active = [cluster for cluster in clusters if not cluster.ending]
        if any(cluster.termination_protected for cluster in active):
            raise validation(
                "Could not shut down one or more job flows since they are termination protected."
            )
        for cluster in active:
            emr.store.change_cluster(
                cluster,
                ClusterState.TERMINATING,
                code="USER_REQUEST",
                message="Terminated by user request",
            )
    for cluster in active:
        emr.wake(cluster.id)


@operation("ModifyCluster")
def modify_cluster(
    emr: Emr, call: Call, request: shapes.ModifyClusterInput
) -> shapes.ModifyClusterOutput:
    """Change how many steps may run at a time."""
    with emr.store.lock:
        cluster = emr.cluster(request["ClusterId"], account=call.account, region=call.region)
        level = request.get("StepConcurrencyLevel")
        if level is not None:
            check_concurrency(level, invalid_request)
            cluster.step_concurrency = level
            emr.store.save(cluster)
        level = cluster.step_concurrency
    emr.wake(cluster.id)
    return {"StepConcurrencyLevel": level}


@operation("ListBootstrapActions")
def list_bootstrap_actions(
    emr: Emr, call: Call, request: shapes.ListBootstrapActionsInput
) -> shapes.ListBootstrapActionsOutput:
    """Return the cluster's bootstrap actions."""
    cluster = emr.cluster(request["ClusterId"], account=call.account, region=call.region)
    actions: list[shapes.Command] = [
        {
            "Name": action["Name"],
            "ScriptPath": action["ScriptBootstrapAction"]["Path"],
            "Args": get_list(action["ScriptBootstrapAction"], "Args"),
        }
        for action in get_list(cluster.request, "BootstrapActions")
    ]
    return {"BootstrapActions": actions}
