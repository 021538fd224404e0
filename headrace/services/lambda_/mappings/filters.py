"""Filter criteria: decides which records or messages a mapping passes to its function. No I/O.

Sources (documented): https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventfiltering.html for the pattern
language, .../with-kinesis-filtering.html for the members of a Kinesis record. A pattern on `data` that is an object
matches only records whose data is a JSON object; a pattern that is a list matches only data that is plain text, not
JSON. Data that is not UTF-8 matches no pattern on `data`. For a DynamoDB stream, a pattern may use any member
(.../with-ddb-filtering.html names only `dynamodb`, but AWS's own examples use `eventName`).
"""

from __future__ import annotations

import ipaddress
import json
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from headrace.core.ports import StreamRecord
from headrace.core.values import mapping_in
from headrace.core.wildcards import BadWildcard, is_too_complex, parse_wildcard
from headrace.services.lambda_.mappings.event import key_of

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# No pattern in use is this deep. Matching and checking recurse once for each level.
MOST_NESTED = 100
# EventBridge, which defines these patterns, limits how many wildcard positions one text can keep open.
MOST_OPEN_WILDCARDS = 10
_TEXT_OPERATORS = ("prefix", "suffix", "equals-ignore-case", "wildcard", "cidr")


class InvalidPattern(ValueError):
    """The text is not a valid filter pattern."""


@dataclass(frozen=True, slots=True)
class Filter:
    """One checked pattern."""

    pattern: dict[str, Any]

    @staticmethod
    def parse(text: str) -> Filter:
        """Read a pattern. Raises InvalidPattern."""
        try:
            pattern: Any = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidPattern(str(error)) from error
        checked = mapping_in(pattern)
        if not checked:
            raise InvalidPattern("a pattern is a JSON object with at least one member")
        _check(checked)
        return Filter(checked)

    def matches(self, record: StreamRecord) -> bool:
        """Whether a record passes the filter."""
        metadata = {
            "kinesisSchemaVersion": "1.0",
            **key_of(record),
            "sequenceNumber": record.sequence_number,
            "approximateArrivalTimestamp": record.approximate_arrival_ms / 1000,
        }
        return _matches_event(self.pattern, metadata, "data", record.data)

    def matches_change(self, record: StreamRecord) -> bool:
        """Whether a change of a table passes the filter. The record's data is the whole record of the event."""
        return _matches(self.pattern, mapping_in(json.loads(record.data)))

    def matches_message(self, message: dict[str, Any]) -> bool:
        """Whether a message of a queue passes the filter. `message` has the form of messages in events."""
        return _matches_event(self.pattern, message, "body", message["body"].encode())


def passes(record: StreamRecord, filters: Sequence[Filter], *, of_table: bool = False) -> bool:
    """Whether any filter matches a record of a Kinesis or a DynamoDB stream. Without filters, every record passes."""
    if of_table:
        return not filters or any(one.matches_change(record) for one in filters)
    return not filters or any(one.matches(record) for one in filters)


def _several(value: Any) -> list[Any]:
    """Return a list unchanged, and any other value as a list with one item."""
    return cast("list[Any]", value) if isinstance(value, list) else [value]


# --- matching ---------------------------------------------------------------------------------


def _matches_event(
    pattern: dict[str, Any], metadata: dict[str, Any], payload: str, data: bytes
) -> bool:
    """Match an event's metadata and its payload. In the pattern, the payload has the name `payload`."""
    for name, wanted in pattern.items():
        if name == payload:
            matched = _matches_payload(wanted, data)
        elif name == "$or":
            matched = any(
                _matches_event(mapping_in(one), metadata, payload, data) for one in wanted
            )
        else:
            matched = _matches_member(name, wanted, metadata)
        if not matched:
            return False
    return True


