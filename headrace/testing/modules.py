"""The modules of a function that runs in this process: each execution environment has its own."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator
from pathlib import Path
from types import ModuleType
from typing import Any

# A function that brings these in its folder gets those of the process: they are what carries requests to the cloud.
_SHARED = ("boto3", "botocore", "s3transfer", "urllib3", "jmespath", "dateutil", "awslambdaric")


class Modules:
    """The modules of one execution environment, which are in `sys.modules` only while it runs."""

    def __init__(self, folders: list[Path]) -> None:
        self._folders = [str(folder) for folder in folders]
        self._names = {name for folder in folders for name in _top_level(folder)} - set(_SHARED)
        self._own: dict[str, ModuleType] = {}

    @contextlib.contextmanager
    def entered(self) -> Generator[None]:
        """Have this environment's modules, and its folders first on the path."""
        hidden = self._take() if self._names & sys.modules.keys() else {}
        sys.modules.update(self._own)
        loaded = len(sys.modules)
        sys.path[:0] = self._folders
        if not self._own:
            for folder in self._folders:
                if (finder := sys.path_importer_cache.get(folder)) is not None:
                    _forget_files(finder)
        try:
            yield
        finally:
            if len(sys.modules) == loaded:
                for name in self._own:
                    del sys.modules[name]
            else:
                self._own = self._take()
            sys.modules.update(hidden)
            for folder in self._folders:
                with contextlib.suppress(ValueError):
                    sys.path.remove(folder)

    def _take(self) -> dict[str, ModuleType]:
        """Take the modules with this function's names out of those that are loaded."""
        packages = tuple(f"{name}." for name in self._names)
        names = [name for name in sys.modules if name in self._names or name.startswith(packages)]
        return {name: sys.modules.pop(name) for name in names}


def _forget_files(finder: Any) -> None:
    """Have a finder look at its folder again: files there may be new."""
    if hasattr(finder, "invalidate_caches"):
        finder.invalidate_caches()


def _top_level(folder: Path) -> list[str]:
    """Return the names of a folder's modules and packages."""
    if not folder.is_dir():
        return []
    found = [
        path.name.partition(".")[0]
        for path in folder.iterdir()
        if path.suffix in ("", ".py", ".so")
    ]
    return [name for name in found if name.isidentifier()]
