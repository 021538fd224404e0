"""IAM's policies through the front door: what is refused at Put, and what the policy simulator answers."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import InProcessCloud
from tests.support.policies import TRUST_TEXT

ACCOUNT = "000000000000"
STREAM = f"arn:aws:kinesis:us-east-1:{ACCOUNT}:stream/flights"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("iam")) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def iam(cloud: InProcessCloud) -> Any:
    client = cloud.client("iam")
    client.create_role(RoleName="app", AssumeRolePolicyDocument=TRUST_TEXT)
    client.create_user(UserName="John")
    client.create_group(GroupName="readers")
    client.add_user_to_group(UserName="John", GroupName="readers")
    return client


def document(*statements: Any, version: str = "2012-10-17") -> str:
    return json.dumps({"Version": version, "Statement": list(statements)})


def allow(action: Any, resource: Any = "*", **others: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **others}


def refusal(call: Any, **parameters: Any) -> tuple[str, str, int]:
    with pytest.raises(ClientError) as refused:
        call(**parameters)
    answer: Any = refused.value.response
    error = answer["Error"]
    return error["Code"], error["Message"], answer["ResponseMetadata"]["HTTPStatusCode"]


def test_what_is_malformed_is_refused_at_each_put(iam: Any) -> None:
    text = document(allow("nonsense"))
    message = "Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc."
    inline = {"PolicyName": "p", "PolicyDocument": text}
    assert [
        refusal(iam.create_policy, **inline),
        refusal(iam.put_role_policy, RoleName="app", **inline),
        refusal(iam.put_user_policy, UserName="John", **inline),
        refusal(iam.put_group_policy, GroupName="readers", **inline),
    ] == [("MalformedPolicyDocument", message, 400)] * 4
    arn = iam.create_policy(PolicyName="v", PolicyDocument=document(allow("s3:*")))["Policy"]["Arn"]
    assert refusal(iam.create_policy_version, PolicyArn=arn, PolicyDocument=text)[1] == message
    assert [v["VersionId"] for v in iam.list_policy_versions(PolicyArn=arn)["Versions"]] == ["v1"]


def test_a_role_has_a_trust_policy_and_no_other(iam: Any) -> None:
    trust = document(allow("sts:AssumeRole", Principal={"Service": "lambda.amazonaws.com"}))
    expected = ("MalformedPolicyDocument", "Has prohibited field Resource", 400)
    assert refusal(iam.create_role, RoleName="r", AssumeRolePolicyDocument=trust) == expected
    assert refusal(iam.update_assume_role_policy, RoleName="app", PolicyDocument=trust) == expected
    assert "r" not in [role["RoleName"] for role in iam.list_roles()["Roles"]]


def test_sizes_are_limited_inline_ones_together(iam: Any) -> None:
    long = document({**allow("s3:*"), "Sid": "a" * 6144})
    assert refusal(iam.create_policy, PolicyName="p", PolicyDocument=long) == (
        "LimitExceeded",
        "Cannot exceed quota for PolicySize: 6144",
        409,
    )
    iam.put_role_policy(RoleName="app", PolicyName="one", PolicyDocument=long)
    iam.put_role_policy(RoleName="app", PolicyName="one", PolicyDocument=long)
    assert refusal(iam.put_role_policy, RoleName="app", PolicyName="two", PolicyDocument=long) == (
        "LimitExceeded",
        "Maximum policy size of 10240 bytes exceeded for role app",
        409,
    )
    iam.delete_role_policy(RoleName="app", PolicyName="one")


def test_an_inline_policy_may_be_of_the_old_version(iam: Any) -> None:
    old = document(allow("s3:*"), version="2008-10-17")
    iam.put_user_policy(UserName="John", PolicyName="old", PolicyDocument=old)
    iam.delete_user_policy(UserName="John", PolicyName="old")
    assert refusal(iam.create_policy, PolicyName="p", PolicyDocument=old)[1] == (
        "Policy document must be version 2012-10-17 or greater."
    )


def decisions(answer: Any) -> list[tuple[str, str]]:
    return [(r["EvalActionName"], r["EvalDecision"]) for r in answer["EvaluationResults"]]


def test_a_custom_policy_is_simulated(iam: Any) -> None:
    """The example of SimulateCustomPolicy's reference: two actions, of which one is allowed."""
    statement = (
        '{\n    "Effect": "Allow",\n    "Action": "s3:ListBucket",\n    "Resource": "*"\n  }'
    )
    text = f'{{\n  "Version": "2012-10-17",\n  "Statement": {statement}\n}}'
    answer = iam.simulate_custom_policy(
        PolicyInputList=[text], ActionNames=["s3:ListBucket", "s3:PutObject"]
    )
    assert decisions(answer) == [("s3:ListBucket", "allowed"), ("s3:PutObject", "implicitDeny")]
    first, second = answer["EvaluationResults"]
    assert first["EvalResourceName"] == "*"
    assert first["MatchedStatements"] == [
        {
            "SourcePolicyId": "PolicyInputList.1",
            "SourcePolicyType": "none",
            "StartPosition": {"Line": 3, "Column": 16},
            "EndPosition": {"Line": 7, "Column": 4},
        }
    ]
    assert second["MatchedStatements"] == []
    assert answer["IsTruncated"] is False


