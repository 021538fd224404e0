"""The table that says in which file a namespace's types are."""

from __future__ import annotations

import pkgutil
from types import ModuleType

import pytest

from headrace.services.cloudformation.resources import types
from headrace.services.cloudformation.resources.types import FILES


def namespaces_in(module: ModuleType) -> set[str]:
    kinds = [kind.name for kind in getattr(module, "TYPES", ())]
    kinds += [declared.type for declared in getattr(module, "DECLARED", ())]
    return {kind.split("::")[1] for kind in kinds}


@pytest.mark.parametrize("namespace", FILES)
def test_a_file_that_the_table_names_has_types_of_the_namespace(namespace: str):
    without = [one.__name__ for one in FILES[namespace] if namespace not in namespaces_in(one)]
    assert without == []


def test_the_table_names_every_file_of_every_namespace():
    modules = {module for files in FILES.values() for module in files}
    named = {(name, module) for name, files in FILES.items() for module in files}
    assert {(name, module) for module in modules for name in namespaces_in(module)} == named
    files = {one.name for one in pkgutil.iter_modules(types.__path__)}
    # What moto gets for API Gateway's types.
    helpers = {"apigateway_patches"}
    assert {module.__name__.rpartition(".")[2] for module in modules} == files - helpers
