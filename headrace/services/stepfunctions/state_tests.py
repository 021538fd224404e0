"""Step Functions' TestState: runs one state as an execution of its own, with mocks, and shows what became of its data.

Documented: https://docs.aws.amazon.com/step-functions/latest/dg/test-state-isolation.html. The sentences and the
members of each state are recorded (LocalStack's snapshots of tests/aws/services/stepfunctions/v2/test_state).

Holds the mocked results of tasks against the model of the operation that the task would call. The sentences are
recorded (its test_field_validation_mode snapshots): the first difference is told. Members that the model does not have
are taken; with PRESENT, required members may be missing.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import base64
import binascii
import json
import uuid
from datetime import UTC, datetime
from typing import Any, cast

from botocore.exceptions import UnknownServiceError
from botocore.model import ListShape, MapShape, Shape, StructureShape

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import service_model
from headrace.core.arn import partition_of
from headrace.core.values import parse_json
from headrace.services.stepfunctions import answers
from headrace.services.stepfunctions.definition_checks import problems_of, sentence_of
from headrace.services.stepfunctions.interpreter.inspections import Inspection, Mock
from headrace.services.stepfunctions.interpreter.jsonata_states import DECORATED
from headrace.services.stepfunctions.interpreter.run import ExecutionInput, Outcome, Run
from headrace.services.stepfunctions.jsonata_expressions import JSONPATH, language_of

_MACHINE, _STATE = "TestState", "StateName"
# Documented of MaxDelaySeconds; without one AWS's bound is assumed to be the type's.
_LONGEST_DELAY_S = 2**31 - 1
_SET, _ITSELF = "headrace-variables", "headrace-itself"
_WITH_MOCK_ONLY = ("Map", "Parallel")
_WITH_MOCK = ("Task", *_WITH_MOCK_ONLY)
# What inspectionData has as numbers and structures, not as JSON text.
_PLAIN = {"maxConcurrency", "toleratedFailureCount", "toleratedFailurePercentage", "errorDetails"}
_CONTEXT = {
    "Execution": {"Id", "Input", "Name", "RoleArn", "StartTime", "RedriveCount", "RedriveTime"},
    "State": {"EnteredTime", "Name", "RetryCount"},
    "StateMachine": {"Id", "Name"},
    "Task": {"Token"},
}


def test_state(self: Any) -> Any:
    """Answer TestState; called without moto's lock, since the state's task may call moto."""
    from moto.core.responses import ActionResult

    name, state, language = _state_of(self._get_param("definition"), self._get_param("stateName"))
    configuration = self._get_param("stateConfiguration") or {}
    mock = _read_mock(self, state, configuration)
    variables = _parsed(self._get_param("variables") or "null", "Variables must be a valid JSON.")
    problems = problems_of(json.dumps(_machine_of_state(name, state, language, variables)))
    if problems:
        raise AwsError("InvalidDefinition", sentence_of(problems))
    retriers = cast("list[dict[str, Any]]", state.pop("Retry", None) or [])
    definition = json.dumps(_machine_of_state(name, state, language, variables))
    _check_role(self, state, mock)
    input_text = self._get_param("input") or "{}"
    answers.check_input(input_text)
    inspection = Inspection(
        name,
        state,
        language_of(state, language) == JSONPATH,
        mock,
        _context_of(self._get_param("context"), state),
        int(configuration.get("mapIterationFailureCount") or 0),
        _items_of(configuration),
    )
    run = Run(_new_execution(self, name, definition, input_text), inspection=inspection)
    outcome = run.run()
    answer = _answer(outcome, run.events(), name, state)
    details = _apply_retriers(
        answer, state, retriers, int(configuration.get("retrierRetryCount") or 0)
    )
    if (self._get_param("inspectionLevel") or "INFO") != "INFO":
        answer["inspectionData"] = _render_inspection(inspection, details, run.variables())
    return ActionResult(answer)


def _new_execution(self: Any, name: str, definition: str, input_text: str) -> ExecutionInput:
    account, region = self.current_account, self.region
    start, execution = f"arn:{partition_of(region)}:states:{region}:{account}", str(uuid.uuid4())
    return ExecutionInput(
        arn=f"{start}:express:{_MACHINE}:{execution}",
        name=execution,
        machine_arn=f"{start}:stateMachine:{_MACHINE}",
        machine_name=_MACHINE,
        definition=definition,
        role_arn=self._get_param("roleArn") or "",
        account=account,
        region=region,
        input=input_text,
        is_express=True,
        start_date=datetime.now(UTC),
    )


# --- what the request asks for ----------------------------------------------------------------


def _invalid(sentence: str) -> AwsError:
    return AwsError("ValidationException", sentence)


def _read_mock(self: Any, state: dict[str, Any], configuration: dict[str, Any]) -> Mock | None:
    """Return the request's mock. Raises AwsError for one that does not fit the state."""
    given, kind = self._get_param("mock"), state.get("Type")
    if given is None:
        if kind in _WITH_MOCK_ONLY:
            raise AwsError(
                "InvalidDefinition",
                "TestState API does not support Map or Parallel states. Supported state types include:"
                " [Task, Wait, Pass, Succeed, Fail, Choice]",
            )
        if self._get_param("revealSecrets"):
            raise NotImplementedError("TestState's revealSecrets")
        if self._get_param("inspectionLevel") == "TRACE" and ":http:" in str(state.get("Resource")):
            raise NotImplementedError("TestState's TRACE of an HTTP task without a mock")
        return None
    if kind not in _WITH_MOCK:
        raise _invalid(f"State type '{kind}' is not supported when a mock is specified")
    if self._get_param("revealSecrets"):
        raise _invalid("TestState does not support RevealSecrets when a mock is specified.")
    error, result = given.get("errorOutput"), given.get("result")
    if error is not None and result is not None:
        fields = "[result, errorOutput]"
        raise _invalid(f"A test mock should have only one of the following fields: {fields}.")
    if error is not None:
        return Mock(None, error.get("error", ""), error.get("cause"))
    value = _parsed(result or "{}", "Mocked result must be a valid JSON.")
    _check_shape(state, value)
    mode = given.get("fieldValidationMode") or "STRICT"
    if kind == "Task" and mode != "NONE":
        check(str(state.get("Resource", "")), value, is_strict=mode == "STRICT")
    return Mock(value)


