"""Translates EMR's instance groups, fleets, volumes and scaling from templates; defines the instance group type."""

from __future__ import annotations

from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.core.values import get_list
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    Update,
    attribute_text,
    boolean,
    enforced,
    integers,
    stored,
    without,
)

_GROUPS = (
    ("MasterInstanceGroup", "MASTER"),
    ("CoreInstanceGroup", "CORE"),
)
_FLEETS = (
    ("MasterInstanceFleet", "MASTER"),
    ("CoreInstanceFleet", "CORE"),
)
_TASKS = ("TaskInstanceGroups", "TaskInstanceFleets")
# The flags of a cluster, with the operations that change them.
_FLAGS = {
    "KeepJobFlowAliveWhenNoSteps": "SetKeepJobFlowAliveWhenNoSteps",
    "TerminationProtected": "SetTerminationProtection",
    "UnhealthyNodeReplacement": "SetUnhealthyNodeReplacement",
}
# CloudFormation's clusters stay up unless the template says otherwise.
_DEFAULTS = {"KeepJobFlowAliveWhenNoSteps": True}


def instances(properties: Properties) -> dict[str, Any]:
    """Return a cluster's instances in RunJobFlow's form."""
    members: dict[str, Any] = {
        name: properties[name]
        for name in (
            "Ec2KeyName",
            "Ec2SubnetId",
            "Ec2SubnetIds",
            "EmrManagedMasterSecurityGroup",
            "EmrManagedSlaveSecurityGroup",
            "ServiceAccessSecurityGroup",
            "AdditionalMasterSecurityGroups",
            "AdditionalSlaveSecurityGroups",
            "Placement",
            "HadoopVersion",
        )
        if name in properties
    }
    for name in _FLAGS:
        if name in properties:
            members[name] = boolean(properties[name])
    members = {**_DEFAULTS, **members}
    groups = [_group(properties[key], role) for key, role in _GROUPS if key in properties]
    groups += [_group(task, "TASK") for task in get_list(properties, "TaskInstanceGroups")]
    if groups:
        members["InstanceGroups"] = groups
    fleets = [_fleet(properties[key], kind) for key, kind in _FLEETS if key in properties]
    fleets += [_fleet(task, "TASK") for task in get_list(properties, "TaskInstanceFleets")]
    if fleets:
        members["InstanceFleets"] = fleets
    return members


def _group(properties: Properties, role: str) -> dict[str, Any]:
    group = {
        "InstanceRole": role,
        "InstanceType": properties["InstanceType"],
        "InstanceCount": int(properties.get("InstanceCount", 1)),
    }
    for name in ("Name", "Market", "BidPrice", "CustomAmiId"):
        if name in properties:
            group[name] = properties[name]
    if "Configurations" in properties:
        group["Configurations"] = configurations(properties["Configurations"])
    if "EbsConfiguration" in properties:
        group["EbsConfiguration"] = _volumes(properties["EbsConfiguration"])
    if "AutoScalingPolicy" in properties:
        group["AutoScalingPolicy"] = _scaling(properties["AutoScalingPolicy"])
    return group


def _volumes(properties: Properties) -> dict[str, Any]:
    configs: list[dict[str, Any]] = []
    for config in get_list(properties, "EbsBlockDeviceConfigs"):
        volume = integers(config["VolumeSpecification"], "SizeInGB", "Iops", "Throughput")
        configs.append({**integers(config, "VolumesPerInstance"), "VolumeSpecification": volume})
    turned: dict[str, Any] = {"EbsBlockDeviceConfigs": configs}
    if "EbsOptimized" in properties:
        turned["EbsOptimized"] = boolean(properties["EbsOptimized"])
    return turned


def _scaling(properties: Properties) -> dict[str, Any]:
    """Return an automatic scaling policy with its texts converted to numbers."""
    rules: list[dict[str, Any]] = []
    for rule in properties["Rules"]:
        action = dict(rule["Action"])
        simple = action["SimpleScalingPolicyConfiguration"]
        action["SimpleScalingPolicyConfiguration"] = integers(
            simple, "ScalingAdjustment", "CoolDown"
        )
        alarm = integers(
            rule["Trigger"]["CloudWatchAlarmDefinition"], "EvaluationPeriods", "Period"
        )
        alarm["Threshold"] = float(alarm["Threshold"])
        trigger = {"CloudWatchAlarmDefinition": alarm}
        rules.append({**rule, "Action": action, "Trigger": trigger})
    bounds = integers(properties["Constraints"], "MinCapacity", "MaxCapacity")
    return {"Constraints": bounds, "Rules": rules}


