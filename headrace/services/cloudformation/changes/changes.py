"""Computes the changes that a template would make to a stack, in the form that change sets show."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from headrace.services.cloudformation.changes import stack_tags
from headrace.services.cloudformation.errors import (
    NoSuchAttribute,
    ResourceFailed,
    TemplateError,
)
from headrace.services.cloudformation.resources import resource_type
from headrace.services.cloudformation.resources.base import ResourceType
from headrace.services.cloudformation.state import (
    RETAINING,
    TAGS_DETAIL,
    Causes,
    Change,
    Resource,
    Stack,
    attribute_detail,
    property_details,
    replacement,
)
from headrace.services.cloudformation.template.function_checks import JOIN, template_error
from headrace.services.cloudformation.template.functions import (
    UNKNOWN,
    Allowance,
    OperationSize,
    is_unknown,
)
from headrace.services.cloudformation.template.intrinsics import Scope, evaluate, evaluate_whole
from headrace.services.cloudformation.template.parameters import effective_values
from headrace.services.cloudformation.template.scope import Lookups, decide, scope_of
from headrace.services.cloudformation.template.template import (
    Template,
    all_dependencies,
    in_order,
    references,
)
from headrace.services.cloudformation.template.template_checks import parse

# Attributes of a resource, outside its Properties, whose difference is a change.
_ATTRIBUTES = (
    "Metadata",
    "DeletionPolicy",
    "UpdateReplacePolicy",
    "CreationPolicy",
    "UpdatePolicy",
)


_INCOMPLETE = (
    "[WARN] --include-property-values option can return incomplete ChangeSet data because: ChangeSet creation failed"
    " for resource [{}] because: {}"
)


class ResourceChanges:
    """The changes that a template would make to a stack's resources. The constructor raises TemplateError.

    Attributes:
        with_values, plain: the two views of a change set, each a list of ResourceChange; `plain` is shown without
            values.
        warning: why a value is missing in `with_values`, or an empty text.
    """

    def __init__(
        self,
        lookups: Lookups,
        stack: Stack,
        template: Template,
        values: Mapping[str, Any],
        tags: Mapping[str, str],
    ) -> None:
        self._stack = stack
        self._tags = dict(tags)
        self._template = template
        self._lookups = lookups
        self._pending = {name for name in template.resources if name not in stack.resources}
        self._parameters = {
            name
            for name, value in values.items()
            if stack.parameters.get(name, {}).get("value") != value["value"]
        }
        self._skipped: set[str] = set()
        self._missing_export = ""
        self.warning = ""
        self._replaced: set[str] = set()
        self._modified: set[str] = set()
        self._answering: set[str] = set()
        self._scope = self._new_scope(values)
        with_values: dict[str, Change] = {}
        plain: dict[str, Change] = {}
        self._find(with_values, plain)
        self._check_outputs()
        removed = [
            _build_removal(resource, self._properties_before(resource))
            for resource in self._list_removed()
        ]
        order = list(template.resources)
        self.with_values = [*(with_values[n] for n in order if n in with_values), *removed]
        self.plain = [*(plain[name] for name in order if name in plain), *removed]

    def _new_scope(self, values: Mapping[str, Any]) -> Scope:
        lookups, stack = self._lookups, self._stack
        scope = scope_of(
            lookups,
            stack,
            self._template,
            effective_values(values),
            stack.resources,
            later=self._pending.__contains__,
            skipped=self._skipped.__contains__,
            imported=self._read_export,
        )
        scope.dynamic = self._dynamic
        scope.attribute = self._reads_answers(scope.attribute)
        decide(self._template, scope)
        for name, definition in self._template.resources.items():
            if "Condition" in definition and not scope.condition(definition["Condition"]):
                self._skipped.add(name)
                scope.names.pop(name, None)
        return scope

    def _reads_answers(self, read: Callable[[str, str], Any]) -> Callable[[str, str], Any]:
        """Return `read`, for which an attribute that a changed resource may answer with is known afterwards."""

        def attribute(logical_id: str, name: str) -> Any:
            try:
                return read(logical_id, name)
            except NoSuchAttribute:
                if logical_id in self._answering:
                    return UNKNOWN
                raise

        return attribute

    def _dynamic(self, service: str, key: str) -> str:
        """Return a dynamic reference's value; UNKNOWN when it cannot be read before the change is executed."""
        try:
            return self._lookups.dynamic(self._stack, service, key)
        except ResourceFailed:
            return f"{{{{resolve:{service}:{key}}}}}"

    def _read_export(self, name: str) -> str:
        """Return an export's value; a missing export may exist when the change set is executed (recorded)."""
        stack = self._stack
        export = self._lookups.exports.all(stack.account, stack.region).get(name)
        if export is not None:
            return export[1]
        self._missing_export = name
        return UNKNOWN

    def _find(self, with_values: dict[str, Change], plain: dict[str, Change]) -> None:
        size = OperationSize()
        # Dependencies first: a replaced resource makes the resources that refer to it change too.
        for name in in_order(all_dependencies(self._template)):
            definition = self._template.resources[name]
            if name in self._skipped:
                continue
            self._missing_export = ""
            properties = _evaluate_resource(name, definition, self._scope)
            size.add(properties)
            if self._missing_export and not self.warning:  # pyrefly: ignore[redundant-condition]
                self.warning = _INCOMPLETE.format(name, f"No export named {self._missing_export}")
            if not self.warning and _joins_unknown(definition.get("Properties"), self._scope):
                self.warning = _INCOMPLETE.format(name, str(template_error(JOIN)))
            present = self._stack.resources.get(name)
            if present is None or not present.physical_id:
                with_values[name] = plain[name] = _build_addition(name, definition, properties)
                continue
            shown = self._modification(present, definition, properties, with_values=True)
            if shown is not None:
                with_values[name] = shown
            brief = self._modification(present, definition, properties, with_values=False)
            if brief is not None:
                plain[name] = brief
                self._modified.add(name)
                if _find_known_type(definition["Type"]).answers:
                    self._answering.add(name)
            if shown is not None and shown["Replacement"] == "True":
                self._modified.discard(name)
                self._replaced.add(name)
                self._pending.add(name)
                self._scope.names[name] = UNKNOWN

    def _check_outputs(self) -> None:
        """Refuse outputs that cannot be evaluated (recorded: those that read a resource whose condition is false)."""
        self._scope.allowance = Allowance()
        for output in self._template.outputs.values():
            if "Condition" in output and not self._scope.condition(output["Condition"]):
                continue
            skipped = [n for n in references(output["Value"]) if n in self._skipped]
            try:
                evaluate(output["Value"], self._scope)
            except ResourceFailed:
                continue  # The attribute exists only once the resource is created, or not at all.
            except TemplateError as error:
                if not skipped:
                    raise
                raise TemplateError(
                    f"Unresolved resource dependencies [{', '.join(skipped)}] in the Outputs block of the template"
                ) from error

    def _list_removed(self) -> list[Resource]:
        """Return the stack's resources that the template lacks, or whose condition is false in it."""
        definitions = self._template.resources
        return [
            resource
            for name, resource in self._stack.resources.items()
            if name not in definitions or name in self._skipped
        ]

    def _properties_before(self, resource: Resource) -> Mapping[str, Any]:
        """Return the properties of a resource to remove; values that read other resources are UNKNOWN (recorded)."""
        there: Mapping[str, Any] = {}
        if self._stack.body:
            there = parse(self._stack.body).resources
        old = there.get(resource.logical_id)
        if old is None:
            return resource.properties
        expressions = old.get("Properties", {})
        return {
            name: UNKNOWN
            if any(one in there for one in references([expressions.get(name)]))
            else value
            for name, value in resource.properties.items()
        }

    def _modification(
        self,
        resource: Resource,
        definition: Mapping[str, Any],
        properties: dict[str, Any],
        *,
        with_values: bool,
    ) -> Change | None:
        """Return the change of a resource that is in both templates, or None."""
        kind = _find_known_type(definition["Type"])
        details = property_details(
            kind,
            definition.get("Properties", {}),
            resource.properties,
            properties,
            Causes(self._parameters, self._replaced, self._modified),
            with_values=with_values,
        )
        scopes = [k for k in _ATTRIBUTES if resource.definition.get(k) != definition.get(k)]
        retagged = self._tags != self._stack.tags and stack_tags.follows(kind.name)
        if not details and not scopes and not retagged:
            return None
        outcome = replacement(details)
        policy: Change = {}
        if outcome == "True":
            policy = {"PolicyAction": f"ReplaceAnd{resource.replace_policy}"}
        attributes = [
            attribute_detail(key, resource.definition.get(key), definition.get(key))
            for key in scopes
        ]
        return {
            **policy,
            "Action": "Modify",
            "LogicalResourceId": resource.logical_id,
            "PhysicalResourceId": resource.physical_id,
            "ResourceType": resource.type,
            "Replacement": outcome,
            "Scope": [
                *(["Properties"] if details else []),
                *scopes,
                *(["Tags"] if retagged else []),
            ],
            "Details": [*details, *attributes, *([TAGS_DETAIL] if retagged else [])],
            "BeforeContext": _context(resource.definition, resource.properties),
            "AfterContext": _context(definition, properties),
        }


