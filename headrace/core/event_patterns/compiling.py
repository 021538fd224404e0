"""Checks and compiles event patterns. The sentences are event-ruler's (documented); most are recorded from AWS, too."""

from __future__ import annotations

import functools
import ipaddress
from typing import Any, cast

from headrace.core.event_patterns.tokens import SCALARS, BadEventPattern, Tokens
from headrace.core.patterns import BadWildcard, is_too_complex, parse_wildcard

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
_ONLY_ONE = "Only one key allowed in match expression"
_TOO_MANY = "Too many elements in numeric expression"

# An alternative: the matchers of each dotted path.
Alternative = dict[str, list[Any]]


@functools.lru_cache(maxsize=1024)
def compile_pattern(text: str) -> tuple[Alternative, ...]:
    """Return a pattern's alternatives, which callers must not change. Raises BadEventPattern."""
    tokens = Tokens(text)
    if tokens.next() != "{":
        tokens.refuse("Filter is not an object")
    alternatives: list[Alternative] = []
    _compile(tokens, "", alternatives, depth=0, is_alternative=False)
    if tokens.next():
        tokens.refuse("Filter is more than an object")  # assumed: AWS's parser does not look here
    for alternative in alternatives:
        for matchers in alternative.values():
            _check_complexity(matchers)
    return tuple(alternatives)


def _compile(
    tokens: Tokens, prefix: str, compiled: list[Alternative], *, depth: int, is_alternative: bool
) -> None:
    """Add an object's leaves to all alternatives; `$or` makes one of each of its objects."""
    if depth > MOST_NESTED:
        raise BadEventPattern(f"Filter is nested more than {MOST_NESTED} deep")
    is_empty = True
    while tokens.next() != "}":
        is_empty = False
        name = tokens.name
        if name == "$or":
            _compile_or(tokens, prefix, compiled, depth)
            continue
        if is_alternative and name in _RESERVED:
            tokens.refuse(f"{name} is Ruler reserved fieldName which cannot be used inside $or.")
        match tokens.next():
            case "{":
                _compile(
                    tokens,
                    f"{prefix}{name}.",
                    compiled,
                    depth=depth + 1,
                    is_alternative=is_alternative,
                )
            case "[":
                matchers = _matchers(tokens)
                if not compiled:
                    compiled.append({})
                for alternative in compiled:
                    alternative[f"{prefix}{name}"] = matchers
            case _:
                tokens.refuse(f'"{name}" must be an object or an array')
    if is_empty:
        tokens.refuse("Empty objects are not allowed")


def _compile_or(tokens: Tokens, prefix: str, compiled: list[Alternative], depth: int) -> None:
    before, compiled[:] = compiled[:], []
    if tokens.next() != "[":
        tokens.refuse("It must be an Array followed with $or.")
    count = 0
    while tokens.next() != "]":
        count += 1
        if tokens.kind != "{":
            tokens.refuse("Only JSON object is allowed in array of $or relationship.")
        copies = [dict(alternative) for alternative in before] or [{}]
        _compile(tokens, prefix, copies, depth=depth + 1, is_alternative=True)
        compiled += copies
        if len(compiled) > MOST_ALTERNATIVES:
            raise BadEventPattern(f"$or makes more than {MOST_ALTERNATIVES} combinations")
    if count < 2:
        tokens.refuse("There must have at least 2 Objects in $or relationship.")


# --- matchers -----------------------------------------------------------------------------------


def _matchers(tokens: Tokens) -> list[Any]:
    """Return the checked matchers of an array: scalars, or (operator, operand)."""
    matchers: list[Any] = []
    while tokens.next() != "]":
        if tokens.kind == "{":
            matchers.append(_matcher(tokens))
        elif tokens.kind in SCALARS:
            matchers.append(tokens.value())
        else:
            tokens.refuse("Match value must be String, number, true, false, or null")
    if not matchers:
        tokens.refuse("Empty arrays are not allowed")
    return matchers


def _matcher(tokens: Tokens) -> tuple[str, Any]:
    """Return (operator, operand) of an object."""
    if tokens.next() != "name":
        tokens.refuse("Match expression name not found")
    kind = tokens.name
    tokens.next()
    operand: Any
    match kind:
        case "exactly":
            kind, operand = "equals", _read_text(tokens, "exact")
        case "prefix" | "suffix":
            if tokens.kind == "{":
                operand = _read_ignoring_case(tokens, kind)
                kind = f"{kind}-ignore-case"
            else:
                operand = _read_text(tokens, kind)
        case "equals-ignore-case" | "wildcard":
            operand = _read_text(tokens, kind)
            if kind == "wildcard":
                _check_wildcard(tokens, operand)
        case "cidr":
            operand = _read_text(
                tokens, "prefix"
            )  # event-ruler's sentence names the wrong operator
            _check_network(operand)
        case "exists":
            operand = tokens.value() if tokens.kind == "word" else None
            if operand is None:
                tokens.refuse("exists match pattern must be either true or false.")
        case "numeric":
            if tokens.kind != "[":
                tokens.refuse("Value of numeric must be an array.")
            operand = _read_range(tokens)
            _close(tokens, _TOO_MANY)
            return kind, operand
        case "anything-but":
            return kind, _read_exclusion(tokens)
        case _:
            tokens.refuse(f"Unrecognized match type {kind}")
    _close(tokens, _ONLY_ONE)
    return kind, operand


