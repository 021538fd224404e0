"""`headrace submit`, against a cloud of its own; the jobs are Python, `spark-submit` is Spark's only where marked."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from headrace.cli.interrupts import StopSignals
from headrace.cli.submit_plan import DriverLogs, JobLogs, follow
from tests.api.emr.conftest import is_running
from tests.support.command import INTERRUPTED, begin
from tests.support.emr import cluster_request
from tests.support.forked_command import run_headrace
from tests.support.server import REGION, ServerProcess, wait_until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("cloud")) as started:
        yield started


def _submit(
    endpoint_url: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    return run_headrace(
        "submit", "--region", REGION, "--endpoint-url", endpoint_url, *arguments,
        environment={**os.environ, **environment},
    )  # fmt: skip


def test_ctrl_c_cancels_the_step_and_leaves_no_process(
    server: ServerProcess, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    job = _job(
        tmp_path,
        f"import os, time\nopen({str(pid_file)!r}, 'w').write(str(os.getpid()))\ntime.sleep(300)\n",
    )
    arguments = ["--region", REGION, "--endpoint-url", server.endpoint_url, job]
    with begin("submit", *arguments) as submitting:
        wait_until(lambda: pid_file.exists() and pid_file.read_text(), within_s=60)
        submitting.send_signal(signal.SIGINT)
        _, printed = submitting.communicate(timeout=60)
    assert submitting.returncode == INTERRUPTED
    assert [line.split()[1] for line in printed.splitlines() if line.startswith("s-")][-1] == (
        "CANCELLED"
    )
    wait_until(lambda: not is_running(pid_file.read_text()))


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
    assert (
        "finished with failed status; the driver said: ValueError: the job is wrong" in done.stderr
    )
    emr = boto3.client(
        "emr",
        endpoint_url=server.endpoint_url,
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    assert len(emr.list_clusters()["Clusters"]) == 1


def test_a_dry_run_names_all_that_a_job_brings(tmp_path: Path) -> None:
    for name in ("a.jar", "b.jar", "prod.ini", "env.tar.gz", "lib.py"):
        (tmp_path / name).write_text(name)
    job = _job(tmp_path, "")

    done = _submit(
        "http://127.0.0.1:9", "--dry-run", "--packages", "g:a:1", "--packages", "g:b:2",
        "--jars", f"{tmp_path}/a.jar,{tmp_path}/b.jar", "--files", f"{tmp_path}/prod.ini#app.ini",
        "--archives", f"{tmp_path}/env.tar.gz#environment", "--py-files", f"{tmp_path}/lib.py", job,
    )  # fmt: skip

    *copies, add = done.stdout.splitlines()
    uris = {uri.rpartition("/")[2]: uri for uri in (shlex.split(copy)[-1] for copy in copies)}
    assert set(uris) == {"job.py", "a.jar", "b.jar", "prod.ini", "env.tar.gz", "lib.py"}
    words = shlex.split(add)
    (step,) = json.loads(words[words.index("--steps") + 1])
    assert step["Args"] == [
        "spark-submit", "--deploy-mode", "cluster", "--packages", "g:a:1,g:b:2", "--py-files", uris["lib.py"],
        "--jars", f"{uris['a.jar']},{uris['b.jar']}", "--files", f"{uris['prod.ini']}#app.ini",
        "--archives", f"{uris['env.tar.gz']}#environment", uris["job.py"],
    ]  # fmt: skip

    done = _submit("http://127.0.0.1:9", "--dry-run", "--files", f"{tmp_path}/none#x", job)
    assert done.returncode == 2
    assert "none' is not a file" in done.stderr


def test_a_dry_run_prints_a_command_that_the_aws_cli_reads(tmp_path: Path) -> None:
    job = _job(tmp_path, "")

    done = _submit("http://127.0.0.1:9", "--dry-run", "--conf", "spark.a=b,c", job, "x y")

    copy, add = done.stdout.splitlines()
    uri = shlex.split(copy)[-1]
    assert shlex.split(copy)[:-1] == ["aws", "s3", "cp", "--region", REGION, job]
    words = shlex.split(add)
    assert words[:3] == ["aws", "emr", "add-steps"]
    (step,) = json.loads(words[words.index("--steps") + 1])
    assert step["Jar"] == "command-runner.jar"
    assert step["Args"][:5] == ["spark-submit", "--deploy-mode", "cluster", "--conf", "spark.a=b,c"]
    assert step["Args"][-1] == "x y"
    assert step["Args"][-2] == uri
    assert uri.startswith("s3://BUCKET/code/")


def test_no_cloud_is_said_in_a_sentence(tmp_path: Path) -> None:
    done = _submit("http://127.0.0.1:9", _job(tmp_path, ""))

    assert done.returncode == 1
    assert "No cloud answers at http://127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_cluster_that_is_not_there_is_named(server: ServerProcess, tmp_path: Path) -> None:
    done = _submit(server.endpoint_url, "--cluster", "j-NONE", _job(tmp_path, ""))

    assert done.returncode == 1
    assert done.stderr == "Error: InvalidRequestException: Cluster id 'j-NONE' is not valid.\n"


@pytest.mark.parametrize("kind", ["--cluster", "--application", "none"])
def test_a_release_that_is_too_old_for_a_job_is_refused_before_it_is_uploaded(
    server: ServerProcess, tmp_path: Path, kind: str
) -> None:
    where: list[str] = []
    if kind == "--cluster":
        made = server.client("emr").run_job_flow(
            **cluster_request(Name="old", ReleaseLabel="emr-7.9.0")
        )
        where = [kind, made["JobFlowId"]]
    elif kind == "--application":
        serverless = server.client("emr-serverless")
        made = serverless.create_application(name="old", releaseLabel="emr-7.9.0", type="SPARK")
        where = ["--serverless", kind, made["applicationId"]]
    needed = "9.0" if kind == "none" else "4.0"
    job = _job(tmp_path, f"NEEDS_SPARK = {needed!r}\n")

    done = _submit(server.endpoint_url, "--bucket", f"for{kind}", *where, job)

    assert done.returncode == 1
    said = f"Error: job.py needs Spark {needed}, and emr-"
    assert done.stderr.startswith(said)
    assert len(done.stderr.splitlines()) == 1
    buckets = server.client("s3").list_buckets()["Buckets"]
    assert f"for{kind}" not in {bucket["Name"] for bucket in buckets}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "--aws needs --bucket"),
        (["--bucket", "mine"], "--aws needs --cluster: making a cluster takes roles"),
        (["--bucket", "mine", "--serverless"], "--aws --serverless needs --application and --role"),
    ],
)
def test_aws_is_told_everything_that_it_has_no_default_for(
    tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    done = _submit("http://127.0.0.1:9", "--aws", *arguments, _job(tmp_path, ""))

    assert done.returncode == 1
    assert sentence in done.stderr


def test_on_aws_the_same_is_done_with_a_bucket_and_a_cluster_of_the_users_own(
    server: ServerProcess, tmp_path: Path
) -> None:
    # What AWS's SDK takes for AWS is this cloud, as its own variable says; nothing else points there.
    environment = {
        "AWS_ENDPOINT_URL": server.endpoint_url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    server.client("s3").create_bucket(Bucket="mine")
    emr = server.client("emr")
    cluster_id = emr.run_job_flow(**cluster_request(LogUri="s3://mine/logs"))["JobFlowId"]
    job = _job(tmp_path, "print('on AWS')\n")

    done = _submit(
        "http://127.0.0.1:9",
        "--aws",
        "--bucket",
        "mine",
        "--cluster",
        cluster_id,
        job,
        **environment,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == "on AWS\n"
    assert f"this talks to {server.endpoint_url}, not to AWS" in done.stderr
    copy = next(line for line in done.stderr.splitlines() if line.startswith("aws s3 cp"))
    assert shlex.split(copy)[-1].startswith("s3://mine/code/")
    names = {bucket["Name"] for bucket in server.client("s3").list_buckets()["Buckets"]}
    assert not [name for name in names - {"mine"} if name != f"headrace-submit-{REGION}"]


def test_a_step_that_names_no_application_has_its_own_logs_shown(
    server: ServerProcess, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    s3, emr = server.client("s3"), server.client("emr")
    s3.create_bucket(Bucket="fallback")
    cluster_id = emr.run_job_flow(**cluster_request(LogUri="s3://fallback/"))["JobFlowId"]
    step = {"Jar": "command-runner.jar", "Args": ["spark-submit", "s3://fallback/none.py"]}
    (step_id,) = emr.add_job_flow_steps(
        JobFlowId=cluster_id,
        Steps=[{"Name": "s", "ActionOnFailure": "CONTINUE", "HadoopJarStep": step}],
    )["StepIds"]
    wait_until(
        lambda: (
            emr.describe_step(ClusterId=cluster_id, StepId=step_id)["Step"]["Status"]["State"]
            == "FAILED"
        )
    )
    logs = DriverLogs(s3, "fallback", f"{cluster_id}/", step_id)
    assert not logs.complete
    logs.show_new(ended=True)
    shown = capsysbinary.readouterr()
    assert b"there is no such object" in shown.err
    assert shown.out == b""
    assert logs.complete


@pytest.mark.parametrize("last", ["CANCELLED", "FAILED"])
def test_a_cancelled_jobs_stderr_is_not_shown_after_ctrl_c(
    server: ServerProcess, capsysbinary: pytest.CaptureFixture[bytes], last: str
) -> None:
    s3 = server.client("s3")
    s3.create_bucket(Bucket="cancelled")
    states = iter(["RUNNING", "CANCEL_PENDING", last])

    def write(name: str, text: bytes) -> None:
        s3.put_object(Bucket="cancelled", Key=f"{name}.gz", Body=gzip.compress(text))

    def cancel() -> None:
        write("stdout", b"rows\n")
        write("stderr", b"a warning\njava.io.EOFException\n")

    write("stderr", b"a warning\n")
    with StopSignals(signal.SIGINT) as asked:

        def state() -> str:
            now = next(states)
            if now == "RUNNING":
                signal.raise_signal(signal.SIGINT)
            return now

        logs = JobLogs(s3, "cancelled", "")
        assert (
            follow("s-1", state, cancel, logs, ended={last}, wait_s=0, asked=asked, cancelling="")
            == last
        )
    shown = capsysbinary.readouterr()
    assert shown.out == b"rows\n"
    assert b"a warning" in shown.err
    # One that failed before it was cancelled says why.
    assert (b"java.io" in shown.err) == (last == "FAILED")


def test_sigterm_ends_the_command_and_not_the_step(capsys: pytest.CaptureFixture[str]) -> None:
    def state() -> str:
        signal.raise_signal(signal.SIGTERM)
        return "RUNNING"

    with StopSignals(signal.SIGINT, signal.SIGTERM) as asked, pytest.raises(SystemExit) as ended:
        follow(
            "s-1", state, lambda: pytest.fail("it is cancelled"), JobLogs(None, "", ""),
            ended={"COMPLETED"}, wait_s=0, asked=asked, cancelling="aws emr cancel-steps",
        )  # fmt: skip
    assert ended.value.code == 143
    assert "s-1 goes on; to cancel it: aws emr cancel-steps" in capsys.readouterr().err
