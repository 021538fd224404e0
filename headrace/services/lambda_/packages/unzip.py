"""Unpacks a deployment package without writing any file, link or byte outside the target directory.

A zip file is untrusted input. Names are checked before anything is written. Sizes are counted during unpacking, because
the sizes that the archive declares may be wrong. Links are made last, so that no file is written through a link.
"""

from __future__ import annotations

import errno
import shutil
import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from headrace.services.lambda_.errors import UnsafeArchive, UnzippedTooLarge
from headrace.services.lambda_.limits import UNZIPPED_BYTES, ZIP_ENTRIES

_CHUNK_BYTES = 1024 * 1024
_LINK_BYTES = 4096
# The compression methods for which zipfile unpacks only as much as is read. It unpacks bzip2 and LZMA without a bound,
# and a kilobyte of these can become gigabytes. That Lambda refuses them is assumed; no tool makes them by default.
_BOUNDED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def unzip(archive: Path, target: Path, *, most_bytes: int = UNZIPPED_BYTES) -> int:
    """Unpack `archive` into `target`, which must not exist; return the unpacked size in bytes.

    Raises UnsafeArchive or UnzippedTooLarge, and then leaves no `target` behind.
    """
    target.mkdir(parents=True)
    try:
        with zipfile.ZipFile(archive) as opened:
            return _Unpacking(opened, target, most_bytes).run()
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        # zipfile raises RuntimeError for an encrypted entry.
        shutil.rmtree(target, ignore_errors=True)
        raise UnsafeArchive(str(error)) from error
    except (OSError, ValueError) as error:
        shutil.rmtree(target, ignore_errors=True)
        if isinstance(error, UnsafeArchive | UnzippedTooLarge):
            raise
        # For example, a name is too long for the file system, or a file is where a directory must be.
        raise UnsafeArchive(str(error)) from error


class _Unpacking:
    def __init__(self, archive: zipfile.ZipFile, target: Path, most_bytes: int) -> None:
        self._archive = archive
        self._target = target
        self._most_bytes = most_bytes
        self._written_bytes = 0

    def run(self) -> int:
        entries = self._archive.infolist()
        if len(entries) > ZIP_ENTRIES:
            raise UnsafeArchive(f"{len(entries)} entries")
        if sum(entry.file_size for entry in entries) >= self._most_bytes:
            raise UnzippedTooLarge(self._most_bytes)
        links: list[tuple[Path, str]] = []
        for entry in entries:
            if entry.compress_type not in _BOUNDED:
                raise UnsafeArchive(
                    f"{entry.filename} is compressed by a method other than deflate"
                )
            path = self._target.joinpath(*split_safely(entry.filename))
            mode = entry.external_attr >> 16
            if entry.is_dir():
                path.mkdir(parents=True, exist_ok=True)
            elif stat.S_ISLNK(mode):
                links.append((path, self._link_target(entry)))
            elif stat.S_IFMT(mode) in (0, stat.S_IFREG):
                self._write(entry, path, mode)
            else:
                raise UnsafeArchive(f"{entry.filename} is neither a file nor a symbolic link")
        self._make_links(links)
        return self._written_bytes

    def _write(self, entry: zipfile.ZipInfo, path: Path, mode: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._archive.open(entry) as source, path.open("wb") as sink:
            while chunk := source.read(_CHUNK_BYTES):
                self._written_bytes += len(chunk)
                if self._written_bytes >= self._most_bytes:
                    raise UnzippedTooLarge(self._most_bytes)
                sink.write(chunk)
        # Make the file readable whatever the archive says, as AWS does in /var/task.
        path.chmod(0o644 | (mode & 0o111))

    def _link_target(self, entry: zipfile.ZipInfo) -> str:
        with self._archive.open(entry) as source:
            # Read no more than this: the size that the entry declares may be wrong.
            content = source.read(_LINK_BYTES + 1)
        if len(content) > _LINK_BYTES or entry.file_size > _LINK_BYTES:
            raise UnsafeArchive(f"{entry.filename} is a link of over {_LINK_BYTES} bytes")
        return content.decode("utf-8", "strict")

    def _make_links(self, links: list[tuple[Path, str]]) -> None:
        root = self._target.resolve()
        for path, destination in links:
            path.parent.mkdir(parents=True, exist_ok=True)
            # A link that was made before may be part of the parent's path.
            if not path.parent.resolve().is_relative_to(root) or not destination:
                raise UnsafeArchive(f"{path.name} links out of the package")
            path.unlink(missing_ok=True)
            path.symlink_to(destination)
            if PurePosixPath(destination).is_absolute():
                raise UnsafeArchive(f"{path.name} links out of the package")
        # Check the links when all exist, because one link may lead through another.
        for path, _ in links:
            if _is_circular(path):
                raise UnsafeArchive(f"{path.name} is a link that leads back to itself")
            if not path.resolve().is_relative_to(root):
                raise UnsafeArchive(f"{path.name} links out of the package")


def _is_circular(link: Path) -> bool:
    """Whether a link leads back to itself; the operating system decides.

    `Path.resolve` raises an error for such a link up to Python 3.12, and returns the link unchanged from 3.13 on.
    """
    try:
        link.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def split_safely(name: str) -> tuple[str, ...]:
    """Return the path parts of an entry's name. Raises UnsafeArchive for absolute paths and for `..`."""
    parts = name.replace("\\", "/").split("/")
    kept = tuple(part for part in parts if part not in ("", "."))
    drive = len(parts[0]) == 2 and parts[0][1] == ":"
    if name.startswith(("/", "\\")) or drive or ".." in kept or "\0" in name:
        raise UnsafeArchive(f"unsafe entry name {name!r}")
    return kept
