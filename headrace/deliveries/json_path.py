"""Evaluates JSON paths of EventBridge's input transformers, in time linear in the event's size. Pure functions.

This is EventBridge's part of JSONPath: dots, names with dashes, indices and wildcards
(https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-transform-target-input.html, documented). moto's library
also has filters with regular expressions and recursive descents, which one event can make run for ever.
"""

from __future__ import annotations

import functools
from typing import Any, cast

MOST_CHARACTERS = 1024
ANY = None
Step = str | int | None


class NoValue(LookupError):
    """The path matches nothing, or EventBridge does not accept it."""


def first_value(path: str, document: Any) -> Any:
    """Return the first value that a path matches. Raises NoValue."""
    steps = _steps(path)
    pending: list[tuple[Any, int]] = [(document, 0)]
    while pending:
        value, depth = pending.pop()
        if depth == len(steps):
            return value
        # Pushed in reverse, so that the first child is popped first.
        pending += [(child, depth + 1) for child in reversed(_children(value, steps[depth]))]
    raise NoValue(path)


def _children(value: Any, step: Step) -> list[Any]:
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        if step is ANY:
            return list(members.values())
        return [members[step]] if isinstance(step, str) and step in members else []
    if isinstance(value, list):
        items = cast("list[Any]", value)
        if step is ANY:
            return items
        return [items[step]] if isinstance(step, int) and step < len(items) else []
    return []


@functools.lru_cache(maxsize=1024)
def _steps(path: str) -> tuple[Step, ...]:
    """Return the steps of a path such as `$.name['name'][0][*].*`. Raises NoValue."""
    if not path.startswith("$") or len(path) > MOST_CHARACTERS:
        raise NoValue(path)
    steps: list[Step] = []
    at = 1
    while at < len(path):
        if path[at] == ".":
            end = at + 1
            while end < len(path) and path[end] not in ".[":
                end += 1
            name = path[at + 1 : end]
            if not name or "`" in name:
                raise NoValue(path)
            steps.append(ANY if name == "*" else name)
        elif path[at] == "[":
            end = path.find("]", at) + 1
            if not end:
                raise NoValue(path)
            steps.append(_parse_brackets(path[at + 1 : end - 1], path))
        else:
            raise NoValue(path)
        at = end
    return tuple(steps)


def _parse_brackets(inner: str, path: str) -> Step:
    if inner == "*":
        return ANY
    if inner.isascii() and inner.isdigit() and len(inner) < 10:
        return int(inner)
    if len(inner) > 2 and inner[0] == inner[-1] and inner[0] in "'\"":
        return inner[1:-1]
    raise NoValue(path)
