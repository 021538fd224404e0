"""EMR steps: they run, and a step that fails is not called COMPLETED."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.clouds import CloudUnderTest

ENDED = {"COMPLETED", "FAILED", "CANCELLED", "INTERRUPTED"}


@pytest.fixture(scope="module")
def cluster(cloud: CloudUnderTest) -> str:
    """A cluster that waits for steps."""
    emr = cloud.client("emr")
    settings: dict[str, Any] = {
        "MasterInstanceType": "m5.xlarge", "InstanceCount": 1, "KeepJobFlowAliveWhenNoSteps": True,
    }  # fmt: skip
    answer = emr.run_job_flow(
        Name=cloud.name("cluster"), ReleaseLabel="emr-spark-8.0.0", Instances=settings,
        JobFlowRole="EMR_EC2_DefaultRole", ServiceRole="EMR_DefaultRole",
        Applications=[{"Name": "Spark"}],
    )  # fmt: skip
    cluster_id = str(answer["JobFlowId"])
    cloud.at_end(lambda: emr.terminate_job_flows(JobFlowIds=[cluster_id]))
    return cluster_id


def state_of(cloud: CloudUnderTest, cluster: str, *arguments: str) -> str:
    """Run a step to its end; return its state."""
    emr = cloud.client("emr")
    step = {
        "Name": "step", "ActionOnFailure": "CONTINUE",
        "HadoopJarStep": {"Jar": "command-runner.jar", "Args": list(arguments)},
    }  # fmt: skip
    (step_id,) = emr.add_job_flow_steps(JobFlowId=cluster, Steps=[step])["StepIds"]

    def ended() -> str | None:
        status = emr.describe_step(ClusterId=cluster, StepId=step_id)["Step"]["Status"]
        return status["State"] if status["State"] in ENDED else None

    # A cluster of AWS takes minutes to start.
    within_s = 900.0 if cloud.target.is_aws else None
    return str(cloud.until(ended, f"the end of step {step_id}", within_s))


def test_a_step_that_succeeds_is_completed(cloud: CloudUnderTest, cluster: str) -> None:
    assert state_of(cloud, cluster, "bash", "-c", "exit 0") == "COMPLETED"


def test_a_step_that_fails_is_failed(cloud: CloudUnderTest, cluster: str) -> None:
    assert state_of(cloud, cluster, "bash", "-c", "exit 3") == "FAILED"
