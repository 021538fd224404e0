"""Operations on clusters: describe (in the older form too), list, terminate, modify, list bootstrap actions."""

from __future__ import annotations

from typing import cast

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import emr as shapes
from headrace.core.values import get_list, moment, present, section
from headrace.services.emr.actions.common import (
    cluster_arn,
    cluster_status,
    instance_status,
    job_flows,
    page,
    tag_list,
)
from headrace.services.emr.actions.steps import check_concurrency
from headrace.services.emr.backend import Emr
from headrace.services.emr.errors import (
    CLUSTERS_PER_PAGE,
    JOB_FLOWS_SHOWN_MS,
    ended_cluster,
    invalid_request,
    validation,
)
from headrace.services.emr.state import Cluster, ClusterState, InstanceGroup, Step, StepState

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
        if cluster.ending:
            raise ended_cluster()
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


# Where the older form's states differ from DescribeCluster's.
_STATES = {
    ClusterState.TERMINATING: "SHUTTING_DOWN",
    ClusterState.TERMINATED_WITH_ERRORS: "FAILED",
}
_STATES_SHOWN = (
    "LogUri",
    "LogEncryptionKmsKeyId",
    "AmiVersion",
    "JobFlowRole",
    "ServiceRole",
    "AutoScalingRole",
    "ScaleDownBehavior",
)
_OF_INSTANCES = (
    "MasterInstanceType",
    "SlaveInstanceType",
    "Ec2KeyName",
    "Ec2SubnetId",
    "Placement",
    "HadoopVersion",
)


@operation("DescribeJobFlows")
def describe_job_flows(
    emr: Emr, call: Call, request: shapes.DescribeJobFlowsInput
) -> shapes.DescribeJobFlowsOutput:
    """Return clusters; without filters, those that are active or at most two weeks old.

    Source: API_DescribeJobFlows.
    """
    states = request.get("JobFlowStates") or []
    after, before = request.get("CreatedAfter"), request.get("CreatedBefore")
    with emr.store.lock:
        if request.get("JobFlowIds"):
            flows = job_flows(emr, call, request.get("JobFlowIds") or [])
        else:
            flows = [
                cluster
                for cluster in reversed(emr.store.clusters())
                if (cluster.account, cluster.region) == (call.account, call.region)
            ]
        if not (request.get("JobFlowIds") or states or after or before):
            recent_ms = call.now_ms - JOB_FLOWS_SHOWN_MS
            flows = [c for c in flows if not c.ending or c.created_ms >= recent_ms]
        return {
            "JobFlows": [
                _describe_job_flow(cluster, emr.store.steps(cluster.id))
                for cluster in flows
                if (not states or _state(cluster) in states)
                and (after is None or cluster.created_ms >= after.timestamp() * 1000)
                and (before is None or cluster.created_ms <= before.timestamp() * 1000)
            ]
        }


def _state(cluster: Cluster) -> str:
    if cluster.state is ClusterState.TERMINATED and cluster.reason_code == "ALL_STEPS_COMPLETED":
        return "COMPLETED"
    return _STATES.get(cluster.state, str(cluster.state))


def _describe_job_flow(cluster: Cluster, steps: list[Step]) -> shapes.JobFlowDetail:
    request = cluster.request
    return present(
        {
            "JobFlowId": cluster.id,
            "Name": cluster.name,
            "ExecutionStatusDetail": _status(
                _state(cluster),
                cluster.created_ms,
                cluster.ready_ms,
                cluster.ended_ms,
                cluster.reason_message,
                ReadyDateTime=cluster.ready_ms,
            ),
            "Instances": _instances(cluster),
            "Steps": [_step(step) for step in steps],
            "BootstrapActions": [
                {"BootstrapActionConfig": action}
                for action in get_list(request, "BootstrapActions")
            ]
            or None,
            "SupportedProducts": get_list(request, "SupportedProducts"),
            "VisibleToAllUsers": cluster.visible,
            **{name: request.get(name) for name in _STATES_SHOWN},
        }
    )


def _status(
    state: str,
    created_ms: int,
    begun_ms: int | None,
    ended_ms: int | None,
    reason: str,
    **more_ms: int | None,
) -> shapes.JobFlowExecutionStatusDetail:
    times = {
        "CreationDateTime": created_ms,
        "StartDateTime": begun_ms,
        "EndDateTime": ended_ms,
        **more_ms,
    }
    return present(
        {
            "State": state,
            **{name: moment(time_ms) for name, time_ms in times.items() if time_ms is not None},
            "LastStateChangeReason": reason or None,
        }
    )


def _instances(cluster: Cluster) -> shapes.JobFlowInstancesDetail:
    instances = cluster.request["Instances"]
    groups = cluster.groups
    by_role = {group["InstanceRole"]: group["InstanceType"] for group in groups}
    shown = {name: instances.get(name) for name in _OF_INSTANCES}
    return present(
        {
            **shown,
            "MasterInstanceType": shown["MasterInstanceType"] or by_role.get("MASTER"),
            "SlaveInstanceType": shown["SlaveInstanceType"] or by_role.get("CORE"),
            "MasterPublicDnsName": "127.0.0.1",
            "InstanceCount": sum(group["InstanceCount"] for group in groups),
            "InstanceGroups": [_group(cluster, group) for group in groups],
            "NormalizedInstanceHours": 0,
            "KeepJobFlowAliveWhenNoSteps": cluster.keep_alive,
            "TerminationProtected": cluster.termination_protected,
            "UnhealthyNodeReplacement": cluster.replace_unhealthy,
        }
    )


def _group(cluster: Cluster, group: InstanceGroup) -> shapes.InstanceGroupDetail:
    status = instance_status(cluster, group.get("created_ms"))
    ended = status["State"] == "TERMINATED"
    times = dict(status["Timeline"])
    return present(
        {
            "InstanceGroupId": group["Id"],
            "Name": group.get("Name"),
            "Market": group.get("Market", "ON_DEMAND"),
            "InstanceRole": group["InstanceRole"],
            "BidPrice": group.get("BidPrice"),
            "InstanceType": group["InstanceType"],
            "InstanceRequestCount": group["InstanceCount"],
            "InstanceRunningCount": 0 if ended else group["InstanceCount"],
            "State": "ENDED" if ended else status["State"],
            "StartDateTime": times.get("ReadyDateTime"),
            "CustomAmiId": group.get("CustomAmiId"),
            **times,
        }
    )


def _step(step: Step) -> shapes.StepDetail:
    state = "RUNNING" if step.state is StepState.CANCEL_PENDING else str(step.state)
    properties = [{"Key": key, "Value": value} for key, value in step.properties.items()]
    jar_step = {
        "Properties": properties or None,
        "Jar": step.jar,
        "MainClass": step.main_class or None,
        "Args": step.args,
    }
    config: shapes.StepConfig = {
        "Name": step.name,
        "ActionOnFailure": step.action_on_failure,
        "HadoopJarStep": present(jar_step),
    }
    status = _status(state, step.created_ms, step.started_ms, step.ended_ms, step.reason_message)
    return {
        "StepConfig": config,
        "ExecutionStatusDetail": cast("shapes.StepExecutionStatusDetail", status),
    }
