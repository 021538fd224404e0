"""kill -9 the cloud while a job runs, or stop it: the job run is never lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.api.emr.conftest import is_running
from tests.api.emr_serverless.conftest import BUCKET, Lab
from tests.support.server import ServerProcess, wait_until

pytestmark = pytest.mark.crash


def begin(server: ServerProcess, script: str) -> tuple[str, str, Path]:
    """Start a job run; return its ids and its attempt's folder when it has printed something."""
    lab = lab_of(server)
    lab.s3.create_bucket(Bucket=BUCKET)
    made = lab.application()
    run_id = lab.start(made, script)
    folder = server.data_dir / "emr-serverless" / made / run_id / "1"
    wait_until(lambda: (folder / "stdout").exists() and (folder / "stdout").read_text())
    lab.until(made, run_id, "RUNNING")
    return made, run_id, folder


def lab_of(server: ServerProcess) -> Lab:
    return Lab(server.client("emr-serverless"), server.client("s3"))


def test_a_job_that_still_runs_is_taken_over(tmp_path: Path, spark_home: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        made, run_id, _ = begin(
            server, f"echo begun; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo done"
        )
        server.kill9()
        server.start()
        lab = lab_of(server)
        assert lab.run(made, run_id)["state"] == "RUNNING"
        (tmp_path / "go").touch()
        run = lab.ended(made, run_id)
        assert (run["state"], run["attempt"]) == ("SUCCESS", 1)
        assert lab.log(made, run_id, "stdout") == "begun\ndone\n"


def test_a_job_that_was_killed_meanwhile_failed_for_a_reason(
    tmp_path: Path, spark_home: Path
) -> None:
    with ServerProcess(tmp_path / "data") as server:
        made, run_id, folder = begin(server, "echo $$; sleep 300")
        server.kill9()
        os.kill(int((folder / "pid").read_text()), signal.SIGKILL)
        server.start()
        run = lab_of(server).ended(made, run_id)
        assert run["state"] == "FAILED"
        assert "while the local cloud was not running" in run["stateDetails"]
        assert not is_running((folder / "stdout").read_text())


def test_stopping_the_cloud_leaves_no_process_and_a_reason(
    tmp_path: Path, spark_home: Path
) -> None:
    with ServerProcess(tmp_path / "data") as server:
        made, run_id, folder = begin(server, "echo $$; sleep 300")
        server.stop()
        assert not is_running((folder / "stdout").read_text())
        server.start()
        run = lab_of(server).run(made, run_id)
        assert run["state"] == "FAILED"
        assert "The local cloud was stopped" in run["stateDetails"]
