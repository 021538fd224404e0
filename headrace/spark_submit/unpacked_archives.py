"""Unpacks a job's archives, and keeps what a large one holds for the next job that brings the same one.

To unpack the packages of a job takes seconds, and its Python then compiles their modules, for as long again. So what
is unpacked is kept beside the environments of Sparks, under the archive's digest, and a job's folder is made from it:
libraries and Python's packages are hard links, everything else is a copy, since a program may change its data in place.
If what is kept was changed nevertheless, the archive is unpacked again. Python finds and leaves compiled modules in a
folder that all these jobs share: it judges each by its source's time and size.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.spark_submit.environments import cache_folder, hold_lock, is_trusted

# Smaller archives are unpacked at once.
LEAST_BYTES = 8 * 1024 * 1024
# The archives that were used last are kept.
MOST_KEPT = 3
# What programs only read, beside the files of Python's packages.
_LINKED = re.compile(r".*\.(py|pyi|so(\.[\d.]+)?)")
_KINDS = {".zip": "zip", ".jar": "zip", ".tar": "tar", ".tgz": "gztar", ".tar.gz": "gztar"}
# What `shutil` lets through of an archive that is cut off, damaged, encrypted, or compressed in an unknown way.
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)
_COMPILED = "__pycache__"
_FILES, _BYTECODE, _NOTE = "files", "bytecode", "files.json"


class _Changed(Exception):
    """A file that is kept is not as it was when it was unpacked."""


def kind_of(archive: Path) -> str | None:
    """Return the format of an archive by its name, as `shutil` names it; None for another file."""
    return next((kind for end, kind in _KINDS.items() if archive.name.endswith(end)), None)


def unpack(archive: Path, kind: str, target: Path) -> None:
    """Unpack an archive into a folder. Raises OSError, also if it is no archive."""
    if archive.stat().st_size >= LEAST_BYTES and not os.path.lexists(target):
        # A cache that cannot be used, or cannot hold this archive, is no reason to refuse the job.
        with contextlib.suppress(OSError, _Changed):
            _make_from_kept(archive, kind, target)
            return
        shutil.rmtree(target, ignore_errors=True)
    _unpack(archive, kind, target)


def keep(archive: Path, kind: str) -> None:
    """Unpack an archive for the jobs that will bring it. Raises OSError."""
    with _locked_folder() as folder:
        _find_or_make(folder, archive, kind)


def _unpack(archive: Path, kind: str, target: Path) -> None:
    # Archived environments have links to the machine's Python, which the filter `data` would refuse.
    given: dict[str, Any] = {} if kind == "zip" else {"filter": "tar"}
    try:
        shutil.unpack_archive(archive, target, kind, **given)
    except _DAMAGED as error:
        raise shutil.ReadError(f"{archive} is damaged: {error}") from error


@contextlib.contextmanager
def _locked_folder() -> Generator[Path]:
    folder = cache_folder() / "archives"
    folder.mkdir(parents=True, exist_ok=True)
    if not is_trusted(folder):
        raise PermissionError(f"{folder} belongs to another user")
    with hold_lock(folder, lambda _: None):
        yield folder


def _make_from_kept(archive: Path, kind: str, target: Path) -> None:
    with _locked_folder() as folder:
        kept = _find_or_make(folder, archive, kind)
        try:
            _copy(kept, target)
        except _Changed:
            shutil.rmtree(target)
            shutil.rmtree(kept)
            _copy(_find_or_make(folder, archive, kind), target)


def _find_or_make(folder: Path, archive: Path, kind: str) -> Path:
    with archive.open("rb") as file:
        kept = folder / hashlib.file_digest(file, "sha256").hexdigest()
    if kept.is_dir():
        kept.touch()
        return kept
    for left in folder.glob(".part-*"):
        shutil.rmtree(left)
    used = sorted(folder.glob("[!.]*"), key=lambda path: path.stat().st_mtime_ns)
    for old in used[: len(used) + 1 - MOST_KEPT]:
        shutil.rmtree(old)
    part = folder / f".part-{secrets.token_hex(4)}"
    part.mkdir(mode=0o700)
    try:
        _unpack(archive, kind, part / _FILES)
        (part / _NOTE).write_text(json.dumps(_describe_files(part / _FILES)))
        part.rename(kept)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return kept


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder below the one that is walked; `in_package`: it is a Python package, or below one."""

    path: str
    mode: int
    folders: list[str]
    others: list[tuple[str, os.stat_result]]
    in_package: bool


def _walk(root: Path) -> Iterator[_Folder]:
    """Yield `root` and each folder below it, from the top down."""
    below = [("", root.stat().st_mode, False)]
    while below:
        path, mode, in_package = below.pop()
        with os.scandir(f"{root}/{path}") as entries:
            found = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
        folders = [(name, of.st_mode) for name, of in found if stat.S_ISDIR(of.st_mode)]
        others = [(name, of) for name, of in found if not stat.S_ISDIR(of.st_mode)]
        in_package = in_package or any(name == "__init__.py" for name, _ in others)
        yield _Folder(path, mode, [name for name, _ in folders], others, in_package)
        below += [(f"{path}/{name}", of_mode, in_package) for name, of_mode in folders]


def _describe(found: os.stat_result) -> list[int]:
    return [found.st_mode, found.st_size, found.st_mtime_ns]


def _describe_files(root: Path) -> dict[str, list[int]]:
    """Return what tells whether a file below a folder was changed, by its path."""
    return {
        f"{folder.path}/{name}": _describe(found)
        for folder in _walk(root)
        for name, found in folder.others
    }


def _copy(kept: Path, target: Path) -> None:
    """Make a job's folder of what is kept. Raises OSError, _Changed."""
    noted = json.loads((kept / _NOTE).read_text())
    modes: list[tuple[Path, int]] = []
    for folder in _walk(kept / _FILES):
        made = Path(f"{target}{folder.path}")
        made.mkdir()
        modes.append((made, stat.S_IMODE(folder.mode)))
        for name, found in folder.others:
            path = f"{folder.path}/{name}"
            if noted.pop(path, None) != _describe(found):
                raise _Changed(path)
            is_linked = folder.in_package or _LINKED.fullmatch(name) is not None
            _copy_file(f"{kept}/{_FILES}{path}", f"{target}{path}", found, is_linked=is_linked)
        has_modules = any(name.endswith(".py") for name, _ in folder.others)
        if has_modules and _COMPILED not in folder.folders:
            bytecode = Path(f"{kept}/{_BYTECODE}{folder.path}")
            bytecode.mkdir(parents=True, exist_ok=True)
            (made / _COMPILED).symlink_to(bytecode)
    if noted:
        raise _Changed(next(iter(noted)))
    for made, mode in reversed(modes):
        made.chmod(mode)


def _copy_file(source: str, copy: str, found: os.stat_result, *, is_linked: bool) -> None:
    if stat.S_ISREG(found.st_mode):
        if is_linked:
            # Data directory and cache may be on two file systems.
            with contextlib.suppress(OSError):
                os.link(source, copy)
                return
        shutil.copy2(source, copy)
    elif stat.S_ISLNK(found.st_mode):
        Path(copy).symlink_to(Path(source).readlink())
    else:
        raise OSError(f"{source} is neither a file nor a link")