def test_conditions_are_simulated_with_the_given_context(iam: Any) -> None:
    own = document(
        allow("s3:GetObject", Condition={"StringEquals": {"aws:PrincipalTag/Team": "x"}})
    )
    asked: dict[str, Any] = {"PolicyInputList": [own], "ActionNames": ["s3:GetObject"]}
    (result,) = iam.simulate_custom_policy(**asked)["EvaluationResults"]
    assert result["EvalDecision"] == "implicitDeny"
    assert result["MissingContextValues"] == ["aws:PrincipalTag/Team"]
    entry = {
        "ContextKeyName": "aws:principaltag/team",
        "ContextKeyValues": ["x"],
        "ContextKeyType": "string",
    }
    (result,) = iam.simulate_custom_policy(**asked, ContextEntries=[entry])["EvaluationResults"]
    assert (result["EvalDecision"], result["MissingContextValues"]) == ("allowed", [])


def test_a_principals_own_policies_are_simulated(iam: Any) -> None:
    managed = iam.create_policy(
        PolicyName="writes", PolicyDocument=document(allow("kinesis:Put*", STREAM))
    )["Policy"]["Arn"]
    iam.attach_role_policy(RoleName="app", PolicyArn=managed)
    iam.put_group_policy(
        GroupName="readers", PolicyName="r", PolicyDocument=document(allow("kinesis:Get*", STREAM))
    )
    iam.put_user_policy(
        UserName="John",
        PolicyName="no",
        PolicyDocument=document({**allow("kinesis:Delete*"), "Effect": "Deny"}),
    )
    asked: dict[str, Any] = {
        "ActionNames": ["kinesis:PutRecord", "kinesis:GetRecords", "kinesis:DeleteStream"],
        "ResourceArns": [STREAM],
    }
    role = iam.get_role(RoleName="app")["Role"]["Arn"]
    user = iam.get_user(UserName="John")["User"]["Arn"]
    of_role = iam.simulate_principal_policy(PolicySourceArn=role, **asked)
    assert [d for _, d in decisions(of_role)] == ["allowed", "implicitDeny", "implicitDeny"]
    (match,) = of_role["EvaluationResults"][0]["MatchedStatements"]
    assert (match["SourcePolicyId"], match["SourcePolicyType"]) == ("writes", "user-managed")
    of_user = iam.simulate_principal_policy(PolicySourceArn=user, **asked)
    assert [d for _, d in decisions(of_user)] == ["implicitDeny", "allowed", "explicitDeny"]
    (match,) = of_user["EvaluationResults"][2]["MatchedStatements"]
    assert (match["SourcePolicyId"], match["SourcePolicyType"]) == ("user_John_no", "user")
    iam.put_role_permissions_boundary(
        RoleName="app", PermissionsBoundary="arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"
    )
    bounded = iam.simulate_principal_policy(PolicySourceArn=role, **asked)["EvaluationResults"][0]
    assert bounded["EvalDecision"] == "implicitDeny"
    assert bounded["PermissionsBoundaryDecisionDetail"] == {"AllowedByPermissionsBoundary": False}
    iam.delete_role_permissions_boundary(RoleName="app")


