"""RunJobFlow refuses what AWS refuses, in AWS's words (those that Yelp/mrjob's mock of EMR repeats)."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.emr.conftest import Lab
from tests.support.emr import ONE_MASTER, cluster_request

[MASTER] = ONE_MASTER
CORE, TASK = {**MASTER, "InstanceRole": "CORE"}, {**MASTER, "InstanceRole": "TASK"}
ONE_KIND = (
    "Please configure instances using one and only one of the following: instance groups; instance fleets; instance "
    "count, master and slave instance type."
)
REVISE = "Revise the configuration and resubmit."
NO_CAPACITY = (
    "The instance fleet (null) should have a value of one or greater for either targetOnDemandCapacity or "
    "targetSpotCapacity."
)


def bootstrap_action(name: str) -> dict[str, Any]:
    return {"Name": name, "ScriptBootstrapAction": {"Path": "s3://scripts/a.sh"}}


def groups(*some: dict[str, Any]) -> dict[str, Any]:
    return {"Instances": {"InstanceGroups": list(some)}}


def fleet(kind: str, capacity: int = 1, *types: dict[str, Any]) -> dict[str, Any]:
    configs = list(types) or [{"InstanceType": "m5.xlarge"}]
    return {
        "InstanceFleetType": kind,
        "TargetOnDemandCapacity": capacity,
        "InstanceTypeConfigs": configs,
    }


def fleets(*some: dict[str, Any]) -> dict[str, Any]:
    return {"Instances": {"InstanceFleets": list(some)}}


def spot(price: str) -> dict[str, Any]:
    return groups(MASTER, {**CORE, "Market": "SPOT", "BidPrice": price})


def fleet_of(config: dict[str, Any]) -> dict[str, Any]:
    return fleets(fleet("MASTER"), fleet("CORE", 1, {"InstanceType": "m5.xlarge", **config}))


def volume(**specification: Any) -> dict[str, Any]:
    volumes = [{"VolumeSpecification": {"SizeInGB": 10, **specification}}]
    return groups(MASTER, {**CORE, "EbsConfiguration": {"EbsBlockDeviceConfigs": volumes}})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"SecurityConfiguration": "none"},
            "Security configuration with name 'none' does not exist.",
        ),
        (
            {"BootstrapActions": [bootstrap_action(f"b{n}") for n in range(17)]},
            "Maximum number of bootstrap actions for cluster exceeded. The maximum is 16.",
        ),
        ({"ServiceRole": None}, "ServiceRole is required for creating cluster."),
        ({"JobFlowRole": None}, "InstanceProfile is required for creating cluster."),
        (
            {"ReleaseLabel": None},
            "Must specify exactly one of the following: release label, AMI version, or Hadoop version.",
        ),
        ({"ReleaseLabel": None, "AmiVersion": "4.0.0"}, "The supplied ami version is invalid."),
        (
            {"SupportedProducts": ["mapr"]},
            "Cannot specify supported products when release label is used. Specify applications instead.",
        ),
        (
            {"ReleaseLabel": None, "AmiVersion": "3.11.0", "Applications": [{"Name": "Spark"}]},
            (
                "Cannot specify applications when AMI version is used. Specify supported products or new supported "
                "products instead."
            ),
        ),
        (
            {
                "ReleaseLabel": None,
                "AmiVersion": "3.11.0",
                "Configurations": [{"Classification": "s"}],
            },
            "Cannot specify configurations when AMI version is used.",
        ),
        (
            {"ReleaseLabel": None, "AmiVersion": "3.11.0", **fleets(fleet("MASTER"))},
            "Instance fleets are not available for the release.",
        ),
        (
            {"StepConcurrencyLevel": 300},
            "Invalid step concurrency level. Allowed level is from 1 to 256",
        ),
        (
            {"Instances": {}},
            "Zero master instance groups supplied, you must specify exactly one master instance group",
        ),
        (
            groups(CORE),
            "Zero master instance groups supplied, you must specify exactly one master instance group",
        ),
        (
            groups(MASTER, MASTER),
            "Multiple master instance groups supplied, you must specify exactly one master instance group",
        ),
        (
            groups(MASTER, CORE, CORE),
            "Multiple core instance groups supplied, you must specify exactly one core instance group",
        ),
        (groups(MASTER, TASK), "Clusters with task nodes must also define core nodes."),
        (
            groups(MASTER, {**CORE, "InstanceCount": 0}),
            "An instance group must have at least one instance",
        ),
        (
            groups({**MASTER, "InstanceCount": 2}),
            "Master instance group must have exactly 3 instances for HA clusters.",
        ),
        (spot("0"), "The bid price is negative or zero."),
        (spot("-1"), "The bid price is negative or zero."),
        (spot("NaN"), "The bid price supplied for an instance group is invalid"),
        (spot("cheap"), "The bid price supplied for an instance group is invalid"),
        (spot("0.12345"), "No more than 3 digits are allowed after decimal place in bid price"),
        (
            groups(MASTER, {**CORE, "BidPrice": "0.1"}),
            "Attempted to set bid price for on demand instance group.",
        ),
        (volume(VolumeType="io1"), "IOPS setting is required for volume type."),
        (volume(VolumeType="gp2", Iops=300), "IOPS setting is not supported for volume type"),
        (
            {"Instances": {"InstanceGroups": [MASTER], "InstanceFleets": [fleet("MASTER")]}},
            ONE_KIND,
        ),
        ({"Instances": {"InstanceGroups": [MASTER], "InstanceCount": 3}}, ONE_KIND),
        (
            {"Instances": {"InstanceFleets": [fleet("MASTER")], "MasterInstanceType": "m5.xlarge"}},
            ONE_KIND,
        ),
        (
            {"Instances": {"InstanceGroups": [MASTER], "Ec2SubnetIds": ["subnet-1", "subnet-2"]}},
            (
                "Only one subnet may be specified for clusters configured with instance groups or instance count, "
                f"master and slave instance type. {REVISE}"
            ),
        ),
        (
            {
                "Instances": {
                    "InstanceFleets": [fleet("MASTER")],
                    "Ec2SubnetId": "subnet-1",
                    "Ec2SubnetIds": ["subnet-2"],
                }
            },
            "Only one of Ec2SubnetId and Ec2SubnetIds may be specified.",
        ),
        (
            fleets(fleet("MASTER", 2)),
            f"A master instance fleet can only have a target capacity of 1. {REVISE}",
        ),
        (fleets(fleet("MASTER"), fleet("CORE", 0)), NO_CAPACITY),
        (
            fleets(fleet("CORE")),
            "No master instance fleets were supplied; you must specify exactly one master instance fleet. "
            + REVISE,
        ),
        (
            fleets(fleet("MASTER"), fleet("TASK")),
            "Clusters with task instance fleets must also define core instance fleets.",
        ),
        (
            fleets(fleet("MASTER"), fleet("CORE"), fleet("CORE")),
            "Multiple core instance groups supplied, you must specify exactly one core instance group",
        ),
        (
            fleets(fleet("MASTER", 1, *[{"InstanceType": "m5.xlarge"}] * 2)),
            f"The instance fleet: null contains duplicate instance types [m5.xlarge]. {REVISE}",
        ),
        (
            fleets(fleet("MASTER", 1, {"InstanceType": "m5.xlarge", "WeightedCapacity": 2})),
            f"All instance types in the master instance fleet must have weighted capacity as 1. {REVISE}",
        ),
        (fleet_of({"WeightedCapacity": 0}), f"Weighted capacity cannot be zero. {REVISE}"),
        (
            fleet_of({"BidPrice": "0.1", "BidPriceAsPercentageOfOnDemandPrice": 50.0}),
            (
                "Specify at most one of bidPrice or bidPriceAsPercentageOfOnDemandPrice value for the Spot Instance "
                "fleet : null request."
            ),
        ),
        (
            fleet_of({"BidPrice": "0.12345"}),
            "No more than 3 digits are allowed after decimal place in bid price",
        ),
        (
            fleet_of({"BidPrice": "cheap"}),
            "The bid price supplied for an instance fleet is invalid",
        ),
    ],
)
def test_what_aws_refuses_is_refused_in_its_words(
    lab: Lab, change: dict[str, Any], message: str
) -> None:
    request = cluster_request(**change)
    request = {name: value for name, value in request.items() if value is not None}
    with pytest.raises(ClientError) as refusal:
        lab.emr.run_job_flow(**request)
    error = refusal.value.response["Error"]
    assert (error["Code"], error["Message"]) == ("ValidationException", message)
    assert lab.emr.list_clusters()["Clusters"] == []


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"BootstrapActions": [bootstrap_action(f"b{n}") for n in range(16)]},
        groups(MASTER, CORE, TASK, TASK),
        groups({**MASTER, "InstanceCount": 3}),
        spot("0.125"),
        volume(VolumeType="gp3", Iops=3000),
        {"Instances": {"MasterInstanceType": "m5.xlarge", "InstanceCount": 3}},
        {"Instances": {"InstanceGroups": [MASTER], "Ec2SubnetIds": ["subnet-1"]}},
        {
            "Instances": {
                "InstanceFleets": [fleet("MASTER")],
                "Ec2SubnetIds": ["subnet-1", "subnet-2"],
            }
        },
        fleet_of({"WeightedCapacity": 4, "BidPrice": "0.5"}),
    ],
)
def test_what_aws_takes_is_taken(lab: Lab, change: dict[str, Any]) -> None:
    assert lab.emr.run_job_flow(**cluster_request(**change))["JobFlowId"]
