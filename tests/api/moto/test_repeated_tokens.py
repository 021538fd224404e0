"""A creation that is repeated with its idempotency token makes nothing new, after a kill neither."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.moto_lab import MotoLab

EKS = {"type": "EKS", "id": "e", "info": {"eksInfo": {"namespace": "spark"}}}
TARGET = {
    "Arn": "arn:aws:sqs:us-east-1:000000000000:q",
    "RoleArn": "arn:aws:iam::000000000000:role/r",
}
SCHEDULE = {
    "ScheduleExpression": "rate(1 day)",
    "FlexibleTimeWindow": {"Mode": "OFF"},
    "Target": TARGET,
}
POLICY = json.dumps(
    {"Rules": [{"ResourceType": "collection", "Resource": ["collection/*"]}], "AWSOwnedKey": True}
)
RULE = {"RuleName": "r", "TargetBackupVaultName": "v"}
# Service, call, its members, the token's member, what another request differs in, the code of its refusal.
CALLS: list[tuple[str, str, dict[str, Any], str, dict[str, Any], str]] = [
    ("emr-containers", "create_virtual_cluster", {"name": "v", "containerProvider": EKS},
        "clientToken", {"name": "w"}, "ValidationException"),
    ("scheduler", "create_schedule", {"Name": "s", **SCHEDULE},
        "ClientToken", {"Description": "other"}, "ConflictException"),
    ("scheduler", "create_schedule", {"Name": "s", "GroupName": "g", **SCHEDULE},
        "ClientToken", {"Description": "other"}, "ConflictException"),
    ("scheduler", "create_schedule_group", {"Name": "h"},
        "ClientToken", {"Tags": [{"Key": "a", "Value": "b"}]}, "ConflictException"),
    ("athena", "create_named_query", {"Name": "q", "Database": "d", "QueryString": "SELECT 1"},
        "ClientRequestToken", {"QueryString": "SELECT 2"}, "InvalidRequestException"),
    ("backup", "create_backup_plan", {"BackupPlan": {"BackupPlanName": "p", "Rules": [RULE]}},
        "CreatorRequestId", {"BackupPlan": {"BackupPlanName": "o", "Rules": [RULE]}}, "AlreadyExistsException"),
    ("sagemaker", "create_pipeline", {"PipelineName": "p", "PipelineDefinition": "{}", "RoleArn": TARGET["RoleArn"]},
        "ClientRequestToken", {"PipelineDescription": "other"}, "ValidationException"),
    ("amp", "create_workspace", {"alias": "a"}, "clientToken", {"alias": "b"}, "ConflictException"),
    ("ecs", "create_service", {"serviceName": "s", "desiredCount": 0},
        "clientToken", {"desiredCount": 1}, "InvalidParameterException"),
    ("efs", "create_access_point", {"FileSystemId": "fs-1"},
        "ClientToken", {"FileSystemId": "fs-2"}, "AccessPointAlreadyExists"),
    ("eks", "create_cluster", {"name": "c", "roleArn": TARGET["RoleArn"], "resourcesVpcConfig": {}},
        "clientRequestToken", {"version": "1.30"}, "ResourceInUseException"),
    ("eks", "create_nodegroup",
        {"clusterName": "c", "nodegroupName": "n", "subnets": [], "nodeRole": TARGET["RoleArn"]},
        "clientRequestToken", {"diskSize": 9}, "ResourceInUseException"),
    ("opensearchserverless", "create_security_policy", {"name": "p", "type": "encryption", "policy": POLICY},
        "clientToken", {"description": "other"}, "ConflictException"),
    ("opensearchserverless", "create_collection", {"name": "logs"},
        "clientToken", {"description": "other"}, "ConflictException"),
    ("servicecatalog-appregistry", "create_application", {"name": "a"},
        "clientToken", {"description": "other"}, "ConflictException"),
    ("servicediscovery", "create_http_namespace", {"Name": "n"},
        "CreatorRequestId", {"Description": "other"}, "NamespaceAlreadyExists"),
    ("ssm", "create_patch_baseline", {"Name": "abc"},
        "ClientToken", {"Description": "other"}, "IdempotentParameterMismatch"),
]  # fmt: skip
TOKEN = "0123456789abcdef0123456789abcdef"


def _answer(lab: MotoLab, service: str, call: str, params: dict[str, Any]) -> dict[str, Any]:
    answer = getattr(lab.client(service), call)(**params)
    return {name: value for name, value in answer.items() if name != "ResponseMetadata"}


def test_a_repeated_token_is_answered_as_before(tmp_path: Path) -> None:
    with MotoLab(tmp_path / "moto") as lab:
        lab.client("scheduler").create_schedule_group(Name="g")
        lab.client("ecs").create_cluster(clusterName="default")
        asked = [(s, call, {**params, token: TOKEN}) for s, call, params, token, _, _ in CALLS]
        first = [_answer(lab, *one) for one in asked]
        assert all(first)
        assert [_answer(lab, *one) for one in asked] == first
        lab.restart()
        assert [_answer(lab, *one) for one in asked] == first
        for (service, call, params), (*_, other, code) in zip(asked, CALLS, strict=True):
            with pytest.raises(ClientError) as refused:
                _answer(lab, service, call, {**params, **other})
            assert refused.value.response["Error"]["Code"] == code, call
        assert len(lab.client("athena").list_named_queries()["NamedQueryIds"]) == 1
        assert len(lab.client("backup").list_backup_plans()["BackupPlansList"]) == 1


def test_what_is_deleted_is_made_anew_with_its_token(tmp_path: Path) -> None:
    with MotoLab(tmp_path / "moto") as lab:
        client = lab.client("scheduler")
        for _ in range(2):
            client.create_schedule(Name="s", ClientToken="t", **SCHEDULE)
            client.delete_schedule(Name="s")
        assert client.list_schedules()["Schedules"] == []
        eks = lab.client("emr-containers")
        params = {"name": "v", "containerProvider": EKS, "clientToken": "t"}
        one = eks.create_virtual_cluster(**params)["id"]
        eks.delete_virtual_cluster(id=one)
        two = eks.create_virtual_cluster(**params)["id"]
        assert eks.describe_virtual_cluster(id=two)["virtualCluster"]["state"] == "RUNNING"


def test_a_service_of_a_name_is_there_once(tmp_path: Path) -> None:
    """Observed by many: another service of a name is refused; the same again, with no token, is the same."""
    with MotoLab(tmp_path / "moto") as lab:
        ecs = lab.client("ecs")
        ecs.create_cluster(clusterName="c")
        first = ecs.create_service(cluster="c", serviceName="s", desiredCount=0)["service"]
        again = ecs.create_service(cluster="c", serviceName="s", desiredCount=0)["service"]
        assert again["serviceArn"] == first["serviceArn"]
        with pytest.raises(ClientError, match="Creation of service was not idempotent"):
            ecs.create_service(cluster="c", serviceName="s", desiredCount=2)
        ecs.delete_service(cluster="c", service="s")
        made = ecs.create_service(cluster="c", serviceName="s", desiredCount=0)["service"]
        assert made["status"] == "ACTIVE"


def test_ec2_answers_a_token_as_before(tmp_path: Path) -> None:
    with MotoLab(tmp_path / "moto") as lab:
        ec2 = lab.client("ec2")
        image = ec2.describe_images()["Images"][0]["ImageId"]
        one = {"ImageId": image, "MinCount": 1, "MaxCount": 1, "ClientToken": "t"}
        volume = {"AvailabilityZone": "us-east-1a", "Size": 1, "ClientToken": "t"}

        def made() -> tuple[str, str]:
            (instance,) = ec2.run_instances(**one)["Instances"]
            return instance["InstanceId"], ec2.create_volume(**volume)["VolumeId"]

        first = made()
        assert made() == first
        lab.restart()
        assert made() == first
        with pytest.raises(ClientError) as refused:
            ec2.run_instances(**{**one, "MaxCount": 2})
        assert refused.value.response["Error"]["Code"] == "IdempotentParameterMismatch"
        assert ec2.run_instances(**{**one, "ClientToken": "u"})["Instances"]
        assert sum(len(r["Instances"]) for r in ec2.describe_instances()["Reservations"]) == 2
        lab.clock.advance(25 * 3600)
        assert made() != first
