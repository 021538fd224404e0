"""Executions of state machines, as scenarios have them: short.

A step `machine` is a definition; its `input` is `{}` if there is none. `history` has the events of one execution, each
`[type, details, id of the event before]`, of which the last two may be missing: no details, and the event before is
the one above. In details, the members that hold JSON are that JSON, and what is the same in every event is left out.
`described` has members of DescribeExecution's answer that are not in every one. `execution` is this execution's name,
`<uuid 100>` if there is none. `meanwhile` are steps that are made while it runs. With `output` instead of a history,
only the execution's output is compared.

A step `comparison` is an operator of a Choice, and `cases` are `[variable, value, whether it holds]`: one execution
takes all of them, and its output is compared. The value stands in the machine, or, of an operator of paths, in the
input.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Step = dict[str, Any]

ROLE = "arn:aws:iam::000000000000:role/states"
MACHINE = "arn:aws:states:us-east-1:000000000000:stateMachine:machine"
_ENDS = {
    "ExecutionSucceeded": "SUCCEEDED",
    "ExecutionFailed": "FAILED",
    "ExecutionTimedOut": "TIMED_OUT",
}
_WHOLE = {"truncated": False}
_JSON = ("input", "output", "parameters")


def expanded(steps: list[Step]) -> Iterator[Step]:
    """Yield the steps of a scenario, each execution as the calls that make it and show it."""
    for number, step in enumerate(steps, 100):
        if "machine" in step:
            yield from _calls(step)
        elif "comparison" in step:
            yield from _calls(_compared(step["comparison"], step["cases"], f"<uuid {number}>"))
        else:
            yield step


def _compared(operator: str, cases: list[tuple[Any, Any, bool]], execution: str) -> Step:
    """Return the step of a machine that takes each case of an operator through a Choice."""
    of_paths = operator.endswith("Path")
    choices = [
        {
            "And": [
                {"Variable": "$.Case", "NumericEquals": number},
                {"Variable": "$.Variable", operator: "$.Value" if of_paths else value},
            ],
            "Next": "ConditionTrue",
        }
        for number, (_, value, _) in enumerate(cases)
    ]
    results = {str(held): {"TestResult.$": f"Condition{held}"} for held in (True, False)}
    states = {
        f"Condition{held}": {"Type": "Pass", "Result": result, "End": True}
        for held, result in results.items()
    }
    check = {"Type": "Choice", "Choices": choices, "Default": "ConditionFalse"}
    each = {"StartAt": "Check", "States": {"Check": check, **states}}
    given = [
        {"Case": number, "Variable": variable, "Value": value}
        for number, (variable, value, _) in enumerate(cases)
    ]
    return {
        "machine": {
            "StartAt": "Cases",
            "States": {"Cases": {"Type": "Map", "ItemProcessor": each, "End": True}},
        },
        "input": given,
        "execution": execution,
        "output": [results[str(held)] for *_, held in cases],
    }


def _calls(step: Step) -> Iterator[Step]:
    place = {"service": "stepfunctions"}
    execution = step.get("execution", "<uuid 100>")
    arn = f"{MACHINE.replace(':stateMachine:', ':execution:')}:{execution}"
    text = json.dumps(step["machine"])
    params = {"name": "machine", "definition": text, "roleArn": ROLE}
    given = json.dumps(step.get("input", {}))
    status = _ENDS[step["history"][-1][0]] if "history" in step else "SUCCEEDED"
    yield {**place, "call": "create_state_machine", "params": params}
    yield {
        **place,
        "call": "start_execution",
        "params": {"stateMachineArn": MACHINE, "input": given},
        "answer": {"status": 200, "executionArn": arn, "startDate": "<time>"},
    }
    yield from step.get("meanwhile", ())
    described = {**place, "call": "describe_execution", "params": {"executionArn": arn}}
    yield {**described, "until": {"status": status}}
    if "described" in step:
        yield {**described, "part": step["described"]}
    if "output" in step:
        yield {**described, "part": {"output": {"json": step["output"]}}}
    if "history" in step:
        events = [_event(number, *event) for number, event in enumerate(step["history"], 1)]
        events[0]["executionStartedEventDetails"]["roleArn"] = ROLE
        yield {
            **place,
            "call": "get_execution_history",
            "params": {"executionArn": arn},
            "answer": {"status": 200, "events": events},
        }
    yield {**place, "call": "delete_state_machine", "params": {"stateMachineArn": MACHINE}}


def _event(
    number: int, kind: str, details: Step | None = None, before: int | None = None
) -> dict[str, Any]:
    event = {
        "timestamp": "<time>",
        "type": kind,
        "id": number,
        "previousEventId": (number - 1 if number > 2 else 0) if before is None else before,
    }
    if details is None:
        return event
    return {**event, _member(kind): _whole(details)}


def _member(kind: str) -> str:
    """Return the name of the member that has the details of a kind of event."""
    for suffix in ("StateEntered", "StateExited"):
        if kind.endswith(suffix):
            kind = suffix
    return f"{kind[0].lower()}{kind[1:]}EventDetails"


def _whole(details: Step) -> Step:
    whole = {name: {"json": value} if name in _JSON else value for name, value in details.items()}
    for name in ("input", "output"):
        if name in details:
            whole[f"{name}Details"] = _WHOLE
    if "assignedVariables" in details:
        variables = details["assignedVariables"]
        whole["assignedVariables"] = {name: {"json": one} for name, one in variables.items()}
        whole["assignedVariablesDetails"] = _WHOLE
    return whole
