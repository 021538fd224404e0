"""The data that declares a resource type: its API calls, and which properties fill their members.

`declared` creates resources from it; the types themselves are in `types/`.

Converts a template's values to the members of an API call, by botocore's model of the operation.

Names are matched without regard to case (`RestApiId` is API Gateway's `restApiId`), text becomes the number or boolean
that the API wants, documents become JSON text, and tags get the service's form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from headrace.core.arn import make_arn
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources.base import (
    Context,
    Find,
    Properties,
    attribute_text,
    boolean,
    value_at,
)
from headrace.services.cloudformation.resources.schemas import schemas

# Functions of a template that is not evaluated yet.
_FUNCTIONS = ("Ref", "Condition")


@dataclass(slots=True)
class Converter:
    """Converts values, and collects the properties that the API has no member for.

    Attributes:
        names: the API's names of a template's keys, where they do not match, at any depth.
        dropped: the paths of the keys that the API does not have.
    """

    names: Mapping[str, str] = field(default_factory=dict[str, str])
    dropped: list[str] = field(default_factory=list[str])

    def value(self, value: Any, shape: Any, path: str) -> Any:
        """Return a value in the type of `shape`. Raises ResourceFailed when it cannot be converted."""
        if _is_function(value):
            return value
        convert = _CONVERTERS.get(shape.type_name)
        if convert is not None:
            return convert(self, value, shape, path)
        return value

    def structure(self, value: Any, shape: Any, path: str) -> Any:
        """Return the members of a structure; collect the keys that it does not have."""
        if not isinstance(value, Mapping):
            raise ResourceFailed(f"Properties validation failed: {path} is not an object")
        members = {name.lower(): name for name in shape.members}
        converted: dict[str, Any] = {}
        for key, item in cast("Mapping[str, Any]", value).items():
            name = members.get(self.names.get(key, key).lower())
            if name is None:
                self.dropped.append(f"{path}.{key}")
            else:
                converted[name] = self.value(item, shape.members[name], f"{path}.{key}")
        return converted

    def many(self, value: Any, shape: Any, path: str) -> Any:
        """Return a list; a single value is a list of one."""
        items = cast("list[Any]", value if isinstance(value, list) else [value])
        return [self.value(item, shape.member, f"{path}[{at}]") for at, item in enumerate(items)]

    def convert_map(self, value: Any, shape: Any, path: str) -> Any:
        """Return a map; of a list of keys and values, too, as templates have tags and dimensions."""
        pairs = cast("list[Any]", value if isinstance(value, list) else [])
        if pairs and all(
            isinstance(pair, Mapping) and {*pair} == {"Key", "Value"} for pair in pairs
        ):
            value = {str(pair["Key"]): pair["Value"] for pair in pairs}
        if not isinstance(value, Mapping):
            raise ResourceFailed(f"Properties validation failed: {path} is not an object")
        items = cast("Mapping[str, Any]", value).items()
        if shape.value.type_name == "boolean":
            # AWS's schema of API Gateway's parameters takes any text as their switch; that a text other than
            # "true" means false is assumed.
            items = [(key, _as_switch(item)) for key, item in items]
        return {str(key): self.value(item, shape.value, f"{path}.{key}") for key, item in items}

    def text(self, value: Any, shape: Any, path: str) -> Any:
        """Return text; an object or a list becomes JSON."""
        if isinstance(value, bool):
            return "true" if value else "false"
        return json.dumps(value) if isinstance(value, (dict, list)) else str(value)

    def number(self, value: Any, shape: Any, path: str) -> Any:
        """Return a number."""
        try:
            return int(value) if shape.type_name in ("integer", "long") else float(value)
        except (TypeError, ValueError, OverflowError):
            raise ResourceFailed(f"Properties validation failed: {path} is not a number") from None

    def truth(self, value: Any, shape: Any, path: str) -> Any:
        """Return a boolean."""
        if value in (True, "true", "True"):
            return True
        if value in (False, "false", "False"):
            return False
        raise ResourceFailed(f"Properties validation failed: {path} is not a boolean")

    def blob(self, value: Any, shape: Any, path: str) -> Any:
        """Return bytes."""
        if isinstance(value, str):
            return value.encode()
        return json.dumps(value).encode() if isinstance(value, (dict, list)) else value


_CONVERTERS: dict[str, Callable[[Converter, Any, Any, str], Any]] = {
    "structure": Converter.structure,
    "list": Converter.many,
    "map": Converter.convert_map,
    "string": Converter.text,
    "character": Converter.text,
    "integer": Converter.number,
    "long": Converter.number,
    "float": Converter.number,
    "double": Converter.number,
    "boolean": Converter.truth,
    "blob": Converter.blob,
}


def tags_as(shape: Any, tags: Mapping[str, str]) -> Any:
    """Return tags in a member's form: a map, or a list of keys and values under the member's names."""
    if shape.type_name == "map":
        return dict(tags)
    names = list(shape.member.members)
    key = next(name for name in names if "key" in name.lower())
    value = next(name for name in names if "value" in name.lower())
    return [{key: tag, value: tags[tag]} for tag in tags]


def tags_of(value: Any) -> dict[str, str]:
    """Return the tags of a template, which writes them as a list or as a map."""
    if isinstance(value, Mapping):
        return {
            str(key): attribute_text(item) for key, item in cast("Mapping[str, Any]", value).items()
        }
    listed = cast("list[dict[str, Any]]", value if isinstance(value, list) else [])
    return {str(tag["Key"]): attribute_text(tag.get("Value", "")) for tag in listed if "Key" in tag}


def _as_switch(value: Any) -> Any:
    """Return text as a boolean, as Java reads it."""
    return value.lower() == "true" if isinstance(value, str) else value


def _is_function(value: Any) -> bool:
    """Whether a value is an intrinsic function: templates are also converted before they are evaluated."""
    if not isinstance(value, dict) or len(cast("dict[str, Any]", value)) != 1:
        return False
    (key,) = cast("dict[str, Any]", value)
    return key.startswith("Fn::") or (key in _FUNCTIONS and isinstance(value[key], str))


@dataclass(slots=True)
class Values:
    """The values that fill a call's members.

    Attributes:
        properties: the resource's, evaluated, with the physical name.
        id: the physical id; empty during the creation.
        answer: the answers of the previous calls, merged.
        tags: the resource's and its stack's.
        item: the list item that the call is made for; see `Call.each`.
        changed: the properties that an update changes; `old` has all of them before the update.
    """

    context: Context
    properties: Properties
    id: str = ""
    answer: dict[str, Any] = field(default_factory=dict[str, Any])
    tags: dict[str, str] = field(default_factory=dict[str, str])
    item: Any = None
    changed: set[str] = field(default_factory=set[str])
    old: Properties = field(default_factory=dict[str, Any])

    def get(self, path: str) -> Any:
        """Return a property by its path, such as `Code.S3Bucket`; None when it is missing."""
        return value_at(self.properties, path)

    def is_on(self, name: str) -> bool:
        """Whether a boolean property is true."""
        return boolean(self.properties.get(name))

    def items(self, path: str) -> list[dict[str, Any]]:
        """Return the objects of a list property; an empty list when it is missing."""
        return cast("list[dict[str, Any]]", self.get(path) or [])

    def list_answered(self, path: str) -> list[dict[str, Any]]:
        """Return the objects of a list in the answers; an empty list when it is missing."""
        return cast("list[dict[str, Any]]", value_at(self.answer, path) or [])

    @property
    def last(self) -> str:
        """The last part of the physical id: the name, when the id is an ARN, a path or parts joined with `|`."""
        return re.split(r"[:/|]", self.id)[-1]


@dataclass(frozen=True, slots=True)
class ComputedProperty:
    """A function that computes a value, and the names of the properties that it uses."""

    properties: tuple[str, ...]
    function: Callable[[Values], Any]

    def __call__(self, values: Values) -> Any:
        """Return the value; None leaves the member out."""
        return self.function(values)


def declare_sources(*properties: str) -> Callable[[Callable[[Values], Any]], ComputedProperty]:
    """Declare which properties a function reads."""
    return lambda function: ComputedProperty(properties, function)


def own_name(name: str, longest: int) -> ComputedProperty:
    """Return the source of a name that is not the physical id: the template's, or a generated one."""
    return ComputedProperty(
        (name,), lambda values: values.get(name) or values.context.generate_name(longest)
    )