def _close(tokens: Tokens, reason: str) -> None:
    if tokens.next() != "}":
        tokens.refuse(reason)


def _read_text(tokens: Tokens, kind: str) -> str:
    if tokens.kind != "string":
        tokens.refuse(f"{kind} match pattern must be a string")
    return tokens.text()


def _read_ignoring_case(tokens: Tokens, kind: str) -> str:
    if tokens.next() != "name":
        tokens.refuse(f"{kind.capitalize()} expression name not found")
    if tokens.name != "equals-ignore-case":
        tokens.refuse(f"Unsupported {kind} pattern: {tokens.name}")
    tokens.next()
    text = _read_text(tokens, "equals-ignore-case")
    _close(tokens, _ONLY_ONE)
    return text


def _check_wildcard(tokens: Tokens, text: str) -> None:
    try:
        parse_wildcard(text)
    except BadWildcard as error:
        tokens.refuse(str(error))


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


def _read_range(tokens: Tokens) -> list[Any]:
    if tokens.next() != "string":
        tokens.refuse(f"Invalid member in numeric match: {tokens.text()}")
    first = tokens.text()
    tokens.next()
    if first not in ("=", "<", "<=", ">", ">="):
        tokens.refuse(f"Unrecognized numeric range operator: {first}")
    terms = [first, _read_bound(tokens, "equals" if first == "=" else first)]
    if tokens.next() == "]":
        return terms
    if first in ("=", "<", "<="):
        tokens.refuse(_TOO_MANY)
    if tokens.kind != "string":
        tokens.refuse(f"Bad value in numeric range: {tokens.text()}")
    second = tokens.text()
    if second not in ("<", "<="):
        tokens.refuse(f"Bad numeric range operator: {second}")
    tokens.next()
    terms += [second, _read_bound(tokens, second)]
    if tokens.next() != "]":
        tokens.refuse("Too many terms in numeric range expression")
    if terms[1] >= terms[3]:
        tokens.refuse("Bottom must be less than top")
    return terms


def _read_bound(tokens: Tokens, operator: str) -> Any:
    if tokens.kind != "number":
        tokens.refuse(f"Value of {operator} must be numeric")
    return tokens.value()


def _read_exclusion(tokens: Tokens) -> tuple[str, list[Any]]:
    """Return (operator, operands) of what is excluded."""
    kind = "equals"
    if tokens.kind == "{":
        if tokens.next() != "name":
            tokens.refuse("Anything-But expression name not found")
        kind = tokens.name
        if kind not in ("prefix", "suffix", "equals-ignore-case", "wildcard"):
            tokens.refuse(f"Unsupported anything-but pattern: {kind}")
        tokens.next()
    if tokens.kind == "[":
        operands = _read_excluded_list(tokens, kind)
    elif tokens.kind in ("string", "number"):
        operands = [_read_excluded(tokens, kind)]
    else:
        tokens.refuse("Value of anything-but must be an array or single string/number value.")
    if kind == "wildcard":
        for text in operands:
            _check_wildcard(tokens, text)
    if kind != "equals":
        _close(tokens, _TOO_MANY)
    _close(tokens, _TOO_MANY)
    return kind, operands


def _read_excluded_list(tokens: Tokens, kind: str) -> list[Any]:
    operands: list[Any] = []
    try:
        while tokens.next() != "]":
            operands.append(_read_excluded(tokens, kind))
    except BadEventPattern as error:
        tokens.refuse(str(error))  # event-ruler says the place twice (recorded)
    if kind == "equals" and len({isinstance(one, str) for one in operands}) != 1:
        tokens.refuse(
            "Inside anything but list, either all values are number or string, mixed type is not supported"
        )
    return operands


def _read_excluded(tokens: Tokens, kind: str) -> Any:
    match kind:
        case "equals":
            if tokens.kind not in ("string", "number"):
                tokens.refuse("Inside anything but list, start|null|boolean is not supported.")
            return tokens.value()
        case "equals-ignore-case":
            if tokens.kind != "string":
                tokens.refuse(
                    "Inside anything-but/equals-ignore-case list, number|start|null|boolean is not supported."
                )
            return tokens.text()
        case "wildcard":
            return _read_text(tokens, kind)
        case _:
            text = _read_text(tokens, "prefix/suffix")
            if not text:
                tokens.refuse("Null prefix/suffix not allowed")
            return text


def _check_complexity(matchers: list[Any]) -> None:
    """Refuse a field's wildcards if they are too complex together."""
    texts: list[str] = []
    for matcher in matchers:
        if isinstance(matcher, tuple):
            kind, operand = cast("tuple[str, Any]", matcher)
            if kind == "anything-but" and operand[0] == "wildcard":
                texts += operand[1]
            elif kind == "wildcard":
                texts.append(operand)
    if texts and is_too_complex([parse_wildcard(text) for text in texts], MOST_OPEN_WILDCARDS):
        raise BadEventPattern(TOO_COMPLEX)
