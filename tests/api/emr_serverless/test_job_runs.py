"""Job runs: real processes, by a stand-in for spark-submit."""

from __future__ import annotations

import base64
import shutil
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace.aws.calls.http import HttpRequest
from headrace.core.ports import CallerIdentity
from headrace.spark_submit.environments import CACHE_VARIABLE, find_cached
from tests.api.emr.conftest import is_running
from tests.api.emr_serverless.conftest import BUCKET, ROLE, Lab
from tests.api.emr_serverless.test_applications import refused
from tests.support.cloud import InProcessCloud
from tests.support.iam import allow, as_role, make_role
from tests.support.server import wait_until
from tests.support.spark_environments import make_whole


def test_a_job_runs_and_its_logs_are_in_s3(lab: Lab) -> None:
    made = lab.application()
    run_id = lab.start(made, 'echo "$1 from $AWS_REGION"; echo oops >&2', "hello", name="j")
    run = lab.ended(made, run_id)
    assert (run["state"], run["stateDetails"]) == ("SUCCESS", "")
    assert lab.state(made) == "STARTED"
    assert lab.log(made, run_id, "stdout") == "hello from us-east-1\n"
    assert lab.log(made, run_id, "stderr") == "oops\n"
    assert run["arn"].endswith(f":/applications/{made}/jobruns/{run_id}")
    assert run["mode"] == "BATCH"
    assert run["createdAt"] <= run["startedAt"] <= run["endedAt"]
    assert run["jobDriver"]["sparkSubmit"]["entryPointArguments"] == ["hello"]
    (listed,) = lab.emr.list_job_runs(applicationId=made, states=["SUCCESS"])["jobRuns"]
    assert (listed["id"], listed["name"], listed["type"]) == (run_id, "j", "SPARK")
    assert lab.emr.list_job_runs(applicationId=made, states=["FAILED"])["jobRuns"] == []
    assert lab.emr.list_job_runs(applicationId=made, mode="STREAMING")["jobRuns"] == []


def test_a_job_run_and_a_setting_name_who_made_them(lab_cloud: InProcessCloud, lab: Lab) -> None:
    make_role(lab_cloud, "starter", allow("*", "*"))
    made = lab.application()
    by_root = lab.start(made, "true")
    theirs = Lab(as_role(lab_cloud, "starter", "emr-serverless"), lab.s3)
    by_role = theirs.start(made, "true", clientToken="theirs")
    emr = as_role(lab_cloud, "starter", "emr")
    emr.put_block_public_access_configuration(
        BlockPublicAccessConfiguration={"BlockPublicSecurityGroupRules": False}
    )
    (session,) = {as_role(lab_cloud, "starter", "sts").get_caller_identity()["Arn"]}
    assert lab.ended(made, by_root)["createdBy"] == "arn:aws:iam::000000000000:root"
    assert lab.ended(made, by_role)["createdBy"] == session
    listed = lab.emr.list_job_runs(applicationId=made)["jobRuns"]
    assert {one["id"]: one["createdBy"] for one in listed}[by_role] == session
    shown = emr.get_block_public_access_configuration()["BlockPublicAccessConfigurationMetadata"]
    assert shown["CreatedByArn"] == session
    # A service that calls in process, under a role with a path.
    acting = CallerIdentity("arn:aws-cn:iam::000000000000:role/a/b/machine", "run")
    assert acting.caller_arn == "arn:aws-cn:sts::000000000000:assumed-role/machine/run"
    assert CallerIdentity("events.amazonaws.com", "s").caller_arn == "events.amazonaws.com"


