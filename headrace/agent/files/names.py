"""Which files of a folder a flow follows, and which names rotation gives them afterwards."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

COMPRESSIONS = (".gz", ".bz2", ".xz")
_ROTATED = re.compile(r"[-._]?(?:\d[\d._:T+-]*|old|bak|prev)(\.[A-Za-z][\w.]*)?")


@dataclass(frozen=True, slots=True)
class Entry:
    """A file that was listed.

    Attributes:
        path: where it lies.
        matches: whether its name is one that the flow follows; otherwise rotation gave it the name.
        base: the name before rotation; the name itself when it was not rotated.
        is_compressed: whether its name says so.
    """

    path: Path
    matches: bool
    base: str
    is_compressed: bool


@dataclass(frozen=True, slots=True)
class FilePattern:
    """The files of a folder whose names `matches` takes. Rotated ones may lie in a folder below it (`olddir`)."""

    folder: Path
    matches: Callable[[str], bool]

    def entries(self) -> Iterator[Entry]:
        """Yield the files that match, and those that rotation has made of such files. Raises OSError."""
        folders: list[str] = []
        with os.scandir(self.folder) as listing:
            for item in listing:
                if item.is_dir(follow_symlinks=False):
                    folders.append(item.path)
                elif entry := self.entry(Path(item.path)):
                    yield entry
        for folder in folders:
            try:
                with os.scandir(folder) as listing:
                    names = [item.path for item in listing if item.is_file()]
            except OSError:
                continue  # Another's folder; what is the flow's own lies beside it.
            for name in names:
                entry = self.entry(Path(name))
                if entry is not None and (entry.base != entry.path.name):
                    yield Entry(entry.path, False, entry.base, entry.is_compressed)

    def entry(self, path: Path) -> Entry | None:
        """Return what a path is to this flow; None for nothing."""
        name = path.name
        matches = self.matches(name)
        base = self._base(name)
        if not matches and base is None:
            return None
        return Entry(path, matches, base or name, name.endswith(COMPRESSIONS))

    def _base(self, name: str) -> str | None:
        """Return the name that a rotated file had; None when it does not look rotated."""
        plain = name
        for ending in COMPRESSIONS:
            plain = plain.removesuffix(ending)
        for cut in range(1, len(plain)):
            rotated = _ROTATED.fullmatch(plain, cut)
            base = plain[:cut] + (rotated[1] or "") if rotated else ""
            if base and self.matches(base):
                return base
        return plain if plain != name and self.matches(plain) else None
