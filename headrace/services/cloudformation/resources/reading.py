"""Reads a resource's properties back from its service, in the form that templates give them.

A `ReadingRules` has calls whose answers hold properties. The template's value guides the reading: members are matched
by name without regard to case, and only those that the template names are compared, as on AWS.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import unquote

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import operation_model
from headrace.core.values import iso_of, parse_json
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    value_at,
)

Source = str | Callable[[Any], Any]
"""Where a value stands in a call's object: a path such as `StreamModeDetails.StreamMode`, `.` for the object itself,
`@id` for the physical id, or a function of the object."""
# The value of a property that was read and that the resource does not have.
ABSENT = None


class Outline(dict[str, Any]):
    """The members that a property may have, None or as a template gave them: a guide to read all of them.

    Attributes:
        known: the template's value; None: there is none.
    """

    def __init__(self, members: Mapping[str, Any], known: Any = None) -> None:
        super().__init__(members)
        self.known = known


@dataclass(frozen=True, slots=True)
class ReadCall:
    """A call, and the properties that its answer holds.

    Attributes:
        operation: as botocore names it.
        params: its members; `@id` stands for the physical id, `@name` for the part of it after `|`, `@NAME` for a
            property of the resource.
        at: the path of the object in the answer; without the object, the resource does not exist.
        properties: property -> its place in the object.
        unset: the error codes that mean that these properties are not set.
        turn: converts a template's property to the service's form; if it changes, the property is compared whole.
        alike: property -> whether a template's value and the service's, of another form, name the same thing.
    """

    operation: str
    params: Mapping[str, Any]
    at: str = ""
    properties: Mapping[str, Source] = field(default_factory=dict[str, Source])
    unset: tuple[str, ...] = ()
    turn: Callable[[str, Any], Any] | None = None
    alike: Mapping[str, Callable[[Any, Any], bool]] = field(
        default_factory=dict[str, Callable[[Any, Any], bool]]
    )


@dataclass(frozen=True, slots=True)
class ReadingRules:
    """How resources of a type are read and imported.

    Attributes:
        calls: the first one shows whether the resource exists.
        attributes: an imported resource's attributes for GetAtt -> their places in the first call's object.
        made: returns the physical id and attributes of an imported resource, instead of `attributes`.
        named: whether a resource's identifier is its physical id, so that an import can use it.
        gone: whether the first call's object describes a deleted resource.
        more: property -> what reads it by calls of its own, from the physical id and the template's value; None: it
            cannot be read.
    """

    type: str
    service: str
    calls: tuple[ReadCall, ...]
    attributes: Mapping[str, Source] = field(default_factory=dict[str, Source])
    made: Callable[[Context, str], ResourceResult] | None = None
    named: bool = True
    gone: Callable[[Any], bool] = lambda _: False
    more: Mapping[str, Callable[[Context, str, Any], Any]] = field(
        default_factory=dict[str, Callable[[Context, str, Any], Any]]
    )

    def read(
        self, context: Context, physical_id: str, expected: Properties
    ) -> dict[str, Any] | None:
        """Return the live values of the properties in `expected`; None: the resource does not exist. Raises AwsError.

        A property that the resource does not have is ABSENT; one that cannot be read is left out.
        """
        properties: dict[str, Any] = {}
        for number, call in enumerate(self.calls):
            named = [name for name in call.properties if name in expected]
            if number and not named:
                continue
            try:
                thing = self._call(context, call, physical_id, expected)
            except AwsError as error:
                if error.code in call.unset:
                    properties.update(dict.fromkeys(named, ABSENT))
                    continue
                if number or error.status >= 500:
                    raise
                return None
            if number == 0 and (thing is None or self.gone(thing)):
                return None
            shape = _shape_at(self.service, call)
            for name in named:
                source = call.properties[name]
                value = physical_id if source == "@id" else read_value(thing, source)
                part = _shape_below(shape, source) if isinstance(source, str) else None
                properties[name] = _compare_value(
                    call, physical_id, name, expected[name], value, part
                )
        for name, read in self.more.items():
            value = read(context, physical_id, expected[name]) if name in expected else None
            if value is not None:
                properties[name] = as_wanted(expected[name], value)
        return properties

    def adopt(
        self, context: Context, physical_id: str, properties: Properties
    ) -> ResourceResult | None:
        """Return an existing resource in the form that a stack stores; None: it does not exist. Raises AwsError."""
        try:
            thing = self._call(context, self.calls[0], physical_id, properties)
        except AwsError as error:
            if error.status >= 500:
                raise
            return None
        if thing is None or self.gone(thing):
            return None
        if self.made is not None:
            return self.made(context, physical_id)
        attributes = {name: read_value(thing, source) for name, source in self.attributes.items()}
        return ResourceResult(physical_id, {k: v for k, v in attributes.items() if v is not None})

    def _call(
        self, context: Context, call: ReadCall, physical_id: str, expected: Properties
    ) -> Any:
        params = {name: _param(value, physical_id, expected) for name, value in call.params.items()}
        params = {name: value for name, value in params.items() if value is not None}
        return read_value(context.call(self.service, call.operation, params), call.at or ".")


def _param(value: Any, physical_id: str, expected: Properties) -> Any:
    if isinstance(value, list):
        return [_param(item, physical_id, expected) for item in cast("list[Any]", value)]
    if value == "@id":
        return physical_id
    if value == "@name":
        return physical_id.rpartition("|")[2]
    if isinstance(value, str) and value.startswith("@"):
        return expected.get(value[1:])
    return value


def read_value(value: Any, source: Source) -> Any:
    """Return the value at a source in an object; None when there is none."""
    if not isinstance(source, str):
        return source(value)
    return value if source == "." else value_at(value, source)


# What an answer has beside the resource's values: changes that are to come.
_TO_COME = "PendingModifiedValues"
# Names that every object may have, of itself: two objects below an answer's top they are not the resource's.
_COMMON = {
    "arn",
    "description",
    "id",
    "name",
    "state",
    "status",
    "tags",
    "type",
    "value",
    "version",
}
_DEPTH = 2


def find_properties(
    answer: Mapping[str, Any], members: Mapping[str, str], expected: Properties
) -> dict[str, Any]:
    """Return the properties of `expected` at an answer's top, or in the single objects one or two levels below.

    Two levels below a name counts only if one object has it, in the template's form. A list of names may be a list of
    objects with the name in each, as a database's VpcSecurityGroupIds are.
    `members` gives their names in the API; an empty name: the API has none, or it cannot be determined.
    """
    depths = [[answer]]
    for _ in range(_DEPTH):
        depths.append([inner for one in depths[-1] for inner in _single_objects(one)])
    properties: dict[str, Any] = {}
    for name, member in members.items():
        key = (member or name).lower()
        for depth, objects in enumerate(depths):
            found = [value for one in objects if (value := _member(one, key)) is not None]
            if depth == _DEPTH and (
                len(found) != 1 or key in _COMMON or not _is_alike(expected[name], found[0])
            ):
                found = []
            if not found and isinstance(expected[name], list):
                found = [names for one in objects if (names := _names_in_objects(one, key))]
            if found:
                properties[name] = as_wanted(expected[name], found[0], partly=True)
                break
    return properties


def _is_alike(expected: Any, value: Any) -> bool:
    """Whether a value has a template's form; not if it is a list of objects, which a service may add its own to."""
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return isinstance(expected, list) and not any(isinstance(i, Mapping) for i in items)
    return expected is None or isinstance(expected, Mapping) == isinstance(value, Mapping)


