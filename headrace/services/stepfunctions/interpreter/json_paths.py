"""Evaluates a state machine's JSONPath: a definite path gives one value, any other path a list.

This is how Jayway's JSONPath works, which the Amazon States Language names (https://states-language.net/spec.html#path,
documented); moto returns lists for paths through an array's element, such as `$.Records[0].data`. Paths of names,
indices and `[*]` are evaluated here; all others (filters, slices, descents), which one input can make run for ever,
by jsonpath_child.py in a process of its own.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any, cast

from headrace.core.evaluation import POOL, Engine, check_json_size

_ENGINE = Engine(Path(__file__).with_name("jsonpath_child.py"))
# Letters of all languages: jsonpath_ng knows those of English alone.
_PLAIN = re.compile(r"\$(?:\.\w[\w-]*|\[\d{1,9}\]|\['[^'\\]*'\]|\[\*\])*")
_STEP = re.compile(r"\.(\w[\w-]*)|\[(\d{1,9})\]|\['([^'\\]*)'\]|\[\*\]")
# Of a Map's results before they are put out; a state's own data has 256 KiB.
_MOST_DATA_CHARACTERS = 16 * 1024 * 1024
_ALL = None
Step = str | int | None


def extract_json(path: str, data: Any) -> Any:
    """Return the value at a path, in place of moto's function of this name.

    Raises moto's NoSuchJsonPathError, ValueError for an invalid path, TooMuch when it takes too much time or memory.
    """
    from moto.stepfunctions.parser.asl.utils.json_path import NoSuchJsonPathError

    steps = plain_steps(path)
    if steps is None:
        values, is_definite = _query(path, data)
    else:
        values, is_definite = _find_values(steps, data), _ALL not in steps
    if is_definite:
        if not values:
            raise NoSuchJsonPathError(json_path=path, data=data)
        return values[0]
    # Step Functions, unlike Jayway, indexes a list that a filter has produced (moto's, observed).
    if len(values) == 1 and path.endswith("]") and path[path.rfind("[") + 1 : -1].isdecimal():
        return values[0]
    return values


@functools.lru_cache(maxsize=1024)
def plain_steps(path: str) -> tuple[Step, ...] | None:
    """Return the steps of a plain path, None for another one."""
    if _PLAIN.fullmatch(path) is None:
        return None
    steps: list[Step] = []
    for match in _STEP.finditer(path, 1):
        name, index, quoted = match.groups()
        steps.append(int(index) if index else name if name is not None else quoted)
    return tuple(steps)


def _find_values(steps: tuple[Step, ...], data: Any) -> list[Any]:
    values = [data]
    for step in steps:
        after: list[Any] = []
        for value in values:
            if isinstance(step, str):
                if isinstance(value, dict) and step in value:
                    after.append(cast("dict[str, Any]", value)[step])
            elif isinstance(value, list):
                items = cast("list[Any]", value)
                after += items if step is None else items[step : step + 1]
        values = after
    return values


def _query(path: str, data: Any) -> tuple[list[Any], bool]:
    check_json_size(data, _MOST_DATA_CHARACTERS)
    request = json.dumps({"path": path, "data": data}, default=str).encode()
    answer = json.loads(POOL.ask(_ENGINE, request, caller=path, topic="jsonpath"))
    if "message" in answer:
        raise ValueError(f"The JSONPath '{path}' cannot be evaluated: {answer['message']}")
    return answer["values"], answer["is_definite"]
