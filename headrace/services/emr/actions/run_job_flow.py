"""RunJobFlow: creates a cluster with its first steps."""

from __future__ import annotations

import re
from collections.abc import Callable

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import emr as shapes
from headrace.core.values import get_list
from headrace.services.emr.actions.common import cluster_arn, idle_timeout_s
from headrace.services.emr.actions.instance_checks import (
    check_fleets,
    check_groups,
    check_instances,
)
from headrace.services.emr.actions.steps import new_steps
from headrace.services.emr.backend import Emr
from headrace.services.emr.errors import unknown_release, validation
from headrace.services.emr.limits import MOST_CONCURRENT_STEPS
from headrace.services.emr.scaling import check_constraints, check_managed
from headrace.services.emr.state import Cluster, InstanceGroup
from headrace.spark_submit.emr_releases import EMR, UnknownRelease, release_of

# Documented: "Amazon EMR 5.7.0 or later" (emr-custom-ami).
_CUSTOM_AMI_FROM = (5, 7)
# The versions before release labels; empty: a Hadoop version instead of one.
_OLD_AMIS = ("", "1", "2", "3", "latest")


@operation("RunJobFlow")
def run_job_flow(emr: Emr, call: Call, request: shapes.RunJobFlowInput) -> shapes.RunJobFlowOutput:
    """Create a cluster and queue its first steps; its worker does the rest."""
    instances = request["Instances"]
    concurrency = request.get("StepConcurrencyLevel", 1)
    check_concurrency(concurrency, validation)
    _check_roles(request)
    _check_images(request)
    _check_release(request.get("ReleaseLabel"))
    check_instances(instances)
    idle, scaling = request.get("AutoTerminationPolicy"), request.get("ManagedScalingPolicy")
    if scaling is not None:
        check_managed(scaling, fleets=bool(instances.get("InstanceFleets")))
    groups = _instance_groups(emr, instances)
    several_masters = sum(g["InstanceCount"] for g in groups if g["InstanceRole"] == "MASTER") > 1
    cluster = Cluster(
        id=f"j-{emr.ids.alnum_upper(13)}",
        account=call.account,
        region=call.region,
        name=request["Name"],
        request={key: value for key, value in request.items() if key not in ("Steps", "Tags")},
        created_ms=call.now_ms,
        keep_alive=several_masters or bool(instances.get("KeepJobFlowAliveWhenNoSteps", False)),
        termination_protected=bool(instances.get("TerminationProtected", several_masters)),
        replace_unhealthy=bool(instances.get("UnhealthyNodeReplacement", False)),
        visible=bool(request.get("VisibleToAllUsers", True)),
        step_concurrency=concurrency,
        idle_timeout_s=None if idle is None else idle_timeout_s(idle),
        managed_scaling=None if scaling is None else dict(scaling),
        tags={tag.get("Key", ""): tag.get("Value", "") for tag in request.get("Tags") or []},
    )
    cluster.groups.extend(groups)
    emr.check_roles(cluster)
    steps = new_steps(
        emr,
        call,
        cluster.id,
        request.get("Steps") or [],
        role_arn=request.get("StepExecutionRoleArn"),
    )
    emr.add(cluster, steps)
    return {"JobFlowId": cluster.id, "ClusterArn": cluster_arn(cluster)}


def _check_roles(request: shapes.RunJobFlowInput) -> None:
    """Raise AwsError without the roles, which only AWS's model calls optional (observed: mrjob, elasticity)."""
    for member, name in (("ServiceRole", "ServiceRole"), ("JobFlowRole", "InstanceProfile")):
        if not request.get(member):
            raise validation(f"{name} is required for creating cluster.")


def _check_images(request: shapes.RunJobFlowInput) -> None:
    """Raise AwsError unless the request names one image, and nothing that this kind of image does not have.

    The sentences are AWS's, as moto's tests and mrjob's mock of EMR repeat them.
    """
    ami, label = request.get("AmiVersion"), request.get("ReleaseLabel")
    if ami and label:
        raise validation(
            "Only one AMI version and release label may be specified. Provided AMI:"
            f" {ami}, release label: {label}."
        )
    if not (ami or label or request["Instances"].get("HadoopVersion")):
        raise validation(
            "Must specify exactly one of the following: release label, AMI version, or Hadoop version."
        )
    if label and request.get("SupportedProducts"):
        raise validation(
            "Cannot specify supported products when release label is used. Specify applications instead."
        )
    if not label:
        _check_old_image(request)
    if not request.get("CustomAmiId"):
        return
    if ami:
        raise validation("Custom AMI is not supported in this version of EMR")
    numbers = tuple(int(number) for number in re.findall(r"\d+", label or "")[:2])
    if len(numbers) == len(_CUSTOM_AMI_FROM) and numbers < _CUSTOM_AMI_FROM:
        raise validation("Custom AMI is not allowed")


def _check_old_image(request: shapes.RunJobFlowInput) -> None:
    """Raise AwsError for what came with release labels."""
    if (request.get("AmiVersion") or "").partition(".")[0] not in _OLD_AMIS:
        raise validation("The supplied ami version is invalid.")
    if request.get("Applications"):
        raise validation(
            "Cannot specify applications when AMI version is used. Specify supported products or new supported "
            "products instead."
        )
    if request.get("Configurations"):
        raise validation("Cannot specify configurations when AMI version is used.")
    if request["Instances"].get("InstanceFleets"):
        raise validation("Instance fleets are not available for the release.")


def _check_release(label: str | None) -> None:
    """Raise AwsError when a release is given that EMR on EC2 does not have."""
    if label is None:
        return
    try:
        release_of(label, EMR)
    except UnknownRelease as error:
        raise validation(unknown_release(error)) from None


def check_concurrency(level: int, error: Callable[[str], AwsError]) -> None:
    """Raise `error` unless that many steps may run at a time."""
    if not 1 <= level <= MOST_CONCURRENT_STEPS:
        # Observed: public reports.
        raise error(
            f"Invalid step concurrency level. Allowed level is from 1 to {MOST_CONCURRENT_STEPS}"
        )


def _instance_groups(emr: Emr, instances: shapes.JobFlowInstancesConfig) -> list[InstanceGroup]:
    configs: list[shapes.InstanceGroupConfig] = get_list(instances, "InstanceGroups")
    if not configs and "MasterInstanceType" in instances:
        count = int(instances.get("InstanceCount") or 1)
        master = instances["MasterInstanceType"]
        core = instances.get("SlaveInstanceType", master)
        configs = [{"InstanceRole": "MASTER", "InstanceType": master, "InstanceCount": 1}]
        if count > 1:
            configs.append(
                {"InstanceRole": "CORE", "InstanceCount": count - 1, "InstanceType": core}
            )
    fleets: list[shapes.InstanceFleetConfig] = get_list(instances, "InstanceFleets")
    if fleets:
        check_fleets(fleets)
        return []
    check_groups(configs)
    for config in configs:
        if policy := config.get("AutoScalingPolicy"):
            check_constraints(policy)
    return [{"Id": f"ig-{emr.ids.alnum_upper(13)}", **config} for config in configs]
