"""Requests about steps that EMR refuses: its codes, its sentences, and nothing changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.emr.conftest import Lab

INVALID, VALIDATION = "InvalidRequestException", "ValidationException"
NO_CLUSTER = "Cluster id 'j-NONE' is not valid."
NO_JOB_FLOW = "Specified job flow ID does not exist."
STEP = Lab.step("true")


def refused(call: Callable[[], Any], code: str, message: str) -> None:
    with pytest.raises(ClientError) as caught:
        call()
    error = caught.value.response
    assert (error["Error"]["Code"], error["Error"]["Message"]) == (code, message)
    assert error["ResponseMetadata"]["HTTPStatusCode"] == 400


@pytest.mark.parametrize(
    ("operation", "parameters", "code", "message"),
    [
        ("describe_step", {"ClusterId": "j-NONE", "StepId": "s-1"}, INVALID, NO_CLUSTER),
        ("list_steps", {"ClusterId": "j-NONE"}, INVALID, NO_CLUSTER),
        ("cancel_steps", {"ClusterId": "j-NONE", "StepIds": ["s-1"]}, INVALID, NO_CLUSTER),
        ("modify_cluster", {"ClusterId": "j-NONE", "StepConcurrencyLevel": 2}, INVALID, NO_CLUSTER),
        ("list_bootstrap_actions", {"ClusterId": "j-NONE"}, INVALID, NO_CLUSTER),
        ("add_job_flow_steps", {"JobFlowId": "j-NONE", "Steps": [STEP]}, VALIDATION, NO_JOB_FLOW),
        ("terminate_job_flows", {"JobFlowIds": ["j-NONE"]}, VALIDATION, NO_JOB_FLOW),
        (
            "terminate_job_flows",
            {"JobFlowIds": []},
            VALIDATION,
            "The JobFlowId list cannot be empty",
        ),
    ],
)
def test_clusters_that_are_not_there(
    lab: Lab, operation: str, parameters: dict[str, Any], code: str, message: str
) -> None:
    refused(lambda: getattr(lab.emr, operation)(**parameters), code, message)


def test_steps_that_are_not_there_are_named_and_nothing_is_cancelled(lab: Lab) -> None:
    cluster_id = lab.cluster(lab.step("sleep", "300"))
    running = lab.steps(cluster_id)[0]["Id"]
    lab.running(cluster_id, running)
    message = "Step id 's-NONE' is not valid."
    refused(
        lambda: lab.emr.list_steps(ClusterId=cluster_id, StepIds=[running, "s-NONE"]),
        INVALID,
        message,
    )
    refused(
        lambda: lab.emr.cancel_steps(ClusterId=cluster_id, StepIds=[running, "s-NONE"]),
        INVALID,
        message,
    )
    assert lab.step_status(cluster_id, running)["State"] == "RUNNING"


def test_another_clusters_step_is_not_there_either(lab: Lab) -> None:
    cluster_id, other = lab.cluster(), lab.cluster(lab.step("true"))
    step_id = lab.steps(other)[0]["Id"]
    refused(
        lambda: lab.step_status(cluster_id, step_id), INVALID, f"Step id '{step_id}' is not valid."
    )


def test_steps_are_listed_by_id_or_by_state(lab: Lab) -> None:
    cluster_id = lab.cluster()
    refused(
        lambda: lab.emr.list_steps(ClusterId=cluster_id, StepIds=["s-1"], StepStates=["RUNNING"]),
        INVALID,
        "Cannot specify both StepIds and StepStates.",
    )


def test_no_more_than_256_steps_are_cancelled_at_a_time(lab: Lab) -> None:
    cluster_id = lab.cluster()
    refused(
        lambda: lab.emr.cancel_steps(ClusterId=cluster_id, StepIds=["s-1"] * 257),
        INVALID,
        "The number of step ids cannot exceed 256.",
    )


def test_an_ended_cluster_takes_no_steps(lab: Lab) -> None:
    cluster_id = lab.cluster()
    lab.emr.terminate_job_flows(JobFlowIds=[cluster_id])
    lab.until(cluster_id, "TERMINATED")
    refused(
        lambda: lab.add(cluster_id, STEP),
        VALIDATION,
        "A job flow that is shutting down, terminated, or finished may not be modified.",
    )


def test_the_257th_active_step_is_refused_and_ended_ones_do_not_count(lab: Lab) -> None:
    cluster_id = lab.cluster(lab.step("true"))
    lab.ended(cluster_id, lab.steps(cluster_id)[0]["Id"])
    lab.add(cluster_id, lab.step("sleep", "300"), *[STEP] * 255)
    refused(
        lambda: lab.add(cluster_id, STEP),
        VALIDATION,
        "Maximum number of active steps(State = 'Running', 'Pending' or 'Cancel_Pending') "
        "for cluster exceeded.",
    )


@pytest.mark.parametrize("level", [0, -1, 257])
def test_a_concurrency_has_bounds_wherever_it_is_set(lab: Lab, level: int) -> None:
    message = "The step concurrency level must be between 1 and 256."
    cluster_id = lab.cluster()
    refused(
        lambda: lab.emr.modify_cluster(ClusterId=cluster_id, StepConcurrencyLevel=level),
        INVALID,
        message,
    )
    refused(lambda: lab.cluster(StepConcurrencyLevel=level), VALIDATION, message)


@pytest.mark.parametrize("action", ["CANCEL_AND_WAIT", "TERMINATE_CLUSTER", "TERMINATE_JOB_FLOW"])
def test_where_steps_run_side_by_side_a_step_may_only_continue(lab: Lab, action: str) -> None:
    cluster_id = lab.cluster(StepConcurrencyLevel=2)
    with pytest.raises(ClientError, match=f"ActionOnFailure setting {action} is not valid"):
        lab.add(cluster_id, STEP, lab.step("true", on_failure=action))
    assert lab.steps(cluster_id) == []


def test_a_concurrency_that_was_raised_meanwhile_takes_the_action_away(lab: Lab) -> None:
    cluster_id = lab.cluster(
        lab.step("sleep", "300"), lab.step("false", on_failure="TERMINATE_CLUSTER")
    )
    first, failing = (step["Id"] for step in lab.steps(cluster_id))
    lab.running(cluster_id, first)
    lab.emr.modify_cluster(ClusterId=cluster_id, StepConcurrencyLevel=2)
    assert lab.ended(cluster_id, failing)["State"] == "FAILED"
    assert lab.step_status(cluster_id, first)["State"] == "RUNNING"
    assert lab.status(cluster_id)["State"] == "RUNNING"


@pytest.mark.parametrize(
    "step",
    [
        {"Name": "x", "HadoopJarStep": {}},
        {"Name": "x"},
        {"HadoopJarStep": {"Jar": "command-runner.jar"}},
        {"Name": "x", "HadoopJarStep": {"Jar": "j"}, "ActionOnFailure": "SHRUG"},
    ],
)
def test_a_malformed_step_is_refused_with_all_steps_beside_it(
    lab: Lab, step: dict[str, Any]
) -> None:
    cluster_id = lab.cluster()
    with pytest.raises(ClientError) as caught:
        lab.add(cluster_id, STEP, step)
    assert caught.value.response["Error"]["Code"] == VALIDATION
    assert "failed to satisfy constraint" in caught.value.response["Error"]["Message"]
    assert lab.steps(cluster_id) == []
