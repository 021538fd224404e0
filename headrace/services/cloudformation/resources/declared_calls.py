"""Decides which properties of a declared type go to which of its calls, by the names of the operations' members.

Reads a service's answers about a resource of a declared type: its attributes, and whether it still exists.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import service_model
from headrace.core.values import iso_of
from headrace.moto.without_effect import dropped_members, rows_of
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources.base import value_at
from headrace.services.cloudformation.resources.declaration import (
    Call,
    ComputedProperty,
    DeclaredType,
    Source,
    Values,
)
from headrace.services.cloudformation.resources.schemas import object_types

# The errors of moto's failed look-ups.
_MISSED = ("KeyError", "StopIteration")
_GONE = re.compile(
    r"NotFound|NoSuch|NotExist|Nonexistent|NotAttached|UnknownResource", re.IGNORECASE
)
# Messages that say that something is missing, under codes that do not.
_SAID_GONE = re.compile(
    r"^Could not find|^No \w+ \w+ found|not found|does not exist|is pending deletion", re.IGNORECASE
)
_SAID_BY = (
    *("ValidationException", "InvalidDocument", "ClientException"),
    *("InvalidRequestException", "KMSInvalidStateException"),
)


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


TAGS = ("Tags", "TagList", "HostedZoneTags", "FileSystemTags", "UserPoolTags")


def list_updatable(declared: DeclaredType) -> set[str]:
    """Return the properties that update calls change."""
    changed = {name for call in declared.update for name in list_passed(declared, call)}
    changed |= {call.each for call in declared.update if isinstance(call.each, str) and call.each}
    changed |= list_itemized(declared) | _list_for_deletion(declared)
    return changed | set(TAGS) if declared.tag or declared.ec2_tags else changed


def list_itemized(declared: DeclaredType) -> set[str]:
    """Return the list properties whose items are created and deleted one by one, so that each item can change alone."""
    created, deleted = (
        {call.each for call in calls if isinstance(call.each, str) and call.each}
        for calls in (declared.create, declared.delete)
    )
    return created & deleted


@functools.cache
def input_of(service: str, operation: str) -> Any:
    """Return the shape of an operation's request."""
    return cast("Any", service_model(service).operation_model(operation)).input_shape


def list_kept(declared: DeclaredType) -> set[str]:
    """Return the properties that a call of the type takes, and that moto does not drop."""
    dropped = dropped_members().get(declared.service, {})
    return {
        name
        for call in declared.calls()
        for name, member in list_passed(declared, call).items()
        if (f"{call.into}.{member}" if call.into else member) not in dropped.get(call.operation, ())
    } | _list_for_deletion(declared)


def _list_for_deletion(declared: DeclaredType) -> set[str]:
    """Return the properties that only say how the resource is deleted, such as whether with its contents."""
    sources = [source for call in declared.delete for source in call.members.values()]
    named = {source.partition(".")[0] for source in sources if isinstance(source, str)}
    passed = {name for call in declared.calls() for name in list_passed(declared, call)}
    return {name for name in named if name in declared.schema["properties"]} - passed


def list_ignored_inside(kind: DeclaredType) -> list[str]:
    """Return the paths inside properties that moto drops of each call that takes the property; lists have no index."""
    dropping, taking = Counter[str](), Counter[str]()
    for call in kind.create:
        taking.update(list(list_passed(kind, call)))
        dropping.update(set(_list_ignored(kind, call)))
    return sorted(path for path, count in dropping.items() if count == taking[path.split(".")[0]])


def _list_ignored(kind: DeclaredType, call: Call) -> Iterator[str]:
    members = {member: name for name, member in list_passed(kind, call).items() if member}
    for path in dropped_members().get(kind.service, {}).get(call.operation, ()):
        outer, _, inner = path.removeprefix(f"{call.into}.").partition(".")
        source = call.members.get(outer, members.get(outer, ""))
        paths: list[str] = []
        if isinstance(source, str) and not source.startswith("@"):
            paths = [f"{source}.{inner}"]
        elif isinstance(source, ComputedProperty):
            # A computed member is the property's own, or has it inside.
            paths = [inner, *(f"{name}.{inner}" for name in source.properties)]
        known = (_find_property(kind, path.split(".")) for path in paths if inner)
        yield from (one for one in known if one)


def _find_property(kind: DeclaredType, keys: list[str]) -> str:
    """Return an API's path in a template's names; "" when no property is there."""
    objects, current = object_types(kind.type), ""
    path: list[str] = []
    for key in keys:
        types: Mapping[str, Any] = objects[current][0] if current in objects else {}
        name = next((n for n in types if kind.names.get(n, n).lower() == key.lower()), "")
        if not name and key == "Items":
            continue  # CloudFront's lists have counts beside them, in its API alone
        if not name:
            return ""
        path.append(name)
        inner = cast("Any", types[name])
        while isinstance(inner, list):
            inner = next(iter(cast("list[Any]", inner)), "")
        current = str(inner).removeprefix("#") if str(inner).startswith("#") else "-"
    return ".".join(path)


