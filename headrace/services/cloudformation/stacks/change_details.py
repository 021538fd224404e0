"""The details of a change set: which properties of a resource change, and why.

A change set has two views (recorded from AWS, tests/conformance/cloudformation). The view with property values compares
the properties' values before and after. In the view without them, a property also counts as changed when it reads any
attribute of a resource that changes in place: its detail is Dynamic. A property that refers to a parameter whose value
differs, or to a resource that is replaced, has a Static detail that names the cause.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, cast

from headrace.services.cloudformation.resources.base import ResourceType
from headrace.services.cloudformation.template.references import get_att_parts, sub_names, sub_parts

Change = dict[str, Any]


# The detail of a resource of which only the stack's tags change.
TAGS_DETAIL: Change = {
    "Target": {"Attribute": "Tags", "RequiresRecreation": "Never"},
    "Evaluation": "Static",
    "ChangeSource": "DirectModification",
}


@dataclass(frozen=True, slots=True)
class Causes:
    """The causes of other changes: changed parameters, replaced resources, resources changed in place."""

    parameters: Set[str]
    replaced: Set[str]
    modified: Set[str]


def property_details(
    kind: ResourceType,
    expressions: Mapping[str, Any],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    causes: Causes,
    *,
    with_values: bool,
) -> list[Change]:
    """Return the details of a resource's properties; an empty list when nothing changes.

    Args:
        kind: the resource's type.
        expressions: the properties as the new template writes them.
        before: the current values.
        after: the values that the new template gives.
        causes: what else changes.
        with_values: which of the two views.
    """
    details: list[Change] = []
    for name in sorted({*before, *after}):
        target = _target(kind, name, before, after)
        read = list(_reads(expressions.get(name)))
        if before.get(name) != after.get(name):
            details += _of_changed(target, read, causes, with_values=with_values)
        if not with_values:
            details += [
                _detail(target, "Dynamic", source, cause)
                for resource, source, cause in read
                if resource in causes.modified and source == "ResourceAttribute"
            ]
    return details


def _of_changed(
    target: Change, read: list[tuple[str, str, str]], causes: Causes, *, with_values: bool
) -> list[Change]:
    named = [
        _detail(target, "Static", source, cause)
        for name, source, cause in read
        if name in (causes.parameters if source == "ParameterReference" else causes.replaced)
    ]
    if not named:
        return [_detail(target, "Static", "DirectModification")]
    if not with_values and all(d["ChangeSource"] != "ParameterReference" for d in named):
        return named
    return [_detail(target, "Dynamic", "DirectModification"), *named]


def attribute_detail(attribute: str, before: Any, after: Any) -> Change:
    """Return the detail of a resource's Metadata, DeletionPolicy or another attribute outside its Properties."""
    target: Change = {
        "Attribute": attribute,
        "Path": f"/{attribute}",
        "RequiresRecreation": "Never",
        "AttributeChangeType": _kind_of_change(before is not None, after is not None),
        **({} if before is None else {"BeforeValue": _text(before)}),
        **({} if after is None else {"AfterValue": _text(after)}),
    }
    return _detail(target, "Static", "DirectModification")


def replacement(details: list[Change]) -> str:
    """Return `Replacement` of a resource with these details (documented: API_ResourceChange)."""
    recreating = [d for d in details if d["Target"]["RequiresRecreation"] == "Always"]
    if any(detail["Evaluation"] == "Static" for detail in recreating):
        return "True"
    perhaps = any(d["Target"]["RequiresRecreation"] == "Conditionally" for d in details)
    return "Conditional" if recreating or perhaps else "False"


def remove_values(change: Change) -> Change:
    """Return a change in the view without property values."""
    shown = {key: value for key, value in change.items() if not key.endswith("Context")}
    kept = ("Attribute", "Name", "RequiresRecreation")
    shown["Details"] = [
        {
            **detail,
            "Target": {key: detail["Target"][key] for key in kept if key in detail["Target"]},
        }
        for detail in change["Details"]
    ]
    return shown


def _recreation(kind: ResourceType, name: str) -> str:
    if kind.replaces(name):
        return "Always"
    return "Conditionally" if kind.may_be_replaced(name) else "Never"


def _target(
    kind: ResourceType, name: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Change:
    return {
        "Attribute": "Properties",
        "Name": name,
        "Path": f"/Properties/{name}",
        "RequiresRecreation": _recreation(kind, name),
        "AttributeChangeType": _kind_of_change(name in before, name in after),
        **({"BeforeValue": _text(before[name])} if name in before else {}),
        **({"AfterValue": _text(after[name])} if name in after else {}),
    }


def _kind_of_change(was: bool, will_be: bool) -> str:
    return "Modify" if was and will_be else "Remove" if was else "Add"


def _detail(target: Change, evaluation: str, source: str, cause: str = "") -> Change:
    return {
        "Target": target,
        "Evaluation": evaluation,
        "ChangeSource": source,
        **({"CausingEntity": cause} if cause else {}),
    }


def _reads(value: Any) -> Iterator[tuple[str, str, str]]:
    """Yield (name, change source, causing entity) for each name that an expression reads; a Ref may be either kind."""
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _reads(item)
    if not isinstance(value, dict):
        return
    mapping = cast("dict[str, Any]", value)
    for key, item in mapping.items():
        if key == "Ref" and isinstance(item, str):
            yield from _read_name(item)
        elif key == "Fn::GetAtt":
            name, attribute = get_att_parts(item)
            if isinstance(attribute, str):
                yield name, "ResourceAttribute", f"{name}.{attribute}"
            else:
                yield name, "ResourceAttribute", name
                yield from _reads(attribute)
        elif key == "Fn::Sub":
            text, variables = sub_parts(item)
            for name in sub_names(text):
                if name not in variables:
                    yield from _read_name(name)
            yield from _reads(list(variables.values()))
        else:
            yield from _reads(item)


def _read_name(name: str) -> Iterator[tuple[str, str, str]]:
    resource, dot, _ = name.partition(".")
    if dot:
        yield resource, "ResourceAttribute", name
    else:
        yield name, "ParameterReference", name
        yield name, "ResourceReference", name


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