def build_arn(service: str, kind: str) -> Callable[[Values], str]:
    """Return the source of an ARN that ends with the kind and the physical id, such as `cluster:` or `policy/`."""
    return lambda values: make_arn(
        service, values.context.region, values.context.account, f"{kind}{values.id}"
    )


def list_removed_tags(name: str) -> ComputedProperty:
    """Return the source of the tag keys that an update removes; None when it removes none."""

    def keys(values: Values) -> list[str] | None:
        before, after = (
            tags_of(properties.get(name)) for properties in (values.old, values.properties)
        )
        return sorted(set(before) - set(after)) or None

    return ComputedProperty((name,), keys)


Source = str | ComputedProperty | Callable[[Values], Any]
"""Where a member's value comes from: a property's path, `@id` (the physical id), `@last` (the id's last part),
`@answer.PATH` (of the previous answers), `@item` and `@item.PATH` (see `Call.each`), or a function. None leaves the
member out."""


@dataclass(frozen=True, slots=True)
class Call:
    """An API call.

    Attributes:
        operation: as botocore names it.
        members: the sources of members that have another name than a property.
        only: the properties that are passed; None: all that match a member of the operation.
        when: the property without which the call is not made.
        without: for an update's call: the property of which the absence, or `false`, has the call made.
        only_if: decides whether the call is made, where no single property does.
        until: the call is repeated until its answer is so.
        into: the member that takes the properties, if it is not the request itself.
        tagged: whether tags are passed, if the operation has a member for them.
        each: a list property, or a function: the call is made for each of its items, whose keys are `@item.KEY`.
        always: for an update's call: it is made whatever changed.
        empties: for an update's call: a list or object that a template no longer has is passed empty, as text is.
    """

    operation: str
    members: Mapping[str, Source] = field(default_factory=dict[str, Source])
    only: tuple[str, ...] | None = None
    when: str = ""
    without: str = ""
    only_if: Callable[[Values], bool] | None = None
    until: Callable[[dict[str, Any]], bool] | None = None
    into: str = ""
    tagged: bool = True
    each: str | Callable[[Values], list[Any]] = ""
    always: bool = False
    empties: bool = False

    def list_items(self, values: Values) -> list[Any]:
        """Return the items that the call is made for; a single one, None, without `each`."""
        if not self.each:
            return [None]
        return (values.get(self.each) if isinstance(self.each, str) else self.each(values)) or []


