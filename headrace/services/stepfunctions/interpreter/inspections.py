"""Makes moto's interpreter tell what becomes of the data of one state, and take mocks in the place of its work.

It is TestState's: https://docs.aws.amazon.com/step-functions/latest/dg/test-state-isolation.html. Which members are
shown of which state was recorded (LocalStack's test_test_state_scenarios, test_state_configuration and
test_state_context_object snapshots). An execution without an `Inspection` runs as before.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from headrace.services.stepfunctions.interpreter.item_readers import map_failure

THRESHOLD_ERROR = "States.ExceedToleratedFailureThreshold"


@dataclass(slots=True)
class Mock:
    """What a state's work is said to give: a result, or an error."""

    result: Any = None
    error: str | None = None
    cause: str | None = None


@dataclass(slots=True)
class Inspection:
    """What is inspected of the state `name`; `data` has the members of `inspectionData` that were met.

    Attributes:
        context: the members of the context object that the caller gave; None: the execution's own.
        failures: how many iterations of a Map are said to have failed.
        items: the items that a Map's ItemReader is said to read.
    """

    name: str
    state: dict[str, Any]
    is_jsonpath: bool
    mock: Mock | None = None
    context: dict[str, Any] | None = None
    failures: int = 0
    items: list[Any] | None = None
    data: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def gives_result(self) -> bool:
        """Whether the state is a Pass whose result is written in its definition."""
        return self.state.get("Type") == "Pass" and "Result" in self.state


def _find_inspection(env: Any) -> Inspection | None:
    """Return the inspection of the state that an environment evaluates."""
    inspection = getattr(env.event_manager, "inspection", None)
    return inspection if inspection is not None and env.next_state_name == inspection.name else None


def patch() -> None:
    """Patch moto's interpreter, which is imported and has its other patches. Called once."""
    from moto.stepfunctions.parser.asl.component.common import result_selector
    from moto.stepfunctions.parser.asl.component.common.path import result_path
    from moto.stepfunctions.parser.asl.component.state import state
    from moto.stepfunctions.parser.asl.component.state.exec.state_map import tolerated_failure
    from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration import (
        distributed_iteration_component,
        inline_iteration_component,
    )
    from moto.stepfunctions.parser.asl.component.state.exec.state_map.result_writer import (
        result_writer_decl,
    )
    from moto.stepfunctions.parser.asl.component.state.exec.state_parallel import branches_decl
    from moto.stepfunctions.parser.asl.component.state.exec.state_task import (
        state_task,
        state_task_activitiy,
        state_task_lambda,
    )
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
        state_task_service,
    )

    _wrap(state.CommonStateField, "_eval_state_input", _note_input)
    _wrap(result_selector.ResultSelector, "_eval_body", _note_selected)
    _wrap(result_path.ResultPath, "_eval_body", _note_placed)
    for task in (
        state_task.StateTask,
        state_task_lambda.StateTaskLambda,
        state_task_activitiy.StateTaskActivity,
    ):
        _wrap(task, "_eval_parameters", _note_parameters)
    for task in (
        state_task_service.StateTaskService,
        state_task_lambda.StateTaskLambda,
        state_task_activitiy.StateTaskActivity,
    ):
        _wrap(task, "_eval_execution", _run_task)
    for component in (
        inline_iteration_component.InlineIterationComponent,
        distributed_iteration_component.DistributedIterationComponent,
    ):
        _wrap(component, "_eval_body", _run_map)
    _wrap(branches_decl.BranchesDecl, "_eval_body", _run_branches)
    _wrap(result_writer_decl.ResultWriter, "_eval_body", _write_nothing)
    count: Any = tolerated_failure.ToleratedFailureCountDecl
    percentage: Any = tolerated_failure.ToleratedFailurePercentageDecl
    _wrap(count, "_eval_body", _note_value("toleratedFailureCount", int))
    _wrap(percentage, "_eval_body", _note_value("toleratedFailurePercentage", float))


Evaluate = Callable[[Any, Any], Any]


def _wrap(owner: Any, name: str, around: Callable[[Inspection, Evaluate, Any, Any], Any]) -> None:
    """Put a function around a method: it is called only for a state that is inspected."""
    evaluate: Evaluate = getattr(owner, name)

    def evaluate_inspected(self: Any, env: Any) -> Any:
        inspection = _find_inspection(env)
        if inspection is None:
            return evaluate(self, env)
        return around(inspection, evaluate, self, env)

    setattr(owner, name, evaluate_inspected)


def _note(inspection: Inspection, name: str, value: Any) -> None:
    inspection.data[name] = copy.deepcopy(value)


def _note_input(inspection: Inspection, evaluate: Evaluate, self: Any, env: Any) -> None:
    _note(inspection, "input", env.states.get_input())
    context = env.states.context_object.context_object_data
    for name, member in (inspection.context or {}).items():
        # The interpreter needs the members that the caller did not give.
        context[name] = {**context.get(name, {}), **member}
    evaluate(self, env)
    if inspection.is_jsonpath and not inspection.gives_result:
        _note(inspection, "afterInputPath", env.stack[-1])


