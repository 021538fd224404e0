"""DescribeType, ListTypes, ListTypeVersions: the AWS resource types that headrace has; no others can be registered."""

from __future__ import annotations

import json
from typing import Any, TypedDict

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import cloudformation as shapes
from headrace.core.arn import partition_of
from headrace.services.cloudformation.actions.describe import start_of
from headrace.services.cloudformation.backend import CloudFormation
from headrace.services.cloudformation.errors import validation_error
from headrace.services.cloudformation.limits import PAGE_ITEMS
from headrace.services.cloudformation.resources import resource_type, type_names
from headrace.services.cloudformation.resources.base import ResourceType
from headrace.services.cloudformation.resources.schemas import schemas

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
