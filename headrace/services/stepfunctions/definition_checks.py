"""Validates state machine definitions as CreateStateMachine does: their structure, and the targets of transitions.

The sentences have AWS's form, as users quote them in public issues (observed by others); the rules are those of
https://states-language.net/spec.html. JSONata expressions are parsed (asl_languages.py). Paths, intrinsic functions
and the arguments of tasks are not checked: they fail the execution.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from headrace.services.stepfunctions.query_languages import (
    JSONPATH,
    SCHEMA,
    Problem,
    language_of,
    problems_of_machine,
    problems_of_state,
)

MISSING_TARGET = "MISSING_TRANSITION_TARGET"
NO_JSON = "INVALID_JSON_DESCRIPTION"
# Documented: the maximum number of diagnostics.
MOST_DIAGNOSTICS = 100

_TOP = {"Comment", "QueryLanguage", "StartAt", "States", "TimeoutSeconds", "Version"}
# Observed by others (github.com/floci-io/floci, issue 2968).
_INNER = _TOP - {"QueryLanguage"}
_ANY = {"Type", "Comment", "QueryLanguage"}
_FLOW = {"Next", "End", "InputPath", "OutputPath", "Assign", "Output"}
_RESULT = {"Parameters", "ResultPath", "ResultSelector", "Arguments"}
_ERRORS = {"Retry", "Catch"}
_OF_TYPE: Mapping[str, set[str]] = {
    "Task": {
        "Resource", "TimeoutSeconds", "TimeoutSecondsPath", "HeartbeatSeconds", "HeartbeatSecondsPath",
        "Credentials", *_FLOW, *_RESULT, *_ERRORS,
    },
    "Wait": {"Seconds", "Timestamp", "SecondsPath", "TimestampPath", *_FLOW},
    "Pass": {"Result", *_FLOW, *_RESULT},
    "Succeed": {"InputPath", "OutputPath", "Output"},
    "Fail": {"Error", "Cause", "ErrorPath", "CausePath"},
    "Choice": {"Choices", "Default", "InputPath", "OutputPath", "Assign", "Output"},
    "Parallel": {"Branches", *_FLOW, *_RESULT, *_ERRORS},
    "Map": {
        "Iterator", "ItemProcessor", "ItemsPath", "Items", "ItemSelector", "MaxConcurrency",
        "MaxConcurrencyPath", "ItemReader", "ItemBatcher", "ResultWriter", "Label",
        "ToleratedFailureCount", "ToleratedFailureCountPath", "ToleratedFailurePercentage",
        "ToleratedFailurePercentagePath", *_FLOW, *_RESULT, *_ERRORS,
    },
}  # fmt: skip
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "Task": ("Resource",),
    "Choice": ("Choices",),
    "Parallel": ("Branches",),
}
_ENDS = ("Succeed", "Fail", "Choice")


def sentence_of(problems: list[Problem]) -> str:
    """Return AWS's message for an invalid definition."""
    parts = [
        f"{problem.code}: {problem.message}"
        + (f" at {problem.location}" if problem.location else "")
        for problem in problems
    ]
    return f"Invalid State Machine Definition: '{', '.join(parts)}'"


def problems_of(definition: str) -> list[Problem]:
    """Return the problems of a definition; an empty list when it is valid."""
    try:
        value: Any = json.loads(definition)
    except (ValueError, RecursionError) as error:
        return [Problem(NO_JSON, str(error), "")]
    if not isinstance(value, dict):
        return [Problem(NO_JSON, "The definition is no JSON object", "")]
    try:
        machine = cast("dict[str, Any]", value)
        language = language_of(machine, JSONPATH)
        return [*problems_of_machine(machine), *_machine(machine, "", _TOP, language)]
    except RecursionError:
        return [Problem(SCHEMA, "The definition is nested too deeply", "/")]


def _machine(
    machine: dict[str, Any], at: str, allowed: set[str], language: str
) -> Iterator[Problem]:
    where = at or "/"
    missing = [name for name in ("StartAt", "States") if name not in machine]
    if missing:
        yield Problem(SCHEMA, f"These fields are required: [{', '.join(missing)}]", where)
    for name in machine:
        if name not in allowed:
            yield Problem(SCHEMA, f"Field '{name}' is not supported", where)
    states = machine.get("States")
    if states is None:
        return
    if not isinstance(states, dict) or not states:
        yield Problem(SCHEMA, "The field 'States' should be non-empty", f"{at}/States")
        return
    members = cast("dict[str, Any]", states)
    for name, state in members.items():
        path = f"{at}/States/{name}"
        if not isinstance(state, dict):
            yield Problem(SCHEMA, f"Expected value of type Object for field '{name}'", path)
            continue
        yield from _state(cast("dict[str, Any]", state), path, language)
    yield from _transitions(machine.get("StartAt"), members, at)


