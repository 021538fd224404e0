"""Groups, fleets and their instances: added, resized, listed, though no machines are behind them."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.emr.conftest import Lab

MASTER = {"InstanceRole": "MASTER", "InstanceType": "m5.xlarge", "InstanceCount": 1}
CORE = {"InstanceRole": "CORE", "InstanceType": "r5.xlarge", "InstanceCount": 2}
TASK = {"InstanceRole": "TASK", "InstanceType": "c5.xlarge", "InstanceCount": 3, "Market": "SPOT"}


def fleet(kind: str, on_demand: int = 0, spot: int = 0, weight: int = 1) -> dict[str, Any]:
    return {
        "InstanceFleetType": kind,
        "TargetOnDemandCapacity": on_demand,
        "TargetSpotCapacity": spot,
        "InstanceTypeConfigs": [{"InstanceType": "m5.xlarge", "WeightedCapacity": weight}],
    }


def of_groups(lab: Lab) -> str:
    return lab.cluster(Instances={"InstanceGroups": [MASTER, CORE]})


def of_fleets(lab: Lab) -> str:
    return lab.cluster(
        Instances={"InstanceFleets": [fleet("MASTER", on_demand=1), fleet("CORE", spot=4)]}
    )


def groups(lab: Lab, cluster_id: str) -> dict[str, Any]:
    found = lab.emr.list_instance_groups(ClusterId=cluster_id)["InstanceGroups"]
    return {group["InstanceGroupType"]: group for group in found}


def fleets(lab: Lab, cluster_id: str) -> dict[str, Any]:
    found = lab.emr.list_instance_fleets(ClusterId=cluster_id)["InstanceFleets"]
    return {item["InstanceFleetType"]: item for item in found}


# --- groups -----------------------------------------------------------------------------------


def test_a_task_group_is_added(lab: Lab) -> None:
    cluster_id = of_groups(lab)
    answer = lab.emr.add_instance_groups(JobFlowId=cluster_id, InstanceGroups=[TASK])
    assert answer["JobFlowId"] == cluster_id
    assert answer["ClusterArn"].endswith(f":cluster/{cluster_id}")
    added = groups(lab, cluster_id)["TASK"]
    assert answer["InstanceGroupIds"] == [added["Id"]]
    assert (added["RequestedInstanceCount"], added["Market"]) == (3, "SPOT")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([MASTER], "already has an instance group of the role MASTER"),
        ([TASK, CORE], "already has an instance group of the role CORE"),
        ([{**TASK, "InstanceCount": 0}], "must have at least one instance"),
        ([TASK] * 49, "at most 48 task instance groups"),
    ],
)
def test_groups_that_cannot_be_added_leave_the_cluster_as_it_was(
    lab: Lab, more: list[Any], message: str
) -> None:
    cluster_id = of_groups(lab)
    with pytest.raises(ClientError, match=message) as caught:
        lab.emr.add_instance_groups(JobFlowId=cluster_id, InstanceGroups=more)
    assert caught.value.response["Error"]["Code"] == "ValidationException"
    assert set(groups(lab, cluster_id)) == {"MASTER", "CORE"}


@pytest.mark.parametrize("named", [True, False])
def test_a_group_is_resized(lab: Lab, *, named: bool) -> None:
    cluster_id = of_groups(lab)
    change = {"InstanceGroupId": groups(lab, cluster_id)["CORE"]["Id"], "InstanceCount": 5}
    cluster = {"ClusterId": cluster_id} if named else {}
    lab.emr.modify_instance_groups(InstanceGroups=[change], **cluster)
    assert groups(lab, cluster_id)["CORE"]["RequestedInstanceCount"] == 5
    listed = lab.emr.list_instances(ClusterId=cluster_id, InstanceGroupTypes=["CORE"])["Instances"]
    assert len({instance["Ec2InstanceId"] for instance in listed}) == 5


def test_groups_are_resized_all_or_none(lab: Lab) -> None:
    cluster_id = of_groups(lab)
    found = groups(lab, cluster_id)
    changes = [{"InstanceGroupId": found[r]["Id"], "InstanceCount": 9} for r in ("CORE", "MASTER")]
    with pytest.raises(ClientError, match="master instance group cannot be resized"):
        lab.emr.modify_instance_groups(ClusterId=cluster_id, InstanceGroups=changes)
    assert groups(lab, cluster_id)["CORE"]["RequestedInstanceCount"] == 2
    with pytest.raises(ClientError, match="Instance group id 'ig-NONE' is not valid"):
        lab.emr.modify_instance_groups(InstanceGroups=[{"InstanceGroupId": "ig-NONE"}])


def test_an_ended_cluster_takes_no_groups(lab: Lab) -> None:
    cluster_id = of_groups(lab)
    lab.emr.terminate_job_flows(JobFlowIds=[cluster_id])
    with pytest.raises(ClientError, match="may not be modified"):
        lab.emr.add_instance_groups(JobFlowId=cluster_id, InstanceGroups=[TASK])


# --- fleets -----------------------------------------------------------------------------------


def test_a_task_fleet_is_added_and_resized(lab: Lab) -> None:
    cluster_id = of_fleets(lab)
    answer = lab.emr.add_instance_fleet(
        ClusterId=cluster_id, InstanceFleet=fleet("TASK", spot=8, weight=4)
    )
    added = fleets(lab, cluster_id)["TASK"]
    assert answer["InstanceFleetId"] == added["Id"]
    assert added["TargetSpotCapacity"] == 8
    named = {"ClusterId": cluster_id, "InstanceFleetId": added["Id"]}
    assert len(lab.emr.list_instances(**named)["Instances"]) == 2
    change = {"InstanceFleetId": added["Id"], "TargetSpotCapacity": 12}
    lab.emr.modify_instance_fleet(ClusterId=cluster_id, InstanceFleet=change)
    assert fleets(lab, cluster_id)["TASK"]["TargetSpotCapacity"] == 12
    assert len(lab.emr.list_instances(**named)["Instances"]) == 3


def test_a_fleet_is_one_of_its_kind_and_has_a_capacity(lab: Lab) -> None:
    cluster_id = of_fleets(lab)
    with pytest.raises(ClientError, match="already has an instance fleet of the type CORE"):
        lab.emr.add_instance_fleet(ClusterId=cluster_id, InstanceFleet=fleet("CORE", spot=1))
    with pytest.raises(ClientError, match="should have a value of one or greater"):
        lab.emr.add_instance_fleet(ClusterId=cluster_id, InstanceFleet=fleet("TASK"))
    for change, message in (
        ({"InstanceFleetId": "if-NONE"}, "Instance fleet id 'if-NONE' is not valid"),
        (
            {"InstanceFleetId": fleets(lab, cluster_id)["CORE"]["Id"], "TargetSpotCapacity": 0},
            "needs a capacity",
        ),
        ({"InstanceFleetId": fleets(lab, cluster_id)["MASTER"]["Id"]}, "cannot be resized"),
    ):
        with pytest.raises(ClientError, match=message):
            lab.emr.modify_instance_fleet(ClusterId=cluster_id, InstanceFleet=change)


# --- groups and fleets ------------------------------------------------------------------------


def test_a_cluster_has_groups_or_fleets(lab: Lab) -> None:
    both = {"InstanceGroups": [MASTER], "InstanceFleets": [fleet("MASTER", on_demand=1)]}
    with pytest.raises(ClientError, match="using one and only one of the following"):
        lab.cluster(Instances=both)
    cluster_id = of_fleets(lab)
    with pytest.raises(ClientError, match="Use the ListInstanceFleets request instead"):
        lab.emr.list_instance_groups(ClusterId=cluster_id)
    with pytest.raises(ClientError, match="Use the AddInstanceFleet request instead"):
        lab.emr.add_instance_groups(JobFlowId=cluster_id, InstanceGroups=[TASK])
    with pytest.raises(ClientError, match="uses instance fleets"):
        lab.emr.list_instances(ClusterId=cluster_id, InstanceGroupTypes=["CORE"])
    with pytest.raises(ClientError, match="Use the AddInstanceGroups request instead"):
        lab.emr.add_instance_fleet(
            ClusterId=of_groups(lab), InstanceFleet=fleet("TASK", on_demand=1)
        )


def test_instances_are_those_of_the_groups_and_end_with_the_cluster(lab: Lab) -> None:
    cluster_id = of_groups(lab)
    running = lab.emr.list_instances(ClusterId=cluster_id, InstanceStates=["RUNNING"])["Instances"]
    assert sorted(instance["InstanceType"] for instance in running) == [
        "m5.xlarge",
        "r5.xlarge",
        "r5.xlarge",
    ]
    lab.emr.terminate_job_flows(JobFlowIds=[cluster_id])
    lab.until(cluster_id, "TERMINATED")
    assert lab.emr.list_instances(ClusterId=cluster_id, InstanceStates=["RUNNING"])[
        "Instances"
    ] == ([])
    ended = lab.emr.list_instances(ClusterId=cluster_id)["Instances"]
    assert [item["Id"] for item in ended] == [item["Id"] for item in running]
