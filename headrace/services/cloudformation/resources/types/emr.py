"""Types of EMR (clusters, steps, security configurations) and EMR Serverless (applications)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    attribute_text,
    boolean,
    enforced,
    ignored,
    integers,
    nothing_to_delete,
    stored,
    tag_list,
    tag_map,
    without,
)
from headrace.services.cloudformation.resources.declaration import Call, DeclaredType, build_arn
from headrace.services.cloudformation.resources.types.emr_instances import (
    change_instances,
    configurations,
    convert_managed_scaling,
    instances,
    is_other_hardware,
)

# Maps with keys of the user's own, such as Spark properties, keep their spelling.
_USER_KEYS = frozenset({"Properties", "WorkerTypeSpecifications", "EncryptionContext"})
_BOOLEANS = frozenset({"Enabled", "LivyEndpointEnabled", "StudioEnabled", "SessionEnabled"})
_INTEGERS = frozenset(
    {"IdleTimeoutMinutes", "WorkerCount", "MaxConcurrentRuns", "QueueTimeoutMinutes"}
)
_STORED = (
    "Architecture",
    "DiskEncryptionConfiguration",
    "IdentityCenterConfiguration",
    "ImageConfiguration",
    "InitialCapacity",
    "InteractiveConfiguration",
    "JobLevelCostAllocationConfiguration",
    "MaximumCapacity",
    "NetworkConfiguration",
    "WorkerTypeSpecifications",
)


def _members(value: Any, name: str = "") -> Any:
    """Return a template's value in the API's spelling: `IdleTimeoutMinutes: "5"` is `idleTimeoutMinutes: 5`."""
    if isinstance(value, list):
        items = cast("list[Any]", value)
        if items and all(_is_pair(item) for item in items):
            return {item["Key"]: _members(item["Value"]) for item in items}
        return [_members(item) for item in items]
    if isinstance(value, dict):
        document = cast("dict[str, Any]", value)
        if name in _USER_KEYS:
            return {
                key: _members(item) if isinstance(item, dict) else attribute_text(item)
                for key, item in document.items()
            }
        return {key[:1].lower() + key[1:]: _members(item, key) for key, item in document.items()}
    if name in _BOOLEANS:
        return boolean(value)
    return int(value) if name in _INTEGERS else value


def _is_pair(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"Key", "Value"}


def _create(context: Context, properties: Properties) -> ResourceResult:
    params = _members(without(properties, "Tags"))
    params["clientToken"] = context.ids.uuid()
    tags = tag_map(properties, context)
    if tags:
        params["tags"] = tags
    answer = context.call("emr-serverless", "CreateApplication", params)
    return _build_application_result(answer["applicationId"], answer["arn"])


def _application(context: Context, properties: Properties) -> str | None:
    """Return the newest application with this name."""
    applications = context.call("emr-serverless", "ListApplications", {})["applications"]
    named = [
        application
        for application in applications
        if application.get("name") == properties.get("Name")
    ]
    newest = max(named, key=lambda application: application["createdAt"], default=None)
    return newest and str(newest["id"])


def _build_application_result(application_id: str, arn: str) -> ResourceResult:
    return ResourceResult(application_id, {"ApplicationId": application_id, "Arn": arn})


def _stop(context: Context, physical_id: str) -> dict[str, Any]:
    """Stop a running application, so that it can be changed or deleted; return its previous description."""
    where = {"applicationId": physical_id}
    application = context.call("emr-serverless", "GetApplication", where)["application"]
    if application["state"] == "STARTED":
        context.call("emr-serverless", "StopApplication", where)
    return application


def _update(context: Context, physical_id: str, old: Properties, new: Properties) -> ResourceResult:
    arn = str(_stop(context, physical_id)["arn"])
    params = _members(without(new, "Name", "Type", "Tags"))
    params.update(applicationId=physical_id, clientToken=context.ids.uuid())
    context.call("emr-serverless", "UpdateApplication", params)
    before, after = tag_map(old, context), tag_map(new, context)
    gone = sorted(set(before) - set(after))
    if gone:
        context.call("emr-serverless", "UntagResource", {"resourceArn": arn, "tagKeys": gone})
    if after:
        context.call("emr-serverless", "TagResource", {"resourceArn": arn, "tags": after})
    return _build_application_result(physical_id, arn)


def _delete(context: Context, physical_id: str, properties: Properties) -> None:
    try:
        state = _stop(context, physical_id)["state"]
    except AwsError as error:
        if error.code == "ResourceNotFoundException":
            return
        raise
    if state != "TERMINATED":
        context.call("emr-serverless", "DeleteApplication", {"applicationId": physical_id})


# Members of RunJobFlow that have the same names in templates.
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


def _step(properties: Properties) -> dict[str, Any]:
    jar = properties["HadoopJarStep"]
    turned = {key: jar[key] for key in ("Jar", "MainClass", "Args") if key in jar}
    if "StepProperties" in jar:
        turned["Properties"] = jar["StepProperties"]
    return {
        "Name": properties["Name"],
        "ActionOnFailure": properties.get("ActionOnFailure", "CONTINUE"),
        "HadoopJarStep": turned,
    }


def _create_cluster(context: Context, properties: Properties) -> ResourceResult:
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
    if isinstance(params.get("AdditionalInfo"), dict):
        params["AdditionalInfo"] = json.dumps(params["AdditionalInfo"])
    if "ManagedScalingPolicy" in properties:
        params["ManagedScalingPolicy"] = convert_managed_scaling(properties["ManagedScalingPolicy"])
    params["Instances"] = instances(properties["Instances"])
    params["VisibleToAllUsers"] = boolean(properties.get("VisibleToAllUsers", True))
    if "Configurations" in properties:
        params["Configurations"] = configurations(properties["Configurations"])
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
    return _build_result(context, cluster)


def _cluster(context: Context, properties: Properties) -> str | None:
    """Return the newest cluster with this name."""
    clusters = context.call("emr", "ListClusters", {})["Clusters"]
    named = [cluster for cluster in clusters if cluster["Name"] == properties["Name"]]
    newest = max(
        named, key=lambda cluster: cluster["Status"]["Timeline"]["CreationDateTime"], default=None
    )
    return newest and str(newest["Id"])


def _build_result(context: Context, cluster: str) -> ResourceResult:
    description = context.call("emr", "DescribeCluster", {"ClusterId": cluster})["Cluster"]
    dns = description.get("MasterPublicDnsName", "localhost")
    return ResourceResult(cluster, {"Id": cluster, "MasterPublicDNS": dns})


# The policies that change in place, as their own calls take them.
_POLICIES: Mapping[str, Callable[[Properties], dict[str, Any]]] = {
    "AutoTerminationPolicy": lambda policy: integers(policy, "IdleTimeout"),
    "ManagedScalingPolicy": convert_managed_scaling,
}


def _update_cluster(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    if new.get("VisibleToAllUsers") != old.get("VisibleToAllUsers"):
        context.call(
            "emr",
            "SetVisibleToAllUsers",
            {
                "JobFlowIds": [physical_id],
                "VisibleToAllUsers": boolean(new.get("VisibleToAllUsers", True)),
            },
        )
    for policy, turn in _POLICIES.items():
        if new.get(policy) != old.get(policy):
            target: dict[str, Any] = {"ClusterId": physical_id}
            if policy in new:
                context.call("emr", f"Put{policy}", {**target, policy: turn(new[policy])})
            else:
                context.call("emr", f"Remove{policy}", target)
    level = new.get("StepConcurrencyLevel", 1)
    if level != old.get("StepConcurrencyLevel", 1):
        changed = {"ClusterId": physical_id, "StepConcurrencyLevel": int(level)}
        context.call("emr", "ModifyCluster", changed)
    change_instances(context, physical_id, old["Instances"], new["Instances"])
    tags = tag_list(new, context)
    gone = [tag["Key"] for tag in tag_list(old, context) if tag["Key"] not in _keys(tags)]
    if gone:
        context.call("emr", "RemoveTags", {"ResourceId": physical_id, "TagKeys": gone})
    if tags:
        context.call("emr", "AddTags", {"ResourceId": physical_id, "Tags": tags})
    return _build_result(context, physical_id)


def _keys(tags: list[dict[str, str]]) -> set[str]:
    return {tag["Key"] for tag in tags}


def _delete_cluster(context: Context, physical_id: str, properties: Properties) -> None:
    try:
        context.call("emr", "TerminateJobFlows", {"JobFlowIds": [physical_id]})
    except AwsError as error:
        if "is not valid" not in error.message and "does not exist" not in error.message:
            raise


def _create_step(context: Context, properties: Properties) -> ResourceResult:
    params = {"JobFlowId": properties["JobFlowId"], "Steps": [_step(properties)]}
    step = context.call("emr", "AddJobFlowSteps", params)["StepIds"][0]
    return ResourceResult(step, {"Id": step})


# AWS replaces the cluster when these properties change.
_FIXED_ENFORCED = ("Name", "LogUri", "Steps")
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
    "BootstrapActions",
    "Configurations",
    "CustomAmiId",
    "JobFlowRole",
    "OSReleaseLabel",
    "ReleaseLabel",
    "SecurityConfiguration",
    "ServiceRole",
)
_CHANGEABLE = ("AutoTerminationPolicy", "Instances", "ManagedScalingPolicy", "VisibleToAllUsers")


TYPES = [
    ResourceType(
        "AWS::EMR::Cluster",
        {
            **enforced(*_FIXED_ENFORCED, "StepConcurrencyLevel", "Tags"),
            **stored(*_FIXED_STORED, *_CHANGEABLE),
            **ignored("AdditionalInfo"),
        },
        _create_cluster,
        _delete_cluster,
        update=_update_cluster,
        replace_on=frozenset({*_FIXED_ENFORCED, *_FIXED_STORED, "AdditionalInfo"}),
        may_replace=frozenset({"Instances"}),
        replaced_if=is_other_hardware,
        made=_cluster,
    ),
    ResourceType(
        "AWS::EMR::Step",
        enforced("ActionOnFailure", "HadoopJarStep", "JobFlowId", "Name"),
        _create_step,
        # There is no call that deletes a step; on AWS it stays too.
        nothing_to_delete,
    ),
    ResourceType(
        "AWS::EMRServerless::Application",
        {
            **enforced("Name", "Type", "Tags", "AutoStartConfiguration", "AutoStopConfiguration"),
            **enforced("MonitoringConfiguration", "RuntimeConfiguration"),
            **enforced("SchedulerConfiguration"),
            **stored("ReleaseLabel", *_STORED),
        },
        _create,
        _delete,
        update=_update,
        replace_on=frozenset({"Name", "Type"}),
        made=_application,
    ),
]


_NAME = {"Name": "@id"}
_virtual_cluster_arn = build_arn("emr-containers", "/virtualclusters/")
DECLARED = [
    DeclaredType(
        "AWS::EMR::SecurityConfiguration",
        "emr",
        create=[Call("CreateSecurityConfiguration")],
        id="Name",
        read=Call("DescribeSecurityConfiguration", _NAME),
        delete=[Call("DeleteSecurityConfiguration", _NAME)],
        name="Name",
        name_length=256,
    ),
    DeclaredType(
        "AWS::EMRContainers::VirtualCluster",
        "emr-containers",
        create=[Call("CreateVirtualCluster")],
        id="@answer.id",
        read=Call("DescribeVirtualCluster", {"id": "@id"}),
        tag=("TagResource", "UntagResource", "resourceArn", _virtual_cluster_arn),
        delete=[Call("DeleteVirtualCluster", {"id": "@id"})],
        attributes={"Arn": _virtual_cluster_arn, "Id": "@id"},
    ),
]
