"""Secrets Manager rotates a secret by a function of this cloud, and gives the version that is current."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import ACCOUNT, REGION
from tests.support.server import ServerProcess

# As AWS's template of a rotation function does it.
CODE = """
import boto3, os
def handler(event, context):
    secrets, id, token = boto3.client("secretsmanager"), event["SecretId"], event["ClientRequestToken"]
    if event["Step"] == os.environ.get("FAILS_AT"):
        raise ValueError("no")
    if event["Step"] == "createSecret":
        try:
            secrets.get_secret_value(SecretId=id, VersionId=token, VersionStage="AWSPENDING")
        except secrets.exceptions.ResourceNotFoundException:
            old = secrets.get_secret_value(SecretId=id, VersionStage="AWSCURRENT")["SecretString"]
            secrets.put_secret_value(
                SecretId=id, ClientRequestToken=token, SecretString=old + "+", VersionStages=["AWSPENDING"])
    if event["Step"] == "finishSecret":
        stages = secrets.describe_secret(SecretId=id)["VersionIdsToStages"]
        current = next(version for version, has in stages.items() if "AWSCURRENT" in has)
        secrets.update_secret_version_stage(
            SecretId=id, VersionStage="AWSCURRENT", MoveToVersionId=token, RemoveFromVersionId=current)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("cloud") / "data") as server:
        yield server


def _function(server: ServerProcess, name: str, *, allowed: bool = True, fails_at: str = "") -> str:
    """Make a rotation function; return its ARN."""
    role = f"arn:aws:iam::{ACCOUNT}:role/rotate"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("index.py", CODE)
    functions: Any = server.client("lambda")
    functions.create_function(
        FunctionName=name, Runtime="python3.12", Handler="index.handler", Role=role, Timeout=30,
        Code={"ZipFile": packed.getvalue()}, Environment={"Variables": {"FAILS_AT": fails_at}},
    )  # fmt: skip
    if allowed:
        functions.add_permission(
            FunctionName=name, StatementId="s", Action="lambda:InvokeFunction",
            Principal="secretsmanager.amazonaws.com",
        )  # fmt: skip
    return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}"


def test_a_rotation_runs_the_function_and_makes_its_version_current(server: ServerProcess) -> None:
    secrets: Any = server.client("secretsmanager")
    secrets.create_secret(Name="turned", SecretString="a")
    arn = _function(server, "turn")
    rules = {"AutomaticallyAfterDays": 30}
    secrets.rotate_secret(SecretId="turned", RotationLambdaARN=arn, RotationRules=rules)
    assert secrets.get_secret_value(SecretId="turned")["SecretString"] == "a+"
    previous = secrets.get_secret_value(SecretId="turned", VersionStage="AWSPREVIOUS")
    assert previous["SecretString"] == "a"
    # The function is known from now on.
    secrets.rotate_secret(SecretId="turned")
    assert secrets.get_secret_value(SecretId="turned")["SecretString"] == "a++"
    shown = secrets.describe_secret(SecretId="turned")
    assert (shown["RotationEnabled"], shown["RotationLambdaARN"]) == (True, arn)


def test_a_rotation_that_fails_leaves_the_current_version(server: ServerProcess) -> None:
    secrets: Any = server.client("secretsmanager")
    secrets.create_secret(Name="failing", SecretString="a")
    arn = _function(server, "fail", fails_at="testSecret")
    version = secrets.rotate_secret(SecretId="failing", RotationLambdaARN=arn)["VersionId"]
    assert secrets.get_secret_value(SecretId="failing")["SecretString"] == "a"
    stages = secrets.describe_secret(SecretId="failing")["VersionIdsToStages"]
    assert stages[version] == ["AWSPENDING"]
    # A rotation that is refused changes nothing.
    with pytest.raises(ClientError, match="InvalidParameterException"):
        secrets.rotate_secret(SecretId="failing", RotationRules={"AutomaticallyAfterDays": 1001})
    stages = secrets.describe_secret(SecretId="failing")["VersionIdsToStages"]
    assert stages[version] == ["AWSPENDING"]


def test_a_function_that_secrets_manager_may_not_invoke_is_refused(server: ServerProcess) -> None:
    secrets: Any = server.client("secretsmanager")
    secrets.create_secret(Name="refused", SecretString="a")
    arn = _function(server, "closed", allowed=False)
    for function in (arn, f"{arn}-missing"):
        with pytest.raises(ClientError, match="Secrets Manager cannot invoke the specified Lambda"):
            secrets.rotate_secret(SecretId="refused", RotationLambdaARN=function)
    with pytest.raises(ClientError, match="No Lambda rotation function ARN is associated"):
        secrets.rotate_secret(SecretId="refused")
    assert len(secrets.describe_secret(SecretId="refused")["VersionIdsToStages"]) == 1


def test_labels_of_ones_own_stay_with_their_version(server: ServerProcess) -> None:
    secrets: Any = server.client("secretsmanager")
    secrets.create_secret(Name="labelled", SecretString="1")
    secrets.put_secret_value(
        SecretId="labelled", SecretString="2", VersionStages=["AWSCURRENT", "mine"]
    )
    secrets.put_secret_value(SecretId="labelled", SecretString="3")
    labels = secrets.describe_secret(SecretId="labelled")["VersionIdsToStages"].values()
    assert sorted(labels) == [["AWSCURRENT"], ["AWSPREVIOUS", "mine"]]


def test_a_policy_is_validated_before_it_is_put(server: ServerProcess) -> None:
    secrets: Any = server.client("secretsmanager")
    answer = secrets.validate_resource_policy(ResourcePolicy='{"Version": "2012-10-17"}')
    assert answer["PolicyValidationPassed"] is False
    assert len(answer["ValidationErrors"]) == 1


def test_a_read_is_noted_by_its_day(server: ServerProcess) -> None:
    secrets: Any = server.client("secretsmanager")
    secrets.create_secret(Name="read", SecretString="1")
    assert "LastAccessedDate" not in secrets.describe_secret(SecretId="read")
    secrets.batch_get_secret_value(SecretIdList=["read"])
    day = secrets.describe_secret(SecretId="read")["LastAccessedDate"]
    assert day.timestamp() % (24 * 60 * 60) == 0
    listed = secrets.list_secrets(Filters=[{"Key": "name", "Values": ["read"]}])["SecretList"]
    assert [one["LastAccessedDate"] for one in listed] == [day]
    versions = secrets.list_secret_version_ids(SecretId="read")["Versions"]
    assert [one["LastAccessedDate"] for one in versions] == [day]
