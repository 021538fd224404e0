"""Finds a state machine's JSONata expressions, and their errors before the machine runs.

A state's query language is its own, else the machine's, also inside a Map or a Parallel. Documented:
https://docs.aws.amazon.com/step-functions/latest/dg/transforming-data.html; the sentences, and the places that they
name: observed by others on AWS (github.com/floci-io/floci, issues 2670, 2745 and 2968).

Evaluates expressions with the engine of jsonata_child.py in a process of its own.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from headrace.core.evaluation import POOL, Engine, TooMuch

JSONATA, JSONPATH = "JSONata", "JSONPath"
SCHEMA = "SCHEMA_VALIDATION_FAILED"
INVALID, UNSUPPORTED = "INVALID_JSONATA_EXPRESSION", "UNSUPPORTED_JSONATA_EXPRESSION"
# The fields that only one of the two languages has.
_ONLY_JSONPATH = (
    "InputPath", "OutputPath", "ResultPath", "ResultSelector", "Parameters", "Result", "ItemsPath",
    "MaxConcurrencyPath", "TimeoutSecondsPath", "HeartbeatSecondsPath", "SecondsPath", "TimestampPath",
    "ErrorPath", "CausePath", "ToleratedFailureCountPath", "ToleratedFailurePercentagePath",
)  # fmt: skip
_ONLY_JSONATA = ("Arguments", "Output", "Items")
_NO_EXPRESSIONS = {"Comment", "Type", "Resource", "Next", "Default", "QueryLanguage", "Retry"}
# The member that holds arguments where moto's grammar knows only Parameters.
PACKED = "headrace-arguments"
# The member that holds a template that is no object: its grammar has only objects.
WRAPPED = "headrace-template"
# The members of an ItemSelector that batches: an item, the batches' limits, and what each batch has beside its items.
BATCH_ITEM, BATCH_LIMITS, BATCH_INPUT = "headrace-item", "headrace-limits", "headrace-batch"
# The member of a result writer's parameters that holds its WriterConfig, which moto's grammar lacks.
_CONFIG = "headrace-config"
_TEMPLATES = ("Parameters", "ResultSelector", "ItemSelector")
_MACHINES = {"Branches", "ItemProcessor", "Iterator"}


@dataclass(frozen=True, slots=True)
class Expression:
    """A JSONata expression without its `{%` and `%}`; `location` is its place in its state, in AWS's form."""

    text: str
    location: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem: AWS's code, a sentence, and its path from the definition's root."""

    code: str
    message: str
    location: str


def language_of(state: dict[str, Any], machine: str) -> str:
    """Return a state's query language; `machine` is the whole machine's."""
    if "QueryLanguage" not in state:
        return machine
    return JSONPATH if state["QueryLanguage"] == JSONPATH else JSONATA


def _text_of(value: str) -> str | None:
    """Return the expression in a text, or None."""
    if len(value) >= 4 and value.startswith("{%") and value.endswith("%}"):
        return value[2:-2].strip()
    return None


def _map_expressions(value: Any, location: str, change: Callable[[Expression], Any]) -> Any:
    if isinstance(value, str):
        text = _text_of(value)
        return value if text is None else change(Expression(text, location))
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [
            _map_expressions(element, f"{location}[{n}]", change) for n, element in enumerate(items)
        ]
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {
            key: _map_expressions(element, f"{location}/{key}", change)
            for key, element in members.items()
        }
    return value


def _map_state(state: dict[str, Any], change: Callable[[Expression], str]) -> dict[str, Any]:
    return {
        name: value
        if name in _NO_EXPRESSIONS or name in _MACHINES
        else _map_expressions(value, name, change)
        for name, value in state.items()
    }


def expressions_of(state: dict[str, Any]) -> list[Expression]:
    """Return the expressions of a JSONata state, without those of nested states."""
    expressions: list[Expression] = []

    def note(expression: Expression) -> str:
        expressions.append(expression)
        return ""

    _map_state(state, note)
    return expressions


# --- for the interpreter ------------------------------------------------------------------------------


def mark_expressions(definition: dict[str, Any]) -> dict[str, Any]:
    """Return a definition for moto's interpreter: states carry their language, expressions their place."""
    return _mark_machine(definition, language_of(definition, JSONPATH))


