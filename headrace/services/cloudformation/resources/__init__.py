"""The resource types: a type turns a resource's properties into the service's API calls.

Most types are data (`declared.py`); those whose calls depend on more than a declaration says are code.

A template with an unknown type is refused before any of its resources is created.

The types are imported when the first of them is looked for: they are a hundred modules, and most clouds have no stack
when they start.
"""

import functools
from dataclasses import replace
from typing import Any

from headrace.services.cloudformation.resources.base import ResourceType
from headrace.services.cloudformation.resources.declaration import DeclaredType


def __getattr__(name: str) -> Any:
    if name != "TYPES":
        raise AttributeError(f"{__name__} has no {name}")
    return list_coded_types()


@functools.cache
def list_coded_types() -> dict[str, ResourceType]:
    """Return the types that are code, by name."""
    from headrace.services.cloudformation.resources import types

    return {kind.name: replace(kind, reading=types.READINGS.get(kind.name)) for kind in types.TYPES}


@functools.cache
def list_declared_types() -> dict[str, DeclaredType]:
    """Return the types that are data, by name."""
    from headrace.services.cloudformation.resources import types

    return {declared.type: declared for declared in types.DECLARED}


def resource_type(name: str) -> ResourceType | None:
    """Return the resource type of that name, or None when headrace does not support it."""
    if name.startswith("Custom::") or name == "AWS::CloudFormation::CustomResource":
        from headrace.services.cloudformation.resources.types import cloudformation

        return cloudformation.custom_resource_type(name)
    return list_coded_types().get(name) or _build_declared_type(name)


@functools.cache
def type_names() -> list[str]:
    """Return the names of AWS's types that headrace has, sorted."""
    names = (*list_coded_types(), *list_declared_types())
    return sorted(name for name in names if name.startswith("AWS::"))


@functools.cache
def _build_declared_type(name: str) -> ResourceType | None:
    """Return a declared type, built on first use, because that reads botocore's model of its service."""
    from headrace.services.cloudformation.resources import types
    from headrace.services.cloudformation.resources.declared import resource_type_of

    declared = list_declared_types().get(name)
    return None if declared is None else resource_type_of(declared, types.READINGS.get(name))
