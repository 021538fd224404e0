"""EMR on EKS: a job run is refused by name, instead of staying RUNNING for ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from tests.support.moto_lab import MotoLab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[MotoLab]:
    with MotoLab(tmp_path / "moto") as lab:
        yield lab


def test_a_job_run_is_refused_and_leaves_nothing(lab: MotoLab) -> None:
    client = lab.client("emr-containers")
    provider = {"type": "EKS", "id": "eks", "info": {"eksInfo": {"namespace": "n"}}}
    lab.client("eks").create_cluster(
        name="eks", roleArn="arn:aws:iam::000000000000:role/eks", resourcesVpcConfig={}
    )
    made = client.create_virtual_cluster(name="v", containerProvider=provider, clientToken="t")
    with pytest.raises(
        ClientError, match="headrace does not run job runs of EMR on EKS"
    ) as refusal:
        client.start_job_run(
            virtualClusterId=made["id"],
            clientToken="t",
            executionRoleArn="arn:aws:iam::000000000000:role/job",
            releaseLabel="emr-7.5.0-latest",
            jobDriver={"sparkSubmitJobDriver": {"entryPoint": "s3://code/none.py"}},
        )
    assert refusal.value.response["Error"]["Code"] == "NotImplemented"
    assert client.list_job_runs(virtualClusterId=made["id"])["jobRuns"] == []
