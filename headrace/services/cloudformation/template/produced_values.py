"""What a template's values become: UNKNOWN before deployment, AWS::NoValue, or text; and how large they may grow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from headrace.services.cloudformation import errors
from headrace.services.cloudformation.errors import TemplateError
from headrace.services.cloudformation.template.template import SUB_NAME

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
