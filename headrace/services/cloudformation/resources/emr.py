"""EMR clusters and steps."""

from __future__ import annotations

import json
from typing import Any, cast

from headrace.aws.errors import AwsError
from headrace.core.values import listed
from headrace.services.cloudformation.resources.base import (
    Context,
    Made,
    Properties,
    ResourceType,
    boolean,
    enforced,
    ignored,
    integers,
    nothing_to_delete,
    stored,
    tag_list,
)

_GROUPS = (
    ("MasterInstanceGroup", "MASTER"),
    ("CoreInstanceGroup", "CORE"),
)
_FLEETS = (
    ("MasterInstanceFleet", "MASTER"),
    ("CoreInstanceFleet", "CORE"),
)
# Members of RunJobFlow that templates spell in the same way.
_PASSED_ON = (
    "AdditionalInfo",
    "EbsRootVolumeIops",
    "EbsRootVolumeSize",
    "EbsRootVolumeThroughput",
    "KerberosAttributes",
    "LogEncryptionKmsKeyId",
    "PlacementGroupConfigs",
    "ScaleDownBehavior",
)
_SIZES = ("EbsRootVolumeIops", "EbsRootVolumeSize", "EbsRootVolumeThroughput")
_FLAGS = ("KeepJobFlowAliveWhenNoSteps", "TerminationProtected", "UnhealthyNodeReplacement")


def _group(given: Properties, role: str) -> dict[str, Any]:
    group = {
        "InstanceRole": role,
        "InstanceType": given["InstanceType"],
        "InstanceCount": int(given.get("InstanceCount", 1)),
    }
    for name in ("Name", "Market", "BidPrice", "CustomAmiId"):
        if name in given:
            group[name] = given[name]
    if "Configurations" in given:
        group["Configurations"] = _configurations(given["Configurations"])
    if "EbsConfiguration" in given:
        group["EbsConfiguration"] = _volumes(given["EbsConfiguration"])
    if "AutoScalingPolicy" in given:
        group["AutoScalingPolicy"] = _scaling(given["AutoScalingPolicy"])
    return group


def _volumes(given: Properties) -> dict[str, Any]:
    configs: list[dict[str, Any]] = []
    for config in listed(given, "EbsBlockDeviceConfigs"):
        volume = integers(config["VolumeSpecification"], "SizeInGB", "Iops", "Throughput")
        configs.append({**integers(config, "VolumesPerInstance"), "VolumeSpecification": volume})
    turned: dict[str, Any] = {"EbsBlockDeviceConfigs": configs}
    if "EbsOptimized" in given:
        turned["EbsOptimized"] = boolean(given["EbsOptimized"])
    return turned


def _scaling(given: Properties) -> dict[str, Any]:
    """Return an automatic scaling policy with numbers where templates may have texts."""
    rules: list[dict[str, Any]] = []
    for rule in given["Rules"]:
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
    bounds = integers(given["Constraints"], "MinCapacity", "MaxCapacity")
    return {"Constraints": bounds, "Rules": rules}


def _instances(given: Properties) -> dict[str, Any]:
    instances: dict[str, Any] = {
        name: given[name]
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
        if name in given
    }
    for name in _FLAGS:
        if name in given:
            instances[name] = boolean(given[name])
    # A cluster that CloudFormation makes stays up unless the template says otherwise.
    instances.setdefault("KeepJobFlowAliveWhenNoSteps", True)
    groups = [_group(given[key], role) for key, role in _GROUPS if key in given]
    groups += [_group(task, "TASK") for task in listed(given, "TaskInstanceGroups")]
    if groups:
        instances["InstanceGroups"] = groups
    fleets = [_fleet(given[key], kind) for key, kind in _FLEETS if key in given]
    fleets += [_fleet(task, "TASK") for task in listed(given, "TaskInstanceFleets")]
    if fleets:
        instances["InstanceFleets"] = fleets
    return instances


def _fleet(given: Properties, kind: str) -> dict[str, Any]:
    fleet = {**integers(given, "TargetOnDemandCapacity", "TargetSpotCapacity")}
    configs: list[dict[str, Any]] = []
    for config in listed(given, "InstanceTypeConfigs"):
        turned = integers(config, "WeightedCapacity")
        if "Configurations" in turned:
            turned["Configurations"] = _configurations(turned["Configurations"])
        if "EbsConfiguration" in turned:
            turned["EbsConfiguration"] = _volumes(turned["EbsConfiguration"])
        configs.append(turned)
    if configs:
        fleet["InstanceTypeConfigs"] = configs
    return {**fleet, "InstanceFleetType": kind}


