"""Resource policies where they decide: other accounts, and services that act for a resource."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.lambda_lab import LambdaLab, zipped

ARN = "arn:aws:lambda:us-east-1:000000000000:function:f"
OTHER = "111111111111"
BUCKET = "arn:aws:s3:::flights"
S3 = {"Principal": "s3.amazonaws.com", "SourceArn": BUCKET, "SourceAccount": "000000000000"}


@pytest.fixture
def function(lab: LambdaLab) -> str:
    lab.create("f", "def handler(event, context):\n    return 1\n")
    return ARN


def allow(lab: LambdaLab, **members: Any) -> None:
    lab.client().add_permission(
        **{"FunctionName": "f", "StatementId": "s", "Action": "lambda:InvokeFunction", **members}
    )


def may(
    lab: LambdaLab, arn: str = ARN, source: str = BUCKET, account: str = "000000000000"
) -> bool:
    return lab.lambda_.service_may_invoke(
        arn, "s3.amazonaws.com", source_arn=source, source_account=account
    )


@pytest.mark.usefixtures("function")
def test_another_account_is_refused_until_a_statement_names_it(lab: LambdaLab) -> None:
    client = lab.client(account=OTHER)
    with pytest.raises(ClientError) as caught:
        client.invoke(FunctionName=ARN)
    response = caught.value.response
    assert response["Error"]["Code"] == "AccessDeniedException"
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 403
    assert "lambda:InvokeFunction" in response["Error"]["Message"]
    allow(lab, Principal=OTHER)
    assert client.invoke(FunctionName=ARN)["Payload"].read() == b"1"
    # By name alone it is the caller's own function that is meant.
    with pytest.raises(client.exceptions.ResourceNotFoundException):
        client.invoke(FunctionName="f")


@pytest.mark.usefixtures("function")
def test_a_service_may_act_for_the_resource_that_was_named(lab: LambdaLab) -> None:
    assert not may(lab)
    allow(lab, **S3)
    assert may(lab)
    assert not may(lab, source="arn:aws:s3:::other")
    assert not may(lab, account=OTHER)
    assert not may(lab, f"{ARN}-missing")


@pytest.mark.usefixtures("function")
def test_a_wildcard_in_the_source_matches(lab: LambdaLab) -> None:
    allow(lab, Principal="s3.amazonaws.com", SourceArn="arn:aws:s3:::fl*")
    assert may(lab)
    assert not may(lab, source="arn:aws:s3:::other")


@pytest.mark.usefixtures("function")
def test_an_aliass_policy_is_its_own(lab: LambdaLab) -> None:
    client = lab.client()
    client.publish_version(FunctionName="f")
    client.create_alias(FunctionName="f", Name="live", FunctionVersion="1")
    allow(lab, Qualifier="live", **S3)
    assert may(lab, f"{ARN}:live")
    assert not may(lab)


@pytest.mark.usefixtures("function")
def test_a_policy_has_a_size(lab: LambdaLab) -> None:
    principal = f"arn:aws:iam::{OTHER}:role/{'r' * 200}"
    for number in range(40):
        allow(lab, StatementId=f"s{number}", Principal=principal)
    with pytest.raises(ClientError) as caught:
        [allow(lab, StatementId=f"t{number}", Principal=principal) for number in range(40)]
    assert caught.value.response["Error"]["Code"] == "PolicyLengthExceededException"


def test_two_versions_of_a_layer_are_refused(lab: LambdaLab) -> None:
    content = {"ZipFile": zipped({"python/a.py": ""})}
    publish = lab.client().publish_layer_version
    arns = [publish(LayerName="l", Content=content)["LayerVersionArn"] for _ in range(2)]
    with pytest.raises(ClientError) as caught:
        lab.create("two", "", Layers=arns)
    assert "Two different versions of the same layer" in caught.value.response["Error"]["Message"]