ALL = frozenset({"*"})


@dataclass(frozen=True, slots=True)
class DeclaredType:
    """A resource type as data.

    Attributes:
        type: such as `AWS::StepFunctions::StateMachine`.
        service: as botocore names it.
        create: the calls that create it, in order.
        id: the source of the physical id, in the answers to these calls.
        delete: the calls that delete it; it is no error when the resource is gone already.
        read: the call whose answer has the attributes.
        update: the calls that change it in place; a change of any other property replaces the resource.
        name: the property that is the physical name; it is generated when a template gives none.
        named: where the read answer has the name, if the physical id does not end with it.
        name_length: the greatest length of a generated name; `name_lower`: whether it is in lower case;
            `name_underscores`: whether it has underscores instead of hyphens; `generate`: returns one of another form.
        names: the API's names of properties, and of keys in them, where the names do not match.
        attributes: where the answers have attributes, where the names do not match.
        ec2_tags: the resource's kind in EC2's TagSpecifications.
        unique: whether no two may have the same name.
        exists: whether a resource with these properties exists already, where `read` and the service do not say.
        shared: see `ResourceType.shared`.
        tag: the calls that add and remove tags, with the member that names the resource, and its source.
        deletes_others: whether its deletion would delete other resources too; it is then never deleted and recreated.
        in_place: properties that are changed in place where AWS replaces the resource. The service allows only one, so
            the old one could not be brought back.
        holds: for a setting of which its owner has one at most: whether it still has this resource's value. Deleting
            another leaves it alone, and a rollback creates the replaced one again.
        may_replace, replaced_if, made: see `ResourceType`.
        recreated_if: for a type with update calls: whether the properties ask for a new resource instead of a change.
        enforced: the properties that headrace acts on; `ALL` of them, or some.
        refused: properties of AWS's that headrace does not have: a template with one is refused.
        unread: properties whose name means something else in the read answer: they cannot be read.
        read_as: the sources of properties that the read answer has under another name (a path, which may omit members
            that the service omits) or in another form (a function).
    """

    type: str
    service: str
    create: Sequence[Call]
    id: Source
    delete: Sequence[Call]
    read: Call | None = None
    update: Sequence[Call] = ()
    name: str = ""
    named: str = ""
    name_length: int = 64
    name_lower: bool = False
    name_underscores: bool = False
    generate: Callable[[Context], str] | None = None
    unique: bool = True
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    attributes: Mapping[str, Source] = field(default_factory=dict[str, Source])
    ec2_tags: str = ""
    tag: tuple[str, str, str, Source] | None = None
    exists: Callable[[Values], bool] | None = None
    shared: tuple[str, ...] = ()
    deletes_others: bool = False
    in_place: frozenset[str] = frozenset()
    holds: Callable[[Values], bool] | None = None
    enforced: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    unread: frozenset[str] = frozenset()
    read_as: Mapping[str, Source] = field(default_factory=dict[str, Source])
    may_replace: frozenset[str] = frozenset()
    replaced_if: Callable[[Properties, Properties], bool] | None = None
    recreated_if: Callable[[Properties], bool] | None = None
    made: Find | None = None

    def new_name(self, context: Context) -> str:
        """Return a generated name."""
        if (generate := self.generate) is not None:
            return context.made_up(lambda: generate(context))
        name = context.generate_name(self.name_length, lower=self.name_lower)
        return re.sub(r"\W", "_", name) if self.name_underscores else name

    @property
    def can_be_recreated(self) -> bool:
        """Whether a change that no call supports is done by deleting it and creating it again, under the same name."""
        return self.is_by_name and not self.deletes_others

    @property
    def is_by_name(self) -> bool:
        """Whether the physical id is the name."""
        by_name = self.id in (self.name, f"@answer.{self.name}") and bool(self.name)
        return by_name and bool(self.delete)

    @property
    def schema(self) -> dict[str, Any]:
        """The type's schema from AWS."""
        return schemas()[self.type]

    @property
    def own(self) -> list[str]:
        """The properties that a template may give."""
        unknown = (set(self.schema["readOnly"]) - {self.name}) | self.refused
        return [name for name in self.schema["properties"] if name not in unknown]

    def calls(self) -> list[Call]:
        """Return every call that takes properties."""
        return [*self.create, *self.update]
