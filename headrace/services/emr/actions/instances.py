"""Instances, groups, fleets and scaling policies: stored and shown; none has a machine.

ListInstances: the instances that groups and fleets would have on AWS.

AddInstanceFleet, ModifyInstanceFleet, ListInstanceFleets. Fleets have no instances; they are stored and shown.

AddInstanceGroups, ModifyInstanceGroups, ListInstanceGroups. Groups have no instances; they are stored and shown.

PutAutoScalingPolicy and RemoveAutoScalingPolicy: a group's policy is only stored and shown.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import emr as shapes
from headrace.core.values import get_list, present, section
from headrace.services.emr.actions.common import (
    VolumesMember,
    check_constraints,
    check_fleet,
    check_group,
    check_types,
    cluster_arn,
    describe_policy,
    ebs_devices,
    instance_status,
    page,
)
from headrace.services.emr.backend import Emr
from headrace.services.emr.errors import (
    INSTANCES_PER_PAGE,
    MOST_TASK_GROUPS,
    ended_cluster,
    ended_job_flow,
    invalid_request,
    validation,
)
from headrace.services.emr.state import (
    ENDED_CLUSTER,
    Cluster,
    InstanceFleet,
    InstanceGroup,
    fleet_id,
    instance_ids,
)

_OF_GROUPS = ("InstanceGroupId", "InstanceGroupTypes")
_OF_FLEETS = ("InstanceFleetId", "InstanceFleetType")


@operation("ListInstances")
def list_instances(
    emr: Emr, call: Call, request: shapes.ListInstancesInput
) -> shapes.ListInstancesOutput:
    """Return the instances that the cluster was requested with; their ids are invented but stable."""
    with emr.store.lock:
        cluster = emr.cluster(request["ClusterId"], account=call.account, region=call.region)
        of_fleets = bool(cluster.fleets)
        wrong = _OF_GROUPS if of_fleets else _OF_FLEETS
        if any(request.get(name) for name in wrong):
            raise invalid_request(
                "Instance fleets and instance groups are mutually exclusive. The EMR cluster specified in the request "
                f"uses instance {'fleets' if of_fleets else 'groups'}."
            )
        instances = _of_fleets(cluster, request) if of_fleets else _of_groups(cluster, request)
        state, states = instance_status(cluster)["State"], request.get("InstanceStates")
        listed = list(instances)
    if states and state not in states:
        listed = []
    shown, marker = page(listed, request.get("Marker"), INSTANCES_PER_PAGE)
    return present({"Instances": shown, "Marker": marker})


def _of_groups(cluster: Cluster, request: shapes.ListInstancesInput) -> Iterator[shapes.Instance]:
    wanted_id, roles = request.get("InstanceGroupId"), request.get("InstanceGroupTypes") or []
    if wanted_id and wanted_id not in [group["Id"] for group in cluster.groups]:
        raise invalid_request(f"Instance group id '{wanted_id}' is not valid.")
    for group in cluster.groups:
        if wanted_id not in (None, group["Id"]) or (roles and group["InstanceRole"] not in roles):
            continue
        for number in range(group["InstanceCount"]):
            yield {
                **_instance(cluster, group, group, group["Id"], number),
                "InstanceGroupId": group["Id"],
                "Market": group.get("Market", "ON_DEMAND"),
                "InstanceType": group["InstanceType"],
            }


def _of_fleets(cluster: Cluster, request: shapes.ListInstancesInput) -> Iterator[shapes.Instance]:
    fleets = cluster.fleets
    wanted_id, kind = request.get("InstanceFleetId"), request.get("InstanceFleetType")
    if wanted_id and wanted_id not in [
        fleet_id(cluster, fleet["InstanceFleetType"]) for fleet in fleets
    ]:
        raise invalid_request(f"Instance fleet id '{wanted_id}' is not valid.")
    for fleet in fleets:
        found_id = fleet_id(cluster, fleet["InstanceFleetType"])
        if wanted_id not in (None, found_id) or kind not in (None, fleet["InstanceFleetType"]):
            continue
        # All instances are of the fleet's first instance type.
        configs = fleet.get("InstanceTypeConfigs")
        config = configs[0] if configs else None
        for market, target in (
            ("ON_DEMAND", "TargetOnDemandCapacity"),
            ("SPOT", "TargetSpotCapacity"),
        ):
            weight = (config or {}).get("WeightedCapacity") or 1
            for number in range(math.ceil((fleet.get(target) or 0) / weight)):  # pyrefly: ignore[unsupported-operation]
                yield present(
                    {
                        **_instance(cluster, fleet, config or {}, f"{found_id}/{market}", number),
                        "InstanceFleetId": found_id,
                        "Market": market,
                        "InstanceType": config and config["InstanceType"],
                    }
                )


def _instance(
    cluster: Cluster,
    holder: InstanceGroup | InstanceFleet,
    volumes: VolumesMember,
    holder_id: str,
    number: int,
) -> shapes.Instance:
    emr_id, ec2_id = instance_ids(holder_id, number)
    return {
        "Id": emr_id,
        "Ec2InstanceId": ec2_id,
        "PublicDnsName": "localhost",
        "PublicIpAddress": "127.0.0.1",
        "PrivateDnsName": "localhost",
        "PrivateIpAddress": "127.0.0.1",
        "Status": instance_status(cluster, holder.get("created_ms")),
        "EbsVolumes": [
            {"Device": device["Device"], "VolumeId": f"vol-{ec2_id[2:]}{number:02d}"[:21]}
            for number, device in enumerate(ebs_devices(volumes))
        ],
    }


_SHOWN_OF_TYPES = (
    "BidPrice",
    "BidPriceAsPercentageOfOnDemandPrice",
    "CustomAmiId",
    "Priority",
)
_CHANGEABLE = (
    "TargetOnDemandCapacity",
    "TargetSpotCapacity",
    "ResizeSpecifications",
    "InstanceTypeConfigs",
    "Context",
)


@operation("ListInstanceFleets")
def list_instance_fleets(
    emr: Emr, call: Call, request: shapes.ListInstanceFleetsInput
) -> shapes.ListInstanceFleetsOutput:
    """Return a cluster's fleets. Raises AwsError for a cluster with instance groups."""
    with emr.store.lock:
        cluster = emr.cluster(request["ClusterId"], account=call.account, region=call.region)
        fleets = _fleets(cluster, "ListInstanceFleets", "ListInstanceGroups")
        return {"InstanceFleets": [_describe(cluster, fleet) for fleet in fleets]}


