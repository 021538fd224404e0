"""Every member that a call takes is read back, or it is said why not. See `tests.support.read_back`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from headrace.services.emr.actions import ACTIONS
from headrace.services.emr.api import FIDELITY
from tests.support.cloud import InProcessCloud
from tests.support.emr import cluster_request
from tests.support.read_back import Case, Read, check, never_given, not_read_back, overlooked

GROUPS = [
    {"InstanceRole": "MASTER", "InstanceType": "m5.xlarge", "InstanceCount": 1},
    {"InstanceRole": "CORE", "InstanceType": "m5.xlarge", "InstanceCount": 2},
]
FLEETS = [
    {"InstanceFleetType": "MASTER", "TargetOnDemandCapacity": 1},
    {"InstanceFleetType": "CORE", "TargetOnDemandCapacity": 2},
]


def newest(client: Any) -> str:
    return str(client.list_clusters()["Clusters"][0]["Id"])


def cluster(client: Any) -> Mapping[str, Any]:
    return {"ClusterId": newest(client)}


def _first(client: Any, method: str, member: str, kind: str) -> str:
    found = getattr(client, method)(ClusterId=newest(client))[member]
    return str(next(one["Id"] for one in found if "CORE" in one.values() or not kind))


def group(client: Any) -> str:
    return _first(client, "list_instance_groups", "InstanceGroups", "CORE")


def fleet(client: Any) -> str:
    return _first(client, "list_instance_fleets", "InstanceFleets", "CORE")


def newest_step(client: Any) -> Mapping[str, Any]:
    steps = client.list_steps(**cluster(client))["Steps"]
    return {**cluster(client), "StepId": steps[0]["Id"]}


def run(instances: Mapping[str, Any]) -> Read:
    return ("RunJobFlow", cluster_request(Instances={**instances, **KEPT}))


KEPT = {"KeepJobFlowAliveWhenNoSteps": True}
OF_GROUPS, OF_FLEETS = run({"InstanceGroups": GROUPS}), run({"InstanceFleets": FLEETS})
DESCRIBE: Read = ("DescribeCluster", cluster)
JOB_FLOWS: Read = ("DescribeJobFlows", lambda client: {"JobFlowIds": [newest(client)]})
STEPS: Read = ("ListSteps", cluster)
LIST_GROUPS: Read = ("ListInstanceGroups", cluster)
LIST_FLEETS: Read = ("ListInstanceFleets", cluster)
# A deep structure, of which the maker would give numbers that contradict each other.
POLICY = {
    "Constraints": {"MinCapacity": 2, "MaxCapacity": 10},
    "Rules": [
        {
            "Name": "out",
            "Description": "more",
            "Action": {
                "Market": "SPOT",
                "SimpleScalingPolicyConfiguration": {
                    "AdjustmentType": "CHANGE_IN_CAPACITY",
                    "ScalingAdjustment": 1,
                    "CoolDown": 300,
                },
            },
            "Trigger": {
                "CloudWatchAlarmDefinition": {
                    "ComparisonOperator": "LESS_THAN",
                    "EvaluationPeriods": 3,
                    "Namespace": "AWS/ElasticMapReduce",
                    "Statistic": "MINIMUM",
                    "Unit": "PERCENT",
                    "MetricName": "YARNMemoryAvailablePercentage",
                    "Period": 300,
                    "Threshold": 15.0,
                    "Dimensions": [{"Key": "a", "Value": "b"}],
                }
            },
        }
    ],
}
LIMITS = {
    "UnitType": "Instances",
    "MinimumCapacityUnits": 2,
    "MaximumCapacityUnits": 10,
    "MaximumOnDemandCapacityUnits": 5,
    "MaximumCoreCapacityUnits": 4,
}
STEP = {"Name": "s", "ActionOnFailure": "CONTINUE", "HadoopJarStep": {"Jar": "s3://none/x.jar"}}

ROLE = "arn:aws:iam::000000000000:role/steps"
MONITORING = {
    "SecurityConfiguration": "kept",
    "StepExecutionRoleArn": ROLE,
    "MonitoringConfiguration": {
        "CloudWatchLogConfiguration": {
            "Enabled": True,
            "LogGroupName": "g",
            "LogStreamNamePrefix": "p",
            "EncryptionKeyArn": "arn:aws:kms:us-east-1:000000000000:key/k",
        }
    },
}
VOLUMES = {
    "InstanceFleet.InstanceTypeConfigs.EbsConfiguration.EbsBlockDeviceConfigs.VolumesPerInstance": (
        "as many volumes are listed"
    )
}
BID = {
    "InstanceFleet.InstanceTypeConfigs.BidPrice": "0.5",
    "InstanceFleet.InstanceTypeConfigs.EbsConfiguration.EbsBlockDeviceConfigs.VolumeSpecification.VolumeType": "gp3",
}
PERCENTAGE = {
    "InstanceFleet.InstanceTypeConfigs.BidPriceAsPercentageOfOnDemandPrice": "cannot be given with BidPrice"
}
CASES = [
    Case(
        "RunJobFlow",
        [
            DESCRIBE,
            JOB_FLOWS,
            LIST_GROUPS,
            ("ListBootstrapActions", cluster),
            STEPS,
            ("DescribeStep", newest_step),
            ("GetManagedScalingPolicy", cluster),
            ("GetAutoTerminationPolicy", cluster),
        ],
        given={
            **MONITORING,
            "ReleaseLabel": "emr-7.13.0",
            "LogUri": "s3://none/logs/",
            "Instances.InstanceGroups": [
                *({**g, "Name": g["InstanceRole"]} for g in GROUPS),
                {
                    "Name": "whole",
                    "InstanceRole": "TASK",
                    "InstanceType": "m5.xlarge",
                    "InstanceCount": 1,
                    "Market": "SPOT",
                    "BidPrice": "0.5",
                    "CustomAmiId": "ami-1",
                    "AutoScalingPolicy": POLICY,
                    "Configurations": [{"Classification": "spark", "Properties": {"a": "b"}}],
                    "EbsConfiguration": {
                        "EbsOptimized": True,
                        "EbsBlockDeviceConfigs": [
                            {
                                "VolumeSpecification": {
                                    "VolumeType": "gp3",
                                    "SizeInGB": 11,
                                    "Iops": 3001,
                                    "Throughput": 126,
                                },
                                "VolumesPerInstance": 1,
                            }
                        ],
                    },
                },
            ],
            "Instances.Ec2SubnetIds": ["subnet-1"],
            "BootstrapActions": [
                {"Name": "b", "ScriptBootstrapAction": {"Path": "s3://x/y", "Args": ["z"]}}
            ],
            "Configurations": [
                {"Classification": "spark", "Properties": {"a": "b"}, "Configurations": []}
            ],
            "ManagedScalingPolicy.ComputeLimits": LIMITS,
            "AutoTerminationPolicy.IdleTimeout": 77,
            "StepConcurrencyLevel": 3,
            "Steps": [STEP],
        },
        without={
            "AmiVersion": "cannot be given with a release",
            "SupportedProducts": "cannot be given with a release",
            "Instances.Ec2SubnetId": "cannot be given with Ec2SubnetIds",
            "Instances.InstanceFleets": "cannot be given with groups; test_fleets",
            "Instances.MasterInstanceType": "makes groups where none are given",
            "Instances.SlaveInstanceType": "makes groups where none are given",
            "Instances.InstanceCount": "makes groups where none are given",
            "CustomAmiId": "it is of the other case",
        },
        named={
            "JobFlowRole": "IamInstanceProfile",
            "Instances.InstanceGroups.InstanceCount": "RequestedInstanceCount",
            "Instances.Ec2SubnetIds": "RequestedEc2SubnetIds",
            "StepExecutionRoleArn": "ExecutionRoleArn",
        },
        unseen={
            "Instances.InstanceGroups.EbsConfiguration.EbsBlockDeviceConfigs.VolumesPerInstance": (
                "as many volumes are listed"
            )
        },
        title="groups",
    ),
    Case(
        "RunJobFlow",
        [DESCRIBE, JOB_FLOWS],
        given={
            **MONITORING,
            "AmiVersion": "3.11.0",
            "Instances": {"InstanceGroups": GROUPS, "Ec2SubnetId": "subnet-1", **KEPT},
        },
        without=dict.fromkeys(
            (
                "ReleaseLabel",
                "Applications",
                "CustomAmiId",
                "Steps",
                "ManagedScalingPolicy",
                "LogUri",
                "StepConcurrencyLevel",
                "BootstrapActions",
                "AutoTerminationPolicy",
                "Configurations",
                "MonitoringConfiguration",
            ),
            "it is of the other case",
        ),
        named={
            "JobFlowRole": "IamInstanceProfile",
            "Instances.InstanceGroups.InstanceCount": "InstanceRequestCount",
        },
        unseen={
            "StepExecutionRoleArn": "the first case",
        },
        title="an AMI",
    ),
    Case(
        "RunJobFlow",
        [DESCRIBE, JOB_FLOWS, LIST_GROUPS],
        given={
            **MONITORING,
            "Name": "c",
            "ReleaseLabel": "emr-7.13.0",
            "CustomAmiId": "ami-1",
            "Instances": {"InstanceGroups": GROUPS, **KEPT},
        },
        without=dict.fromkeys(
            (
                "AmiVersion",
                "SupportedProducts",
                "Steps",
                "ManagedScalingPolicy",
                "LogUri",
                "StepConcurrencyLevel",
                "BootstrapActions",
                "AutoTerminationPolicy",
                "Configurations",
            ),
            "it is of the other case",
        ),
        named={
            "JobFlowRole": "IamInstanceProfile",
            "Instances.InstanceGroups.InstanceCount": "RequestedInstanceCount",
        },
        unseen={"StepExecutionRoleArn": "the first case"},
        title="an image",
    ),
    Case(
        "AddInstanceGroups",
        [LIST_GROUPS],
        before=[OF_GROUPS],
        given={
            "JobFlowId": newest,
            "InstanceGroups.InstanceRole": "TASK",
            "InstanceGroups.Market": "SPOT",
            "InstanceGroups.BidPrice": "0.5",
            "InstanceGroups.AutoScalingPolicy": POLICY,
            "InstanceGroups.EbsConfiguration.EbsBlockDeviceConfigs.VolumesPerInstance": 2,
        },
        named={
            "InstanceGroups.InstanceRole": "InstanceGroupType",
            "InstanceGroups.InstanceCount": "RequestedInstanceCount",
        },
        unseen={
            "InstanceGroups.EbsConfiguration.EbsBlockDeviceConfigs.VolumesPerInstance": "as many volumes are listed",
        },
    ),
    Case(
        "AddInstanceFleet",
        [LIST_FLEETS],
        before=[OF_FLEETS],
        given={"ClusterId": newest, "InstanceFleet.InstanceFleetType": "TASK", **BID},
        without=PERCENTAGE,
        unseen=VOLUMES,
    ),
    Case(
        "ModifyInstanceFleet",
        [LIST_FLEETS],
        before=[OF_FLEETS],
        given={"ClusterId": newest, "InstanceFleet.InstanceFleetId": fleet, **BID},
        without=PERCENTAGE,
        named={"InstanceFleet.InstanceFleetId": "Id"},
        unseen={**VOLUMES, "ClusterId": "it is asked for"},
    ),
    Case(
        "ModifyInstanceGroups",
        [LIST_GROUPS, DESCRIBE],
        before=[OF_GROUPS],
        given={
            "ClusterId": newest,
            "InstanceGroups": lambda client: [
                {
                    "InstanceGroupId": group(client),
                    "InstanceCount": 5,
                    "ShrinkPolicy": {"DecommissionTimeout": 7},
                    "Configurations": [{"Classification": "spark", "Properties": {"a": "b"}}],
                }
            ],
        },
        named={
            "InstanceGroups.InstanceGroupId": "Id",
            "InstanceGroups.InstanceCount": "RequestedInstanceCount",
            "ClusterId": "Id",
        },
    ),
    Case(
        "AddJobFlowSteps",
        [STEPS, ("DescribeStep", newest_step)],
        before=[OF_GROUPS],
        given={
            "JobFlowId": newest,
            "Steps.ActionOnFailure": "CONTINUE",
            "Steps.HadoopJarStep.Jar": "s3://none/x.jar",
            "Steps.StepMonitoringConfiguration.S3MonitoringConfiguration.LogUri": "s3://none/logs/",
            "ExecutionRoleArn": "arn:aws:iam::000000000000:role/step",
        },
        unseen={"JobFlowId": "the cluster is asked for its steps"},
    ),
    Case(
        "AddTags",
        [DESCRIBE],
        title="of a cluster",
        before=[OF_GROUPS],
        given={"ResourceId": newest},
        named={"ResourceId": "Id"},
    ),
    Case(
        "CreatePersistentAppUI",
        [("DescribePersistentAppUI", {"PersistentAppUIId": "p-NONE"})],
        title="skipped: its id is not known before; tests/api/emr/test_app_uis.py",
    ),
    Case(
        "CreateSecurityConfiguration",
        [("DescribeSecurityConfiguration", {"Name": "sec"})],
        given={"Name": "sec", "SecurityConfiguration": "{}"},
    ),
    Case(
        "ModifyCluster",
        [DESCRIBE],
        before=[OF_GROUPS],
        given={"ClusterId": newest, "StepConcurrencyLevel": 9},
        named={"ClusterId": "Id"},
    ),
    Case(
        "PutAutoScalingPolicy",
        [LIST_GROUPS],
        before=[OF_GROUPS],
        given={"ClusterId": newest, "InstanceGroupId": group, "AutoScalingPolicy": POLICY},
    ),
    Case(
        "PutAutoTerminationPolicy",
        [("GetAutoTerminationPolicy", cluster), DESCRIBE],
        before=[OF_GROUPS],
        given={"ClusterId": newest, "AutoTerminationPolicy.IdleTimeout": 77},
        named={"ClusterId": "Id"},
    ),
    Case(
        "PutBlockPublicAccessConfiguration",
        [("GetBlockPublicAccessConfiguration", {})],
        given={
            "BlockPublicAccessConfiguration.PermittedPublicSecurityGroupRuleRanges": [
                {"MinRange": 22, "MaxRange": 23}
            ]
        },
    ),
    Case(
        "PutManagedScalingPolicy",
        [("GetManagedScalingPolicy", cluster), DESCRIBE],
        before=[OF_GROUPS],
        given={"ClusterId": newest, "ManagedScalingPolicy.ComputeLimits": LIMITS},
        named={"ClusterId": "Id"},
    ),
    *(
        Case(
            f"Set{name}",
            [DESCRIBE, JOB_FLOWS],
            before=[OF_GROUPS],
            given={"JobFlowIds": lambda client: [newest(client)]},
            unseen={"JobFlowIds": "the cluster is asked for"},
        )
        for name in (
            "KeepJobFlowAliveWhenNoSteps",
            "TerminationProtection",
            "UnhealthyNodeReplacement",
            "VisibleToAllUsers",
        )
    ),
]


@pytest.fixture(scope="module")
def emr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with InProcessCloud(tmp_path_factory.mktemp("emr"), spark="installed") as cloud:
        client = cloud.client("emr")
        client.create_security_configuration(Name="kept", SecurityConfiguration="{}")
        yield client


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if not case.title.startswith("skipped")],
    ids=lambda case: f"{case.operation} {case.title}".strip(),
)
def test_what_a_call_takes_is_read_back(emr: Any, case: Case):
    assert check("emr", case, emr, FIDELITY) == []


def test_every_call_that_keeps_something_is_read_back():
    assert not_read_back("emr", ACTIONS, CASES) == []
    assert never_given("emr", CASES) == []
    assert overlooked("emr", CASES) == []


def test_fleets_are_read_back(emr: Any):
    fleets = [{**one, "Name": one["InstanceFleetType"]} for one in FLEETS]
    emr.run_job_flow(**cluster_request(Instances={"InstanceFleets": fleets, **KEPT}))
    found = emr.list_instance_fleets(**cluster(emr))["InstanceFleets"]
    for given, shown in zip(fleets, found, strict=True):
        assert given.items() <= shown.items()
