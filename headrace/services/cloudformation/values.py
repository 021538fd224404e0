"""Values in templates: one that is known only after deployment, one that removes its property; sizes of values."""

from __future__ import annotations

from typing import Any, cast

from headrace.services.cloudformation import limits
from headrace.services.cloudformation.errors import TemplateError

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


def size_of(value: Any) -> int:
    """Return about how many bytes a value takes where it is written out."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return sum(3 + size_of(item) for item in cast("list[Any]", value))
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return sum(6 + len(key) + size_of(item) for key, item in pairs)
    return 8


def check_operation_size(size_bytes: int) -> None:
    """Raise TemplateError when the properties of an operation's resources are too large together."""
    if size_bytes > limits.OPERATION_BYTES:
        raise TemplateError(
            f"Template error: the properties of all resources have more than {limits.OPERATION_BYTES:,} bytes, which"
            " headrace does not store"
        )
