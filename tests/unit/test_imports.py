"""No module imports itself by way of others: not at run time, nor for types only, nor inside a function."""

from __future__ import annotations

import importlib
from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


def circle(*packages: str) -> list[str]:
    """Return one circle of imports in the packages, the first module again at its end; empty when there is none."""
    graph = grimp.build_graph(*packages, cache_dir=None)
    arrows = {
        module: graph.find_modules_directly_imported_by(module) & graph.modules
        for module in graph.modules
    }
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_there_is_no_circle_of_imports() -> None:
    assert circle("headrace", "scripts") == []


def test_a_circle_would_be_found(tmp_path, monkeypatch) -> None:
    package = tmp_path / "circular"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "one.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import circular.two\n"
    )
    (package / "two.py").write_text("def late():\n    import circular.one\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert sorted(set(circle("circular"))) == ["circular.one", "circular.two"]


@pytest.mark.parametrize("package", ["headrace.client", "headrace.testing"])
def test_every_public_name_is_where_its_package_looks_for_it(package: str) -> None:
    module = importlib.import_module(package)
    assert [name for name in module.__all__ if getattr(module, name, None) is None] == []
