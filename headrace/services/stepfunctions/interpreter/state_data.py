"""What a state of moto's interpreter takes, makes and gives on: its entry, payload, result, output and failure.

moto measures a value by writing all of it, and only when a state ends. States.DataLimitExceeded and
States.IntrinsicFailure: https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html; the sentence
of the former was observed by others (github.com/jogold/cloudstructs, issue 163); those of the latter are assumed.

Parameters, ResultSelector and ItemSelector have any JSON type; moto's grammar has only objects. Parameters may be a
number, text, list, boolean or null (documented: github.com/aws/amazon-states-language-service, pull request 83); that
the other two may be as well is assumed. `mark_expressions` wraps such a value in an object.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

# moto has no public attributes for these patches.
import copy
import functools
import json
from collections.abc import Callable
from typing import Any, cast

from headrace.core.evaluation import TooMuch, check_json_size
from headrace.services.stepfunctions.interpreter.json_paths import plain_steps
from headrace.services.stepfunctions.interpreter.jsonata_states import (
    MOST_VALUES_CHARACTERS,
    failure,
)
from headrace.services.stepfunctions.jsonata_expressions import WRAPPED, Expression

# Documented: the largest input and output of a state, a task and an execution.
MOST_STATE_BYTES = 256 * 1024

Evaluate = Callable[[Any, Any], None]


class DataLimitExceeded(TooMuch):
    """A state makes more data than it may."""


class IntrinsicFailed(Exception):
    """An intrinsic function fails; the message is why."""


class PathMismatch(ValueError):
    """A ResultPath cannot be applied to the state's input; the message is AWS's sentence (observed by others)."""


def patch() -> None:
    """Add what a state does at its entry and its end to moto's interpreter, which is imported. Called once."""
    from moto.stepfunctions.parser.asl.component.common import parargs, result_selector
    from moto.stepfunctions.parser.asl.component.state import state
    from moto.stepfunctions.parser.asl.component.state.exec import execute_state
    from moto.stepfunctions.parser.asl.component.state.exec.state_map import item_selector
    from moto.stepfunctions.parser.asl.eval import environment, states, variable_store

    common: Any = state.CommonStateField
    common._eval_state_input = _enter_state(common._eval_state_input)
    executing: Any = execute_state.ExecutionState
    executing._evaluate_with_timeout = _with_output(executing._evaluate_with_timeout)
    executing._eval_state_output = _unless_done(executing._eval_state_output)
    frames: Any = environment.Environment
    frames.open_frame = _inherit_variables(frames.open_frame)
    stores: Any = variable_store.VariableStore
    stores.get_assigned_variables = _assigned_variables
    data: Any = states.States
    data.set_result = _set_result
    kinds: tuple[Any, ...] = (
        parargs.Parameters,
        result_selector.ResultSelector,
        item_selector.ItemSelector,
    )
    for kind in kinds:
        kind._eval_body = _unwrap_errors(kind._eval_body)


def bound() -> None:
    """Bound payloads and paths, and name their failures; called once, after the other patches of tasks and Maps."""
    from moto.stepfunctions.parser.asl.component.common.path import result_path
    from moto.stepfunctions.parser.asl.component.common.payload.payloadvalue.payloadarr import (
        payload_arr,
    )
    from moto.stepfunctions.parser.asl.component.common.payload.payloadvalue.payloadtmpl import (
        payload_tmpl,
    )
    from moto.stepfunctions.parser.asl.component.state import state
    from moto.stepfunctions.parser.asl.component.state.exec import execute_state

    path: Any = result_path.ResultPath
    path._eval_body = _check_path(path._eval_body)
    cast("Any", result_path).parse = _parse_path
    template: Any = payload_tmpl.PayloadTmpl
    template._eval_body = _template
    items: Any = payload_arr.PayloadArr
    items._eval_body = _items
    common: Any = state.CommonStateField
    common._eval_body = _convert_failure(common._eval_body)
    executing: Any = execute_state.ExecutionState
    executing._from_error = _name_error(executing._from_error)


