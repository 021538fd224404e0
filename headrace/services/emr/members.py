"""Typed access to optional members of requests and stored documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast


def structures(value: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a member that is a list of structures; empty when it is absent."""
    return cast("list[dict[str, Any]]", value.get(name) or [])


def structure(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a member that is a structure or a map; empty when it is absent."""
    return cast("dict[str, Any]", value.get(name) or {})


def strings(value: Mapping[str, Any], name: str) -> list[str]:
    """Return a member that is a list of strings; empty when it is absent."""
    return cast("list[str]", value.get(name) or [])
