"""Checks and compiles event patterns. The sentences are event-ruler's (documented); most are recorded from AWS, too."""

from __future__ import annotations

import functools
import ipaddress
import json
import re
from typing import Any, cast

from headrace.core.wildcards import BadWildcard, is_too_complex, parse_wildcard

MOST_NESTED = 100
# AWS refuses a rule when one text can keep more wildcard positions open in a field (observed by others, assumed exact).
MOST_OPEN_WILDCARDS = 10
# Documented for `$or`: the most combinations of a pattern's alternatives.
MOST_ALTERNATIVES = 1000
TOO_COMPLEX = (
    "Rule is too complex - try using fewer wildcard characters or fewer repeating character sequences after a wildcard"
    " character"
)
_RESERVED = (
    "exactly", "prefix", "suffix", "anything-but", "exists", "numeric", "cidr", "equals-ignore-case", "wildcard",
)  # fmt: skip
_NOT_A_VALUE = "Value of anything-but must be an array or single string/number value."

# An alternative: the matchers of each dotted path.
Alternative = dict[str, list[Any]]


class BadEventPattern(ValueError):
    """The text is not an event pattern; the message is EventBridge's reason."""


class _Members(tuple[tuple[str, Any], ...]):
    """A JSON object, in its order, with members that have one name kept apart."""

    __slots__ = ()


@functools.lru_cache(maxsize=1024)
def compile_pattern(text: str) -> tuple[Alternative, ...]:
    """Return a pattern's alternatives, which callers must not change. Raises BadEventPattern."""
    try:
        pattern: Any = json.loads(text, object_pairs_hook=_Members)
    except RecursionError as error:
        raise BadEventPattern(_too_deep()) from error
    except ValueError as error:
        raise BadEventPattern(_syntax(text, error)) from error
    if not isinstance(pattern, _Members):
        raise BadEventPattern("Filter is not an object")
    alternatives: list[Alternative] = []
    _compile(pattern, "", alternatives, depth=0, is_alternative=False)
    for alternative in alternatives:
        for matchers in alternative.values():
            _check_wildcards(matchers)
    return tuple(alternatives)


def _too_deep() -> str:
    return f"Filter is nested more than {MOST_NESTED} deep"


def _syntax(text: str, error: ValueError) -> str:
    """Return the reason of a text that is not JSON: two of the parser's sentences are recorded."""
    if isinstance(error, json.JSONDecodeError):
        rest = text[error.pos :]
        if "property name" in error.msg and rest:
            letter = rest[0]
            return (
                f"Unexpected character ('{letter}' (code {ord(letter)})): "
                "was expecting double-quote to start field name"
            )
        if word := re.match(r"[A-Za-z_$]\w*", rest):
            return (
                f"Unrecognized token '{word[0]}': was expecting "
                "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"
            )
    return "Invalid JSON"


def _compile(
    members: _Members, prefix: str, found: list[Alternative], *, depth: int, is_alternative: bool
) -> None:
    """Add an object's leaves to all alternatives; `$or` makes one of each of its objects. Raises BadEventPattern."""
    if depth > MOST_NESTED:
        raise BadEventPattern(_too_deep())
    if not members:
        raise BadEventPattern("Empty objects are not allowed")
    for name, value in members:
        if name == "$or":
            _compile_or(value, prefix, found, depth)
            continue
        if is_alternative and name in _RESERVED:
            raise BadEventPattern(
                f"{name} is Ruler reserved fieldName which cannot be used inside $or."
            )
        if isinstance(value, _Members):
            _compile(
                value, f"{prefix}{name}.", found, depth=depth + 1, is_alternative=is_alternative
            )
        elif isinstance(value, list):
            matchers = [_matcher(one) for one in cast("list[Any]", value)]
            if not matchers:
                raise BadEventPattern("Empty arrays are not allowed")
            if not found:
                found.append({})
            for alternative in found:
                alternative[f"{prefix}{name}"] = matchers
        else:
            raise BadEventPattern(f'"{name}" must be an object or an array')


def _compile_or(value: Any, prefix: str, found: list[Alternative], depth: int) -> None:
    if not isinstance(value, list):
        raise BadEventPattern("It must be an Array followed with $or.")
    before, found[:] = found[:], []
    for one in cast("list[Any]", value):
        if not isinstance(one, _Members):
            raise BadEventPattern("Only JSON object is allowed in array of $or relationship.")
        copies = [dict(alternative) for alternative in before] or [{}]
        _compile(one, prefix, copies, depth=depth + 1, is_alternative=True)
        found += copies
        if len(found) > MOST_ALTERNATIVES:
            raise BadEventPattern(f"$or makes more than {MOST_ALTERNATIVES} combinations")
    if len(cast("list[Any]", value)) < 2:
        raise BadEventPattern("There must have at least 2 Objects in $or relationship.")


# --- matchers -----------------------------------------------------------------------------------


def _matcher(value: Any) -> Any:
    """Return a checked matcher: a scalar, or (operator, operand). Raises BadEventPattern."""
    if isinstance(value, list):
        raise BadEventPattern("Match value must be String, number, true, false, or null")
    if not isinstance(value, _Members):
        return value
    if not value:
        raise BadEventPattern("Match expression name not found")
    kind, operand = value[0]
    match kind:
        case "exactly":
            _check_text(operand, "exact")
            kind, operand = "equals", operand
        case "prefix" | "suffix":
            if isinstance(operand, _Members):
                operand = _ignoring_case(kind, operand)
                kind = f"{kind}-ignore-case"
            else:
                _check_text(operand, kind)
        case "equals-ignore-case" | "wildcard":
            _check_text(operand, kind)
        case "cidr":
            _check_text(operand, "prefix")  # event-ruler's sentence names the wrong operator
            _check_network(operand)
        case "exists":
            if not isinstance(operand, bool):
                raise BadEventPattern("exists match pattern must be either true or false.")
        case "numeric":
            _check_range(operand)
        case "anything-but":
            operand = _exclusion(operand)
        case _:
            raise BadEventPattern(f"Unrecognized match type {kind}")
    if len(value) > 1:
        raise BadEventPattern("Only one key allowed in match expression")
    return kind, operand


