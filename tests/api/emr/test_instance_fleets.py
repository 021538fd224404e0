"""Fleets are shown as they were asked for."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from tests.api.emr.conftest import Lab


def test_fleets_are_listed_and_end_with_their_cluster(lab: Lab) -> None:
    fleets = [
        {
            "InstanceFleetType": "MASTER",
            "TargetOnDemandCapacity": 1,
            "InstanceTypeConfigs": [{"InstanceType": "m5.xlarge"}],
        },
        {
            "Name": "workers",
            "InstanceFleetType": "CORE",
            "TargetSpotCapacity": 4,
            "InstanceTypeConfigs": [{"InstanceType": "r5.xlarge", "WeightedCapacity": 2}],
        },
    ]
    cluster_id = lab.cluster(Instances={"InstanceFleets": fleets})

    master, core = lab.emr.list_instance_fleets(ClusterId=cluster_id)["InstanceFleets"]

    assert master["Id"] != core["Id"]
    assert (master["InstanceFleetType"], master["ProvisionedOnDemandCapacity"]) == ("MASTER", 1)
    assert (core["Name"], core["ProvisionedSpotCapacity"]) == ("workers", 4)
    assert core["InstanceTypeSpecifications"][0]["WeightedCapacity"] == 2

    lab.emr.terminate_job_flows(JobFlowIds=[cluster_id])
    lab.until(cluster_id, "TERMINATED")
    core = lab.emr.list_instance_fleets(ClusterId=cluster_id)["InstanceFleets"][1]
    assert (core["Status"]["State"], core["ProvisionedSpotCapacity"]) == ("TERMINATED", 0)
    assert core["TargetSpotCapacity"] == 4


def test_a_cluster_of_groups_has_no_fleets(lab: Lab) -> None:
    with pytest.raises(ClientError, match="uses instance groups") as caught:
        lab.emr.list_instance_fleets(ClusterId=lab.cluster())
    assert caught.value.response["Error"]["Code"] == "InvalidRequestException"
