"""The data that declares a resource type: its API calls, and which properties fill their members.

`declared` creates resources from it; the types themselves are in `types/`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from headrace.services.cloudformation.resources.base import Context, Properties, value_at
from headrace.services.cloudformation.resources.schemas import schemas
from headrace.services.cloudformation.resources.values_to_api import tags_of


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
        only_if: decides whether the call is made, where no single property does.
        into: the member that takes the properties, if it is not the request itself.
        tagged: whether tags are passed, if the operation has a member for them.
        each: a list property: the call is made for each of its items, whose keys are `@item.KEY`.
        always: for an update's call: it is made whatever changed.
        empties: for an update's call: a list or object that a template no longer has is passed empty, as text is.
    """

    operation: str
    members: Mapping[str, Source] = field(default_factory=dict[str, Source])
    only: tuple[str, ...] | None = None
    when: str = ""
    only_if: Callable[[Values], bool] | None = None
    into: str = ""
    tagged: bool = True
    each: str = ""
    always: bool = False
    empties: bool = False


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
            `name_underscores`: whether it has underscores instead of hyphens.
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
        may_replace, replaced_if: see `ResourceType`.
        recreated_if: for a type with update calls: whether the properties ask for a new resource instead of a change.
        unread: properties whose name means something else in the read answer: they cannot be read.
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
    unread: frozenset[str] = frozenset()
    may_replace: frozenset[str] = frozenset()
    replaced_if: Callable[[Properties, Properties], bool] | None = None
    recreated_if: Callable[[Properties], bool] | None = None

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

    def calls(self) -> list[Call]:
        """Return every call that takes properties."""
        return [*self.create, *self.update]
