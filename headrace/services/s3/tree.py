"""Walks the files of a bucket in the order of their keys.

A page of a listing reads the folders that it needs, not the whole bucket. Symbolic links are neither followed nor
listed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from headrace.services.s3.places import is_hidden, is_plain, is_within


def iterate_keys(
    top: Path, *, prefix: str = "", after: str = "", roll: bool = False
) -> Iterator[str]:
    """Yield the keys of the files under `top`, in the order of their UTF-8 bytes.

    Args:
        top: a bucket's folder.
        prefix: yield only keys that start with this prefix.
        after: yield only keys above this key.
        roll: yield only the first key of each folder after `prefix`, for a listing with the delimiter `/`.
    """
    lead = prefix[: prefix.rfind("/") + 1]
    if lead and (not is_plain(lead[:-1]) or not is_within(top, lead[:-1])):
        return
    stack = [(_iterate_entries(top / lead, lead, prefix, after), False)]
    while stack:
        entries, _ = stack[-1]
        entry = next(entries, None)
        if entry is None:
            stack.pop()
            continue
        name, is_folder = entry
        if is_folder:
            stack.append(
                (_iterate_entries(top / name, name, prefix, after), roll and name > prefix)
            )
            continue
        yield name
        rolled = next((depth for depth, (_, once) in enumerate(stack) if once), None)
        if rolled is not None:
            del stack[rolled:]


def _iterate_entries(
    folder: Path, lead: str, prefix: str, after: str
) -> Iterator[tuple[str, bool]]:
    """Yield (key, False) for files and (key + `/`, True) for folders that a listing may need."""
    children: list[tuple[str, bool]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = lead + entry.name
                if entry.is_dir(follow_symlinks=False):
                    name += "/"
                    is_in_prefix = name.startswith(prefix) or prefix.startswith(name)
                    if is_in_prefix and (name > after or after.startswith(name)):
                        children.append((name, True))
                elif (
                    name > after
                    and name.startswith(prefix)
                    and not is_hidden(entry.name)
                    and _is_text(entry.name)
                    and entry.is_file(follow_symlinks=False)
                ):
                    children.append((name, False))
    except (FileNotFoundError, NotADirectoryError):
        return  # the folder was removed after its parent was read
    # The keys have no surrogates, so the order of code points is the order of UTF-8 bytes.
    children.sort()
    yield from children


def _is_text(name: str) -> bool:
    """Whether a file's name is valid UTF-8, as an S3 key must be."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
