"""Resource types that are data: which calls make, read, change and delete a resource of a service that moto runs.

What a type's properties are, which are required, read-only or make a new resource when they change, is from AWS's own
resource schemas (`schemas.json`, written by `python -m scripts.resource_schemas`). A property goes to every call whose
operation has a member of its name; one that goes nowhere is *ignored*, every other one *stored*, and the fidelity
report says so.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from headrace.aws.errors import AwsError
from headrace.aws.model import service_model
from headrace.core.ports import FidelityLevel
from headrace.core.values import iso_of
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources.base import (
    Context,
    Made,
    Properties,
    ResourceType,
)
from headrace.services.cloudformation.resources.reading import found_in
from headrace.services.cloudformation.resources.schemas import schemas
from headrace.services.cloudformation.resources.values_to_api import Converter, tags_as, tags_of

_TAGS = ("Tags", "TagList", "HostedZoneTags", "FileSystemTags", "UserPoolTags")
# Where moto fails at looking something up.
_MISSED = ("KeyError", "StopIteration")
_GONE = re.compile(
    r"NotFound|NoSuch|NotExist|Nonexistent|NotAttached|UnknownResource", re.IGNORECASE
)
# What services say whose code does not tell.
_SAID_GONE = re.compile(
    r"^Could not find|^No \w+ \w+ found|not found|does not exist", re.IGNORECASE
)
# Services that look up what an empty text names.
_WITHOUT_EMPTY_TEXTS = ("ec2", "rds")
_SAID_BY = ("ValidationException", "InvalidDocument", "ClientException")


@dataclass(slots=True)
class Values:
    """What a call's members are made of.

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
        return _at(self.properties, path)

    def items(self, path: str) -> list[dict[str, Any]]:
        """Return the objects of a list among the properties; an empty list when there is none."""
        return cast("list[dict[str, Any]]", self.get(path) or [])

    def answered(self, path: str) -> list[dict[str, Any]]:
        """Return the objects of a list among what was answered; an empty list when there is none."""
        return cast("list[dict[str, Any]]", _at(self.answer, path) or [])

    @property
    def last(self) -> str:
        """The last part of the physical id: the name, when the id is an ARN, a path or joined with `|`."""
        return re.split(r"[:/|]", self.id)[-1]


@dataclass(frozen=True, slots=True)
class MadeOf:
    """A function that makes a value of properties, and which these are."""

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
        into: the member that holds what the properties give, where it is not the request itself.
        tagged: whether tags are passed, where the operation has a member for them.
        each: the property that is a list: the call is made for each of its items, whose keys are `@item.KEY`.
        always: of an update's call: it is made whatever changed.
    """

    operation: str
    members: Mapping[str, Source] = field(default_factory=dict[str, Source])
    only: tuple[str, ...] | None = None
    when: str = ""
    into: str = ""
    tagged: bool = True
    each: str = ""
    always: bool = False


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
    """

    type: str
    service: str
    create: Sequence[Call]
    id: Source
    delete: Sequence[Call]
    read: Call | None = None
    update: Sequence[Call] = ()
    name: str = ""
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


# --- from data to a type --------------------------------------------------------------------------


def resource_type_of(declared: Declared) -> ResourceType:
    """Return the resource type that the data describe."""
    schema = declared.schema
    read_only = set(schema["readOnly"])
    own = [name for name in schema["properties"] if name not in read_only or declared.name == name]
    used = {name for call in declared.calls() for name in passed(declared, call)}
    levels: dict[str, FidelityLevel] = {
        name: "stored" if name in used or (name in _TAGS and _takes_tags(declared)) else "ignored"
        for name in own
    }
    fixed = {name for name in own if levels[name] == "stored"} - changed_in_place(declared)
    maker = _Maker(declared)
    return ResourceType(
        declared.type,
        levels,
        maker.create,
        maker.delete,
        update=maker.update,
        replace_on=frozenset(
            schema["createOnly"] if declared.remade else {*fixed, *schema["createOnly"]}
        )
        - declared.in_place,
        named_by=(declared.name,) if declared.name and declared.unique else (),
        find=maker.find if _is_looked_for(declared) else None,
        dropped=maker.dropped,
        shared=declared.shared,
        reading=None if declared.read is None else maker,
        put_back=None if declared.holds is None else maker.create,
    )