def _state(state: dict[str, Any], at: str, language: str) -> Iterator[Problem]:
    kind = state.get("Type")
    if kind is None:
        yield Problem(SCHEMA, "These fields are required: [Type]", at)
        return
    if not isinstance(kind, str) or kind not in _OF_TYPE:
        values = "Task, Wait, Pass, Succeed, Fail, Choice, Parallel, Map"
        yield Problem(
            SCHEMA, f"The field 'Type' should have one of these values: [{values}]", f"{at}/Type"
        )
        return
    for name in state:
        if name not in _OF_TYPE[kind] and name not in _ANY:
            yield Problem(SCHEMA, f"Field '{name}' is not supported", at)
    missing = [name for name in _REQUIRED.get(kind, ()) if not state.get(name)]
    if missing:
        yield Problem(SCHEMA, f"These fields are required: [{', '.join(missing)}]", at)
    if kind not in _ENDS and state.get("End") is not True and "Next" not in state:
        yield Problem(SCHEMA, "These fields are required: [Next or End]", at)
    yield from problems_of_state(state, at, language)
    if kind == "Parallel":
        for number, branch in enumerate(_objects(state.get("Branches"))):
            yield from _machine(branch, f"{at}/Branches[{number}]", _INNER, language)
    if kind == "Map":
        yield from _batcher(state, at)
        name = "ItemProcessor" if "ItemProcessor" in state else "Iterator"
        inner = state.get(name)
        if not isinstance(inner, dict):
            yield Problem(SCHEMA, "These fields are required: [ItemProcessor]", at)
            return
        allowed = {*_INNER, "ProcessorConfig"}
        yield from _machine(cast("dict[str, Any]", inner), f"{at}/{name}", allowed, language)


def _batcher(state: dict[str, Any], at: str) -> Iterator[Problem]:
    """Return the problems of a Map's ItemBatcher (documented rules; the sentences are assumed)."""
    batcher = state.get("ItemBatcher")
    if batcher is None:
        return
    processor, config = state.get("ItemProcessor"), None
    if isinstance(processor, dict):
        config = cast("dict[str, Any]", processor).get("ProcessorConfig")
    if not isinstance(config, dict) or cast("dict[str, Any]", config).get("Mode") != "DISTRIBUTED":
        yield Problem(SCHEMA, "Field 'ItemBatcher' is not supported", at)
    limits = ("MaxItemsPerBatch", "MaxInputBytesPerBatch")
    members = cast("dict[str, Any]", batcher) if isinstance(batcher, dict) else {}
    for name in members:
        if name.removesuffix("Path") not in limits and name != "BatchInput":
            yield Problem(SCHEMA, f"Field '{name}' is not supported", f"{at}/ItemBatcher")
    if not any(name.removesuffix("Path") in limits for name in members):
        message = f"These fields are required: [{' or '.join(limits)}]"
        yield Problem(SCHEMA, message, f"{at}/ItemBatcher")


def _objects(value: Any) -> list[dict[str, Any]]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]


def _targets(state: dict[str, Any], at: str) -> Iterator[tuple[str, str]]:
    """Return the states that a state may continue with, each with its place in the definition."""
    for name in ("Next", "Default"):
        if name in state:
            yield str(state[name]), f"{at}/{name}"
    for name in ("Choices", "Catch"):
        for number, item in enumerate(_objects(state.get(name))):
            if "Next" in item:
                yield str(item["Next"]), f"{at}/{name}[{number}]/Next"


def _transitions(start: Any, states: dict[str, Any], at: str) -> Iterator[Problem]:
    if start is not None and start not in states:
        yield Problem(MISSING_TARGET, f"Missing 'Next' target: {start}", f"{at}/StartAt")
        return
    reached, pending = set[str](), [str(start)] if start is not None else []
    while pending:
        name = pending.pop()
        state = states.get(name)
        if name in reached or not isinstance(state, dict):
            continue
        reached.add(name)
        for target, path in _targets(cast("dict[str, Any]", state), f"{at}/States/{name}"):
            if target not in states:
                yield Problem(MISSING_TARGET, f"Missing 'Next' target: {target}", path)
            pending.append(target)
    if start is not None:
        for name in states:
            if name not in reached:
                message = f'State "{name}" is not reachable.'
                yield Problem(MISSING_TARGET, message, f"{at}/States/{name}")
