"""Reads the parts of AWS's resource schemas that headrace uses: `schemas.json`, and `aws_types.json`.

Source: the schemas that AWS publishes, as cfn-lint ships them; `python -m scripts.resource_schemas` writes the files.

Checks that a resource's properties have the types of AWS's schemas: `property_types.json`.

Source: the schemas that AWS publishes, as cfn-lint ships them; `python -m scripts.resource_schemas` writes the file.
The sentence is AWS's, observed: cloudtools/troposphere#1045, aws-cloudformation/cfn-lint#863.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

_PROPERTY_TYPES_FILE = Path(__file__).with_name("property_types.json")
_DIGITS = 40

Type = str | list[Any]
"""String, Integer, Number, Boolean, Object (with any members), `#Name` (an object of the same resource type), or
a list that holds the type of its items, and is empty for items of any type."""


ObjectTypes = Mapping[str, tuple[Mapping[str, Type], list[str]]]
"""The name of an object, empty for the resource itself -> its properties' types, and the names of the required ones."""


@functools.cache
def _all_types() -> dict[str, ObjectTypes]:
    """Return the types that each resource type defines."""
    return json.loads(_PROPERTY_TYPES_FILE.read_text())


def object_types(kind: str) -> ObjectTypes:
    """Return the types that a resource type defines; empty when AWS's schema is not known."""
    return _all_types().get(kind, {})


def describe_mistakes(kind: str, properties: Mapping[str, Any]) -> str:
    """Return AWS's sentence about missing properties or wrong types, or an empty text."""
    defined = _all_types().get(kind)
    if defined is None:
        return ""
    mistakes = list(_in_object(properties, "", defined, ""))
    return f"Property validation failure: [{', '.join(mistakes)}]" if mistakes else ""


def convert_to_texts(kind: str, properties: dict[str, Any]) -> dict[str, Any]:
    """Return properties with numbers and booleans as text where AWS's schema has a string, as CloudFormation does."""
    defined = _all_types().get(kind)
    return properties if defined is None else _texts_in(properties, "", defined)


def _texts_in(value: dict[str, Any], kind: str, defined: ObjectTypes) -> dict[str, Any]:
    types = defined[kind][0]
    return {
        name: _text_in(item, types[name], defined) if name in types else item
        for name, item in value.items()
    }


def _text_in(value: Any, kind_expected: Type, defined: ObjectTypes) -> Any:
    if isinstance(kind_expected, list):
        if not kind_expected or not isinstance(value, list):
            return value
        return [_text_in(item, kind_expected[0], defined) for item in cast("list[Any]", value)]
    if kind_expected.startswith("#") and isinstance(value, dict):
        return _texts_in(cast("dict[str, Any]", value), kind_expected[1:], defined)
    if kind_expected == "String" and isinstance(value, bool | int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return value


def _in_object(
    value: Mapping[str, Any], kind: str, defined: ObjectTypes, path: str
) -> Iterator[str]:
    types, required = defined[kind]
    for name in required:
        if name not in value:
            yield f"The property {{{path}/{name}}} is required"
    for name, item in value.items():
        if name in types:
            yield from _in_value(item, types[name], defined, f"{path}/{name}")


def _in_value(value: Any, kind_expected: Type, defined: ObjectTypes, path: str) -> Iterator[str]:
    """Yield a sentence about each value of the wrong type, and each missing property."""
    if isinstance(kind_expected, list):
        if not isinstance(value, list):
            yield _is_no(path, "Array")
            return
        for at, item in enumerate(cast("list[Any]", value) if kind_expected else ()):
            yield from _in_value(item, kind_expected[0], defined, f"{path}/{at}")
    elif kind_expected.startswith("#") or kind_expected == "Object":
        if not isinstance(value, dict):
            yield _is_no(path, "Object")
        elif kind_expected != "Object":
            yield from _in_object(cast("dict[str, Any]", value), kind_expected[1:], defined, path)
    elif not _SCALARS[kind_expected](value):
        yield _is_no(path, kind_expected)


def _is_no(path: str, kind: str) -> str:
    return f"Value of property {{{path}}} does not match type {{{kind}}}"


def _is_number(value: Any) -> bool:
    """Whether a value is a number, or a text that CloudFormation reads as one."""
    if isinstance(value, bool):
        return False
    if isinstance(value, str):
        try:
            return len(value) <= _DIGITS and math.isfinite(float(value))
        except ValueError:
            return False
    return isinstance(value, int | float)


def _is_integer(value: Any) -> bool:
    return _is_number(value) and float(value).is_integer()


def _is_boolean(value: Any) -> bool:
    return isinstance(value, bool) or str(value).lower() in ("true", "false")


def _is_text(value: Any) -> bool:
    return isinstance(value, str | int | float)


_SCALARS = {
    "String": _is_text,
    "Integer": _is_integer,
    "Number": _is_number,
    "Boolean": _is_boolean,
}


_FILE = Path(__file__).with_name("schemas.json")
_NAMES = Path(__file__).with_name("aws_types.json")


@functools.cache
def schemas() -> dict[str, dict[str, list[str]]]:
    """Return the schemas: type -> names of properties.

    All types have `required`, `primary` (the properties that identify a resource), `identifier` (the same, if none
    of them is read-only), and `createOnlyInside`: the paths, with slashes, of nested properties whose change replaces
    the resource, where a change of another part of their parent does not; `writeOnly`: the paths of properties that
    no read returns, with `*` for each item of a list; declared types also have `properties`, `createOnly` and
    `readOnly`.
    """
    return json.loads(_FILE.read_text())


@functools.cache
def aws_types() -> frozenset[str]:
    """Return the names of all AWS resource types in these schemas; newer types are missing."""
    return frozenset(json.loads(_NAMES.read_text()))


def list_names(kind: str, member: str) -> tuple[str, ...]:
    """Return the names in a schema's `member`; an empty set for a type without a schema."""
    schema: dict[str, Any] = schemas().get(kind, {})
    return tuple(schema.get(member, ()))
