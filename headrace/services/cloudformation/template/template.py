"""A parsed template: its sections, which resources and conditions its values name, and the order that follows.

A graph of dependencies is ordered in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, cast

from headrace.services.cloudformation.errors import TemplateError

# The only version (documented: format-version-structure).
VERSION = "2010-09-09"
SECTIONS = frozenset(
    {
        "AWSTemplateFormatVersion",
        "Description",
        "Metadata",
        "Parameters",
        "Rules",
        "Mappings",
        "Conditions",
        "Transform",
        "Resources",
        "Outputs",
        "Hooks",
    }
)
RESOURCE_KEYS = frozenset(
    {
        "Type",
        "Properties",
        "DependsOn",
        "Condition",
        "Metadata",
        "CreationPolicy",
        "DeletionPolicy",
        "UpdatePolicy",
        "UpdateReplacePolicy",
        "Version",
    }
)
PSEUDO_PARAMETERS = frozenset(
    {
        "AWS::AccountId",
        "AWS::NotificationARNs",
        "AWS::NoValue",
        "AWS::Partition",
        "AWS::Region",
        "AWS::StackId",
        "AWS::StackName",
        "AWS::URLSuffix",
    }
)


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template; a section that is missing is empty."""

    body: str
    description: str
    parameters: Mapping[str, Any]
    rules: Mapping[str, Any]
    mappings: Mapping[str, Any]
    conditions: Mapping[str, Any]
    resources: Mapping[str, Any]
    outputs: Mapping[str, Any]
    metadata: Mapping[str, Any]
    version: str
    # The text from which transforms produced `body`; empty without transforms.
    original: str = ""

    @classmethod
    def empty(cls, body: str) -> Template:
        """Return an empty template, for a text that could not be read or transformed."""
        return cls(body, "", {}, {}, {}, {}, {}, {}, {}, "")


def template_of(body: str, value: Any) -> Template:
    """Return the template in `value`, the loaded `body`, without checking its sections. Raises TemplateError."""
    if not isinstance(value, dict):
        raise TemplateError("Template format error: unsupported structure.")
    template = cast("dict[str, Any]", value)
    unknown = sorted(set(template) - SECTIONS)
    if unknown:
        raise TemplateError(f"Invalid template property or properties [{', '.join(unknown)}]")
    if not isinstance(template.get("Resources", {}), dict):
        raise TemplateError("Template format error: Any Resources member must be an object.")
    resources = _section(template, "Resources")
    if not resources:
        raise TemplateError("Template format error: At least one Resources member must be defined.")
    return Template(
        body=body,
        description=_description(template),
        parameters=_section(template, "Parameters"),
        rules=_section(template, "Rules"),
        mappings=_section(template, "Mappings"),
        conditions=_section(template, "Conditions"),
        resources=resources,
        outputs=_section(template, "Outputs"),
        metadata=_section(template, "Metadata"),
        version=_version(template),
    )


def _description(template: dict[str, Any]) -> str:
    value: Any = template.get("Description", "")
    if not isinstance(value, str):
        raise TemplateError("Template format error: Every Description member must be a string.")
    return value


def _version(template: dict[str, Any]) -> str:
    version = str(template.get("AWSTemplateFormatVersion", ""))
    if version not in ("", VERSION):
        # Reported by many.
        raise TemplateError(
            f"Template format error: {version} is not a supported value for AWSTemplateFormatVersion"
        )
    return version


def _section(template: dict[str, Any], name: str) -> Mapping[str, Any]:
    value: Any = template.get(name) or {}
    if not isinstance(value, dict):
        raise TemplateError(f"Template format error: {name} must be an object.")
    return cast("dict[str, Any]", value)


# The parts of a resource, other than its Properties, that are evaluated.
_READ_BESIDE = ("Metadata", "CreationPolicy", "UpdatePolicy")


# In AWS's order; the list is the same whatever transforms add.
FUNCTIONS = (
    "Fn::Base64", "Fn::GetAtt", "Fn::GetAZs", "Fn::ImportValue", "Fn::Join", "Fn::Split", "Fn::FindInMap", "Fn::Select",
    "Ref", "Fn::Equals", "Fn::If", "Fn::Not", "Condition", "Fn::And", "Fn::Or", "Fn::Contains", "Fn::EachMemberEquals",
    "Fn::EachMemberIn", "Fn::ValueOf", "Fn::ValueOfAll", "Fn::RefAll", "Fn::Sub", "Fn::Cidr",
)  # fmt: skip


SUB_NAME = re.compile(r"\$\{([^!${}][^${}]*)\}")


def references(value: Any) -> Iterator[str]:
    """Yield the names that Ref, GetAtt and Sub in `value` refer to."""
    for _, name, _ in mentions(value):
        yield name


def mentions(value: Any) -> Iterator[tuple[str, str, str]]:
    """Yield (function, name, attribute) for each Ref, GetAtt and Sub in `value`; the attribute is empty without one.

    Raises TemplateError.
    """
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from mentions(item)
    if not isinstance(value, dict):
        return
    mapping = cast("dict[str, Any]", value)
    for key, item in mapping.items():
        if key == "Ref" and len(mapping) == 1 and isinstance(item, str):
            yield key, item, ""
        elif key == "Fn::GetAtt" and len(mapping) == 1:
            name, attribute = get_att_parts(item)
            yield key, name, attribute if isinstance(attribute, str) else "?"
            if not isinstance(attribute, str):
                yield from mentions(attribute)
        elif key == "Fn::Sub" and len(mapping) == 1:
            yield from _sub_mentions(item)
        else:
            yield from mentions(item)