def _is_looked_for(declared: Declared) -> bool:
    by_name = declared.name and declared.unique and declared.read is not None
    return bool(declared.exists or by_name)


def changed_in_place(declared: Declared) -> set[str]:
    """Return the properties that calls change."""
    changed = {name for call in declared.update for name in passed(declared, call)}
    changed |= _followed(declared)
    return changed | set(_TAGS) if declared.tag or declared.ec2_tags else changed


def _followed(declared: Declared) -> set[str]:
    """Return the lists whose items are made and deleted one by one, and so can be when the list changes."""
    made = {call.each for call in declared.create if call.each}
    return made & {call.each for call in declared.delete}


@functools.cache
def _input_of(service: str, operation: str) -> Any:
    return cast("Any", service_model(service).operation_model(operation)).input_shape


def _shape(declared: Declared, call: Call) -> Any:
    shape = _input_of(declared.service, call.operation)
    return shape.members[call.into] if call.into else shape


def passed(declared: Declared, call: Call) -> dict[str, str]:
    """Return which properties a call takes, and the members that they are."""
    shape = _shape(declared, call)
    members = {name.lower(): name for name in shape.members}
    found: dict[str, str] = {}
    for name in declared.schema["properties"]:
        if call.only is not None and name not in call.only:
            continue
        member = members.get(declared.names.get(name, name).lower())
        if member is not None and member not in call.members:
            found[name] = member
    for source in call.members.values():
        if isinstance(source, str) and not source.startswith("@"):
            found.setdefault(source.partition(".")[0], "")
        elif isinstance(source, MadeOf):
            for name in source.properties:
                found.setdefault(name, "")
    for path in (call.when, call.each):
        if path:
            found.setdefault(path.partition(".")[0], "")
    return found


def _tags_member(declared: Declared, call: Call) -> str | None:
    shape = _input_of(declared.service, call.operation)
    for name, member in shape.members.items():
        is_tags = name.lower() in ("tags", "taglist", "tagset", "userpooltags", "hostedzonetags")
        if is_tags and member.type_name in ("map", "list"):
            return str(name)
    return None


def _takes_tags(declared: Declared) -> bool:
    return bool(declared.ec2_tags or declared.tag) or any(
        call.tagged and _tags_member(declared, call) for call in declared.create
    )


