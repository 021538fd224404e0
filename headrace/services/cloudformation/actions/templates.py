"""Returns, validates and summarises templates."""

import json
from typing import TypedDict

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import cloudformation as shapes
from headrace.core.values import present
from headrace.services.cloudformation.backend import CloudFormation
from headrace.services.cloudformation.changes.imports import identifiers_of, is_importable
from headrace.services.cloudformation.errors import (
    change_set_not_found,
    stack_not_found,
    validation_error,
)
from headrace.services.cloudformation.requests.request_preparation import check_types
from headrace.services.cloudformation.resources.schemas import list_names
from headrace.services.cloudformation.state import ChangeSet, Stack
from headrace.services.cloudformation.template.capabilities import (
    find_needed_capability,
    iam_resources,
)
from headrace.services.cloudformation.template.graph import check_acyclic
from headrace.services.cloudformation.template.references import all_dependencies
from headrace.services.cloudformation.template.template import SECTIONS, Template, template_of
from headrace.services.cloudformation.template.template_checks import parse
from headrace.services.cloudformation.template.template_text import load
from headrace.services.cloudformation.transforms.expansion import transforms_of


@operation("GetTemplate")
def get_template(
    cfn: CloudFormation, call: Call, request: shapes.GetTemplateInput
) -> shapes.GetTemplateOutput:
    """Return the text that a stack was created from, unchanged. Source: API_GetTemplate."""
    stages = ["Original", "Processed"]
    set_name = request.get("ChangeSetName")
    if set_name and set_name.startswith("arn:"):
        change_set = cfn.stacks.change_set(set_name)
        if change_set is None:
            raise change_set_not_found(set_name)
        return {"TemplateBody": _of_stage(request, change_set), "StagesAvailable": stages}
    if not request.get("StackName"):
        raise validation_error("StackName is a required parameter.")
    stack = cfn.stacks.find(call.account, call.region, request.get("StackName", ""))
    if stack is None:
        raise stack_not_found(request.get("StackName", ""))
    if set_name:
        for change_set in cfn.stacks.change_sets(stack.stack_id):
            if change_set.name == set_name:
                return {"TemplateBody": _of_stage(request, change_set), "StagesAvailable": stages}
        raise change_set_not_found(set_name)
    return {"TemplateBody": _of_stage(request, stack), "StagesAvailable": stages}


def _of_stage(request: shapes.GetTemplateInput, source: Stack | ChangeSet) -> str:
    """Return the original template, or the processed one, which is the default (documented)."""
    is_original = request.get("TemplateStage") == "Original"
    return source.original_body if is_original and source.original_body else source.body


def _read(body: str) -> tuple[Template, list[str]]:
    """Return the template, and the names of its transforms; with transforms it is not checked or expanded."""
    document = load(body)
    named = transforms_of(document)
    if not named:
        return parse(body), []
    # Sections that only a transform knows, such as SAM's Globals, are left out.
    known = {name: value for name, value in document.items() if name in SECTIONS}
    return template_of(body, known), named


def _parameters(template: Template) -> list[shapes.TemplateParameter]:
    rows: list[shapes.TemplateParameter] = []
    for name, declaration in template.parameters.items():
        row: shapes.TemplateParameter = {
            "ParameterKey": name,
            "NoEcho": declaration.get("NoEcho") in (True, "true"),
        }
        if "Default" in declaration:
            row["DefaultValue"] = str(declaration["Default"])
        if declaration.get("Description"):
            row["Description"] = declaration["Description"]
        rows.append(row)
    return rows


class Needs(TypedDict, total=False):
    """The members that say what a request must acknowledge for a template."""

    Capabilities: list[str]
    CapabilitiesReason: str
    DeclaredTransforms: list[str]


def _capabilities(template: Template) -> Needs:
    """Return Capabilities and CapabilitiesReason, or an empty dictionary when the template needs no capability."""
    needed = find_needed_capability(template)
    if not needed:
        return {}
    kinds = sorted({str(resource["Type"]) for resource in iam_resources(template)})
    reason = f"The following resource(s) require capabilities: [{', '.join(kinds)}]"
    return {"Capabilities": [needed], "CapabilitiesReason": reason}


def _auto_expand(transforms: list[str]) -> Needs:
    """Return the capability that transforms need; what they produce is not known yet."""
    shown = ", ".join(transforms)
    return {
        "Capabilities": ["CAPABILITY_AUTO_EXPAND"],
        "CapabilitiesReason": f"The following transform(s) require capabilities: [{shown}]",
        "DeclaredTransforms": transforms,
    }


@operation("ValidateTemplate")
def validate_template(
    cfn: CloudFormation, call: Call, request: shapes.ValidateTemplateInput
) -> shapes.ValidateTemplateOutput:
    """Check a template. Source: API_ValidateTemplate."""
    template, transforms = _read(cfn.read_template(request))
    if not transforms:
        check_types(template, strict=cfn.strict)
        check_acyclic(all_dependencies(template))
    answer = {
        "Description": template.description or None,
        "Parameters": _parameters(template),
        **(_auto_expand(transforms) if transforms else _capabilities(template)),
    }
    return present(answer)


@operation("GetTemplateSummary")
def get_template_summary(
    cfn: CloudFormation, call: Call, request: shapes.GetTemplateSummaryInput
) -> shapes.GetTemplateSummaryOutput:
    """Return a summary of a template. Source: API_GetTemplateSummary; the answer's form is recorded."""
    template, transforms = _read(_body(cfn, call, request))
    rows = [
        {
            **row,
            "ParameterType": declaration.get("Type", "String"),
            "ParameterConstraints": _constraints(declaration.get("AllowedValues")),
        }
        for row, declaration in zip(
            _parameters(template), template.parameters.values(), strict=True
        )
    ]
    by_type: dict[str, list[str]] = {}
    for name, resource in template.resources.items():
        if name.startswith("Fn::"):
            continue  # An Fn::ForEach loop, which is not unrolled yet, stands where a resource would.
        by_type.setdefault(str(resource["Type"]), []).append(name)
    answer = {
        "Description": template.description or None,
        "Parameters": rows,
        **(_auto_expand(transforms) if transforms else _capabilities(template)),
        "ResourceTypes": list(by_type),
        "Version": template.version or None,
        "Metadata": json.dumps(template.metadata) if template.metadata else None,
        "ResourceIdentifierSummaries": [
            present(
                {
                    "ResourceType": kind,
                    "LogicalResourceIds": names,
                    "ResourceIdentifiers": list(_identifiers(kind)) or None,
                }
            )
            for kind, names in by_type.items()
        ],
    }
    return present(answer)


def _identifiers(kind: str) -> tuple[str, ...]:
    """Return the properties that identify a resource of this type in an import."""
    return identifiers_of(kind) if is_importable(kind) else list_names(kind, "identifier")


def _constraints(allowed: list[object] | None) -> shapes.ParameterConstraints:
    return {} if allowed is None else {"AllowedValues": [str(value) for value in allowed]}


def _body(cfn: CloudFormation, call: Call, request: shapes.GetTemplateSummaryInput) -> str:
    name = request.get("StackName")
    if not name:
        return cfn.read_template(request)
    stack = cfn.stacks.find(call.account, call.region, name)
    if stack is None:
        raise stack_not_found(name)
    if stack.status == "REVIEW_IN_PROGRESS":
        raise validation_error("GetTemplateSummary cannot be called on REVIEW_IN_PROGRESS stacks.")
    return stack.original_body or stack.body
