"""A query's own function: a function of a Python file, called with the values of a row.

A compiled job has this file's text, so that it imports nothing of headrace, and runs in Python 3.9.
"""

# What a function gives is of any type until it is looked at.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

_BITS = {"INT": 31, "BIGINT": 63}


def load_function(source: str, file: str, name: str) -> Callable[..., Any]:
    """Return the function `name` of a Python file's text; raises what the text raises, and KeyError without it."""
    module: dict[str, Any] = {"__name__": "headrace_sql_function", "__file__": file}
    exec(compile(source, file, "exec", dont_inherit=True), module)
    return module[name]


def fit(value: Any, type_: Sequence[Any]) -> Any:
    """Return what a function has given as its type has it; raises TypeError for a value of another one.

    A type is its name and the types that it is made of, such as ["ARRAY", ["INT"]].
    """
    if value is None:
        return None
    name, of = type_[0], type_[1:]
    if name == "ARRAY" and isinstance(value, (list, tuple)):
        return [fit(one, of[0]) for one in value]
    if name == "MAP" and isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: fit(one, of[1]) for key, one in value.items()}
    if name in _BITS and isinstance(value, int) and not isinstance(value, bool):
        bound = 1 << _BITS[name]
        if -bound <= value < bound:
            return value
    if name == "DOUBLE" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if (name == "BOOLEAN" and isinstance(value, bool)) or (
        name == "STRING" and isinstance(value, str)
    ):
        return value
    raise TypeError(f"it gives {str(value)[:60]!r}, a {type(value).__name__}, and not {name}")
