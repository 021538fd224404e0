"""AddInstanceGroups, ModifyInstanceGroups, ListInstanceGroups. Groups have no instances; they are stored and shown.

PutAutoScalingPolicy and RemoveAutoScalingPolicy: a group's policy is only stored and shown.
"""

from __future__ import annotations

import copy

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import emr as shapes
from headrace.core.values import get_list, present, section
from headrace.services.emr.actions.common import cluster_arn, ebs_devices, instance_status
from headrace.services.emr.actions.instance_checks import (
    check_constraints,
    check_group,
    describe_policy,
)
from headrace.services.emr.backend import Emr
from headrace.services.emr.errors import (
    MOST_TASK_GROUPS,
    ended_job_flow,
    invalid_request,
    validation,
)
from headrace.services.emr.state import ENDED_CLUSTER, Cluster, InstanceGroup

_RESIZABLE = ("CORE", "TASK")
_OF_FLEETS = {
    "ListInstanceGroups": "ListInstanceFleets",
    "AddInstanceGroups": "AddInstanceFleet",
    "ModifyInstanceGroups": "ModifyInstanceFleet",
}


@operation("ListInstanceGroups")
def list_instance_groups(
    emr: Emr, call: Call, request: shapes.ListInstanceGroupsInput
) -> shapes.ListInstanceGroupsOutput:
    """Return the groups that the cluster was requested with. Raises AwsError for a cluster with fleets."""
    with emr.store.lock:
        cluster = emr.cluster(request["ClusterId"], account=call.account, region=call.region)
        refuse_fleets(cluster, "ListInstanceGroups")
        return {"InstanceGroups": [_describe(cluster, group) for group in cluster.groups]}


@operation("AddInstanceGroups")
def add_instance_groups(
    emr: Emr, call: Call, request: shapes.AddInstanceGroupsInput
) -> shapes.AddInstanceGroupsOutput:
    """Add task groups to a running cluster, all or none."""
    with emr.store.lock:
        cluster = emr.job_flow(request["JobFlowId"], account=call.account, region=call.region)
        if cluster.ending:
            raise ended_job_flow()
        refuse_fleets(cluster, "AddInstanceGroups")
        _check_additions(cluster, request["InstanceGroups"])
        added: list[InstanceGroup] = [
            {"Id": f"ig-{emr.ids.alnum_upper(13)}", "created_ms": call.now_ms, **config}
            for config in request["InstanceGroups"]
        ]
        cluster.groups.extend(added)
        emr.store.save(cluster)
    return {
        "JobFlowId": cluster.id,
        "InstanceGroupIds": [group["Id"] for group in added],
        "ClusterArn": cluster_arn(cluster),
    }


@operation("ModifyInstanceGroups")
def modify_instance_groups(emr: Emr, call: Call, request: shapes.ModifyInstanceGroupsInput) -> None:
    """Change the counts and configurations of groups, all or none."""
    with emr.store.lock:
        changes = [
            (*_find(emr, call, request.get("ClusterId"), change["InstanceGroupId"]), change)
            for change in request.get("InstanceGroups") or []
        ]
        for cluster, group, change in changes:
            _check_change(cluster, group, change)
        for cluster, group, change in changes:
            names = ("InstanceCount", "ShrinkPolicy", "Configurations")
            group.update(present({name: change.get(name) for name in names}))
            emr.store.save(cluster)


def refuse_fleets(cluster: Cluster, operation_name: str) -> None:
    """Raise AwsError for a cluster with instance fleets."""
    if cluster.fleets:
        instead = _OF_FLEETS[operation_name]
        raise invalid_request(
            "Instance fleets and instance groups are mutually exclusive. The EMR cluster specified in the request "
            f"uses instance fleets. The {operation_name} request does not support clusters that use instance "
            f"fleets. Use the {instead} request instead."
        )


def _check_additions(cluster: Cluster, configs: list[shapes.InstanceGroupConfig]) -> None:
    roles = [group["InstanceRole"] for group in cluster.groups]
    for config in configs:
        role = config["InstanceRole"]
        if policy := config.get("AutoScalingPolicy"):
            check_constraints(policy)
        if role == "MASTER" or (role == "CORE" and "CORE" in roles):
            raise validation(f"The cluster already has an instance group of the role {role}.")
        check_group(config)
        roles.append(role)
    if roles.count("TASK") > MOST_TASK_GROUPS:
        raise validation(f"A cluster can have at most {MOST_TASK_GROUPS} task instance groups.")


