"""Reading loosely typed values: members of requests and templates that may be absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def listed(mapping: Mapping[str, Any], name: str) -> list[Any]:
    """Return the list under `name`, empty when there is none."""
    return list(mapping.get(name) or [])


def mapped(mapping: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the mapping under `name`, empty when there is none."""
    return dict(mapping.get(name) or {})
