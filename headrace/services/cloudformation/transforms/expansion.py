"""Runs a template's transforms in order: Fn::Transform from the innermost outwards, then the template's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from headrace.core.arn import partition_of, url_suffix_of
from headrace.services.cloudformation import limits
from headrace.services.cloudformation.errors import TemplateError, TransformFailed
from headrace.services.cloudformation.template.references import sub_names, sub_parts
from headrace.services.cloudformation.template.template_text import load
from headrace.services.cloudformation.template.values import substitute
from headrace.services.cloudformation.transforms import language_extensions, serverless
from headrace.services.cloudformation.transforms.context import TransformContext

INCLUDE = "AWS::Include"


def transforms_of(document: Any) -> list[str]:
    """Return the names of the transforms of the whole template, in order."""
    if not isinstance(document, Mapping):
        return []
    return [
        name for name, _ in _list_transforms(cast("Mapping[str, Any]", document).get("Transform"))
    ]


def has_transforms(document: Any) -> bool:
    """Whether a template contains any transform."""
    if isinstance(document, list):
        return any(map(has_transforms, cast("list[Any]", document)))
    if not isinstance(document, Mapping):
        return False
    mapping = cast("Mapping[str, Any]", document)
    return bool(
        (mapping.get("Transform") and "Resources" in mapping) or "Fn::Transform" in mapping
    ) or any(map(has_transforms, mapping.values()))


def expand(document: dict[str, Any], context: TransformContext) -> dict[str, Any]:
    """Return a template after its transforms. Raises TemplateError."""
    whole = _list_transforms(document.get("Transform"))
    expanded = cast(
        "dict[str, Any]", _inside({k: v for k, v in document.items() if k != "Transform"}, context)
    )
    for name, params in whole:
        if name == serverless.NAME:
            expanded = serverless.expand(expanded, context)
        elif name == language_extensions.NAME:
            expanded = language_extensions.expand(expanded, context.parameters)
        elif name == INCLUDE:
            expanded = {**expanded, **_include(params, context)}
        else:
            expanded = _run_macro(name, params, expanded, context)
    expanded.pop("Transform", None)
    if len(json.dumps(expanded)) > limits.PRODUCED_BYTES:
        raise TemplateError(
            f"Template error: transforms produce more than {limits.PRODUCED_BYTES:,} bytes, which headrace does"
            " not take"
        )
    return expanded


def _list_transforms(section: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return the transforms in a template's Transform section, each with its parameters."""
    items = cast(
        "list[Any]", section if isinstance(section, list) else [section] if section else []
    )
    transforms: list[tuple[str, dict[str, Any]]] = []
    for item in items:
        if isinstance(item, str):
            transforms.append((item, {}))
        elif isinstance(item, Mapping) and "Name" in item:
            mapping = cast("Mapping[str, Any]", item)
            transforms.append((str(mapping["Name"]), dict(mapping.get("Parameters") or {})))
        else:
            raise TemplateError(
                "Template format error: Transform must be a name, or an object with a Name"
            )
    return transforms


def _inside(value: Any, context: TransformContext) -> Any:
    """Return a value in which every Fn::Transform is replaced by its result."""
    if isinstance(value, list):
        return [_inside(item, context) for item in cast("list[Any]", value)]
    if not isinstance(value, Mapping):
        return value
    mapping = cast("Mapping[str, Any]", value)
    expanded: Any = {k: _inside(v, context) for k, v in mapping.items() if k != "Fn::Transform"}
    for name, params in _list_transforms(mapping.get("Fn::Transform")):
        by_include = name == INCLUDE
        expanded = (
            {**expanded, **_include(params, context)}
            if by_include
            else _run_macro(name, params, expanded, context)
        )
    return expanded


def _include(params: Mapping[str, Any], context: TransformContext) -> dict[str, Any]:
    location = _plain(params.get("Location"), context)
    if not isinstance(location, str):
        raise TransformFailed(
            f"Transform {INCLUDE} failed with: The Location parameter must be an S3 address"
        )
    try:
        fragment = load(context.read(location))
    except TemplateError as error:
        raise TransformFailed(f"Transform {INCLUDE} failed with: {error}") from error
    if not isinstance(fragment, dict):
        raise TransformFailed(f"Transform {INCLUDE} failed with: {location} is not an object")
    return cast("dict[str, Any]", fragment)


def _run_macro(
    name: str, params: Mapping[str, Any], fragment: Any, context: TransformContext
) -> Any:
    event = {
        "region": context.region,
        "accountId": context.account,
        "transformId": f"{context.account}::{name}",
        "fragment": fragment,
        "params": {key: _plain(value, context) for key, value in params.items()},
        "templateParameterValues": {name: context.value_of(name) for name in context.parameters},
    }
    return context.run_macro(name, event).get("fragment")


def _plain(value: Any, context: TransformContext) -> Any:
    """Return a transform's parameter, in which Ref and Fn::Sub of template parameters are resolved (recorded)."""
    if not isinstance(value, Mapping):
        return value
    mapping = cast("Mapping[str, Any]", value)
    if set(mapping) == {"Ref"}:
        value = context.value_of(str(mapping["Ref"]))
        return mapping if value is None else value
    if set(mapping) == {"Fn::Sub"}:
        return _fill_sub(mapping["Fn::Sub"], context) or mapping
    return mapping


def _fill_sub(argument: Any, context: TransformContext) -> str | None:
    """Return the text of an Fn::Sub, or None when it refers to a resource."""
    text, variables = sub_parts(argument)
    known = {
        **context.parameters,
        "AWS::AccountId": context.account,
        "AWS::Partition": partition_of(context.region),
        "AWS::Region": context.region,
        "AWS::URLSuffix": url_suffix_of(context.region),
        **{name: _plain(one, context) for name, one in variables.items()},
    }
    values = {name: known.get(name) for name in sub_names(text)}
    if not all(isinstance(one, str) for one in values.values()):
        return None
    return substitute(text, values)
