"""Intrinsic functions as they are written in definitions, and what CreateStateMachine says to those that are none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.services.stepfunctions.intrinsic_calls import NoCall, parse_call
from tests.support.moto_lab import MotoLab

ROLE = "arn:aws:iam::000000000000:role/r"
GIVEN = {"s": "Hi", "n": 7, "l": [{"k": 1}, {"k": 2}], "q": "a'b{}\\", "é": "ü"}


def made(lab: MotoLab, call: str, **state: Any) -> Any:
    given = {"Type": "Pass", "Parameters": {"r.$": call}, "End": True, **state}
    found = lab.client("stepfunctions").test_state(
        definition=json.dumps(given), roleArn=ROLE, input=json.dumps(GIVEN)
    )
    return (
        json.loads(found["output"])["r"] if "output" in found else (found["error"], found["cause"])
    )


@pytest.mark.parametrize(
    ("call", "value"),
    [
        (r"States.Format('it\'s {}', $.s)", "it's Hi"),
        (r"""States.Format('SELECT \'{}\' FROM "t"', $.s)""", """SELECT 'Hi' FROM "t\""""),
        (r"States.Format('C:\\{} \{\}', $.s)", r"C:\Hi {}"),
        ("States.Format('{}', $.q)", "a'b{}\\"),
        ("States.Format('a\n\t{} é 😀', $['é'])", "a\n\tü é 😀"),
        (r"States.Array('it\'s', '\{\}', '\\', 'a,b)')", ["it's", "{}", "\\", "a,b)"]),
        ("States.Array(null, true, false, 1.5, -2, 1e3, 'a')", [None, True, False, 1.5, -2, 1000.0, "a"]),
        ("States.Array( $.l[?(@.k > 1)].k , $$.State.Name )", [[2], "StateName"]),
        ("States.ArrayGetItem(States.Array(null), 0)", None),
        ("States.MathAdd(1.6, 1)", 3),
        ("States.MathRandom(4, 5)", 4),
        ("States.Base64Encode('é')", "w6k="),
        ("States.Base64Decode('w6k=')", "é"),
        ("States.JsonToString($.é)", '"ü"'),
        ("States.StringSplit('a\nb', '\n')", ["a", "b"]),
    ],
)  # fmt: skip
def test_a_call_is_read_as_it_is_written(lab: MotoLab, call: str, value: Any):
    assert made(lab, call) == value


@pytest.mark.parametrize("path", ["$.ü", "$['ü']", "$.größe.名前", "$.a['b c']", "$.1st"])
def test_names_have_letters_of_all_languages(lab: MotoLab, path: str):
    state = {"Type": "Pass", "Result": "é", "ResultPath": path, "End": True}
    client = lab.client("stepfunctions")
    put = client.test_state(definition=json.dumps(state), roleArn=ROLE, input="{}")["output"]
    assert "é" in put
    state = {"Type": "Pass", "InputPath": path, "End": True}
    got = client.test_state(definition=json.dumps(state), roleArn=ROLE, input=put)["output"]
    assert got == '"é"'


def test_a_variable_is_an_argument(lab: MotoLab):
    state = {"Type": "Pass", "Parameters": {"r.$": "States.Format('{}', $x.y)"}, "End": True}
    answer = lab.client("stepfunctions").test_state(
        definition=json.dumps(state), roleArn=ROLE, variables=json.dumps({"x": {"y": "it's"}})
    )
    assert json.loads(answer["output"]) == {"r": "it's"}


@pytest.mark.parametrize(
    "call",
    [
        "States.ArrayGetItem($.l, -1)", "States.ArrayGetItem($.l, 2)", "States.Base64Decode('!!')",
        "States.MathRandom(5, 5)", "States.JsonMerge($.l, $, false)", "States.JsonMerge($, $, true)",
    ],
)  # fmt: skip
def test_a_function_that_cannot_do_it_fails_by_its_name(lab: MotoLab, call: str):
    error, cause = made(lab, call)
    assert (error, call.partition("(")[0] in cause) == ("States.IntrinsicFailure", True), cause


@pytest.mark.parametrize(
    "text",
    [
        "Test", "States.Nothing(1)", r"States.Format('a\n{}', $.s)", r"States.Array('\"')",
        "States.Array(a)", "States.Array(1", "States.Array(1,)", "States.Array(1 2)",
        "States.Array(1) ", "States.Format('a' {})", "States.Format('it's {}', $.s)",
        "States.UUID(1)", "States.Hash('a')", "States.Array(" * 11 + ")" * 11,
        f"States.Array({'1' * 5000})", "States.Array(1e999)", "States.Array(-1e999)", "States.Array(\u0663)",
    ],
)  # fmt: skip
def test_a_machine_with_what_is_no_call_is_refused(lab: MotoLab, text: str):
    with pytest.raises(NoCall):
        parse_call(text)
    for field, place in (
        ({"Parameters": {"a": [{"x.$": text}]}}, "Parameters/a[0]"),
        ({"Assign": {"x.$": text}}, "Assign"),
    ):
        state = {"Type": "Pass", "End": True, **field}
        definition = json.dumps({"StartAt": "A", "States": {"A": state}})
        with pytest.raises(ClientError) as refused:
            lab.client("stepfunctions").create_state_machine(
                name="m", definition=definition, roleArn=ROLE
            )
        assert refused.value.response["Error"]["Message"] == (
            "Invalid State Machine Definition: 'SCHEMA_VALIDATION_FAILED: The value for the field 'x.$' must be a valid"
            f" JSONPath or a valid intrinsic function call at /States/A/{place}'"
        )


@pytest.mark.parametrize("field", ["InputPath", "OutputPath", "ResultPath"])
def test_a_path_begins_with_its_dollar(lab: MotoLab, field: str):
    state = {"Type": "Pass", "End": True, field: "Test"}
    with pytest.raises(
        ClientError, match=rf"Value must be a valid JSONPath\. at /States/A/{field}"
    ):
        lab.client("stepfunctions").create_state_machine(
            name="m", definition=json.dumps({"StartAt": "A", "States": {"A": state}}), roleArn=ROLE
        )
