"""Steps that misbehave: the right state, a sentence, whole logs, and no process left."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.api.emr.conftest import LOGS, Lab, is_running
from tests.support.server import wait_until

PRINTED_BYTES = 8 * 1024 * 1024


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
