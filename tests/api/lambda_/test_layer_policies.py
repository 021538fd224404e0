"""Permissions of layer versions, and the settings of functions that are kept to be shown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.lambda_lab import LambdaLab, zipped

SOURCE = "import shared\ndef handler(event, context):\n    return shared.NAME\n"
OTHER = "111111111111"


@pytest.fixture
def layer(lab: LambdaLab) -> str:
    content = {"ZipFile": zipped({"python/shared.py": "NAME = 'shared'\n"})}
    return lab.client().publish_layer_version(LayerName="l", Content=content)["LayerVersionArn"]


def share(lab: LambdaLab, **members: Any) -> dict[str, Any]:
    return lab.client().add_layer_version_permission(
        **{
            "LayerName": "l",
            "VersionNumber": 1,
            "StatementId": "s",
            "Action": "lambda:GetLayerVersion",
            "Principal": OTHER,
            **members,
        }
    )


def create_elsewhere(lab: LambdaLab, layer: str) -> Any:
    return lab.client(account=OTHER).create_function(
        FunctionName="f",
        Runtime="python3.11",
        Handler="app.handler",
        Role=f"arn:aws:iam::{OTHER}:role/r",
        Code={"ZipFile": zipped({"app.py": SOURCE})},
        Layers=[layer],
    )


def code_of(call: Any, **members: Any) -> tuple[str, int]:
    with pytest.raises(ClientError) as caught:
        call(**members)
    response = caught.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


def test_another_account_needs_a_permission(lab: LambdaLab, layer: str) -> None:
    assert code_of(lambda: create_elsewhere(lab, layer)) == ("AccessDeniedException", 403)
    share(lab)
    create_elsewhere(lab, layer)
    answer = lab.client(account=OTHER).invoke(FunctionName="f")
    assert json.loads(answer["Payload"].read()) == "shared"


def test_a_policy_is_shown_and_its_statements_removed(lab: LambdaLab, layer: str) -> None:
    added = share(lab, Principal="*", OrganizationId="o-1234567890")
    client = lab.client()
    shown = client.get_layer_version_policy(LayerName="l", VersionNumber=1)
    (statement,) = json.loads(shown["Policy"])["Statement"]
    assert statement == json.loads(added["Statement"])
    assert statement["Resource"] == layer
    assert statement["Condition"] == {"StringEquals": {"aws:PrincipalOrgID": "o-1234567890"}}
    assert shown["RevisionId"] == added["RevisionId"]
    assert "policy" not in client.get_layer_version(LayerName="l", VersionNumber=1)
    client.remove_layer_version_permission(LayerName="l", VersionNumber=1, StatementId="s")
    get = client.get_layer_version_policy
    assert code_of(get, LayerName="l", VersionNumber=1) == ("ResourceNotFoundException", 404)


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({}, "ResourceConflictException"),
        ({"VersionNumber": 7}, "ResourceNotFoundException"),
        ({"StatementId": "t", "RevisionId": "old"}, "PreconditionFailedException"),
        ({"StatementId": "t", "Action": "lambda:Other"}, "ValidationException"),
    ],
)
@pytest.mark.usefixtures("layer")
def test_bad_permissions_are_refused(lab: LambdaLab, members: dict[str, Any], code: str) -> None:
    share(lab)
    assert code_of(lambda: share(lab, **members))[0] == code


def test_settings_are_kept_over_a_restart(lab: LambdaLab) -> None:
    lab.create("f", "def handler(e, c): pass\n")
    client = lab.client()
    assert client.get_function_recursion_config(FunctionName="f")["RecursiveLoop"] == "Terminate"
    client.put_function_recursion_config(FunctionName="f", RecursiveLoop="Allow")
    client.put_runtime_management_config(FunctionName="f", UpdateRuntimeOn="FunctionUpdate")
    lab.restart()
    assert client.get_function_recursion_config(FunctionName="f")["RecursiveLoop"] == "Allow"
    shown = client.get_runtime_management_config(FunctionName="f")
    assert shown["UpdateRuntimeOn"] == "FunctionUpdate"
    put = client.put_runtime_management_config
    assert code_of(put, FunctionName="f", UpdateRuntimeOn="Manual") == (
        "InvalidParameterValueException",
        400,
    )


def test_an_alias_sends_its_share_to_the_second_version(lab: LambdaLab) -> None:
    lab.create("f", "def handler(e, c):\n    return c.function_version\n")
    client = lab.client()
    client.publish_version(FunctionName="f")
    client.update_function_configuration(FunctionName="f", Timeout=11)
    lab.settled("f")
    client.publish_version(FunctionName="f")
    client.create_alias(
        FunctionName="f",
        Name="live",
        FunctionVersion="1",
        RoutingConfig={"AdditionalVersionWeights": {"2": 0.3}},
    )
    answers = [client.invoke(FunctionName="f", Qualifier="live") for _ in range(300)]
    ran = [json.loads(answer["Payload"].read()) for answer in answers]
    assert ran == [answer["ExecutedVersion"] for answer in answers]
    # 300 draws of 0.3: outside of these bounds once in ten million runs.
    assert 48 <= ran.count("2") <= 135
