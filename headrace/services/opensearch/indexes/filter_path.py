"""The parameter `filter_path`: which parts of an answer are sent. Pure functions.

A path has fields between dots; `*` stands for any run of characters of a field, `**` for any number of fields, and a
path that begins with `-` leaves parts out. Lists do not count as levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from headrace.core.wildcards import Wildcard

_Path = tuple[str, ...]


def filter_answer(body: Any, filter_path: str) -> Any:
    """Return the parts of a JSON answer that `filter_path` selects, `{}` if it selects nothing."""
    paths = [path.strip() for path in filter_path.split(",") if path.strip()]
    kept = frozenset(tuple(path.split(".")) for path in paths if not path.startswith("-"))
    left_out = frozenset(tuple(path[1:].split(".")) for path in paths if path.startswith("-"))
    if kept:
        body = _select(body, kept)
        body = {} if body is None else body
    return _without(body, left_out) if left_out else body


def _below(paths: frozenset[_Path], name: str) -> frozenset[_Path]:
    """Return what is left of the paths below a field; an empty path has arrived."""
    rest: set[_Path] = set()
    for path in paths:
        while path and path[0] == "**":
            # It takes this field and may take the next, or it takes none.
            rest.add(path)
            path = path[1:]
            if not path:
                rest.add(())
        if path and Wildcard(tuple(path[0].split("*"))).matches(name):
            rest.add(path[1:])
    return frozenset(rest)


def _select(value: Any, paths: frozenset[_Path]) -> Any:
    """Return the selected parts of a value, None if there are none."""
    if isinstance(value, list):
        parts = [_select(item, paths) for item in cast("Sequence[Any]", value)]
        return [part for part in parts if part is not None] or None
    if not isinstance(value, dict):
        return None
    selected: dict[str, Any] = {}
    for name, inner in cast("dict[str, Any]", value).items():
        rest = _below(paths, name)
        part = inner if () in rest else _select(inner, rest) if rest else None
        if part is not None or () in rest:
            selected[name] = part
    return selected or None


def _without(value: Any, paths: frozenset[_Path]) -> Any:
    if isinstance(value, list):
        return [_without(item, paths) for item in cast("Sequence[Any]", value)]
    if not isinstance(value, dict):
        return value
    selected: dict[str, Any] = {}
    for name, inner in cast("dict[str, Any]", value).items():
        rest = _below(paths, name)
        if () not in rest:
            selected[name] = _without(inner, rest) if rest else inner
    return selected
