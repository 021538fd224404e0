"""Intrinsic functions: dynamic references and what functions may produce."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.services.cloudformation import errors
from headrace.services.cloudformation.errors import TemplateError
from headrace.services.cloudformation.template import language_extensions
from headrace.services.cloudformation.template.functions import UNKNOWN
from headrace.services.cloudformation.template.intrinsics import Scope, evaluate


def scope(**names: Any) -> Scope:
    return Scope(
        names={"AWS::Region": "us-east-1", **names},
        attribute=lambda logical_id, name: f"{logical_id}.{name}",
        imported=lambda name: name,
        dynamic=lambda service, key: f"<{service} {key}>",
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a{{resolve:ssm:p}}b", "a<ssm p>b"),
        ("{{resolve:ssm:/a/b:3}}{{resolve:secretsmanager:s:SecretString:k}}",
         "<ssm /a/b:3><secretsmanager s:SecretString:k>"),
        ("{{resolve:ssm-secure:p:1}}", "<ssm-secure p:1>"),
        ("{{resolve:nobody:p}}", "{{resolve:nobody:p}}"),
        ("{{resolve:ssm:}}", "{{resolve:ssm:}}"),
        ("{{resolve:ssm:a}b}}", "{{resolve:ssm:a}b}}"),
        ("{{resolve:ssm:p", "{{resolve:ssm:p"),
        ("{{resolve:x:{{resolve:ssm:p}}", "{{resolve:x:<ssm p>"),
    ],
)  # fmt: skip
def test_dynamic_references_are_replaced(text: str, value: str):
    assert evaluate(text, scope()) == value


def test_a_dynamic_reference_may_be_joined_of_parts():
    # As CDK writes a reference to a secret of the same template.
    parts = ["{{resolve:secretsmanager:", {"Ref": "P"}, ":SecretString:k::}}"]
    there = scope(P="arn")
    assert evaluate({"Fn::Join": ["", parts]}, there) == "<secretsmanager arn:SecretString:k::>"
    # What stands in a value is no reference.
    assert (
        evaluate({"Fn::Join": ["", ["a", {"Ref": "P"}]]}, scope(P="{{resolve:ssm:p}}"))
        == "a{{resolve:ssm:p}}"
    )


@pytest.mark.parametrize("text", ["{{resolve:ssm:" * 60_000, "{{resolve:x:" * 60_000 + "}}"])
def test_references_without_an_end_are_left_as_they_are(text: str):
    assert evaluate(text, scope()) == text


def test_what_functions_produce_is_taken_from_an_allowance():
    there = scope(P=["x" * 100] * 10)
    evaluate([{"Ref": "P"}, {"Fn::Join": ["-", ["a", "b"]]}], there)
    assert errors.PRODUCED_BYTES - there.allowance.left_bytes == 10 * 103 + 3
    there.allowance.left_bytes = 2
    with pytest.raises(TemplateError, match="produce more than 4,000,000 bytes"):
        evaluate({"Fn::Join": ["-", ["a", "b"]]}, there)


def test_what_another_stack_exports_is_taken_from_the_allowance_too():
    there = scope()
    assert evaluate([{"Fn::ImportValue": "abc"}] * 5, there) == ["abc"] * 5
    assert errors.PRODUCED_BYTES - there.allowance.left_bytes == 15


def test_literal_values_are_not_counted():
    there = scope()
    assert evaluate({"a": ["x" * 5_000_000]}, there) == {"a": ["x" * 5_000_000]}


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ({"Fn::Cidr": ["10.0.0.0/24", 2, 5]}, ["10.0.0.0/27", "10.0.0.32/27"]),
        ({"Fn::Cidr": ["10.0.0.0/16", "256", "8"]}, [f"10.0.{i}.0/24" for i in range(256)]),
        ({"Fn::Select": ["1", ["a", "b"]]}, "b"),
        ({"Fn::Split": [",", "a,b"]}, ["a", "b"]),
        ({"Fn::Or": [False, True]}, True),
        ({"Fn::And": [True, True]}, True),
        ({"Fn::Cidr": [UNKNOWN, 2, 5]}, [UNKNOWN]),
    ],
)
def test_functions(value: Any, result: Any):
    assert evaluate(value, scope()) == result


@pytest.mark.parametrize(
    ("value", "sentence"),
    [  # the sentences of Select, Join, And and Or are AWS's
        ({"Fn::Select": ["x", ["a"]]}, "requires a list argument with two elements: an integer index and a list"),
        ({"Fn::Select": [-1, ["a"]]}, "Fn::Select requires a list argument with two elements"),
        ({"Fn::Join": ["-", "a"]}, r"every Fn::Join object requires two parameters, \(1\) a string delimiter and"),
        ({"Fn::Split": ["", "a"]}, r"every Fn::Split object requires two parameters, \(1\) a string delimiter"),
        ({"Fn::Or": [True]}, "requires a list of at least 2 and at most 10 boolean parameters"),
        ({"Fn::And": [True] * 11}, "requires a list of at least 2 and at most 10 boolean parameters"),
        ({"Fn::Cidr": ["10.0.0.0/24", 257, 1]}, "count is not between 1 and 256"),
        ({"Fn::Cidr": ["10.0.0.0/24", 3, 7]}, "does not hold 3 blocks of that size"),
        ({"Fn::Cidr": ["ten", 1, 1]}, "every Fn::Cidr object requires"),
        ({"Fn::Length": 7}, "a function has an argument that it does not take"),
        ({"Ref": {"a": "b"}}, "Every Ref object must have a single String value"),
    ],
)  # fmt: skip
def test_a_function_refuses_what_it_does_not_take(value: Any, sentence: str):
    with pytest.raises(TemplateError, match=sentence):
        evaluate(value, scope())


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([str(number) for number in range(1000)], "a" * 10_000),
        (["a" * 10_000], "${X}" * 1000),
        (["&{X}" * 2000], "${X}" * 100),
    ],
    ids=["many copies", "a long item", "an item that is replaced itself"],
)
def test_loops_produce_so_much_and_no_more(items: list[str], text: str):
    body = {"R${X}": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": text}}}
    document = {"Resources": {"Fn::ForEach::Loop": ["X", items, body]}}
    with pytest.raises(TemplateError, match="functions produce more than 4,000,000 bytes"):
        language_extensions.expand(document, {})
