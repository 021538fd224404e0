"""TestState: what a state gives, and where it goes on.

Documented: https://docs.aws.amazon.com/step-functions/latest/dg/test-state-isolation.html.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.moto_lab import MotoLab

ROLE = "arn:aws:iam::000000000000:role/r"
FAILING = {
    "Type": "Task",
    "Resource": "arn:aws:states:::aws-sdk:sqs:deleteQueue",
    "Parameters": {"QueueUrl": "no"},
    "Next": "N",
}
ERROR = "Sqs.QueueDoesNotExistException"
CATCH = [{"ErrorEquals": ["States.ALL"], "ResultPath": None, "Next": "C"}]


@pytest.mark.parametrize(
    ("state", "answer"),
    [
        (
            {"Type": "Pass", "QueryLanguage": "JSONata", "Output": "{% $v + 1 %}", "Next": "N"},
            {"status": "SUCCEEDED", "output": "4", "nextState": "N"},
        ),
        ({"Type": "Pass", "End": True}, {"status": "SUCCEEDED", "output": '{"n":2}'}),
        # To itself.
        (
            {"Type": "Choice", "Choices": [{"Variable": "$.n", "NumericEquals": 2, "Next": "A"}]},
            {"status": "SUCCEEDED", "output": '{"n":2}', "nextState": "A"},
        ),
        (
            {"Type": "Fail", "Error": "E", "Cause": "C"},
            {"status": "FAILED", "error": "E", "cause": "C"},
        ),
        (FAILING, {"status": "FAILED", "error": ERROR}),
        (
            {**FAILING, "Retry": [{"ErrorEquals": ["States.TaskFailed"]}], "Catch": CATCH},
            {"status": "RETRIABLE", "error": ERROR},
        ),
        (
            {**FAILING, "Retry": [{"ErrorEquals": ["Other"]}], "Catch": CATCH},
            {"status": "CAUGHT_ERROR", "error": ERROR, "output": '{"n":2}', "nextState": "C"},
        ),
    ],
)
def test_a_state_is_run_alone(lab: MotoLab, state: dict[str, Any], answer: dict[str, Any]):
    found = lab.client("stepfunctions").test_state(
        definition=json.dumps({"StartAt": "A", "States": {"A": state}}),
        stateName="A",
        roleArn=ROLE,
        input='{"n": 2}',
        variables='{"v": 3}',
    )
    assert {name: found.get(name) for name in answer} == answer
    assert ("nextState" in found) is ("nextState" in answer)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"definition": '{"Type": "Nope"}'}, "InvalidDefinition"),
        ({"definition": "no"}, "InvalidDefinition"),
        ({"definition": '{"Type": "Succeed"}', "input": "no"}, "InvalidExecutionInput"),
        ({"definition": '{"Type": "Succeed"}', "inspectionLevel": "LOUD"}, "ValidationException"),
    ],
)
def test_a_test_is_refused(lab: MotoLab, given: dict[str, Any], code: str):
    with pytest.raises(ClientError, match=code):
        lab.client("stepfunctions").test_state(roleArn=ROLE, **given)


LAMBDA = {
    "Type": "Task",
    "Resource": "arn:aws:states:::lambda:invoke",
    "Parameters": {"FunctionName": "f", "Payload.$": "$"},
    "End": True,
}
IN = {"a": {"b": 1}, "c": 2}


def inspected(lab: MotoLab, state: dict[str, Any], given: Any = None, **more: Any) -> Any:
    """Test a state with DEBUG; return the answer with its texts of JSON read."""
    found: Any = lab.client("stepfunctions").test_state(
        definition=json.dumps(state),
        input=json.dumps(IN if given is None else given),
        **{"inspectionLevel": "DEBUG", **more},
    )
    found.pop("ResponseMetadata")
    if "output" in found:
        found["output"] = json.loads(found["output"])
    found["inspectionData"] = {
        name: json.loads(value) if isinstance(value, str) else value
        for name, value in found["inspectionData"].items()
    }
    return found


@pytest.mark.parametrize(
    ("state", "data"),
    [
        (
            {"Type": "Pass", "End": True},
            {"afterInputPath": IN, "afterParameters": IN, "afterResultSelector": IN, "afterResultPath": IN},
        ),
        (
            {"Type": "Pass", "Result": {"r": 1}, "End": True},
            {"result": {"r": 1}, "afterResultSelector": {"r": 1}, "afterResultPath": {"r": 1}},
        ),
        (
            {
                "Type": "Pass",
                "InputPath": "$.a",
                "Parameters": {"p.$": "$.b"},
                "ResultPath": "$.to",
                "End": True,
            },
            {
                "afterInputPath": {"b": 1},
                "afterParameters": {"p": 1},
                "afterResultSelector": {"p": 1},
                "afterResultPath": {**IN, "to": {"p": 1}},
            },
        ),
        ({"Type": "Succeed"}, {"afterInputPath": IN}),
        ({"Type": "Fail", "Error": "E"}, {"afterInputPath": IN}),
        ({"Type": "Pass", "QueryLanguage": "JSONata", "Output": 1, "End": True}, {}),
    ],
)  # fmt: skip
def test_what_becomes_of_the_data_is_shown(
    lab: MotoLab, state: dict[str, Any], data: dict[str, Any]
):
    assert inspected(lab, state)["inspectionData"] == {"input": IN, **data}


def test_a_mock_stands_for_the_task(lab: MotoLab):
    state = {**LAMBDA, "ResultSelector": {"got.$": "$.Payload"}, "ResultPath": "$.r"}
    mock = {"result": json.dumps({"Payload": "x", "StatusCode": 200})}
    found = inspected(lab, state, mock=mock)
    parameters = {"FunctionName": "f", "Payload": IN}
    assert (found["status"], found["output"]) == ("SUCCEEDED", {**IN, "r": {"got": "x"}})
    assert found["inspectionData"] == {
        "input": IN,
        "afterInputPath": IN,
        "afterParameters": parameters,
        "result": {"Payload": "x", "StatusCode": 200},
        "afterResultSelector": {"got": "x"},
        "afterResultPath": {**IN, "r": {"got": "x"}},
    }


def test_a_mock_stands_for_a_task_in_jsonata(lab: MotoLab):
    state = {
        "Type": "Task",
        "QueryLanguage": "JSONata",
        "Resource": "arn:aws:states:::http:invoke",
        "Arguments": {"Method": "{% 'PO' & 'ST' %}"},
        "Output": "{% $states.result.ok %}",
        "End": True,
    }
    found = inspected(lab, state, mock={"result": '{"ok": 1}'}, inspectionLevel="TRACE")
    assert found["output"] == 1
    data = {"input": IN, "afterArguments": {"Method": "POST"}, "result": {"ok": 1}}
    assert found["inspectionData"] == data


def test_a_mocked_error_is_retried_then_caught(lab: MotoLab):
    retry = [
        {"ErrorEquals": ["Other"]},
        {"ErrorEquals": ["Mine"], "IntervalSeconds": 3, "BackoffRate": 2, "MaxAttempts": 2},
    ]
    state = {**LAMBDA, "Retry": retry, "Catch": CATCH}
    mock = {"errorOutput": {"error": "Mine", "cause": "why"}}

    def tried(count: int) -> Any:
        return inspected(lab, state, mock=mock, stateConfiguration={"retrierRetryCount": count})

    found = tried(1)
    assert (found["status"], found["error"], found["cause"]) == ("RETRIABLE", "Mine", "why")
    details = {"retryIndex": 1, "retryBackoffIntervalSeconds": 6}
    assert found["inspectionData"]["errorDetails"] == details
    found = tried(2)
    assert (found["status"], found["nextState"]) == ("CAUGHT_ERROR", "C")
    assert found["inspectionData"]["errorDetails"] == {"catchIndex": 0}
    assert "afterResultPath" not in found["inspectionData"]


def test_a_map_is_tested_by_its_mock_and_by_what_it_tolerates(lab: MotoLab):
    processor = {
        "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
        "StartAt": "P",
        "States": {"P": {"Type": "Pass", "End": True}},
    }
    state = {"Type": "Map", "ItemProcessor": processor, "ToleratedFailureCount": 1, "End": True}
    mock = {"result": "[1, 2]"}
    found = inspected(lab, state, [5, 6], mock=mock)
    assert (found["status"], found["output"]) == ("SUCCEEDED", [1, 2])
    shown = found["inspectionData"]
    assert (shown["afterItemsPath"], shown["maxConcurrency"]) == ([5, 6], 0)
    assert (shown["toleratedFailureCount"], "result" in shown) == (1, False)
    configuration = {"mapIterationFailureCount": 2}
    found = inspected(lab, state, [5, 6], mock=mock, stateConfiguration=configuration)
    assert found["error"] == "States.ExceedToleratedFailureThreshold"
    assert found["cause"] == "The specified tolerated failure threshold was exceeded"


def test_a_context_object_is_taken_as_it_is_given(lab: MotoLab):
    context = {"Execution": {"Id": "mine"}, "State": {"Name": "S"}, "Task": {"Token": "t"}}
    state = {
        "Type": "Task",
        "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
        "Parameters": {"QueueUrl": "q", "MessageBody": {"token.$": "$$.Task.Token"}},
        "ResultSelector": {"all.$": "$$"},
        "End": True,
    }
    found = inspected(lab, state, mock={"result": "{}"}, context=json.dumps(context))
    assert found["status"] == "SUCCEEDED", found
    assert found["inspectionData"]["afterParameters"]["MessageBody"] == {"token": "t"}
    assert found["output"] == {"all": context}


def test_variables_are_shown(lab: MotoLab):
    assign = {"w": "{% $v + 1 %}"}
    state = {"Type": "Pass", "QueryLanguage": "JSONata", "Assign": assign, "End": True}
    found = inspected(lab, state, variables='{"v": 1}')
    assert found["inspectionData"]["variables"] == {"v": 1, "w": 2}


PARALLEL = {
    "Type": "Parallel",
    "Branches": [{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": True}}}] * 2,
    "End": True,
}
S3 = {
    "Type": "Task",
    "Resource": "arn:aws:states:::aws-sdk:s3:getObject",
    "Parameters": {"Bucket": "b", "Key": "k"},
    "End": True,
}
STARTED = {
    "Type": "Task",
    "Resource": "arn:aws:states:::states:startExecution",
    "Parameters": {"StateMachineArn": "m"},
    "End": True,
}
RESULT = "Mock result schema validation error: "
CONTEXT = "Invalid Context object provided: "


def mocked(result: str, **more: Any) -> dict[str, Any]:
    return {"mock": {"result": result}, **more}


@pytest.mark.parametrize(
    ("state", "given", "sentence"),
    [
        ({"Type": "Succeed"}, mocked("1"), "State type 'Succeed' is not supported when a mock is specified"),
        (PARALLEL, {}, "TestState API does not support Map or Parallel states."),
        (PARALLEL, mocked("1"), "Mocked result must be an array."),
        (PARALLEL, mocked("[1]"), "Mocked result must contain the same number of items"),
        (S3, {"mock": {"result": "{}", "errorOutput": {}}}, "should have only one of the following fields"),
        (S3, mocked("{}", revealSecrets=True), "does not support RevealSecrets when a mock is specified."),
        (S3, mocked('{"ContentLength": "1"}'), f"{RESULT}Field 'ContentLength' must be a number"),
        (S3, mocked('{"StorageClass": "NO"}'), f"{RESULT}Field 'StorageClass' is not an expected value"),
        (STARTED, mocked("{}"), f"{RESULT}Required field 'ExecutionArn' is missing"),
        (S3, {}, "RoleArn must be specified when testing a Task state"),
        (S3, mocked("{}", context='{"Map": {}}'), f"{CONTEXT}'Map' field is not supported"),
        (S3, mocked("{}", context='{"Task": {}}'), "contains 'Task' when state is not a Task state with"),
        (S3, mocked("{}", context='{"Execution": {"x": 1}}'), f"{CONTEXT}Field 'x' is not allowed"),
        (S3, mocked("{}", context='{"Execution": {"Id": 1}}'), f"{CONTEXT}Execution.Id must be a string"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_awss_words(
    lab: MotoLab, state: dict[str, Any], given: dict[str, Any], sentence: str
):
    with pytest.raises(ClientError) as refused:
        lab.client("stepfunctions").test_state(definition=json.dumps(state), **given)
    assert sentence in refused.value.response["Error"]["Message"]


def test_how_a_mocked_result_is_validated_can_be_chosen(lab: MotoLab):
    mock = {"result": '{"StartDate": 1}', "fieldValidationMode": "NONE"}
    assert inspected(lab, STARTED, mock=mock)["output"] == {"StartDate": 1}
    with pytest.raises(ClientError, match="Field 'StartDate' must be a string"):
        inspected(lab, STARTED, mock={**mock, "fieldValidationMode": "PRESENT"})


@pytest.mark.parametrize("rate", [3, 3.0])
def test_a_backoff_that_grows_without_end_is_cut(lab: MotoLab, rate: float):
    retry = {"ErrorEquals": ["Mine"], "BackoffRate": rate, "MaxAttempts": 90_000_000}
    found = inspected(
        lab, {**LAMBDA, "Retry": [retry]}, mock={"errorOutput": {"error": "Mine"}}, inspectionLevel="DEBUG",
        stateConfiguration={"retrierRetryCount": 80_000_000},
    )  # fmt: skip
    assert found["status"] == "RETRIABLE"
    assert found["inspectionData"]["errorDetails"]["retryBackoffIntervalSeconds"] == 2**31 - 1


DEEP = '{"a":' + "[" * 50_000 + "]" * 50_000 + "}"


@pytest.mark.parametrize(
    "members",
    [
        {"definition": DEEP},
        {"definition": '{"States": [1]}', "stateName": "a"},
        {"definition": '{"States": {"a": 1}}', "stateName": "a"},
        {"definition": '{"Type": "Choice", "Choices": [1]}'},
        *({"variables": text} for text in (DEEP, "{", "[1]")),
        *(
            {"definition": json.dumps({**LAMBDA, "Retry": retry})}
            for retry in ("x", [1], [{}], [{"ErrorEquals": ["E"], "BackoffRate": "x"}])
        ),
        {"context": DEEP},
        {"mock": {"result": DEEP}},
        {"stateConfiguration": {"mapItemReaderData": DEEP}},
    ],
)
def test_what_is_malformed_is_refused_by_name(lab: MotoLab, members: dict[str, Any]):
    asked = {"definition": json.dumps(LAMBDA), "mock": {"result": "{}"}, "roleArn": ROLE}
    if "definition" in members:
        del asked["mock"]
    with pytest.raises(ClientError) as refused:
        lab.client("stepfunctions").test_state(**(asked | members))
    code = refused.value.response.get("Error", {}).get("Code")
    assert code in ("InvalidDefinition", "ValidationException")
