"""kill -9 the cloud while a step runs: the step is never lost."""

from __future__ import annotations

import gzip
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.api.emr.conftest import ENDED, is_running
from tests.support.emr import cluster_request
from tests.support.server import ServerProcess, wait_until
from tests.support.spark_home import make_spark_home

pytestmark = pytest.mark.crash


def begin(server: ServerProcess, script: str) -> tuple[str, str, Path]:
    """Start a cluster with one step and one behind it; return their ids and folder when it runs."""
    emr = server.client("emr")
    cluster_id = emr.run_job_flow(**cluster_request())["JobFlowId"]
    steps = [
        {
            "Name": "s",
            "ActionOnFailure": "CONTINUE",
            "HadoopJarStep": {"Jar": "command-runner.jar", "Args": ["bash", "-c", text]},
        }
        for text in (script, "true")
    ]
    step_id = emr.add_job_flow_steps(JobFlowId=cluster_id, Steps=steps)["StepIds"][0]
    folder = server.data_dir / "emr" / cluster_id / step_id
    wait_until(lambda: (folder / "stdout").exists() and (folder / "stdout").read_text())
    return cluster_id, step_id, folder


def ended(server: ServerProcess, cluster_id: str, step_id: str) -> Callable[[], Any]:
    emr = server.client("emr")

    def status() -> Any:
        found = emr.describe_step(ClusterId=cluster_id, StepId=step_id)["Step"]["Status"]
        return found if found["State"] in ENDED else None

    return status


def test_a_step_that_still_runs_is_taken_over(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        script = f"echo begun; until [ -e {tmp_path}/go ]; do sleep 0.05; done; exit 3"
        cluster_id, step_id, _ = begin(server, script)
        server.kill9()
        server.start()
        emr = server.client("emr")
        found = emr.describe_step(ClusterId=cluster_id, StepId=step_id)["Step"]["Status"]
        assert found["State"] == "RUNNING"
        (tmp_path / "go").touch()
        status = wait_until(ended(server, cluster_id, step_id))
        assert status["State"] == "FAILED"
        assert "exit code 3" in status["FailureDetails"]["Message"]
        wait_until(
            lambda: (
                [s["Status"]["State"] for s in emr.list_steps(ClusterId=cluster_id)["Steps"]]
                == ["COMPLETED", "FAILED"]
            )
        )


def test_a_step_that_ended_meanwhile_has_its_exit_code(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        script = f"echo begun; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
        cluster_id, step_id, folder = begin(server, script)
        server.kill9()
        (tmp_path / "go").touch()
        wait_until((folder / "exit_code").exists)
        server.start()
        assert wait_until(ended(server, cluster_id, step_id))["State"] == "COMPLETED"


def test_a_step_that_died_meanwhile_failed_and_says_so(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        cluster_id, step_id, folder = begin(server, "echo $$; sleep 300")
        server.kill9()
        pid = (folder / "pid").read_text()
        os.killpg(int(pid), signal.SIGKILL)
        wait_until(lambda: not is_running(pid))
        server.start()
        status = wait_until(ended(server, cluster_id, step_id))
        assert status["State"] == "FAILED"
        assert "ended without an exit code" in status["FailureDetails"]["Message"]


def test_a_step_that_was_taken_over_can_be_cancelled(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        cluster_id, step_id, folder = begin(server, "sleep 300 & echo $!; wait")
        server.kill9()
        server.start()
        server.client("emr").cancel_steps(ClusterId=cluster_id, StepIds=[step_id])
        assert wait_until(ended(server, cluster_id, step_id))["State"] == "CANCELLED"
        assert not is_running((folder / "stdout").read_text())


def test_a_daemon_of_a_step_that_ended_while_the_cloud_was_gone_ends_with_the_next_cloud(
    tmp_path: Path,
) -> None:
    with ServerProcess(tmp_path / "data") as server:
        script = (
            "setsid sleep 300 < /dev/null > /dev/null 2>&1 & echo $!; "
            f"until [ -e {tmp_path}/go ]; do sleep 0.05; done"
        )
        cluster_id, step_id, folder = begin(server, script)
        server.kill9()
        (tmp_path / "go").touch()
        wait_until((folder / "exit_code").exists)
        daemon = (folder / "stdout").read_text()
        assert is_running(daemon)
        server.start()
        assert wait_until(ended(server, cluster_id, step_id))["State"] == "COMPLETED"
        wait_until(lambda: not is_running(daemon))


def test_a_driver_in_cluster_mode_is_taken_over_with_its_application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_SPARK_HOME", str(make_spark_home(tmp_path / "spark")))
    with ServerProcess(tmp_path / "data") as server:
        s3, emr = server.client("s3"), server.client("emr")
        s3.create_bucket(Bucket="logs")
        script = f"echo begun; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo done"
        s3.put_object(Bucket="logs", Key="job.sh", Body=script.encode())
        step = {
            "Jar": "command-runner.jar",
            "Args": ["spark-submit", "--deploy-mode", "cluster", "s3://logs/job.sh"],
        }
        cluster_id = emr.run_job_flow(
            **cluster_request(
                LogUri="s3://logs/",
                Steps=[{"Name": "s", "ActionOnFailure": "CONTINUE", "HadoopJarStep": step}],
            )
        )["JobFlowId"]
        step_id = emr.list_steps(ClusterId=cluster_id)["Steps"][0]["Id"]
        folder = server.data_dir / "emr" / cluster_id / step_id
        wait_until(lambda: (folder / "stdout").exists() and (folder / "stdout").read_text())
        begun = (folder / "client" / "stderr").read_text()
        server.kill9()
        server.start()
        (tmp_path / "go").touch()
        assert wait_until(ended(server, cluster_id, step_id))["State"] == "COMPLETED"

        def log(key: str) -> str:
            body = server.client("s3").get_object(Bucket="logs", Key=f"{cluster_id}/{key}")["Body"]
            return gzip.decompress(body.read()).decode()

        report = log(f"steps/{step_id}/stderr.gz")
        assert report.startswith(begun)
        assert report.count("final status: SUCCEEDED") == 1
        (name,) = set(re.findall(r"application_\d+_\d+", report))
        container = name.replace("application", "container")
        assert log(f"containers/{name}/{container}_01_000001/stdout.gz") == "begun\ndone\n"