def test_configurations_reach_the_job_and_the_job_runs_own_win(lab: Lab) -> None:
    def spark(**properties: str) -> Any:
        named = {key.replace("_", "."): value for key, value in properties.items()}
        return [{"classification": "spark-defaults", "properties": named}]

    variable = "spark.emr-serverless.driverEnv.COLOUR"
    made = lab.application(runtimeConfiguration=spark(spark_a="1", spark_b="1"))
    overrides = {"applicationConfiguration": spark(spark_b="2")}
    overrides["applicationConfiguration"][0]["properties"][variable] = "blue"
    run_id = lab.start(
        made, "grep spark.[ab] $SPARK_CONF_DIR/spark-defaults.conf; echo $COLOUR",
        configurationOverrides=overrides,
    )  # fmt: skip
    assert lab.ended(made, run_id)["state"] == "SUCCESS"
    lines = lab.log(made, run_id, "stdout").splitlines()
    assert "spark.a 1" in lines
    assert "spark.b 2" in lines
    assert lines[-1] == "blue"


def test_a_job_that_fails_says_why(lab: Lab) -> None:
    made = lab.application()
    run_id = lab.start(made, "echo 'ValueError: no such airport' >&2; exit 3")
    run = lab.ended(made, run_id)
    assert run["state"] == "FAILED"
    assert "ExitCode: 3. Last few exceptions: ValueError: no such airport" in run["stateDetails"]


def test_a_job_that_is_not_there_fails_with_the_reason(lab: Lab) -> None:
    made = lab.application()
    driver = {"sparkSubmit": {"entryPoint": f"s3://{BUCKET}/no.py"}}
    run_id = lab.start(made, "", jobDriver=driver)
    run = lab.ended(made, run_id)
    assert run["state"] == "FAILED"
    assert "no.py cannot be read: there is no such object" in run["stateDetails"]
    assert "no such object" in lab.log(made, run_id, "stderr")


def test_a_running_job_is_cancelled_with_all_it_started(lab: Lab, tmp_path: Path) -> None:
    made = lab.application()
    run_id = lab.start(made, f"sleep 300 & echo $! > {tmp_path}/pid; wait")
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    lab.until(made, run_id, "RUNNING")
    with refused("ValidationException", 400):
        lab.emr.stop_application(applicationId=made)
    lab.emr.cancel_job_run(applicationId=made, jobRunId=run_id)
    assert lab.ended(made, run_id)["state"] == "CANCELLED"
    assert not is_running((tmp_path / "pid").read_text())
    with refused("ValidationException", 400):
        lab.emr.cancel_job_run(applicationId=made, jobRunId=run_id)


def test_a_job_that_will_not_end_is_killed_when_its_grace_is_over(lab: Lab, tmp_path: Path) -> None:
    made = lab.application()
    run_id = lab.start(made, f"trap '' TERM; touch {tmp_path}/on; while :; do sleep 0.1; done")
    wait_until((tmp_path / "on").exists)
    lab.emr.cancel_job_run(applicationId=made, jobRunId=run_id, shutdownGracePeriodInSeconds=0)
    assert lab.ended(made, run_id)["state"] == "CANCELLED"


def test_a_batch_job_is_tried_as_often_as_its_policy_says(lab: Lab, tmp_path: Path) -> None:
    made = lab.application()
    run_id = lab.start(
        made, f"echo x >> {tmp_path}/n; echo attempt $(wc -l < {tmp_path}/n); exit 1",
        retryPolicy={"maxAttempts": 3},
    )  # fmt: skip
    run = lab.ended(made, run_id)
    assert (run["state"], run["attempt"]) == ("FAILED", 3)
    listed = lab.emr.list_job_run_attempts(applicationId=made, jobRunId=run_id)
    states = [(a["attempt"], a["state"]) for a in listed["jobRunAttempts"]]
    assert states == [(3, "FAILED"), (2, "FAILED"), (1, "FAILED")]
    assert lab.log(made, run_id, "stdout", "/attempts/2") == "attempt 2\n"
    assert lab.log(made, run_id, "stdout") == "attempt 3\n"
    second = lab.emr.get_job_run(applicationId=made, jobRunId=run_id, attempt=2)["jobRun"]
    assert second["attempt"] == 2
    with refused("ResourceNotFoundException", 404):
        lab.emr.get_job_run(applicationId=made, jobRunId=run_id, attempt=4)