def _configurations(given: Any) -> list[dict[str, Any]]:
    return [
        {
            "Classification": item.get("Classification", ""),
            "Properties": {
                key: str(value) for key, value in item.get("ConfigurationProperties", {}).items()
            },
            "Configurations": _configurations(listed(item, "Configurations")),
        }
        for item in cast("list[dict[str, Any]]", given)
    ]


def _step(given: Properties) -> dict[str, Any]:
    jar = given["HadoopJarStep"]
    turned = {key: jar[key] for key in ("Jar", "MainClass", "Args") if key in jar}
    if "StepProperties" in jar:
        turned["Properties"] = jar["StepProperties"]
    return {
        "Name": given["Name"],
        "ActionOnFailure": given.get("ActionOnFailure", "CONTINUE"),
        "HadoopJarStep": turned,
    }


def _managed(given: Properties) -> dict[str, Any]:
    policy = integers(given, "UtilizationPerformanceIndex")
    if "ComputeLimits" in policy:
        limits = policy["ComputeLimits"]
        policy["ComputeLimits"] = integers(limits, *(n for n in limits if n != "UnitType"))
    return policy


def _create_cluster(context: Context, properties: Properties) -> Made:
    params: dict[str, Any] = {
        name: properties[name]
        for name in (
            "Name",
            "ReleaseLabel",
            "LogUri",
            "JobFlowRole",
            "ServiceRole",
            "AutoScalingRole",
            "Applications",
            "SecurityConfiguration",
            "CustomAmiId",
            "OSReleaseLabel",
            *_PASSED_ON,
        )
        if name in properties
    }
    params.update(integers(params, *_SIZES))
    if "ManagedScalingPolicy" in properties:
        params["ManagedScalingPolicy"] = _managed(properties["ManagedScalingPolicy"])
    params["Instances"] = _instances(properties["Instances"])
    params["VisibleToAllUsers"] = boolean(properties.get("VisibleToAllUsers", True))
    if "Configurations" in properties:
        params["Configurations"] = _configurations(properties["Configurations"])
    if "Steps" in properties:
        params["Steps"] = [_step(step) for step in properties["Steps"]]
    if "StepConcurrencyLevel" in properties:
        params["StepConcurrencyLevel"] = int(properties["StepConcurrencyLevel"])
    if "BootstrapActions" in properties:
        params["BootstrapActions"] = properties["BootstrapActions"]
    if "AutoTerminationPolicy" in properties:
        idle = properties["AutoTerminationPolicy"]["IdleTimeout"]
        params["AutoTerminationPolicy"] = {"IdleTimeout": int(idle)}
    tags = tag_list(properties, context)
    if tags:
        params["Tags"] = tags
    cluster = context.call("emr", "RunJobFlow", params)["JobFlowId"]
    context.note_made(cluster)
    return _made(context, cluster)


def _made(context: Context, cluster: str) -> Made:
    found = context.call("emr", "DescribeCluster", {"ClusterId": cluster})["Cluster"]
    dns = found.get("MasterPublicDnsName", "localhost")
    return Made(cluster, {"Id": cluster, "MasterPublicDNS": dns})


def _update_cluster(context: Context, physical_id: str, old: Properties, new: Properties) -> Made:
    if new.get("VisibleToAllUsers") != old.get("VisibleToAllUsers"):
        context.call(
            "emr",
            "SetVisibleToAllUsers",
            {
                "JobFlowIds": [physical_id],
                "VisibleToAllUsers": boolean(new.get("VisibleToAllUsers", True)),
            },
        )
    if new.get("ManagedScalingPolicy") != old.get("ManagedScalingPolicy"):
        given = new.get("ManagedScalingPolicy")
        target: dict[str, Any] = {"ClusterId": physical_id}
        if given is None:
            context.call("emr", "RemoveManagedScalingPolicy", target)
        else:
            policy = {"ManagedScalingPolicy": _managed(given)}
            context.call("emr", "PutManagedScalingPolicy", {**target, **policy})
    tags = tag_list(new, context)
    gone = [tag["Key"] for tag in tag_list(old, context) if tag["Key"] not in _keys(tags)]
    if gone:
        context.call("emr", "RemoveTags", {"ResourceId": physical_id, "TagKeys": gone})
    if tags:
        context.call("emr", "AddTags", {"ResourceId": physical_id, "Tags": tags})
    return _made(context, physical_id)


