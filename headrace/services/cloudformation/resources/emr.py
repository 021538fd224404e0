"""EMR clusters and steps."""

from __future__ import annotations

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
    nothing_to_delete,
    stored,
    tag_list,
)

_GROUPS = (
    ("MasterInstanceGroup", "MASTER"),
    ("CoreInstanceGroup", "CORE"),
)
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
    return group


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
    return instances


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
        )
        if name in properties
    }
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
    tags = tag_list(new, context)
    if tags:
        context.call("emr", "AddTags", {"ResourceId": physical_id, "Tags": tags})
    return _made(context, physical_id)


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


# Properties that AWS does not change in a running cluster: another value means another cluster.
_FIXED_ENFORCED = ("Name", "LogUri", "Steps", "StepConcurrencyLevel")
_FIXED_STORED = (
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
            **stored(*_FIXED_STORED, "VisibleToAllUsers"),
        },
        _create_cluster,
        _delete_cluster,
        update=_update_cluster,
        replace_on=frozenset({*_FIXED_ENFORCED, *_FIXED_STORED}),
    ),
    ResourceType(
        "AWS::EMR::Step",
        enforced("ActionOnFailure", "HadoopJarStep", "JobFlowId", "Name"),
        _create_step,
        # There is no call that deletes a step; AWS leaves it too.
        nothing_to_delete,
    ),
]
