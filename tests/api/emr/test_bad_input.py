"""Steps that misbehave: the right state, a sentence, whole logs, and no process left."""

from __future__ import annotations

import gzip
import itertools
import re
from pathlib import Path

import pytest

from tests.api.emr.conftest import ENDED, LOGS, Lab, is_running
from tests.support.emr import cluster_request
from tests.support.server import ServerProcess, wait_until
from tests.support.spark_home import make_spark_home

PRINTED_BYTES = 8 * 1024 * 1024
LONG_BYTES = 64 * 1024 * 1024
# What the cloud's memory may grow by while it handles 128 MiB of logs.
MOST_GROWTH_KB = 24 * 1024


def test_a_step_that_prints_megabytes_keeps_every_byte_and_its_reason(
    lab: Lab, data_dir: Path
) -> None:
    cluster_id = lab.cluster(LogUri=f"s3://{LOGS}/")
    script = (
        f"echo $$ >&2; head -c {PRINTED_BYTES} /dev/zero | tr '\\0' x; "
        f"head -c {PRINTED_BYTES} /dev/zero | tr '\\0' y >&2; echo >&2; echo ValueError: full >&2; exit 3"
    )
    (step_id,) = lab.add(cluster_id, lab.step("bash", "-c", script))
    status = lab.ended(cluster_id, step_id)
    assert status["State"] == "FAILED"
    assert status["FailureDetails"]["Message"] == "ValueError: full"
    body = lab.s3.get_object(Bucket=LOGS, Key=f"{cluster_id}/steps/{step_id}/stdout.gz")["Body"]
    assert len(gzip.decompress(body.read())) == PRINTED_BYTES
    with (data_dir / "emr" / cluster_id / step_id / "stderr").open() as stderr:
        assert not is_running(stderr.readline())


def test_a_step_without_line_breaks_fails_in_a_short_sentence(lab: Lab) -> None:
    cluster_id = lab.cluster()
    script = f"head -c {PRINTED_BYTES} /dev/zero | tr '\\0' x >&2; exit 1"
    (step_id,) = lab.add(cluster_id, lab.step("bash", "-c", script))
    status = lab.ended(cluster_id, step_id)
    assert status["State"] == "FAILED"
    assert 0 < len(status["FailureDetails"]["Message"]) <= 1024


def test_a_step_that_hangs_is_cancelled_with_its_grandchildren_and_the_next_one_runs(
    lab: Lab, data_dir: Path
) -> None:
    cluster_id = lab.cluster()
    # A grandchild in a process group of its own, which a signal to the step's group would miss.
    script = "set -m; (sleep 300 & echo $!; wait) & wait"
    hanging, following = lab.add(cluster_id, lab.step("bash", "-c", script), lab.step("true"))
    stdout = data_dir / "emr" / cluster_id / hanging / "stdout"
    wait_until(lambda: stdout.exists() and stdout.read_text())
    lab.emr.cancel_steps(
        ClusterId=cluster_id, StepIds=[hanging], StepCancellationOption="TERMINATE_PROCESS"
    )
    assert lab.ended(cluster_id, hanging)["State"] == "CANCELLED"
    assert not is_running(stdout.read_text())
    assert lab.ended(cluster_id, following)["State"] == "COMPLETED"


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("s3://no-such-bucket/job.py", "there is no bucket no-such-bucket"),
        ("s3://logs/no-such-key.py", "there is no such object"),
        ("s3://logs/", "does not name an object"),
        ("s3://", "does not name an object"),
    ],
)
@pytest.mark.parametrize(
    ("jar", "before"), [("command-runner.jar", ["spark-submit"]), ("script-runner.jar", [])]
)
def test_an_unreadable_uri_fails_the_step_before_anything_starts(
    lab: Lab, data_dir: Path, uri: str, message: str, jar: str, before: list[str]
) -> None:
    cluster_id = lab.cluster(LogUri=f"s3://{LOGS}/")
    (step_id,) = lab.add(cluster_id, lab.step(*before, uri, jar=jar))
    status = lab.ended(cluster_id, step_id)
    assert status["State"] == "FAILED"
    assert message in status["FailureDetails"]["Message"]
    log = lab.s3.get_object(Bucket=LOGS, Key=f"{cluster_id}/steps/{step_id}/stderr.gz")["Body"]
    assert message in gzip.decompress(log.read()).decode()
    assert not (data_dir / "emr" / cluster_id / step_id / "pid").exists()


# --- what prints without end --------------------------------------------------------------------


