"""The resource types: a type turns a resource's properties into the service's API calls.

Most types are data (`declared.py`); those whose calls depend on more than a declaration says are code.

A template with an unknown type is refused before any of its resources is created.

A file is imported when a type of one of its namespaces is looked for: most templates need few files.
"""

import functools
import importlib
from dataclasses import replace
from typing import Any

from headrace.services.cloudformation.resources.base import ResourceType
from headrace.services.cloudformation.resources.declaration import DeclaredType
from headrace.services.cloudformation.resources.reading import ReadingRules
from headrace.services.cloudformation.resources.types import FILES

# By name, the types of the namespaces that somebody has looked into.
_CODED: dict[str, ResourceType] = {}
_DECLARED: dict[str, DeclaredType] = {}
_READINGS: dict[str, ReadingRules] = {}


def __getattr__(name: str) -> Any:
    if name != "TYPES":
        raise AttributeError(f"{__name__} has no {name}")
    return list_coded_types()


def list_coded_types() -> dict[str, ResourceType]:
    """Return the types that are code, by name."""
    _load_all()
    return _CODED


def list_declared_types() -> dict[str, DeclaredType]:
    """Return the types that are data, by name."""
    _load_all()
    return _DECLARED


def resource_type(name: str) -> ResourceType | None:
    """Return the resource type of that name, or None when headrace does not support it."""
    if name.startswith("Custom::") or name == "AWS::CloudFormation::CustomResource":
        from headrace.services.cloudformation.resources.types import cloudformation

        return cloudformation.custom_resource_type(name)
    namespace = _namespace_of(name)
    if namespace in FILES:
        _load(namespace)
    if name in _DECLARED:
        return _build_declared_type(name)
    return _CODED.get(name)


@functools.cache
def type_names() -> list[str]:
    """Return the names of AWS's types that headrace has, sorted."""
    names = (*list_coded_types(), *list_declared_types())
    return sorted(name for name in names if name.startswith("AWS::"))


def _load_all() -> None:
    for namespace in FILES:
        _load(namespace)


@functools.cache
def _load(namespace: str) -> None:
    """Take a namespace's types from its files."""
    package = f"{__name__}.types"
    files = [importlib.import_module(f"{package}.{name}") for name in FILES[namespace]]
    for file in files:
        _READINGS.update((rules.type, rules) for rules in getattr(file, "READINGS", ()))
    for file in files:
        _DECLARED.update((each.type, each) for each in getattr(file, "DECLARED", ()))
        for kind in getattr(file, "TYPES", ()):
            # The readings of another namespace may be in a file that is not imported yet.
            if _namespace_of(kind.name) == namespace:
                _CODED[kind.name] = replace(kind, reading=_READINGS.get(kind.name))


def _namespace_of(name: str) -> str:
    return name.removeprefix("AWS::").partition("::")[0]


@functools.cache
def _build_declared_type(name: str) -> ResourceType:
    """Return a declared type, built on first use, because that reads botocore's model of its service."""
    from headrace.services.cloudformation.resources.declared import resource_type_of

    return resource_type_of(_DECLARED[name], _READINGS.get(name))
