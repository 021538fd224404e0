"""`headrace submit`, against a cloud of its own; the jobs are Python, `spark-submit` is Spark's only where marked."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from tests.support.server import REGION, ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("cloud")) as started:
        yield started


def _submit(endpoint_url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace.cli.main", "submit", "--region", REGION]
    return subprocess.run(
        [*command, "--endpoint-url", endpoint_url, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _job(tmp_path: Path, text: str) -> str:
    path = tmp_path / "job.py"
    path.write_text(text)
    return str(path)


def test_a_job_prints_what_it_prints_and_its_cluster_is_used_again(
    server: ServerProcess, tmp_path: Path
) -> None:
    helper = tmp_path / "helper.py"
    helper.write_text("GREETING = 'hello'\n")
    job = _job(tmp_path, "import sys, helper\nprint(helper.GREETING, *sys.argv[1:])\n")

    done = _submit(server.endpoint_url, "--py-files", str(helper), job, "--conf", "a, b")

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["hello --conf a, b"]
    states = [line.split()[1] for line in done.stderr.splitlines() if line.startswith("s-")]
    assert states[-1] == "COMPLETED"

    failing = _job(tmp_path, "raise ValueError('the job is wrong')\n")
    done = _submit(server.endpoint_url, failing)

    assert done.returncode == 1
    assert "FAILED: ValueError: the job is wrong (s3://" in done.stderr
    emr = boto3.client(
        "emr",
        endpoint_url=server.endpoint_url,
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    assert len(emr.list_clusters()["Clusters"]) == 1


def test_a_dry_run_prints_a_command_that_the_aws_cli_reads(tmp_path: Path) -> None:
    job = _job(tmp_path, "")

    done = _submit("http://127.0.0.1:9", "--dry-run", "--conf", "spark.a=b,c", job, "x y")

    words = shlex.split(done.stdout)
    assert words[:3] == ["aws", "emr", "add-steps"]
    (step,) = json.loads(words[words.index("--steps") + 1])
    assert step["Jar"] == "command-runner.jar"
    assert step["Args"][:5] == ["spark-submit", "--deploy-mode", "cluster", "--conf", "spark.a=b,c"]
    assert step["Args"][-1] == "x y"
    assert step["Args"][-2].endswith("/job.py")


def test_no_cloud_is_said_in_a_sentence(tmp_path: Path) -> None:
    done = _submit("http://127.0.0.1:9", _job(tmp_path, ""))

    assert done.returncode == 1
    assert "No cloud answers at http://127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_cluster_that_is_not_there_is_named(server: ServerProcess, tmp_path: Path) -> None:
    done = _submit(server.endpoint_url, "--cluster", "j-NONE", _job(tmp_path, ""))

    assert done.returncode == 1
    assert "ValidationException: Specified job flow ID does not exist." in done.stderr