def _fleet(properties: Properties, kind: str) -> dict[str, Any]:
    fleet = {**integers(properties, "TargetOnDemandCapacity", "TargetSpotCapacity")}
    configs: list[dict[str, Any]] = []
    for config in get_list(properties, "InstanceTypeConfigs"):
        turned = integers(config, "WeightedCapacity")
        if "Configurations" in turned:
            turned["Configurations"] = configurations(turned["Configurations"])
        if "EbsConfiguration" in turned:
            turned["EbsConfiguration"] = _volumes(turned["EbsConfiguration"])
        configs.append(turned)
    if configs:
        fleet["InstanceTypeConfigs"] = configs
    return {**fleet, "InstanceFleetType": kind}


def configurations(properties: Any) -> list[dict[str, Any]]:
    """Return configurations in the API's form, which has other names for their properties."""
    return [
        {
            "Classification": item.get("Classification", ""),
            "Properties": {
                key: attribute_text(value)
                for key, value in item.get("ConfigurationProperties", {}).items()
            },
            "Configurations": configurations(get_list(item, "Configurations")),
        }
        for item in cast("list[dict[str, Any]]", properties)
    ]


def convert_managed_scaling(properties: Properties) -> dict[str, Any]:
    """Return a managed scaling policy with its texts converted to numbers."""
    policy = integers(properties, "UtilizationPerformanceIndex")
    if "ComputeLimits" in policy:
        limits = policy["ComputeLimits"]
        policy["ComputeLimits"] = integers(limits, *(n for n in limits if n != "UnitType"))
    return policy


def _create_group(context: Context, properties: Properties) -> ResourceResult:
    group = _group(properties, properties["InstanceRole"])
    params = {"JobFlowId": properties["JobFlowId"], "InstanceGroups": [group]}
    group_id = context.call("emr", "AddInstanceGroups", params)["InstanceGroupIds"][0]
    return ResourceResult(group_id, {"Id": group_id})


