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
        ({"definition": '{"Type": "Succeed"}', "inspectionLevel": "TRACE"}, "UnknownOperation"),
    ],
)
def test_a_test_is_refused(lab: MotoLab, given: dict[str, Any], code: str):
    with pytest.raises(ClientError, match=code):
        lab.client("stepfunctions").test_state(roleArn=ROLE, **given)