def test_a_streaming_job_is_tried_again_until_too_many_attempts_failed_in_an_hour(
    lab: Lab,
) -> None:
    made = lab.application()
    policy = {"maxFailedAttemptsPerHour": 2}
    run_id = lab.start(made, "exit 1", mode="STREAMING", retryPolicy=policy)
    run = lab.ended(made, run_id)
    assert (run["state"], run["attempt"], run["mode"]) == ("FAILED", 2, "STREAMING")
    assert run["stateDetails"].startswith("2 attempts failed within an hour.")
    assert run["executionTimeoutMinutes"] == 0


def test_a_streaming_job_goes_on_after_a_failure(lab: Lab, tmp_path: Path) -> None:
    made = lab.application()
    script = f"[ -e {tmp_path}/once ] || {{ touch {tmp_path}/once; exit 1; }}; echo again"
    run_id = lab.start(made, script, mode="STREAMING")
    run = lab.ended(made, run_id)
    assert (run["state"], run["attempt"]) == ("SUCCESS", 2)
    assert lab.log(made, run_id, "stdout", "/attempts/2") == "again\n"
    assert lab.log(made, run_id, "stdout") == "again\n"


def test_no_more_jobs_run_at_a_time_than_the_application_says(lab: Lab, tmp_path: Path) -> None:
    made = lab.application(schedulerConfiguration={"maxConcurrentRuns": 1})
    first = lab.start(made, f"until [ -e {tmp_path}/go ]; do sleep 0.02; done")
    lab.until(made, first, "RUNNING")
    second = lab.start(made, "true")
    third = lab.start(made, "true")
    lab.until(made, second, "QUEUED")
    lab.emr.cancel_job_run(applicationId=made, jobRunId=third)
    assert lab.ended(made, third)["state"] == "CANCELLED"
    (tmp_path / "go").touch()
    assert lab.ended(made, second)["state"] == "SUCCESS"


def test_a_client_token_makes_one_job_run(lab: Lab) -> None:
    made = lab.application()
    driver = {"sparkSubmit": {"entryPoint": lab.script("true")}}
    first = lab.start(made, "", jobDriver=driver, clientToken="same")
    assert lab.start(made, "", jobDriver=driver, clientToken="same") == first
    with refused("ConflictException", 409):
        lab.start(made, "", jobDriver=driver, clientToken="same", name="other")


def test_an_application_that_may_not_start_itself_takes_no_job(lab: Lab) -> None:
    made = lab.application(autoStartConfiguration={"enabled": False})
    with refused("ValidationException", 400):
        lab.start(made, "true")
    lab.emr.start_application(applicationId=made)
    assert lab.ended(made, lab.start(made, "true"))["state"] == "SUCCESS"


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        ({"jobDriver": {"hive": {"query": "select 1"}}}, "headrace has no Hive"),
        ({"jobDriver": {}}, "JobDriver must be set"),
        ({"executionTimeoutMinutes": 1}, "at least 5 minutes"),
        ({"executionRoleArn": ROLE.replace("0000", "1111")}, "Cross-account pass role"),
        ({"retryPolicy": {"maxAttempts": 11}}, "between 1 and 10"),
        ({"executionIamPolicy": {"policy": "{}"}}, "Syntax errors in policy."),
        ({"retryPolicy": {"maxFailedAttemptsPerHour": 1}}, "STREAMING"),
        ({"mode": "SOMETIMES"}, "enum value set"),
        (
            {
                "jobDriver": {
                    "sparkSubmit": {"entryPoint": "s3://b/j.py", "sparkSubmitParameters": "--conf"}
                }
            },
            "sparkSubmitParameters",
        ),
        (
            {
                "jobDriver": {
                    "sparkSubmit": {"entryPoint": "s3://b/j.py", "sparkSubmitParameters": "'a"}
                }
            },
            "No closing quotation",
        ),
    ],
)
def test_bad_job_runs_are_refused_in_a_sentence(
    lab: Lab, request_: dict[str, Any], sentence: str
) -> None:
    made = lab.application()
    with pytest.raises(lab.emr.exceptions.ValidationException, match=sentence):
        lab.start(made, "true", **request_)
    assert lab.emr.list_job_runs(applicationId=made)["jobRuns"] == []