def _check_text(operand: Any, kind: str) -> None:
    if not isinstance(operand, str):
        raise BadEventPattern(f"{kind} match pattern must be a string")


def _ignoring_case(kind: str, members: _Members) -> str:
    if len(members) != 1 or members[0][0] != "equals-ignore-case":
        name = members[0][0] if members else ""
        raise BadEventPattern(f"Unsupported {kind} match pattern: {name}")
    _check_text(members[0][1], "equals-ignore-case")
    return str(members[0][1])


def _check_network(text: str) -> None:
    address, slash, mask = text.partition("/")
    if not slash or "/" in mask:
        raise BadEventPattern("Malformed CIDR, one '/' required")
    try:
        bits = int(mask)
    except ValueError as error:
        raise BadEventPattern("Malformed CIDR, mask bits must be an integer") from error
    if bits < 0:
        raise BadEventPattern("Malformed CIDR, mask bits must not be negative")
    try:
        version = ipaddress.ip_address(address).version
    except ValueError as error:
        raise BadEventPattern(f"Nonstandard IP address: {address}") from error
    most = 32 if version == 4 else 128
    if bits > most:
        raise BadEventPattern(f"IPv{version} mask bits must be < {most}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_range(operand: Any) -> None:
    if not isinstance(operand, list):
        raise BadEventPattern("Value of numeric must be an array.")
    terms = cast("list[Any]", operand)
    first = terms[0] if terms else ""
    if not isinstance(first, str) or not terms:
        raise BadEventPattern(f"Invalid member in numeric match: {_shown(first)}")
    if first not in ("=", "<", "<=", ">", ">="):
        raise BadEventPattern(f"Unrecognized numeric range operator: {first}")
    if not _is_number(terms[1] if len(terms) > 1 else None):
        raise BadEventPattern(f"Value of {'equals' if first == '=' else first} must be numeric")
    if len(terms) == 2:
        return
    if first in ("=", "<", "<="):
        raise BadEventPattern("Too many elements in numeric expression")
    second = terms[2]
    if not isinstance(second, str):
        raise BadEventPattern(f"Bad value in numeric range: {_shown(second)}")
    if second not in ("<", "<="):
        raise BadEventPattern(f"Bad numeric range operator: {second}")
    if not _is_number(terms[3] if len(terms) > 3 else None):
        raise BadEventPattern(f"Value of {second} must be numeric")
    if len(terms) > 4:
        raise BadEventPattern("Too many terms in numeric range expression")
    if terms[1] >= terms[3]:
        raise BadEventPattern("Bottom must be less than top")


def _shown(value: Any) -> str:
    return json.dumps(value) if not isinstance(value, list | _Members) else "["


def _exclusion(operand: Any) -> tuple[str, list[Any]]:
    """Return (operator, operands) of what is excluded. Raises BadEventPattern."""
    if not isinstance(operand, _Members):
        if isinstance(operand, list):
            return "equals", _excluded_values(cast("list[Any]", operand))
        if not isinstance(operand, str) and not _is_number(operand):
            raise BadEventPattern(_NOT_A_VALUE)
        return "equals", [operand]
    if not operand:
        raise BadEventPattern("Anything-But expression name not found")
    kind, value = operand[0]
    values: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [value]
    if kind not in ("prefix", "suffix", "equals-ignore-case", "wildcard"):
        raise BadEventPattern(f"Unsupported anything-but pattern: {kind}")
    if len(operand) > 1:
        raise BadEventPattern("Only one key allowed in match expression")
    if isinstance(value, _Members):
        raise BadEventPattern(_NOT_A_VALUE)
    if not values or not all(isinstance(one, str) for one in values):
        raise BadEventPattern(
            "Inside anything-but/equals-ignore-case list, number|start|null|boolean is not supported."
            if kind == "equals-ignore-case"
            else f"{'wildcard' if kind == 'wildcard' else 'prefix/suffix'} match pattern must be a string"
        )
    if kind in ("prefix", "suffix") and not all(values):
        raise BadEventPattern("Null prefix/suffix not allowed")
    return kind, values


def _excluded_values(values: list[Any]) -> list[Any]:
    if not all(isinstance(one, str) or _is_number(one) for one in values):
        raise BadEventPattern("Inside anything but list, start|null|boolean is not supported.")
    if len({isinstance(one, str) for one in values}) != 1:
        raise BadEventPattern(
            "Inside anything but list, either all values are number or string, mixed type is not supported"
        )
    return values


def _check_wildcards(matchers: list[Any]) -> None:
    """Refuse a field's wildcards if one is malformed, or if they are too complex together."""
    texts: list[str] = []
    for matcher in matchers:
        if isinstance(matcher, tuple):
            kind, operand = cast("tuple[str, Any]", matcher)
            if kind == "anything-but" and operand[0] == "wildcard":
                texts += operand[1]
            elif kind == "wildcard":
                texts.append(operand)
    try:
        wildcards = [parse_wildcard(text) for text in texts]
    except BadWildcard as error:
        raise BadEventPattern(str(error)) from error
    if wildcards and is_too_complex(wildcards, MOST_OPEN_WILDCARDS):
        raise BadEventPattern(TOO_COMPLEX)
