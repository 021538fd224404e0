"""What a service of moto's takes by a name, an id or an engine has the forms that AWS takes, and no others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cloud import ACCOUNT, InProcessCloud
from tests.support.iam import refusal


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("forms") / "data") as cloud:
        yield cloud


@pytest.mark.parametrize(
    ("namespace", "dimension", "resource_id"),
    [
        ("ecs", "ecs:service:DesiredCount", "service/x"),
        ("ecs", "ecs:service:DesiredCount", f"service/arn:aws:ecs:us-east-1:{ACCOUNT}:cluster/c/x"),
        ("dynamodb", "dynamodb:table:ReadCapacityUnits", "table"),
        ("dynamodb", "dynamodb:index:ReadCapacityUnits", "table/t"),
        ("sagemaker", "sagemaker:variant:DesiredInstanceCount", "endpoint/e"),
        ("cassandra", "cassandra:table:ReadCapacityUnits", "keyspace/k"),
        ("lambda", "lambda:function:ProvisionedConcurrency", "function:f"),
        ("rds", "rds:cluster:ReadReplicaCount", "cluster/c"),
    ],
)
def test_a_scaling_target_s_malformed_id_is_refused(
    cloud: InProcessCloud, namespace: str, dimension: str, resource_id: str
) -> None:
    scaling = cloud.client("application-autoscaling")
    target: dict[str, Any] = {
        "ServiceNamespace": namespace,
        "ScalableDimension": dimension,
        "ResourceId": resource_id,
    }
    assert refusal(scaling.register_scalable_target, **target, MinCapacity=1, MaxCapacity=2) == (
        "ValidationException",
        400,
        "Unsupported service namespace, resource type or scalable dimension",
    )
    assert scaling.describe_scalable_targets(ServiceNamespace=namespace)["ScalableTargets"] == []


@pytest.mark.parametrize(
    ("namespace", "dimension", "resource_id"),
    [
        ("dynamodb", "dynamodb:index:ReadCapacityUnits", "table/t/index/i"),
        ("sagemaker", "sagemaker:variant:DesiredInstanceCount", "endpoint/e/variant/v"),
        ("cassandra", "cassandra:table:ReadCapacityUnits", "keyspace/k/table/t"),
        ("lambda", "lambda:function:ProvisionedConcurrency", "function:f:live"),
        ("rds", "rds:cluster:ReadReplicaCount", "cluster:c"),
        ("elasticmapreduce", "elasticmapreduce:instancegroup:InstanceCount", "instancegroup/j-1/ig-1"),
    ],
)  # fmt: skip
def test_a_scaling_target_s_id_in_its_form_is_taken(
    cloud: InProcessCloud, namespace: str, dimension: str, resource_id: str
) -> None:
    scaling = cloud.client("application-autoscaling")
    target: dict[str, Any] = {
        "ServiceNamespace": namespace,
        "ScalableDimension": dimension,
        "ResourceId": resource_id,
    }
    scaling.register_scalable_target(**target, MinCapacity=1, MaxCapacity=2)
    scaling.deregister_scalable_target(**target)


@pytest.mark.parametrize("path", ["/", "/batch/"])
def test_batch_takes_a_role_by_its_path_and_name(cloud: InProcessCloud, path: str) -> None:
    name = f"role{len(path)}"
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "batch.amazonaws.com"},
        "Action": "sts:AssumeRole",
    }
    trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    role = cloud.client("iam").create_role(RoleName=name, Path=path, AssumeRolePolicyDocument=trust)
    batch = cloud.client("batch")

    def role_of(environment: str) -> str:
        (shown,) = batch.describe_compute_environments(computeEnvironments=[environment])[
            "computeEnvironments"
        ]
        return shown["serviceRole"]

    batch.create_compute_environment(
        computeEnvironmentName=name, type="UNMANAGED", serviceRole=f"{path}{name}".lstrip("/")
    )
    assert role_of(name) == role["Role"]["Arn"]
    batch.create_compute_environment(computeEnvironmentName=f"{name}-linked", type="UNMANAGED")
    batch.update_compute_environment(computeEnvironment=f"{name}-linked", serviceRole=path + name)
    assert role_of(f"{name}-linked") == role["Role"]["Arn"]
    other = refusal(
        batch.create_compute_environment,
        computeEnvironmentName="none",
        type="UNMANAGED",
        serviceRole=f"elsewhere/{name}",
    )
    assert other[2] == f"Could not find IAM role elsewhere/{name}"


def test_rds_takes_an_engine_in_any_case_and_shows_it_in_small_letters(
    cloud: InProcessCloud,
) -> None:
    rds = cloud.client("rds")
    secret: dict[str, Any] = {"MasterUsername": "adm", "MasterUserPassword": "abcdefgh12"}
    instance = rds.create_db_instance(
        DBInstanceIdentifier="i", Engine="MySQL", DBInstanceClass="db.t3.micro", AllocatedStorage=5, **secret
    )  # fmt: skip
    assert instance["DBInstance"]["Engine"] == "mysql"
    cluster = rds.create_db_cluster(DBClusterIdentifier="c", Engine="Aurora-MySQL", **secret)
    assert cluster["DBCluster"]["Engine"] == "aurora-mysql"
    options = rds.create_option_group(
        OptionGroupName="o", EngineName="MySQL", MajorEngineVersion="8.0", OptionGroupDescription="d"
    )  # fmt: skip
    assert options["OptionGroup"]["EngineName"] == "mysql"
    group = rds.create_db_parameter_group(
        DBParameterGroupName="p", DBParameterGroupFamily="MySQL8.0", Description="d"
    )
    assert group["DBParameterGroup"]["DBParameterGroupFamily"] == "mysql8.0"
