"""Evaluates JSONPath with jsonpath-ng: an engine of `headrace.core.evaluation.child`; requests and answers are JSON."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import functools
import json
from typing import Any

from jsonpath_ng import jsonpath
from jsonpath_ng.ext.parser import parse


@functools.lru_cache(maxsize=1024)
def _parse(path: str) -> tuple[Any, bool]:
    expression = parse(path)
    return expression, _is_definite(expression)


def _is_definite(node: Any) -> bool:
    if isinstance(node, jsonpath.Child):
        return _is_definite(node.left) and _is_definite(node.right)
    if isinstance(node, jsonpath.Fields):
        return len(node.fields) == 1 and node.fields[0] != "*"
    if isinstance(node, jsonpath.Index):
        return len(getattr(node, "indices", (0,))) == 1
    return isinstance(node, jsonpath.Root | jsonpath.This)


def answer(request: bytes) -> bytes:
    """Answer `{path, data}` with `{values, is_definite}`, or `{message}` when the path cannot be evaluated."""
    asked = json.loads(request)
    try:
        expression, is_definite = _parse(asked["path"])
        values = [match.value for match in expression.find(asked["data"])]
        answered: dict[str, Any] = {"values": values, "is_definite": is_definite}
        return json.dumps(answered).encode()
    except MemoryError:
        return json.dumps({"message": "The path selects too much"}).encode()
    except Exception as error:  # noqa: BLE001 - any error of the library fails the path
        return json.dumps({"message": str(error) or type(error).__name__}).encode()