@operation("AddInstanceFleet")
def add_instance_fleet(
    emr: Emr, call: Call, request: shapes.AddInstanceFleetInput
) -> shapes.AddInstanceFleetOutput:
    """Add a task fleet to a running cluster, which may have one."""
    fleet = request["InstanceFleet"]
    kind = fleet["InstanceFleetType"]
    with emr.store.lock:
        cluster = _changeable(
            emr, call, request["ClusterId"], "AddInstanceFleet", "AddInstanceGroups"
        )
        fleets = _fleets(cluster, "AddInstanceFleet", "AddInstanceGroups")
        if kind in [other["InstanceFleetType"] for other in fleets]:
            raise invalid_request(f"The cluster already has an instance fleet of the type {kind}.")
        check_fleet(fleet, invalid_request)
        fleets.append({**fleet, "created_ms": call.now_ms})
        emr.store.save(cluster)
    return {
        "ClusterId": cluster.id,
        "InstanceFleetId": fleet_id(cluster, fleet["InstanceFleetType"]),
        "ClusterArn": cluster_arn(cluster),
    }


@operation("ModifyInstanceFleet")
def modify_instance_fleet(emr: Emr, call: Call, request: shapes.ModifyInstanceFleetInput) -> None:
    """Change a fleet's target capacities."""
    change = request["InstanceFleet"]
    with emr.store.lock:
        cluster = _changeable(
            emr, call, request["ClusterId"], "ModifyInstanceFleet", "ModifyInstanceGroups"
        )
        for fleet in _fleets(cluster, "ModifyInstanceFleet", "ModifyInstanceGroups"):
            if fleet_id(cluster, fleet["InstanceFleetType"]) == change["InstanceFleetId"]:
                break
        else:
            raise invalid_request(f"Instance fleet id '{change['InstanceFleetId']}' is not valid.")
        if fleet["InstanceFleetType"] == "MASTER":
            raise invalid_request("The master instance fleet cannot be resized.")
        changes = present({name: change.get(name) for name in _CHANGEABLE})
        changed = cast("InstanceFleet", {**fleet, **changes})
        check_types(changed, invalid_request)
        if fleet["InstanceFleetType"] == "CORE" and not _capacity(changed):
            raise invalid_request("The core instance fleet needs a capacity greater than 0.")
        fleet.update(changes)
        emr.store.save(cluster)


