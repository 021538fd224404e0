"""Functions with which the tables of readings are written."""

from __future__ import annotations

from typing import Any

from headrace.services.cloudformation.resources.reading import Source, taken


def same(names: str = "", **others: Source) -> dict[str, Source]:
    """Return properties that stand under their own names, written with spaces between, and others."""
    return {**{name: name for name in names.split()}, **others}


def last_of(path: str) -> Source:
    """Return the source of a name that ends an ARN."""
    return lambda thing: str(taken(thing, path)).rsplit(":", 1)[-1]


def each_of(path: str, member: str) -> Source:
    """Return the source of a list of one member of each object in a list."""

    def members(thing: Any) -> list[Any] | None:
        found: list[dict[str, Any]] = taken(thing, path) or []
        return [each[member] for each in found] or None

    return members
