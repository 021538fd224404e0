"""Errors of SQL texts, each with its place."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Place:
    """Where something stands in a text: its line and column, both from 1."""

    line: int = 1
    column: int = 1


class SqlError(Exception):
    """A text that cannot be run: `message` says why, `place` where."""

    def __init__(self, message: str, place: Place) -> None:
        super().__init__(message)
        self.message = message
        self.place = place

    def __str__(self) -> str:
        return f"line {self.place.line}, column {self.place.column}: {self.message}"


def near(name: str, names: Sequence[str]) -> str:
    """Return "; did you mean ..?" for the nearest of `names`, or what there is."""
    lower = {other.lower(): other for other in names}
    close = difflib.get_close_matches(name.lower(), list(lower), 1, 0.6)
    if close:
        return f"; did you mean {lower[close[0]]!r}?"
    return f"; there is {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}" if names else ""
