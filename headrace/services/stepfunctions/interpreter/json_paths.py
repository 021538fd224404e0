"""Evaluates a state machine's JSONPath: a definite path gives one value, any other path a list.

This is how Jayway's JSONPath works, which the Amazon States Language names (https://states-language.net/spec.html#path,
documented); moto returns lists for paths through an array's element, such as `$.Records[0].data`.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import functools
from typing import Any


def extract_json(path: str, data: Any) -> Any:
    """Return the value at a path, in place of moto's function of this name. Raises moto's NoSuchJsonPathError."""
    from moto.stepfunctions.parser.asl.utils.json_path import NoSuchJsonPathError

    expression, is_definite = _parsed(path)
    values = [match.value for match in expression.find(data)]
    if is_definite:
        if not values:
            raise NoSuchJsonPathError(json_path=path, data=data)
        return values[0]
    # Step Functions, unlike Jayway, indexes a list that a filter has produced (moto's, observed).
    if len(values) == 1 and path.endswith("]") and path[path.rfind("[") + 1 : -1].isdecimal():
        return values[0]
    return values


@functools.lru_cache(maxsize=1024)
def _parsed(path: str) -> tuple[Any, bool]:
    from jsonpath_ng.ext.parser import parse

    expression = parse(path)
    return expression, _is_definite(expression)


def _is_definite(node: Any) -> bool:
    from jsonpath_ng import jsonpath

    if isinstance(node, jsonpath.Child):
        return _is_definite(node.left) and _is_definite(node.right)
    if isinstance(node, jsonpath.Fields):
        return len(node.fields) == 1 and node.fields[0] != "*"
    if isinstance(node, jsonpath.Index):
        return len(getattr(node, "indices", (0,))) == 1
    return isinstance(node, jsonpath.Root | jsonpath.This)