def _find_known_type(kind: str) -> ResourceType:
    resource_kind = resource_type(kind)
    assert resource_kind is not None, "types are checked before"
    return resource_kind


def _joins_unknown(value: Any, scope: Scope) -> bool:
    """Whether a function with an unknown result gives an Fn::Join its list (recorded: AWS warns of it)."""
    if isinstance(value, list):
        return any(_joins_unknown(one, scope) for one in cast("list[Any]", value))
    if not isinstance(value, dict):
        return False
    members = cast("dict[str, Any]", value)
    arguments = members.get("Fn::Join")
    if isinstance(arguments, list):
        joined = cast("list[Any]", arguments)[-1]
        if isinstance(joined, dict) and is_unknown(evaluate(joined, scope)):
            return True
    return any(_joins_unknown(one, scope) for one in members.values())


def _evaluate_resource(
    logical_id: str, definition: Mapping[str, Any], scope: Scope
) -> dict[str, Any]:
    scope.allowance = Allowance()
    try:
        properties = evaluate_whole(definition.get("Properties", {}), scope)
    except ResourceFailed as error:
        raise TemplateError(str(error)) from error
    if not isinstance(properties, dict):
        # Assumed: a function's result of another type is refused like a literal value.
        raise TemplateError(
            f"Template format error: [/Resources/{logical_id}/Properties] must be an object."
        )
    return cast("dict[str, Any]", properties)