def _matches_payload(wanted: Any, data: bytes) -> bool:
    """Match text patterns with text and JSON patterns with JSON, as AWS does. Data of the other kind does not match."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    try:
        decoded: Any = json.loads(text)
    except (ValueError, RecursionError):
        decoded = None
    if not isinstance(wanted, dict):
        return not isinstance(decoded, dict | list) and _matches_member("", wanted, {"": text})
    return isinstance(decoded, dict) and _matches(mapping_in(wanted), mapping_in(decoded))


def _matches(pattern: dict[str, Any], value: dict[str, Any]) -> bool:
    return all(_matches_member(name, wanted, value) for name, wanted in pattern.items())


def _matches_member(name: str, wanted: Any, value: dict[str, Any]) -> bool:
    if name == "$or":
        return any(_matches(pattern, value) for pattern in wanted)
    present = name in value
    actual = value.get(name)
    if isinstance(wanted, dict):
        # A missing object counts as one without members, so that `exists: false` matches.
        pattern = mapping_in(wanted)
        return any(_matches(pattern, mapping_in(candidate)) for candidate in _several(actual))
    candidates = _several(actual)
    return any(_matches_leaf(matcher, present, candidates) for matcher in wanted)


def _matches_leaf(matcher: Any, present: bool, candidates: list[Any]) -> bool:
    if isinstance(matcher, dict):
        ((kind, operand),) = mapping_in(matcher).items()
        if kind == "exists":
            return present == operand
        return present and any(_holds(kind, operand, one) for one in candidates)
    return present and any(_equal(matcher, one) for one in candidates)


def _equal(wanted: Any, actual: Any) -> bool:
    # In Python True equals 1, but not in JSON.
    return isinstance(wanted, bool) == isinstance(actual, bool) and wanted == actual


def _holds(kind: str, operand: Any, actual: Any) -> bool:
    match kind:
        case "numeric":
            if isinstance(actual, bool) or not isinstance(actual, int | float):
                return False
            pairs = zip(operand[::2], operand[1::2], strict=True)
            return all(_COMPARE[sign](actual, bound) for sign, bound in pairs)
        case "anything-but":
            if isinstance(operand, dict):
                ((inner, texts),) = mapping_in(operand).items()
                return not any(_holds(inner, text, actual) for text in _several(texts))
            return not any(_equal(one, actual) for one in _several(operand))
        case _:
            return isinstance(actual, str) and _holds_text(kind, operand, actual)


def _holds_text(kind: str, operand: Any, actual: str) -> bool:
    if isinstance(operand, dict):
        operand, actual = mapping_in(operand)["equals-ignore-case"].lower(), actual.lower()
    match kind:
        case "prefix":
            return actual.startswith(operand)
        case "suffix":
            return actual.endswith(operand)
        case "equals-ignore-case":
            return actual.lower() == operand.lower()
        case "cidr":
            return _is_in_network(operand, actual)
        case _:
            return parse_wildcard(operand).matches(actual)


def _is_in_network(network: str, address: str) -> bool:
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


# --- checking ---------------------------------------------------------------------------------


def _check(pattern: dict[str, Any], depth: int = 0) -> None:
    if depth > MOST_NESTED:
        raise InvalidPattern(f"patterns nest {MOST_NESTED} deep at most")
    for name, wanted in pattern.items():
        if name == "$or":
            if not isinstance(wanted, list) or len(_several(wanted)) < 2:
                raise InvalidPattern("$or takes two patterns or more")
            for one in _several(wanted):
                if not isinstance(one, dict):
                    raise InvalidPattern("$or takes patterns")
                _check(mapping_in(one), depth + 1)
        elif isinstance(wanted, dict):
            _check(mapping_in(wanted), depth + 1)
        elif isinstance(wanted, list) and wanted:
            for matcher in _several(wanted):
                _check_matcher(matcher)
            _check_wildcards(_several(wanted))
        else:
            raise InvalidPattern(f"{name} must be an object or a non-empty list")


def _check_matcher(matcher: Any) -> None:
    if isinstance(matcher, list):
        raise InvalidPattern("a list may not hold a list")
    if not isinstance(matcher, dict):
        return
    members = mapping_in(matcher)
    if len(members) != 1:
        raise InvalidPattern("a matcher has one operator")
    ((kind, operand),) = members.items()
    if not _is_valid(kind, operand):
        raise InvalidPattern(f"{kind} does not take {json.dumps(operand)}")


def _check_wildcards(matchers: list[Any]) -> None:
    """Refuse a member's wildcard patterns if one is malformed, or if they are too complex together."""
    texts = [text for matcher in matchers for text in _wildcards_of(matcher)]
    try:
        wildcards = [parse_wildcard(text) for text in texts]
    except BadWildcard as error:
        raise InvalidPattern(str(error)) from error
    if wildcards and is_too_complex(wildcards, MOST_OPEN_WILDCARDS):
        raise InvalidPattern(
            "Rule is too complex - try using fewer wildcard characters or fewer repeating character sequences after a"
            " wildcard character"
        )


def _wildcards_of(matcher: Any) -> list[str]:
    members = mapping_in(matcher)
    inner = mapping_in(members.get("anything-but"))
    found = members.get("wildcard", inner.get("wildcard", []))
    return [text for text in _several(found) if isinstance(text, str)]


def _is_valid(kind: str, operand: Any) -> bool:
    match kind:
        case "exists":
            return isinstance(operand, bool)
        case "numeric":
            return isinstance(operand, list) and _is_range(_several(operand))
        case "anything-but":
            return _is_valid_exclusion(operand)
        case "prefix" | "suffix" if isinstance(operand, dict):
            members = mapping_in(operand)
            return len(members) == 1 and isinstance(members.get("equals-ignore-case"), str)
        case "cidr":
            return isinstance(operand, str) and _is_network(operand)
        case _:
            return kind in _TEXT_OPERATORS and isinstance(operand, str)


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _is_range(operand: list[Any]) -> bool:
    return len(operand) in (2, 4) and all(
        sign in _COMPARE and isinstance(bound, int | float) and not isinstance(bound, bool)
        for sign, bound in zip(operand[::2], operand[1::2], strict=True)
    )


def _is_valid_exclusion(operand: Any) -> bool:
    if isinstance(operand, dict):
        members = mapping_in(operand)
        texts = [text for value in members.values() for text in _several(value)]
        return (
            len(members) == 1
            and next(iter(members)) in _TEXT_OPERATORS
            and bool(texts)
            and all(isinstance(text, str) for text in texts)
        )
    values = _several(operand)
    return bool(values) and all(
        isinstance(value, str | int | float) and not isinstance(value, bool) for value in values
    )
