"""Calls a function of a query's Python file: an engine of `headrace.core.evaluation`, which bounds time and memory.

The request is JSON: `source`, `file`, `name`, `type` and `arguments`. The answer is JSON: `value`, or `problem`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

from headrace.sql.python_function import fit, load_function


@cache
def _load(source: str, file: str, name: str) -> Callable[..., Any]:
    return load_function(source, file, name)


def answer(request: bytes) -> bytes:
    """Answer one call."""
    asked = json.loads(request)
    try:
        function = _load(asked["source"], asked["file"], asked["name"])
        value = fit(function(*asked["arguments"]), asked["type"])
        return json.dumps({"value": value}).encode()
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything; the caller counts it
        return json.dumps({"problem": f"{type(error).__name__}: {str(error)[:300]}"}).encode()
