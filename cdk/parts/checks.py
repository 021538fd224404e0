"""Checks of arguments that several constructs share."""

from __future__ import annotations

import re

from aws_cdk import Token


def check_name(what: str, name: str, pattern: str) -> None:
    """Raise ValueError unless the whole of `name` matches; a name known only at deployment passes."""
    if not Token.is_unresolved(name) and re.fullmatch(pattern, name) is None:
        raise ValueError(f"{what} must match {pattern}, and {name!r} does not.")


def check_between(what: str, value: int, low: int, high: int, unit: str = "") -> None:
    """Raise ValueError unless `value` lies in [low, high]."""
    if not low <= value <= high:
        unit = f" {unit}" if unit else ""
        raise ValueError(f"{what} must be {low} to {high}{unit}, not {value}.")
