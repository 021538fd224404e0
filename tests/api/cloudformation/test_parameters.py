"""Parameters: what their declarations allow."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.cloudformation.test_stacks import create


def declared(**declaration: Any) -> dict[str, Any]:
    return {
        "Parameters": {"P": {"Type": "String", **declaration}},
        "Resources": {"Q": {"Type": "AWS::CloudFormation::WaitConditionHandle"}},
    }


def answer(cfn: Any, value: str, **declaration: Any) -> str:
    """Return the refusal of a value, or the stack's status."""
    parameters = [{"ParameterKey": "P", "ParameterValue": value}]
    try:
        return create(cfn, declared(**declaration), Parameters=parameters)
    except ClientError as error:
        return error.response["Error"]["Message"]


def test_allowed_pattern_is_matched_whole(cfn: Any):
    assert answer(cfn, "abc1", AllowedPattern="[a-z]+") == "Parameter 'P' must match pattern [a-z]+"
    assert answer(cfn, "abc", AllowedPattern="[a-z]+") == "CREATE_COMPLETE"


def test_allowed_pattern_of_a_list_is_held_against_each_item(cfn: Any):
    kind = {"Type": "CommaDelimitedList", "AllowedPattern": "[a-z]+"}
    assert answer(cfn, "a,1", **kind) == "Parameter 'P' must match pattern [a-z]+"
    assert answer(cfn, "a, b", **kind) == "CREATE_COMPLETE"


def test_a_value_may_have_4096_bytes(cfn: Any):
    refused = answer(cfn, "é" * 2049)
    assert refused.startswith("1 validation error detected: Value 'ééé")
    assert refused.endswith(
        "' at 'parameters.1.member.parameterValue' failed to satisfy constraint: Member must have length less than or"
        " equal to 4096"
    )
    assert answer(cfn, "x" * 4096) == "CREATE_COMPLETE"


@pytest.mark.parametrize("key", ["MinLength", "MaxLength"])
def test_a_bound_that_is_no_number_is_refused(cfn: Any, key: str):
    assert answer(cfn, "x", **{key: "many"}) == (
        f"Template format error: {key} of parameter 'P' must be a number."
    )


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("(a+)+$", "a" * 60 + "!", "must match pattern (a+)+$"),
        ("(?!aws).+", "awsx", "must match pattern (?!aws).+"),
        (r"((?>a*)*)\1b", "a" * 60, "must match pattern"),
        ("[a-", "x", "is not a pattern that can be used: The pattern ends too early"),
    ],
)
def test_a_pattern_is_answered_whatever_it_is(cfn: Any, pattern: str, value: str, expected: str):
    assert expected in answer(cfn, value, AllowedPattern=pattern)


@pytest.mark.parametrize(
    ("value", "declaration", "why"),
    [
        ("2", {"Type": "Number", "MinValue": 3}, "must be a number not less than 3"),
        ("9", {"Type": "Number", "MaxValue": "8"}, "must be a number not greater than 8"),
        ("many", {"Type": "Number"}, "must be a number."),
        ("nan", {"Type": "Number", "MinValue": 3}, "must be a number."),
        ("inf", {"Type": "Number"}, "must be a number."),
        ("ab", {"MinLength": 3}, "must contain at least 3 characters"),
        ("abcd", {"MaxLength": 3}, "must contain at most 3 characters"),
        (
            "x",
            {"AllowedValues": ["a"], "ConstraintDescription": "only a"},
            "failed to satisfy constraint: only a",
        ),
    ],
)
def test_a_value_out_of_bounds_is_refused(
    cfn: Any, value: str, declaration: dict[str, Any], why: str
):
    assert answer(cfn, value, **declaration) == f"Parameter 'P' {why}"
