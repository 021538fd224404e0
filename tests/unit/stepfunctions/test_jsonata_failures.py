"""What fails in a state of JSONata: at run time with its place, and when the machine is made."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from tests.unit.stepfunctions.test_jsonata import (
    DONE,
    Runs,
    passing,
    sending,
)
from tests.unit.stepfunctions.test_jsonata import runs as runs  # a fixture

# --- what fails -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (
            {"Type": "Pass", "Output": {"a": {"b": [1, "{% $states.input.no %}"]}}, "End": True},
            "$states.input.no' specified for the field 'Output/a/b[1]' returned nothing (undefined).",
        ),
        (
            {"Type": "Pass", "Assign": {"x": "{% $no %}"}, "End": True},
            "$no' specified for the field 'Assign/x' returned nothing (undefined).",
        ),
        (
            {"Type": "Pass", "Output": "{% $sum(['a']) %}", "End": True},
            (
                "$sum(['a'])' specified for the field 'Output' threw an error during evaluation. T0412:"
                ' Argument 1 of function "sum" must be an array of "numbers"'
            ),
        ),
        (
            {"Type": "Pass", "Output": "{% $sum %}", "End": True},
            "$sum' specified for the field 'Output' returned an unsupported result type.",
        ),
        (
            {"Type": "Choice", "Choices": [{"Condition": "{% 1 %}", "Next": "B"}], "Default": "B"},
            (
                "1' specified for the field 'Choices[0]/Condition' returned an unexpected result type."
                " Expected 'boolean', but was 'number' for value: 1"
            ),
        ),
        (
            {"Type": "Wait", "Seconds": "{% 's' %}", "End": True},
            (
                "'s'' specified for the field 'Seconds' returned an unexpected result type. Expected"
                " 'number', but was 'string' for value: \"s\""
            ),
        ),
        (
            {"Type": "Fail", "Error": "{% $states.input.no %}"},
            "$states.input.no' specified for the field 'Error' returned nothing (undefined).",
        ),
        (
            {
                "Type": "Map",
                "Items": "{% {} %}",
                "ItemProcessor": {"StartAt": "P", "States": {"P": DONE}},
                "End": True,
            },
            (
                "{}' specified for the field 'Items' returned an unexpected result type. Expected 'array',"
                " but was 'object' for value: {}"
            ),
        ),
        (
            {
                "Type": "Task",
                "Resource": "arn:aws:states:::sqs:sendMessage",
                "Arguments": {"QueueUrl": "{% $states.input.no %}"},
                "End": True,
            },
            (
                "$states.input.no' specified for the field 'Arguments/QueueUrl' returned nothing"
                " (undefined)."
            ),
        ),
    ],
)
def test_an_expression_that_fails_says_where(runs: Runs, state: dict[str, Any], said: str):
    states = {"A": state, **({"B": DONE} if state["Type"] == "Choice" else {})}
    assert runs.cause(states) == (
        "An error occurred while executing the state 'A' (entered at the event id #2). The JSONata"
        f" expression '{said}"
    )


def test_a_failure_is_one_event_with_its_place(runs: Runs):
    done = runs({"A": sending("q", Arguments={"QueueUrl": "{% $states.input.no %}"})})
    (event,) = runs.events(done, "EvaluationFailed")
    details = event["evaluationFailedEventDetails"]
    assert (details["location"], details["state"]) == ("Arguments/QueueUrl", "A")
    assert details["cause"] == done["cause"]


def test_a_failure_inside_of_a_parallel_and_a_map_keeps_its_name(runs: Runs):
    inner = {"StartAt": "P", "States": {"P": {
        "Type": "Pass", "Output": "{% $states.input.no %}", "End": True,
    }}}  # fmt: skip
    for outer in (
        {"Type": "Parallel", "Branches": [inner], "End": True},
        {"Type": "Map", "Items": [1], "ItemProcessor": inner, "End": True},
    ):
        cause = runs.cause({"A": outer})
        assert cause.startswith("An error occurred while executing the state 'P'")
        assert cause.count("An error occurred") == 1


def test_variables_are_bounded(runs: Runs):
    done = runs(passing(Assign={"x": "{% $pad('', 300000, 'x') %}"}))
    assert done["error"] == "States.DataLimitExceeded"


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (
            {"Output": "{% phone %}"},
            (
                "UNSUPPORTED_JSONATA_EXPRESSION: Reference to 'phone' at the top level is not supported."
                " at /States/A/Output"
            ),
        ),
        (
            {"Output": {"v": ["{% 1 + %}"]}},
            "INVALID_JSONATA_EXPRESSION: Unexpected end of expression at /States/A/Output/v[0]",
        ),
        (
            {"Output": "{% $$ %}"},
            (
                "UNSUPPORTED_JSONATA_EXPRESSION: Reference to '$$' is not supported. at"
                " /States/A/Output"
            ),
        ),
        (
            {"Output": "{% $states.errorOutput %}"},
            (
                "UNSUPPORTED_JSONATA_EXPRESSION: Field '$states.errorOutput' does not exist. at"
                " /States/A/Output"
            ),
        ),
        (
            {"Output": "{% $states.result %}"},
            (
                "UNSUPPORTED_JSONATA_EXPRESSION: Field '$states.result' does not exist. at"
                " /States/A/Output"
            ),
        ),
        (
            {"Output": "{% States.UUID() %}"},
            (
                "UNSUPPORTED_JSONATA_EXPRESSION: Reference to 'States' at the top level is not"
                " supported. at /States/A/Output"
            ),
        ),
        (
            {"InputPath": "$.x"},
            (
                "SCHEMA_VALIDATION_FAILED: The QueryLanguage is set to 'JSONata', but field 'InputPath'"
                " is only supported for the 'JSONPath' QueryLanguage at /States/A"
            ),
        ),
        (
            {"QueryLanguage": "JSONPath"},
            (
                "SCHEMA_VALIDATION_FAILED: 'QueryLanguage' can not be 'JSONPath' if set to 'JSONata' for"
                " whole state machine at /States/A"
            ),
        ),
        (
            {"QueryLanguage": "jsonata"},
            (
                "SCHEMA_VALIDATION_FAILED: Value should be one of the following: [JSONPath, JSONata] at"
                " /States/A/QueryLanguage"
            ),
        ),
    ],
)
def test_a_definition_is_refused(runs: Runs, state: dict[str, Any], said: str):
    with pytest.raises(ClientError) as caught:
        runs(passing(**state))
    error: Any = cast("Any", caught.value).response["Error"]
    assert error["Code"] == "InvalidDefinition"
    assert error["Message"] == f"Invalid State Machine Definition: '{said}'"


def test_a_jsonpath_state_has_no_fields_of_jsonata(runs: Runs):
    definition = {"StartAt": "A", "States": passing(Output=1)}
    answer = runs.client.validate_state_machine_definition(definition=json.dumps(definition))
    (problem,) = answer["diagnostics"]
    assert problem["message"] == (
        "The QueryLanguage is set to 'JSONPath', but field 'Output' is only supported for the"
        " 'JSONata' QueryLanguage"
    )
