"""Finds the file of each key in its bucket's folder.

A key that can be a relative path is that path, so that Spark reads and writes it as a file. The file of any other
legal key (`..`, `a//b`, `a/`, a component over 255 bytes, ...) is named by a digest and lies where Spark does not look:
nothing is ever written outside the data directory, and no legal key is refused.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

MAX_COMPONENT_BYTES = 255


def is_hidden(file_name: str) -> bool:
    """Whether a file is a checksum that Hadoop wrote beside a file, and so no object."""
    return file_name.startswith(".") and file_name.endswith(".crc")


def is_plain(key: str) -> bool:
    """Whether `key` can be a file of that relative path."""
    if "\0" in key or not key:
        return False
    return all(
        component not in ("", ".", "..")
        and len(component.encode()) <= MAX_COMPONENT_BYTES
        and not is_hidden(component)
        for component in key.split("/")
    )


def escaped_name(key: str) -> str:
    """Return the file name of a key that cannot be a path."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def plain_path(top: Path, key: str) -> Path | None:
    """Return the plain file of a key; None when the key cannot be a path or a symbolic link is on the way to it."""
    if not is_plain(key):
        return None
    return top / key if is_within(top, key.rpartition("/")[0]) else None


def places(top: Path, escape_folder: Path, key: str) -> tuple[Path | None, Path]:
    """Return the plain file of a key, None as for `plain_path`, and its file in the escape folder."""
    return plain_path(top, key), escape_folder / escaped_name(key)


def is_within(top: Path, folder: str) -> bool:
    """Whether a relative path, empty for `top` itself, is reached from `top` without a symbolic link."""
    path = str(top)
    for part in folder.split("/") if folder else ():
        path = f"{path}/{part}"
        if os.path.islink(path):  # noqa: PTH114 - on the way of every request
            return False
    return True
