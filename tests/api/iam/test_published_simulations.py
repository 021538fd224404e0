"""Simulations whose answers AWS published: the AWS CLI's examples of its policy simulator, member by member.

Source: docs.aws.amazon.com/cli/latest/reference/iam/simulate-custom-policy.html and simulate-principal-policy.html,
"Examples". Where an example does not show its policy, one is written that the shown positions fit.

Sources disagree on where a statement begins that is no member of a list: at its brace (SimulateCustomPolicy's
reference, which headrace follows) or one column later (the first example here). Ends agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cloud import InProcessCloud

# One line, as the example types it: the positions in the answer are columns of it.
AFTER_A_DAY = (
    '{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"dynamodb:*","Resource":"*",'
    '"Condition":{"DateGreaterThan":{"aws:CurrentTime":"2018-08-16T12:00:00Z"}}}}'
)
# The answer says that the statement begins in line 3, column 19, and ends in line 9, column 10.
LIST_REPOSITORIES = """{
    "Version": "2012-10-17",
    "Statement": [{
            "Effect": "Allow",
            "Action": [
                "codecommit:ListRepositories"
            ],
            "Resource": "*"
        }
    ]
}"""


def at(time: str) -> list[dict[str, Any]]:
    return [
        {"ContextKeyName": "aws:CurrentTime", "ContextKeyValues": [time], "ContextKeyType": "date"}
    ]


def result(action: str, decision: str, *matched: dict[str, Any]) -> dict[str, Any]:
    return {
        "EvalActionName": action,
        "EvalResourceName": "*",
        "EvalDecision": decision,
        "MatchedStatements": list(matched),
        "MissingContextValues": [],
    }


def statement(policy: str, start: tuple[int, int], end: tuple[int, int]) -> dict[str, Any]:
    return {
        "SourcePolicyId": policy,
        "StartPosition": {"Line": start[0], "Column": start[1]},
        "EndPosition": {"Line": end[0], "Column": end[1]},
    }


def published(found: dict[str, Any]) -> dict[str, Any]:
    """Return the members that the examples show; they leave SourcePolicyType and others out."""
    kept = result("", "")
    shown = {name: value for name, value in found.items() if name in kept}
    for matched in shown["MatchedStatements"]:
        matched.pop("SourcePolicyType", None)
    return shown


@pytest.fixture(scope="module")
def iam(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with InProcessCloud(tmp_path_factory.mktemp("simulations")) as cloud:
        yield cloud.client("iam")


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (
            "2019-04-25T11:00:00Z",
            result(
                "dynamodb:CreateBackup",
                "allowed",
                statement("PolicyInputList.1", (1, 37), (1, 167)),
            ),
        ),
        ("2014-04-25T11:00:00Z", result("dynamodb:CreateBackup", "implicitDeny")),
    ],
    ids=["allowed", "prohibited"],
)
def test_a_policy_that_is_given(iam: Any, time: str, expected: dict[str, Any]) -> None:
    (found,) = iam.simulate_custom_policy(
        PolicyInputList=[AFTER_A_DAY],
        ActionNames=["dynamodb:CreateBackup"],
        ContextEntries=at(time),
    )["EvaluationResults"]
    assert published(found) == expected


def test_policies_of_a_user(iam: Any) -> None:
    user = iam.create_user(UserName="alejandro")["User"]["Arn"]
    name = "Grant-Access-To-CodeCommit-ListRepo"
    iam.put_user_policy(UserName="alejandro", PolicyName=name, PolicyDocument=LIST_REPOSITORIES)
    iam.put_user_policy(UserName="alejandro", PolicyName="Late", PolicyDocument=AFTER_A_DAY)
    (listed,) = iam.simulate_principal_policy(
        PolicySourceArn=user, ActionNames=["codecommit:ListRepositories"]
    )["EvaluationResults"]
    assert listed["EvalDecision"] == "allowed"
    assert published(listed)["MatchedStatements"][0]["StartPosition"] == {"Line": 3, "Column": 19}
    assert published(listed)["MatchedStatements"][0]["EndPosition"] == {"Line": 9, "Column": 10}
    (early,) = iam.simulate_principal_policy(
        PolicySourceArn=user,
        ActionNames=["dynamodb:CreateBackup"],
        ContextEntries=at("2018-04-25T11:00:00Z"),
    )["EvaluationResults"]
    assert published(early) == result("dynamodb:CreateBackup", "implicitDeny")