def _sub_mentions(item: Any) -> Iterator[tuple[str, str, str]]:
    text, variables = sub_parts(item)
    for named in sub_names(text):
        if named not in variables:
            name, _, attribute = named.partition(".")
            yield "Fn::Sub", name, attribute
    yield from mentions(list(variables.values()))


def sub_parts(item: Any) -> tuple[str, dict[str, Any]]:
    """Return (text, variables) of an Fn::Sub's argument. Raises TemplateError."""
    if isinstance(item, str):
        return item, {}
    if isinstance(item, list):
        parts = cast("list[Any]", item)
        if len(parts) == 2 and isinstance(parts[0], str) and isinstance(parts[1], dict):
            return parts[0], cast("dict[str, Any]", parts[1])
    raise TemplateError(
        "Template error: One or more Fn::Sub intrinsic functions don't specify expected arguments. Specify a string as"
        " first argument, and an optional second argument to specify a mapping of values to replace in the string"
    )


def sub_names(text: str) -> list[str]:
    """Return the names in `${...}` of a Sub's text; `${!x}` is a literal."""
    return [name.strip() for name in SUB_NAME.findall(text)]


def get_att_parts(item: Any) -> tuple[str, Any]:
    """Return (logical id, attribute) of an Fn::GetAtt's argument; the attribute may be a Ref. Raises TemplateError.

    Source:
    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference-getatt.html
    """
    if isinstance(item, str) and "." in item:
        name, _, attribute = item.partition(".")
        return name, attribute
    if isinstance(item, list):
        parts = cast("list[Any]", item)
        if len(parts) == 2 and isinstance(parts[0], str) and _is_attribute(parts[1]):
            return parts[0], parts[1]
    raise TemplateError(
        "Template error: every Fn::GetAtt object requires two non-empty parameters, the resource name and the resource"
        " attribute"
    )


def _is_attribute(attribute: Any) -> bool:
    if isinstance(attribute, dict):
        return list(cast("dict[str, Any]", attribute)) == ["Ref"]
    return isinstance(attribute, str)


def dependencies(template: Template, logical_id: str) -> set[str]:
    """Return the resources that must be created before this one. Raises TemplateError."""
    resource = template.resources[logical_id]
    explicit: Any = resource.get("DependsOn") or []
    named: list[str] = [explicit] if isinstance(explicit, str) else list(explicit)
    for name in named:
        if name not in template.resources:
            raise TemplateError(
                f"Template format error: Unresolved resource dependencies [{name}] in the Resources block of the"
                " template"
            )
    logical_ids = {*named, *references(resource.get("Properties", {}))}
    # Parts outside the Properties are read too, and may name the resource itself.
    beside = {*references([resource.get(key) for key in _READ_BESIDE])} - {logical_id}
    # A resource that names itself is a cycle of one.
    return {name for name in logical_ids | beside if name in template.resources}


def conditions_in(value: Any) -> Iterator[str]:
    """Yield the names of the conditions that a condition refers to."""
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from conditions_in(item)
    if not isinstance(value, dict):
        return
    for key, item in cast("dict[str, Any]", value).items():
        if key == "Condition" and isinstance(item, str):
            yield item
        elif key == "Fn::If" and isinstance(item, list) and item and isinstance(item[0], str):
            yield item[0]
            yield from conditions_in(cast("list[Any]", item)[1:])
        else:
            yield from conditions_in(item)


def all_dependencies(template: Template) -> dict[str, set[str]]:
    """Return every resource with the resources that must be created before it. Raises TemplateError."""
    return {name: dependencies(template, name) for name in template.resources}


def in_order(graph: Mapping[str, Set[str]]) -> list[str]:
    """Return the nodes, each after its dependencies, without nodes in a cycle or dependent on one."""
    left = {node: sum(other in graph for other in others) for node, others in graph.items()}
    dependents_of = reverse_graph(graph)
    order = [node for node, count in left.items() if not count]
    for node in order:  # the list grows meanwhile
        for dependent in dependents_of[node]:
            left[dependent] -= 1
            if not left[dependent]:
                order.append(dependent)
    return order


def in_circles(graph: Mapping[str, Set[str]]) -> list[str]:
    """Return the nodes that are in a cycle or depend on one, sorted."""
    return sorted(set(graph) - set(in_order(graph)))


def check_acyclic(graph: Mapping[str, Set[str]]) -> None:
    """Raise TemplateError, with the nodes' names, when the graph has a cycle."""
    left = in_circles(graph)
    if left:
        raise TemplateError(f"Circular dependency between resources: [{', '.join(left)}]")


def reverse_graph(graph: Mapping[str, Set[str]]) -> dict[str, set[str]]:
    """Return the reversed graph, in which a node comes after the nodes that depend on it: the order of deletion."""
    turned: dict[str, set[str]] = {node: set() for node in graph}
    for node, others in graph.items():
        for other in others:
            if other in turned:
                turned[other].add(node)
    return turned