def _note_parameters(inspection: Inspection, evaluate: Evaluate, self: Any, env: Any) -> Any:
    parameters = evaluate(self, env)
    name = "afterParameters" if inspection.is_jsonpath else "afterArguments"
    is_function = type(self).__name__ == "StateTaskLambda"
    _note(inspection, name, parameters["Payload"] if is_function else parameters)
    return parameters


def _note_selected(inspection: Inspection, evaluate: Evaluate, self: Any, env: Any) -> None:
    _give_context(inspection, env)
    evaluate(self, env)
    _note(inspection, "afterResultSelector", env.stack[-1])


def _note_placed(inspection: Inspection, evaluate: Evaluate, self: Any, env: Any) -> None:
    # A Catch has a ResultPath, too.
    is_shown = inspection.is_jsonpath and "failed" not in inspection.data
    if is_shown:
        value = env.stack[-1]
        if inspection.gives_result:
            _note(inspection, "result", value)
        elif inspection.state.get("Type") == "Pass":
            _note(inspection, "afterParameters", value)
        if "afterResultSelector" not in inspection.data:
            _note(inspection, "afterResultSelector", value)
    evaluate(self, env)
    if is_shown:
        _note(inspection, "afterResultPath", env.stack[-1])


def _note_value(name: str, kind: Callable[[Any], Any]) -> Callable[..., None]:
    given = name[0].upper() + name[1:]

    def note(inspection: Inspection, evaluate: Evaluate, self: Any, env: Any) -> None:
        evaluate(self, env)
        if {given, f"{given}Path"} & inspection.state.keys():
            _note(inspection, name, kind(env.stack[-1]))

    return note


def _give_context(inspection: Inspection, env: Any) -> None:
    """Make the context object be just what the caller gave."""
    if inspection.context is not None:
        context = env.states.context_object.context_object_data
        context.clear()
        context.update(copy.deepcopy(inspection.context))


def _run_task(inspection: Inspection, evaluate: Evaluate, self: Any, env: Any) -> None:
    _give_context(inspection, env)
    if inspection.mock is None:
        try:
            evaluate(self, env)
        except Exception:
            inspection.data["failed"] = True
            raise
    else:
        waits = str(inspection.state.get("Resource", "")).endswith(".waitForTaskToken")
        if waits and not (inspection.context or {}).get("Task"):
            env.states.context_object.update_task_token()
        self._eval_parameters(env)
        _answer(inspection, inspection.mock, env)
    _note(inspection, "result", env.stack[-1])


def _answer(inspection: Inspection, mock: Mock, env: Any) -> None:
    """Push the mock's result, or raise its error."""
    from moto.stepfunctions.parser.asl.component.state.exec.state_task import mock_eval_utils
    from moto.stepfunctions.parser.mocking.mock_config import MockedResponseThrow

    if mock.error is not None:
        inspection.data["failed"] = True
        thrown = MockedResponseThrow(0, 0, error=mock.error, cause=mock.cause or "")
        mock_eval_utils.eval_mocked_response(env=env, mocked_response=thrown)
    env.stack.append(copy.deepcopy(mock.result))


def _run_map(inspection: Inspection, evaluate: Evaluate, self: Any, env: Any) -> None:
    if inspection.mock is None:
        evaluate(self, env)
        return
    given = env.stack.pop()
    _note(inspection, "maxConcurrency", int(given.max_concurrency))
    if inspection.is_jsonpath and given.input_items is not None and "Items" not in inspection.state:
        _note(inspection, "afterItemsPath", given.input_items)
    items = cast("list[Any]", given.input_items or inspection.items or [])
    if inspection.mock.error is None and _is_too_much(inspection, len(items)):
        inspection.data["failed"] = True
        sentence = "The specified tolerated failure threshold was exceeded"
        raise map_failure(env, THRESHOLD_ERROR, sentence)
    _answer(inspection, inspection.mock, env)


def _is_too_much(inspection: Inspection, of: int) -> bool:
    """Whether the failures are more than the Map tolerates; one that tolerates nothing by its words does not count."""
    count = inspection.data.get("toleratedFailureCount")
    percentage = inspection.data.get("toleratedFailurePercentage")
    is_over = count is not None and inspection.failures > count
    return is_over or (
        percentage is not None and inspection.failures * 100 > percentage * max(of, 1)
    )


def _run_branches(inspection: Inspection, evaluate: Evaluate, self: Any, env: Any) -> None:
    if inspection.mock is None:
        evaluate(self, env)
    else:
        _answer(inspection, inspection.mock, env)


def _write_nothing(inspection: Inspection, evaluate: Evaluate, self: Any, env: Any) -> None:
    if inspection.mock is None:
        evaluate(self, env)