class _Maker:
    """Makes, changes, deletes and reads the resources of a declared type."""

    def __init__(self, declared: Declared) -> None:
        self._declared = declared
        # Which property the physical id is, is only known of those that have their name for it.
        self.named = declared.is_by_name and declared.schema["primary"] == [declared.name]

    def read(self, context: Context, physical_id: str, wanted: Properties) -> dict[str, Any] | None:
        """See `Readable.read`."""
        values = self._values(context, physical_id, wanted)
        if not self._exists(values):
            return None
        members = passed(self._declared, self._declared.create[0])
        return found_in(values.answer, {name: members.get(name, "") for name in wanted}, wanted)

    def adopt(self, context: Context, physical_id: str, properties: Properties) -> Made | None:
        """See `Readable.adopt`."""
        values = self._values(context, physical_id, properties)
        return self._made(values) if self._exists(values) else None

    def _exists(self, values: Values) -> bool:
        """Read the resource; return whether there is one."""
        try:
            self._read(values)
        except AwsError as error:
            if _says_gone(error):
                return False
            raise
        # A list that is filtered by the name is empty.
        found = [value for value in values.answer.values() if not isinstance(value, str)]
        return any(found) if found else bool(values.answer)

    def create(self, context: Context, properties: Properties) -> Made:
        declared = self._declared
        values = Values(context, dict(properties), tags=self._tags(context, properties))
        if declared.name and not values.properties.get(declared.name):
            name = context.generated_name(declared.name_length, lower=declared.name_lower)
            if declared.name_underscores:
                name = re.sub(r"\W", "_", name)
            values.properties[declared.name] = name
        for at, call in enumerate(declared.create):
            self._run(call, values)
            if at == 0:
                values.id = str(_from(declared.id, values))
                context.note_made(values.id)
        return self._made(values)

    def update(self, context: Context, physical_id: str, old: Properties, new: Properties) -> Made:
        declared = self._declared
        values = self._values(context, physical_id, new)
        changed = {name for name in {*old, *new} if old.get(name) != new.get(name)}
        if declared.remade and changed - changed_in_place(declared):
            # No call of moto's changes it. It is state under a name, so that it can be made again.
            self.delete(context, physical_id, old)
            try:
                return self.create(context, {**new, declared.name: values.get(declared.name)})
            except Exception:
                # What cannot be made leaves what there was.
                with contextlib.suppress(AwsError, ResourceFailed):
                    self.delete(context, physical_id, new)
                self.create(context, {**old, declared.name: values.get(declared.name)})
                raise
        values.changed, values.old = changed, old
        for name in sorted(changed & _followed(declared)):
            self._follow(name, values, old.get(name) or [], new.get(name) or [])
        for call in declared.update:
            if call.always or changed & set(passed(declared, call)):
                self._run(call, values)
        if declared.tag is not None and changed & set(_TAGS):
            self._read(values)
            self._change_tags(values, old, new)
        return self._made(values)

    def _follow(self, name: str, values: Values, old: list[Any], new: list[Any]) -> None:
        """Delete what is gone of a list, and make what is new."""
        for calls, items, delete in (
            (self._declared.delete, [item for item in old if item not in new], True),
            (self._declared.create, [item for item in new if item not in old], False),
        ):
            for call in calls:
                for item in items if call.each == name else ():
                    values.item = item
                    if delete:
                        self._delete(call, values)
                    else:
                        values.answer.update(self._call(call, values))

    def delete(self, context: Context, physical_id: str, properties: Properties) -> None:
        values = self._values(context, physical_id, properties)
        if self._declared.holds is not None and not self._declared.holds(values):
            return
        for call in self._declared.delete:
            if call.when and values.get(call.when) is None:
                continue
            for item in values.get(call.each) or [] if call.each else [None]:
                values.item = item
                self._delete(call, values)

    def _delete(self, call: Call, values: Values) -> None:
        """Make a call that deletes; that there is nothing left to delete is no error."""
        sources = [source for source in call.members.values() if isinstance(source, str)]
        try:
            if any(source.startswith("@answer") for source in sources):
                self._read(values)
            self._call(call, values, only_named=True)
        except AwsError as error:
            if not _says_gone(error) and not self._is_gone(values):
                raise

    def _is_gone(self, values: Values) -> bool:
        """Whether the resource is not there any more: moto does not say so of all that it is told to delete."""
        try:
            return self._declared.read is not None and not self._exists(values)
        except AwsError:
            return False

    def find(self, context: Context, properties: Properties) -> str | None:
        """Return the name that a template gives when a resource has it already."""
        declared = self._declared
        if declared.exists is not None:
            values = Values(context, properties)
            if not declared.exists(values):
                return None
            return str(properties.get(declared.name) or self._id_known_before(values))
        name = properties.get(declared.name)
        if not name or declared.read is None:
            return None
        values = Values(context, properties, id=str(name))
        try:
            answer = self._call(declared.read, values, only_named=True)
        except AwsError as error:
            if error.status >= 500:
                raise
            return None
        # A list that is filtered by the name is empty.
        found = [value for value in answer.values() if not isinstance(value, str)] or [answer]
        if any("prefix" in member.lower() for member in declared.read.members):
            # Others begin with the name too.
            found = [_has_value(answer, str(name))]
        return str(name) if any(found) else None

    def _id_known_before(self, values: Values) -> str:
        """Return the id of a resource that is not this stack's, or its name where only an answer has the id."""
        if isinstance(self._declared.id, str) and self._declared.id.startswith("@answer"):
            names = [str(v) for k, v in values.properties.items() if k.endswith("Name")]
            return names[0] if names else self._declared.type
        return str(_from(self._declared.id, values))

    def dropped(self, properties: Properties) -> list[str]:
        """Return the paths of what is in `properties` and has no place in any call."""
        declared = self._declared
        nowhere: set[str] | None = None
        for call in declared.create:
            converter = Converter(declared.names)
            self._passed(call, Values(cast("Any", None), properties), converter)
            paths = set(converter.dropped)
            nowhere = paths if nowhere is None else nowhere | paths
        return sorted(nowhere or ())

    # --- calls --------------------------------------------------------------------------------

    def _run(self, call: Call, values: Values) -> None:
        """Make a call, unless it is not for these properties, or for each of the items that it is for."""
        if call.when and values.get(call.when) is None:
            return
        for item in values.get(call.each) or [] if call.each else [None]:
            values.item = item
            values.answer.update(self._call(call, values))

    def _read(self, values: Values) -> None:
        """Add what the service says of the resource to the answers."""
        if self._declared.read is not None:
            values.answer.update(self._call(self._declared.read, values, only_named=True))

    def _values(self, context: Context, physical_id: str, properties: Properties) -> Values:
        values = Values(
            context, dict(properties), physical_id, tags=self._tags(context, properties)
        )
        name = self._declared.name
        if name and not values.properties.get(name):
            values.properties[name] = values.last
        return values

    def _tags(self, context: Context, properties: Properties) -> dict[str, str]:
        tags = dict(context.tags)
        for name in _TAGS:
            if name in properties:
                tags.update(tags_of(properties[name]))
        return tags

    def _call(self, call: Call, values: Values, *, only_named: bool = False) -> dict[str, Any]:
        declared = self._declared
        params = {} if only_named else self._passed(call, values, Converter(declared.names))
        if call.into:
            params = {call.into: params}
        shape = _input_of(declared.service, call.operation)
        converter = Converter(declared.names)
        for member, source in call.members.items():
            value = _from(source, values)
            if value is None:
                continue
            target, inner = (
                (params, shape)
                if member in shape.members
                else (params[call.into], _shape(declared, call))
            )
            target[member] = converter.value(value, inner.members[member], member)
        if values.tags and not only_named and call in declared.create:
            self._add_tags(call, values, params)
        return values.context.call(declared.service, call.operation, params)

    def _passed(self, call: Call, values: Values, converter: Converter) -> dict[str, Any]:
        shape = _shape(self._declared, call)
        params: dict[str, Any] = {}
        for name, member in passed(self._declared, call).items():
            if not member or name in _TAGS:
                continue
            if values.properties.get(name) is not None:
                params[member] = converter.value(
                    values.properties[name], shape.members[member], name
                )
            elif (
                name in values.changed
                and _may_be_empty(shape.members[member])
                and self._declared.service not in _WITHOUT_EMPTY_TEXTS
            ):
                # A template that no longer has a text means none; without the member it would stay.
                params[member] = ""
        return params

    def _add_tags(self, call: Call, values: Values, params: dict[str, Any]) -> None:
        declared = self._declared
        shape = _input_of(declared.service, call.operation)
        if declared.ec2_tags and "TagSpecifications" in shape.members:
            tags = [{"Key": key, "Value": value} for key, value in values.tags.items()]
            params["TagSpecifications"] = [{"ResourceType": declared.ec2_tags, "Tags": tags}]
            return
        member = _tags_member(declared, call) if call.tagged else None
        if member is not None:
            params[member] = tags_as(shape.members[member], values.tags)

    def _change_tags(self, values: Values, old: Properties, new: Properties) -> None:
        declared = self._declared
        assert declared.tag is not None
        add, remove, member, source = declared.tag
        named = _from(source, values)
        before = {key for name in _TAGS if name in old for key in tags_of(old[name])}
        gone = sorted(before - set(values.tags))
        add_shape, remove_shape = (_input_of(declared.service, each) for each in (add, remove))
        call = values.context.call
        as_list = add_shape.members[member].type_name == "list"
        resource = {member: [named] if as_list else named}
        if gone:
            keys = next(n for n in remove_shape.members if "key" in n.lower() or n == "Tags")
            is_text = remove_shape.members[keys].member.type_name == "string"
            listed: Any = gone if is_text else [{"Key": key} for key in gone]
            call(declared.service, remove, {**resource, keys: listed})
        if values.tags:
            tags = next(n for n in add_shape.members if "tag" in n.lower() and n != member)
            given = tags_as(add_shape.members[tags], values.tags)
            call(declared.service, add, {**resource, tags: given})

    def _made(self, values: Values) -> Made:
        declared = self._declared
        self._read(values)
        answer = values.answer
        attributes: dict[str, Any] = {}
        if declared.name:
            # A property is an attribute too, and this one may have been made up.
            attributes[declared.name] = values.properties[declared.name]
        for name in (*declared.schema["readOnly"], *declared.attributes):
            found = (
                _from(declared.attributes[name], values)
                if name in declared.attributes
                else _attribute(answer, declared.type.rpartition("::")[2], name)
            )
            if found is None:
                found = values.id if name == "Id" else None
            if found is not None:
                attributes[name] = _shown(found)
        return Made(values.id, attributes)


