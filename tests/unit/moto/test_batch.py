"""Batch: what its environments have without being told."""

from __future__ import annotations

from tests.support.moto_lab import MotoLab

RESOURCES = {
    "type": "FARGATE",
    "maxvCpus": 4,
    "subnets": ["subnet-1"],
    "securityGroupIds": ["sg-1"],
}


def test_an_environment_without_a_role_has_the_service_linked_one(lab: MotoLab):
    """Documented: API_CreateComputeEnvironment, `serviceRole`."""
    (subnet, *_) = lab.client("ec2").describe_subnets()["Subnets"]
    groups = lab.client("ec2").describe_security_groups()["SecurityGroups"]
    resources = {
        **RESOURCES,
        "subnets": [subnet["SubnetId"]],
        "securityGroupIds": [groups[0]["GroupId"]],
    }
    for name in ("one", "two"):
        lab.client("batch").create_compute_environment(
            computeEnvironmentName=name, type="MANAGED", state="ENABLED", computeResources=resources
        )
    lab.restart()
    shown = lab.client("batch").describe_compute_environments()["computeEnvironments"]
    role = lab.client("iam").get_role(RoleName="AWSServiceRoleForBatch")["Role"]
    assert role["Arn"] == (
        "arn:aws:iam::000000000000:role/aws-service-role/batch.amazonaws.com/AWSServiceRoleForBatch"
    )
    assert {each["serviceRole"] for each in shown} == {role["Arn"]}
    assert len(shown) == 2
