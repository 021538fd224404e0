"""The code of all modules that a cloud imports, in one file: a start reads it instead of a thousand files.

Python looks for each module's folder, source and bytecode, and reads the bytecode: 0.1 ms a module, a sixth of the time
until a cloud answers. The pack lies with headrace's own bytecode and holds copies of what Python has compiled. Each is
used as Python uses bytecode: only while its source has the size and the time of change that it was compiled from, and
is the source that Python itself finds.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import logging
import marshal
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

log = logging.getLogger(__name__)

FILE = Path(__file__).parents[1] / "__pycache__" / f"start.{sys.implementation.cache_tag}.pack"
_HEADER_BYTES = 16
_NUMBER_BYTES = 8
_PACKAGE = f"{os.sep}__init__.py"
# A pack is written anew when it lacks more than this share of what was imported.
_MOST_MISSED = 0.05

# What damaged bytes raise.
_UNREADABLE = (OSError, EOFError, ValueError, TypeError, OverflowError, MemoryError)

# A module's source, its time of change in ns, its size; where its code begins in the pack, and how long it is.
Entry = tuple[str, int, int, int, int]


def use_pack(file: Path = FILE) -> None:
    """Let modules be imported from the pack, unless Python was told to keep bytecode elsewhere or in another form.

    Whoever watches imports sees them first, as without the pack.
    """
    if sys.pycache_prefix is None and sys.flags.optimize == 0 and PathFinder in sys.meta_path:
        sys.meta_path.insert(sys.meta_path.index(PathFinder), CodePack(file))


def keep_pack() -> None:
    """Write the pack of what is imported now, unless it has most of that already."""
    for finder in sys.meta_path:
        if isinstance(finder, CodePack):
            finder.keep()


class CodePack(importlib.abc.MetaPathFinder):
    """Finds modules whose source is as the pack's writer saw it; all others are left to Python's own finders."""

    def __init__(self, file: Path) -> None:
        """Open the pack. It may be missing, or made for another Python: then nothing is found."""
        self._file = file
        self._imported_before = frozenset(sys.modules)
        self._descriptor = -1
        self._entries: Mapping[str, Entry] = {}
        try:
            self._descriptor = os.open(file, os.O_RDONLY)
            magic_number, entries = marshal.loads(self._read_index())
        except _UNREADABLE:
            return
        if magic_number == importlib.util.MAGIC_NUMBER:
            self._entries = entries

    def _read_index(self) -> bytes:
        end = os.fstat(self._descriptor).st_size - _NUMBER_BYTES
        begin = int.from_bytes(os.pread(self._descriptor, _NUMBER_BYTES, max(end, 0)), "little")
        return os.pread(self._descriptor, max(end - begin, 0), begin)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        entry = self._entries.get(fullname)
        if entry is None:
            return None
        source, changed_ns, size, begin, length = entry
        if not _is_found(fullname, source, path):
            return None
        try:
            now = os.stat(source)  # noqa: PTH116 (a Path costs as much again)
        except OSError:
            return None
        if now.st_mtime_ns != changed_ns or now.st_size != size:
            return None
        return importlib.util.spec_from_file_location(
            fullname,
            source,
            loader=_Loader(fullname, source, (self._descriptor, length, begin)),
            submodule_search_locations=(
                [source.removesuffix(_PACKAGE)] if source.endswith(_PACKAGE) else None
            ),
        )

    def keep(self) -> None:
        """See `keep_pack`."""
        if sys.dont_write_bytecode:
            return
        try:
            self._keep(self._compiled_modules())
        except OSError as error:
            # Whoever may not write beside the package starts as before, and so does one whose sources are replaced now.
            log.debug("no pack of code: %s", error)

    def _keep(self, modules: Mapping[str, tuple[Path, Path]]) -> None:
        missed = sum(self._is_missed(name, source) for name, (source, _) in modules.items())
        if missed <= _MOST_MISSED * len(modules):
            return
        # A process that was killed here has left its part.
        for left in self._file.parent.glob(f"{self._file.stem}.[0-9]*"):
            left.unlink(missing_ok=True)
        whole = self._file.with_suffix(f".{os.getpid()}")
        try:
            self._write(whole, modules)
            whole.replace(self._file)
        finally:
            whole.unlink(missing_ok=True)

    def _is_missed(self, name: str, source: Path) -> bool:
        entry = self._entries.get(name)
        return entry is None or (entry[0], entry[1]) != (str(source), source.stat().st_mtime_ns)

    def _compiled_modules(self) -> dict[str, tuple[Path, Path]]:
        """Return the source and the bytecode of each module that was imported since, and has both."""
        modules: dict[str, tuple[Path, Path]] = {}
        for name, module in list(sys.modules.items()):
            spec: ModuleSpec | None = getattr(module, "__spec__", None)
            if spec is None or name in self._imported_before or spec.name != name:
                continue
            # What changes a module while it loads has a loader of its own.
            if (
                type(spec.loader) in _LOADERS
                and spec.origin is not None
                and spec.cached is not None
            ):
                source, cached = Path(spec.origin), Path(spec.cached)
                if source.exists() and cached.exists():
                    modules[name] = source, cached
        return modules

    def _write(self, file: Path, modules: Mapping[str, tuple[Path, Path]]) -> None:
        """Write the pack of these modules, without those whose source has changed since it was compiled."""
        entries: dict[str, Entry] = {}
        with file.open("xb") as out:
            for name, (source, cached) in modules.items():
                code, stat = cached.read_bytes(), source.stat()
                if code[:_HEADER_BYTES] == _header_of(stat):
                    length = len(code) - _HEADER_BYTES
                    entries[name] = str(source), stat.st_mtime_ns, stat.st_size, out.tell(), length
                    out.write(code[_HEADER_BYTES:])
            begin = out.tell()
            out.write(marshal.dumps((importlib.util.MAGIC_NUMBER, entries)))
            out.write(begin.to_bytes(_NUMBER_BYTES, "little"))


class _Loader(SourceFileLoader):
    """Python's own loader of a source, whose code is in the pack."""

    def __init__(self, name: str, source: str, place: tuple[int, int, int]) -> None:
        super().__init__(name, source)
        self._place = place

    def get_code(self, fullname: str) -> CodeType | None:
        """See `importlib.abc.InspectLoader`."""
        try:
            code = marshal.loads(os.pread(*self._place))
        except _UNREADABLE:
            return super().get_code(fullname)
        # Code that was compiled elsewhere names another source, until Python's own loader has put it right.
        is_here = isinstance(code, CodeType) and code.co_filename == self.path
        return code if is_here else super().get_code(fullname)


_LOADERS = (SourceFileLoader, _Loader)


def _is_found(name: str, source: str, path: Sequence[str] | None) -> bool:
    """Return whether Python finds this source first: in the folder of the package, or on its own path as it is now."""
    if path is not None:
        return list(path) == [os.path.dirname(source.removesuffix(_PACKAGE))]  # noqa: PTH120 (as above)
    found = PathFinder.find_spec(name)
    return found is not None and found.origin == source


def _header_of(source: os.stat_result) -> bytes:
    """Return how bytecode begins that was compiled from a source: with its time of change and its size."""
    numbers = (int(source.st_mtime), source.st_size)
    times = b"".join((number & 0xFFFFFFFF).to_bytes(4, "little") for number in numbers)
    return importlib.util.MAGIC_NUMBER + bytes(4) + times
