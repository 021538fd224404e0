"""The modules of a function that runs in this process: each execution environment has its own."""

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
        """Take the modules with this function's names out of those that are loaded."""
        own = self._names
        names = [name for name in among if name.partition(".")[0] in own]
        return {name: sys.modules.pop(name) for name in names}


def _since(last: str, loaded: int) -> Iterable[str]:
    """Return the names of the modules that have come since `last` did, as the last of so many; or those of all.

    There are thousands of others: looking through them takes as long as a small function runs.
    """
    new = list(itertools.takewhile(lambda name: name != last, reversed(sys.modules)))
    return reversed(new) if len(sys.modules) - len(new) == loaded else list(sys.modules)


class _KeptSource(SourceFileLoader):
    """Loads a module's code; that of a file that has not changed is read once for all environments."""

    def get_code(self, fullname: str) -> Any:
        """See `importlib.abc.InspectLoader`."""
        try:
            status = Path(self.path).stat()
        except OSError:
            return super().get_code(fullname)
        return _code_of(fullname, self.path, status.st_mtime_ns, status.st_size)


# By the file, its time of change and its size.
@functools.lru_cache(maxsize=1000)
def _code_of(fullname: str, path: str, mtime_ns: int, size_bytes: int) -> Any:
    return SourceFileLoader(fullname, path).get_code(fullname)


def _finder(folder: str) -> FileFinder:
    """Return what finds the modules of a folder, looking at it anew: files there may be new."""
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
    found = [
        path.name.partition(".")[0]
        for path in folder.iterdir()
        if path.suffix in ("", ".py", ".so")
    ]
    return [name for name in found if name.isidentifier()]
