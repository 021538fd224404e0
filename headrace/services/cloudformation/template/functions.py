"""Intrinsic functions whose arguments have been evaluated: Fn::Join, Fn::Select, Fn::Cidr and others.

A function takes the size of its result from the allowance before it builds the result. With an UNKNOWN argument, the
result is UNKNOWN.

What a template's values become: UNKNOWN before deployment, AWS::NoValue, or text; and how large they may grow.
"""

from __future__ import annotations

import base64
import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from headrace.services.cloudformation import errors
from headrace.services.cloudformation.errors import TemplateError
from headrace.services.cloudformation.template.function_checks import (
    CIDR,
    JOIN,
    NO_STRING,
    SELECT,
    SPLIT,
    check_map,
    string_typed,
    template_error,
)
from headrace.services.cloudformation.template.template import SUB_NAME, sub_names

UNKNOWN = "{{changeSet:KNOWN_AFTER_APPLY}}"


class NoValue:
    """The value of `AWS::NoValue`, which removes the property that has it."""


NO_VALUE = NoValue()


def is_unknown(value: Any) -> bool:
    """Whether a value, or a part of it, is only known later."""
    if isinstance(value, str):
        return UNKNOWN in value
    if isinstance(value, list):
        return any(map(is_unknown, cast("list[Any]", value)))
    if isinstance(value, dict):
        return any(map(is_unknown, cast("dict[str, Any]", value).values()))
    return False


def scalar(item: Any) -> str:
    """Return a value as text, as it appears inside another text. Raises TemplateError."""
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, (dict, list)):
        raise TemplateError("Template error: every Fn::Join value must be a string")
    # Assumed: inside a text, AWS::NoValue becomes an empty text.
    return "" if item is NO_VALUE else str(item)


def substitute(text: str, values: Mapping[str, Any]) -> str:
    """Replace `${name}` in a Sub's text, and turn `${!x}` into `${x}`."""
    filled = SUB_NAME.sub(lambda match: str(values[match.group(1).strip()]), text)
    return filled.replace("${!", "${")


def size_of(value: Any) -> int:
    """Return the approximate size of a value as text, in bytes."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return sum(3 + size_of(item) for item in cast("list[Any]", value))
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return sum(6 + len(key) + size_of(item) for key, item in pairs)
    return 8


@dataclass(slots=True)
class Allowance:
    """The bytes that functions may still produce. Used by one thread at a time."""

    left_bytes: int = errors.PRODUCED_BYTES

    def take(self, size_bytes: int) -> None:
        """Subtract the size of a function's result. Raises TemplateError when too little is left."""
        self.left_bytes -= size_bytes
        if self.left_bytes < 0:
            raise TemplateError(
                f"Template error: functions produce more than {errors.PRODUCED_BYTES:,} bytes, which headrace does"
                " not evaluate"
            )

    def take_value(self, value: Any) -> None:
        """Subtract the size of an existing result. Raises TemplateError when too little is left."""
        self.take(size_of(value))


@dataclass(slots=True)
class OperationSize:
    """The total size of the properties of an operation's resources. Used by one thread at a time."""

    bytes: int = 0

    def add(self, properties: Mapping[str, Any]) -> None:
        """Add a resource's properties. Raises TemplateError when the total is too large."""
        self.bytes += size_of(properties)
        if self.bytes > errors.OPERATION_BYTES:
            raise TemplateError(
                f"Template error: the properties of all resources have more than {errors.OPERATION_BYTES:,} bytes,"
                " which headrace does not store"
            )


def output_text(value: Any) -> str:
    """Return an output's value, now that it is known, as text. Raises TemplateError."""
    if isinstance(value, (list, dict)):  # such as an attribute that is a list
        raise TemplateError(f"{NO_STRING}.")
    return scalar(value)


class TemplateContext(Protocol):
    """What functions see of the template that they stand in."""

    @property
    def names(self) -> Mapping[str, Any]:
        """Parameters and pseudo parameters by name."""
        ...

    @property
    def mappings(self) -> Mapping[str, Any]:
        """The template's mappings."""
        ...

    @property
    def allowance(self) -> Allowance:
        """How many bytes functions may still produce."""
        ...


def join(arguments: list[Any], context: TemplateContext) -> Any:
    """Fn::Join."""
    delimiter, items = arguments
    if is_unknown(items):
        return UNKNOWN
    if not isinstance(items, list) or not isinstance(delimiter, str):
        raise template_error(JOIN)
    texts = [scalar(item) for item in cast("list[Any]", items)]
    context.allowance.take(sum(map(len, texts)) + len(delimiter) * max(0, len(texts) - 1))
    return delimiter.join(texts)


