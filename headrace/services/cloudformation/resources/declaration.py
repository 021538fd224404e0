"""The data that declares a resource type: its API calls, and the properties from which their members are made.

`declared` makes resources by it; the types themselves are in `tables/`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from headrace.services.cloudformation.resources.base import Context, Properties
from headrace.services.cloudformation.resources.schemas import schemas
from headrace.services.cloudformation.resources.values_to_api import tags_of


@dataclass(slots=True)
class Values:
    """The properties from which a call's members are made.

    Attributes:
        properties: the resource's, evaluated; the physical name is among them.
        id: the physical id; empty while it is made.
        answer: what the calls before answered, all in one.
        tags: the resource's and its stack's.
        item: the one that a call is made for; see `Call.each`.
        changed: the properties that an update changes; `old` has all of them as they were before.
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
        """Return a property by its path, such as `Code.S3Bucket`; None when there is none."""
        return value_at(self.properties, path)

    def items(self, path: str) -> list[dict[str, Any]]:
        """Return the objects of a list among the properties; an empty list when there is none."""
        return cast("list[dict[str, Any]]", self.get(path) or [])

    def answered(self, path: str) -> list[dict[str, Any]]:
        """Return the objects of a list among what was answered; an empty list when there is none."""
        return cast("list[dict[str, Any]]", value_at(self.answer, path) or [])

    @property
    def last(self) -> str:
        """The last part of the physical id: the name, when the id is an ARN, a path or joined with `|`."""
        return re.split(r"[:/|]", self.id)[-1]


@dataclass(frozen=True, slots=True)
class MadeOf:
    """A function that computes a value, and the names of the properties that it uses."""

    properties: tuple[str, ...]
    function: Callable[[Values], Any]

    def __call__(self, values: Values) -> Any:
        """Return the value; None leaves the member out."""
        return self.function(values)


def made_of(*properties: str) -> Callable[[Callable[[Values], Any]], MadeOf]:
    """Declare which properties a function makes its value of."""
    return lambda function: MadeOf(properties, function)


def own_name(name: str, longest: int) -> MadeOf:
    """Return the source of a name that is not the physical id: the template's, or one that is made up."""
    return MadeOf(
        (name,), lambda values: values.get(name) or values.context.generated_name(longest)
    )


def gone_tags(name: str) -> MadeOf:
    """Return the source of the keys of tags that an update's template no longer has; None when it has them all."""

    def keys(values: Values) -> list[str] | None:
        before, after = (tags_of(each.get(name)) for each in (values.old, values.properties))
        return sorted(set(before) - set(after)) or None

    return MadeOf((name,), keys)


Source = str | MadeOf | Callable[[Values], Any]
"""Where a member's value comes from: a property's path, `@id` (the physical id), `@last` (of the id, the last part),
`@answer.PATH` (of what was answered before), `@item` and `@item.PATH` (see `Call.each`), or a function. None leaves the
member out."""


@dataclass(frozen=True, slots=True)
class Call:
    """An API call.

    Attributes:
        operation: as botocore names it.
        members: where members come from that no property has the name of.
        only: the properties that are passed; None: all that the operation has members for.
        when: the property without which the call is not made.
        only_if: whether the call is made, where no property says it.
        into: the member that holds what the properties give, where it is not the request itself.
        tagged: whether tags are passed, where the operation has a member for them.
        each: the property that is a list: the call is made for each of its items, whose keys are `@item.KEY`.
        always: of an update's call: it is made whatever changed.
        empties: of an update's call: a list or an object that a template no longer has is passed empty, as texts are.
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
class Declared:
    """A resource type as data.

    Attributes:
        type: such as `AWS::StepFunctions::StateMachine`.
        service: as botocore names it.
        create: the calls that make it, in order.
        id: the physical id, from the answers to these calls.
        delete: the calls that delete it; that it is gone already is no error.
        read: the call whose answer has the attributes.
        update: the calls that change it in place; a change of what none of them takes makes a new resource.
        name: the property that is the physical name; one is made up when a template gives none.
        named: where the name is in the read answer, of a type whose physical id does not end with it.
        name_length: of such a name; `name_lower`: whether it is in lower case; `name_underscores`: whether it has
            underscores where others have hyphens.
        names: what the API calls properties, and keys in them, where that is not seen.
        attributes: where attributes are in the answers, where that is not seen.
        ec2_tags: the resource's kind in EC2's TagSpecifications.
        unique: whether no two may have the same name.
        exists: whether one with these properties is there already, where `read` and the service do not say.
        shared: see `ResourceType.shared`.
        tag: the calls that add and remove tags, with the member that names the resource, and where that comes from.
        holder: whether other resources hang on it that would go with it: it is never deleted to be made again.
        in_place: properties that are changed in place where AWS makes a new resource in the place of the old one, which
            then cannot be brought back: the service lets there be one only.
        holds: of a type of which a thing has one at most: whether it is this one; the deletion of another leaves it
            alone, and when a rollback brings back the one that another took the place of, it is made again.
        anew: of a type with calls that change it: whether its properties ask to be made again instead of changed.
        unread: properties whose name in the read answer stands for something else: they cannot be read.
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
    holder: bool = False
    in_place: frozenset[str] = frozenset()
    holds: Callable[[Values], bool] | None = None
    unread: frozenset[str] = frozenset()
    anew: Callable[[Properties], bool] | None = None

    @property
    def remade(self) -> bool:
        """Whether a change that no call makes is made by deleting it and making it again, under the same name."""
        return self.is_by_name and not self.holder

    @property
    def is_by_name(self) -> bool:
        """Whether the physical id is the name."""
        by_name = self.id in (self.name, f"@answer.{self.name}") and bool(self.name)
        return by_name and bool(self.delete)

    @property
    def schema(self) -> dict[str, Any]:
        """AWS's schema of the type."""
        return schemas()[self.type]

    def calls(self) -> list[Call]:
        """Return every call that takes properties."""
        return [*self.create, *self.update]


def value_at(value: Any, path: str) -> Any:
    """Return what stands under a path such as `Code.0.S3Bucket`; None when there is nothing."""
    for key in path.split("."):
        if isinstance(value, list):
            items = cast("list[Any]", value)
            value = items[int(key)] if key.isdigit() and int(key) < len(items) else None
        elif isinstance(value, Mapping):
            value = cast("Mapping[str, Any]", value).get(key)
        else:
            return None
    return value