# --- looking things up ----------------------------------------------------------------------------


def _from(source: Source, values: Values) -> Any:
    if not isinstance(source, str):
        return source(values)
    if source == "@id":
        return values.id
    if source == "@last":
        return values.last
    if source.startswith("@item"):
        path = source.removeprefix("@item").removeprefix(".")
        return _at(values.item, path) if path else values.item
    if source.startswith("@answer."):
        found = _at(values.answer, source.removeprefix("@answer."))
        if found is None and not values.id:
            raise ResourceFailed(f"The service's answer has no {source.removeprefix('@answer.')}")
        return found
    return values.get(source)


def _may_be_empty(shape: Any) -> bool:
    """Whether a member is a text that may be empty."""
    bounds = shape.metadata
    return shape.type_name == "string" and not (
        shape.enum or bounds.get("min") or bounds.get("pattern")
    )


def _says_gone(error: AwsError) -> bool:
    """Whether a service says that something is not there; moto says it of some by failing at the look-up."""
    is_missed = error.status == 501 and any(each in error.message for each in _MISSED)
    is_said = error.code in _SAID_BY and _SAID_GONE.search(error.message)
    return error.status == 404 or is_missed or bool(is_said or _GONE.search(error.code))


def _has_value(value: Any, wanted: str) -> bool:
    """Whether a text is anywhere among the values of lists and objects."""
    if isinstance(value, Mapping):
        return any(_has_value(each, wanted) for each in cast("Mapping[str, Any]", value).values())
    if isinstance(value, list):
        return any(_has_value(each, wanted) for each in cast("list[Any]", value))
    return value == wanted


def _shown(value: Any) -> Any:
    """Return an attribute as a stack keeps it: times as text, those inside of objects too."""
    if isinstance(value, datetime):
        return iso_of(round(value.timestamp() * 1000))
    if isinstance(value, Mapping):
        return {name: _shown(each) for name, each in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [_shown(each) for each in cast("list[Any]", value)]
    return value


def _at(value: Any, path: str) -> Any:
    for key in path.split("."):
        if isinstance(value, list):
            items = cast("list[Any]", value)
            value = items[int(key)] if key.isdigit() and int(key) < len(items) else None
        elif isinstance(value, Mapping):
            value = cast("Mapping[str, Any]", value).get(key)
        else:
            return None
    return value


def _attribute(answer: Mapping[str, Any], kind: str, name: str) -> Any:
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
        inner = _attribute(answer, kind, first)
        return _attribute(cast("Any", inner), kind, rest) if isinstance(inner, Mapping) else None
    return None