def sub(text: str, values: Mapping[str, Any], context: TemplateContext) -> Any:
    """Fn::Sub, with the values of the names in its text."""
    if is_unknown(values):
        return UNKNOWN
    texts = {name: scalar(value) for name, value in values.items()}
    context.allowance.take(len(text) + sum(len(texts[name]) for name in sub_names(text)))
    return substitute(text, texts)


def select(arguments: list[Any], context: TemplateContext) -> Any:
    """Fn::Select."""
    index, items = arguments
    if is_unknown(items):
        return UNKNOWN
    index_text = str(index).strip()
    if not isinstance(items, list) or not (index_text.isascii() and index_text.isdigit()):
        raise _not_selectable()
    choices = cast("list[Any]", items)
    if len(index_text) > len(str(len(choices))) or int(index_text) >= len(choices):
        raise _not_selectable()
    return choices[int(index_text)]


def _not_selectable() -> TemplateError:
    # Recorded for all three: the index is not a number, there is no list, or the index is out of range.
    return template_error(SELECT)


def split(arguments: list[Any], context: TemplateContext) -> Any:
    """Fn::Split."""
    delimiter, text = arguments
    if is_unknown(text):
        return [UNKNOWN]
    if not isinstance(text, str) or not isinstance(delimiter, str) or not delimiter:
        raise template_error(SPLIT)
    context.allowance.take(len(text) + 3 * text.count(delimiter))
    return text.split(delimiter)


def equals(arguments: list[Any], context: TemplateContext) -> bool:
    """Fn::Equals."""
    left, right = arguments
    return _loosely(left) == _loosely(right)


def _loosely(value: Any) -> Any:
    # CloudFormation compares strings: 1 equals "1", true equals "true".
    return cast("Any", value) if isinstance(value, (dict, list)) else scalar(value)


def negate(arguments: list[Any], context: TemplateContext) -> bool:
    """Fn::Not."""
    return not arguments[0]


def contains(arguments: list[Any], context: TemplateContext) -> bool:
    """Fn::Contains."""
    items, operands = arguments
    return operands in items


def find_in_map(keys: list[Any], context: TemplateContext) -> Any:
    """Fn::FindInMap; AWS::LanguageExtensions adds `DefaultValue` as a fourth argument."""
    value: Any = context.mappings
    for key in keys[:3]:
        if is_unknown(key):
            return UNKNOWN
        if len(keys) > 3 and (not isinstance(value, Mapping) or key not in value):
            return keys[3]["DefaultValue"]
        if value is context.mappings and isinstance(key, str):
            check_map(key, context.mappings)
        if not isinstance(value, Mapping) or not isinstance(key, str) or key not in value:
            raise TemplateError(
                f"Template error: Unable to get mapping for {'::'.join(map(str, keys[:3]))}"
            )
        value = cast("Mapping[str, Any]", value)[key]
    context.allowance.take_value(value)
    return value


def encode_base64(text: Any, context: TemplateContext) -> Any:
    """Fn::Base64."""
    if is_unknown(text):
        return UNKNOWN
    if isinstance(text, (dict, list)):
        raise string_typed("Fn::Base64")
    data = scalar(text).encode("utf-8", "surrogatepass")
    context.allowance.take(len(data) * 4 // 3)
    return base64.b64encode(data).decode()


def get_azs(region: Any, context: TemplateContext) -> list[str]:
    """Fn::GetAZs."""
    if isinstance(region, (dict, list)):
        raise string_typed("Fn::GetAZs")
    region = region or context.names["AWS::Region"]
    # The zones of another region are not known to the account's region: AWS returns none (measured by others, 2026).
    own = context.names["AWS::Region"]
    return [f"{region}{letter}" for letter in "abc"] if region == own else []


def cidr(arguments: list[Any], context: TemplateContext) -> Any:
    """Fn::Cidr."""
    if is_unknown(arguments):
        return [UNKNOWN]
    try:
        block, count, *bits = map(str, arguments)
        network = ipaddress.ip_network(block, strict=False)
        prefix = network.max_prefixlen - int(bits[0] if bits else 8)
        block_count = int(count)
        if not 1 <= block_count <= errors.CIDRS:
            raise ValueError(f"count is not between 1 and {errors.CIDRS}")
        if network.prefixlen > prefix or block_count > 1 << (prefix - network.prefixlen):
            raise ValueError(f"{block} does not hold {block_count} blocks of that size")
    except ValueError as error:
        raise template_error(f"{CIDR} ({error})") from error
    subnets = network.subnets(new_prefix=prefix)
    return [str(next(subnets)) for _ in range(block_count)]


def to_json_string(value: Any, context: TemplateContext) -> Any:
    """Fn::ToJsonString."""
    if is_unknown(value):
        return UNKNOWN
    context.allowance.take_value(value)
    text = json.dumps(value, separators=(",", ":"))
    context.allowance.take(len(text))
    return text


def length(value: Any, context: TemplateContext) -> int:
    """Fn::Length."""
    return len(value)