def test_a_resource_policy_counts_for_the_caller(iam: Any) -> None:
    john = f"arn:aws:iam::{ACCOUNT}:user/John"
    bucket = document(allow("s3:GetObject", "arn:aws:s3:::b/*", Principal={"AWS": john}))
    asked: dict[str, Any] = {
        "PolicyInputList": [document(allow("sqs:*"))],
        "ActionNames": ["s3:GetObject"],
        "ResourceArns": ["arn:aws:s3:::b/k"],
        "ResourcePolicy": bucket,
    }
    assert decisions(iam.simulate_custom_policy(**asked, CallerArn=john)) == [
        ("s3:GetObject", "allowed")
    ]
    assert refusal(iam.simulate_custom_policy, **asked)[0] == "InvalidInput"


def test_results_come_in_pages(iam: Any) -> None:
    pages = iam.get_paginator("simulate_custom_policy").paginate(
        PolicyInputList=[document(allow("sqs:*"))],
        ActionNames=[f"sqs:Action{number}" for number in range(5)],
        PaginationConfig={"PageSize": 2},
    )
    assert [len(page["EvaluationResults"]) for page in pages] == [2, 2, 1]


def test_context_keys_of_policies(iam: Any) -> None:
    text = document(
        allow(
            "s3:*",
            "arn:aws:s3:::b/${aws:username}/*",
            Condition={"DateLessThan": {"aws:CurrentTime": "2026-11-22"}},
        )
    )
    keys = iam.get_context_keys_for_custom_policy(PolicyInputList=[text])["ContextKeyNames"]
    assert keys == ["aws:CurrentTime", "aws:username"]
    iam.put_user_policy(UserName="John", PolicyName="home", PolicyDocument=text)
    found = iam.get_context_keys_for_principal_policy(
        PolicySourceArn=f"arn:aws:iam::{ACCOUNT}:user/John"
    )
    assert found["ContextKeyNames"] == keys


def test_bad_simulations_are_refused(iam: Any) -> None:
    text = document(allow("s3:*"))
    assert refusal(
        iam.simulate_custom_policy, PolicyInputList=["no policy"], ActionNames=["s3:A"]
    ) == ("InvalidInput", "Syntax errors in policy.", 400)
    assert refusal(iam.simulate_custom_policy, PolicyInputList=[text], ActionNames=["GetObject"])[0:2] == (
        "InvalidInput",
        "Invalid action name: GetObject",
    )  # fmt: skip
    gone = f"arn:aws:iam::{ACCOUNT}:role/gone"
    assert refusal(iam.simulate_principal_policy, PolicySourceArn=gone, ActionNames=["s3:A"]) == (
        "NoSuchEntity",
        "The role with name gone cannot be found.",
        404,
    )
    assert (
        refusal(iam.simulate_principal_policy, PolicySourceArn="arn:aws:s3:::a-bucket-of-mine", ActionNames=["s3:A"])[0]
        == "InvalidInput"
    )  # fmt: skip