def _capacity(fleet: shapes.InstanceFleetConfig) -> int:
    return (fleet.get("TargetOnDemandCapacity") or 0) + (fleet.get("TargetSpotCapacity") or 0)


def _changeable(
    emr: Emr, call: Call, cluster_id: str, operation_name: str, instead: str
) -> Cluster:
    cluster = emr.cluster(cluster_id, account=call.account, region=call.region)
    _fleets(cluster, operation_name, instead)
    if cluster.ending:
        raise ended_cluster()
    return cluster


def _fleets(cluster: Cluster, operation_name: str, instead: str) -> list[InstanceFleet]:
    fleets = cluster.fleets
    if not fleets:
        raise invalid_request(
            "Instance fleets and instance groups are mutually exclusive. The EMR cluster specified in the request "
            f"uses instance groups. The {operation_name} request does not support clusters that use instance groups. "
            f"Use the {instead} request instead."
        )
    return fleets


def _describe(cluster: Cluster, fleet: InstanceFleet) -> shapes.InstanceFleet:
    ended = cluster.state in ENDED_CLUSTER
    on_demand = fleet.get("TargetOnDemandCapacity") or 0
    spot = fleet.get("TargetSpotCapacity") or 0
    return present(
        {
            "Id": fleet_id(cluster, fleet["InstanceFleetType"]),
            "Name": fleet.get("Name"),
            "InstanceFleetType": fleet["InstanceFleetType"],
            "TargetOnDemandCapacity": on_demand,
            "TargetSpotCapacity": spot,
            "ProvisionedOnDemandCapacity": 0 if ended else on_demand,
            "ProvisionedSpotCapacity": 0 if ended else spot,
            "InstanceTypeSpecifications": [
                present(
                    {
                        "InstanceType": config.get("InstanceType"),
                        "WeightedCapacity": config.get("WeightedCapacity") or 1,
                        **{name: config.get(name) for name in _SHOWN_OF_TYPES},
                        "Configurations": get_list(config, "Configurations"),
                        "EbsBlockDevices": ebs_devices(config),
                        "EbsOptimized": section(config, "EbsConfiguration").get("EbsOptimized"),
                    }
                )
                for config in fleet.get("InstanceTypeConfigs") or ()
            ],
            "LaunchSpecifications": fleet.get("LaunchSpecifications"),
            "ResizeSpecifications": fleet.get("ResizeSpecifications"),
            "Context": fleet.get("Context"),
            "Status": instance_status(cluster, fleet.get("created_ms")),
        }
    )


_RESIZABLE = ("CORE", "TASK")
_MEMBER_OF_FLEETS = {
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
        return {"InstanceGroups": [_describe_group(cluster, group) for group in cluster.groups]}


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
        instead = _MEMBER_OF_FLEETS[operation_name]
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


def _describe_group(cluster: Cluster, group: InstanceGroup) -> shapes.InstanceGroup:
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