def _mark_machine(machine: dict[str, Any], language: str) -> dict[str, Any]:
    states = cast("dict[str, dict[str, Any]]", machine.get("States") or {})
    return {
        **machine,
        "States": {name: _mark_state(state, language) for name, state in states.items()},
    }


def _mark_state(state: dict[str, Any], language: str) -> dict[str, Any]:
    own = language_of(state, language)
    new_state = {**state, "QueryLanguage": own}
    for name in _TEMPLATES if own == JSONPATH else ():
        if name in new_state and not isinstance(new_state[name], dict):
            new_state[name] = {WRAPPED: new_state[name]}
    _fit_map(new_state)
    if own == JSONATA:
        if state.get("Type") == "Map" and "Items" not in state and "ItemReader" not in state:
            # Documented: a Map iterates over its input by default.
            new_state["Items"] = "{% $states.input %}"
        new_state = _map_state(new_state, _mark)
    for name in _MACHINES & new_state.keys():
        inner: Any = new_state[name]
        new_state[name] = (
            [_mark_machine(machine, language) for machine in inner]
            if name == "Branches"
            else _mark_machine(inner, language)
        )
    return new_state


def _fit_map(state: dict[str, Any]) -> None:
    """Rewrite a Map state, in place, into an equivalent that moto's grammar accepts.

    Raises NotImplementedError with the name of what the interpreter lacks.
    """
    _pack_batcher(state)
    percentage = state.get("ToleratedFailurePercentage")
    if isinstance(percentage, int):
        # The grammar takes only numbers with a decimal point.
        state["ToleratedFailurePercentage"] = float(percentage)
    processor: dict[str, Any] = state.get("ItemProcessor") or {}
    config: dict[str, Any] = processor.get("ProcessorConfig") or {}
    if config.get("ExecutionType") == "EXPRESS":
        # Both kinds run in this process, and their histories are not visible.
        config = {**config, "ExecutionType": "STANDARD"}
        state["ItemProcessor"] = {**processor, "ProcessorConfig": config}
    _pack_reader(state)
    _pack_writer(state)


def _pack_reader(state: dict[str, Any]) -> None:
    """Let the type of a reader's input carry its ReaderConfig, of which moto's grammar knows a few fields."""
    reader: dict[str, Any] = state.get("ItemReader") or {}
    config: dict[str, Any] | None = reader.get("ReaderConfig")
    if config is None:
        return
    evaluated = {name: limit for name, limit in config.items() if name.startswith("MaxItems")}
    state["ItemReader"] = {**reader, "ReaderConfig": {**evaluated, "InputType": pack(config)}}


def _pack_writer(state: dict[str, Any]) -> None:
    writer: dict[str, Any] | None = state.get("ResultWriter")
    if writer is None:
        return
    parameters: dict[str, Any] = dict(writer.get("Parameters") or {})
    if "Arguments" in writer:
        parameters = {PACKED: pack(writer["Arguments"])}
    if "WriterConfig" in writer:
        parameters[_CONFIG] = pack(writer["WriterConfig"])
    # Without a resource the results stay in the state: nothing is written then.
    resource = writer.get("Resource", "arn:aws:states:::s3:putObject")
    state["ResultWriter"] = {"Resource": resource, "Parameters": parameters}


def pack(value: Any) -> str:
    """Return a value as a text that no grammar looks into."""
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


def unpack(text: str) -> Any:
    """Return the value that was packed."""
    return json.loads(base64.urlsafe_b64decode(text))


