"""Validates state machine definitions as CreateStateMachine does: their structure, and the targets of transitions.

The sentences have AWS's form, as users quote them in public issues (observed by others; the one about types in part);
the rules are those of https://states-language.net/spec.html. JSONata expressions are parsed (jsonata_expressions.py).
Calls of intrinsic functions are parsed (intrinsic_calls.py); paths and the arguments of tasks fail the execution.

Finds the problems of a distributed Map's ItemReader and ResultWriter too. Documented:
https://docs.aws.amazon.com/step-functions/latest/dg/input-output-itemreader.html and input-output-resultwriter.html
there; which of these AWS refuses when the machine is created: assumed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from headrace.core.values import parse_json
from headrace.services.stepfunctions import answers
from headrace.services.stepfunctions.interpreter.service_calls import is_sdk_call
from headrace.services.stepfunctions.intrinsic_calls import problems_of_paths
from headrace.services.stepfunctions.jsonata_expressions import (
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

# The type of each field's value; those that are not here take any. In JSONata an expression stands for any value.
_TYPES: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "Type", "Comment", "QueryLanguage", "Version", "StartAt", "Next", "Default", "Resource", "Label",
            "Timestamp", "TimeoutSecondsPath", "HeartbeatSecondsPath", "SecondsPath", "TimestampPath", "ItemsPath",
            "MaxConcurrencyPath", "ToleratedFailureCountPath", "ToleratedFailurePercentagePath", "Error", "Cause",
            "ErrorPath", "CausePath", "JitterStrategy", "Variable", "MaxItemsPerBatchPath", "MaxInputBytesPerBatchPath",
        ),
        "String",
    ),
    **dict.fromkeys(("InputPath", "OutputPath", "ResultPath"), "String or null"),
    **dict.fromkeys(
        (
            "TimeoutSeconds", "HeartbeatSeconds", "Seconds", "MaxConcurrency", "ToleratedFailureCount",
            "IntervalSeconds", "MaxAttempts", "MaxDelaySeconds", "MaxItemsPerBatch", "MaxInputBytesPerBatch",
        ),
        "Integer",
    ),
    **dict.fromkeys(("ToleratedFailurePercentage", "BackoffRate"), "Number"),
    "End": "Boolean",
    "Condition": "Boolean",
    **dict.fromkeys(("Choices", "Branches", "Retry", "Catch", "And", "Or", "ErrorEquals", "Items"), "Array"),
    **dict.fromkeys(
        (
            "States", "ItemProcessor", "Iterator", "ItemReader", "ItemBatcher", "ResultWriter", "Credentials",
            "Assign", "Not", "ProcessorConfig",
        ),
        "Object",
    ),
}  # fmt: skip
_HAS_TYPE: Mapping[str, Callable[[Any], bool]] = {
    "String": lambda value: isinstance(value, str),
    "String or null": lambda value: value is None or isinstance(value, str),
    "Integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "Number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "Boolean": lambda value: isinstance(value, bool),
    "Array": lambda value: isinstance(value, list),
    "Object": lambda value: isinstance(value, dict),
}
# How the names of comparisons of a Choice begin. Their paths are texts.
_COMPARISONS = (
    ("String", "String"), ("Numeric", "Number"), ("Boolean", "Boolean"), ("Timestamp", "String"), ("Is", "Boolean"),
)  # fmt: skip


_INTEGRATION = re.compile(r"arn:aws[\w-]*:states:::(.*)", re.DOTALL)
_PATTERN = re.compile(r"\.(?:sync|sync:2|waitForTaskToken)$")
# The services with integrations of their own, and the actions of those with few (documented: "Integrating services").
_ACTIONS: dict[str, frozenset[str] | None] = {
    "apigateway": frozenset({"invoke"}),
    "athena": frozenset(
        {"startQueryExecution", "stopQueryExecution", "getQueryExecution", "getQueryResults"}
    ),
    "batch": frozenset({"submitJob"}),
    "databrew": frozenset({"startJobRun"}),
    "dynamodb": frozenset({"getItem", "putItem", "deleteItem", "updateItem"}),
    "ecs": frozenset({"runTask"}),
    "elasticmapreduce": frozenset(
        {
            "createCluster", "terminateCluster", "addStep", "cancelStep", "setClusterTerminationProtection",
            "modifyInstanceFleetByName", "modifyInstanceGroupByName",
        }
    ),
    "emr-containers": frozenset({"createVirtualCluster", "deleteVirtualCluster", "startJobRun"}),
    "emr-serverless": frozenset(
        {"createApplication", "startApplication", "stopApplication", "deleteApplication", "startJobRun", "cancelJobRun"}
    ),
    "events": frozenset({"putEvents"}),
    "glue": frozenset({"startJobRun"}),
    "http": frozenset({"invoke"}),
    "lambda": frozenset({"invoke"}),
    "mediaconvert": frozenset({"createJob"}),
    "sns": frozenset({"publish"}),
    "sqs": frozenset({"sendMessage"}),
    "states": frozenset({"startExecution"}),
    **dict.fromkeys(("bedrock", "codebuild", "eks", "sagemaker")),
}  # fmt: skip


def sentence_of(problems: list[Problem]) -> str:
    """Return AWS's message for an invalid definition."""
    parts = [
        f"{problem.code}: {problem.message}"
        + (f" at {problem.location}" if problem.location else "")
        for problem in problems
    ]
    return f"Invalid State Machine Definition: '{', '.join(parts)}'"


