"""Templates and types: returns, validates and summarises templates; lists and describes the types that headrace has."""

from __future__ import annotations

import json
from typing import Any, TypedDict

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import cloudformation as shapes
from headrace.core.arn import partition_of
from headrace.core.values import present
from headrace.services.cloudformation.actions.describe import start_of
from headrace.services.cloudformation.backend import CloudFormation
from headrace.services.cloudformation.changes.imports import identifiers_of, is_importable
from headrace.services.cloudformation.errors import (
    PAGE_ITEMS,
    change_set_not_found,
    stack_not_found,
    validation_error,
)
from headrace.services.cloudformation.requests import check_types
from headrace.services.cloudformation.resources import resource_type, type_names
from headrace.services.cloudformation.resources.base import ResourceType
from headrace.services.cloudformation.resources.schemas import list_names, schemas
from headrace.services.cloudformation.state import ChangeSet, Stack
from headrace.services.cloudformation.template.template import (
    SECTIONS,
    Template,
    all_dependencies,
    check_acyclic,
    template_of,
)
from headrace.services.cloudformation.template.template_checks import (
    find_needed_capability,
    iam_resources,
    parse,
)
from headrace.services.cloudformation.template.template_text import load
from headrace.services.cloudformation.template.transforms import transforms_of

# AWS's own types show a single version (observed in answers that users published).
_VERSION = "00000001"
_PUBLIC, _RESOURCE, _AWS_TYPES = "PUBLIC", "RESOURCE", "AWS_TYPES"
_MUTABLE, _REPLACED = "FULLY_MUTABLE", "IMMUTABLE"


@operation("DescribeType")
def describe_type(
    cfn: CloudFormation, call: Call, request: shapes.DescribeTypeInput
) -> shapes.DescribeTypeOutput:
    """Return a resource type with its schema, reduced to what headrace uses."""
    kind = _find_type(call, request)
    return {
        "Arn": _arn(call, kind.name),
        "Type": _RESOURCE,
        "TypeName": kind.name,
        "IsDefaultVersion": True,
        "DefaultVersionId": _VERSION,
        "Description": f"Resource type schema for {kind.name}",
        "Schema": json.dumps(_schema(kind)),
        "ProvisioningType": _provisioning(kind),
        "DeprecatedStatus": "LIVE",
        "Visibility": _PUBLIC,
    }


@operation("ListTypes")
def list_types(
    cfn: CloudFormation, call: Call, request: shapes.ListTypesInput
) -> shapes.ListTypesOutput:
    """Return headrace's AWS resource types; by default the account's private types, of which there are none."""
    filters = request.get("Filters") or {}
    is_wanted = (
        (request.get("Visibility") == _PUBLIC or filters.get("Category") == _AWS_TYPES)
        and request.get("Type", _RESOURCE) == _RESOURCE
        and filters.get("Category", _AWS_TYPES) == _AWS_TYPES
        and request.get("DeprecatedStatus", "LIVE") == "LIVE"
        and not filters.get("PublisherId")
    )
    names = type_names() if is_wanted else []
    prefix, provisioning = filters.get("TypeNamePrefix") or "", request.get("ProvisioningType")
    summaries: list[shapes.TypeSummary] = []
    for name in names:
        kind = resource_type(name)
        if kind is None or not name.startswith(prefix):
            continue
        if provisioning and _provisioning(kind) != provisioning:
            continue
        summaries.append(
            {
                "Type": _RESOURCE,
                "TypeName": name,
                "TypeArn": _arn(call, name),
                "DefaultVersionId": _VERSION,
                "Description": f"Resource type schema for {name}",
            }
        )
    start, most = start_of(request.get("NextToken")), request.get("MaxResults") or PAGE_ITEMS
    answer: shapes.ListTypesOutput = {"TypeSummaries": summaries[start : start + most]}
    if start + most < len(summaries):
        answer["NextToken"] = str(start + most)
    return answer


@operation("ListTypeVersions")
def list_type_versions(
    cfn: CloudFormation, call: Call, request: shapes.ListTypeVersionsInput
) -> shapes.ListTypeVersionsOutput:
    """Return the one version of a resource type."""
    kind = _find_type(call, request)
    if request.get("DeprecatedStatus", "LIVE") != "LIVE":
        return {"TypeVersionSummaries": []}
    return {
        "TypeVersionSummaries": [
            {
                "Type": _RESOURCE,
                "TypeName": kind.name,
                "VersionId": _VERSION,
                "IsDefaultVersion": True,
                "Arn": f"{_arn(call, kind.name)}/{_VERSION}",
                "Description": f"Resource type schema for {kind.name}",
            }
        ]
    }


def _find_type(
    call: Call, request: shapes.DescribeTypeInput | shapes.ListTypeVersionsInput
) -> ResourceType:
    """Return the type that a request names, by name or ARN. Raises AwsError."""
    name, arn = request.get("TypeName") or "", str(request.get("Arn") or "")
    if not name and not arn:
        raise validation_error("Either TypeName and Type or Arn must be specified")  # assumed
    if arn:
        name = arn.partition(":type/resource/")[2].partition("/")[0].replace("-", "::")
    kind = resource_type(name) if name in type_names() else None
    if kind is None or request.get("Type", _RESOURCE) != _RESOURCE:
        # Observed: the sentence that users have shown.
        raise AwsError("TypeNotFoundException", f"The type '{name or arn}' cannot be found.", 404)
    return kind


def _arn(call: Call, name: str) -> str:
    return f"arn:{partition_of(call.region)}:cloudformation:{call.region}::type/resource/{name.replace('::', '-')}"


def _provisioning(kind: ResourceType) -> str:
    return _REPLACED if kind.update is None else _MUTABLE


class TypeSchema(TypedDict):
    """A resource type's schema, in the members of a CloudFormation registry schema."""

    typeName: str
    description: str
    properties: dict[str, dict[str, str]]
    required: list[str]
    createOnlyProperties: list[str]
    readOnlyProperties: list[str]
    primaryIdentifier: list[str]
    additionalProperties: bool


def _schema(kind: ResourceType) -> TypeSchema:
    """Return a type's schema: its properties' names, which are read-only, required or createOnly; no types."""
    known: dict[str, Any] = schemas().get(kind.name, {})
    read_only = [name.replace(".", "/") for name in known.get("readOnly", ())]
    names = sorted({*kind.properties, *(name for name in read_only if "/" not in name)})
    fixed = sorted(kind.properties)
    if kind.update is not None:
        fixed = sorted({*kind.replace_on, *known.get("createOnlyInside", ())})
    identifier = list(known.get("identifier", ())) or list(kind.named_by[:1])
    return {
        "typeName": kind.name,
        "description": f"Resource type schema for {kind.name}",
        "properties": {name: {} for name in names},
        "required": list(known.get("required", ())),
        "createOnlyProperties": [f"/properties/{name}" for name in fixed],
        "readOnlyProperties": [f"/properties/{name}" for name in read_only],
        "primaryIdentifier": [f"/properties/{name}" for name in identifier],
        "additionalProperties": kind.any_property,
    }


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
    stack = cfn.find_stack(call, request.get("StackName", ""), stack_not_found)
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
    stack = cfn.find_stack(call, name, stack_not_found)
    if stack.status == "REVIEW_IN_PROGRESS":
        raise validation_error("GetTemplateSummary cannot be called on REVIEW_IN_PROGRESS stacks.")
    return stack.original_body or stack.body
