"""RunJobFlow: makes a cluster with its first steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.aws.errors import AwsError
from headrace.aws.operation import Call, operation
from headrace.aws.shapes import emr as shapes
from headrace.core.emr_releases import EMR, UnknownRelease, release_of
from headrace.core.values import listed
from headrace.services.emr.actions.common import cluster_arn, idle_timeout_s
from headrace.services.emr.actions.steps import new_steps
from headrace.services.emr.backend import Emr
from headrace.services.emr.errors import unknown_release, validation
from headrace.services.emr.limits import MOST_CONCURRENT_STEPS
from headrace.services.emr.state import Cluster


@operation("RunJobFlow")
def run_job_flow(emr: Emr, call: Call, request: shapes.RunJobFlowInput) -> shapes.RunJobFlowOutput:
    """Make a cluster and queue its first steps; it goes through its states by itself."""
    instances = request["Instances"]
    concurrency = request.get("StepConcurrencyLevel", 1)
    check_concurrency(concurrency, validation)
    check_fleets_or_groups(instances)
    _check_release(request.get("ReleaseLabel"))
    idle, scaling = request.get("AutoTerminationPolicy"), request.get("ManagedScalingPolicy")
    cluster = Cluster(
        id=f"j-{emr.ids.alnum_upper(13)}",
        account=call.account,
        region=call.region,
        name=request["Name"],
        request={key: value for key, value in request.items() if key not in ("Steps", "Tags")},
        created_ms=call.now_ms,
        keep_alive=bool(instances.get("KeepJobFlowAliveWhenNoSteps", False)),
        termination_protected=bool(instances.get("TerminationProtected", False)),
        replace_unhealthy=bool(instances.get("UnhealthyNodeReplacement", False)),
        visible=bool(request.get("VisibleToAllUsers", True)),
        step_concurrency=concurrency,
        idle_timeout_s=None if idle is None else idle_timeout_s(idle),
        managed_scaling=None if scaling is None else dict(scaling),
        tags={tag.get("Key", ""): tag.get("Value", "") for tag in request.get("Tags") or []},
        instance_groups=_instance_groups(emr, instances),
    )
    steps = new_steps(
        emr,
        call,
        cluster.id,
        request.get("Steps") or [],
        existing=[],
        role_arn=request.get("StepExecutionRoleArn"),
    )
    emr.add(cluster, steps)
    return {"JobFlowId": cluster.id, "ClusterArn": cluster_arn(cluster)}


def _check_release(label: str | None) -> None:
    """Raise AwsError unless EMR on EC2 has the release, or none is named."""
    if label is None:
        return
    try:
        release_of(label, EMR)
    except UnknownRelease as error:
        raise validation(unknown_release(error)) from None


def check_concurrency(level: int, error: Callable[[str], AwsError]) -> None:
    """Raise `error` unless that many steps may run at a time."""
    if not 1 <= level <= MOST_CONCURRENT_STEPS:
        raise error(f"The step concurrency level must be between 1 and {MOST_CONCURRENT_STEPS}.")


def check_fleets_or_groups(instances: shapes.JobFlowInstancesConfig) -> None:
    """Raise AwsError for a cluster that is to have both instance groups and instance fleets."""
    groups = bool(instances.get("InstanceGroups")) or "MasterInstanceType" in instances
    if groups and instances.get("InstanceFleets"):
        raise validation("Instance fleets and instance groups are mutually exclusive.")


def _instance_groups(emr: Emr, instances: shapes.JobFlowInstancesConfig) -> list[dict[str, Any]]:
    configs = listed(instances, "InstanceGroups")
    if not configs and "MasterInstanceType" in instances:
        count = int(instances.get("InstanceCount") or 1)
        master = instances["MasterInstanceType"]
        core = {"InstanceType": instances.get("SlaveInstanceType", master)}
        configs = [{"InstanceRole": "MASTER", "InstanceType": master, "InstanceCount": 1}]
        if count > 1:
            configs.append({"InstanceRole": "CORE", "InstanceCount": count - 1, **core})
    return [{"Id": f"ig-{emr.ids.alnum_upper(13)}", **config} for config in configs]
