"""Templates: JSON or YAML text to a checked value, and what refers to what in it. Pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import yaml

from headrace.services.cloudformation.errors import TemplateError

MAX_RESOURCES = 500
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
_SUB_NAME = re.compile(r"\$\{([^!${}][^${}]*)\}")


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template; sections that are missing are empty."""

    body: str
    description: str
    parameters: Mapping[str, Any]
    rules: Mapping[str, Any]
    mappings: Mapping[str, Any]
    conditions: Mapping[str, Any]
    resources: Mapping[str, Any]
    outputs: Mapping[str, Any]


def parse(body: str) -> Template:
    """Return the template in `body`. Raises TemplateError in AWS's words."""
    value = _load(body)
    if not isinstance(value, dict):
        raise TemplateError("Template format error: unsupported structure.")
    template = cast("dict[str, Any]", value)
    unknown = sorted(set(template) - SECTIONS)
    if unknown:
        raise TemplateError(f"Invalid template property or properties [{', '.join(unknown)}]")
    if template.get("Transform"):
        raise TemplateError(
            f"headrace does not run transforms; the template names {template['Transform']}"
        )
    resources = _section(template, "Resources")
    if not resources:
        raise TemplateError("Template format error: At least one Resources member must be defined.")
    if len(resources) > MAX_RESOURCES:
        raise TemplateError(
            f"Template format error: Number of resources, {len(resources)}, is greater than maximum allowed,"
            f" {MAX_RESOURCES}"
        )
    parsed = Template(
        body=body,
        description=str(template.get("Description") or ""),
        parameters=_section(template, "Parameters"),
        rules=_section(template, "Rules"),
        mappings=_section(template, "Mappings"),
        conditions=_section(template, "Conditions"),
        resources=resources,
        outputs=_section(template, "Outputs"),
    )
    _check(parsed)
    return parsed


def _section(template: dict[str, Any], name: str) -> Mapping[str, Any]:
    value: Any = template.get(name) or {}
    if not isinstance(value, dict):
        raise TemplateError(f"Template format error: {name} must be an object.")
    return cast("dict[str, Any]", value)


def _load(body: str) -> Any:
    text = body.lstrip()
    if text.startswith("{"):
        try:
            return json.loads(body, object_pairs_hook=_unique_pairs)
        except ValueError as error:
            raise TemplateError(
                f"Template format error: JSON not well-formed. ({error})"
            ) from error
    try:
        return yaml.load(body, Loader=_Loader)
    except yaml.YAMLError as error:
        line = str(error).replace("\n", " ")
        raise TemplateError(f"Template format error: YAML not well-formed. ({line})") from error


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, item in pairs:
        if key in value:
            raise ValueError(f"duplicate key {key!r}")
        value[key] = item
    return value


class _Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short forms; dates stay text and keys may not come twice."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[str, Any]:
    loader.flatten_mapping(node)
    construct: Any = cast("Any", loader).construct_object
    pairs = [
        (str(construct(key, deep=True)), construct(value, deep=True))
        for key, value in cast("list[tuple[Any, Any]]", node.value)
    ]
    try:
        return _unique_pairs(pairs)
    except ValueError as error:
        raise yaml.constructor.ConstructorError(None, None, str(error), node.start_mark) from error


def _short_form(loader: _Loader, suffix: str, node: yaml.Node) -> Any:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = _mapping(loader, cast("yaml.MappingNode", node))
    if suffix in ("Ref", "Condition"):
        return {suffix: value}
    if suffix == "GetAtt" and isinstance(value, str):
        return {"Fn::GetAtt": value.split(".", 1)}
    return {f"Fn::{suffix}": value}


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
cast("Any", _Loader).add_multi_constructor("!", _short_form)
_Loader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _check(template: Template) -> None:
    for name, definition in template.resources.items():
        resource = cast("dict[str, Any]", definition) if isinstance(definition, dict) else {}
        if not re.fullmatch(r"[A-Za-z0-9]+", name):
            raise TemplateError(f"Template format error: Resource name {name} is non alphanumeric.")
        if not isinstance(resource.get("Type"), str):
            raise TemplateError(
                f"Template format error: [/Resources/{name}] Every Resources object must contain a Type member."
            )
        if not isinstance(resource.get("Properties", {}), dict):
            raise TemplateError(
                f"Template format error: [/Resources/{name}/Properties] must be an object."
            )
        condition = resource.get("Condition")
        if condition is not None and condition not in template.conditions:
            raise TemplateError(
                f"Template format error: Unresolved condition dependency {condition} in the Resources block of the"
                " template"
            )
    known = {*template.resources, *template.parameters, *PSEUDO_PARAMETERS}
    for block in ("resources", "outputs"):
        missing = {
            reference
            for reference in references(getattr(template, block))
            if reference not in known
        }
        if missing:
            raise TemplateError(
                f"Template format error: Unresolved resource dependencies [{', '.join(sorted(missing))}] in the"
                f" {block.title()} block of the template"
            )


def references(value: Any) -> Iterator[str]:
    """Yield the names that Ref, GetAtt, Sub and DependsOn in `value` refer to."""
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from references(item)
    if not isinstance(value, dict):
        return
    mapping = cast("dict[str, Any]", value)
    for key, item in mapping.items():
        if key == "Ref" and len(mapping) == 1 and isinstance(item, str):
            yield item
        elif key == "Fn::GetAtt" and len(mapping) == 1:
            yield get_att_parts(item)[0]
        elif key == "Fn::Sub" and len(mapping) == 1:
            yield from _sub_references(item)
        else:
            yield from references(item)


def _sub_references(item: Any) -> Iterator[str]:
    text, variables = sub_parts(item)
    for name in sub_names(text):
        if name not in variables:
            yield name.partition(".")[0]
    yield from references(list(variables.values()))


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
    return [name.strip() for name in _SUB_NAME.findall(text)]


def substitute(text: str, values: Mapping[str, Any]) -> str:
    """Replace `${name}` in a Sub's text, and `${!x}` by `${x}`."""
    filled = _SUB_NAME.sub(lambda match: str(values[match.group(1).strip()]), text)
    return filled.replace("${!", "${")


def get_att_parts(item: Any) -> tuple[str, str]:
    """Return (logical id, attribute) of an Fn::GetAtt's argument. Raises TemplateError."""
    if isinstance(item, str) and "." in item:
        name, _, attribute = item.partition(".")
        return name, attribute
    if isinstance(item, list):
        parts = cast("list[Any]", item)
        if len(parts) == 2 and isinstance(parts[0], str) and isinstance(parts[1], str):
            return parts[0], parts[1]
    raise TemplateError(
        "Template error: every Fn::GetAtt object requires two non-empty parameters, the resource name and the resource"
        " attribute"
    )


def dependencies(template: Template, logical_id: str) -> set[str]:
    """Return the resources that must be there before this one."""
    resource = template.resources[logical_id]
    explicit: Any = resource.get("DependsOn") or []
    named: list[str] = [explicit] if isinstance(explicit, str) else list(explicit)
    for name in named:
        if name not in template.resources:
            raise TemplateError(
                f"Template format error: Unresolved resource dependencies [{name}] in the Resources block of the"
                " template"
            )
    found = {*named, *references(resource.get("Properties", {}))}
    return {name for name in found if name in template.resources and name != logical_id}