def _pack_batcher(state: dict[str, Any]) -> None:
    """Let a Map's ItemSelector carry its ItemBatcher, which moto's grammar lacks: both are templates over one input."""
    batcher: dict[str, Any] | None = state.pop("ItemBatcher", None)
    if batcher is None:
        return
    is_jsonata = state["QueryLanguage"] == JSONATA
    whole: dict[str, Any] = (
        {BATCH_ITEM: "{% $states.context.Map.Item.Value %}"}
        if is_jsonata
        else {f"{BATCH_ITEM}.$": "$$.Map.Item.Value"}
    )
    # A Map of JSONPath may have its selector as Parameters.
    selector: Any = state.pop("ItemSelector", None) or state.pop("Parameters", None)
    if selector is not None:
        is_wrapped = isinstance(selector, dict) and WRAPPED in selector
        whole = {BATCH_ITEM: selector[WRAPPED] if is_wrapped else selector}
    limits = {
        f"{name.removesuffix('Path')}.$" if name.endswith("Path") else name: limit
        for name, limit in batcher.items()
        if name != "BatchInput"
    }
    batch_input = {"BatchInput": batcher["BatchInput"]} if "BatchInput" in batcher else {}
    state["ItemSelector"] = {**whole, BATCH_LIMITS: limits, BATCH_INPUT: batch_input}


def unpack_arguments(
    parameters: dict[str, Any], change: Callable[[Expression], Any]
) -> dict[str, Any]:
    """Return the arguments packed into a result writer's parameters, with their expressions changed."""
    if PACKED not in parameters:
        return parameters
    others = {name: value for name, value in parameters.items() if name != PACKED}
    arguments = unpack(parameters[PACKED])
    return {**others, **_map_expressions(arguments, "ResultWriter/Arguments", change)}


