"""EventBridge's patterns: one engine for rules, archives, pipes and the filters of Lambda's mappings.

The algorithm is that of AWS's library event-ruler (documented: https://github.com/aws/event-ruler, README and
`JsonRuleCompiler`): a pattern becomes alternatives, each a matcher list for each dotted path; an event becomes its
leaves, and leaves of one array must come from one of its elements. `headrace/core/event_patterns/compiling.py` checks
and compiles; this file matches, in time about linear in the event.

event-ruler matches an alternative when each of its paths has a leaf that one of its matchers accepts, and when no two
of these leaves come from different elements of one array. A walk down the event decides this: the paths that go on
through an array share one element of it; those that go on through different members of an object are independent.
"""

from __future__ import annotations

import ipaddress
import itertools
import json
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from headrace.core.event_patterns.compiling import Alternative, compile_pattern
from headrace.core.event_patterns.tokens import BadEventPattern
from headrace.core.patterns import parse_wildcard

__all__ = ["BadEventPattern", "compile_pattern", "matches_event", "matches_payload"]


# How many ways to spell paths by names with dots are tried in one object; an event with more does not match.
_MOST_SPELLINGS = 4096
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ABSENT = ("exists", False)
# What remains of each path -> its matchers.
_Paths = dict[str, list[Any]]


def matches_event(alternatives: Sequence[Alternative], event: Any) -> bool:
    """Whether an event matches a pattern; see `compile_pattern`."""
    return any(_matches_alternative(alternative, event) for alternative in alternatives)


def matches_payload(
    alternatives: Sequence[Alternative], metadata: Mapping[str, Any], name: str, data: bytes
) -> bool:
    """Whether an event matches a pattern whose payload, at the member `name`, is decoded.

    Documented for mappings and pipes: patterns that look into the payload match only JSON objects, patterns on the
    payload itself only text that is neither an object nor a list. Payloads that are not UTF-8 match neither.
    """
    payload: Any = None
    try:
        payload = data.decode()
        decoded = json.loads(payload)
    except UnicodeDecodeError:
        is_object = is_text = False
    except (ValueError, RecursionError):
        is_object, is_text = False, True
    else:
        is_object, is_text = isinstance(decoded, dict), not isinstance(decoded, (dict, list))
        payload = decoded if is_object else payload
    event = {**metadata, name: payload}
    return any(
        all(
            is_text if path == name else is_object or not path.startswith(f"{name}.")
            for path in alternative
        )
        and _matches_alternative(alternative, event)
        for alternative in alternatives
    )


def _matches_alternative(alternative: Alternative, event: Any) -> bool:
    paths: _Paths = {}
    for path, matchers in alternative.items():
        # A path is absent when the event has no leaf there, whatever its arrays hold.
        if _ABSENT not in matchers or _has_leaf(event, path):
            paths[path] = matchers
    try:
        return not paths or _matches(paths, event)
    except RecursionError:
        return False  # no pattern looks at deeper levels


def _heads(path: str, members: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """Return (member, rest of the path) for each member of an object that a path may go through; None at its end."""
    heads: list[tuple[str, str | None]] = [(path, None)] if path in members else []
    end = path.find(".")
    while end >= 0:
        if path[:end] in members:
            heads.append((path[:end], path[end + 1 :]))
        end = path.find(".", end + 1)
    return heads


def _has_leaf(value: Any, path: str | None) -> bool:
    if isinstance(value, list):
        return any(_has_leaf(one, path) for one in cast("list[Any]", value))
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return path is not None and any(
            _has_leaf(members[name], rest) for name, rest in _heads(path, members)
        )
    return path is None


def _matches(paths: _Paths, value: Any, leaf: list[Any] | None = None) -> bool:
    """Whether a value has leaves for all paths; `leaf` has the matchers of a path that ends at the value."""
    if isinstance(value, dict):
        return leaf is None and _matches_members(paths, cast("dict[str, Any]", value))
    if isinstance(value, list):
        return _matches_items(paths, cast("list[Any]", value), leaf)
    return not paths and (leaf is None or _accepts(leaf, value))


def _matches_items(paths: _Paths, items: list[Any], leaf: list[Any] | None) -> bool:
    inner: list[Any] = [one for one in items if isinstance(one, (dict, list))]
    if leaf is not None and any(
        _accepts(leaf, one) for one in items if not isinstance(one, (dict, list))
    ):
        leaf = None  # an item that is no object or list belongs to no element
    if not paths and leaf is None:
        return True
    return any(_matches(paths, one, leaf) for one in inner)


def _matches_members(paths: _Paths, members: Mapping[str, Any]) -> bool:
    choices: list[list[tuple[str, str | None]]] = []
    for path in paths:
        heads = _heads(path, members)
        if not heads:
            return False
        choices.append(heads)
    spellings = itertools.islice(itertools.product(*choices), _MOST_SPELLINGS)
    return any(_matches_spelling(paths, members, spelling) for spelling in spellings)


def _matches_spelling(
    paths: _Paths, members: Mapping[str, Any], spelling: Sequence[tuple[str, str | None]]
) -> bool:
    below: dict[str, tuple[_Paths, list[Any] | None]] = {}
    for (name, rest), matchers in zip(spelling, paths.values(), strict=True):
        inner, leaf = below.get(name, ({}, None))
        if rest is None:
            leaf = matchers
        else:
            inner[rest] = matchers
        below[name] = inner, leaf
    return all(_matches(inner, members[name], leaf) for name, (inner, leaf) in below.items())


# --- leaves -------------------------------------------------------------------------------------


def _accepts(matchers: list[Any], value: Any) -> bool:
    return any(
        _holds(*cast("tuple[str, Any]", matcher), value)
        if isinstance(matcher, tuple)
        else _equals(matcher, value)
        for matcher in matchers
    )


def _equals(expected: Any, value: Any) -> bool:
    # In Python True equals 1, but not in JSON.
    return isinstance(expected, bool) == isinstance(value, bool) and expected == value


def _holds(kind: str, operand: Any, value: Any) -> bool:
    match kind:
        case "exists":
            return bool(operand)
        case "anything-but":
            inner, excluded = operand
            return not any(_holds(inner, one, value) for one in excluded)
        case "equals":
            return _equals(operand, value)
        case "numeric":
            if isinstance(value, bool) or not isinstance(value, int | float):
                return False
            pairs = zip(operand[::2], operand[1::2], strict=True)
            return all(_COMPARE[sign](value, bound) for sign, bound in pairs)
        case _:
            return isinstance(value, str) and _holds_text(kind, operand, value)


def _holds_text(kind: str, operand: str, text: str) -> bool:
    if kind.endswith("-ignore-case"):
        kind, operand, text = kind.removesuffix("-ignore-case"), operand.lower(), text.lower()
    match kind:
        case "prefix":
            return text.startswith(operand)
        case "suffix":
            return text.endswith(operand)
        case "equals":
            return text == operand
        case "cidr":
            return _is_in_network(operand, text)
        case _:
            return parse_wildcard(operand).matches(text)


def _is_in_network(network: str, address: str) -> bool:
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