def _enter_state(enter: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    def enter_state(self: Any, env: Any) -> None:
        env.before_assign = None
        env.is_output_made = False
        env.characters_left = MOST_VALUES_CHARACTERS
        env.entered_event_id = env.event_history_context.source_event_id
        env.before_entered_event_id = env.event_history_context.before_entered_id
        seen = env.states.context_object.context_object_data["State"]
        # AWS writes milliseconds and a Z (documented).
        seen["EnteredTime"] = f"{seen['EnteredTime'][:23]}Z"
        enter(self, env)

    return enter_state


def _inherit_variables(open_frame: Callable[..., Any]) -> Callable[..., Any]:
    def open_and_inherit(self: Any, *args: Any, **named: Any) -> Any:
        frame = open_frame(self, *args, **named)
        for name in ("entered_event_id", "before_entered_event_id"):
            setattr(frame, name, getattr(self, name, 0))
        return frame

    return open_and_inherit


def _with_output(evaluate: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Build the output inside a state, so that Retry and Catch handle a failure."""

    def with_output(self: Any, env: Any) -> None:
        evaluate(self, env)
        if self.output is not None and env.is_running():
            self.output.eval(env=env)
            env.is_output_made = True

    return with_output


def _unless_done(make_output: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    def unless_done(self: Any, env: Any) -> None:
        if not getattr(env, "is_output_made", False):
            make_output(self, env)

    return unless_done


def _assigned_variables(self: Any) -> dict[str, str]:
    """Return the variables that were set, as JSON; moto escapes nothing in a text."""
    names = self._declaration_tracing
    return {name: json.dumps(self.get(name), separators=(",", ":")) for name in names}


def _set_result(self: Any, result: Any) -> None:
    """Store a state's result; after a failure moto passes the error output, which is not a result."""
    data = self._states_data
    if data.get("errorOutput") is not None and data["errorOutput"] == result:
        data["result"] = None
        return
    data["result"], data["errorOutput"] = copy.deepcopy(result), None


def to_json_str(value: Any, separators: tuple[str, str] = (",", ":")) -> str:
    """Return JSON as AWS writes it, without spaces and with all letters as they are, in place of moto's function.

    It is in the body of a message, in a function's payload, and in the cause of a nested failure.
    """
    from moto.stepfunctions.parser.asl.utils import encoding

    kind: Any = encoding._DateTimeEncoder
    text = json.dumps(value, cls=kind, separators=separators, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a character
        return json.dumps(value, cls=kind, separators=separators)
    return text


def is_within_size_quota(value: Any) -> bool:
    """Whether a value is small enough for a state's output, in place of moto's function of this name."""
    try:
        check_json_size(value, MOST_STATE_BYTES)
    except TooMuch:
        return False
    text = value if isinstance(value, str) else to_json_str(value)
    return len(text.encode("utf-8", "surrogatepass")) < MOST_STATE_BYTES


class Room:
    """The characters that a payload may still have."""

    def __init__(self) -> None:
        self.left = MOST_STATE_BYTES

    def take(self, value: Any) -> None:
        try:
            self.left -= check_json_size(value, self.left)
        except TooMuch:
            raise DataLimitExceeded("") from None


def _template(self: Any, env: Any) -> None:
    """Push an object's members, measuring each as soon as it has a value: together they could fill the memory."""
    room = Room()
    env.stack.append({})
    for binding in self.payload_bindings:
        binding.eval(env)
        room.take(env.stack[-1].get(binding.field))


def _items(self: Any, env: Any) -> None:
    room, items = Room(), list[Any]()
    for value in self.payload_values:
        value.eval(env)
        items.append(env.stack.pop())
        room.take(items[-1])
    env.stack.append(items)


_ABSENT = object()


@functools.lru_cache(maxsize=256)
def _parse_path(text: str) -> Any:
    """Return a path as moto's library reads it; it takes a millisecond."""
    from jsonpath_ng.parser import parse

    steps = plain_steps(text)
    if steps is None or None in steps:
        return parse(text)
    return parse(
        "$" + "".join(f"['{step}']" if isinstance(step, str) else f"[{step}]" for step in steps)
    )


def _steps_of(path: Any) -> list[str | int] | None:
    """Return the names and places of a Reference Path; None for another path, which AWS does not take here."""
    match type(path).__name__:
        case "Root":
            return []
        case "Child":
            left, right = _steps_of(path.left), _steps_of(path.right)
            return None if left is None or right is None else left + right
        case "Fields" | "Index":
            steps = getattr(path, "fields", None) or path.indices
            return [steps[0]] if len(steps) == 1 else None
        case _:
            return None


def _check_path(evaluate: Evaluate) -> Evaluate:
    """Fail a state whose ResultPath names a field of what is no object, or a place behind what a list can take."""

    @functools.wraps(evaluate)
    def evaluate_checked(self: Any, env: Any) -> None:
        part = env.states.get_input()
        text = self.result_path_src or "$"
        steps = _steps_of(_parse_path(text))
        if steps is None:
            raise PathMismatch(f"The ResultPath {text} is no Reference Path")
        for step in steps:
            kind = list if isinstance(step, int) else dict
            # What is absent is made on the way, and the places before one in a list would be, too.
            target: Any = kind() if part is _ABSENT else part
            if not isinstance(target, kind) or (
                isinstance(step, int) and not 0 <= step <= len(target)
            ):
                shown = json.dumps(env.states.get_input(), separators=(",", ":"), default=str)
                raise PathMismatch(f'Unable to apply step "{step}" to input {shown}')
            is_known = step < len(target) if isinstance(step, int) else step in target
            part = cast("Any", target)[step] if is_known else _ABSENT
        evaluate(self, env)

    return evaluate_checked


def _cause_of(state: str, error: Exception) -> tuple[str, str] | None:
    """Return the name and the cause of a failure, None for another error."""
    if isinstance(error, DataLimitExceeded):
        cause = (
            f"The state/task '{state}' returned a result with a size exceeding the maximum number of"
            " bytes service limit."
        )
        return "States.DataLimitExceeded", cause
    if isinstance(error, TooMuch):
        return "States.Runtime", f"{error}."
    if isinstance(error, PathMismatch):
        return "States.ResultPathMatchFailure", str(error)
    return ("States.IntrinsicFailure", str(error)) if isinstance(error, IntrinsicFailed) else None


def _failure_of(self: Any, env: Any, error: Exception) -> Any:
    named = _cause_of(self.name, error)
    if named is None:
        return None
    return failure(env, named[1], Expression("", env.next_field_name or ""), named[0])


def _convert_failure(evaluate: Evaluate) -> Evaluate:
    @functools.wraps(evaluate)
    def evaluate_or_fail(self: Any, env: Any) -> None:
        try:
            evaluate(self, env)
        except (TooMuch, IntrinsicFailed, PathMismatch) as error:
            raise _failure_of(self, env, error) from error

    return evaluate_or_fail


def _name_error(from_error: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(from_error)
    def name_error(self: Any, env: Any, ex: Exception) -> Any:
        error = _failure_of(self, env, ex)
        return from_error(self, env=env, ex=error or ex)

    return name_error


def _unwrap_errors(evaluate: Any) -> Any:
    @functools.wraps(evaluate)
    def eval_body(self: Any, env: Any) -> None:
        evaluate(self, env)
        value: Any = env.stack[-1]
        if isinstance(value, dict) and set(value) == {WRAPPED}:
            env.stack[-1] = value[WRAPPED]

    return eval_body
