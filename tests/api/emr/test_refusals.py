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


def test_clusters_that_are_not_there(lab: Lab) -> None:
    emr = lab.emr
    newer = {"ClusterId": "j-NONE"}
    refused(lambda: emr.describe_step(**newer, StepId="s-1"), INVALID, NO_CLUSTER)
    refused(lambda: emr.list_steps(**newer), INVALID, NO_CLUSTER)
    refused(lambda: emr.cancel_steps(**newer, StepIds=["s-1"]), INVALID, NO_CLUSTER)
    refused(lambda: emr.modify_cluster(**newer, StepConcurrencyLevel=2), INVALID, NO_CLUSTER)
    refused(lambda: emr.list_bootstrap_actions(**newer), INVALID, NO_CLUSTER)
    refused(lambda: lab.add("j-NONE", STEP), VALIDATION, NO_JOB_FLOW)
    terminate = emr.terminate_job_flows
    refused(lambda: terminate(JobFlowIds=["j-NONE"]), VALIDATION, NO_JOB_FLOW)
    refused(lambda: terminate(JobFlowIds=[]), VALIDATION, "The JobFlowId list cannot be empty")


def test_an_ended_cluster_takes_tags_and_no_other_setting(lab: Lab) -> None:
    emr, ended = lab.emr, lab.cluster()
    emr.terminate_job_flows(JobFlowIds=[ended])
    lab.until(ended, "TERMINATED")
    message = "A job flow that is shutting down, terminated, or finished may not be modified."
    one, many = {"ClusterId": ended}, {"JobFlowIds": [ended]}
    limits = {"UnitType": "Instances", "MinimumCapacityUnits": 1, "MaximumCapacityUnits": 2}
    newer = (
        lambda: emr.modify_cluster(**one, StepConcurrencyLevel=2),
        lambda: emr.put_managed_scaling_policy(
            **one, ManagedScalingPolicy={"ComputeLimits": limits}
        ),
        lambda: emr.remove_managed_scaling_policy(**one),
        lambda: emr.put_auto_termination_policy(**one, AutoTerminationPolicy={"IdleTimeout": 60}),
    )
    older = (
        lambda: emr.set_termination_protection(**many, TerminationProtected=True),
        lambda: emr.set_visible_to_all_users(**many, VisibleToAllUsers=True),
    )
    for call in newer:
        refused(call, INVALID, message)
    for call in older:
        refused(call, VALIDATION, message)
    emr.add_tags(ResourceId=ended, Tags=[{"Key": "a", "Value": "b"}])


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


def test_a_concurrency_has_bounds_wherever_it_is_set(lab: Lab) -> None:
    message = "Invalid step concurrency level. Allowed level is from 1 to 256"
    modify, cluster_id = lab.emr.modify_cluster, lab.cluster()
    for level in (0, -1, 257):
        where = {"ClusterId": cluster_id, "StepConcurrencyLevel": level}
        refused(lambda where=where: modify(**where), INVALID, message)
        refused(lambda level=level: lab.cluster(StepConcurrencyLevel=level), VALIDATION, message)


def test_where_steps_run_side_by_side_a_step_may_only_continue(lab: Lab) -> None:
    cluster_id = lab.cluster(StepConcurrencyLevel=2)
    for action in ("CANCEL_AND_WAIT", "TERMINATE_CLUSTER", "TERMINATE_JOB_FLOW"):
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


def test_a_malformed_step_is_refused_with_all_steps_beside_it(lab: Lab) -> None:
    cluster_id = lab.cluster()
    for step in (
        {"Name": "x", "HadoopJarStep": {}},
        {"Name": "x"},
        {"HadoopJarStep": {"Jar": "command-runner.jar"}},
        {"Name": "x", "HadoopJarStep": {"Jar": "j"}, "ActionOnFailure": "SHRUG"},
    ):
        with pytest.raises(ClientError) as caught:
            lab.add(cluster_id, STEP, step)
        assert caught.value.response["Error"]["Code"] == VALIDATION
        assert "failed to satisfy constraint" in caught.value.response["Error"]["Message"]
    assert lab.steps(cluster_id) == []
