"""Resource types as data: which calls create, read, change and delete a resource.

A type's properties, and which are required, read-only or replace the resource when they change, come from AWS's own
resource schemas (`schemas.json`, written by `python -m scripts.resource_schemas`). A property goes to every call whose
operation has a member of its name; one that goes nowhere, or that moto drops, is *ignored*, every other one *stored*,
and the fidelity report says so; those that headrace acts on are declared (`enforced`).
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Generator
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.core.ports import FidelityLevel
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ReadableType,
    ResourceResult,
    ResourceType,
)
from headrace.services.cloudformation.resources.declaration import (
    ALL,
    Call,
    Converter,
    DeclaredType,
    Values,
    tags_as,
    tags_of,
)
from headrace.services.cloudformation.resources.declared_calls import (
    TAGS,
    attribute,
    empty_of,
    find_ignored,
    has_value,
    input_of,
    list_itemized,
    list_kept,
    list_passed,
    list_updatable,
    list_without_effect,
    render_attribute,
    says_gone,
    shape_of,
    tags_member,
    takes_tags,
    things_in,
    value_from,
)
from headrace.services.cloudformation.resources.reading import as_wanted, find_properties

# Services that treat an empty text as a name to look up.
_WITHOUT_EMPTY_TEXTS = ("ec2", "elbv2", "rds")
_SETTLED_WITHIN_S = 600.0
_CHECK_EVERY_S = 0.1
_TAG_KEYS = re.compile("(?i)key|^tags")


def resource_type_of(declared: DeclaredType, reading: ReadableType | None = None) -> ResourceType:
    """Return the resource type that the declaration describes; `reading` reads it back instead of `declared.read`."""
    create_only = declared.schema["createOnly"]
    used = list_kept(declared)
    levels: dict[str, FidelityLevel] = {
        name: "enforced"
        if declared.enforced & {name, *ALL}
        else "stored"
        if name in used or (name in TAGS and takes_tags(declared))
        else "ignored"
        for name in declared.own
    }
    fixed = {name for name in levels if levels[name] != "ignored"} - list_updatable(declared)
    maker = _Maker(declared, fixed)
    replacing = create_only if declared.can_be_recreated else {*fixed, *create_only}
    return ResourceType(
        declared.type,
        levels,
        maker.create,
        maker.delete,
        update=maker.update,
        replace_on=frozenset(replacing) - declared.in_place,
        may_replace=declared.may_replace,
        replaced_if=declared.replaced_if,
        named_by=(declared.name,) if declared.name and declared.unique else (),
        find=maker.find if _is_looked_for(declared) else None,
        dropped=maker.dropped,
        remark=functools.partial(list_without_effect, declared),
        shared=declared.shared,
        reading=reading or (None if declared.read is None else maker),
        made=declared.made or maker.made,
        put_back=None if declared.holds is None else maker.create,
    )


def _is_looked_for(declared: DeclaredType) -> bool:
    by_name = declared.name and declared.unique and declared.read is not None
    return bool(declared.exists or by_name)


class _Maker:
    """Creates, changes, deletes and reads the resources of a declared type."""

    def __init__(self, declared: DeclaredType, fixed: set[str]) -> None:
        self._declared = declared
        # Only where the physical id is the name is it known which property holds it.
        self.named = declared.is_by_name and declared.schema["primary"] == [declared.name]
        self._fixed = fixed

    def read(
        self, context: Context, physical_id: str, expected: Properties
    ) -> dict[str, Any] | None:
        """See `ReadableType.read`."""
        values = self._values(context, physical_id, expected)
        if not self._exists(values):
            return None
        members = list_passed(self._declared, self._declared.create[0])
        # AWS does not read back what its schema calls write-only.
        hidden = {*self._declared.unread, *self._declared.schema.get("writeOnly", ())}
        readable = {name: members.get(name, "") for name in expected if name not in hidden}
        seen = find_properties(values.answer, readable, expected)
        for name, source in self._declared.read_as.items():
            value = value_from(source, values) if name in expected else None
            if value is not None:
                partly = isinstance(source, str)
                seen[name] = as_wanted(expected[name], value, partly=partly)
        return seen

    def adopt(
        self, context: Context, physical_id: str, properties: Properties
    ) -> ResourceResult | None:
        """See `ReadableType.adopt`."""
        values = self._values(context, physical_id, properties)
        return self._build_result(values) if self._exists(values) else None

    def _exists(self, values: Values) -> bool:
        """Read the resource; return whether it exists."""
        try:
            self._read(values)
        except AwsError as error:
            if says_gone(error):
                return False
            raise
        # A list that is filtered by a name without a resource is empty.
        things = things_in(values.answer)
        return any(things) if things else bool(values.answer)

    def create(self, context: Context, properties: Properties) -> ResourceResult:
        declared, values = self._declared, self._new_values(context, properties)
        for at, call in enumerate(declared.create):
            self._run(call, values)
            if at == 0:
                values.id = str(value_from(declared.id, values))
                context.note_made(values.id)
        return self._build_result(values)

    def made(self, context: Context, properties: Properties) -> str | None:
        """Return the physical id of a resource that was created just before a kill, if no answer has to say it."""
        if isinstance(self._declared.id, str) and self._declared.id.startswith("@answer"):
            return None
        with contextlib.suppress(AwsError, LookupError):  # only an answer has it
            return str(value_from(self._declared.id, self._new_values(context, properties)))
        return None

    def _new_values(self, context: Context, properties: Properties) -> Values:
        """Return the values of a creation, with a generated name where the template has none."""
        declared = self._declared
        values = Values(context, dict(properties), tags=self._tags(context, properties))
        if declared.name and not values.properties.get(declared.name):
            values.properties[declared.name] = declared.new_name(context)
        return values

    def update(
        self, context: Context, physical_id: str, old: Properties, new: Properties
    ) -> ResourceResult:
        declared = self._declared
        values = self._values(context, physical_id, new)
        if declared.named and not new.get(declared.name):
            self._read(values)
            values.properties[declared.name] = value_from(declared.named, values)
        changed = {name for name in {*old, *new} if old.get(name) != new.get(name)}
        again = (
            declared.recreated_if is not None and declared.recreated_if(new) and changed - set(TAGS)
        )
        if declared.can_be_recreated and (changed & self._fixed or again):
            # moto has no call for this change. The resource is state under a name, so it can be created again.
            self.delete(context, physical_id, old)
            try:
                return self.create(context, {**new, declared.name: values.get(declared.name)})
            except Exception:
                # When the new resource cannot be created, the old one is restored.
                with contextlib.suppress(AwsError, ResourceFailed):
                    self.delete(context, physical_id, new)
                self.create(context, {**old, declared.name: values.get(declared.name)})
                raise
        values.changed, values.old = changed, old
        for name in sorted(changed & list_itemized(declared)):
            self._follow(name, values, old.get(name) or [], new.get(name) or [])
        for call in declared.update:
            if call.always or changed & set(list_passed(declared, call)):
                self._run(call, values)
        if declared.tag is not None and changed & set(TAGS):
            self._read(values)
            self._change_tags(values, old, new)
        return self._build_result(values)

    def _follow(self, name: str, values: Values, old: list[Any], new: list[Any]) -> None:
        """Delete the items that left a list, and create the new ones."""
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
            with self._unless_gone(values):
                for item in call.list_items(values):
                    values.item = item
                    self._delete(call, values)

    def _delete(self, call: Call, values: Values) -> None:
        """Make a call that deletes."""
        sources = [source for source in call.members.values() if isinstance(source, str)]
        with self._unless_gone(values):
            if any(source.startswith("@answer") for source in sources):
                self._read(values)
            if call.only_if is None or call.only_if(values):
                self._call(call, values, only_named=True)

    @contextlib.contextmanager
    def _unless_gone(self, values: Values) -> Generator[None]:
        """Ignore the error of a missing resource."""
        try:
            yield
        except AwsError as error:
            if not says_gone(error) and not self._is_gone(values):
                raise

    def _is_gone(self, values: Values) -> bool:
        """Whether the resource no longer exists: for some deletions moto does not report that nothing was there."""
        try:
            return self._declared.read is not None and not self._exists(values)
        except AwsError:
            return False

    def find(self, context: Context, properties: Properties) -> str | None:
        """Return the physical name in a template if a resource with it exists."""
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
        # A list that is filtered by a name without a resource is empty.
        things = things_in(answer) or [answer]
        if any("prefix" in member.lower() for member in declared.read.members):
            # The filter is a prefix, so other names also match.
            things = [has_value(answer, str(name))]
        return str(name) if any(things) else None

    def _id_known_before(self, values: Values) -> str:
        """Return the id of another owner's resource, or its name if only an answer would have the id."""
        if isinstance(self._declared.id, str) and self._declared.id.startswith("@answer"):
            names = [str(v) for k, v in values.properties.items() if k.endswith("Name")]
            return names[0] if names else self._declared.type
        return str(value_from(self._declared.id, values))

    def dropped(self, properties: Properties) -> list[str]:
        """Return the paths in `properties` that no call passes on, and those that moto drops."""
        declared = self._declared
        nowhere: set[str] | None = None
        for call in declared.create:
            converter = Converter(declared.names)
            self._build_params(call, Values(cast("Any", None), properties), converter)
            paths = set(converter.dropped)
            nowhere = paths if nowhere is None else nowhere | paths
        return sorted({*(nowhere or ()), *find_ignored(declared, properties)})

    # --- calls --------------------------------------------------------------------------------

    def _run(self, call: Call, values: Values) -> None:
        """Make a call if it applies to these properties; with `each`, once for each item."""
        if call.when and values.get(call.when) is None:
            return
        if call.without and values.get(call.without) not in (None, False, "false"):
            return
        if call.only_if is not None and not call.only_if(values):
            return
        for item in call.list_items(values):
            values.item = item
            values.answer.update(self._call(call, values))

    def _read(self, values: Values) -> None:
        """Add the read call's answer to the answers."""
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
        own: dict[str, str] = {}
        for name in TAGS:
            if name in properties:
                own.update(tags_of(properties[name]))
        return context.merge_tags(own)

    def _call(self, call: Call, values: Values, *, only_named: bool = False) -> dict[str, Any]:
        declared = self._declared
        params = {} if only_named else self._build_params(call, values, Converter(declared.names))
        if call.into:
            params = {call.into: params}
        shape = input_of(declared.service, call.operation)
        converter = Converter(declared.names)
        for member, source in call.members.items():
            value = value_from(source, values)
            if value is None:
                continue
            target, inner = (
                (params, shape)
                if member in shape.members
                else (params[call.into], shape_of(declared, call))
            )
            target[member] = converter.value(value, inner.members[member], member)
        if values.tags and not only_named and call in declared.create:
            self._add_tags(call, values, params)
        return self._repeat(call, values, params)

    def _repeat(self, call: Call, values: Values, params: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of a call; see `Call.until`. Raises ResourceFailed when that takes too long."""
        context, kind = values.context, self._declared
        answer = context.call(kind.service, call.operation, params)
        deadline_s = context.clock.monotonic_s() + _SETTLED_WITHIN_S if call.until else 0.0
        while call.until is not None and not call.until(answer):
            if context.clock.monotonic_s() > deadline_s:
                raise ResourceFailed(f"{kind.type} {values.id} does not settle: {call.operation}")
            context.pause(_CHECK_EVERY_S)
            answer = context.call(kind.service, call.operation, params)
        return answer

    def _build_params(self, call: Call, values: Values, converter: Converter) -> dict[str, Any]:
        shape = shape_of(self._declared, call)
        params: dict[str, Any] = {}
        for name, member in list_passed(self._declared, call).items():
            if not member or name in TAGS:
                continue
            if values.properties.get(name) is not None:
                params[member] = converter.value(
                    values.properties[name], shape.members[member], name
                )
            elif name in values.changed and self._declared.service not in _WITHOUT_EMPTY_TEXTS:
                # Without the member, a property that the template no longer has would keep its value.
                empty = empty_of(shape.members[member], lists=call.empties)
                if empty is not None:
                    params[member] = empty
        return params

    def _add_tags(self, call: Call, values: Values, params: dict[str, Any]) -> None:
        declared = self._declared
        shape = input_of(declared.service, call.operation)
        if declared.ec2_tags and "TagSpecifications" in shape.members:
            tags = [{"Key": key, "Value": value} for key, value in values.tags.items()]
            params["TagSpecifications"] = [{"ResourceType": declared.ec2_tags, "Tags": tags}]
            return
        member = tags_member(declared, call) if call.tagged else None
        if member is not None:
            params[member] = tags_as(shape.members[member], values.tags)

    def _change_tags(self, values: Values, old: Properties, new: Properties) -> None:
        declared = self._declared
        assert declared.tag is not None
        add, remove, member, source = declared.tag
        named = value_from(source, values)
        before = {key for name in TAGS if name in old for key in tags_of(old[name])}
        gone = sorted(before - set(values.tags))
        add_shape, remove_shape = (
            input_of(declared.service, operation) for operation in (add, remove)
        )
        call = values.context.call
        as_list = add_shape.members[member].type_name == "list"
        resource = {member: [named] if as_list else named}
        if gone:
            keys = next(
                name for name in remove_shape.members if name != member and _TAG_KEYS.search(name)
            )
            is_text = remove_shape.members[keys].member.type_name == "string"
            listed: Any = gone if is_text else [{"Key": key} for key in gone]
            call(declared.service, remove, {**resource, keys: listed})
        if values.tags:
            tags = next(n for n in add_shape.members if "tag" in n.lower() and n != member)
            tags_by_shape = tags_as(add_shape.members[tags], values.tags)
            call(declared.service, add, {**resource, tags: tags_by_shape})

    def _build_result(self, values: Values) -> ResourceResult:
        declared = self._declared
        self._read(values)
        answer = values.answer
        attributes: dict[str, Any] = {}
        if declared.name:
            # A property is an attribute too, and this one may be a generated name.
            attributes[declared.name] = values.properties[declared.name]
        for name in (*declared.schema["readOnly"], *declared.attributes):
            value = (
                value_from(declared.attributes[name], values)
                if name in declared.attributes
                else attribute(answer, declared.type.rpartition("::")[2], name)
            )
            if value is None:
                value = values.id if name == "Id" else None
            if value is not None:
                attributes[name] = render_attribute(value)
        return ResourceResult(values.id, attributes)