def problems_of(definition: str, *, is_express: bool = False) -> list[Problem]:
    """Return the problems of a definition; an empty list when it is valid."""
    try:
        # Recorded: a blank text is no object, and not wrong JSON.
        value: Any = parse_json(definition) if definition.strip() else None
    except (ValueError, RecursionError) as error:
        reason = answers.reason_of(error, definition)
        if not isinstance(error, json.JSONDecodeError) or not reason.startswith("Unrecognized"):
            return [Problem(NO_JSON, reason, "")]
        place = answers.place_of(error, definition)
        return [Problem(NO_JSON, f"{reason}\n at {place}", place)]
    if not isinstance(value, dict):
        return [Problem(SCHEMA, "Definition must be a valid JSON object", "")]
    try:
        machine = cast("dict[str, Any]", value)
        language = language_of(machine, JSONPATH)
        problems = [*problems_of_machine(machine), *_machine(machine, "", _TOP, language)]
        return [*problems, *(_check_express(machine, "") if is_express else ())]
    except RecursionError:
        return [Problem(SCHEMA, "The definition is nested too deeply", "/")]


def _check_express(machine: Mapping[str, Any], at: str) -> Iterator[Problem]:
    """Return the tasks of an express machine, also inside others, that would wait (recorded; of .sync, documented)."""
    states = cast("dict[str, Any]", machine.get("States") or {})
    for name, state in states.items() if isinstance(cast("Any", states), dict) else ():
        if not isinstance(state, dict):
            continue
        members, place = cast("dict[str, Any]", state), f"{at}/States/{name}"
        resource = str(members.get("Resource", ""))
        for pattern in (".waitForTaskToken", ".sync"):
            if resource.removesuffix(":2").endswith(pattern):
                message = f"Express state machine does not support '{pattern}' service integration "
                yield Problem(SCHEMA, message, f"{place}/Resource")
        for number, branch in enumerate(_objects(members.get("Branches"))):
            yield from _check_express(branch, f"{place}/Branches[{number}]")
        for inner in ("Iterator", "ItemProcessor"):
            if isinstance(members.get(inner), dict):
                yield from _check_express(members[inner], f"{place}/{inner}")


def _machine(
    machine: dict[str, Any], at: str, allowed: set[str], language: str
) -> Iterator[Problem]:
    where = at or "/"
    missing = [name for name in ("States", "StartAt") if name not in machine]
    if missing:
        yield Problem(SCHEMA, f"These fields are required: [{', '.join(missing)}]", where)
    for name in machine:
        if name not in allowed:
            yield Problem(SCHEMA, f"Field '{name}' is not supported", where)
    fields = {name: machine[name] for name in machine if name not in ("QueryLanguage", "States")}
    yield from _check_types(fields, at, JSONPATH)
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
    if language_of(state, language) == JSONPATH:
        yield from problems_of_paths(state, at)
    yield from _field_types(state, at, language_of(state, language))
    yield from _resource(state, at)
    if kind == "Parallel":
        for number, branch in enumerate(_objects(state.get("Branches"))):
            yield from _machine(branch, f"{at}/Branches[{number}]", _INNER, language)
    if kind == "Map":
        yield from _batcher(state, at, language_of(state, language))
        yield from problems_of_map(state, at)
        name = "ItemProcessor" if "ItemProcessor" in state else "Iterator"
        inner = state.get(name)
        if not isinstance(inner, dict):
            yield Problem(SCHEMA, "These fields are required: [ItemProcessor]", at)
            return
        allowed = {*_INNER, "ProcessorConfig"}
        yield from _machine(cast("dict[str, Any]", inner), f"{at}/{name}", allowed, language)


