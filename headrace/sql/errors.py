"""Errors of SQL texts, each with its place."""

from __future__ import annotations

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
