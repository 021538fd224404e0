"""Steps: real processes, their states, failures and logs."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from tests.api.emr.conftest import LOGS, Lab, is_running
from tests.support.cloud import InProcessCloud
from tests.support.server import wait_until

# --- serialization ----------------------------------------------------------------------------


def test_a_step_is_described_as_it_was_asked_for(lab: Lab) -> None:
    cluster_id = lab.cluster()
    asked = lab.step("true", on_failure="CANCEL_AND_WAIT")
    asked["HadoopJarStep"]["Properties"] = [{"Key": "k", "Value": "v"}]
    (step_id,) = lab.add(cluster_id, asked)
    lab.ended(cluster_id, step_id)
    step = lab.emr.describe_step(ClusterId=cluster_id, StepId=step_id)["Step"]
    assert step["Name"] == "a step"
    assert step["ActionOnFailure"] == "CANCEL_AND_WAIT"
    assert step["Config"] == {
        "Jar": "command-runner.jar",
        "Args": ["true"],
        "Properties": {"k": "v"},
    }
    timeline = step["Status"]["Timeline"]
    assert timeline["CreationDateTime"] <= timeline["StartDateTime"] <= timeline["EndDateTime"]


def test_a_steps_own_log_uri_takes_precedence_and_is_described(lab: Lab) -> None:
    lab.s3.create_bucket(Bucket="own")
    key = "arn:aws:kms:us-east-1:000000000000:key/1"
    logs = {"LogUri": "s3://own/x/", "EncryptionKeyArn": key}
    config = {
        **lab.step("echo", "out"),
        "StepMonitoringConfiguration": {"S3MonitoringConfiguration": logs},
    }
    cluster_id = lab.cluster(LogUri=f"s3://{LOGS}/")
    own, other = lab.add(cluster_id, config, lab.step("false"))
    lab.ended(cluster_id, own)
    body = lab.s3.get_object(Bucket="own", Key=f"x/{cluster_id}/steps/{own}/stdout.gz")["Body"]
    assert gzip.decompress(body.read()) == b"out\n"
    described = lab.emr.describe_step(ClusterId=cluster_id, StepId=own)["Step"]
    assert (described["LogUri"], described["EncryptionKeyArn"]) == ("s3://own/x/", key)
    log_file = lab.ended(cluster_id, other)["FailureDetails"]["LogFile"]
    assert log_file.startswith(f"s3://{LOGS}/{cluster_id}/")
    assert "LogUri" not in lab.emr.describe_step(ClusterId=cluster_id, StepId=other)["Step"]


# --- validation -------------------------------------------------------------------------------


def test_steps_of_clusters_that_are_not_there(lab: Lab) -> None:
    with pytest.raises(ClientError, match="Specified job flow ID does not exist"):
        lab.add("j-NONE", lab.step("true"))
    cluster_id = lab.cluster()
    with pytest.raises(ClientError, match="Step id 's-NONE' is not valid"):
        lab.step_status(cluster_id, "s-NONE")
    with pytest.raises(ClientError, match="Step id 's-NONE' is not valid"):
        lab.emr.cancel_steps(ClusterId=cluster_id, StepIds=["s-NONE"])


def test_a_step_needs_a_jar(lab: Lab) -> None:
    with pytest.raises(ClientError, match="failed to satisfy constraint: Member must not be null"):
        lab.add(lab.cluster(), {"Name": "x", "HadoopJarStep": {}})


def test_a_cluster_has_at_most_256_active_steps(lab: Lab) -> None:
    cluster_id = lab.cluster()
    with pytest.raises(ClientError, match="Maximum number of active steps"):
        lab.add(cluster_id, *[lab.step("true")] * 257)
    assert lab.steps(cluster_id) == []


# --- behaviour --------------------------------------------------------------------------------


def test_steps_run_one_after_the_other(lab: Lab, tmp_path: Path) -> None:
    log = tmp_path / "order"
    steps = [lab.step("bash", "-c", f"echo {n} >> {log}; echo {n} >> {log}") for n in (1, 2, 3)]
    cluster_id = lab.cluster(*steps, keep_alive=False)
    lab.until(cluster_id, "TERMINATED")
    assert log.read_text().split() == ["1", "1", "2", "2", "3", "3"]


def test_steps_run_side_by_side_when_the_cluster_allows_it(lab: Lab, tmp_path: Path) -> None:
    wait = "touch {0}; until [ -e {1} ]; do sleep 0.02; done"
    one, two = tmp_path / "one", tmp_path / "two"
    cluster_id = lab.cluster(
        lab.step("bash", "-c", wait.format(one, two)),
        lab.step("bash", "-c", wait.format(two, one)),
        StepConcurrencyLevel=2,
    )
    for step in lab.steps(cluster_id):
        assert lab.ended(cluster_id, step["Id"])["State"] == "COMPLETED"


def test_logs_are_in_the_log_uri_when_the_step_has_ended(lab: Lab) -> None:
    cluster_id = lab.cluster(LogUri=f"s3://{LOGS}/emr/")
    (step_id,) = lab.add(cluster_id, lab.step("bash", "-c", "echo out; echo err >&2"))
    lab.ended(cluster_id, step_id)
    folder = f"emr/{cluster_id}/steps/{step_id}/"

    def log(name: str) -> str:
        body = lab.s3.get_object(Bucket=LOGS, Key=f"{folder}{name}.gz")["Body"].read()
        return gzip.decompress(body).decode()

    assert log("stdout") == "out\n"
    assert log("stderr") == "err\n"
    assert log("syslog") == ""
    assert "the command ended with exit code 0" in log("controller")


def test_a_log_can_be_followed_while_the_step_runs(lab: Lab, data_dir: Path) -> None:
    cluster_id = lab.cluster()
    (step_id,) = lab.add(cluster_id, lab.step("bash", "-c", "echo begun; sleep 300"))
    stdout = data_dir / "emr" / cluster_id / step_id / "stdout"
    wait_until(lambda: stdout.exists() and stdout.read_text() == "begun\n")
    assert lab.step_status(cluster_id, step_id)["State"] == "RUNNING"


def test_what_a_running_step_has_printed_is_in_the_log_uri_and_is_whole_at_the_end(
    lab: Lab, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    script = f"echo one; until [ -e {go} ]; do sleep 0.05; done; echo two"
    cluster_id = lab.cluster(lab.step("bash", "-c", script), LogUri=f"s3://{LOGS}/")
    step_id = lab.steps(cluster_id)[0]["Id"]
    key = f"{cluster_id}/steps/{step_id}/stdout.gz"

    def stdout() -> bytes:
        found = lab.s3.list_objects_v2(Bucket=LOGS, Prefix=key).get("Contents")
        return (
            gzip.decompress(lab.s3.get_object(Bucket=LOGS, Key=key)["Body"].read())
            if found
            else b""
        )

    wait_until(lambda: stdout() == b"one\n")
    assert lab.step_status(cluster_id, step_id)["State"] == "RUNNING"
    go.touch()
    assert lab.ended(cluster_id, step_id)["State"] == "COMPLETED"
    assert stdout() == b"one\ntwo\n"


def test_a_log_uri_without_a_bucket_fails_no_step(lab: Lab) -> None:
    cluster_id = lab.cluster(LogUri="s3://no-such-bucket/emr/")
    (step_id,) = lab.add(cluster_id, lab.step("true"))
    assert lab.ended(cluster_id, step_id)["State"] == "COMPLETED"


def test_a_failed_step_says_why_and_where(lab: Lab) -> None:
    cluster_id = lab.cluster(LogUri=f"s3://{LOGS}/emr/")
    failing = "import json; json.loads('nonsense')"
    (step_id,) = lab.add(cluster_id, lab.step("python3", "-c", failing))
    status = lab.ended(cluster_id, step_id)
    assert status["State"] == "FAILED"
    assert status["FailureDetails"] == {
        "Reason": "Unknown Error.",
        "Message": "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        "LogFile": f"s3://{LOGS}/emr/{cluster_id}/steps/{step_id}/stderr.gz",
    }


@pytest.mark.parametrize(
    ("args", "jar", "message"),
    [
        (["nix"], "command-runner.jar", 'Cannot run program "nix"'),
        (["x"], "s3://bucket/own.jar", "there is no bucket bucket"),
        (
            ["s3://elasticmapreduce/libs/hive/hive-script", "--run"],
            "script-runner.jar",
            "headrace does not have hive-script of EMR's machines",
        ),
        (["spark-submit", "s3://logs/no.py"], "command-runner.jar", "there is no such object"),
    ],
)
def test_a_step_that_cannot_start_fails_with_a_sentence(
    lab: Lab, args: list[str], jar: str, message: str
) -> None:
    cluster_id = lab.cluster()
    (step_id,) = lab.add(cluster_id, lab.step(*args, jar=jar))
    status = lab.ended(cluster_id, step_id)
    assert status["State"] == "FAILED"
    assert message in status["FailureDetails"]["Message"]


def test_a_script_from_s3_runs(lab: Lab) -> None:
    lab.s3.put_object(Bucket=LOGS, Key="run.sh", Body=b'test "$1" = right')
    cluster_id = lab.cluster()
    good, bad = lab.add(
        cluster_id,
        lab.step("s3://logs/run.sh", "right", jar="script-runner.jar"),
        lab.step("s3://logs/run.sh", "wrong", jar="script-runner.jar"),
    )
    assert lab.ended(cluster_id, good)["State"] == "COMPLETED"
    assert lab.ended(cluster_id, bad)["State"] == "FAILED"


@pytest.mark.parametrize(
    ("jar", "args"),
    [
        ("command-runner.jar", ["state-pusher-script"]),
        ("command-runner.jar", ["bash", "-c", "state-pusher-script"]),
        (
            "s3://us-east-1.elasticmapreduce/libs/script-runner/script-runner.jar",
            ["s3://us-east-1.elasticmapreduce/libs/state-pusher/0.1/fetch"],
        ),
    ],
)
def test_debugging_can_be_enabled(lab: Lab, jar: str, args: list[str]) -> None:
    cluster_id = lab.cluster(
        lab.step(*args, jar=jar, on_failure="TERMINATE_CLUSTER"), lab.step("true")
    )
    lab.until(cluster_id, "WAITING")
    assert [s["Status"]["State"] for s in lab.steps(cluster_id)] == ["COMPLETED", "COMPLETED"]


def test_after_a_failure_the_next_step_runs_when_told_to_continue(lab: Lab) -> None:
    cluster_id = lab.cluster()
    failing, following = lab.add(
        cluster_id, lab.step("false", on_failure="CONTINUE"), lab.step("true")
    )
    assert lab.ended(cluster_id, failing)["State"] == "FAILED"
    assert lab.ended(cluster_id, following)["State"] == "COMPLETED"


def test_a_failure_cancels_what_waits_and_the_cluster_waits(lab: Lab) -> None:
    cluster_id = lab.cluster(lab.step("false", on_failure="CANCEL_AND_WAIT"), lab.step("true"))
    status = lab.until(cluster_id, "WAITING")
    assert [s["Status"]["State"] for s in lab.steps(cluster_id)] == ["FAILED", "CANCELLED"]
    assert "StateChangeReason" in status
    (again,) = lab.add(cluster_id, lab.step("true"))
    assert lab.ended(cluster_id, again)["State"] == "COMPLETED"


def test_a_failure_terminates_the_cluster_when_told_to(lab: Lab) -> None:
    cluster_id = lab.cluster(lab.step("false", on_failure="TERMINATE_CLUSTER"), lab.step("true"))
    status = lab.until(cluster_id, "TERMINATED_WITH_ERRORS")
    assert status["StateChangeReason"] == {
        "Code": "STEP_FAILURE",
        "Message": "Shut down as step failed",
    }
    assert [s["Status"]["State"] for s in lab.steps(cluster_id)] == ["FAILED", "CANCELLED"]


def test_a_waiting_step_is_cancelled_at_once(lab: Lab) -> None:
    cluster_id = lab.cluster(lab.step("sleep", "300"), lab.step("true"))
    running, waiting = (step["Id"] for step in lab.steps(cluster_id))
    lab.running(cluster_id, running)
    answer = lab.emr.cancel_steps(ClusterId=cluster_id, StepIds=[waiting])
    assert answer["CancelStepsInfoList"] == [{"StepId": waiting, "Status": "SUBMITTED"}]
    assert lab.step_status(cluster_id, waiting)["State"] == "CANCELLED"
    assert lab.step_status(cluster_id, running)["State"] == "RUNNING"


@pytest.mark.parametrize("option", ["SEND_INTERRUPT", "TERMINATE_PROCESS"])
def test_a_running_step_is_cancelled_with_its_children(
    lab: Lab, data_dir: Path, option: str
) -> None:
    cluster_id = lab.cluster()
    script = "sleep 300 & echo $!; wait"
    (step_id,) = lab.add(cluster_id, lab.step("bash", "-c", script))
    stdout = data_dir / "emr" / cluster_id / step_id / "stdout"
    wait_until(lambda: stdout.exists() and stdout.read_text())
    lab.emr.cancel_steps(ClusterId=cluster_id, StepIds=[step_id], StepCancellationOption=option)
    assert lab.ended(cluster_id, step_id)["State"] == "CANCELLED"
    assert not is_running(stdout.read_text())


def test_an_ended_step_cannot_be_cancelled(lab: Lab) -> None:
    cluster_id = lab.cluster()
    (step_id,) = lab.add(cluster_id, lab.step("true"))
    lab.ended(cluster_id, step_id)
    (info,) = lab.emr.cancel_steps(ClusterId=cluster_id, StepIds=[step_id])["CancelStepsInfoList"]
    assert info["Status"] == "FAILED"


def test_steps_are_listed_newest_first_in_pages_and_by_state(lab: Lab) -> None:
    cluster_id = lab.cluster(lab.step("sleep", "300"))
    for _ in range(6):
        lab.add(cluster_id, *[lab.step("true")] * 10)
    first = lab.emr.list_steps(ClusterId=cluster_id)
    assert len(first["Steps"]) == 50
    second = lab.emr.list_steps(ClusterId=cluster_id, Marker=first["Marker"])
    assert len(second["Steps"]) == 11
    assert "Marker" not in second
    assert second["Steps"][-1]["Config"]["Args"] == ["sleep", "300"]
    lab.running(cluster_id, second["Steps"][-1]["Id"])
    running = lab.emr.list_steps(ClusterId=cluster_id, StepStates=["RUNNING"])["Steps"]
    assert [step["Id"] for step in running] == [second["Steps"][-1]["Id"]]


def test_a_stopped_cloud_leaves_no_process_and_says_what_became_of_the_step(
    data_dir: Path,
) -> None:
    with InProcessCloud(data_dir) as cloud:
        lab = Lab(cloud)
        cluster_id = lab.cluster()
        running, waiting = lab.add(
            cluster_id,
            lab.step("bash", "-c", "echo $$; trap '' TERM; while :; do sleep 0.1; done"),
            lab.step("true"),
        )
        stdout = data_dir / "emr" / cluster_id / running / "stdout"
        wait_until(lambda: stdout.exists() and stdout.read_text())
    assert not is_running(stdout.read_text())
    with InProcessCloud(data_dir) as cloud:
        lab = Lab(cloud)
        status = lab.step_status(cluster_id, running)
        assert status["State"] == "FAILED"
        assert "cloud was stopped" in status["FailureDetails"]["Message"]
        assert lab.ended(cluster_id, waiting)["State"] == "COMPLETED"
