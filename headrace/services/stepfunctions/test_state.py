"""Step Functions' TestState: runs one state as an execution of its own, and returns the next state.

Documented: https://docs.aws.amazon.com/step-functions/latest/dg/test-state-isolation.html. Other inspection levels
(`inspectionLevel` DEBUG and TRACE) and mocks are refused by name.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import partition_of
from headrace.services.stepfunctions.definition_checks import problems_of, sentence_of
from headrace.services.stepfunctions.interpreter.run import ExecutionInput, Outcome, Run
from headrace.services.stepfunctions.query_languages import JSONPATH

_NAME = "TestState"
_SET, _ITSELF = "headrace-variables", "headrace-itself"
_NOT_HERE = ("mock", "context", "stateConfiguration", "revealSecrets")


def test_state(self: Any) -> Any:
    """Answer TestState; called without moto's lock, since the state's task may call moto."""
    from moto.core.responses import ActionResult

    for name in _NOT_HERE:
        if self._get_param(name):
            raise NotImplementedError(f"TestState's {name}")
    if (self._get_param("inspectionLevel") or "INFO") != "INFO":
        raise NotImplementedError("TestState's inspectionLevel other than INFO")
    input_text = self._get_param("input") or "{}"
    name, state, language = _state_of(self._get_param("definition"), self._get_param("stateName"))
    retriers = cast("list[dict[str, Any]]", state.pop("Retry", None) or [])
    definition = json.dumps(_machine(name, state, language, self._get_param("variables")))
    problems = problems_of(definition)
    if problems:
        raise AwsError("InvalidDefinition", sentence_of(problems))
    try:
        json.loads(input_text)
    except ValueError as error:
        raise AwsError(
            "InvalidExecutionInput", f"Invalid State Machine Execution Input: '{error}'"
        ) from error
    account, region = self.current_account, self.region
    run = Run(
        ExecutionInput(
            arn=f"arn:{partition_of(region)}:states:{region}:{account}:express:{_NAME}:{name}:{uuid.uuid4()}",
            name=name,
            machine_arn=f"arn:{partition_of(region)}:states:{region}:{account}:stateMachine:{_NAME}",
            machine_name=_NAME,
            definition=definition,
            role_arn=self._get_param("roleArn") or "",
            account=account,
            region=region,
            input=input_text,
            is_express=True,
            start_date=datetime.now(UTC),
        )
    )
    outcome = run.run()
    return ActionResult(_answer(outcome, run.events(), name, state, retriers))


def _state_of(definition: str, name: str | None) -> tuple[str, dict[str, Any], str]:
    """Return the state's name, its definition, and the query language of its machine. Raises AwsError."""
    try:
        value: Any = json.loads(definition)
    except ValueError as error:
        text = f"Invalid State Machine Definition: 'INVALID_JSON_DESCRIPTION: {error}'"
        raise AwsError("InvalidDefinition", text) from error
    if not isinstance(value, dict):
        text = "Invalid State Machine Definition: 'INVALID_JSON_DESCRIPTION: no JSON object'"
        raise AwsError("InvalidDefinition", text)
    body = cast("dict[str, Any]", value)
    if "States" not in body:
        return name or _NAME, dict(body), str(body.get("QueryLanguage", JSONPATH))
    states = cast("dict[str, dict[str, Any]]", body["States"])
    if name not in states:
        raise AwsError("ValidationException", f"State '{name}' not found in definition")
    return name, dict(states[name]), str(body.get("QueryLanguage", JSONPATH))


def _machine(
    name: str, state: dict[str, Any], language: str, variables: str | None
) -> dict[str, Any]:
    """Return a machine with the state, a Succeed state for each target, and a Pass state for the variables."""
    targets: set[str] = set()

    def follow(entry: dict[str, Any]) -> dict[str, Any]:
        redirected = dict(entry)
        for field in ("Next", "Default"):
            if isinstance(entry.get(field), str):
                # A state that names itself as the next one must not run twice.
                redirected[field] = _ITSELF if entry[field] == name else entry[field]
                targets.add(redirected[field])
        return redirected

    state = follow(state)
    for field in ("Catch", "Choices"):
        if isinstance(state.get(field), list):
            state[field] = [follow(element) for element in state[field]]
    ends: dict[str, Any] = {target: {"Type": "Succeed"} for target in targets}
    machine = {"QueryLanguage": language, "StartAt": name, "States": {**ends, name: state}}
    if variables:
        first = {"Type": "Pass", "Assign": json.loads(variables), "Next": name}
        return {**machine, "StartAt": _SET, "States": {**ends, name: state, _SET: first}}
    return machine


def _answer(
    outcome: Outcome,
    events: list[dict[str, Any]],
    name: str,
    state: dict[str, Any],
    retriers: list[dict[str, Any]],
) -> dict[str, Any]:
    entered = [
        event["stateEnteredEventDetails"] for event in events if "stateEnteredEventDetails" in event
    ]
    index = next((n for n, entry in enumerate(entered) if entry["name"] == name), len(entered))
    after = entered[index + 1] if len(entered) > index + 1 else None
    failures = [
        details
        for event in events
        for key, details in event.items()
        if key.endswith("EventDetails") and isinstance(details, dict) and "error" in details
    ]
    error = failures[-1].get("error") if failures else outcome.error
    cause = failures[-1].get("cause") if failures else outcome.cause
    failure = {
        key: entry for key, entry in (("error", error), ("cause", cause)) if entry is not None
    }
    if (failures or outcome.status != "SUCCEEDED") and _is_retried(str(error), retriers):
        return {"status": "RETRIABLE", **failure}
    if outcome.status != "SUCCEEDED":
        return {"status": "FAILED", **failure}
    if after is None:
        return {"status": "SUCCEEDED", "output": outcome.output}
    answer = {
        "output": after["input"],
        "nextState": name if after["name"] == _ITSELF else after["name"],
    }
    is_caught = bool(failures) and state.get("Catch")
    return (
        {"status": "CAUGHT_ERROR", **failure, **answer}
        if is_caught
        else {"status": "SUCCEEDED", **answer}
    )


def _is_retried(error: str, retriers: list[dict[str, Any]]) -> bool:
    names = {
        name
        for retrier in retriers
        if retrier.get("MaxAttempts", 3)
        for name in retrier["ErrorEquals"]
    }
    is_task = "States.TaskFailed" in names and error != "States.Timeout"
    return error in names or "States.ALL" in names or is_task
