"""`headrace submit` where the job cannot be run: says so first, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli.commands import headrace
from tests.support.emr import cluster_request
from tests.support.server import REGION, ServerProcess, wait_until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A cloud on a machine without Spark."""
    server = ServerProcess(tmp_path_factory.mktemp("cloud") / "data")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HEADRACE_SPARK_HOME", "/none")
        server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def able(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A cloud that can run Spark jobs."""
    with ServerProcess(tmp_path_factory.mktemp("cloud") / "data") as started:
        yield started


@pytest.fixture
def job(tmp_path: Path) -> str:
    file = tmp_path / "job.py"
    file.write_text("print('hello')\n")
    return str(file)


def submit(endpoint_url: str, *arguments: str) -> tuple[int, str]:
    where = ["--endpoint-url", endpoint_url, "--region", REGION]
    done = CliRunner().invoke(headrace, ["submit", *where, *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def left(server: ServerProcess) -> list[object]:
    """Return everything that a submission makes."""
    return [
        *server.client("s3").list_buckets()["Buckets"],
        *server.client("emr").list_clusters()["Clusters"],
        *server.client("emr-serverless").list_applications()["applications"],
    ]


@pytest.mark.parametrize(
    "options",
    [[], ["--serverless"], ["--bucket", "mine"], ["--cluster", "j-1"],
     ["--serverless", "--application", "a"]],
)  # fmt: skip
def test_a_missing_spark_is_said_before_anything_is_made(
    server: ServerProcess, job: str, options: list[str]
) -> None:
    before = left(server)
    code, said = submit(server.endpoint_url, *options, job)
    assert code == 1
    assert said == (
        f"Error: The cloud at {server.endpoint_url} cannot run Spark jobs. "
        "HEADRACE_SPARK_HOME (/none) has no bin/spark-submit.\n"
    )
    assert left(server) == before


def test_what_can_be_run_is_a_page_too(server: ServerProcess) -> None:
    page = server.page("/_headrace/spark")
    assert page == {"problem": "HEADRACE_SPARK_HOME (/none) has no bin/spark-submit."}


def test_a_spark_on_this_machine_is_not_needed_for_aws(
    server: ServerProcess, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What the SDK takes for AWS is this cloud, which has no Spark: that it is asked to run the step shows that nobody
    # has looked for one here.
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint_url)
    monkeypatch.setenv("HEADRACE_SPARK_HOME", "/none")
    s3, emr = server.client("s3"), server.client("emr")
    s3.create_bucket(Bucket="mine")
    cluster_id = emr.run_job_flow(**cluster_request())["JobFlowId"]
    wait_until(
        lambda: (
            emr.describe_cluster(ClusterId=cluster_id)["Cluster"]["Status"]["State"] == "WAITING"
        )
    )
    code, said = submit(
        "http://127.0.0.1:9", "--aws", "--bucket", "mine", "--cluster", cluster_id, job
    )
    assert code == 1
    assert "has no bin/spark-submit" in said
    assert len(emr.list_steps(ClusterId=cluster_id)["Steps"]) == 1
    emr.terminate_job_flows(JobFlowIds=[cluster_id])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--cluster", "j-NONE"], "InvalidRequestException: Cluster id 'j-NONE' is not valid."),
        (["--serverless", "--application", "0none"], "ResourceNotFoundException: Application 0none"),
        (["--bucket", "NO"], "InvalidBucketName: "),
    ],
)  # fmt: skip
def test_what_is_not_there_is_said_before_anything_is_made(
    able: ServerProcess, job: str, options: list[str], sentence: str
) -> None:
    before = left(able)
    code, said = submit(able.endpoint_url, *options, job)
    assert code == 1
    assert said.startswith(f"Error: {sentence}")
    assert said.count("\n") == 1
    assert left(able) == before


def test_a_cluster_that_has_ended_is_named(able: ServerProcess, job: str) -> None:
    emr = able.client("emr")
    cluster_id = emr.run_job_flow(**cluster_request(kept=False))["JobFlowId"]
    wait_until(
        lambda: (
            emr.describe_cluster(ClusterId=cluster_id)["Cluster"]["Status"]["State"] == "TERMINATED"
        )
    )
    before = left(able)
    code, said = submit(able.endpoint_url, "--cluster", cluster_id, job)
    assert code == 1
    assert (
        said
        == f"Error: The cluster {cluster_id} is TERMINATED, and takes no more steps; name another with --cluster.\n"
    )
    assert left(able) == before
