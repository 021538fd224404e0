"""kill -9 the cloud while steps run: none is lost. One cloud, killed once, has the steps of all tests."""

from __future__ import annotations

import gzip
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.api.emr.conftest import ENDED, is_running
from tests.support.emr import cluster_request
from tests.support.server import ServerProcess, wait_until
from tests.support.spark_home import make_spark_home

pytestmark = pytest.mark.crash


# What runs while the cloud is killed; {go} is the file that ends it.
UNTIL_GO = "until [ -e {go} ]; do sleep 0.05; done"
SCRIPTS = {
    "runs on": f"echo begun; {UNTIL_GO}; exit 3",
    "ends": f"echo begun; {UNTIL_GO}",
    "dies": "echo $$; sleep 300",
    "is cancelled": "sleep 300 & echo $!; wait",
    "leaves a daemon": f"setsid sleep 300 < /dev/null > /dev/null 2>&1 & echo $!; {UNTIL_GO}",
}


@dataclass(frozen=True)
class Step:
    """A step of a cluster of its own.

    Attributes:
        folder: where its output is.
        go: the file that ends it.
        said: what its client had printed when the cloud was killed; of a step in cluster mode.
    """

    server: ServerProcess
    cluster_id: str
    id: str
    folder: Path
    go: Path
    said: str = ""

    def status(self) -> dict[str, Any]:
        emr = self.server.client("emr")
        return emr.describe_step(ClusterId=self.cluster_id, StepId=self.id)["Step"]["Status"]

    def ended(self) -> dict[str, Any]:
        """Wait for its end; return its last status."""

        def last() -> dict[str, Any] | None:
            found = self.status()
            return found if found["State"] in ENDED else None

        return wait_until(last)

    def printed(self) -> str:
        return (self.folder / "stdout").read_text()


def begin(server: ServerProcess, go: Path, *commands: list[str], **more: Any) -> Step:
    """Start a cluster with a step for each command; return the first one when it runs."""
    emr = server.client("emr")
    steps = [
        {
            "Name": "s",
            "ActionOnFailure": "CONTINUE",
            "HadoopJarStep": {"Jar": "command-runner.jar", "Args": command},
        }
        for command in commands
    ]
    cluster_id = emr.run_job_flow(**cluster_request(**more))["JobFlowId"]
    step_id = emr.add_job_flow_steps(JobFlowId=cluster_id, Steps=steps)["StepIds"][0]
    folder = server.data_dir / "emr" / cluster_id / step_id
    wait_until(lambda: (folder / "stdout").exists() and (folder / "stdout").read_text())
    client = folder / "client" / "stderr"
    return Step(
        server, cluster_id, step_id, folder, go, client.read_text() if client.exists() else ""
    )


def begin_driver(server: ServerProcess, go: Path) -> Step:
    """Start a step in cluster mode."""
    s3 = server.client("s3")
    s3.create_bucket(Bucket="logs")
    script = f"echo begun; {UNTIL_GO.format(go=go)}; echo done"
    s3.put_object(Bucket="logs", Key="job.sh", Body=script.encode())
    submit = ["spark-submit", "--deploy-mode", "cluster", "s3://logs/job.sh"]
    return begin(server, go, submit, LogUri="s3://logs/")


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Step]]:
    """The steps of a cloud that was killed and has started again."""
    folder = tmp_path_factory.mktemp("killed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADRACE_SPARK_HOME", str(make_spark_home(folder / "spark")))
        with ServerProcess(folder / "data") as server:
            begun: dict[str, Step] = {}
            for number, (name, script) in enumerate(SCRIPTS.items()):
                go = folder / f"go-{number}"
                bash = ["bash", "-c", script.format(go=go)]
                begun[name] = begin(server, go, bash, ["true"])
            begun["driver"] = begin_driver(server, folder / "go-driver")
            server.kill9()
            for name in ("ends", "leaves a daemon"):
                begun[name].go.touch()
                wait_until((begun[name].folder / "exit_code").exists)
            assert is_running(begun["leaves a daemon"].printed())
            pid = (begun["dies"].folder / "pid").read_text()
            os.killpg(int(pid), signal.SIGKILL)
            wait_until(lambda: not is_running(pid))
            server.start()
            yield begun


def test_a_step_that_still_runs_is_taken_over(steps: dict[str, Step]) -> None:
    step = steps["runs on"]
    assert step.status()["State"] == "RUNNING"
    step.go.touch()
    status = step.ended()
    assert status["State"] == "FAILED"
    assert "exit code 3" in status["FailureDetails"]["Message"]
    listed = step.server.client("emr").list_steps
    wait_until(
        lambda: (
            [s["Status"]["State"] for s in listed(ClusterId=step.cluster_id)["Steps"]]
            == ["COMPLETED", "FAILED"]
        )
    )


def test_a_step_that_ended_meanwhile_has_its_exit_code(steps: dict[str, Step]) -> None:
    assert steps["ends"].ended()["State"] == "COMPLETED"


def test_a_step_that_died_meanwhile_failed_and_says_so(steps: dict[str, Step]) -> None:
    status = steps["dies"].ended()
    assert status["State"] == "FAILED"
    assert "ended without an exit code" in status["FailureDetails"]["Message"]


def test_a_step_that_was_taken_over_can_be_cancelled(steps: dict[str, Step]) -> None:
    step = steps["is cancelled"]
    step.server.client("emr").cancel_steps(ClusterId=step.cluster_id, StepIds=[step.id])
    assert step.ended()["State"] == "CANCELLED"
    assert not is_running(step.printed())


def test_a_daemon_of_a_step_that_ended_while_the_cloud_was_gone_ends_with_the_next_cloud(
    steps: dict[str, Step],
) -> None:
    step = steps["leaves a daemon"]
    assert step.ended()["State"] == "COMPLETED"
    wait_until(lambda: not is_running(step.printed()))


def test_a_driver_in_cluster_mode_is_taken_over_with_its_application(
    steps: dict[str, Step],
) -> None:
    step = steps["driver"]
    step.go.touch()
    assert step.ended()["State"] == "COMPLETED"

    def log(key: str) -> str:
        key = f"{step.cluster_id}/{key}"
        body = step.server.client("s3").get_object(Bucket="logs", Key=key)["Body"]
        return gzip.decompress(body.read()).decode()

    report = log(f"steps/{step.id}/stderr.gz")
    assert report.startswith(step.said)
    assert report.count("final status: SUCCEEDED") == 1
    (name,) = set(re.findall(r"application_\d+_\d+", report))
    container = name.replace("application", "container")
    assert log(f"containers/{name}/{container}_01_000001/stdout.gz") == "begun\ndone\n"
