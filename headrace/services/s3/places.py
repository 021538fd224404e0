"""Finds the path of each key's file.

A key that can be a relative path is that path in the bucket's folder, so that Spark reads and writes it as a file. The
file of any other legal key (`..`, `a//b`, `a/`, a component over 255 bytes, ...) is in the escape folder, where Spark
does not look, and its name is a digest. So S3 never writes outside the data directory, and refuses no legal key.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

MAX_COMPONENT_BYTES = 255


def is_hidden(file_name: str) -> bool:
    """Whether a file is a checksum file of Hadoop, which is not an object."""
    return file_name.startswith(".") and file_name.endswith(".crc")


def is_plain(key: str) -> bool:
    """Whether `key` can be the relative path of a file."""
    if "\0" in key or not key:
        return False
    return all(
        component not in ("", ".", "..")
        and len(component.encode()) <= MAX_COMPONENT_BYTES
        and not is_hidden(component)
        for component in key.split("/")
    )


def build_escaped_name(key: str) -> str:
    """Return the file name of a key that cannot be a path."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def find_plain_path(top: Path, key: str) -> Path | None:
    """Return the plain file of a key, or None when the key cannot be a path or the path has a symbolic link."""
    if not is_plain(key):
        return None
    return top / key if is_within(top, key.rpartition("/")[0]) else None


def find_places(top: Path, escape_folder: Path, key: str) -> tuple[Path | None, Path]:
    """Return the plain file of a key (None in the cases of `find_plain_path`) and its file in the escape folder."""
    return find_plain_path(top, key), escape_folder / build_escaped_name(key)


def is_within(top: Path, folder: str) -> bool:
    """Whether no symbolic link is on the relative path from `top`; "" is `top` itself."""
    path = str(top)
    for part in folder.split("/") if folder else ():
        path = f"{path}/{part}"
        if os.path.islink(path):  # noqa: PTH114 - os.path is faster, and every request comes here
            return False
    return True