def _resource(state: dict[str, Any], at: str) -> Iterator[Problem]:
    """Return the problem of a task whose integration no service has (the sentence: observed by others)."""
    resource = state.get("Resource")
    match = _INTEGRATION.fullmatch(resource) if isinstance(resource, str) else None
    if match is None or state.get("Type") != "Task":
        return
    service, _, action = _PATTERN.sub("", match[1]).partition(":")
    if service == "aws-sdk":
        service, _, action = action.partition(":")
        is_known = is_sdk_call(service, action)
    else:
        actions = _ACTIONS.get(service, frozenset[str]())
        is_known = bool(action) if actions is None else action in actions
    if not is_known:
        sentence = (
            f"The resource provided {resource} is not recognized. The value is not a valid resource ARN, or the "
            "resource is not available in this region."
        )
        yield Problem(SCHEMA, sentence, f"{at}/Resource")


def _batcher(state: dict[str, Any], at: str, language: str) -> Iterator[Problem]:
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
    yield from _check_types(members, f"{at}/ItemBatcher", language)
    for name in limits:
        if isinstance(members.get(name), int) and members[name] < 1:
            message = f"The field '{name}' should be a positive integer"
            yield Problem(SCHEMA, message, f"{at}/ItemBatcher/{name}")
    if not any(name.removesuffix("Path") in limits for name in members):
        message = f"These fields are required: [{' or '.join(limits)}]"
        yield Problem(SCHEMA, message, f"{at}/ItemBatcher")


def _field_types(state: dict[str, Any], at: str, language: str) -> Iterator[Problem]:
    """Return the fields of a state, its retriers, catchers and rules whose values have the wrong type."""
    fields = {name: value for name, value in state.items() if name not in ("Type", "QueryLanguage")}
    yield from _check_types(fields, at, language)
    for name in ("Retry", "Catch", "Branches"):
        yield from _items(state.get(name), f"{at}/{name}", language, is_state=name == "Branches")
    yield from _rules(state.get("Choices"), f"{at}/Choices", language)


def _check_types(fields: Mapping[str, Any], at: str, language: str) -> Iterator[Problem]:
    for name, value in fields.items():
        expected = _TYPES.get(name)
        if expected is not None and not _fits(value, expected, language):
            message = f"Expected value of type {expected} for field '{name}'"
            yield Problem(SCHEMA, message, f"{at}/{name}")


def _fits(value: Any, expected: str, language: str) -> bool:
    is_expression = isinstance(value, str) and value.startswith("{%")
    return (language != JSONPATH and is_expression) or _HAS_TYPE[expected](value)


def _items(value: Any, at: str, language: str, *, is_state: bool) -> Iterator[Problem]:
    for number, item in enumerate(cast("list[Any]", value) if isinstance(value, list) else []):
        place = f"{at}[{number}]"
        if not isinstance(item, dict):
            yield Problem(SCHEMA, "Expected value of type Object", place)
            continue
        if is_state:  # a machine of its own, see `_machine`
            continue
        members = cast("dict[str, Any]", item)
        yield from _check_types(members, place, language)
        errors = members.get("ErrorEquals")
        if not errors:
            yield Problem(SCHEMA, "These fields are required: [ErrorEquals]", place)
        elif isinstance(errors, list) and not all(
            isinstance(error, str) for error in cast("list[Any]", errors)
        ):
            message = "Expected value of type String for field 'ErrorEquals'"
            yield Problem(SCHEMA, message, f"{place}/ErrorEquals")


