"""The files of objects: finds them, writes them atomically, and keeps their descriptions in an index.

A file that is missing in the index, or has another size or modification time there, is an object too: Spark wrote it.
When S3 first finds such a file, it computes the ETag and adds the file to the index. A row whose file is gone is
ignored. If a key cannot be a path, or its path is taken (`a` beside `a/b`), the object's file is in the escape folder;
API clients such as boto3 see the object, but Spark does not.

Finds the path of each key's file.

A key that can be a relative path is that path in the bucket's folder, so that Spark reads and writes it as a file. The
file of any other legal key (`..`, `a//b`, `a/`, a component over 255 bytes, ...) is in the escape folder, where Spark
does not look, and its name is a digest. So S3 never writes outside the data directory, and refuses no legal key.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import heapq
import itertools
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby, islice
from pathlib import Path

from headrace.core.config import Durability
from headrace.core.ids import Ids
from headrace.services.s3.state import StoredObject
from headrace.services.s3.store import Change, ObjectIndex, ObjectRow
from headrace.store.folders import sync_path

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


# Walks the files of a bucket in the order of their keys.
#
# A page of a listing reads the folders that it needs, not the whole bucket. Symbolic links are neither followed nor
# listed.


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


S3_FOLDER = "s3"
ESCAPED_FOLDER = ".headrace-escaped"
VERSIONS_FOLDER = ".headrace-versions"
_TEMPORARY = ".headrace-tmp"
_SCAN_AT_ONCE = 1000
_COPY_BYTES = 1024 * 1024
_MOST_LOOKS = 3


class ObjectFiles:
    """The files of all objects in all buckets. Thread-safe: the last step of a write holds `lock`; copies do not."""

    def __init__(
        self, data_dir: Path, *, ids: Ids, index: ObjectIndex, durability: Durability
    ) -> None:
        self.root = data_dir / S3_FOLDER
        self.lock = threading.RLock()
        self._run, self._temporaries = ids.hex(16), itertools.count(1)
        self._index = index
        self._fsync = durability == "fsync"
        self._last_stamp_ns = 0

    def prepare(self) -> None:
        """Make the folders, delete files that a kill left half-written, and finish writes whose file is in place."""
        shutil.rmtree(self.root / _TEMPORARY, ignore_errors=True)
        (self.root / _TEMPORARY).mkdir(parents=True, exist_ok=True)
        for pending in self._index.pending():
            path = self._find_path(pending.bucket, pending.key, escaped=pending.row.escaped)
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if path.lstat().st_ino == pending.inode:
                    self._index.confirm(pending.bucket, pending.key, pending.change)
            self._index.withdraw(pending.bucket, pending.key)

    # --- buckets ------------------------------------------------------------------------------

    def bucket_folder(self, bucket: str) -> Path:
        """Return the folder of a bucket's plain files."""
        return _find_folder(self.root, bucket)

    def add_bucket(self, bucket: str) -> None:
        """Make a bucket's folder."""
        self.bucket_folder(bucket).mkdir(parents=True, exist_ok=True)

    def remove_bucket(self, bucket: str) -> None:
        """Remove a bucket's folders and rows."""
        self._index.remove_bucket(bucket)
        shutil.rmtree(self.bucket_folder(bucket), ignore_errors=True)
        shutil.rmtree(self.root / ESCAPED_FOLDER / bucket, ignore_errors=True)
        shutil.rmtree(self.root / VERSIONS_FOLDER / bucket, ignore_errors=True)

    # --- writing ------------------------------------------------------------------------------

    def temporary(self) -> Path:
        """Return the path of a new temporary file on the same file system."""
        return self.root / _TEMPORARY / f"{self._run}-{next(self._temporaries):x}"

    def write_temporary(self, data: bytes) -> Path:
        """Return a temporary file that holds `data`."""
        path = self.temporary()
        try:
            path.write_bytes(data)
        except OSError:
            path.unlink(missing_ok=True)  # if the disk is full, a part of the file may exist
            raise
        return path

    def settle(self, path: Path) -> None:
        """With `durability=fsync`, sync a file and its folder to disk."""
        if self._fsync:
            sync_path(path)
            sync_path(path.parent)

    def publish(
        self,
        temporary: Path,
        stored: StoredObject,
        *,
        change: Change | None = None,
        link: Path | None = None,
    ) -> StoredObject:
        """Move a temporary file to the object's path in one step, and describe it in the index.

        Args:
            temporary: the file with the object's bytes.
            stored: the object's description.
            change: what the write changes in the key's history.
            link: the file name of the version, a hard link that is made before the move.
        """
        if change is None or link is not None:
            self._stamp(temporary)
        if self._fsync:
            sync_path(temporary)
        with self.lock:
            path, escape = self._place(stored.bucket, stored.key)
            escaped = path == escape
            status = temporary.stat()  # a move keeps inode and modification time
            stored = replace(stored, path=path, mtime_ns=status.st_mtime_ns)
            if not escaped:
                # Hadoop compares a file with the checksum file beside it, which belongs to the old file: a kill between
                # the two must not leave it beside the new one.
                _remove_checksum(path)
            self._index.announce(stored, escaped=escaped, inode=status.st_ino, change=change)
            if link is not None:
                os.link(temporary, link)
                if self._fsync:
                    sync_path(link.parent)
            temporary.replace(path)
            if self._fsync:
                self._sync_folders(stored.bucket, path.parent)
            self._index.confirm(stored.bucket, stored.key, change)
            if not escaped:
                escape.unlink(missing_ok=True)
        return stored

    def _stamp(self, temporary: Path) -> None:
        """Give a file a unique modification time; the kernel's clock may give two writes the same time.

        The index recognizes a file by its size and its modification time.
        """
        with self.lock:
            self._last_stamp_ns = max(temporary.stat().st_mtime_ns, self._last_stamp_ns + 1)
            os.utime(temporary, ns=(self._last_stamp_ns, self._last_stamp_ns))

    def _place(self, bucket: str, key: str) -> tuple[Path, Path]:
        """Make the folder of a key's file. Return the file's path and the key's path in the escape folder.

        The two are the same if the key cannot be a plain file.
        """
        path, escape = self._find_places(bucket, key)
        if path is not None:
            folder = path.parent
            with contextlib.suppress(FileExistsError, NotADirectoryError):
                if not folder.is_dir():
                    folder.mkdir(parents=True, exist_ok=True)
                if not path.is_dir():
                    return path, escape
        escape.parent.mkdir(parents=True, exist_ok=True)
        return escape, escape

    def _find_places(self, bucket: str, key: str) -> tuple[Path | None, Path]:
        return find_places(self.bucket_folder(bucket), self.root / ESCAPED_FOLDER / bucket, key)

    def _find_path(self, bucket: str, key: str, *, escaped: bool) -> Path:
        return self._escape_path(bucket, key) if escaped else self.bucket_folder(bucket) / key

    def _escape_path(self, bucket: str, key: str) -> Path:
        return self.root / ESCAPED_FOLDER / bucket / build_escaped_name(key)

    def _sync_folders(self, bucket: str, folder: Path) -> None:
        """Sync a folder and its parents to disk, since any of them may be new."""
        sync_path(folder)
        while folder not in (self.root, self.bucket_folder(bucket)):
            folder = folder.parent
            sync_path(folder)

    def update(self, stored: StoredObject) -> None:
        """Store a changed description of an object; its file stays. The caller holds `lock`."""
        self._index.put(stored, escaped=self.is_escaped(stored.path))

    def is_escaped(self, path: Path) -> bool:
        """Whether a file is in the escape folder."""
        return path.is_relative_to(self.root / ESCAPED_FOLDER)

    def remove_file(self, bucket: str, key: str, *, escaped: bool, inode: int) -> None:
        """Finish a removal that a kill interrupted: delete an object's file if it still has this inode."""
        path = self._find_path(bucket, key, escaped=escaped)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if path.lstat().st_ino == inode:
                self.remove(bucket, key)

    def remove(self, bucket: str, key: str) -> None:
        """Delete an object and the folders that this leaves empty. A missing object is not an error."""
        with self.lock:
            path, escape = self._find_places(bucket, key)
            escape.unlink(missing_ok=True)
            if path is not None:
                try:
                    path.unlink()
                except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
                    if path.is_file():
                        raise  # the file is there, but the system refuses to delete it
                else:
                    _remove_checksum(path)
                    self._prune(bucket, path.parent)
            self._index.remove(bucket, key)

    def _prune(self, bucket: str, folder: Path) -> None:
        top = self.bucket_folder(bucket)
        with contextlib.suppress(OSError):  # not empty, or gone already
            while folder != top:
                folder.rmdir()
                folder = folder.parent

    # --- reading ------------------------------------------------------------------------------

    def find(self, bucket: str, key: str) -> StoredObject | None:
        """Return the object under `key`, or None."""
        row = self._index.get(bucket, key)
        path = find_plain_path(self.bucket_folder(bucket), key)
        if path is not None:
            stored = self._find_plain(bucket, key, row, path)
            if stored is not None:
                return stored
        return self._find_escaped(bucket, key, row)

    def read_known(
        self, bucket: str, key: str, most_bytes: int
    ) -> tuple[StoredObject, bytes] | None:
        """Return a small object and its bytes if its row describes its file, else None. Nothing is hashed or written.

        Raises BlockingIOError when another thread uses the database.
        """
        row = self._index.get(bucket, key, waits=False)
        path = find_plain_path(self.bucket_folder(bucket), key)
        if row is None or path is None or row.size_bytes > most_bytes:
            return None
        with contextlib.suppress(OSError):
            # What is no file any more, such as a pipe, is not waited for.
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb", buffering=0) as file:
                status = os.fstat(descriptor)
                if stat.S_ISREG(status.st_mode) and _describes(row, status):
                    data = file.read(row.size_bytes)
                    return (
                        (row.describe(bucket, path), data) if len(data) == row.size_bytes else None
                    )
        return None

    def scan(
        self, bucket: str, prefix: str = "", *, after: str = "", roll: bool = False
    ) -> Iterator[StoredObject]:
        """Yield objects in the order of their keys' UTF-8 bytes. The arguments are those of `tree.iterate_keys`.

        Objects that are written or deleted during the scan may or may not be seen.
        """
        plain = iterate_keys(self.bucket_folder(bucket), prefix=prefix, after=after, roll=roll)
        escaped = self._index.list_escaped_keys(bucket, prefix, after)
        # (key, whether the file is in the escape folder). A plain file sorts before, and hides, an old escaped file.
        merged = heapq.merge(((key, False) for key in plain), ((key, True) for key in escaped))
        first_of_each = (next(same) for _, same in groupby(merged, key=lambda entry: entry[0]))
        while entries := list(islice(first_of_each, _SCAN_AT_ONCE)):
            rows = self._index.many(bucket, [key for key, _ in entries])
            for key, is_escaped in entries:
                row = rows.get(key)
                if is_escaped:
                    stored = self._find_escaped(bucket, key, row)
                else:
                    stored = self._find_plain(bucket, key, row, self.bucket_folder(bucket) / key)
                if stored is not None:
                    yield stored

    def _find_escaped(self, bucket: str, key: str, row: ObjectRow | None) -> StoredObject | None:
        path = self._escape_path(bucket, key)
        if row is None or not row.escaped or not path.is_file():
            return None
        return row.describe(bucket, path)

    def _find_plain(
        self, bucket: str, key: str, row: ObjectRow | None, path: Path
    ) -> StoredObject | None:
        """Return the object whose file is `path`. Add the file to the index if its row does not describe the file."""
        taken: StoredObject | None = None
        try:
            for _ in range(_MOST_LOOKS):
                status = path.lstat()
                if not stat.S_ISREG(status.st_mode):
                    return None
                if _describes(row, status):
                    assert row is not None
                    return row.describe(bucket, path)
                # Hash without holding the lock: the file may be large.
                taken = _describe_file(bucket, key, path, status)
                with self.lock:
                    row = self._index.get(bucket, key)
                    if not _describes(row, path.lstat()) and _describes_file(taken, path.lstat()):
                        self._index.put(taken, escaped=False)
                        self._escape_path(bucket, key).unlink(missing_ok=True)
                        return taken
        except (FileNotFoundError, NotADirectoryError):
            return None
        return taken  # somebody is still writing the file, so it is not added to the index


