"""Clusters: their states, what is told of them, and how they end."""

from __future__ import annotations

from datetime import datetime

import pytest
from botocore.exceptions import ClientError

from tests.api.emr.conftest import Lab
from tests.support.emr import cluster_request

# --- serialization ----------------------------------------------------------------------------


def test_a_cluster_is_described_as_it_was_asked_for(lab: Lab) -> None:
    cluster_id = lab.cluster(
        ReleaseLabel="emr-spark-8.0.0",
        LogUri="s3://logs/emr/",
        Applications=[{"Name": "Spark"}],
        ServiceRole="service",
        JobFlowRole="profile",
        Tags=[{"Key": "team", "Value": "air"}],
        StepConcurrencyLevel=2,
        Configurations=[{"Classification": "spark-defaults", "Properties": {"a": "b"}}],
        Instances={
            "TerminationProtected": False,
            "Ec2SubnetId": "subnet-1",
            "InstanceGroups": [
                {"InstanceRole": "MASTER", "InstanceType": "m5.xlarge", "InstanceCount": 1}
            ],
        },
    )
    lab.until(cluster_id, "WAITING")
    cluster = lab.emr.describe_cluster(ClusterId=cluster_id)["Cluster"]
    assert cluster["ClusterArn"] == (
        f"arn:aws:elasticmapreduce:us-east-1:000000000000:cluster/{cluster_id}"
    )
    assert cluster["ReleaseLabel"] == "emr-spark-8.0.0"
    assert cluster["LogUri"] == "s3://logs/emr/"
    assert cluster["Tags"] == [{"Key": "team", "Value": "air"}]
    assert cluster["Ec2InstanceAttributes"]["IamInstanceProfile"] == "profile"
    assert cluster["Ec2InstanceAttributes"]["Ec2SubnetId"] == "subnet-1"
    assert cluster["StepConcurrencyLevel"] == 2
    assert cluster["AutoTerminate"] is False
    timeline = cluster["Status"]["Timeline"]
    assert isinstance(timeline["CreationDateTime"], datetime)
    assert timeline["ReadyDateTime"] >= timeline["CreationDateTime"]
    (group,) = lab.emr.list_instance_groups(ClusterId=cluster_id)["InstanceGroups"]
    assert (group["InstanceGroupType"], group["RequestedInstanceCount"]) == ("MASTER", 1)


def test_bootstrap_actions_are_listed(lab: Lab) -> None:
    action = {"Name": "b", "ScriptBootstrapAction": {"Path": "s3://x/y.sh", "Args": ["1"]}}
    cluster_id = lab.cluster(BootstrapActions=[action])
    assert lab.emr.list_bootstrap_actions(ClusterId=cluster_id)["BootstrapActions"] == [
        {"Name": "b", "ScriptPath": "s3://x/y.sh", "Args": ["1"]}
    ]


# --- validation -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        (
            lambda emr: emr.describe_cluster(ClusterId="j-NONE"),
            "InvalidRequestException",
            "Cluster id 'j-NONE' is not valid.",
        ),
        (
            lambda emr: emr.list_steps(ClusterId="j-NONE"),
            "InvalidRequestException",
            "Cluster id 'j-NONE' is not valid.",
        ),
        (
            lambda emr: emr.terminate_job_flows(JobFlowIds=["j-NONE"]),
            "ValidationException",
            "Specified job flow ID does not exist.",
        ),
        (
            lambda emr: emr.run_job_flow(**cluster_request(StepConcurrencyLevel=257)),
            "ValidationException",
            "Invalid step concurrency level. Allowed level is from 1 to 256",
        ),
        (
            lambda emr: emr.list_clusters(Marker="?"),
            "InvalidRequestException",
            "Marker is not valid.",
        ),
    ],
)
def test_bad_requests(lab: Lab, call, code: str, message: str) -> None:
    with pytest.raises(ClientError) as caught:
        call(lab.emr)
    assert caught.value.response["Error"]["Code"] == code
    assert caught.value.response["Error"]["Message"] == message
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


def test_a_cluster_needs_a_name(lab: Lab) -> None:
    with pytest.raises(ClientError, match="'name' failed to satisfy constraint"):
        lab.emr.run_job_flow(Instances={})


def test_other_accounts_and_regions_do_not_see_a_cluster(lab: Lab) -> None:
    cluster_id = lab.cluster()
    for client in (
        lab.cloud.client("emr", account="111111111111"),
        lab.cloud.client("emr", region="eu-west-1"),
    ):
        assert client.list_clusters()["Clusters"] == []
        with pytest.raises(ClientError, match="is not valid"):
            client.describe_cluster(ClusterId=cluster_id)


# --- behaviour --------------------------------------------------------------------------------


def test_a_cluster_that_is_kept_alive_waits(lab: Lab) -> None:
    status = lab.until(lab.cluster(), "WAITING")
    assert status["StateChangeReason"] == {"Message": "Cluster ready to run steps."}


def test_a_cluster_that_is_not_kept_alive_ends_after_its_last_step(lab: Lab) -> None:
    cluster_id = lab.cluster(lab.step("true"), keep_alive=False)
    status = lab.until(cluster_id, "TERMINATED")
    assert status["StateChangeReason"] == {
        "Code": "ALL_STEPS_COMPLETED",
        "Message": "Steps completed",
    }
    assert [step["Status"]["State"] for step in lab.steps(cluster_id)] == ["COMPLETED"]