def test_users_have_boundaries_too(iam: Any) -> None:
    boundary = "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"
    made = iam.create_user(UserName="bounded", PermissionsBoundary=boundary)["User"]
    assert made["PermissionsBoundary"] == {
        "PermissionsBoundaryType": "Policy",
        "PermissionsBoundaryArn": boundary,
    }
    iam.put_user_policy(
        UserName="bounded", PolicyName="all", PolicyDocument=document(allow("s3:*"))
    )
    asked: dict[str, Any] = {"PolicySourceArn": made["Arn"], "ActionNames": ["s3:PutObject"]}
    assert decisions(iam.simulate_principal_policy(**asked)) == [("s3:PutObject", "implicitDeny")]
    iam.delete_user_permissions_boundary(UserName="bounded")
    assert "PermissionsBoundary" not in iam.get_user(UserName="bounded")["User"]
    assert decisions(iam.simulate_principal_policy(**asked)) == [("s3:PutObject", "allowed")]
    iam.put_user_permissions_boundary(UserName="bounded", PermissionsBoundary=boundary)
    assert iam.get_user(UserName="bounded")["User"]["PermissionsBoundary"] == made["PermissionsBoundary"]  # fmt: skip


@pytest.mark.parametrize("kind", ["user", "role"])
def test_a_boundary_is_a_policy_that_is_there(iam: Any, kind: str) -> None:
    gone = f"arn:aws:iam::{ACCOUNT}:policy/gone"
    put = getattr(iam, f"put_{kind}_permissions_boundary")
    name = {"UserName": "John"} if kind == "user" else {"RoleName": "app"}
    assert refusal(put, **name, PermissionsBoundary=gone) == (
        "NoSuchEntity",
        f"Scope ARN: {gone} does not exist or is not attachable.",
        404,
    )


def test_a_repositorys_policy_has_a_principal_and_no_resource(
    iam: Any, cloud: InProcessCloud
) -> None:
    """ECR's policies are a kind of their own; the CDK's bootstrap puts such a one."""
    iam.list_roles()
    ecr = cloud.client("ecr")
    ecr.create_repository(repositoryName="r")
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "lambda.amazonaws.com"},
        "Action": ["ecr:BatchGetImage"],
    }
    text = document(statement)
    ecr.set_repository_policy(repositoryName="r", policyText=text)
    kept = json.loads(ecr.get_repository_policy(repositoryName="r")["policyText"])
    assert kept["Statement"] == [statement]


def test_a_user_is_not_renamed_to_another(iam: Any):
    for name in ("one", "two"):
        iam.create_user(UserName=name)
    with pytest.raises(ClientError, match="User with name two already exists"):
        iam.update_user(UserName="one", NewUserName="two")
    assert {user["UserName"] for user in iam.list_users()["Users"]} >= {"one", "two"}


def test_a_policy_counts_whom_it_bounds(iam: Any):
    document = (
        '{"Version": "2012-10-17", "Statement": {"Effect": "Deny", "Action": "*", "Resource": "*"}}'
    )
    arn = iam.create_policy(PolicyName="limit-of-one", PolicyDocument=document)["Policy"]["Arn"]
    iam.create_user(UserName="within-limits", PermissionsBoundary=arn)
    assert iam.get_policy(PolicyArn=arn)["Policy"]["PermissionsBoundaryUsageCount"] == 1


def test_many_look_for_aws_policies_at_once(cloud: InProcessCloud):
    """Each is read from a module that is dropped again, and reads do not wait for each other."""
    names = ["AmazonSQSFullAccess", "AmazonSNSFullAccess", "SecurityAudit", "IAMFullAccess"]
    models: Any = importlib.import_module("moto.iam.models")
    found: list[str] = []

    def look(number: int) -> None:
        # A store of its own for each, so that each reads the module.
        for account in range(10):
            backend = models.IAMBackend("aws", f"{number:02}{account:010}")
            arn = f"arn:aws:iam::aws:policy/{names[number % len(names)]}"
            found.append(backend.managed_policies[arn].arn)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(look, range(8)))
    finally:
        sys.setswitchinterval(before)
    assert len(found) == 80
