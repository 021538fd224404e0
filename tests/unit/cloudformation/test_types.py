"""The table that says in which file a namespace's types are, and when a file is imported."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

from headrace.services.cloudformation.resources import resource_type, types
from headrace.services.cloudformation.resources.types import FILES

NAMES = sorted({name for names in FILES.values() for name in names})
# What moto gets for API Gateway's types.
HELPERS = {"apigateway_patches"}
LOOK_FOR_A_BUCKET = """
import sys
from headrace.services.cloudformation.resources import resource_type
assert resource_type("AWS::S3::Bucket") is not None
folder = "headrace.services.cloudformation.resources.types."
print(*sorted(name.removeprefix(folder) for name in sys.modules if name.startswith(folder)))
"""


def import_file(name: str) -> ModuleType:
    return importlib.import_module(f"{types.__name__}.{name}")


def namespaces_in(file: ModuleType) -> set[str]:
    kinds = [kind.name for kind in getattr(file, "TYPES", ())]
    kinds += [
        each.type for member in ("DECLARED", "READINGS") for each in getattr(file, member, ())
    ]
    return {kind.split("::")[1] for kind in kinds}


@pytest.mark.parametrize("namespace", FILES)
def test_a_file_that_the_table_names_has_types_of_the_namespace(namespace: str):
    without = [n for n in FILES[namespace] if namespace not in namespaces_in(import_file(n))]
    assert without == []


def test_the_table_names_every_file_of_every_namespace():
    named = {(namespace, name) for namespace, names in FILES.items() for name in names}
    assert {(space, name) for name in NAMES for space in namespaces_in(import_file(name))} == named
    assert set(NAMES) == {one.name for one in pkgutil.iter_modules(types.__path__)} - HELPERS


def test_no_two_files_have_one_type():
    files = [import_file(name) for name in NAMES]
    kinds = [kind.name for file in files for kind in getattr(file, "TYPES", ())]
    kinds += [declared.type for file in files for declared in getattr(file, "DECLARED", ())]
    assert len(kinds) == len(set(kinds))


def test_a_type_imports_only_the_files_of_its_namespace():
    program = [sys.executable, "-c", LOOK_FOR_A_BUCKET]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert done.stdout.split() == list(FILES["S3"])


def test_a_name_without_a_namespace_of_aws_has_no_type():
    for name in ("", "S3", "S3::Bucket", "AWS::", "AWS::S3", "AWS::Nowhere::Thing"):
        assert resource_type(name) is None, name