def _parsed(text: str, sentence: str) -> Any:
    try:
        return parse_json(text)
    except ValueError as error:  # the sentences are assumed
        raise _invalid(sentence) from error


def _check_shape(state: dict[str, Any], value: Any) -> None:
    """Refuse a mocked result that a Map or a Parallel cannot give."""
    if state["Type"] == "Map" and "ResultWriter" in state:
        if not isinstance(value, dict):
            raise _invalid("Mocked result must be a JSON object.")
    elif state["Type"] in _WITH_MOCK_ONLY and not isinstance(value, list):
        raise _invalid("Mocked result must be an array.")
    branches = state.get("Branches")
    if isinstance(branches, list) and len(cast("list[Any]", value)) != len(
        cast("list[Any]", branches)
    ):
        raise _invalid(
            "Mocked result must contain the same number of items as number of Parallel branches."
        )


def _check_role(self: Any, state: dict[str, Any], mock: Mock | None) -> None:
    if state["Type"] == "Task" and mock is None and not self._get_param("roleArn"):
        raise _invalid("RoleArn must be specified when testing a Task state")


def _context_of(text: str | None, state: dict[str, Any]) -> dict[str, Any] | None:
    """Return the context object that the caller gave. Raises AwsError for what it cannot have."""
    if text is None:
        return None
    start = "Invalid Context object provided: "
    value = _parsed(text, f"{start}it is no JSON")
    if not isinstance(value, dict):  # assumed
        raise _invalid(f"{start}it is no JSON object")
    context = cast("dict[str, Any]", value)
    if "Map" in context:
        raise _invalid(f"{start}'Map' field is not supported when mocking a Context object")
    for name, member in context.items():
        known = _CONTEXT.get(name)
        if known is not None and not isinstance(member, dict):  # assumed
            raise _invalid(f"{start}{name} must be a JSON object")
        fields = list(cast("dict[str, Any]", member)) if isinstance(member, dict) else []
        for one in [name] if known is None else [key for key in fields if key not in known]:
            raise _invalid(f"{start}Field '{one}' is not allowed")
    arn = (context.get("Execution") or {}).get("Id", "")
    if not isinstance(arn, str):
        raise _invalid(f"{start}Execution.Id must be a string")
    resource = str(state.get("Resource", "")).removesuffix(":2")
    if "Task" in context and not resource.endswith((".sync", ".waitForTaskToken")):
        raise _invalid(
            f"{start}Context object contains 'Task' when state is not a Task state with a '.sync' or"
            " '.waitForTaskToken' service integration pattern"
        )
    return context


