"""Definitions that CreateStateMachine refuses, and executions of versions and aliases.

The rules: https://states-language.net/spec.html (documented). The sentences of the first three: observed by users, who
quote them in public issues; those of the others follow their form (assumed).
"""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from headrace.services.stepfunctions.definition_checks import problems_of
from tests.support.moto_lab import MotoLab
from tests.support.server import wait_until

ROLE = "arn:aws:iam::000000000000:role/r"
PASS: dict[str, Any] = {"Type": "Pass", "End": True}


INNER: dict[str, Any] = {"StartAt": "I", "States": {"I": PASS}}
BATCHED: dict[str, Any] = {
    "Type": "Map",
    "ItemProcessor": {**INNER, "ProcessorConfig": {"Mode": "DISTRIBUTED"}},
    "End": True,
}


def text(states: dict[str, Any], **more: Any) -> str:
    return json.dumps({"StartAt": "A", "States": states, **more})


def integration(resource: str) -> str:
    return text({"A": {"Type": "Task", "Resource": f"arn:aws:states:::{resource}", "End": True}})


@pytest.mark.parametrize(
    "resource",
    [
        "eventbridge:putEvents", "sqs:sendMessag", "sqs", "nosuch:do", "aws-sdk:nosuch:do", "aws-sdk:s3:nope",
        "aws-sdk:s3", "elasticmapreduce", "",
    ],
)  # fmt: skip
def test_an_integration_that_no_service_has_is_refused(resource: str) -> None:
    (problem,) = problems_of(integration(resource))
    assert (problem.code, problem.location) == ("SCHEMA_VALIDATION_FAILED", "/States/A/Resource")
    # Observed by users of AWS.
    assert problem.message == (
        f"The resource provided arn:aws:states:::{resource} is not recognized. The value is not a valid resource ARN, "
        "or the resource is not available in this region."
    )


@pytest.mark.parametrize(
    "resource",
    [
        "events:putEvents", "events:putEvents.waitForTaskToken", "sqs:sendMessage", "states:startExecution.sync:2",
        "elasticmapreduce:addStep.sync", "aws-sdk:eventbridge:putEvents", "aws-sdk:sfn:startExecution",
        "aws-sdk:rds:describeDBInstances", "aws-sdk:s3:listObjectsV2", "http:invoke", "emr-serverless:startJobRun",
    ],
)  # fmt: skip
def test_an_integration_is_taken(resource: str) -> None:
    assert problems_of(integration(resource)) == []


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        (
            text({"A": {"Type": "Nope", "End": True}}),
            (
                "SCHEMA_VALIDATION_FAILED: The field 'Type' should have one of these values:"
                " [Task, Wait, Pass, Succeed, Fail, Choice, Parallel, Map] at /States/A/Type"
            ),
        ),
        (
            text({"A": {**PASS, "_note": 1}}),
            "SCHEMA_VALIDATION_FAILED: Field '_note' is not supported at /States/A",
        ),
        (
            text({"A": {"Type": "Pass", "Next": "Z"}}),
            "MISSING_TRANSITION_TARGET: Missing 'Next' target: Z at /States/A/Next",
        ),
        ("{}", "SCHEMA_VALIDATION_FAILED: These fields are required: [States, StartAt] at /"),
        (
            text({"A": PASS, "B": PASS}),
            'MISSING_TRANSITION_TARGET: State "B" is not reachable. at /States/B',
        ),
        (
            text({"A": {"Type": "Task", "End": True}}),
            "SCHEMA_VALIDATION_FAILED: These fields are required: [Resource] at /States/A",
        ),
        (
            text({"A": {**BATCHED, "ItemBatcher": {"BatchInput": {}}}}),
            (
                "SCHEMA_VALIDATION_FAILED: These fields are required: [MaxItemsPerBatch or MaxInputBytesPerBatch]"
                " at /States/A/ItemBatcher"
            ),
        ),
        (
            text({"A": {**BATCHED, "ItemBatcher": {"MaxItemsPerBatch": "2"}}}),
            (
                "SCHEMA_VALIDATION_FAILED: Expected value of type Integer for field 'MaxItemsPerBatch'"
                " at /States/A/ItemBatcher/MaxItemsPerBatch"
            ),
        ),
        (
            text({"A": {**BATCHED, "ItemBatcher": {"MaxInputBytesPerBatch": 0}}}),
            (
                "SCHEMA_VALIDATION_FAILED: The field 'MaxInputBytesPerBatch' should be a positive integer"
                " at /States/A/ItemBatcher/MaxInputBytesPerBatch"
            ),
        ),
        (
            text(
                {"A": {**BATCHED, "ItemProcessor": INNER, "ItemBatcher": {"MaxItemsPerBatch": 1}}}
            ),
            "SCHEMA_VALIDATION_FAILED: Field 'ItemBatcher' is not supported at /States/A",
        ),
    ],
)
def test_a_definition_is_refused_when_it_is_made_or_changed(
    lab: MotoLab, definition: str, said: str
):
    states = lab.client("stepfunctions")
    with pytest.raises(ClientError) as caught:
        states.create_state_machine(name="m", definition=definition, roleArn=ROLE)
    error: Any = cast("Any", caught.value).response["Error"]
    assert error["Code"] == "InvalidDefinition"
    assert error["Message"] == f"Invalid State Machine Definition: '{said}'"
    good = states.create_state_machine(name="m", definition=text({"A": PASS}), roleArn=ROLE)
    with pytest.raises(ClientError):
        states.update_state_machine(stateMachineArn=good["stateMachineArn"], definition=definition)