def list_without_effect(kind: DeclaredType, properties: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties that have no effect here, with a sentence; "" stands for the whole resource."""
    remarks: dict[str, str] = {}
    for call in kind.create:
        names = {member: name for name, member in list_passed(kind, call).items() if member}
        names |= {
            member: source.partition(".")[0]
            for member, source in call.members.items()
            if isinstance(source, str)
        }
        for row in rows_of(kind.service, call.operation):
            source = call.members.get(row.member)
            if isinstance(source, ComputedProperty) and row.pattern:
                found = [
                    one for one in source.properties if one in properties and row.concerns(one)
                ]
                remarks.update(dict.fromkeys(found, row.sentence))
            name = names.get(row.member, "")
            if not row.member or (name in properties and row.concerns(properties[name])):
                remarks[name] = row.sentence
    return remarks


def find_ignored(kind: DeclaredType, properties: Mapping[str, Any]) -> list[str]:
    """Return where `properties` have what moto drops inside a property, with list indexes."""
    return [
        place
        for path in list_ignored_inside(kind)
        for place in _list_places(properties, path.split("."), "")
    ]


def _list_places(value: Any, keys: list[str], place: str) -> Iterator[str]:
    if isinstance(value, list):
        for at, item in enumerate(cast("list[Any]", value)):
            yield from _list_places(item, keys, f"{place}[{at}]")
    elif not keys:
        yield place
    elif isinstance(value, Mapping) and keys[0] in value:
        inner = cast("Mapping[str, Any]", value)[keys[0]]
        yield from _list_places(inner, keys[1:], f"{place}.{keys[0]}" if place else keys[0])


def shape_of(declared: DeclaredType, call: Call) -> Any:
    """Return the shape that a call's properties go into: the request's, or one member's; see `Call.into`."""
    shape = input_of(declared.service, call.operation)
    return shape.members[call.into] if call.into else shape


def list_passed(declared: DeclaredType, call: Call) -> dict[str, str]:
    """Return the properties that a call takes, with their members."""
    shape = shape_of(declared, call)
    members = {name.lower(): name for name in shape.members}
    members_by_property: dict[str, str] = {}
    for name in declared.schema["properties"]:
        if call.only is not None and name not in call.only:
            continue
        member = members.get(declared.names.get(name, name).lower())
        if member is not None and member not in call.members:
            members_by_property[name] = member
    for source in call.members.values():
        if isinstance(source, str) and not source.startswith("@"):
            members_by_property.setdefault(source.partition(".")[0], "")
        elif isinstance(source, ComputedProperty):
            for name in source.properties:
                members_by_property.setdefault(name, "")
    for path in (call.when, call.without, call.each):
        if path and isinstance(path, str):
            members_by_property.setdefault(path.partition(".")[0], "")
    return members_by_property


def tags_member(declared: DeclaredType, call: Call) -> str | None:
    """Return the member of a call that takes tags; None when it has none."""
    shape = input_of(declared.service, call.operation)
    for name, member in shape.members.items():
        is_tags = name.lower() in ("tags", "taglist", "tagset", "userpooltags", "hostedzonetags")
        if is_tags and member.type_name in ("map", "list"):
            return str(name)
    return None


def takes_tags(declared: DeclaredType) -> bool:
    """Whether the resource's tags reach its service."""
    return bool(declared.ec2_tags or declared.tag) or any(
        call.tagged and tags_member(declared, call) for call in declared.create
    )


def value_from(source: Source, values: Values) -> Any:
    """Return a member's value; see `Source`. Raises ResourceFailed when no answer has it."""
    if not isinstance(source, str):
        return source(values)
    if source == "@id":
        return values.id
    if source == "@last":
        return values.last
    if source.startswith("@item"):
        path = source.removeprefix("@item").removeprefix(".")
        return value_at(values.item, path) if path else values.item
    if source.startswith("@answer."):
        value = value_at(values.answer, source.removeprefix("@answer."))
        if value is None and not values.id:
            raise ResourceFailed(f"The service's answer has no {source.removeprefix('@answer.')}")
        return value
    return values.get(source)


def read_by(
    service: str, operation: str, members: Mapping[str, Source], at: str
) -> Callable[[Values], Any]:
    """Return the source of a property that a call of its own shows, at a path of its answer; see `read_as`."""

    def read(values: Values) -> Any:
        params = {name: value_from(source, values) for name, source in members.items()}
        return value_at(values.context.call(service, operation, params), at)

    return read
