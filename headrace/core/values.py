"""Small functions for members of requests and answers: JSON, absent members, None, timestamps and pagination."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

_T = TypeVar("_T")


def parse_json(text: str | bytes, **options: Any) -> Any:
    """Return the value of a JSON text; `options` are those of `json.loads`.

    Raises ValueError, also for NaN and Infinity, which are no JSON, and for a text that is nested more deeply than
    Python reads: a client's text that is well formed ends nothing but its own request.
    """
    try:
        if options:
            return json.loads(text, parse_constant=_refuse_constant, **options)
        if not isinstance(text, str):
            text = text.decode(json.detect_encoding(text), "surrogatepass")
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("the JSON text is nested too deeply") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


# Made once, as the standard library makes its own.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def get_list(mapping: Mapping[str, Any], name: str) -> list[Any]:
    """Return the list at `name`, empty when it is absent."""
    return list(mapping.get(name) or [])


def get_mapping(mapping: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the mapping at `name`, empty when it is absent."""
    return dict(mapping.get(name) or {})


def section(mapping: Mapping[str, Any], *path: str) -> dict[str, Any]:
    """Return the nested mapping at `path` (not a copy); empty when any part of the path is absent."""
    section_value: Any = mapping
    for name in path:
        section_value = section_value.get(name) or {}
    return cast("dict[str, Any]", section_value)


def present(members: Mapping[str, Any]) -> Any:
    """Return a dict of the members that are not None, for answers whose optional members may be absent."""
    return {name: value for name, value in members.items() if value is not None}


def moment(time_ms: int) -> datetime:
    """Return epoch milliseconds as an aware datetime, as the shapes of requests and answers hold times."""
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def as_mapping(value: Any) -> dict[str, Any]:
    """Return `value` when it is a mapping, else an empty mapping."""
    return cast("dict[str, Any]", value) if isinstance(value, Mapping) else {}


def iso_seconds_of(time_ms: int) -> str:
    """Return epoch milliseconds in whole seconds: `2013-01-01T05:00:00Z`."""
    return f"{moment(time_ms):%Y-%m-%dT%H:%M:%SZ}"


def iso_of(time_ms: int) -> str:
    """Return epoch milliseconds as AWS's documents write them: `2013-01-01T05:00:00.250Z`."""
    return f"{moment(time_ms):%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z"


class BadMarker(ValueError):
    """The marker did not come from `page_of`."""


def page_of(
    items: Iterable[_T], marker: str | None, most: int | None
) -> tuple[list[_T], str | None]:
    """Return one page of `items`, and the marker of the next page or None.

    Args:
        items: all items, in an order that does not change from page to page.
        marker: the marker that the previous page returned; None for the first page.
        most: the largest number of items in a page; None for all.

    Raises:
        BadMarker: the marker is not one of ours.
    """
    entries = list(items)
    start = 0 if marker is None else _offset(marker)
    if most is None or start + most >= len(entries):
        return entries[start:], None
    end = start + most
    return entries[start:end], base64.b64encode(str(end).encode()).decode()


def _offset(marker: str) -> int:
    try:
        digits = base64.b64decode(marker, validate=True)
    except ValueError:
        raise BadMarker(marker) from None
    # int() alone also accepts a sign, blanks and underscores.
    if not digits.isdigit():
        raise BadMarker(marker)
    return int(digits)
