"""Bootstrap actions: run when asked for, in order, before the first step; a failing one ends the cluster."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.emr.conftest import LOGS, Lab, is_running
from tests.support.cloud import InProcessCloud
from tests.support.server import wait_until


@pytest.fixture
def eager(data_dir: Path) -> Iterator[Lab]:
    with InProcessCloud(data_dir, run_bootstrap_actions=True) as cloud:
        lab = Lab(cloud)
        lab.s3.create_bucket(Bucket=LOGS)
        yield lab


def action(lab: Lab, name: str, script: str, *args: str) -> dict[str, Any]:
    lab.s3.put_object(Bucket=LOGS, Key=name, Body=script.encode())
    return {"Name": name, "ScriptBootstrapAction": {"Path": f"s3://logs/{name}", "Args": [*args]}}


def master(lab: Lab, cluster_id: str) -> str:
    found = lab.emr.list_instances(ClusterId=cluster_id, InstanceGroupTypes=["MASTER"])
    return found["Instances"][0]["Ec2InstanceId"]


INSTANCES = {
    "InstanceGroups": [{"InstanceRole": "MASTER", "InstanceType": "m5.xlarge", "InstanceCount": 1}]
}


def test_actions_run_in_order_before_the_first_step(eager: Lab, tmp_path: Path) -> None:
    log = tmp_path / "order"
    actions = [action(eager, f"{n}.sh", f'echo "$1" >> {log}; echo said', n) for n in "ab"]
    cluster_id = eager.cluster(
        eager.step("bash", "-c", f"echo step >> {log}"),
        BootstrapActions=actions,
        Instances=INSTANCES,
        LogUri=f"s3://{LOGS}/",
    )
    eager.until(cluster_id, "WAITING")
    assert log.read_text().split() == ["a", "b", "step"]
    folder = f"{cluster_id}/node/{master(eager, cluster_id)}/bootstrap-actions"
    stdout = eager.s3.get_object(Bucket=LOGS, Key=f"{folder}/2/stdout.gz")["Body"].read()
    assert gzip.decompress(stdout) == b"said\n"


def test_a_failing_action_ends_the_cluster_and_no_step_runs(eager: Lab) -> None:
    actions = [action(eager, "good.sh", "true"), action(eager, "bad.sh", "exit 3")]
    cluster_id = eager.cluster(
        eager.step("true"), BootstrapActions=actions, Instances=dict(INSTANCES)
    )
    status = eager.until(cluster_id, "TERMINATED_WITH_ERRORS")
    assert status["StateChangeReason"] == {
        "Code": "BOOTSTRAP_FAILURE",
        "Message": f"On the master instance ({master(eager, cluster_id)}), bootstrap action 2 returned a non-zero "
        "return code",
    }
    assert [s["Status"]["State"] for s in eager.steps(cluster_id)] == ["CANCELLED"]


def test_an_action_that_is_not_there_ends_the_cluster(eager: Lab) -> None:
    missing = {"Name": "x", "ScriptBootstrapAction": {"Path": "s3://logs/no.sh"}}
    status = eager.until(eager.cluster(BootstrapActions=[missing]), "TERMINATED_WITH_ERRORS")
    assert status["StateChangeReason"]["Code"] == "BOOTSTRAP_FAILURE"
    assert (
        "failed attempting to download bootstrap action 1 file"
        in (status["StateChangeReason"]["Message"])
    )


def test_terminating_a_cluster_ends_its_running_action(eager: Lab, data_dir: Path) -> None:
    cluster_id = eager.cluster(BootstrapActions=[action(eager, "s.sh", "echo $$; sleep 300")])
    stdout = data_dir / "emr" / cluster_id / "bootstrap-actions" / "1" / "stdout"
    wait_until(lambda: stdout.exists() and stdout.read_text())
    assert eager.status(cluster_id)["State"] == "BOOTSTRAPPING"
    eager.emr.terminate_job_flows(JobFlowIds=[cluster_id])
    eager.until(cluster_id, "TERMINATED")
    assert not is_running(stdout.read_text())


def test_actions_do_not_run_unless_asked_for(lab: Lab, tmp_path: Path) -> None:
    log = tmp_path / "ran"
    cluster_id = lab.cluster(BootstrapActions=[action(lab, "a.sh", f"touch {log}")])
    lab.until(cluster_id, "WAITING")
    assert not log.exists()
