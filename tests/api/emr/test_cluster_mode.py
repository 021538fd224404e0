"""Steps with `--deploy-mode cluster`: the driver's log is a container's, the step's is its client's report."""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.api.emr.conftest import LOGS, Lab
from tests.support.cloud import InProcessCloud
from tests.support.server import wait_until
from tests.support.spark_home import make_spark_home

CLUSTER = ("spark-submit", "--deploy-mode", "cluster")
JOB = "s3://logs/code/job.sh"


@pytest.fixture(autouse=True)
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_SPARK_HOME", str(make_spark_home(tmp_path / "spark")))


def submit(
    lab: Lab, script: str, options: Sequence[str] = CLUSTER, **request: Any
) -> tuple[str, str]:
    """Add a step whose driver is a shell script; return the ids of its cluster and of the step."""
    lab.s3.put_object(Bucket=LOGS, Key="code/job.sh", Body=script.encode())
    cluster_id = lab.cluster(LogUri=f"s3://{LOGS}/emr/", **request)
    (step_id,) = lab.add(cluster_id, lab.step(*options, JOB, "one", "two"))
    return cluster_id, step_id


def logs(lab: Lab, cluster_id: str) -> dict[str, str]:
    """Return all logs of a cluster by what follows its prefix."""
    prefix = f"emr/{cluster_id}/"
    found = lab.s3.list_objects_v2(Bucket=LOGS, Prefix=prefix).get("Contents", [])
    return {
        item["Key"].removeprefix(prefix): gzip.decompress(
            lab.s3.get_object(Bucket=LOGS, Key=item["Key"])["Body"].read()
        ).decode()
        for item in found
    }


def application(report: str) -> str:
    """Return the application id that a client's report tells."""
    found = re.search(
        r"Submitted application (application_(\d{13})_(\d{4}))$", report, re.MULTILINE
    )
    assert found is not None, report
    return found[1]


def container(report: str) -> str:
    """Return where the logs of the driver's container are."""
    name = application(report)
    return f"containers/{name}/{name.replace('application', 'container')}_01_000001"


def test_the_driver_prints_into_its_container_and_the_client_reports_to_the_step(lab: Lab) -> None:
    cluster_id, step_id = submit(lab, 'echo "out $*"; echo err >&2')
    assert lab.ended(cluster_id, step_id)["State"] == "COMPLETED"
    found = logs(lab, cluster_id)
    report = found[f"steps/{step_id}/stderr.gz"]
    folder = container(report)
    assert {name: found[f"{folder}/{name}.gz"] for name in ("stdout", "stderr")} == {
        "stdout": "out one two\n",
        "stderr": "err\n",
    }
    assert found[f"steps/{step_id}/stdout.gz"] == ""
    assert "the command ended with exit code 0" in found[f"steps/{step_id}/controller.gz"]
    assert set(found) == {
        *(f"steps/{step_id}/{name}.gz" for name in ("controller", "stdout", "stderr", "syslog")),
        *(f"{folder}/{name}.gz" for name in ("stdout", "stderr")),
    }
    states = re.findall(r"\(state: (\w+)\)|final status: (\w+)", report)
    assert [a or b for a, b in states] == [
        "ACCEPTED", "UNDEFINED", "RUNNING", "UNDEFINED", "FINISHED", "SUCCEEDED",
    ]  # fmt: skip
    assert f"s3://{LOGS}/emr/{cluster_id}/{folder}/" in report


def test_a_failure_is_told_in_the_clients_words_with_the_drivers_cause(lab: Lab) -> None:
    cluster_id, step_id = submit(lab, "echo ValueError: no such airport >&2; exit 1")
    status = lab.ended(cluster_id, step_id)
    assert status["State"] == "FAILED"
    report = logs(lab, cluster_id)[f"steps/{step_id}/stderr.gz"]
    sentence = (
        'Exception in thread "main" org.apache.spark.SparkException: '
        f"Application {application(report)} finished with failed status"
    )
    details = status["FailureDetails"]
    assert details["Reason"] == "Unknown Error."
    assert details["LogFile"] == f"s3://{LOGS}/emr/{cluster_id}/steps/{step_id}/stderr.gz"
    driver_log = f"s3://{LOGS}/emr/{cluster_id}/{container(report)}/stderr.gz"
    assert details["Message"] == (
        f"{sentence}; the driver said: ValueError: no such airport ({driver_log})"
    )
    assert sentence in report.splitlines()
    assert "final status: FAILED" in report
    assert "diagnostics: User application exited with status 1" in report