def outputs_differ(old_body: str, template: Template) -> bool:
    """Whether a template's outputs differ from those of the stack's current template."""
    return not old_body or _render_canonical(parse(old_body).outputs) != _render_canonical(
        template.outputs
    )


def _render_canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def has_changes(
    stack: Stack, template: Template, changes: ResourceChanges, tags: Mapping[str, str]
) -> bool:
    """Whether an operation with this template would change the stack."""
    if changes.with_values or dict(tags) != stack.tags:
        return True
    return outputs_differ(stack.body, template)


def _build_addition(
    logical_id: str, definition: Mapping[str, Any], properties: Mapping[str, Any]
) -> Change:
    """Return the change that adds a resource."""
    return {
        "Action": "Add",
        "LogicalResourceId": logical_id,
        "ResourceType": definition["Type"],
        "Scope": [],
        "Details": [],
        "AfterContext": _context(definition, properties),
    }


def _build_removal(resource: Resource, before: Mapping[str, Any]) -> Change:
    """Return the change that removes a resource."""
    policy = resource.deletion_policy
    return {
        "PolicyAction": "Retain" if policy in RETAINING else policy,
        "Action": "Remove",
        "LogicalResourceId": resource.logical_id,
        "PhysicalResourceId": resource.physical_id,
        "ResourceType": resource.type,
        "Scope": [],
        "Details": [],
        "BeforeContext": _context(resource.definition, before),
    }


def _context(definition: Mapping[str, Any], properties: Mapping[str, Any]) -> str:
    attributes = {key: definition[key] for key in _ATTRIBUTES if key in definition}
    return json.dumps({"Properties": properties, **attributes}, separators=(",", ":"))