def _single_objects(thing: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for name, value in thing.items():
        one = cast("list[Any]", value) if isinstance(value, list) else [value]
        if len(one) == 1 and isinstance(one[0], Mapping) and name != _TO_COME:
            found.append(cast("Mapping[str, Any]", one[0]))
    return found


def _member(thing: Mapping[str, Any], key: str) -> Any:
    return next((value for name, value in thing.items() if name.lower() == key), None)


def _names_in_objects(thing: Mapping[str, Any], key: str) -> list[Any] | None:
    """Return the members named `key` without its `s` of the objects in the only list whose objects have it."""
    found: list[list[Any]] = []
    for value in thing.values():
        items = cast("list[Any]", value) if isinstance(value, list) else []
        objects = [cast("Mapping[str, Any]", item) for item in items if isinstance(item, Mapping)]
        names = [_member(item, key.removesuffix("s")) for item in objects]
        if names and None not in names:
            found.append(names)
    return found[0] if len(found) == 1 else None


def _shape_at(service: str, call: ReadCall) -> Any:
    shape: Any = operation_model(service, call.operation).output_shape
    return _shape_below(shape, call.at or ".")


def _shape_below(shape: Any, path: str) -> Any:
    """Return botocore's shape at a path; None when it is unknown."""
    for key in () if path == "." else path.split("."):
        kind = getattr(shape, "type_name", "")
        if kind == "structure":
            shape = shape.members.get(key)
        elif kind == "list":
            shape = shape.member
        else:
            return None
    return shape


def _compare_value(
    call: ReadCall, physical_id: str, name: str, expected: Any, value: Any, shape: Any
) -> Any:
    if value is None and expected == "":
        return expected  # the service keeps no empty text
    if value is None or (call.turn is not None and value == {}):
        return ABSENT
    if name in call.alike and expected is not None and call.alike[name](expected, value):
        return expected
    outline = expected
    if call.turn is not None and isinstance(expected, Outline):
        # The service's form differs from a template's: a template's own value is compared as it is.
        expected = expected.known
    if call.turn is None or expected is None:
        return as_wanted(outline, value, shape)
    turned = call.turn(physical_id, expected)
    seen = as_wanted(turned, value, shape)
    if seen == turned:
        return expected
    return seen if turned == expected else json.dumps(value, default=str)


def as_wanted(expected: Any, value: Any, shape: Any = None, *, partly: bool = False) -> Any:
    """Return a service's value in the template's form, so that equal settings compare equal to `expected`.

    Args:
        expected: the template's value.
        value: the service's.
        shape: botocore's shape of `value`, which tells maps from structures.
        partly: whether the service may omit members of an object; those are taken from `expected`.
    """
    if isinstance(value, datetime):
        seconds = value.timestamp()
        return expected if moment_of(expected) == seconds else iso_of(round(seconds * 1000))
    if isinstance(expected, dict) and isinstance(value, str):
        return _document(cast("dict[str, Any]", expected), value)
    if isinstance(expected, dict) and isinstance(value, Mapping):
        return _object(
            cast("dict[str, Any]", expected), cast("Mapping[str, Any]", value), shape, partly
        )
    if isinstance(expected, list):
        return _list(cast("list[Any]", expected), _items_of(value), shape, partly)
    if isinstance(expected, dict):
        return value
    if expected is None:  # nothing to compare with; the text "None" is a value
        return value
    if isinstance(expected, str) and isinstance(value, list):
        match cast("list[Any]", value):
            case [str(text)]:  # such as the namespace of a table of S3 Tables
                value = text
            case _:
                pass
    if _text(expected) == _text(value) or _same_document(expected, value):
        return expected
    return _in_the_type_of(expected, value)


def moment_of(value: Any) -> Any:
    """Return a time in seconds from any form, in UTC unless it names a zone; what is no time is returned unchanged."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return float(value)
        with contextlib.suppress(ValueError):
            value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    return value


def _items_of(value: Any) -> list[Any]:
    if isinstance(value, Mapping) and "Quantity" in value:  # CloudFront's form of a list
        value = cast("Mapping[str, Any]", value).get("Items") or []
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _in_the_type_of(expected: Any, value: Any) -> Any:
    """Convert a service's value to the type of the template's: text, number or boolean."""
    if isinstance(expected, str):
        return _text(value)
    if isinstance(expected, bool) and value in ("true", "false"):
        return value == "true"
    if isinstance(expected, int) and isinstance(value, str) and value.isdecimal():
        return int(value)
    return value


def _document(expected: dict[str, Any], text: str) -> Any:
    """Return the value of a JSON text, which IAM percent-encodes."""
    for text_form in (text, unquote(text)):
        try:
            return parse_json(text_form)
        except ValueError:
            continue
    return text


def _same_document(expected: Any, value: Any) -> bool:
    if not (isinstance(expected, str) and expected[:1] in ("{", "[")):
        return False
    try:
        return parse_json(expected) == (
            parse_json(unquote(value)) if isinstance(value, str) else value
        )
    except ValueError:
        return False


def _object(
    expected: dict[str, Any], value: Mapping[str, Any], shape: Any, partly: bool
) -> dict[str, Any]:
    if getattr(shape, "type_name", "") == "map":
        return {key: as_wanted(expected.get(key), member) for key, member in value.items()}
    names = {name.lower(): name for name in value}
    members: Mapping[str, Any] = getattr(shape, "members", {})
    compared: dict[str, Any] = {}
    for key, member in expected.items():
        name = names.get(key.lower())
        if name is None and (partly or member == []):
            compared[key] = member  # a missing list counts as an empty one
        elif name is not None and value[name] is not None:
            compared[key] = as_wanted(member, value[name], members.get(name), partly=partly)
    return compared


def _list(expected: list[Any], items: list[Any], shape: Any, partly: bool) -> list[Any]:
    """Return a list in the order of `expected`, since AWS's lists are mostly sets; ABSENT stands for missing items."""
    inner = getattr(shape, "member", None)

    def turned(expected_item: Any, item: Any) -> Any:
        return as_wanted(expected_item, item, inner, partly=partly)

    left = list(items)
    compared: list[Any] = []
    for expected_item in expected:
        same = (n for n, item in enumerate(left) if turned(expected_item, item) == expected_item)
        at = next(same, None)
        compared.append(ABSENT if at is None else expected_item)
        if at is not None:
            left.pop(at)
    for at, expected_item in enumerate(expected):
        if compared[at] is ABSENT and left:
            compared[at] = turned(expected_item, left.pop(0))
    guide: Any = expected[-1] if expected else None
    return [*compared, *(item if guide is None else turned(guide, item) for item in left)]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, (dict, list)):
        return json.dumps(value, default=str)
    return str(value)


def same(names: str = "", **others: Source) -> dict[str, Source]:
    """Return properties that have the same name in the answer (separated by spaces), and others."""
    return {**{name: name for name in names.split()}, **others}


def last_of(path: str) -> Source:
    """Return the source of a name at the end of an ARN."""
    return lambda thing: str(read_value(thing, path)).rsplit(":", 1)[-1]


def each_of(path: str, member: str) -> Source:
    """Return the source of a list: one member of each object in another list."""

    def members(thing: Any) -> list[Any] | None:
        things: list[dict[str, Any]] = read_value(thing, path) or []
        return [item[member] for item in things] or None

    return members
