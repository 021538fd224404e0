"""Runs first in every Python of a local step on Spark 3.5: makes `format("aws-kinesis")` work once PySpark is loaded.

For the PYTHONPATH of local steps only, never for EMR, whose image has the connector itself. Python imports a module of
this name at its start; this module then also runs the next one of that name on the path (an image's, a distribution's).
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

_HERE = Path(__file__).resolve().parent
_WATCHED = "pyspark.sql.streaming.readwriter"


class _Announced(Loader):
    """Loads a module unchanged, then patches the connector into it."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        if hasattr(self._loader, "exec_module"):
            self._loader.exec_module(module)
        else:
            # The loader of a zip in Python 3.9: PySpark is in a zip when spark-submit starts the job.
            self._loader.load_module(module.__name__)
        from headrace_aws_kinesis import answer

        answer(module)


class _Finder(MetaPathFinder):
    """Finds the one module that is watched, once."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _WATCHED:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Announced(spec.loader)
        return spec


def _run_the_next() -> None:
    others = [entry for entry in sys.path if Path(entry or ".").resolve() != _HERE]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


sys.meta_path.insert(0, _Finder())
_run_the_next()