def _rules(value: Any, at: str, language: str) -> Iterator[Problem]:
    """Return the problems of the rules of a Choice, and of the rules inside And, Or and Not."""
    for number, item in enumerate(cast("list[Any]", value) if isinstance(value, list) else []):
        place = f"{at}[{number}]"
        if not isinstance(item, dict):
            yield Problem(SCHEMA, "Expected value of type Object", place)
            continue
        rule = cast("dict[str, Any]", item)
        yield from _check_types(rule, place, language)
        for name, operand in rule.items():
            kinds = [kind for prefix, kind in _COMPARISONS if name.startswith(prefix)]
            expected = "String" if name.endswith("Path") else "".join(kinds)
            if kinds and not _fits(operand, expected, language):
                message = f"Expected value of type {expected} for field '{name}'"
                yield Problem(SCHEMA, message, f"{place}/{name}")
        for name in ("And", "Or"):
            yield from _rules(rule.get(name), f"{place}/{name}", language)
        if isinstance(rule.get("Not"), dict):
            yield from _rules([rule["Not"]], f"{place}/Not", language)


def _objects(value: Any) -> list[dict[str, Any]]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]


def _targets(state: dict[str, Any], at: str) -> Iterator[tuple[str, str]]:
    """Return the states that a state may continue with, each with its place in the definition."""
    for name in ("Next", "Default"):
        if isinstance(state.get(name), str):
            yield state[name], f"{at}/{name}"
    for name in ("Choices", "Catch"):
        for number, item in enumerate(_objects(state.get(name))):
            if isinstance(item.get("Next"), str):
                yield item["Next"], f"{at}/{name}[{number}]/Next"


def _transitions(start: Any, states: dict[str, Any], at: str) -> Iterator[Problem]:
    if not isinstance(start, str):
        return
    if start not in states:
        yield Problem(MISSING_TARGET, f"Missing 'Next' target: {start}", f"{at}/StartAt")
        return
    reached, pending = set[str](), [start]
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
    for name in states:
        if name not in reached:
            message = f'State "{name}" is not reachable.'
            yield Problem(MISSING_TARGET, message, f"{at}/States/{name}")


CSV_DELIMITERS = {"COMMA": ",", "PIPE": "|", "SEMICOLON": ";", "SPACE": " ", "TAB": "\t"}
# The values of each field; an empty list stands for any.
_READER: Mapping[str, tuple[str, ...]] = {
    "InputType": ("CSV", "JSON", "JSONL", "PARQUET", "MANIFEST"),
    "Transformation": ("NONE", "LOAD_AND_FLATTEN"),
    "ManifestType": ("ATHENA_DATA", "S3_INVENTORY"),
    "CSVHeaderLocation": ("FIRST_ROW", "GIVEN"),
    "CSVDelimiter": tuple(CSV_DELIMITERS),
    **dict.fromkeys(("CSVHeaders", "MaxItems", "MaxItemsPath", "ItemsPointer"), ()),
}
_WRITER: Mapping[str, tuple[str, ...]] = {
    "Transformation": ("NONE", "COMPACT", "FLATTEN"),
    "OutputType": ("JSON", "JSONL"),
}


def problems_of_map(state: dict[str, Any], at: str) -> Iterator[Problem]:
    """Return the problems of a Map's reader and writer; `at` is the state's path."""
    for owner, name, fields in (
        ("ItemReader", "ReaderConfig", _READER),
        ("ResultWriter", "WriterConfig", _WRITER),
    ):
        members = _object(state.get(owner))
        if members is not None and name in members:
            yield from _of_config(members[name], fields, f"{at}/{owner}/{name}")
    writer = _object(state.get("ResultWriter"))
    if writer is not None and not {"Resource", "WriterConfig"} & writer.keys():
        message = "These fields are required: [Resource or WriterConfig]"
        yield Problem(SCHEMA, message, f"{at}/ResultWriter")


def _object(value: Any) -> dict[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _of_config(value: Any, fields: Mapping[str, tuple[str, ...]], at: str) -> Iterator[Problem]:
    config = _object(value)
    if config is None:
        yield Problem(SCHEMA, "Expected value of type [Object]", at)
        return
    for name, chosen in config.items():
        if name not in fields:
            yield Problem(SCHEMA, f"Field '{name}' is not supported", at)
        elif fields[name] and chosen not in fields[name]:
            values = ", ".join(fields[name])
            message = f"Value should be one of the following: [{values}]"
            yield Problem(SCHEMA, message, f"{at}/{name}")
