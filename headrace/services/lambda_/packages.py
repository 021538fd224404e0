"""Deployment packages on disk: each zip file is stored and unpacked once, under the SHA-256 of its bytes.

Unpacks a deployment package without writing any file, link or byte outside the target directory.

A zip file is untrusted input. Names are checked before anything is written. Sizes are counted during unpacking, because
the sizes that the archive declares may be wrong. Links are made last, so that no file is written through a link.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import os
import shutil
import stat
import threading
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import BucketNotFound, ObjectNotFound, ObjectStore
from headrace.services.lambda_.errors import (
    DIRECT_ZIP_BYTES,
    NO_IMAGES,
    UNZIPPED_BYTES,
    ZIP_ENTRIES,
    UnsafeArchive,
    UnzippedTooLarge,
    invalid_parameter,
)

# The path of the URLs from which packages can be downloaded.
CODE_PATH = "/2015-03-31/headrace/code/"
_READ_BYTES = 1024 * 1024


# If S3Bucket is one of these names, S3Key is a folder on this machine. The second name is LocalStack's.
LOCAL_BUCKETS = ("headrace-local", "hot-reload")
_LOCAL = "local:"
_MOST_FILES = 20_000
_LOOK_EVERY_S = 0.2
_MOST_SEEN = 1000


@dataclass(frozen=True, slots=True)
class Package:
    """A stored deployment package, or a folder on this machine that is used in place.

    `digest` is the zip file's SHA-256 in hexadecimal, or `local:` and the folder.
    """

    digest: str
    size_bytes: int

    @property
    def code_sha256(self) -> str:
        """The digest in Lambda's form; for a folder on this machine, the digest of its path."""
        local = self.digest.startswith(_LOCAL)
        raw = hashlib.sha256(self.digest.encode()).hexdigest() if local else self.digest
        return base64.b64encode(bytes.fromhex(raw)).decode()


