"""Functions that the tables of readings use."""

from __future__ import annotations

from typing import Any

from headrace.services.cloudformation.resources.reading import Source, taken


def same(names: str = "", **others: Source) -> dict[str, Source]:
    """Return properties that have the same name in the answer (separated by spaces), and others."""
    return {**{name: name for name in names.split()}, **others}


def last_of(path: str) -> Source:
    """Return the source of a name at the end of an ARN."""
    return lambda thing: str(taken(thing, path)).rsplit(":", 1)[-1]


def each_of(path: str, member: str) -> Source:
    """Return the source of a list: one member of each object in another list."""

    def members(thing: Any) -> list[Any] | None:
        found: list[dict[str, Any]] = taken(thing, path) or []
        return [each[member] for each in found] or None

    return members
