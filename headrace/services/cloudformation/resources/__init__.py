"""The resource types: a type turns a resource's properties into the service's API calls.

The types of the services that headrace owns, and of those that its own stacks need, are code, a file for each
service. Those of other services that moto runs are data (`declared.py`).

A template with an unknown type is refused before any of its resources is created.
"""

import functools
from dataclasses import replace

from headrace.services.cloudformation.resources import types
from headrace.services.cloudformation.resources.base import ResourceType
from headrace.services.cloudformation.resources.declared import resource_type_of
from headrace.services.cloudformation.resources.types.cloudformation_custom import (
    custom_resource_type,
)

TYPES: dict[str, ResourceType] = {
    kind.name: replace(kind, reading=types.READINGS.get(kind.name)) for kind in types.TYPES
}
_DECLARED = {declared.type: declared for declared in types.DECLARED}


def resource_type(name: str) -> ResourceType | None:
    """Return the resource type of that name, or None when headrace does not support it."""
    if name.startswith("Custom::") or name == "AWS::CloudFormation::CustomResource":
        return custom_resource_type(name)
    return TYPES.get(name) or _build_declared_type(name)


@functools.cache
def type_names() -> list[str]:
    """Return the names of AWS's types that headrace has, sorted."""
    return sorted(name for name in (*TYPES, *_DECLARED) if name.startswith("AWS::"))


@functools.cache
def _build_declared_type(name: str) -> ResourceType | None:
    """Return a declared type, built on first use, because that reads botocore's model of its service."""
    declared = _DECLARED.get(name)
    return None if declared is None else resource_type_of(declared)
