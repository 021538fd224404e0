"""Outputs and functions that AWS refuses or answers in its own way: no value, conditions, descriptions, other zones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.cloudformation.test_stacks import settled

VALUE = "Template format error: The Value field of every Outputs member must evaluate to a String"
NO_VALUE = {"Ref": "AWS::NoValue"}
CONDITIONS = {"Yes": {"Fn::Equals": ["a", "a"]}, "No": {"Fn::Not": [{"Condition": "Yes"}]}}


def create(cfn: Any, output: dict[str, Any]) -> list[dict[str, str]]:
    body = {
        "Conditions": CONDITIONS,
        "Resources": {"W": {"Type": "AWS::CloudFormation::WaitConditionHandle"}},
        "Outputs": {"O": output},
    }
    cfn.create_stack(StackName="s", TemplateBody=json.dumps(body))
    assert settled(cfn, "s") == "CREATE_COMPLETE"
    return cfn.describe_stacks(StackName="s")["Stacks"][0]["Outputs"]


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ({"Value": NO_VALUE}, VALUE),
        ({"Value": {"Fn::If": ["No", "x", NO_VALUE]}}, VALUE),
        ({"Value": {"Fn::If": ["Yes", {"Fn::If": ["Yes", NO_VALUE, "x"]}, "x"]}}, VALUE),
        ({"Value": {"Fn::If": ["Yes", {"Fn::Split": [",", "a"]}, "x"]}}, VALUE),
        ({"Value": {"Fn::Equals": ["a", "b"]}}, VALUE),
        ({"Value": {"Fn::And": [{"Condition": "Yes"}, {"Condition": "Yes"}]}}, VALUE),
        ({"Value": {"Fn::Or": [{"Condition": "Yes"}, {"Condition": "Yes"}]}}, VALUE),
        ({"Value": {"Fn::Not": [{"Condition": "Yes"}]}}, VALUE),
        ({"Value": "x", "Description": {"Fn::If": ["Yes", "a", "b"]}}, "must be a string"),
        ({"Value": "x", "Description": ["a"]}, "must be a string"),
        (
            {"Value": {"Fn::Sub": ["${a}", {"a": NO_VALUE}]}},
            "every value of the context object of every Fn::Sub object must be a string",
        ),
        (
            {"Value": {"Fn::Sub": ["${a}", {"a": {"Fn::If": ["No", "x", NO_VALUE]}}]}},
            "every value of the context object of every Fn::Sub object must be a string",
        ),
    ],
)
def test_what_is_no_string_is_refused(cfn: Any, output: dict[str, Any], said: str) -> None:
    with pytest.raises(ClientError) as caught:
        create(cfn, output)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"Fn::If": ["Yes", "x", NO_VALUE]}, "x"),
        ({"Fn::Join": [",", {"Fn::GetAZs": ""}]}, "us-east-1a,us-east-1b,us-east-1c"),
        ({"Fn::Join": [",", {"Fn::GetAZs": "us-east-1"}]}, "us-east-1a,us-east-1b,us-east-1c"),
        ({"Fn::Join": [",", {"Fn::GetAZs": "eu-west-1"}]}, ""),
        ({"Fn::Join": [",", ["a", NO_VALUE, "b"]]}, "a,b"),
        (True, "true"),
        ({"Fn::If": ["No", 1, False]}, "false"),
        ({"Fn::Sub": ["${a}-${b}", {"a": True, "b": 1.5}]}, "true-1.5"),
        (7, "7"),
    ],
)
def test_what_is_a_string_is_shown(cfn: Any, value: Any, shown: str) -> None:
    (output,) = create(cfn, {"Value": value, "Description": "text"})
    assert (output["OutputValue"], output["Description"]) == (shown, "text")


def test_an_attribute_that_is_a_list_fails_the_stack(cfn: Any) -> None:
    vpc = {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}}
    body = {
        "Resources": {"V": vpc},
        "Outputs": {"O": {"Value": {"Fn::GetAtt": ["V", "CidrBlockAssociations"]}}},
    }
    cfn.create_stack(StackName="s", TemplateBody=json.dumps(body))
    assert settled(cfn, "s") == "ROLLBACK_COMPLETE"
    events = cfn.describe_stack_events(StackName="s")["StackEvents"]
    assert any(VALUE in event.get("ResourceStatusReason", "") for event in events)