def _items_of(configuration: dict[str, Any]) -> list[Any] | None:
    text = configuration.get("mapItemReaderData")
    value = None if text is None else _parsed(text, "mapItemReaderData must be a valid JSON.")
    return cast("list[Any]", value) if isinstance(value, list) else None


def _state_of(definition: str, name: str | None) -> tuple[str, dict[str, Any], str]:
    """Return the state's name, its definition, and the query language of its machine. Raises AwsError."""
    try:
        value: Any = parse_json(definition)
    except ValueError as error:
        text = f"Invalid State Machine Definition: 'INVALID_JSON_DESCRIPTION: {error}'"
        raise AwsError("InvalidDefinition", text) from error
    if not isinstance(value, dict):
        text = "Invalid State Machine Definition: 'INVALID_JSON_DESCRIPTION: no JSON object'"
        raise AwsError("InvalidDefinition", text)
    body = cast("dict[str, Any]", value)
    if "States" not in body:
        return name or _STATE, dict(body), str(body.get("QueryLanguage", JSONPATH))
    states = body["States"]
    state = cast("dict[str, Any]", states).get(name or "") if isinstance(states, dict) else None
    if name is None or not isinstance(state, dict):
        raise AwsError("ValidationException", f"State '{name}' not found in definition")
    return name, dict(cast("dict[str, Any]", state)), str(body.get("QueryLanguage", JSONPATH))


