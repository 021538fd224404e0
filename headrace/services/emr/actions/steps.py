"""Steps: RunJobFlow, which makes a cluster with its first, AddJobFlowSteps, DescribeStep, ListSteps, CancelSteps."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Sequence

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import emr as shapes
from headrace.core.values import get_list, present
from headrace.services.emr.actions.common import (
    check_constraints,
    check_fleets,
    check_groups,
    check_instances,
    check_managed,
    cluster_arn,
    idle_timeout_s,
    page,
    step_summary,
)
from headrace.services.emr.backend import Emr
from headrace.services.emr.errors import (
    MOST_ACTIVE_STEPS,
    MOST_BOOTSTRAP_ACTIONS,
    MOST_CANCELLED_STEPS,
    MOST_CONCURRENT_STEPS,
    MOST_STEP_IDS,
    STEPS_PER_PAGE,
    ended_job_flow,
    invalid_request,
    unknown_release,
    unknown_security_configuration,
    unknown_step,
    validation,
)
from headrace.services.emr.state import Cluster, InstanceGroup, Step, StepState
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
    _check_additions(emr, call, request)
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


def _check_additions(emr: Emr, call: Call, request: shapes.RunJobFlowInput) -> None:
    """Raise AwsError for a security configuration that is not there, or too many bootstrap actions (assumed words)."""
    name = request.get("SecurityConfiguration")
    if name and name not in emr.store.security_configurations(call.account, call.region):
        raise validation(unknown_security_configuration(name))
    if len(request.get("BootstrapActions") or []) > MOST_BOOTSTRAP_ACTIONS:
        raise validation(
            f"Maximum number of bootstrap actions for cluster exceeded. The maximum is {MOST_BOOTSTRAP_ACTIONS}."
        )


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


@operation("AddJobFlowSteps")
def add_job_flow_steps(
    emr: Emr, call: Call, request: shapes.AddJobFlowStepsInput
) -> shapes.AddJobFlowStepsOutput:
    """Queue steps on a cluster."""
    with emr.store.lock:
        cluster = emr.job_flow(request["JobFlowId"], account=call.account, region=call.region)
        existing = emr.store.steps(cluster.id)
        if cluster.ending:
            raise ended_job_flow()
        active = sum(step.active for step in existing)
        _check_actions(cluster, request["Steps"])
        steps = new_steps(
            emr,
            call,
            cluster.id,
            request["Steps"],
            before=len(existing),
            active=active,
            role_arn=request.get("ExecutionRoleArn"),
        )
        emr.store.add_steps(cluster, steps)
    emr.wake(cluster.id)
    return {"StepIds": [step.id for step in steps]}


def new_steps(
    emr: Emr,
    call: Call,
    cluster_id: str,
    configs: Sequence[shapes.StepConfig],
    *,
    before: int = 0,
    active: int = 0,
    role_arn: str | None,
) -> list[Step]:
    """Return the Steps of StepConfigs, for a cluster that has `before` steps, `active` of them not ended.

    Raises AwsError when the cluster would have too many.
    """
    if active + len(configs) > MOST_ACTIVE_STEPS:
        raise validation(
            "Maximum number of active steps(State = 'Running', 'Pending' or 'Cancel_Pending') for cluster exceeded."
        )
    steps: list[Step] = []
    for number, config in enumerate(configs, before + 1):
        jar = config["HadoopJarStep"]
        monitoring = config.get("StepMonitoringConfiguration") or {}
        logs = monitoring.get("S3MonitoringConfiguration") or {}
        steps.append(
            Step(
                id=f"s-{emr.ids.alnum_upper(13)}",
                cluster_id=cluster_id,
                number=number,
                name=config["Name"],
                jar=jar["Jar"],
                args=list(jar.get("Args") or []),
                main_class=jar.get("MainClass") or "",
                properties={
                    p.get("Key", ""): p.get("Value", "") for p in jar.get("Properties") or []
                },
                action_on_failure=config.get("ActionOnFailure") or "CONTINUE",
                execution_role_arn=role_arn or "",
                log_uri=logs.get("LogUri") or "",
                log_key_arn=logs.get("EncryptionKeyArn") or "",
                created_ms=call.now_ms,
            )
        )
    return steps


@operation("DescribeStep")
def describe_step(
    emr: Emr, call: Call, request: shapes.DescribeStepInput
) -> shapes.DescribeStepOutput:
    """Return one step."""
    with emr.store.lock:
        cluster = emr.cluster(request["ClusterId"], account=call.account, region=call.region)
        step = emr.store.step(cluster.id, request["StepId"])
        if step is None:
            raise unknown_step(request["StepId"])
        described = step_summary(step)
    more = {
        "ExecutionRoleArn": step.execution_role_arn or None,
        "LogUri": step.log_uri or None,
        "EncryptionKeyArn": step.log_key_arn or None,
    }
    return {"Step": described | present(more)}


@operation("ListSteps")
def list_steps(emr: Emr, call: Call, request: shapes.ListStepsInput) -> shapes.ListStepsOutput:
    """Return a cluster's steps, newest first."""
    states, ids = request.get("StepStates"), request.get("StepIds")
    if states is not None and ids is not None:
        raise invalid_request("Cannot specify both StepIds and StepStates.")
    if ids is not None and len(ids) > MOST_STEP_IDS:
        raise invalid_request(f"The number of step ids cannot exceed {MOST_STEP_IDS}.")
    states = states or list(StepState)
    with emr.store.lock:
        cluster = emr.cluster(request["ClusterId"], account=call.account, region=call.region)
        for step_id in ids or ():
            if emr.store.step(cluster.id, step_id) is None:
                raise unknown_step(step_id)
        step_summaries = [
            step_summary(step)
            for step in reversed(emr.store.steps(cluster.id))
            if step.state in states and (not ids or step.id in ids)
        ]
    shown, marker = page(step_summaries, request.get("Marker"), STEPS_PER_PAGE)
    return present({"Steps": shown, "Marker": marker})