def _peak_memory_kb(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", text)
    assert found is not None
    return int(found[1])


def _unpacked_bytes(path: Path) -> int:
    with gzip.open(path) as log:
        count = 0
        while piece := log.read(1 << 20):
            count += len(piece)
    return count


def test_128_mib_of_logs_are_whole_in_the_log_uri_and_the_clouds_memory_stays_flat(
    tmp_path: Path,
) -> None:
    with ServerProcess(tmp_path / "data") as server:
        server.client("s3").create_bucket(Bucket=LOGS)
        emr = server.client("emr")

        def run(script: str) -> str:
            step = {"Jar": "command-runner.jar", "Args": ["bash", "-c", script]}
            (step_id,) = emr.add_job_flow_steps(
                JobFlowId=cluster_id,
                Steps=[{"Name": "s", "ActionOnFailure": "CONTINUE", "HadoopJarStep": step}],
            )["StepIds"]
            state = wait_until(
                lambda: (
                    found
                    if (
                        found := emr.describe_step(ClusterId=cluster_id, StepId=step_id)["Step"][
                            "Status"
                        ]["State"]
                    )
                    in ENDED
                    else None
                ),
                within_s=60,
            )
            assert state == "COMPLETED"
            return step_id

        cluster_id = emr.run_job_flow(**cluster_request(LogUri=f"s3://{LOGS}/"))["JobFlowId"]
        run("true")
        before_kb = _peak_memory_kb(server.pid)
        step_id = run(f"yes a line | head -c {LONG_BYTES}; yes error | head -c {LONG_BYTES} >&2")
        assert _peak_memory_kb(server.pid) - before_kb < MOST_GROWTH_KB
        logs = server.data_dir / "s3" / LOGS / cluster_id / "steps" / step_id
        assert _unpacked_bytes(logs / "stdout.gz") == LONG_BYTES
        assert _unpacked_bytes(logs / "stderr.gz") == LONG_BYTES


# --- what leaves its session --------------------------------------------------------------------

DAEMON = "setsid sleep 300 < /dev/null > /dev/null 2>&1 & echo $!"


def test_a_daemon_ends_with_its_step(lab: Lab, data_dir: Path) -> None:
    lab.s3.put_object(Bucket=LOGS, Key="run.sh", Body=f"{DAEMON}; exit 0".encode())
    cluster_id = lab.cluster()
    for step in (
        lab.step("bash", "-c", f"{DAEMON}; exit 0"),
        lab.step("s3://logs/run.sh", jar="script-runner.jar"),
    ):
        (step_id,) = lab.add(cluster_id, step)
        assert lab.ended(cluster_id, step_id)["State"] == "COMPLETED"
        pid = (data_dir / "emr" / cluster_id / step_id / "stdout").read_text()
        wait_until(lambda pid=pid: not is_running(pid))


@pytest.mark.parametrize("option", ["SEND_INTERRUPT", "TERMINATE_PROCESS"])
def test_a_daemon_ends_with_its_cancelled_step(lab: Lab, data_dir: Path, option: str) -> None:
    cluster_id = lab.cluster()
    # One that ends well before its own signal comes would be a step that completed.
    (step_id,) = lab.add(cluster_id, lab.step("bash", "-c", f"{DAEMON}; wait; exit 1"))
    stdout = data_dir / "emr" / cluster_id / step_id / "stdout"
    wait_until(lambda: stdout.exists() and stdout.read_text())
    lab.emr.cancel_steps(ClusterId=cluster_id, StepIds=[step_id], StepCancellationOption=option)
    assert lab.ended(cluster_id, step_id)["State"] == "CANCELLED"
    wait_until(lambda: not is_running(stdout.read_text()))


# --- what cannot be read ------------------------------------------------------------------------


def _refusal(lab: Lab, cluster_id: str, step_id: str) -> str:
    """Return why a step failed before anything began; its stderr must say so, too."""
    status = lab.ended(cluster_id, step_id)
    assert status["State"] == "FAILED"
    message = str(status["FailureDetails"]["Message"])

    def log(name: str) -> str:
        key = f"{cluster_id}/steps/{step_id}/{name}.gz"
        return gzip.decompress(lab.s3.get_object(Bucket=LOGS, Key=key)["Body"].read()).decode()

    assert message in log("stderr")
    assert "the process is" not in log("controller")
    return message


def test_an_unreadable_file_beside_the_application_fails_the_step_by_its_name(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_SPARK_HOME", str(make_spark_home(tmp_path / "spark")))
    lab.s3.put_object(Bucket=LOGS, Key="job.sh", Body=b"true")
    lab.s3.put_object(Bucket=LOGS, Key="good.zip", Body=b"")
    cluster_id = lab.cluster(LogUri=f"s3://{LOGS}/")
    unreadable = {
        "s3://no-such-bucket/lib.zip": "there is no bucket no-such-bucket",
        "s3://logs/no-such.zip": "there is no such object",
    }
    for option, mode, uri in itertools.product(
        ("--py-files", "--files", "--archives", "--jars"), ("client", "cluster"), unreadable
    ):
        files = f"s3://logs/good.zip,{uri}#lib"
        args = ("spark-submit", "--deploy-mode", mode, option, files, "s3://logs/job.sh")
        (step_id,) = lab.add(cluster_id, lab.step(*args))
        message = _refusal(lab, cluster_id, step_id)
        assert message == f"{uri} cannot be read: {unreadable[uri]}.", args


def test_a_step_that_names_nothing_to_run_fails_and_the_next_one_runs(lab: Lab) -> None:
    cluster_id = lab.cluster(LogUri=f"s3://{LOGS}/")
    for jar, args, sentence in (
        ("command-runner.jar", (), "no command to run"),
        ("script-runner.jar", (), "no command to run"),
        ("command-runner.jar", ("spark-submit",), "no application to run"),
        ("command-runner.jar", ("no-such-command",), 'Cannot run program "no-such-command"'),
        ("s3://logs/no-such.jar", (), "there is no such object"),
        ("/no/such.jar", (), "there is no such file"),
    ):
        bad, good = lab.add(cluster_id, lab.step(*args, jar=jar), lab.step("true"))
        assert sentence in _refusal(lab, cluster_id, bad)
        assert lab.ended(cluster_id, good)["State"] == "COMPLETED"


def test_a_jar_that_is_none_fails_in_javas_words(lab: Lab) -> None:
    lab.s3.put_object(Bucket=LOGS, Key="broken.jar", Body=b"not a zip")
    cluster_id = lab.cluster(LogUri=f"s3://{LOGS}/")
    (step_id,) = lab.add(cluster_id, lab.step(jar="s3://logs/broken.jar"))
    status = lab.ended(cluster_id, step_id)
    assert status["State"] == "FAILED"
    assert "java.util.zip.ZipException" in status["FailureDetails"]["Message"]
    log = lab.s3.get_object(Bucket=LOGS, Key=f"{cluster_id}/steps/{step_id}/stderr.gz")["Body"]
    assert "broken.jar" in gzip.decompress(log.read()).decode()
