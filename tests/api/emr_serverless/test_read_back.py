"""Every member that a call takes is read back, or it is said why not. See `tests.support.read_back`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from headrace.services.emr_serverless.actions import ACTIONS
from headrace.services.emr_serverless.api import FIDELITY
from tests.support.cloud import InProcessCloud
from tests.support.read_back import Case, Read, check, never_given, not_read_back, overlooked

ROLE = "arn:aws:iam::000000000000:role/job"


def newest(client: Any) -> str:
    return str(client.list_applications()["applications"][0]["id"])


def application(client: Any) -> Mapping[str, Any]:
    return {"applicationId": newest(client)}


def arn(client: Any) -> str:
    return str(client.list_applications()["applications"][0]["arn"])


def run(client: Any) -> Mapping[str, Any]:
    runs = client.list_job_runs(**application(client))["jobRuns"]
    return {**application(client), "jobRunId": runs[0]["id"]}


MADE: Read = (
    "CreateApplication",
    {"name": "a", "type": "SPARK", "releaseLabel": "emr-7.13.0", "clientToken": "t"},
)
STARTED: Read = ("StartApplication", application)
GET: Read = ("GetApplication", application)
TOKEN = {"clientToken": "it makes a repeated call one; test_applications.py"}
DENIAL = '{"Version":"2012-10-17","Statement":{"Effect":"Deny","Action":"*","Resource":"*"}}'
CONFIGURATION = [
    {
        "classification": "spark-defaults",
        "properties": {"a": "b"},
        "configurations": [{"classification": "export", "properties": {"c": "d"}}],
    }
]

KEY = "arn:aws:kms:us-east-1:000000000000:key/0000"
IMAGE = "000000000000.dkr.ecr.us-east-1.amazonaws.com/image:1"
MONITORING = {
    "s3MonitoringConfiguration": {"logUri": "s3://none/logs/", "encryptionKeyArn": KEY},
    "managedPersistenceMonitoringConfiguration": {"enabled": True, "encryptionKeyArn": KEY},
    "cloudWatchLoggingConfiguration": {
        "enabled": True,
        "logGroupName": "/g",
        "logStreamNamePrefix": "p",
        "encryptionKeyArn": KEY,
        "logTypes": {"SPARK_DRIVER": ["STDOUT"]},
    },
    "prometheusMonitoringConfiguration": {
        "remoteWriteUrl": "https://aps-workspaces.us-east-1.amazonaws.com/workspaces/w/api/v1/remote_write"
    },
}
DISK = {"encryptionContext": {"a": "b"}, "encryptionKeyArn": KEY}
SETTINGS = {
    "name": "an-application",
    "imageConfiguration.imageUri": IMAGE,
    "workerTypeSpecifications": {"Driver": {"imageConfiguration": {"imageUri": IMAGE}}},
    "networkConfiguration": {"subnetIds": ["subnet-1"], "securityGroupIds": ["sg-1"]},
    "monitoringConfiguration": MONITORING,
    "diskEncryptionConfiguration": DISK,
    "schedulerConfiguration": {"queueTimeoutMinutes": 20, "maxConcurrentRuns": 3},
    "identityCenterConfiguration": {
        "identityCenterInstanceArn": "arn:aws:sso:::instance/ssoins-1234567890123456",
        "userBackgroundSessionsEnabled": True,
    },
    "runtimeConfiguration": CONFIGURATION,
    "initialCapacity": {
        "Driver": {
            "workerCount": 1,
            "workerConfiguration": {"cpu": "2 vCPU", "memory": "4 GB"},
        }
    },
    "maximumCapacity": {"cpu": "8 vCPU", "memory": "16 GB", "disk": "100 GB"},
}
CASES = [
    Case(
        "CreateApplication",
        [GET, ("ListTagsForResource", lambda client: {"resourceArn": arn(client)})],
        given={
            "type": "Spark",
            "releaseLabel": "emr-7.13.0",
            **SETTINGS,
        },
        unseen=TOKEN,
    ),
    Case(
        "UpdateApplication",
        [GET],
        before=[MADE],
        given={
            "applicationId": newest,
            "releaseLabel": "emr-7.12.0",
            **{name: value for name, value in SETTINGS.items() if name != "name"},
        },
        unseen=TOKEN,
    ),
    Case("StartApplication", [GET], before=[MADE], given={"applicationId": newest}),
    Case(
        "TagResource",
        [GET],
        before=[MADE],
        given={"resourceArn": arn},
        named={"resourceArn": "arn"},
    ),
    Case(
        "StartJobRun",
        [("GetJobRun", run)],
        before=[MADE, STARTED],
        given={
            "applicationId": newest,
            "executionRoleArn": ROLE,
            "jobDriver.sparkSubmit": {
                "entryPoint": "s3://none/x.py",
                "entryPointArguments": ["e"],
                "sparkSubmitParameters": "--conf a=b",
            },
            "configurationOverrides.applicationConfiguration": CONFIGURATION,
            "configurationOverrides.monitoringConfiguration": MONITORING,
            "configurationOverrides.diskEncryptionConfiguration": DISK,
            "executionIamPolicy.policy": DENIAL,
            "executionIamPolicy.policyArns": ["arn:aws:iam::000000000000:policy/p"],
            "name": "a run",
            "mode": "STREAMING",
            "executionTimeoutMinutes": 17,
            "retryPolicy": {"maxAttempts": 2, "maxFailedAttemptsPerHour": 3},
            # The monitoring's `enabled` are true.
            "flexExecution.enabled": False,
        },
        without={"jobDriver.hive": "refused: there is no Hive"},
        named={"executionRoleArn": "executionRole"},
        unseen=TOKEN,
    ),
]


@pytest.fixture
def serverless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with InProcessCloud(tmp_path_factory.mktemp("emr"), spark="installed") as cloud:
        yield cloud.client("emr-serverless")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.operation)
def test_what_a_call_takes_is_read_back(serverless: Any, case: Case):
    assert check("emr-serverless", case, serverless, FIDELITY) == []


def test_every_call_that_keeps_something_is_read_back():
    assert not_read_back("emr-serverless", ACTIONS, CASES) == []
    assert never_given("emr-serverless", CASES) == []
    assert overlooked("emr-serverless", CASES) == []