def _update_group(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    cluster = new["JobFlowId"]
    if new["InstanceCount"] != old["InstanceCount"]:
        change = {"InstanceGroupId": physical_id, "InstanceCount": int(new["InstanceCount"])}
        params = {"ClusterId": cluster, "InstanceGroups": [change]}
        context.call("emr", "ModifyInstanceGroups", params)
    if new.get("AutoScalingPolicy") != old.get("AutoScalingPolicy"):
        target = {"ClusterId": cluster, "InstanceGroupId": physical_id}
        if "AutoScalingPolicy" in new:
            policy = {"AutoScalingPolicy": _scaling(new["AutoScalingPolicy"])}
            context.call("emr", "PutAutoScalingPolicy", {**target, **policy})
        else:
            context.call("emr", "RemoveAutoScalingPolicy", target)
    return ResourceResult(physical_id, {"Id": physical_id})


def _empty_group(context: Context, physical_id: str, properties: Properties) -> None:
    """Resize a task group to zero: a group cannot be deleted, and AWS keeps it with its cluster too."""
    change = {"InstanceGroupId": physical_id, "InstanceCount": 0}
    params = {"ClusterId": properties["JobFlowId"], "InstanceGroups": [change]}
    try:
        context.call("emr", "ModifyInstanceGroups", params)
    except AwsError as error:
        # The cluster may have terminated, or be gone, before its groups.
        if error.status >= 500:
            raise


def _create_fleet(context: Context, properties: Properties) -> ResourceResult:
    fleet = _fleet(properties, properties["InstanceFleetType"])
    if "Name" in properties:
        fleet["Name"] = properties["Name"]
    for name in ("LaunchSpecifications", "ResizeSpecifications"):
        if name in properties:
            fleet[name] = properties[name]
    params = {"ClusterId": properties["ClusterId"], "InstanceFleet": fleet}
    fleet_id = context.call("emr", "AddInstanceFleet", params)["InstanceFleetId"]
    return ResourceResult(fleet_id, {"InstanceFleetId": fleet_id})


def _update_fleet(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    _resize_fleet(
        context,
        physical_id,
        new["ClusterId"],
        **{name: int(new.get(name, 0)) for name in _CAPACITIES},
    )
    return ResourceResult(physical_id, {"InstanceFleetId": physical_id})


_CAPACITIES = ("TargetOnDemandCapacity", "TargetSpotCapacity")


def _resize_fleet(context: Context, fleet_id: str, cluster: Any, **capacities: int) -> None:
    params = {"ClusterId": cluster, "InstanceFleet": {"InstanceFleetId": fleet_id, **capacities}}
    context.call("emr", "ModifyInstanceFleet", params)


def _empty_fleet(context: Context, physical_id: str, properties: Properties) -> None:
    """Resize a task fleet to zero: a fleet cannot be deleted, and AWS keeps it with its cluster too."""
    try:
        _resize_fleet(
            context, physical_id, properties["ClusterId"], **dict.fromkeys(_CAPACITIES, 0)
        )
    except AwsError as error:
        # As of groups.
        if error.status >= 500:
            raise


def is_other_hardware(old: Properties, new: Properties) -> bool:
    """Whether a change of a cluster's instances replaces the cluster.

    Sizes, scaling policies and flags change in place (documented:
    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-properties-emr-cluster-jobflowinstancesconfig.html).
    """
    before, after = (_fixed_part(properties["Instances"]) for properties in (old, new))
    return before != after


def _fixed_part(properties: Properties) -> dict[str, Any]:
    changeable = (*_CAPACITIES, "InstanceCount", "AutoScalingPolicy")
    fixed = without(properties, *_FLAGS, *_TASKS)
    for name, _ in (*_GROUPS, *_FLEETS):
        if name in fixed:
            fixed[name] = without(fixed[name], *changeable)
    for name in _TASKS:
        fixed[name] = [without(item, *changeable) for item in get_list(properties, name)]
    return fixed


def change_instances(context: Context, cluster: str, old: Properties, new: Properties) -> None:
    """Change in place what `is_other_hardware` leaves."""
    for name, operation in _FLAGS.items():
        before, after = (boolean(each.get(name, _DEFAULTS.get(name, False))) for each in (old, new))
        if before != after:
            context.call("emr", operation, {"JobFlowIds": [cluster], name: after})
    _change_each(context, cluster, old, new, _GROUPS, "InstanceGroup", _update_group)
    _change_each(context, cluster, old, new, _FLEETS, "InstanceFleet", _update_fleet)


def _change_each(
    context: Context, cluster: str, old: Properties, new: Properties,
    kinds: tuple[tuple[str, str], ...], shown: str, update: Update,
) -> None:  # fmt: skip
    """Change the groups, or the fleets, that differ; task groups have the order of the template."""

    def listed(properties: Properties) -> list[tuple[str, Properties]]:
        found = [(kind, properties[name]) for name, kind in kinds if name in properties]
        found += [("TASK", task) for task in get_list(properties, f"Task{shown}s")]
        return [(kind, {"InstanceCount": 1, **of_kind}) for kind, of_kind in found]

    pairs = list(zip(listed(old), listed(new), strict=True))
    if all(before == after for before, after in pairs):
        return
    target = {"ClusterId": cluster}
    made = context.call("emr", f"List{shown}s", target)[f"{shown}s"]
    ids = {
        kind: iter([each["Id"] for each in made if each[f"{shown}Type"] == kind])
        for kind in ("MASTER", "CORE", "TASK")
    }
    for (kind, before), (_, after) in pairs:
        its_id = next(ids[kind])
        if before != after:
            update(context, its_id, before, {**after, **target, "JobFlowId": cluster})


TYPES = [
    ResourceType(
        "AWS::EMR::InstanceFleetConfig",
        {
            **enforced("ClusterId", "InstanceFleetType", *_CAPACITIES),
            **stored("InstanceTypeConfigs", "LaunchSpecifications", "Name", "ResizeSpecifications"),
        },
        _create_fleet,
        _empty_fleet,
        update=_update_fleet,
        replace_on=frozenset(
            {
                "ClusterId",
                "InstanceFleetType",
                "InstanceTypeConfigs",
                "LaunchSpecifications",
                "Name",
            }
        ),
    ),
    ResourceType(
        "AWS::EMR::InstanceGroupConfig",
        {
            **enforced("InstanceCount", "InstanceRole", "JobFlowId"),
            **stored(
                "AutoScalingPolicy",
                "BidPrice",
                "Configurations",
                "CustomAmiId",
                "EbsConfiguration",
                "InstanceType",
                "Market",
                "Name",
            ),
        },
        _create_group,
        _empty_group,
        update=_update_group,
        replace_on=frozenset(
            {
                "BidPrice",
                "Configurations",
                "CustomAmiId",
                "EbsConfiguration",
                "InstanceRole",
                "InstanceType",
                "JobFlowId",
                "Market",
                "Name",
            }
        ),
    ),
]
