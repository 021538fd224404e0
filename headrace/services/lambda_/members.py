"""Reads optional nested members of AWS inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast


def section(members: Mapping[str, Any], *path: str) -> dict[str, Any]:
    """Return the structure at `path`, empty when it or what holds it is missing."""
    found: Any = members
    for name in path:
        found = found.get(name) or {}
    return cast("dict[str, Any]", found)