def _machine_of_state(
    name: str, state: dict[str, Any], language: str, variables: Any
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
            state[field] = [
                follow(element) if isinstance(element, dict) else element
                for element in cast("list[Any]", state[field])
            ]
    ends: dict[str, Any] = {target: {"Type": "Succeed"} for target in targets}
    machine = {"QueryLanguage": language, "StartAt": name, "States": {**ends, name: state}}
    if variables:
        first = {"Type": "Pass", "Assign": variables, "Next": name}
        return {**machine, "StartAt": _SET, "States": {**ends, name: state, _SET: first}}
    return machine


# --- the answer -----------------------------------------------------------------------------------


def _answer(
    outcome: Outcome, events: list[dict[str, Any]], name: str, state: dict[str, Any]
) -> dict[str, Any]:
    """Return the answer as it is without the state's Retry."""
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
    if error == "States.Runtime" and cause and cause.startswith(DECORATED):
        cause = cause.partition("). ")[2]  # recorded
    failure = {
        key: entry for key, entry in (("error", error), ("cause", cause)) if entry is not None
    }
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


def _apply_retriers(
    answer: dict[str, Any], state: dict[str, Any], retriers: list[dict[str, Any]], retried: int
) -> dict[str, int]:
    """Make a failure that is retried be RETRIABLE, in place; return which retrier or catcher takes it."""
    error = answer.get("error")
    if error is None or answer["status"] == "SUCCEEDED":
        return {}
    index = _first(error, retriers)
    if index is not None and retried < retriers[index].get("MaxAttempts", 3):
        retrier = retriers[index]
        longest_s = float(retrier.get("MaxDelaySeconds", _LONGEST_DELAY_S))
        try:
            # Of whole numbers, the power could take more memory than there is.
            delay_s = (
                retrier.get("IntervalSeconds", 1) * float(retrier.get("BackoffRate", 2)) ** retried
            )
        except OverflowError:
            delay_s = longest_s
        for name in ("output", "nextState"):
            answer.pop(name, None)
        answer["status"] = "RETRIABLE"
        seconds = int(min(delay_s, longest_s))
        return {"retryIndex": index, "retryBackoffIntervalSeconds": seconds}
    index = _first(error, state.get("Catch") or [])
    return {} if answer["status"] != "CAUGHT_ERROR" or index is None else {"catchIndex": index}


def _first(error: str, handlers: list[dict[str, Any]]) -> int | None:
    """Return the number of the first retrier or catcher that takes an error."""
    for number, handler in enumerate(handlers):
        names = set(handler["ErrorEquals"])
        is_task = "States.TaskFailed" in names and error != "States.Timeout"
        if error in names or "States.ALL" in names or is_task:
            return number
    return None


def _render_inspection(
    inspection: Inspection, details: dict[str, int], variables: dict[str, Any]
) -> dict[str, Any]:
    data = {key: value for key, value in inspection.data.items() if key != "failed"}
    if details:
        data["errorDetails"] = details
    if variables:
        data["variables"] = variables
    return {
        key: value if key in _PLAIN else json.dumps(value, separators=(",", ":"))
        for key, value in data.items()
    }


_SERVICES = {"states": "stepfunctions", "sfn": "stepfunctions"}
# Their payloads are JSON in state machines, not the model's bytes.
_AS_JSON = {("lambda", "invoke", "Payload")}
_WORDS = {"structure": "an object", "list": "an array", "map": "an object", "boolean": "a boolean"}
_NUMBERS = {"integer", "long", "float", "double"}


def check(resource: str, value: Any, *, is_strict: bool) -> None:
    """Raise AwsError when a task's mocked result is none that its service would give."""
    parts = resource.split(":")
    if len(parts) < 7 or parts[2] != "states":  # a function, an activity
        return
    service, action = parts[-2], parts[-1].partition(".")[0]
    shape = _output_of(_SERVICES.get(service, service), action)
    if shape is not None:
        _check(shape, value, "", (service, action), is_strict)


def _output_of(service: str, action: str) -> Shape | None:
    """Return the shape of an operation's output; None for what has no model, such as `http:invoke`."""
    try:
        model = service_model(service)
    except UnknownServiceError:
        return None
    name = action[:1].upper() + action[1:]
    return model.operation_model(name).output_shape if name in model.operation_names else None


def _check(shape: Shape, value: Any, name: str, place: tuple[str, str], is_strict: bool) -> None:
    kind = shape.type_name
    if (*place, name) in _AS_JSON or shape.metadata.get("document"):
        return
    if not _has_type(kind, value):
        what = "a number" if kind in _NUMBERS else _WORDS.get(kind, "a string")
        raise _error(f"Field '{name}' must be {what}")
    if isinstance(shape, StructureShape):
        _check_members(shape, value, place, is_strict)
    elif isinstance(shape, ListShape):
        for item in cast("list[Any]", value):
            _check(shape.member, item, name, place, is_strict)
    elif isinstance(shape, MapShape):
        for item in cast("dict[str, Any]", value).values():
            _check(shape.value, item, name, place, is_strict)
    else:
        _check_constraints(shape, value, name)


def _check_members(
    shape: StructureShape, value: dict[str, Any], place: tuple[str, str], is_strict: bool
) -> None:
    # Documented: Step Functions writes names of members with a capital letter.
    members = {key[:1].upper() + key[1:]: member for key, member in shape.members.items()}
    if is_strict:
        for key in shape.required_members:
            name = key[:1].upper() + key[1:]
            if name not in value:
                raise _error(f"Required field '{name}' is missing")
    for name, one in value.items():
        if name in members and one is not None:
            _check(members[name], one, name, place, is_strict)


def _has_type(kind: str, value: Any) -> bool:
    if kind in ("structure", "map"):
        return isinstance(value, dict)
    if kind == "list":
        return isinstance(value, list)
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in _NUMBERS:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, str)  # text, times and bytes


def _check_constraints(shape: Shape, value: Any, name: str) -> None:
    metadata = shape.metadata
    if metadata.get("enum") and value not in metadata["enum"]:
        raise _error(f"Field '{name}' is not an expected value")
    low, high = metadata.get("min"), metadata.get("max")
    if shape.type_name in _NUMBERS:
        if low is not None and value < low:
            raise _error(f"Field '{name}' is less than the minimum value")
        if high is not None and value > high:
            raise _error(f"Field '{name}' exceeds the maximum value")
        return
    if shape.type_name not in ("string", "blob"):
        return
    length = _length(shape, value)
    if low is not None and length < low:
        raise _error(f"Field '{name}' is smaller than the minimum length")
    if high is not None and length > high:  # assumed
        raise _error(f"Field '{name}' exceeds the maximum length")


def _length(shape: Shape, value: str) -> int:
    if shape.type_name == "blob":
        try:
            return len(base64.b64decode(value, validate=True))
        except (binascii.Error, ValueError):
            return len(value)
    return len(value)


def _error(sentence: str) -> AwsError:
    return AwsError("ValidationException", f"Mock result schema validation error: {sentence}")