TASK: dict[str, Any] = {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "End": True}
RULE: dict[str, Any] = {"Variable": "$.x", "IsPresent": True, "Next": "B"}


def choice(*rules: Any, **more: Any) -> dict[str, Any]:
    return {"Type": "Choice", "Choices": list(rules), **more}


@pytest.mark.parametrize(
    ("state", "expected", "place"),
    [
        (choice(RULE, Default=False), "String", "Default"),
        (choice(RULE, Default=["B"]), "String", "Default"),
        (choice({**RULE, "Variable": 5}), "String", "Choices[0]/Variable"),
        (choice({"Variable": "$.x", "NumericEquals": "5", "Next": "B"}), "Number", "Choices[0]/NumericEquals"),
        (choice({"Variable": "$.x", "BooleanEqualsPath": 5, "Next": "B"}), "String", "Choices[0]/BooleanEqualsPath"),
        (choice({"Not": {"Variable": "$.x", "IsNull": "no"}, "Next": "B"}), "Boolean", "Choices[0]/Not[0]/IsNull"),
        (choice({"And": {}, "Next": "B"}), "Array", "Choices[0]/And"),
        ({**PASS, "End": "true", "Next": "B"}, "Boolean", "End"),
        ({**PASS, "ResultPath": False}, "String or null", "ResultPath"),
        ({**PASS, "Assign": ["x"]}, "Object", "Assign"),
        ({**TASK, "Resource": 5}, "String", "Resource"),
        ({**TASK, "TimeoutSeconds": "5"}, "Integer", "TimeoutSeconds"),
        ({**TASK, "TimeoutSeconds": True}, "Integer", "TimeoutSeconds"),
        ({**TASK, "TimeoutSeconds": "{% 5 %}"}, "Integer", "TimeoutSeconds"),
        ({**TASK, "Retry": {}}, "Array", "Retry"),
        ({**TASK, "Retry": [{"ErrorEquals": "x"}]}, "Array", "Retry[0]/ErrorEquals"),
        ({**TASK, "Retry": [{"ErrorEquals": [5]}]}, "String", "Retry[0]/ErrorEquals"),
        ({**TASK, "Retry": [{"ErrorEquals": ["x"], "BackoffRate": "2"}]}, "Number", "Retry[0]/BackoffRate"),
        ({**TASK, "Catch": [{"ErrorEquals": ["x"], "Next": 5}]}, "String", "Catch[0]/Next"),
        ({"Type": "Wait", "Seconds": 1.5, "End": True}, "Integer", "Seconds"),
        ({"Type": "Fail", "Cause": ["a"]}, "String", "Cause"),
        ({"Type": "Map", "MaxConcurrency": "5", "ItemProcessor": INNER, "End": True}, "Integer", "MaxConcurrency"),
        ({"Type": "Parallel", "Branches": INNER, "End": True}, "Array", "Branches"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused(state: dict[str, Any], expected: str, place: str):
    messages = [
        f"{problem.message} at {problem.location}" for problem in problems_of(text({"A": state}))
    ]
    name = place.rpartition("/")[2]
    assert f"Expected value of type {expected} for field '{name}' at /States/A/{place}" in messages


def test_expressions_stand_for_values_of_any_type_and_nulls_are_paths():
    states = {
        "A": {"Type": "Wait", "Seconds": "{% $n %}", "QueryLanguage": "JSONata", "Next": "B"},
        "B": {**TASK, "InputPath": None, "ResultPath": None, "Next": "C", "End": False,
              "Retry": [{"ErrorEquals": ["x"], "BackoffRate": 2, "JitterStrategy": "FULL"}]},
        "C": choice({"Or": [{"Variable": "$.x", "NumericLessThan": 1.5}], "Next": "D"}, Default="D"),
        "D": PASS,
    }  # fmt: skip
    assert problems_of(text(states)) == []


@pytest.mark.parametrize("definition", ["", " ", "no", "[]", '"A"', "[" * 5000])
def test_what_is_no_json_object_is_said_to_be_none(definition: str):
    (problem,) = problems_of(definition)
    # Recorded: these are no problems of JSON.
    is_json = definition.strip() in ("", "[]", '"A"')
    assert problem.code == ("SCHEMA_VALIDATION_FAILED" if is_json else "INVALID_JSON_DESCRIPTION")


def test_every_kind_of_state_is_taken():
    inner = {"StartAt": "I", "States": {"I": PASS}}
    states = {
        "A": {"Type": "Task", "Resource": "arn:x", "Next": "B", "Catch": [{"ErrorEquals": ["E"], "Next": "F"}]},
        "B": {"Type": "Choice", "Choices": [{"Variable": "$.x", "IsPresent": True, "Next": "C"}], "Default": "D"},
        "C": {"Type": "Wait", "Seconds": 1, "Next": "D"},
        "D": {"Type": "Parallel", "Branches": [inner], "Next": "E"},
        "E": {"Type": "Map", "ItemProcessor": {**inner, "ProcessorConfig": {"Mode": "INLINE"}}, "Next": "G"},
        "F": {"Type": "Fail", "Error": "e"},
        "G": {"Type": "Map", "Iterator": inner, "Next": "H"},
        "H": {"Type": "Succeed"},
    }  # fmt: skip
    assert problems_of(text(states, Comment="c", TimeoutSeconds=9, Version="1.0")) == []


def test_validate_says_what_create_would_refuse(lab: MotoLab):
    states = lab.client("stepfunctions")
    good = states.validate_state_machine_definition(definition=text({"A": PASS}))
    assert (good["result"], good["diagnostics"]) == ("OK", [])
    bad = states.validate_state_machine_definition(definition=text({"A": {"Type": "Pass"}}))
    assert bad["result"] == "FAIL"
    assert bad["diagnostics"][0]["severity"] == "ERROR"
    assert bad["diagnostics"][0]["location"] == "/States/A"


def test_a_version_and_an_alias_run_what_they_were_published_with(lab: MotoLab):
    states = lab.client("stepfunctions")
    first = text({"A": {**PASS, "Result": "first"}})
    arn = states.create_state_machine(name="m", definition=first, roleArn=ROLE, publish=True)
    alias = states.create_state_machine_alias(
        name="live",
        routingConfiguration=[
            {"stateMachineVersionArn": arn["stateMachineVersionArn"], "weight": 100}
        ],
    )["stateMachineAliasArn"]
    second = text({"A": {**PASS, "Result": "second"}})
    states.update_state_machine(stateMachineArn=arn["stateMachineArn"], definition=second)
    for of, wanted in (
        (arn["stateMachineVersionArn"], "first"),
        (alias, "first"),
        (arn["stateMachineArn"], "second"),
    ):
        started = states.start_execution(stateMachineArn=of)["executionArn"]
        wait_until(
            lambda arn=started: states.describe_execution(executionArn=arn)["status"] != "RUNNING",
            within_s=30,
            what="its end",
        )
        assert states.describe_execution(executionArn=started)["output"] == f'"{wanted}"'
    with pytest.raises(ClientError, match="StateMachineDoesNotExist"):
        states.start_execution(stateMachineArn=f"{arn['stateMachineArn']}:7")
