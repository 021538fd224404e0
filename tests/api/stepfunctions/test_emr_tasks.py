"""Tasks of state machines that change EMR's clusters by the names of their parts, and EMR on EKS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.stepfunctions.test_state_machines import ended, task
from tests.support.cloud import InProcessCloud
from tests.support.emr import RELEASE, ROLES

MACHINE = {"InstanceType": "m5.xlarge"}
FLEETS = {
    "InstanceFleets": [
        {"Name": "m", "InstanceFleetType": "MASTER", "TargetOnDemandCapacity": 1},
        {"Name": "c", "InstanceFleetType": "CORE", "TargetOnDemandCapacity": 1},
    ]
}
GROUPS = {
    "InstanceGroups": [
        {"Name": "m", "InstanceRole": "MASTER", "InstanceCount": 1, **MACHINE},
        {"Name": "c", "InstanceRole": "CORE", "InstanceCount": 1, **MACHINE},
    ]
}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("emr-tasks") / "data") as cloud:
        yield cloud


def make_cluster(cloud: InProcessCloud, instances: dict[str, Any]) -> str:
    for fleet in instances.get("InstanceFleets", ()):
        fleet["InstanceTypeConfigs"] = [MACHINE]
    instances = {**instances, "KeepJobFlowAliveWhenNoSteps": True}
    made = cloud.client("emr").run_job_flow(
        Name="c", ReleaseLabel=RELEASE, Instances=instances, **ROLES
    )
    return str(made["JobFlowId"])


def resize(kind: str, name: str, change: dict[str, int], cluster: str) -> dict[str, Any]:
    given = {"ClusterId": cluster, f"Instance{kind}Name": name, f"Instance{kind}": change}
    return task(f"elasticmapreduce:modifyInstance{kind}ByName", given)


def test_a_fleet_and_a_group_are_resized_by_their_names(cloud: InProcessCloud):
    emr, of_fleets, of_groups = (
        cloud.client("emr"),
        *(make_cluster(cloud, instances) for instances in (FLEETS, GROUPS)),
    )
    done = ended(cloud, "fleet", resize("Fleet", "c", {"TargetOnDemandCapacity": 3}, of_fleets))
    assert done["status"] == "SUCCEEDED", done.get("cause")
    fleets = emr.list_instance_fleets(ClusterId=of_fleets)["InstanceFleets"]
    assert [fleet["TargetOnDemandCapacity"] for fleet in fleets] == [1, 3]
    done = ended(cloud, "group", resize("Group", "c", {"InstanceCount": 4}, of_groups))
    assert done["status"] == "SUCCEEDED", done.get("cause")
    groups = emr.list_instance_groups(ClusterId=of_groups)["InstanceGroups"]
    assert [group["RequestedInstanceCount"] for group in groups] == [1, 4]
    done = ended(cloud, "none", resize("Group", "x", {"InstanceCount": 4}, of_groups))
    error = "ElasticMapReduce.InvalidRequestException"
    assert (done["status"], done["error"]) == ("FAILED", error)
    assert "'x'" in done["cause"]


def test_a_job_run_of_emr_on_eks_fails_with_the_words_of_its_api(cloud: InProcessCloud):
    job = {"VirtualClusterId": "v", "ExecutionRoleArn": ROLES["JobFlowRole"], "JobDriver": {}}
    done = ended(cloud, "eks", task("emr-containers:startJobRun.sync", job))
    assert done["status"] == "FAILED"
    assert done["error"].startswith("EMRContainers.")


@pytest.mark.parametrize(
    "resource",
    ["elasticmapreduce:addSteps", "emr-serverless:startJob.sync", "athena:runQuery.sync"],
)
def test_an_action_that_a_service_does_not_have_is_refused(cloud: InProcessCloud, resource: str):
    with pytest.raises(ClientError, match="is not recognized"):
        ended(cloud, "unknown", task(resource, {}))
