"""A cloud in process, and steps that take milliseconds: any command will do for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cloud import InProcessCloud
from tests.support.emr import cluster_request, is_configured
from tests.support.server import wait_until

ENDED = {"COMPLETED", "CANCELLED", "FAILED"}
LOGS = "logs"


def is_running(pid: str) -> bool:
    """Whether a process runs; one that has ended and only awaits its parent does not."""
    try:
        return Path(f"/proc/{pid.strip()}/cmdline").read_bytes() != b""
    except OSError:
        return False


class Lab:
    """An EMR client, and what tests do with it over and over."""

    def __init__(self, cloud: InProcessCloud) -> None:
        self.cloud = cloud
        self.emr = cloud.client("emr")
        self.s3 = cloud.client("s3")

    @staticmethod
    def step(*args: str, on_failure: str = "CONTINUE", jar: str = "command-runner.jar") -> Any:
        return {
            "Name": "a step",
            "ActionOnFailure": on_failure,
            "HadoopJarStep": {"Jar": jar, "Args": list(args)},
        }

    def cluster(self, *steps: Any, keep_alive: bool = True, **more: Any) -> str:
        request = cluster_request(kept=keep_alive, Name="a cluster", Steps=list(steps))
        given = more.pop("Instances", {})
        if is_configured(given):
            del request["Instances"]["InstanceGroups"]
        request["Instances"] |= given
        answer = self.emr.run_job_flow(**request | more)
        return str(answer["JobFlowId"])

    def add(self, cluster_id: str, *steps: Any) -> list[str]:
        return self.emr.add_job_flow_steps(JobFlowId=cluster_id, Steps=list(steps))["StepIds"]

    def status(self, cluster_id: str) -> Any:
        return self.emr.describe_cluster(ClusterId=cluster_id)["Cluster"]["Status"]

    def step_status(self, cluster_id: str, step_id: str) -> Any:
        return self.emr.describe_step(ClusterId=cluster_id, StepId=step_id)["Step"]["Status"]

    def steps(self, cluster_id: str) -> list[Any]:
        """Return the steps, oldest first."""
        return list(reversed(self.emr.list_steps(ClusterId=cluster_id)["Steps"]))

    def ended(self, cluster_id: str, step_id: str) -> Any:
        """Wait until a step has ended; return its status."""
        return wait_until(
            lambda: (
                status
                if (status := self.step_status(cluster_id, step_id))["State"] in ENDED
                else None
            ),
            what=f"the end of {step_id}",
        )

    def until(self, cluster_id: str, state: str) -> Any:
        """Wait until the cluster is in a state; return its status."""
        return wait_until(
            lambda: status if (status := self.status(cluster_id))["State"] == state else None,
            what=f"{cluster_id} {state}",
        )

    def running(self, cluster_id: str, step_id: str) -> None:
        """Wait until a step runs."""
        wait_until(lambda: self.step_status(cluster_id, step_id)["State"] == "RUNNING")

    def begun(self, cluster_id: str, step_id: str) -> None:
        """Wait until a step has its folder, and its process runs in it."""
        folder = self.cloud.cloud.config.data_dir / "emr" / cluster_id / step_id
        wait_until((folder / "pid").exists, what=f"the process of {step_id}")


@pytest.fixture
def lab(data_dir: Path) -> Iterator[Lab]:
    with InProcessCloud(data_dir) as cloud:
        lab = Lab(cloud)
        lab.s3.create_bucket(Bucket=LOGS)
        yield lab
