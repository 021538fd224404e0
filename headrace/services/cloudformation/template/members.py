"""Makes an object of a template from its members, which have different names."""

from __future__ import annotations

from typing import Any

from headrace.services.cloudformation import errors


def unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object. Raises ValueError when two members have one name."""
    value: dict[str, Any] = {}
    for key, item in pairs:
        if key in value:
            raise ValueError(f"duplicate key {key[: errors.NAME_CHARACTERS]!r}")
        value[key] = item
    return value