def test_terminating_ends_running_steps_and_cancels_waiting_ones(lab: Lab) -> None:
    cluster_id = lab.cluster(lab.step("sleep", "300"), lab.step("true"))
    running, _ = (step["Id"] for step in lab.steps(cluster_id))
    lab.running(cluster_id, running)
    lab.emr.terminate_job_flows(JobFlowIds=[cluster_id])
    status = lab.until(cluster_id, "TERMINATED")
    assert status["StateChangeReason"]["Code"] == "USER_REQUEST"
    assert "EndDateTime" in status["Timeline"]
    states = [step["Status"]["State"] for step in lab.steps(cluster_id)]
    assert states == ["CANCELLED", "CANCELLED"]
    # Again is no error, as on AWS; new steps are refused.
    lab.emr.terminate_job_flows(JobFlowIds=[cluster_id])
    with pytest.raises(ClientError, match="terminated, or finished may not be modified"):
        lab.add(cluster_id, lab.step("true"))


def test_a_protected_cluster_is_not_terminated(lab: Lab) -> None:
    cluster_id = lab.cluster()
    lab.emr.set_termination_protection(JobFlowIds=[cluster_id], TerminationProtected=True)
    with pytest.raises(ClientError, match="since they are termination protected"):
        lab.emr.terminate_job_flows(JobFlowIds=[cluster_id])
    lab.until(cluster_id, "WAITING")
    lab.emr.set_termination_protection(JobFlowIds=[cluster_id], TerminationProtected=False)
    lab.emr.terminate_job_flows(JobFlowIds=[cluster_id])
    lab.until(cluster_id, "TERMINATED")


def test_a_waiting_cluster_ends_when_it_is_no_longer_kept_alive(lab: Lab) -> None:
    cluster_id = lab.cluster()
    lab.until(cluster_id, "WAITING")
    lab.emr.set_keep_job_flow_alive_when_no_steps(
        JobFlowIds=[cluster_id], KeepJobFlowAliveWhenNoSteps=False
    )
    lab.until(cluster_id, "TERMINATED")


def test_clusters_are_listed_newest_first_and_by_state(lab: Lab) -> None:
    first = lab.cluster(lab.step("true"), keep_alive=False)
    lab.until(first, "TERMINATED")
    second = lab.cluster()
    lab.until(second, "WAITING")
    assert [c["Id"] for c in lab.emr.list_clusters()["Clusters"]] == [second, first]
    waiting = lab.emr.list_clusters(ClusterStates=["WAITING"])["Clusters"]
    assert [cluster["Id"] for cluster in waiting] == [second]


def test_tags_and_policies_are_kept(lab: Lab) -> None:
    cluster_id = lab.cluster(Tags=[{"Key": "a", "Value": "1"}])
    lab.emr.add_tags(ResourceId=cluster_id, Tags=[{"Key": "b", "Value": "2"}])
    lab.emr.remove_tags(ResourceId=cluster_id, TagKeys=["a"])
    cluster = lab.emr.describe_cluster(ClusterId=cluster_id)["Cluster"]
    assert cluster["Tags"] == [{"Key": "b", "Value": "2"}]
    lab.emr.put_auto_termination_policy(
        ClusterId=cluster_id, AutoTerminationPolicy={"IdleTimeout": 60}
    )
    policy = lab.emr.get_auto_termination_policy(ClusterId=cluster_id)["AutoTerminationPolicy"]
    assert policy == {"IdleTimeout": 60}
    limits = {
        "UnitType": "Instances",
        "MinimumCapacityUnits": 1,
        "MaximumCapacityUnits": 2,
    }
    lab.emr.put_managed_scaling_policy(
        ClusterId=cluster_id, ManagedScalingPolicy={"ComputeLimits": limits}
    )
    found = lab.emr.get_managed_scaling_policy(ClusterId=cluster_id)["ManagedScalingPolicy"]
    assert found["ComputeLimits"] == limits


def test_security_configurations_are_kept(lab: Lab) -> None:
    lab.emr.create_security_configuration(Name="s", SecurityConfiguration='{"a": 1}')
    found = lab.emr.describe_security_configuration(Name="s")
    assert found["SecurityConfiguration"] == '{"a": 1}'
    listed = lab.emr.list_security_configurations()["SecurityConfigurations"]
    assert [item["Name"] for item in listed] == ["s"]
    with pytest.raises(ClientError, match="already exists"):
        lab.emr.create_security_configuration(Name="s", SecurityConfiguration="{}")
    lab.emr.delete_security_configuration(Name="s")
    with pytest.raises(ClientError, match="does not exist"):
        lab.emr.describe_security_configuration(Name="s")


def test_an_idle_timeout_has_bounds_wherever_it_is_set(lab: Lab) -> None:
    policy = {"IdleTimeout": 59}
    cluster_id = lab.cluster()
    for call in (
        lambda: lab.cluster(AutoTerminationPolicy=policy),
        lambda: lab.emr.put_auto_termination_policy(
            ClusterId=cluster_id, AutoTerminationPolicy=policy
        ),
    ):
        with pytest.raises(ClientError, match="between 60 and 604800"):
            call()


def test_a_failed_step_does_not_end_a_protected_cluster_that_is_kept_alive(lab: Lab) -> None:
    cluster_id = lab.cluster(
        lab.step("false", on_failure="TERMINATE_CLUSTER"),
        lab.step("true"),
        Instances={"TerminationProtected": True},
    )
    lab.until(cluster_id, "WAITING")
    assert [s["Status"]["State"] for s in lab.steps(cluster_id)] == ["FAILED", "CANCELLED"]
