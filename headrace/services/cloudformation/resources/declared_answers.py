"""Reads what a service answers about a resource of a declared type: its attributes, and whether it is gone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from headrace.aws.errors import AwsError
from headrace.core.values import iso_of

# Where moto fails at looking something up.
_MISSED = ("KeyError", "StopIteration")
_GONE = re.compile(
    r"NotFound|NoSuch|NotExist|Nonexistent|NotAttached|UnknownResource", re.IGNORECASE
)
# What services say whose code does not tell.
_SAID_GONE = re.compile(
    r"^Could not find|^No \w+ \w+ found|not found|does not exist", re.IGNORECASE
)
_SAID_BY = ("ValidationException", "InvalidDocument", "ClientException")


def empty_of(shape: Any, *, lists: bool) -> Any:
    """Return a member's empty value: a text's and, with `lists`, a list's or an object's; None where it has none."""
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
    """Whether a service says that something is not there; moto says it of some by failing at the look-up."""
    is_missed = error.status == 501 and any(each in error.message for each in _MISSED)
    is_said = error.code in _SAID_BY and _SAID_GONE.search(error.message)
    return error.status == 404 or is_missed or bool(is_said or _GONE.search(error.code))


def has_value(value: Any, wanted: str) -> bool:
    """Whether a text is anywhere among the values of lists and objects."""
    if isinstance(value, Mapping):
        return any(has_value(each, wanted) for each in cast("Mapping[str, Any]", value).values())
    if isinstance(value, list):
        return any(has_value(each, wanted) for each in cast("list[Any]", value))
    return value == wanted


def shown(value: Any) -> Any:
    """Return an attribute as a stack keeps it: times as text, those inside of objects too."""
    if isinstance(value, datetime):
        return iso_of(round(value.timestamp() * 1000))
    if isinstance(value, Mapping):
        return {name: shown(each) for name, each in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [shown(each) for each in cast("list[Any]", value)]
    return value


def attribute(answer: Mapping[str, Any], kind: str, name: str) -> Any:
    """Return an attribute by its name, or with the type's name before it: at the answer's top, or one level below."""
    wanted = {name.replace(".", "").lower(), f"{kind}{name}".lower()}
    levels: list[Mapping[str, Any]] = [answer]
    for value in answer.values():
        if isinstance(value, Mapping):
            levels.append(cast("Mapping[str, Any]", value))
        elif isinstance(value, list) and len(cast("list[Any]", value)) == 1:
            levels += [each for each in cast("list[Any]", value) if isinstance(each, Mapping)]
    for level in levels:
        for key, value in level.items():
            if key.lower() in wanted and value is not None:
                return value
    if "." in name:
        first, _, rest = name.partition(".")
        inner = attribute(answer, kind, first)
        return attribute(cast("Any", inner), kind, rest) if isinstance(inner, Mapping) else None
    return None


def things_in(answer: dict[str, Any]) -> list[Any]:
    """Return what an answer says there is: its lists and structures, but not the list of what is not there."""
    return [
        value
        for name, value in answer.items()
        if not isinstance(value, str) and name not in ("failures", "projectsNotFound")
    ]
