"""Gives each execution environment that runs in this process its own Python modules."""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
from collections.abc import Generator, Iterable
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)
from pathlib import Path
from types import ModuleType
from typing import Any

# These always come from the process, also if the function's folder has them: they carry requests to the cloud.
_SHARED = ("boto3", "botocore", "s3transfer", "urllib3", "jmespath", "dateutil", "awslambdaric")


class Modules:
    """The modules of one execution environment; they are in `sys.modules` only while it runs."""

    def __init__(self, folders: list[Path]) -> None:
        self._folders = [str(folder) for folder in folders]
        self._names = {name for folder in folders for name in _top_level(folder)} - set(_SHARED)
        self._own: dict[str, ModuleType] = {}

    @contextlib.contextmanager
    def entered(self) -> Generator[None]:
        """Install this environment's modules, and put its folders first on `sys.path`."""
        hidden = self._take(sys.modules) if self._names & sys.modules.keys() else {}
        last = next(reversed(sys.modules))
        sys.modules.update(self._own)
        loaded = len(sys.modules)
        sys.path[:0] = self._folders
        if not self._own:
            for folder in self._folders:
                sys.path_importer_cache[folder] = _finder(folder)
        try:
            yield
        finally:
            if len(sys.modules) == loaded:
                for name in self._own:
                    del sys.modules[name]
            else:
                self._own = self._take(_since(last, loaded - len(self._own)))
            sys.modules.update(hidden)
            for folder in self._folders:
                with contextlib.suppress(ValueError):
                    sys.path.remove(folder)

    def _take(self, among: Iterable[str]) -> dict[str, ModuleType]:
        """Remove from `sys.modules`, and return, the modules with this function's names."""
        own = self._names
        names = [name for name in among if name.partition(".")[0] in own]
        return {name: sys.modules.pop(name) for name in names}


def _since(last: str, loaded: int) -> Iterable[str]:
    """Return the modules loaded since `last` was the last of `loaded` names in `sys.modules`; all names if unsure.

    There are thousands of other modules: a search through all takes as long as a small function runs.
    """
    new = list(itertools.takewhile(lambda name: name != last, reversed(sys.modules)))
    return reversed(new) if len(sys.modules) - len(new) == loaded else list(sys.modules)


class _KeptSource(SourceFileLoader):
    """Loads a module's code; an unchanged file is read once for all environments."""

    def get_code(self, fullname: str) -> Any:
        """See `importlib.abc.InspectLoader`."""
        try:
            status = Path(self.path).stat()
        except OSError:
            return super().get_code(fullname)
        return _code_of(fullname, self.path, status.st_mtime_ns, status.st_size)


# Keyed by path, modification time and size.
@functools.lru_cache(maxsize=1000)
def _code_of(fullname: str, path: str, mtime_ns: int, size_bytes: int) -> Any:
    return SourceFileLoader(fullname, path).get_code(fullname)


def _finder(folder: str) -> FileFinder:
    """Return a finder for a folder's modules, with an empty cache: the folder may have new files."""
    return FileFinder(
        folder,
        (ExtensionFileLoader, EXTENSION_SUFFIXES),
        (_KeptSource, SOURCE_SUFFIXES),
        (SourcelessFileLoader, BYTECODE_SUFFIXES),
    )


def _top_level(folder: Path) -> list[str]:
    """Return the names of a folder's modules and packages."""
    if not folder.is_dir():
        return []
    names = [
        path.name.partition(".")[0]
        for path in folder.iterdir()
        if path.suffix in ("", ".py", ".so")
    ]
    return [name for name in names if name.isidentifier()]