@operation("CancelSteps")
def cancel_steps(
    emr: Emr, call: Call, request: shapes.CancelStepsInput
) -> shapes.CancelStepsOutput:
    """Cancel pending steps at once, and running ones by a signal to all their processes."""
    option = request.get("StepCancellationOption") or "SEND_INTERRUPT"
    if len(request["StepIds"]) > MOST_CANCELLED_STEPS:
        raise invalid_request(f"The number of step ids cannot exceed {MOST_CANCELLED_STEPS}.")
    number = signal.SIGKILL if option == "TERMINATE_PROCESS" else signal.SIGTERM
    with emr.store.lock:
        cluster = emr.cluster(request["ClusterId"], account=call.account, region=call.region)
        steps = [emr.store.step(cluster.id, step_id) for step_id in request["StepIds"]]
        for step_id, step in zip(request["StepIds"], steps, strict=True):
            if step is None:
                raise unknown_step(step_id)
        infos = [_cancel(emr, call, cluster, step, number) for step in steps if step is not None]
    emr.wake(cluster.id)
    return {"CancelStepsInfoList": infos}


def _check_actions(cluster: Cluster, configs: list[shapes.StepConfig]) -> None:
    """Raise AwsError for steps whose failure would end concurrent steps (API_StepConfig, ActionOnFailure)."""
    for config in configs:
        action = config.get("ActionOnFailure") or "CONTINUE"
        if cluster.step_concurrency > 1 and action != "CONTINUE":
            raise validation(
                f"The ActionOnFailure setting {action} is not valid for a cluster that has a "
                "StepConcurrencyLevel greater than 1."
            )


def _cancel(
    emr: Emr, call: Call, cluster: Cluster, step: Step, number: signal.Signals
) -> shapes.CancelStepsInfo:
    match step.state:
        case StepState.PENDING:
            step.ended_ms = call.now_ms
            emr.store.change_step(cluster, step, StepState.CANCELLED, "Job terminated")
        case StepState.RUNNING:
            step.cancel_signal = int(number)
            emr.store.change_step(cluster, step, StepState.CANCEL_PENDING)
        case _:
            return {
                "StepId": step.id,
                "Status": "FAILED",
                "Reason": f"The step is {step.state} and cannot be cancelled.",
            }
    return {"StepId": step.id, "Status": "SUBMITTED"}
