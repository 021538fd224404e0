"""Copies a small folder again and again: what is in it is read once."""

from __future__ import annotations

import functools
from pathlib import Path

# Folders and then files, by their paths below the folder.
Contents = tuple[tuple[str, ...], tuple[tuple[str, bytes], ...]]


def copy(folder: Path, target: Path) -> None:
    """Copy what is in a folder, which nobody writes to, into one that is there. Raises OSError."""
    folders, files = _contents(folder, folder.stat().st_mtime_ns)
    for name in folders:
        Path(target, name).mkdir()
    for name, data in files:
        with (target / name).open("xb", buffering=0) as file:
            file.write(data)


@functools.lru_cache(maxsize=32)
def _contents(folder: Path, mtime_ns: int) -> Contents:
    """Return what was in a folder when it was last changed. It is kept: such folders hold a megabyte."""
    below = sorted(folder.rglob("*"))
    return (
        tuple(str(path.relative_to(folder)) for path in below if path.is_dir()),
        tuple(
            (str(path.relative_to(folder)), path.read_bytes()) for path in below if path.is_file()
        ),
    )
