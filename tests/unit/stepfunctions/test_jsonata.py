"""State machines in JSONata: what each field gives, what fails and how, and that expressions are bounded.

Documented: https://docs.aws.amazon.com/step-functions/latest/dg/transforming-data.html and workflow-variables.html.
Causes, and values of the functions: observed by others on AWS (github.com/floci-io/floci, issues 2662, 2665 and 2736).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.moto_lab import MotoLab
from tests.support.server import wait_until

ROLE = "arn:aws:iam::000000000000:role/r"


class Runs:
    """Runs definitions in one cloud."""

    def __init__(self, lab: MotoLab) -> None:
        self.lab = lab
        self.client = lab.client("stepfunctions")
        self._number = 0

    def __call__(
        self, states: dict[str, Any], given: Any = None, *, language: str = "JSONata"
    ) -> dict[str, Any]:
        self._number += 1
        definition = {"QueryLanguage": language, "StartAt": next(iter(states)), "States": states}
        states_arn = self.client.create_state_machine(
            name=f"m{self._number}", definition=json.dumps(definition), roleArn=ROLE
        )["stateMachineArn"]
        text = json.dumps({} if given is None else given)
        run = self.client.start_execution(stateMachineArn=states_arn, input=text)["executionArn"]

        def described() -> dict[str, Any]:
            return self.client.describe_execution(executionArn=run)

        wait_until(lambda: described()["status"] != "RUNNING", within_s=30, what="its end")
        return described()

    def cause(self, states: dict[str, Any], given: Any = None) -> str:
        done = self(states, given)
        assert (done["status"], done["error"]) == ("FAILED", "States.QueryEvaluationError")
        return done["cause"]

    def output(self, states: dict[str, Any], given: Any = None, **how: Any) -> Any:
        done = self(states, given, **how)
        assert done["status"] == "SUCCEEDED", done.get("cause")
        return json.loads(done["output"])

    def events(self, done: dict[str, Any], kind: str) -> list[dict[str, Any]]:
        answer = self.client.get_execution_history(executionArn=done["executionArn"])
        return [each for each in answer["events"] if each["type"] == kind]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    with MotoLab(tmp_path_factory.mktemp("jsonata") / "data") as lab:
        yield Runs(lab)


def passing(**fields: Any) -> dict[str, Any]:
    return {"A": {"Type": "Pass", "End": True, **fields}}


def sending(queue: str, **fields: Any) -> dict[str, Any]:
    return {
        "Type": "Task",
        "Resource": "arn:aws:states:::sqs:sendMessage",
        "Arguments": {"QueueUrl": queue, "MessageBody": "{% $states.input %}"},
        "End": True,
        **fields,
    }


DONE = {"Type": "Succeed"}


# --- what fields give -----------------------------------------------------------------------------------


def test_output_is_made_of_expressions_and_what_stands_between_them(runs: Runs):
    output = {
        "sum": "{% $states.input.n + 1 %}",
        "list": ["{% $states.input.none %}", {"text": "{% 'q\"' %}"}],
        "plain": ["$.n", "$$.n", "States.UUID()", 'a\n"\u00e9\U0001f600', " {% 1 %}"],
    }
    assert runs.output(passing(Output=output), {"n": 1, "none": None}) == {
        "sum": 2,
        "list": [None, {"text": 'q"'}],
        "plain": ["$.n", "$$.n", "States.UUID()", 'a\n"\u00e9\U0001f600', " {% 1 %}"],
    }
    assert runs.output(passing(), {"n": 1}) == {"n": 1}


def test_variables_are_those_before_the_state_until_it_is_left(runs: Runs):
    states = {
        "A": {"Type": "Pass", "Assign": {"x": "{% $states.input %}", "t": 'q"\n\\'}, "Next": "B"},
        "B": {
            "Type": "Pass",
            "Assign": {"x": "{% $x + 1 %}", "y": "{% $x %}"},
            "Output": "{% $x %}",
            "Next": "C",
        },
        "C": {"Type": "Succeed", "Output": "{% [$states.input, $x, $y, $t] %}"},
    }
    assert runs.output(states, 1) == [1, 2, 1, 'q"\n\\']


def test_a_choice_goes_by_conditions_and_sets_for_its_rule(runs: Runs):
    choices = [
        {"Condition": "{% $states.input > 5 %}", "Next": "B"},
        {"Condition": "{% $states.input = 1 %}", "Assign": {"v": 7}, "Output": "{% 'rule' %}", "Next": "C"},
    ]  # fmt: skip
    states = {
        "A": {"Type": "Choice", "Choices": choices, "Default": "C", "Assign": {"v": 8}},
        "B": {"Type": "Fail", "Error": "{% 'E' & $states.input %}", "Cause": "{% 'c' %}"},
        "C": {"Type": "Succeed", "Output": "{% [$states.input, $v] %}"},
    }
    assert runs.output(states, 1) == ["rule", 7]
    assert runs.output(states, 2) == [2, 8]
    done = runs(states, 6)
    assert (done["status"], done["error"], done["cause"]) == ("FAILED", "E6", "c")
    del states["A"]["Default"]
    assert runs(states, 2)["error"] == "States.NoChoiceMatched"


def test_a_wait_lasts_as_long_as_an_expression_says(runs: Runs):
    states = {
        "A": {"Type": "Wait", "Seconds": "{% $states.input - 1 %}", "Next": "B"},
        "B": {"Type": "Wait", "Timestamp": "{% $now() %}", "Output": "{% 'waited' %}", "Next": "C"},
        # Two o'clock, two hours east of Greenwich, is long ago.
        "C": {"Type": "Wait", "Timestamp": "2016-08-18T02:00:00+02:00", "End": True},
    }
    assert runs.output(states, 1) == "waited"


def test_a_task_takes_arguments_and_its_result_makes_the_output(runs: Runs):
    queue = runs.lab.client("sqs").create_queue(QueueName="q")["QueueUrl"]
    task = sending(
        queue,
        TimeoutSeconds="{% $states.input.limit %}",
        Assign={"id": "{% $states.result.MessageId %}"},
        Output="{% $exists($states.result.MessageId) %}",
        Next="B",
    )
    del task["End"]
    after = {"Type": "Pass", "Output": "{% [$states.input, $id] %}", "End": True}
    given = {"limit": 60, "text": 'q"'}
    made, identifier = runs.output({"A": task, "B": after}, given)
    (message,) = runs.lab.client("sqs").receive_message(QueueUrl=queue)["Messages"]
    assert (made, identifier) == (True, message["MessageId"])
    assert json.loads(message["Body"]) == given


def test_a_catcher_has_the_error_and_no_result(runs: Runs):
    catch = {
        "ErrorEquals": ["States.ALL"],
        "Assign": {"e": "{% $states.errorOutput.Cause %}"},
        "Output": "{% {'had': $exists($states.errorOutput.Error), 'in': $states.input} %}",
        "Next": "B",
    }
    states = {
        "A": sending("nowhere", Catch=[catch]),
        "B": {"Type": "Succeed", "Output": "{% [$states.input, $type($e)] %}"},
    }
    assert runs.output(states, 1) == [{"had": True, "in": 1}, "string"]


def test_an_output_that_fails_is_caught_with_its_cause(runs: Runs):
    branch = {"StartAt": "P", "States": {"P": {"Type": "Pass", "End": True}}}
    catch = [{"ErrorEquals": ["States.QueryEvaluationError"], "Next": "B"}]
    for field in ("Output", "Arguments"):
        parallel = {"Type": "Parallel", "Branches": [branch], "Catch": catch, "Next": "B"}
        states = {"A": {**parallel, field: "{% $states.input.no %}"}, "B": DONE}
        found = runs.output(states)
        assert found["Error"] == "States.QueryEvaluationError"
        assert found["Cause"].startswith(
            "An error occurred while executing the state 'A' (entered at the event id #2). The"
            f" JSONata expression '$states.input.no' specified for the field '{field}'"
        )


def test_branches_and_iterations_have_variables_of_their_own(runs: Runs):
    branch = {"StartAt": "P", "States": {"P": {
        "Type": "Pass", "Assign": {"own": 1}, "Output": "{% $states.input.k + $out %}", "End": True,
    }}}  # fmt: skip
    states = {
        "Z": {"Type": "Pass", "Assign": {"out": 10}, "Next": "A"},
        "A": {
            "Type": "Parallel",
            "Arguments": {"k": "{% $states.input.n %}"},
            "Branches": [branch],
            "Output": {"l": "{% $append($states.result, 5) %}", "add": 100},
            "Next": "M",
        },
        "M": {
            "Type": "Map",
            "Items": "{% $states.input.l %}",
            "MaxConcurrency": "{% 1 %}",
            "ItemSelector": {
                "k": "{% $states.context.Map.Item.Value + $states.context.Map.Item.Index"
                " + $states.input.add %}"
            },
            "ItemProcessor": branch,
            "Output": {"made": "{% $states.result %}", "own": "{% $exists($own) %}"},
            "End": True,
        },
    }
    assert runs.output(states, {"n": 1}) == {"made": [121, 116], "own": False}


def test_a_map_goes_over_its_input_or_over_items_that_are_written_out(runs: Runs):
    inner = {"StartAt": "P", "States": {"P": {"Type": "Pass", "End": True}}}
    state = {"Type": "Map", "ItemProcessor": inner, "End": True}
    assert runs.output({"A": state}, [1, 2]) == [1, 2]
    assert runs.output({"A": {**state, "Items": [0, "{% $states.input %}"]}}, 7) == [0, 7]


def test_a_distributed_map_fails_when_more_fails_than_it_tolerates(runs: Runs):
    inner = {
        "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
        "StartAt": "P",
        "States": {"P": {"Type": "Pass", "Output": "{% $states.input.v %}", "End": True}},
    }
    state = {"Type": "Map", "Items": "{% [{'v': 1}, 2, 3] %}", "ItemProcessor": inner, "End": True}
    for tolerated in ({}, {"ToleratedFailureCount": "{% 1 %}"}, {"ToleratedFailurePercentage": 60}):
        done = runs({"A": {**state, **tolerated}})
        assert done.get("error") == "States.ExceedToleratedFailureThreshold"
    for tolerated in (
        {"ToleratedFailureCount": "{% 2 %}"},
        {"ToleratedFailureCount": 2},
        {"ToleratedFailurePercentage": 70},
        {"ToleratedFailurePercentage": "{% 70 %}"},
    ):
        assert runs.output({"A": {**state, **tolerated}}) == [1]


DISTRIBUTED: dict[str, Any] = {
    "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "EXPRESS"},
    "StartAt": "P",
    "States": {"P": {"Type": "Pass", "End": True}},
}


@pytest.mark.parametrize(
    ("language", "state", "batches"),
    [
        (
            "JSONPath",
            {
                "ItemsPath": "$.items",
                "ItemSelector": {
                    "v.$": "$$.Map.Item.Value",
                    "i.$": "$$.Map.Item.Index",
                    "c.$": "$.c",
                },
                "ItemBatcher": {"MaxItemsPerBatchPath": "$.most", "BatchInput": {"c.$": "$.c"}},
            },
            [
                {
                    "BatchInput": {"c": "x"},
                    "Items": [{"v": 5, "i": 0, "c": "x"}, {"v": 6, "i": 1, "c": "x"}],
                },
                {"BatchInput": {"c": "x"}, "Items": [{"v": 7, "i": 2, "c": "x"}]},
            ],
        ),
        (
            "JSONPath",
            {"ItemsPath": "$.items", "ItemBatcher": {"MaxItemsPerBatch": 10}},
            [{"Items": [5, 6, 7]}],
        ),
        (
            "JSONata",
            {
                "Items": "{% $states.input.items %}",
                "ItemSelector": {"v": "{% $states.context.Map.Item.Value * 2 %}"},
                "ItemBatcher": {
                    "MaxItemsPerBatch": "{% $states.input.most %}",
                    "BatchInput": {"c": "{% $states.input.c %}"},
                },
            },
            [
                {"BatchInput": {"c": "x"}, "Items": [{"v": 10}, {"v": 12}]},
                {"BatchInput": {"c": "x"}, "Items": [{"v": 14}]},
            ],
        ),
        (
            "JSONata",
            {"Items": ["abcdef", "ghijkl", "m"], "ItemBatcher": {"MaxInputBytesPerBatch": 30}},
            [{"Items": ["abcdef"]}, {"Items": ["ghijkl", "m"]}],
        ),
        (
            "JSONata",
            {"Items": ["éé", "éé", "éé"], "ItemBatcher": {"MaxInputBytesPerBatch": 30}},
            [{"Items": ["éé", "éé"]}, {"Items": ["éé"]}],
        ),
        (
            "JSONPath",
            {"ItemsPath": "$.none", "ItemBatcher": {"MaxItemsPerBatch": 10}},
            [],
        ),
    ],
)
def test_a_distributed_maps_items_come_in_batches(
    runs: Runs, language: str, state: dict[str, Any], batches: list[Any]
):
    machine = {"A": {"Type": "Map", "ItemProcessor": DISTRIBUTED, "End": True, **state}}
    given = {"items": [5, 6, 7], "none": [], "most": 2, "c": "x"}
    assert runs.output(machine, given, language=language) == batches


@pytest.mark.parametrize("most", ["x", 0, -1, 1.5, None, True])
def test_a_batchs_limit_that_is_no_positive_integer_fails_the_execution(runs: Runs, most: Any):
    machine = {
        "Type": "Map",
        "ItemsPath": "$.items",
        "ItemProcessor": DISTRIBUTED,
        "ItemBatcher": {"MaxItemsPerBatchPath": "$.most"},
        "End": True,
    }
    failed = runs({"A": machine}, {"items": [5, 6], "most": most}, language="JSONPath")
    assert failed["error"] == "States.Runtime"
    assert f"MaxItemsPerBatch must be a positive integer, not {most}" in failed["cause"]


def test_what_is_tolerated_of_batches_is_counted_in_items(runs: Runs):
    state = {"Type": "Fail"}
    inner = {**DISTRIBUTED, "States": {"P": state}}
    machine = {
        "Type": "Map",
        "Items": [1, 2, 3],
        "ItemProcessor": inner,
        "ItemBatcher": {"MaxItemsPerBatch": 2},
        "End": True,
    }
    failed = runs({"A": {**machine, "ToleratedFailureCount": 2}})
    assert failed["error"] == "States.ExceedToleratedFailureThreshold"
    assert runs.output({"A": {**machine, "ToleratedFailureCount": 3}}) == []


def test_a_state_has_the_machines_language_unless_it_says_its_own(runs: Runs):
    inner = {
        "StartAt": "P",
        "States": {"P": {"Type": "Pass", "Parameters": {"p.$": "$"}, "End": True}},
    }
    states = {
        "A": {
            "Type": "Pass",
            "QueryLanguage": "JSONata",
            "Assign": {"v": {"k": [5, 6]}},
            "Output": "{% [1, 2] %}",
            "Next": "M",
        },
        "M": {"Type": "Map", "QueryLanguage": "JSONata", "ItemProcessor": inner, "Next": "B"},
        "B": {
            "Type": "Pass",
            "Parameters": {"m.$": "$", "one.$": "$v.k[1]", "all.$": "$v", "t": "{% 1 %}"},
            "Assign": {"w.$": "$.m[0].p"},
            "Next": "C",
        },
        "C": {
            "Type": "Choice",
            "Choices": [{"Variable": "$w", "NumericEquals": 1, "Next": "D"}],
        },
        "D": DONE,
    }
    assert runs.output(states, language="JSONPath") == {
        "m": [{"p": 1}, {"p": 2}],
        "one": 6,
        "all": {"k": [5, 6]},
        "t": "{% 1 %}",
    }


@pytest.mark.slow
def test_a_map_takes_more_items_than_python_calls_itself(runs: Runs):
    inner = {"StartAt": "P", "States": {"P": {"Type": "Succeed"}}}
    state = {"Type": "Map", "MaxConcurrency": 1, "ItemProcessor": inner, "End": True}
    items = list(range(1100))
    assert runs.output({"A": state}, items, language="JSONPath") == items