def test_the_dashboard_shows_what_the_job_prints(data_dir: Path, spark_home: Path) -> None:
    with InProcessCloud(data_dir) as cloud:
        lab = Lab(cloud.client("emr-serverless"), cloud.client("s3"))
        lab.s3.create_bucket(Bucket=BUCKET)
        made = lab.application()
        run_id = lab.start(made, "echo '<b>bold</b>'", logs=False)
        lab.ended(made, run_id)
        url = lab.emr.get_dashboard_for_job_run(applicationId=made, jobRunId=run_id)["url"]
        path = "/" + url.split("/", 3)[3]
        page = cloud.handle(HttpRequest("GET", path))
        assert page.status == 200
        assert isinstance(page.body, bytes)
        assert b"&lt;b&gt;bold&lt;/b&gt;" in page.body
        assert b"SUCCESS" in page.body
        assert cloud.handle(HttpRequest("GET", path + "x")).status == 404


def test_a_run_uses_the_spark_of_its_label_and_its_archives_are_unpacked(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    says = '#!/bin/sh\necho "$SPARK_HOME $PYSPARK_DRIVER_PYTHON path=$PYTHONPATH"; cat environment/told\n'
    monkeypatch.setattr(
        "headrace.spark_submit.environments.find_python", lambda _: Path(sys.executable)
    )
    make_whole(find_cached("3.5.5", (3, 9)), says)
    with InProcessCloud(data_dir) as cloud:
        lab = Lab(cloud.client("emr-serverless"), cloud.client("s3"))
        lab.s3.create_bucket(Bucket=BUCKET)
        (tmp_path / "packed").mkdir()
        (tmp_path / "packed" / "told").write_text("unpacked\n")
        archive = shutil.make_archive(str(tmp_path / "environment"), "gztar", tmp_path / "packed")
        lab.s3.put_object(Bucket=BUCKET, Key="e.tar.gz", Body=Path(archive).read_bytes())
        python = "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON=./environment/bin/python"
        archives = f"spark.archives=s3://{BUCKET}/e.tar.gz#environment"
        parameters = f"--conf {archives} --conf {python}"
        application = lab.application()
        run_id = lab.start(
            application,
            "true",
            jobDriver={
                "sparkSubmit": {
                    "entryPoint": lab.script("true"),
                    "sparkSubmitParameters": parameters,
                }
            },
        )
        assert lab.ended(application, run_id)["state"] == "SUCCESS"
        home, driver, path, told = lab.log(application, run_id, "stdout").split()
    assert home.startswith(f"{tmp_path}/cache/3.5.5-py3.")
    assert (driver, path, told) == ("./environment/bin/python", "path=", "unpacked")
    (controller,) = (data_dir / "emr-serverless").glob("*/*/*/controller")
    assert "Spark 3.5.5 of emr-7.9.0, from pip" in controller.read_text()


def test_a_runs_own_policies_limit_its_role(lab: Lab) -> None:
    """API_StartJobRun.html, executionIamPolicy: a document and managed policies are the session's."""
    made = lab.application()
    policy = (
        '{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"s3:*","Resource":"*"}}'
    )
    arns = ["arn:aws:iam::aws:policy/AmazonKinesisReadOnlyAccess"]
    limits = {"policy": policy, "policyArns": arns}
    run_id = lab.start(made, 'echo "$AWS_SESSION_TOKEN"', executionIamPolicy=limits)
    assert lab.ended(made, run_id)["state"] == "SUCCESS"
    token = lab.log(made, run_id, "stdout").strip()
    # What the session carries stands sealed, and readable, behind the seal.
    account, role, _, _, said, managed, *_ = msgspec.json.decode(base64.b64decode(token)[32:])
    assert (account, role, said, managed) == ("000000000000", "job", policy, arns)