def _keys(tags: list[dict[str, str]]) -> set[str]:
    return {tag["Key"] for tag in tags}


def _delete_cluster(context: Context, physical_id: str, properties: Properties) -> None:
    try:
        context.call("emr", "TerminateJobFlows", {"JobFlowIds": [physical_id]})
    except AwsError as error:
        if "is not valid" not in error.message and "does not exist" not in error.message:
            raise


def _create_step(context: Context, properties: Properties) -> Made:
    params = {"JobFlowId": properties["JobFlowId"], "Steps": [_step(properties)]}
    step = context.call("emr", "AddJobFlowSteps", params)["StepIds"][0]
    return Made(step, {"Id": step})


def _create_security_configuration(context: Context, properties: Properties) -> Made:
    name = properties.get("Name") or context.generated_name(256)
    document = properties["SecurityConfiguration"]
    text = document if isinstance(document, str) else json.dumps(document)
    context.call(
        "emr", "CreateSecurityConfiguration", {"Name": name, "SecurityConfiguration": text}
    )
    return Made(name, {"Name": name})


def _delete_security_configuration(
    context: Context, physical_id: str, properties: Properties
) -> None:
    try:
        context.call("emr", "DeleteSecurityConfiguration", {"Name": physical_id})
    except AwsError as error:
        if "does not exist" not in error.message:
            raise


def _create_group(context: Context, properties: Properties) -> Made:
    group = _group(properties, properties["InstanceRole"])
    params = {"JobFlowId": properties["JobFlowId"], "InstanceGroups": [group]}
    made = context.call("emr", "AddInstanceGroups", params)["InstanceGroupIds"][0]
    return Made(made, {"Id": made})


def _update_group(context: Context, physical_id: str, old: Properties, new: Properties) -> Made:
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
    return Made(physical_id, {"Id": physical_id})


def _empty_group(context: Context, physical_id: str, properties: Properties) -> None:
    """Resize a task group to nothing: a group cannot be deleted, and AWS leaves it with its cluster too."""
    change = {"InstanceGroupId": physical_id, "InstanceCount": 0}
    params = {"ClusterId": properties["JobFlowId"], "InstanceGroups": [change]}
    try:
        context.call("emr", "ModifyInstanceGroups", params)
    except AwsError as error:
        # The cluster may have ended, or be gone, before its groups.
        if error.status >= 500:
            raise


# Properties that AWS does not change in a running cluster: another value means another cluster.
_FIXED_ENFORCED = ("Name", "LogUri", "Steps", "StepConcurrencyLevel")
_FIXED_STORED = (
    "EbsRootVolumeIops",
    "EbsRootVolumeSize",
    "EbsRootVolumeThroughput",
    "KerberosAttributes",
    "LogEncryptionKmsKeyId",
    "PlacementGroupConfigs",
    "ScaleDownBehavior",
    "Applications",
    "AutoScalingRole",
    "AutoTerminationPolicy",
    "BootstrapActions",
    "Configurations",
    "CustomAmiId",
    "Instances",
    "JobFlowRole",
    "OSReleaseLabel",
    "ReleaseLabel",
    "SecurityConfiguration",
    "ServiceRole",
)

TYPES = [
    ResourceType(
        "AWS::EMR::Cluster",
        {
            **enforced(*_FIXED_ENFORCED, "Tags"),
            **stored(*_FIXED_STORED, "VisibleToAllUsers", "ManagedScalingPolicy"),
            **ignored("AdditionalInfo"),
        },
        _create_cluster,
        _delete_cluster,
        update=_update_cluster,
        replace_on=frozenset({*_FIXED_ENFORCED, *_FIXED_STORED, "AdditionalInfo"}),
    ),
    ResourceType(
        "AWS::EMR::Step",
        enforced("ActionOnFailure", "HadoopJarStep", "JobFlowId", "Name"),
        _create_step,
        # There is no call that deletes a step; AWS leaves it too.
        nothing_to_delete,
    ),
    ResourceType(
        "AWS::EMR::SecurityConfiguration",
        stored("Name", "SecurityConfiguration"),
        _create_security_configuration,
        _delete_security_configuration,
        named_by=("Name",),
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