def _find(
    emr: Emr, call: Call, cluster_id: str | None, group_id: str
) -> tuple[Cluster, InstanceGroup]:
    if cluster_id is None:
        clusters = [
            cluster
            for cluster in emr.store.clusters()
            if (cluster.account, cluster.region) == (call.account, call.region)
        ]
    else:
        clusters = [emr.cluster(cluster_id, account=call.account, region=call.region)]
        refuse_fleets(clusters[0], "ModifyInstanceGroups")
    for cluster in clusters:
        if any(group["Id"] == group_id for group in cluster.groups):
            return cluster, group_of(cluster, group_id)
    raise _unknown_group(group_id)


def group_of(cluster: Cluster, group_id: str) -> InstanceGroup:
    """Return a cluster's group. Raises AwsError when it has no group with that id."""
    for group in cluster.groups:
        if group["Id"] == group_id:
            return group
    raise _unknown_group(group_id)


def _unknown_group(group_id: str) -> AwsError:
    return invalid_request(f"Instance group id '{group_id}' is not valid.")


def _check_change(
    cluster: Cluster, group: InstanceGroup, change: shapes.InstanceGroupModifyConfig
) -> None:
    if cluster.ending:
        raise ended_job_flow()
    count = change.get("InstanceCount")
    if count is None:
        return
    if group["InstanceRole"] not in _RESIZABLE:
        raise validation("The master instance group cannot be resized.")
    least = 1 if group["InstanceRole"] == "CORE" else 0
    if count < least:
        raise validation(f"Instance count must be at least {least}, not {count}.")


def _describe(cluster: Cluster, group: InstanceGroup) -> shapes.InstanceGroup:
    ended = cluster.state in ENDED_CLUSTER
    policy = group.get("AutoScalingPolicy")
    return present(
        {
            "Id": group["Id"],
            "Name": group.get("Name"),
            "Market": group.get("Market", "ON_DEMAND"),
            "BidPrice": group.get("BidPrice"),
            "InstanceGroupType": group["InstanceRole"],
            "InstanceType": group["InstanceType"],
            "RequestedInstanceCount": group["InstanceCount"],
            "RunningInstanceCount": 0 if ended else group["InstanceCount"],
            "Configurations": get_list(group, "Configurations"),
            "EbsBlockDevices": ebs_devices(group),
            "EbsOptimized": section(group, "EbsConfiguration").get("EbsOptimized"),
            "ShrinkPolicy": group.get("ShrinkPolicy") or {},
            "AutoScalingPolicy": describe_policy(cluster, policy) if policy else None,
            "CustomAmiId": group.get("CustomAmiId"),
            "Status": instance_status(cluster, group.get("created_ms")),
        }
    )


@operation("PutAutoScalingPolicy")
def put_auto_scaling_policy(
    emr: Emr, call: Call, request: shapes.PutAutoScalingPolicyInput
) -> shapes.PutAutoScalingPolicyOutput:
    """Attach a policy to a core or task group. Source: API_PutAutoScalingPolicy."""
    policy = copy.deepcopy(request["AutoScalingPolicy"])
    check_constraints(policy)
    with emr.store.lock:
        cluster = emr.cluster(request["ClusterId"], account=call.account, region=call.region)
        if cluster.ending:
            raise ended_job_flow()
        group = group_of(cluster, request["InstanceGroupId"])
        if group["InstanceRole"] == "MASTER":
            raise validation("An automatic scaling policy is for core and task instance groups.")
        group["AutoScalingPolicy"] = policy
        emr.store.save(cluster)
    return {
        "ClusterId": cluster.id,
        "InstanceGroupId": group["Id"],
        "AutoScalingPolicy": describe_policy(cluster, policy),
        "ClusterArn": cluster_arn(cluster),
    }


@operation("RemoveAutoScalingPolicy")
def remove_auto_scaling_policy(
    emr: Emr, call: Call, request: shapes.RemoveAutoScalingPolicyInput
) -> shapes.RemoveAutoScalingPolicyOutput:
    """Remove a group's policy, if it has one. Source: API_RemoveAutoScalingPolicy."""
    with emr.store.lock:
        cluster = emr.cluster(request["ClusterId"], account=call.account, region=call.region)
        group_of(cluster, request["InstanceGroupId"]).pop("AutoScalingPolicy", None)
        emr.store.save(cluster)
    return {}