def test_a_class_that_failed_is_told_by_its_exception(lab: Lab) -> None:
    # The stand-in for Spark runs the script; what the step submits is a jar.
    lab.s3.put_object(Bucket=LOGS, Key="job.jar", Body=b"")
    script = "echo java.lang.IllegalStateException: no route >&2; exit 1"
    lab.s3.put_object(Bucket=LOGS, Key="code/job.sh", Body=script.encode())
    cluster_id = lab.cluster(LogUri=f"s3://{LOGS}/emr/")
    (step_id,) = lab.add(cluster_id, lab.step(*CLUSTER, "--jars", JOB, "s3://logs/job.jar"))
    lab.ended(cluster_id, step_id)
    report = logs(lab, cluster_id)[f"steps/{step_id}/stderr.gz"]
    cause = "User class threw exception: java.lang.IllegalStateException: no route"
    assert f"ERROR Client: Application diagnostics message: {cause}" in report


@pytest.mark.parametrize(
    "options",
    [
        ("spark-submit", "--deploy-mode=cluster"),
        ("spark-submit", "--master", "yarn", "--conf", "spark.submit.deployMode=cluster"),
    ],
)
def test_cluster_mode_can_be_asked_for_in_several_ways(lab: Lab, options: tuple[str, ...]) -> None:
    cluster_id, step_id = submit(lab, "true", options)
    lab.ended(cluster_id, step_id)
    assert any(name.startswith("containers/") for name in logs(lab, cluster_id))


def test_the_clusters_defaults_may_ask_for_cluster_mode_and_the_option_wins(lab: Lab) -> None:
    defaults = {
        "Classification": "spark-defaults",
        "Properties": {"spark.submit.deployMode": "cluster"},
    }
    cluster_id, step_id = submit(lab, "echo out", ["spark-submit"], Configurations=[defaults])
    lab.ended(cluster_id, step_id)
    assert application(logs(lab, cluster_id)[f"steps/{step_id}/stderr.gz"])
    (client,) = lab.add(cluster_id, lab.step("spark-submit", "--deploy-mode", "client", JOB))
    lab.ended(cluster_id, client)
    assert logs(lab, cluster_id)[f"steps/{client}/stdout.gz"] == "out\n"


def test_both_logs_can_be_read_while_the_driver_runs(lab: Lab, tmp_path: Path) -> None:
    go = tmp_path / "go"
    cluster_id, step_id = submit(lab, f"echo begun; until [ -e {go} ]; do sleep 0.05; done")
    key = f"steps/{step_id}/stderr.gz"
    report = wait_until(lambda: logs(lab, cluster_id).get(key))
    driver = f"{container(report)}/stdout.gz"
    wait_until(lambda: logs(lab, cluster_id).get(driver) == "begun\n")
    assert lab.step_status(cluster_id, step_id)["State"] == "RUNNING"
    assert "final status: SUCCEEDED" not in report
    go.touch()
    lab.ended(cluster_id, step_id)


def test_a_cancelled_driver_is_reported_as_killed(lab: Lab, data_dir: Path) -> None:
    cluster_id, step_id = submit(lab, "echo begun; sleep 300")
    stdout = data_dir / "emr" / cluster_id / step_id / "stdout"
    wait_until(lambda: stdout.exists() and stdout.read_text())
    lab.emr.cancel_steps(ClusterId=cluster_id, StepIds=[step_id])
    assert lab.ended(cluster_id, step_id)["State"] == "CANCELLED"
    report = logs(lab, cluster_id)[f"steps/{step_id}/stderr.gz"]
    assert "final status: KILLED" in report
    assert f"Application {application(report)} is killed" in report


