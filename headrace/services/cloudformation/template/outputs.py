"""Evaluates a template's outputs. Pure functions of a scope."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from headrace.services.cloudformation.errors import NoSuchAttribute, ResourceFailed
from headrace.services.cloudformation.template.function_forms import (
    check_export_name,
    check_output_value,
)
from headrace.services.cloudformation.template.intrinsics import Scope, evaluate
from headrace.services.cloudformation.template.template import Template


def evaluate_outputs(template: Template, scope: Scope) -> list[dict[str, str]]:
    """Return a template's outputs in the API's form. Raises TemplateError, ResourceFailed."""
    outputs: list[dict[str, str]] = []
    for name, output in template.outputs.items():
        if "Condition" in output and not scope.condition(output["Condition"]):
            continue
        try:
            value = evaluate(output["Value"], scope)
        except NoSuchAttribute as error:
            raise _at_its_place(f"/Outputs/{name}/Value", output["Value"], error) from error
        entry = {"OutputKey": name, "OutputValue": str(value)}
        if output.get("Description"):
            entry["Description"] = str(output["Description"])
        if output.get("Export"):
            entry["ExportName"] = str(evaluate(output["Export"]["Name"], scope))
        outputs.append(entry)
    return outputs


def check_outputs(template: Template, scope: Scope) -> None:
    """Raise TemplateError for what AWS refuses in outputs and what depends on no resource: export names, no value."""
    for name, output in template.outputs.items():
        if "Condition" in output and not scope.condition(output["Condition"]):
            continue
        check_output_value(_chosen(output["Value"], scope), template)
        if output.get("Export"):
            check_export_name(name, evaluate(output["Export"]["Name"], scope))


def _chosen(value: Any, scope: Scope) -> Any:
    """Return the branch of an output's value that its conditions choose."""
    while isinstance(value, dict) and list(cast("dict[str, Any]", value)) == ["Fn::If"]:
        name, yes, no = cast("list[Any]", value["Fn::If"])
        value = yes if scope.condition(str(name)) else no
    return cast("Any", value)


def _at_its_place(path: str, value: Any, error: NoSuchAttribute) -> ResourceFailed:
    """Return the error for an attribute, with the path of its Fn::GetAtt in the template (recorded)."""
    expected = [error.logical_id, *error.name.split(".")]
    for where, path_found in _attributes(path, value):
        parts = (
            path_found.split(".")
            if isinstance(path_found, str)
            else ".".join(map(str, path_found)).split(".")
        )
        if parts == expected:
            path = where
            break
    return ResourceFailed(
        f"[Error] {path}: Resource type {error.kind} does not support attribute {{{error.name}}}."
    )


def _attributes(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each Fn::GetAtt in a value with its path."""
    if isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            if key == "Fn::GetAtt" and isinstance(item, str | list):
                yield f"{path}/{key}", cast("Any", item)
            else:
                yield from _attributes(f"{path}/{key}", item)
    elif isinstance(value, list):
        for at, item in enumerate(cast("list[Any]", value)):
            yield from _attributes(f"{path}/{at}", item)
