"""A creation that is repeated with its idempotency token makes nothing new, after a kill neither."""

from __future__ import annotations

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
]  # fmt: skip
TOKEN = "0123456789abcdef0123456789abcdef"


def _answer(lab: MotoLab, service: str, call: str, params: dict[str, Any]) -> dict[str, Any]:
    answer = getattr(lab.client(service), call)(**params)
    return {name: value for name, value in answer.items() if name != "ResponseMetadata"}


def test_a_repeated_token_is_answered_as_before(tmp_path: Path) -> None:
    with MotoLab(tmp_path / "moto") as lab:
        lab.client("scheduler").create_schedule_group(Name="g")
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