@functools.lru_cache(maxsize=1024)
def _find_folder(root: Path, bucket: str) -> Path:
    """Return the path of a bucket's folder. Cached: making a Path takes longer than the lookup."""
    return root / bucket


def _describe_file(bucket: str, key: str, path: Path, status: os.stat_result) -> StoredObject:
    return StoredObject(
        bucket=bucket,
        key=key,
        path=path,
        size_bytes=status.st_size,
        etag=compute_file_md5(path),
        last_modified_ms=status.st_mtime_ns // 1_000_000,
        mtime_ns=status.st_mtime_ns,
    )


def _describes_file(stored: StoredObject, status: os.stat_result) -> bool:
    return (stored.size_bytes, stored.mtime_ns) == (status.st_size, status.st_mtime_ns)


def _describes(row: ObjectRow | None, status: os.stat_result) -> bool:
    return (
        row is not None
        and not row.escaped
        and (row.size_bytes, row.mtime_ns) == (status.st_size, status.st_mtime_ns)
    )


def _remove_checksum(path: Path) -> None:
    """Remove the checksum file that Hadoop wrote beside a file."""
    name = f".{path.name}.crc"
    if len(name.encode()) <= MAX_COMPONENT_BYTES:
        (path.parent / name).unlink(missing_ok=True)


def compute_file_md5(path: Path) -> str:
    """Return a file's MD5 as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def copy_file(source: Path, target: Path, offset: int, length: int) -> None:
    """Append the `length` bytes at `offset` of `source` to `target`."""
    with source.open("rb") as reader, target.open("ab") as writer:
        reader.seek(offset)
        left = length
        while left > 0:
            chunk = reader.read(min(left, _COPY_BYTES))
            if not chunk:
                return
            writer.write(chunk)
            left -= len(chunk)
