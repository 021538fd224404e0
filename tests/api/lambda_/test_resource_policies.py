"""Resource policies where they decide: other accounts, and services that act for a resource."""

from __future__ import annotations

import json
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


def document(*statements: dict[str, Any], **head: Any) -> str:
    whole = {"Version": "2012-10-17", **head, "Statement": list(statements)}
    return json.dumps(whole, ensure_ascii=False)


def of_other(effect: str = "Allow", **more: Any) -> dict[str, Any]:
    return {
        "Effect": effect,
        "Principal": {"AWS": [f"arn:aws:iam::{OTHER}:root"]},
        "Action": ["lambda:InvokeFunction", "lambda:GetFunction"],
        "Resource": ARN,
        **more,
    }


@pytest.mark.usefixtures("function")
class TestDocuments:
    def test_a_document_replaces_what_was_added_and_is_read_back(self, lab: LambdaLab) -> None:
        client = lab.client()
        allow(lab, **S3)
        added = client.get_resource_policy(ResourceArn=ARN)
        assert json.loads(added["Policy"]) == json.loads(
            client.get_policy(FunctionName="f")["Policy"]
        )
        text = document(of_other(), Id="mine")
        answer = client.put_resource_policy(
            ResourceArn=ARN, Policy=text, RevisionId=added["RevisionId"]
        )
        shown = client.get_resource_policy(ResourceArn=ARN)
        assert (shown["Policy"], shown["RevisionId"]) == (answer["Policy"], answer["RevisionId"])
        assert json.loads(shown["Policy"]) == json.loads(text)
        assert client.get_policy(FunctionName="f")["Policy"] == shown["Policy"]
        assert not may(lab)
        # A statement may be added to a document.
        allow(lab, **S3)
        assert may(lab)
        assert len(json.loads(client.get_policy(FunctionName="f")["Policy"])["Statement"]) == 2
        client.delete_resource_policy(ResourceArn=ARN)
        for call in (client.get_resource_policy, client.delete_resource_policy):
            with pytest.raises(client.exceptions.ResourceNotFoundException):
                call(ResourceArn=ARN)

    def test_the_language_of_policies_decides(self, lab: LambdaLab) -> None:
        client, other = lab.client(), lab.client(account=OTHER)

        def may_invoke(*statements: dict[str, Any]) -> bool:
            client.put_resource_policy(ResourceArn=ARN, Policy=document(*statements))
            try:
                other.invoke(FunctionName=ARN)
            except other.exceptions.ClientError as error:
                return error.response["Error"]["Code"] != "AccessDeniedException"
            return True

        assert may_invoke(of_other())
        assert may_invoke(of_other(Action="lambda:*"))
        assert not may_invoke(of_other(Action="lambda:GetFunction"))
        assert not may_invoke(of_other(), of_other("Deny", Sid="no"))
        assert not may_invoke(of_other(Condition={"StringEquals": {"aws:SourceArn": "x"}}))
        nobody = {"AWS": "222222222222"}
        assert not may_invoke(of_other(Principal=nobody))

    def test_a_version_and_an_alias_have_documents_of_their_own(self, lab: LambdaLab) -> None:
        client = lab.client()
        number = client.publish_version(FunctionName="f")["Version"]
        client.create_alias(FunctionName="f", Name="live", FunctionVersion=number)
        for qualifier in (number, "live"):
            arn = f"{ARN}:{qualifier}"
            text = document(of_other(Resource=arn))
            client.put_resource_policy(ResourceArn=arn, Policy=text)
            shown = client.get_resource_policy(ResourceArn=arn)["Policy"]
            assert json.loads(shown) == json.loads(text)
        with pytest.raises(client.exceptions.ResourceNotFoundException):
            client.get_resource_policy(ResourceArn=ARN)

    @pytest.mark.parametrize(
        ("policy", "arn", "code"),
        [
            ("no json", ARN, "InvalidParameterValueException"),
            (document(), ARN, "InvalidParameterValueException"),
            (document(of_other(Resource="*")), ARN, "InvalidParameterValueException"),
            (document(of_other(Action="s3:*")), ARN, "InvalidParameterValueException"),
            (document(of_other(Principal="*")), ARN, "PublicPolicyException"),
            (document(of_other()), f"{ARN}:$LATEST", "InvalidParameterValueException"),
            (
                document(of_other(Resource=f"{ARN}2")),
                f"{ARN}2",
                "ResourceNotFoundException",
            ),
            (
                # At most 20,480 characters, and as many bytes.
                document(of_other(Condition={"StringEquals": {"a:b": "\u00e4" * 10_300}})),
                ARN,
                "PolicyLengthExceededException",
            ),
        ],
    )
    def test_refusals(self, lab: LambdaLab, policy: str, arn: str, code: str) -> None:
        with pytest.raises(ClientError) as caught:
            lab.client().put_resource_policy(ResourceArn=arn, Policy=policy)
        assert caught.value.response["Error"]["Code"] == code

    def test_an_older_revision_is_refused(self, lab: LambdaLab) -> None:
        client = lab.client()
        old = client.put_resource_policy(ResourceArn=ARN, Policy=document(of_other()))["RevisionId"]
        client.put_resource_policy(ResourceArn=ARN, Policy=document(of_other(Sid="s")))
        for call in (
            lambda: client.put_resource_policy(
                ResourceArn=ARN, Policy=document(of_other()), RevisionId=old
            ),
            lambda: client.delete_resource_policy(ResourceArn=ARN, RevisionId=old),
        ):
            with pytest.raises(client.exceptions.PreconditionFailedException):
                call()
