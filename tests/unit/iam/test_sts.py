"""Who calls and whom one may become, as STS and IAM say it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.clients import client_of
from tests.support.cloud import InProcessCloud
from tests.support.moto_lab import MotoLab
from tests.support.policies import TRUST_TEXT

ACCOUNT = "000000000000"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("sts")) as cloud:
        yield cloud


def refusal(call: Any, **params: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as error:
        call(**params)
    response: Any = error.value.response
    return response["Error"]["Code"], response["Error"]["Message"]


def test_a_key_that_is_nobodys_is_the_accounts_own(cloud: InProcessCloud):
    identity = cloud.client("sts").get_caller_identity()
    assert identity["UserId"] == identity["Account"] == ACCOUNT
    assert identity["Arn"] == f"arn:aws:iam::{ACCOUNT}:root"


def test_a_role_is_assumed_without_its_path(cloud: InProcessCloud):
    role = cloud.client("iam").create_role(
        RoleName="r", Path="/team/", AssumeRolePolicyDocument=TRUST_TEXT
    )["Role"]
    user = cloud.client("sts").assume_role(RoleArn=role["Arn"], RoleSessionName="s1")
    assert user["AssumedRoleUser"] == {
        "Arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/r/s1",
        "AssumedRoleId": f"{role['RoleId']}:s1",
    }


def test_who_assumed_a_role_is_its_session(cloud: InProcessCloud):
    sts = cloud.client("sts")
    arn = f"arn:aws:iam::{ACCOUNT}:role/other"
    keys = sts.assume_role(RoleArn=arn, RoleSessionName="s1")["Credentials"]
    key, token = keys["AccessKeyId"], keys["SessionToken"]
    mine = client_of("sts", cloud.handle, account=key, region="us-east-1", token=token)
    assert mine.get_caller_identity()["Arn"] == f"arn:aws:sts::{ACCOUNT}:assumed-role/other/s1"


@pytest.mark.parametrize("arn", ["arn:aws:iam::000000000000:user/ann", "a-role-of-some-account"])
def test_only_roles_are_assumed(cloud: InProcessCloud, arn: str):
    # Observed: the AWS CLI's users report "<arn> is invalid".
    found = refusal(cloud.client("sts").assume_role, RoleArn=arn, RoleSessionName="s1")
    assert found == ("ValidationError", f"{arn} is invalid")


@pytest.mark.parametrize(
    ("operation", "params", "sentence"),
    [
        ("get_role", {"RoleName": "no"}, "The role with name no cannot be found."),
        ("delete_role", {"RoleName": "no"}, "The role with name no cannot be found."),
        ("list_attached_role_policies", {"RoleName": "no"},
         "The role with name no cannot be found."),
        ("get_instance_profile", {"InstanceProfileName": "no"},
         "Instance Profile no cannot be found."),
        ("get_policy", {"PolicyArn": "arn:aws:iam::000000000000:policy/no"},
         "Policy arn:aws:iam::000000000000:policy/no was not found."),
    ],
)  # fmt: skip
def test_what_is_missing_is_named_as_iam_names_it(
    cloud: InProcessCloud, operation: str, params: dict[str, str], sentence: str
):
    found = refusal(getattr(cloud.client("iam"), operation), **params)
    assert found == ("NoSuchEntity", sentence)


def test_the_text_of_awss_policies_is_in_memory_only_while_it_is_read(lab: MotoLab):
    iam = lab.client("iam")
    iam.list_users()
    name = "moto.iam.aws_managed_policies"
    assert name not in sys.modules
    arn = "arn:aws:iam::aws:policy/AdministratorAccess"
    assert iam.get_policy(PolicyArn=arn)["Policy"]["PolicyName"] == "AdministratorAccess"
    assert name not in sys.modules
    assert sys.modules["moto.iam.models"].aws_managed_policies_data == ""


def list_made() -> list[str]:
    from moto.iam.models import iam_backends

    policies: Any = iam_backends[ACCOUNT]["aws"].managed_policies
    return sorted(dict.keys(policies))


def test_a_policy_of_awss_that_a_role_names_is_made_alone_and_is_the_one_that_is_listed(
    lab: MotoLab,
):
    iam = lab.client("iam")
    arn = "arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"
    iam.create_role(RoleName="r", AssumeRolePolicyDocument=TRUST_TEXT)
    iam.attach_role_policy(RoleName="r", PolicyArn=arn)
    assert list_made() == [arn]
    alone = iam.get_policy(PolicyArn=arn)["Policy"]
    pages = iam.get_paginator("list_policies").paginate(Scope="AWS")
    listed = {one["Arn"]: one for page in pages for one in page["Policies"]}
    assert len(listed) > 1000
    assert alone["AttachmentCount"] == listed[arn]["AttachmentCount"] == 1
    assert alone["PolicyId"] == listed[arn]["PolicyId"]


@pytest.mark.parametrize(
    "path", ["AWSLambdaBasicExecutionRole", "service-role/Nothing", "service-role/a\\n", ""]
)
def test_no_policy_of_awss_is_found_by_another_path_or_name(lab: MotoLab, path: str):
    iam = lab.client("iam")
    iam.create_role(RoleName="r", AssumeRolePolicyDocument=TRUST_TEXT)
    arn = f"arn:aws:iam::aws:policy/{path}"
    with pytest.raises(ClientError, match="does not exist or is not attachable"):
        iam.attach_role_policy(RoleName="r", PolicyArn=arn)
