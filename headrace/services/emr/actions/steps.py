"""Steps: AddJobFlowSteps, DescribeStep, ListSteps, CancelSteps."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import emr as shapes
from headrace.core.values import present
from headrace.services.emr.actions.common import (
    page,
    step_summary,
)
from headrace.services.emr.backend import Emr
from headrace.services.emr.errors import (
    ended_job_flow,
    invalid_request,
    unknown_step,
    validation,
)
from headrace.services.emr.limits import (
    MOST_ACTIVE_STEPS,
    MOST_CANCELLED_STEPS,
    MOST_STEP_IDS,
    STEPS_PER_PAGE,
)
from headrace.services.emr.state import Cluster, Step, StepState


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
