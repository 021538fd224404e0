"""References in a template: which resources and conditions a value names. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from headrace.services.cloudformation.errors import TemplateError
from headrace.services.cloudformation.template.template import Template

SUB_NAME = re.compile(r"\$\{([^!${}][^${}]*)\}")

# The parts of a resource, other than its Properties, that are evaluated.
_READ_BESIDE = ("Metadata", "CreationPolicy", "UpdatePolicy")


# In AWS's order; the list is the same whatever transforms add.
FUNCTIONS = (
    "Fn::Base64", "Fn::GetAtt", "Fn::GetAZs", "Fn::ImportValue", "Fn::Join", "Fn::Split", "Fn::FindInMap", "Fn::Select",
    "Ref", "Fn::Equals", "Fn::If", "Fn::Not", "Condition", "Fn::And", "Fn::Or", "Fn::Contains", "Fn::EachMemberEquals",
    "Fn::EachMemberIn", "Fn::ValueOf", "Fn::ValueOfAll", "Fn::RefAll", "Fn::Sub", "Fn::Cidr",
)  # fmt: skip


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
