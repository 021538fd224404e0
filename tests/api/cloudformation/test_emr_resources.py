"""EMR's resource types: clusters whole, instance groups, security configurations."""

from __future__ import annotations

import json
from typing import Any

from tests.support.cloud import InProcessCloud
from tests.support.emr import RELEASE, ROLES

VOLUMES = {
    "EbsOptimized": True,
    "EbsBlockDeviceConfigs": [
        {"VolumeSpecification": {"VolumeType": "gp3", "SizeInGB": "64"}, "VolumesPerInstance": "2"}
    ],
}
SCALING = {
    "Constraints": {"MinCapacity": "1", "MaxCapacity": 5},
    "Rules": [
        {
            "Name": "out",
            "Action": {"SimpleScalingPolicyConfiguration": {"ScalingAdjustment": "1"}},
            "Trigger": {
                "CloudWatchAlarmDefinition": {
                    "ComparisonOperator": "LESS_THAN",
                    "MetricName": "YARNMemoryAvailablePercentage",
                    "Period": "300",
                    "Threshold": "15",
                }
            },
        }
    ],
}


def cluster(instances: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    groups = {
        "MasterInstanceGroup": {"InstanceCount": 1, "InstanceType": "m5.xlarge"},
        "CoreInstanceGroup": {
            "InstanceCount": "2",
            "InstanceType": "m5.xlarge",
            "EbsConfiguration": VOLUMES,
        },
    }
    properties = {
        "Name": "c",
        "ReleaseLabel": RELEASE,
        **ROLES,
        "Instances": instances or groups,
        **more,
    }
    return {"Type": "AWS::EMR::Cluster", "Properties": properties}


def group(count: int, **more: Any) -> dict[str, Any]:
    return {
        "Type": "AWS::EMR::InstanceGroupConfig",
        "Properties": {
            "InstanceCount": count,
            "InstanceRole": "TASK",
            "InstanceType": "c5.xlarge",
            "JobFlowId": {"Ref": "C"},
            "Name": "task",
            **more,
        },
    }


def deploy(cfn: Any, **resources: Any) -> dict[str, str]:
    """Make or change the stack; return the physical ids."""
    template = json.dumps({"Resources": resources})
    try:
        cfn.create_stack(StackName="s", TemplateBody=template)
        waiter = "stack_create_complete"
    except cfn.exceptions.AlreadyExistsException:
        cfn.update_stack(StackName="s", TemplateBody=template)
        waiter = "stack_update_complete"
    cfn.get_waiter(waiter).wait(StackName="s", WaiterConfig={"Delay": 0, "MaxAttempts": 400})
    found = cfn.describe_stack_resources(StackName="s")["StackResources"]
    return {resource["LogicalResourceId"]: resource["PhysicalResourceId"] for resource in found}


def test_groups_have_their_volumes_and_policies(cloud: InProcessCloud, cfn: Any):
    made = deploy(cfn, C=cluster(), G=group(3, AutoScalingPolicy=SCALING))
    emr = cloud.client("emr")
    shown = emr.list_instance_groups(ClusterId=made["C"])["InstanceGroups"]
    assert [one["InstanceGroupType"] for one in shown] == ["MASTER", "CORE", "TASK"]
    assert [one["Device"] for one in shown[1]["EbsBlockDevices"]] == ["/dev/sdb", "/dev/sdc"]
    assert shown[1]["EbsOptimized"] is True
    assert shown[2]["Id"] == made["G"]
    policy = shown[2]["AutoScalingPolicy"]
    assert policy["Constraints"] == {"MinCapacity": 1, "MaxCapacity": 5}
    assert policy["Rules"][0]["Trigger"]["CloudWatchAlarmDefinition"]["Threshold"] == 15.0


def test_a_group_is_resized_in_place_and_emptied_in_the_end(cloud: InProcessCloud, cfn: Any):
    made = deploy(cfn, C=cluster(), G=group(3, AutoScalingPolicy=SCALING))
    again = deploy(cfn, C=cluster(), G=group(5))
    assert again == made
    emr = cloud.client("emr")
    shown = emr.list_instance_groups(ClusterId=made["C"])["InstanceGroups"][2]
    assert shown["RequestedInstanceCount"] == 5
    assert "AutoScalingPolicy" not in shown
    deploy(cfn, C=cluster())
    shown = emr.list_instance_groups(ClusterId=made["C"])["InstanceGroups"][2]
    assert shown["RequestedInstanceCount"] == 0


def test_fleets_and_settings_reach_the_cluster(cloud: InProcessCloud, cfn: Any):
    fleets = {
        "MasterInstanceFleet": {"TargetOnDemandCapacity": "1"},
        "CoreInstanceFleet": {
            "TargetSpotCapacity": 4,
            "InstanceTypeConfigs": [
                {"InstanceType": "m5.xlarge", "WeightedCapacity": "2", "EbsConfiguration": VOLUMES}
            ],
        },
        "Placement": {"AvailabilityZone": "us-east-1b"},
    }
    limits = {"UnitType": "InstanceFleetUnits", "MinimumCapacityUnits": "2"}
    managed = {"ComputeLimits": {**limits, "MaximumCapacityUnits": "10"}}
    made = deploy(cfn, C=cluster(fleets, EbsRootVolumeSize="50", ManagedScalingPolicy=managed))
    emr = cloud.client("emr")
    described = emr.describe_cluster(ClusterId=made["C"])["Cluster"]
    assert described["EbsRootVolumeSize"] == 50
    assert described["InstanceCollectionType"] == "INSTANCE_FLEET"
    assert described["Ec2InstanceAttributes"]["Ec2AvailabilityZone"] == "us-east-1b"
    core = emr.list_instance_fleets(ClusterId=made["C"])["InstanceFleets"][1]
    assert core["TargetSpotCapacity"] == 4
    assert len(core["InstanceTypeSpecifications"][0]["EbsBlockDevices"]) == 2
    policy = emr.get_managed_scaling_policy(ClusterId=made["C"])["ManagedScalingPolicy"]
    assert policy["ComputeLimits"]["MaximumCapacityUnits"] == 10


def test_managed_scaling_changes_in_place(cloud: InProcessCloud, cfn: Any):
    def managed(most: int) -> dict[str, Any]:
        limits = {"UnitType": "Instances", "MinimumCapacityUnits": 1}
        return {"ComputeLimits": {**limits, "MaximumCapacityUnits": most}}

    made = deploy(cfn, C=cluster(ManagedScalingPolicy=managed(4)))
    assert deploy(cfn, C=cluster(ManagedScalingPolicy=managed(9))) == made
    emr = cloud.client("emr")
    policy = emr.get_managed_scaling_policy(ClusterId=made["C"])["ManagedScalingPolicy"]
    assert policy["ComputeLimits"]["MaximumCapacityUnits"] == 9
    deploy(cfn, C=cluster())
    assert "ManagedScalingPolicy" not in emr.get_managed_scaling_policy(ClusterId=made["C"])


def test_sizes_flags_and_policies_change_in_place(cloud: InProcessCloud, cfn: Any):
    def described(core: int, tasks: list[int], type_of_task: str = "m5.xlarge", **more: Any):
        machine = {"InstanceType": "m5.xlarge"}
        groups: dict[str, Any] = {
            "MasterInstanceGroup": {"InstanceCount": 1, **machine},
            "CoreInstanceGroup": {"InstanceCount": core, **machine},
            "TaskInstanceGroups": [
                {"InstanceCount": count, "InstanceType": type_of_task, "Name": f"t{at}"}
                for at, count in enumerate(tasks)
            ],
        }
        flags = {name: more.pop(name) for name in ("TerminationProtected",) if name in more}
        return cluster({**groups, **flags}, **more)

    def sizes(cluster_id: str) -> list[int]:
        groups = cloud.client("emr").list_instance_groups(ClusterId=cluster_id)["InstanceGroups"]
        return [group["RequestedInstanceCount"] for group in groups]

    emr = cloud.client("emr")
    made = deploy(cfn, C=described(2, [1, 1]))
    settings = {"StepConcurrencyLevel": 3, "AutoTerminationPolicy": {"IdleTimeout": "7200"}}
    assert deploy(cfn, C=described(4, [1, 6], TerminationProtected="true", **settings)) == made
    assert sizes(made["C"]) == [1, 4, 1, 6]
    shown = emr.describe_cluster(ClusterId=made["C"])["Cluster"]
    assert (shown["TerminationProtected"], shown["StepConcurrencyLevel"]) == (True, 3)
    policy = emr.get_auto_termination_policy(ClusterId=made["C"])["AutoTerminationPolicy"]
    assert policy == {"IdleTimeout": 7200}
    assert deploy(cfn, C=described(4, [1, 6])) == made
    shown = emr.describe_cluster(ClusterId=made["C"])["Cluster"]
    assert (shown["TerminationProtected"], shown["StepConcurrencyLevel"]) == (False, 1)
    assert "AutoTerminationPolicy" not in emr.get_auto_termination_policy(ClusterId=made["C"])
    assert deploy(cfn, C=described(4, [1, 6], "m5.2xlarge")) != made


def test_the_capacity_of_a_core_fleet_changes_in_place(cloud: InProcessCloud, cfn: Any):
    def described(spot: int) -> dict[str, Any]:
        types = {"InstanceTypeConfigs": [{"InstanceType": "m5.xlarge"}]}
        return cluster(
            {
                "MasterInstanceFleet": {"TargetOnDemandCapacity": 1, **types},
                "CoreInstanceFleet": {"TargetSpotCapacity": spot, **types},
            }
        )

    made = deploy(cfn, C=described(2))
    assert deploy(cfn, C=described(5)) == made
    fleets = cloud.client("emr").list_instance_fleets(ClusterId=made["C"])["InstanceFleets"]
    assert [fleet["TargetSpotCapacity"] for fleet in fleets] == [0, 5]


def test_a_security_configuration_is_made_and_deleted(cloud: InProcessCloud, cfn: Any):
    document = {"EncryptionConfiguration": {"EnableInTransitEncryption": False}}
    security = {
        "Type": "AWS::EMR::SecurityConfiguration",
        "Properties": {"SecurityConfiguration": document},
    }
    made = deploy(cfn, S=security, C=cluster(SecurityConfiguration={"Ref": "S"}))
    emr = cloud.client("emr")
    shown = emr.describe_security_configuration(Name=made["S"])["SecurityConfiguration"]
    assert json.loads(shown) == document
    described = emr.describe_cluster(ClusterId=made["C"])["Cluster"]
    assert described["SecurityConfiguration"] == made["S"]
    cfn.delete_stack(StackName="s")
    cfn.get_waiter("stack_delete_complete").wait(
        StackName="s", WaiterConfig={"Delay": 0, "MaxAttempts": 400}
    )
    assert emr.list_security_configurations()["SecurityConfigurations"] == []
