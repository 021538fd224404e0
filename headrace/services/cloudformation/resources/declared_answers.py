"""Reads a service's answers about a resource of a declared type: its attributes, and whether it still exists."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.core.values import iso_of

# The errors of moto's failed look-ups.
_MISSED = ("KeyError", "StopIteration")
_GONE = re.compile(
    r"NotFound|NoSuch|NotExist|Nonexistent|NotAttached|UnknownResource", re.IGNORECASE
)
# Messages that say that something is missing, under codes that do not.
_SAID_GONE = re.compile(
    r"^Could not find|^No \w+ \w+ found|not found|does not exist", re.IGNORECASE
)
_SAID_BY = ("ValidationException", "InvalidDocument", "ClientException")


def empty_of(shape: Any, *, lists: bool) -> Any:
    """Return a member's empty value: a string's and, with `lists`, a list's or an object's; None if it has none."""
    bounds = shape.metadata
    if shape.type_name == "string":
        return None if shape.enum or bounds.get("min") or bounds.get("pattern") else ""
    if not lists or bounds.get("min"):
        return None
    if shape.type_name == "structure" and shape.required_members:
        return None
    return (
        [] if shape.type_name == "list" else {} if shape.type_name in ("map", "structure") else None
    )


def says_gone(error: AwsError) -> bool:
    """Whether an error means that something does not exist; for some things moto fails at the look-up instead."""
    is_missed = error.status == 501 and any(sign in error.message for sign in _MISSED)
    is_said = error.code in _SAID_BY and _SAID_GONE.search(error.message)
    return error.status == 404 or is_missed or bool(is_said or _GONE.search(error.code))


def has_value(value: Any, text: str) -> bool:
    """Whether a text occurs anywhere among the values of lists and objects."""
    if isinstance(value, Mapping):
        return any(has_value(item, text) for item in cast("Mapping[str, Any]", value).values())
    if isinstance(value, list):
        return any(has_value(item, text) for item in cast("list[Any]", value))
    return value == text


def render_attribute(value: Any) -> Any:
    """Return an attribute as a stack stores it: times become text, also inside objects."""
    if isinstance(value, datetime):
        return iso_of(round(value.timestamp() * 1000))
    if isinstance(value, Mapping):
        return {
            name: render_attribute(item) for name, item in cast("Mapping[str, Any]", value).items()
        }
    if isinstance(value, list):
        return [render_attribute(item) for item in cast("list[Any]", value)]
    return value


def attribute(answer: Mapping[str, Any], kind: str, name: str) -> Any:
    """Return an attribute by its name, also prefixed with the type's name, from an answer's top or one level below."""
    names = {name.replace(".", "").lower(), f"{kind}{name}".lower()}
    levels: list[Mapping[str, Any]] = [answer]
    for value in answer.values():
        if isinstance(value, Mapping):
            levels.append(cast("Mapping[str, Any]", value))
        elif isinstance(value, list) and len(cast("list[Any]", value)) == 1:
            levels += [item for item in cast("list[Any]", value) if isinstance(item, Mapping)]
    for level in levels:
        for key, value in level.items():
            if key.lower() in names and value is not None:
                return value
    if "." in name:
        first, _, rest = name.partition(".")
        inner = attribute(answer, kind, first)
        return attribute(cast("Any", inner), kind, rest) if isinstance(inner, Mapping) else None
    return None


def things_in(answer: dict[str, Any]) -> list[Any]:
    """Return the lists and structures in an answer, without the lists of missing things."""
    return [
        value
        for name, value in answer.items()
        if not isinstance(value, str) and name not in ("failures", "projectsNotFound")
    ]