def unpack_config(parameters: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a result writer's parameters without the WriterConfig that is packed into them, and that."""
    config: dict[str, Any] = unpack(parameters[_CONFIG]) if _CONFIG in parameters else {}
    return {name: value for name, value in parameters.items() if name != _CONFIG}, config


def _mark(expression: Expression) -> str:
    return "{%" + pack([expression.text, expression.location]) + "%}"


def parse_marked(text: str) -> Expression:
    """Return the expression that the interpreter holds as text."""
    return Expression(*unpack(text))


# --- for CreateStateMachine ---------------------------------------------------------------------------


def problems_of_machine(machine: dict[str, Any]) -> Iterator[Problem]:
    """Return the problems of a machine's query language."""
    yield from _of_language(machine, "")


def problems_of_state(state: dict[str, Any], at: str, machine: str) -> Iterator[Problem]:
    """Return the problems of a state's query language and of its expressions.

    Args:
        state: the state.
        at: its path in the definition.
        machine: the query language of the whole machine.
    """
    yield from _of_language(state, at)
    if machine == JSONATA and state.get("QueryLanguage") == JSONPATH:
        message = (
            f"'QueryLanguage' can not be '{JSONPATH}' if set to '{JSONATA}' for whole state machine"
        )
        yield Problem(SCHEMA, message, at)
        return
    own = language_of(state, machine)
    yield from _of_fields(state, at, own)
    if own == JSONATA:
        for expression in expressions_of(state):
            kind = str(state.get("Type"))
            yield from _of_expression(expression, f"{at}/{expression.location}", kind)


def _of_language(owner: dict[str, Any], at: str) -> Iterator[Problem]:
    if "QueryLanguage" not in owner:
        return
    value = owner["QueryLanguage"]
    where = f"{at}/QueryLanguage"
    if not isinstance(value, str):
        yield Problem(SCHEMA, "Expected value of type [STRING]", where)
    elif value not in (JSONATA, JSONPATH):
        yield Problem(
            SCHEMA, f"Value should be one of the following: [{JSONPATH}, {JSONATA}]", where
        )


def _of_fields(state: dict[str, Any], at: str, own: str) -> Iterator[Problem]:
    other = JSONATA if own == JSONPATH else JSONPATH
    fields = _ONLY_JSONATA if own == JSONPATH else _ONLY_JSONPATH
    # The problems inside rules and catchers are assumed to have the same sentences.
    inside: dict[str, tuple[str, ...]] = {
        "Choices": ("Condition", "Output") if own == JSONPATH else ("Variable", "And", "Or", "Not"),
        "Catch": ("Output",) if own == JSONPATH else ("ResultPath",),
    }
    places: list[tuple[dict[str, Any], tuple[str, ...], str]] = [(state, fields, at)]
    for name, names in inside.items():
        rules = state.get(name)
        if isinstance(rules, list):
            for number, rule in enumerate(cast("list[Any]", rules)):
                if isinstance(rule, dict):
                    places.append((cast("dict[str, Any]", rule), names, f"{at}/{name}[{number}]"))
    for location, names, where in places:
        for field in names:
            if field in location:
                yield Problem(
                    SCHEMA,
                    f"The QueryLanguage is set to '{own}', but field '{field}' is only supported"
                    f" for the '{other}' QueryLanguage",
                    where,
                )


def _of_expression(expression: Expression, at: str, kind: str) -> Iterator[Problem]:
    try:
        roots = EVALUATOR.roots(expression.text)
    except QueryFailed as error:
        yield Problem(INVALID, error.message, at)
        return
    for root in roots:
        message = _find_unsupported(root, expression.location, kind)
        if message:
            yield Problem(UNSUPPORTED, message, at)


def _find_unsupported(root: str, location: str, kind: str) -> str:
    if root == "$$":
        return "Reference to '$$' is not supported."
    if not root.startswith("$states."):
        return f"Reference to '{root}' at the top level is not supported."
    name = root.removeprefix("$states.")
    is_in_catcher = location.startswith("Catch[")
    # Documented: only a Task, Parallel or Map has a result; that AWS says this here is assumed.
    has_result = kind in ("Task", "Parallel", "Map") and location.startswith(("Output", "Assign"))
    is_there = {"errorOutput": is_in_catcher, "result": has_result, "input": True, "context": True}
    return "" if is_there.get(name) else f"Field '{root}' does not exist."


_ENGINE = Engine(Path(__file__).with_name("jsonata_child.py"))


class QueryFailed(Exception):
    """An expression that is invalid or fails; `code` is JSONata's, empty for a limit of Step Functions."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


@dataclass(frozen=True, slots=True)
class NoValue:
    """The expression has no JSON value: nothing, or, when not `is_nothing`, something else, such as a function."""

    is_nothing: bool


class Evaluator:
    """Evaluates expressions. Thread-safe; callers get their turns from the pool of all evaluations."""

    def value(self, expression: str, variables: dict[str, Any], caller: str = "") -> Any:
        """Return an expression's value as JSON, or a NoValue. Raises QueryFailed.

        Args:
            expression: without its `{%` and `%}`.
            variables: by their names, without dollar signs; JSON values.
            caller: whose evaluation it is: an execution's ARN.
        """
        request = {"is_check": False, "expression": expression, "variables": variables}
        answer = self._ask(request, caller)
        if "value" in answer:
            return answer["value"]
        return NoValue(is_nothing="nothing" in answer)

    def roots(self, expression: str) -> list[str]:
        """Return the names that an expression reads: names, `$$`, `$states.<name>`. Raises QueryFailed."""
        return self._ask({"is_check": True, "expression": expression}, "")["roots"]

    def _ask(self, request: dict[str, Any], caller: str) -> dict[str, Any]:
        try:
            answer = json.loads(POOL.ask(_ENGINE, json.dumps(request).encode(), caller=caller))
        except TooMuch:
            # Assumed: AWS's sentence for this limit is not public.
            raise QueryFailed(
                "", "Expression evaluation timeout: Check for infinite loop"
            ) from None
        if "message" in answer:
            raise QueryFailed(answer["code"], answer["message"])
        return answer


EVALUATOR = Evaluator()