class CodeStore:
    """Stores packages under `<data_dir>/lambda/code`. Thread-safe; a package appears whole or not at all.

    Attributes:
        look_every_s: how often a folder on this machine is checked for changed files.
    """

    def __init__(self, data_dir: Path, objects: ObjectStore, ids: Ids, clock: Clock) -> None:
        self._root = data_dir / "lambda" / "code"
        self._objects = objects
        self._ids = ids
        self._clock = clock
        self._lock = threading.Lock()
        self.look_every_s = _LOOK_EVERY_S
        self._seen: dict[tuple[str, ...], tuple[float, str]] = {}

    def directory(self, digest: str) -> Path:
        """Return the folder with a package's files."""
        if digest.startswith(_LOCAL):
            return Path(digest.removeprefix(_LOCAL))
        return self._root / digest

    def fingerprint(self, *digests: str) -> str:
        """Return a text that changes when files change in a package that is a folder on this machine."""
        if not any(digest.startswith(_LOCAL) for digest in digests):
            return ""
        now_s = self._clock.monotonic_s()
        seen = self._seen.get(digests)
        if len(self._seen) > _MOST_SEEN:
            self._seen.clear()
        if seen is None or now_s - seen[0] >= self.look_every_s:
            folders = [self.directory(d) for d in digests if d.startswith(_LOCAL)]
            seen = now_s, " ".join(map(_digest_folder, folders))
            self._seen[digests] = seen
        return seen[1]

    def merge_packages(self, digests: list[str]) -> Path | None:
        """Return a folder with the files of all packages, where later packages win, or None for no packages."""
        if len(digests) < 2:
            return self.directory(digests[0]) if digests else None
        name = hashlib.sha256(" ".join(digests).encode()).hexdigest()
        target = self._root / f"over-{name}"
        with self._lock:
            if not target.is_dir() or self.fingerprint(*digests):
                self._root.mkdir(parents=True, exist_ok=True)
                scratch = self._root / f"new-{self._ids.hex(16)}"
                for digest in digests:
                    shutil.copytree(
                        self.directory(digest),
                        scratch,
                        symlinks=True,
                        dirs_exist_ok=True,
                        copy_function=_link,
                    )
                # Running processes keep the old folder until they end, because it is mounted.
                if target.is_dir():
                    target.rename(self._root / f"new-{self._ids.hex(16)}")
                scratch.replace(target)
            os.utime(target)
        return target

    def count_unzipped_bytes(self, digest: str) -> int:
        """Return the size of a package's files, without the bytecode that headrace has added."""
        files = self.directory(digest).rglob("*")
        return sum(
            path.lstat().st_size
            for path in files
            if not path.is_dir() and path.parent.name != "__pycache__"
        )

    def location(self, digest: str, endpoint_url: str) -> str:
        """Return the URL of a package: a URL of the cloud, or a file URL for a folder on this machine."""
        if digest.startswith(_LOCAL):
            return self.directory(digest).as_uri()
        return f"{endpoint_url}{CODE_PATH}{digest}.zip"

    def zip_file(self, digest: str) -> Path:
        """Return the path of a package's zip file."""
        return self._root / f"{digest}.zip"

    def add(self, source: Mapping[str, Any]) -> Package:
        """Store a package, which is given as AWS's `FunctionCode` or `LayerVersionContentInput`.

        Raises AwsError when the object is missing, UnsafeArchive and UnzippedTooLarge.
        """
        if source.get("ImageUri"):
            raise invalid_parameter(NO_IMAGES)
        if "ZipFile" in source:
            return self._add_bytes(source["ZipFile"])
        bucket, key = source.get("S3Bucket"), source.get("S3Key")
        if bucket in LOCAL_BUCKETS and key:
            return open_folder(key)
        if not bucket or not key:
            raise invalid_parameter("Please provide a source for function code.")
        try:
            return self.add_file(self._objects.file(bucket, key))
        except BucketNotFound:
            raise invalid_parameter(
                "Error occurred while GetObject. S3 Error Code: NoSuchBucket. "
                "S3 Error Message: The specified bucket does not exist"
            ) from None
        except (ObjectNotFound, FileNotFoundError):
            raise invalid_parameter(
                "Error occurred while GetObject. S3 Error Code: NoSuchKey. "
                "S3 Error Message: The specified key does not exist."
            ) from None

    def _add_bytes(self, content: bytes) -> Package:
        if len(content) > DIRECT_ZIP_BYTES:
            raise invalid_parameter(f"Zipped size must be smaller than {DIRECT_ZIP_BYTES} bytes")
        scratch = self._create_scratch_path()
        scratch.write_bytes(content)
        return self._store(scratch, hashlib.sha256(content).hexdigest())

    def add_file(self, file: Path) -> Package:
        """Store a copy of a zip file on this machine. Raises UnsafeArchive and UnzippedTooLarge."""
        digest = hashlib.sha256()
        scratch = self._create_scratch_path()
        # Copy the file while hashing it, because the object may be replaced at any moment.
        with file.open("rb") as source, scratch.open("wb") as sink:
            while chunk := source.read(_READ_BYTES):
                digest.update(chunk)
                sink.write(chunk)
        return self._store(scratch, digest.hexdigest())

    def _create_scratch_path(self) -> Path:
        self._root.mkdir(parents=True, exist_ok=True)
        return self._root / f"new-{self._ids.hex(16)}.zip"

    def _store(self, scratch: Path, digest: str) -> Package:
        """Unpack into a temporary folder and rename it, so that a kill leaves no half-unpacked package."""
        package = Package(digest, scratch.stat().st_size)
        unpacked = scratch.with_suffix("")
        try:
            with self._lock:
                if not self.directory(digest).is_dir():
                    unzip(scratch, unpacked)
                    scratch.replace(self.zip_file(digest))
                    unpacked.replace(self.directory(digest))
                # No function uses the package yet; a new time keeps `prune` from removing it.
                os.utime(self.directory(digest))
        finally:
            scratch.unlink(missing_ok=True)
            shutil.rmtree(unpacked, ignore_errors=True)
        return package

    def prune(
        self,
        used: Iterable[str],
        folders: Iterable[Path] = (),
        *,
        older_than_s: float | None = None,
    ) -> None:
        """Remove every package that is neither in `used` nor in `folders`, and files that a kill left.

        With `older_than_s`, younger packages stay, because a package is stored before the function that uses it.
        """
        keep = {*used, *(folder.name for folder in folders if folder.parent == self._root)}
        if not self._root.is_dir():
            return
        with self._lock:
            for path in self._root.iterdir():
                name = path.name.removesuffix(".zip")
                if name in keep or (older_than_s is not None and self._is_new(name, older_than_s)):
                    continue
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)

    def _is_new(self, name: str, older_than_s: float) -> bool:
        try:
            made_s = (self._root / name).stat().st_mtime
        except FileNotFoundError:
            # A zip file whose folder was just removed, or is not made yet.
            return name.startswith("new-")
        return name.startswith("new-") or self._clock.now_ms() / 1000 - made_s < older_than_s

    @staticmethod
    def sha256_of(digest: str) -> str:
        """Return a package's digest in Lambda's form."""
        return Package(digest, 0).code_sha256


def open_folder(key: str) -> Package:
    """Return a folder on this machine as a package. Raises AwsError."""
    folder = Path(key).expanduser()
    if not folder.is_absolute() or not folder.is_dir():
        raise invalid_parameter(
            f"The bucket {' or '.join(LOCAL_BUCKETS)} takes the absolute path of a folder of this machine as "
            f"S3Key; there is no such folder: {key}"
        )
    return Package(_LOCAL + str(folder.resolve()), 0)


def _digest_folder(folder: Path) -> str:
    """Return a digest of the names, sizes and modification times in a folder. Links are not followed."""
    digest = hashlib.sha256()
    count = 0
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            count += 1
            if count > _MOST_FILES:
                return digest.hexdigest()
            with contextlib.suppress(OSError):
                stat = os.lstat(f"{where}/{name}")
                digest.update(f"{where}/{name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _link(source: str, target: str) -> None:
    """Replace `target` with a hard link to `source`, or with a copy where links are impossible."""
    path = Path(target)
    path.unlink(missing_ok=True)
    try:
        path.hardlink_to(source)
    except OSError:
        shutil.copy2(source, target)


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
