"""The operations that answer with the URLs of applications' UIs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api.emr.conftest import Lab

ENDPOINT = "http://127.0.0.1:4566"


def _arn(lab: Lab, cluster: str) -> str:
    return str(lab.emr.describe_cluster(ClusterId=cluster)["Cluster"]["ClusterArn"])


def _persistent(lab: Lab, cluster: str, **more: Any) -> str:
    answer = lab.emr.create_persistent_app_ui(TargetResourceArn=_arn(lab, cluster), **more)
    return str(answer["PersistentAppUIId"])


def _refused(lab: Lab, call: Any, **request: Any) -> str:
    with pytest.raises(lab.emr.exceptions.InvalidRequestException) as raised:
        call(**request)
    return str(raised.value.response["Error"]["Message"])


def _has_run(lab: Lab, cluster: str, step: str, application_id: str) -> None:
    folder = Path(lab.cloud.cloud.config.data_dir, "emr", cluster, step)
    (folder / "events" / f"eventlog_v2_{application_id}").mkdir(parents=True)


def test_a_persistent_ui_is_attached_and_described(lab: Lab) -> None:
    ui = _persistent(lab, lab.cluster(), Tags=[{"Key": "a", "Value": "b"}])
    found = lab.emr.describe_persistent_app_ui(PersistentAppUIId=ui)["PersistentAppUI"]
    assert found["PersistentAppUIId"] == ui
    assert found["PersistentAppUIStatus"] == "ATTACHED"
    assert found["PersistentAppUITypeList"] == ["SHS"]
    assert found["Tags"] == [{"Key": "a", "Value": "b"}]
    assert found["CreationTime"] == found["LastModifiedTime"]


def test_its_url_leads_to_the_history_though_the_cluster_has_ended(lab: Lab) -> None:
    cluster = lab.cluster(lab.step("true"))
    [step] = lab.steps(cluster)
    lab.ended(cluster, step["Id"])
    _has_run(lab, cluster, step["Id"], "local-7")
    lab.emr.terminate_job_flows(JobFlowIds=[cluster])
    lab.until(cluster, "TERMINATED")
    ui = _persistent(lab, cluster)
    url = lab.emr.get_persistent_app_ui_presigned_url
    answer = url(PersistentAppUIId=ui, PersistentAppUIType="SHS")
    assert answer["PresignedURLReady"] is True
    assert answer["PresignedURL"] == f"{ENDPOINT}/_headrace/emr/history"
    answer = url(PersistentAppUIId=ui, ApplicationId="local-7")
    assert answer["PresignedURL"] == f"{ENDPOINT}/_headrace/emr/history/local-7"
    said = _refused(lab, url, PersistentAppUIId=ui, ApplicationId="local-8")
    assert said == "Application id 'local-8' is not valid."
    assert "must be SHS" in _refused(lab, url, PersistentAppUIId=ui, PersistentAppUIType="TEZ")


def test_on_the_cluster_uis_are_the_history_the_live_one_and_the_status_page(
    lab: Lab, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    cluster = lab.cluster(lab.step("bash", "-c", f"until [ -e {go} ]; do sleep 0.05; done"))
    [step] = lab.steps(cluster)
    lab.begun(cluster, step["Id"])
    _has_run(lab, cluster, step["Id"], "local-7")
    folder = Path(lab.cloud.cloud.config.data_dir, "emr", cluster, step["Id"])
    (folder / "conf").mkdir()
    (folder / "conf" / "ui.log").write_text(
        "Successfully started service 'SparkUI' on port 40001.\n"
    )

    def url(kind: str, **more: str) -> str:
        answer = lab.emr.get_on_cluster_app_ui_presigned_url(
            ClusterId=cluster, OnClusterAppUIType=kind, **more
        )
        return str(answer["PresignedURL"])

    assert url("SparkHistoryServer") == f"{ENDPOINT}/_headrace/emr/history"
    assert url("ResourceManager") == f"{ENDPOINT}/_headrace/emr/{cluster}"
    assert url("ApplicationMaster", ApplicationId="local-7") == "http://127.0.0.1:40001"
    go.touch()
    lab.ended(cluster, step["Id"])
    call = lab.emr.get_on_cluster_app_ui_presigned_url
    said = _refused(
        lab, call, ClusterId=cluster, OnClusterAppUIType="ApplicationMaster",
        ApplicationId="local-7",
    )  # fmt: skip
    assert said == "Application id 'local-7' is not valid."
    assert "Spark only" in _refused(lab, call, ClusterId=cluster, OnClusterAppUIType="TezUI")


def test_in_cluster_mode_yarn_s_id_stands_for_spark_s(lab: Lab) -> None:
    # Without an application, the step ends before any Spark has begun.
    arguments = ("spark-submit", "--deploy-mode", "cluster", "s3://nowhere/job.py")
    cluster = lab.cluster(lab.step(*arguments))
    [step] = lab.steps(cluster)
    lab.ended(cluster, step["Id"])
    _has_run(lab, cluster, step["Id"], "local-7")
    created = lab.status(cluster)["Timeline"]["CreationDateTime"]
    yarn = f"application_{round(created.timestamp() * 1000)}_0001"
    answer = lab.emr.get_on_cluster_app_ui_presigned_url(ClusterId=cluster, ApplicationId=yarn)
    assert answer["PresignedURL"] == f"{ENDPOINT}/_headrace/emr/history/local-7"


@pytest.mark.parametrize(
    "arn",
    [
        "not-an-arn-but-long-enough",
        "arn:aws:elasticmapreduce:eu-west-1:000000000000:cluster/j-1",
        "arn:aws:elasticmapreduce:us-east-1:111111111111:cluster/j-1",
        "arn:aws:kinesis:us-east-1:000000000000:stream/s",
    ],
)
def test_a_persistent_ui_is_of_a_cluster_of_one_s_own(lab: Lab, arn: str) -> None:
    said = _refused(lab, lab.emr.create_persistent_app_ui, TargetResourceArn=arn)
    assert said == f"TargetResourceArn '{arn}' is not valid."


def test_what_is_not_there_is_refused(lab: Lab) -> None:
    cluster = lab.cluster()
    arn = _arn(lab, cluster)
    unknown = arn.replace(cluster, "j-NONE")
    create = lab.emr.create_persistent_app_ui
    assert "'j-NONE' is not valid" in _refused(lab, create, TargetResourceArn=unknown)
    assert "no Tez" in _refused(lab, create, TargetResourceArn=arn, ProfilerType="TEZUI")
    describe = lab.emr.describe_persistent_app_ui
    assert "'p-NONE' is not valid" in _refused(lab, describe, PersistentAppUIId="p-NONE")
    on_cluster = lab.emr.get_on_cluster_app_ui_presigned_url
    assert "'j-NONE' is not valid" in _refused(lab, on_cluster, ClusterId="j-NONE")
    lab.emr.terminate_job_flows(JobFlowIds=[cluster])
    lab.until(cluster, "TERMINATED")
    assert "has ended" in _refused(lab, on_cluster, ClusterId=cluster)


def test_persistent_uis_are_one_account_s_own(lab: Lab) -> None:
    ui = _persistent(lab, lab.cluster())
    other = lab.cloud.client("emr", account="111111111111")
    with pytest.raises(other.exceptions.InvalidRequestException):
        other.describe_persistent_app_ui(PersistentAppUIId=ui)
