"""How Spark orders values and tells them apart, where Python does otherwise: NaN, the two zeros, and NULL in arrays."""

# A value of SQL is of any type until it is computed.
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any


def _order(value: Any) -> Any:
    """Return what sorts as the value does: NaN is above every number, and in an array NULL below every value."""
    if isinstance(value, list):
        return [(False,) if item is None else (True, _order(item)) for item in value]
    return (True, 0) if value != value else (False, value)


def _order_of(values: Sequence[Any]) -> Callable[[Any], Any] | None:
    """Return the key by which to sort values that are not None; None if Python's own order is Spark's."""
    if values and isinstance(values[0], list):
        return _order
    if not any(isinstance(value, float) for value in values):
        return None
    # Infinities may make a NaN too, which costs time and changes nothing.
    return _order if math.isnan(sum(map(float, values))) else None


def least(values: Sequence[Any]) -> Any:
    """Return the least of values that are not None; None of no values."""
    return min(values, key=_order_of(values), default=None)


def greatest(values: Sequence[Any]) -> Any:
    """Return the greatest of values that are not None; None of no values."""
    return max(values, key=_order_of(values), default=None)


def in_order(values: Sequence[Any], *, falling: bool = False) -> list[Any]:
    """Return values that are not None, sorted."""
    return sorted(values, key=_order_of(values), reverse=falling)


def identity(value: Any) -> Any:
    """Return what tells a value from others, as a key: NaN is one value, and 0.0 another one than -0.0."""
    if isinstance(value, list):
        return tuple(map(identity, value))
    if isinstance(value, dict):
        return tuple((name, identity(item)) for name, item in value.items())
    if isinstance(value, float) and not value:
        return math.copysign(1, value), "zero"
    return "NaN" if value != value else value


def unique(values: Sequence[Any]) -> list[Any]:
    """Return the values, each once, in their order."""
    kept: dict[Any, Any] = {}
    for value in values:
        kept.setdefault(identity(value), value)
    return list(kept.values())


def as_group(value: Any) -> Any:
    """Return a value as groups have it: with one zero."""
    if isinstance(value, float):
        return value + 0.0
    return [as_group(item) for item in value] if isinstance(value, list) else value


def unique_groups(values: Sequence[Any]) -> list[Any]:
    """Return the values, each once, in their order; the two zeros are one."""
    return unique([as_group(value) for value in values])