def test_what_cannot_be_fetched_is_the_clients_failure_and_no_container_begins(lab: Lab) -> None:
    cluster_id = lab.cluster(LogUri=f"s3://{LOGS}/emr/")
    (step_id,) = lab.add(cluster_id, lab.step(*CLUSTER, "s3://logs/no.py"))
    status = lab.ended(cluster_id, step_id)
    assert "there is no such object" in status["FailureDetails"]["Message"]
    found = logs(lab, cluster_id)
    assert "there is no such object" in found[f"steps/{step_id}/stderr.gz"]
    assert not [name for name in found if name.startswith("containers/")]


def test_cluster_mode_on_a_local_master_is_refused_in_sparks_words(lab: Lab) -> None:
    cluster_id, step_id = submit(lab, "true", (*CLUSTER, "--master", "local[2]"))
    message = lab.ended(cluster_id, step_id)["FailureDetails"]["Message"]
    assert message == 'Cluster deploy mode is not compatible with master "local"'


def test_files_archives_and_environment_are_the_containers(lab: Lab, tmp_path: Path) -> None:
    import io
    import tarfile
    import zipfile

    lab.s3.put_object(Bucket=LOGS, Key="conf/app.ini", Body=b"ini")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("bin/tool")
        member.size = 4
        archive.addfile(member, io.BytesIO(b"tool"))
    lab.s3.put_object(Bucket=LOGS, Key="env.tar.gz", Body=packed.getvalue())
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("data.csv", "a,b")
    lab.s3.put_object(Bucket=LOGS, Key="data.zip", Body=zipped.getvalue())
    options = [
        *CLUSTER, "--files", "s3://logs/conf/app.ini#renamed.ini,s3://logs/conf/app.ini",
        "--archives", "s3://logs/env.tar.gz#environment,s3://logs/data.zip#data",
        "--conf", "spark.yarn.appMasterEnv.STAGE=test",
        "--conf", "spark.yarn.appMasterEnv.PYSPARK_PYTHON=python3.9",
    ]  # fmt: skip
    script = (
        "cat app.ini renamed.ini environment/bin/tool data/data.csv; echo $STAGE $PYSPARK_PYTHON"
    )
    cluster_id, step_id = submit(lab, script, options)
    assert lab.ended(cluster_id, step_id)["State"] == "COMPLETED"
    found = logs(lab, cluster_id)
    text = found[f"{container(found[f'steps/{step_id}/stderr.gz'])}/stdout.gz"]
    assert text.startswith("iniinitoola,btest ")
    assert "python3.9" not in text


def test_a_python_that_the_job_brings_along_is_the_drivers(lab: Lab) -> None:
    python = "./environment/bin/python"
    options = [*CLUSTER, "--conf", f"spark.yarn.appMasterEnv.PYSPARK_PYTHON={python}"]
    cluster_id, step_id = submit(lab, "echo $PYSPARK_PYTHON $PYSPARK_DRIVER_PYTHON", options)
    lab.ended(cluster_id, step_id)
    found = logs(lab, cluster_id)
    folder = container(found[f"steps/{step_id}/stderr.gz"])
    assert found[f"{folder}/stdout.gz"] == f"{python} {python}\n"


def test_a_stopped_cloud_reports_the_end_and_the_next_one_finds_the_same_application(
    data_dir: Path,
) -> None:
    with InProcessCloud(data_dir) as cloud:
        lab = Lab(cloud)
        lab.s3.create_bucket(Bucket=LOGS)
        cluster_id, step_id = submit(lab, "echo begun; sleep 300")
        stdout = data_dir / "emr" / cluster_id / step_id / "stdout"
        wait_until(lambda: stdout.exists() and stdout.read_text())
    with InProcessCloud(data_dir) as cloud:
        lab = Lab(cloud)
        assert lab.step_status(cluster_id, step_id)["State"] == "FAILED"
        found = logs(lab, cluster_id)
        report = found[f"steps/{step_id}/stderr.gz"]
        assert "final status: FAILED" in report
        assert found[f"{container(report)}/stdout.gz"] == "begun\n"
