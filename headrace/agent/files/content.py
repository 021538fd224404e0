"""The bytes of a file, plain or compressed, and digests by which a file is known again under another name."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

_OPENERS: dict[str, Callable[[Any], Any]] = {
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
}
# What a file that is being compressed, or is none at all, raises.
_UNREADABLE = (EOFError, OSError, lzma.LZMAError, ValueError)


class Content(Protocol):
    """An open file. For one thread."""

    @property
    def id(self) -> tuple[int, int]:
        """Device and inode."""
        ...

    def size(self) -> int | None:
        """Return how many bytes there are now; None when only reading tells. Raises OSError."""
        ...

    def read_at(self, offset: int, most_bytes: int) -> bytes:
        """Return bytes from an offset on; fewer at the end. Raises OSError."""
        ...

    def is_deleted(self) -> bool:
        """Return whether it has no name any more."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class PlainContent:
    """A file as it is."""

    def __init__(self, path: Path) -> None:
        """Open it. Raises OSError."""
        # Not blocked by a pipe of that name.
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        status = os.fstat(self._fd)
        self.id = (status.st_dev, status.st_ino)

    def size(self) -> int | None:
        """See `Content.size`."""
        return os.fstat(self._fd).st_size

    def read_at(self, offset: int, most_bytes: int) -> bytes:
        """See `Content.read_at`."""
        return os.pread(self._fd, most_bytes, offset)

    def is_deleted(self) -> bool:
        """See `Content.is_deleted`."""
        return os.fstat(self._fd).st_nlink == 0

    def first_data(self) -> int:
        """Return where the file's data begins: behind the hole that a writer without O_APPEND leaves."""
        try:
            return os.lseek(self._fd, 0, os.SEEK_DATA)
        except (AttributeError, OSError):
            return 0

    def close(self) -> None:
        """See `Content.close`."""
        os.close(self._fd)


class CompressedContent:
    """A compressed file; its offsets are those of what was compressed. Reading backwards begins again."""

    def __init__(self, path: Path) -> None:
        """Open it. Raises OSError."""
        self._raw = path.open("rb")
        status = os.fstat(self._raw.fileno())
        self.id = (status.st_dev, status.st_ino)
        self._reader = _OPENERS[path.suffix](self._raw)

    def size(self) -> int | None:
        """See `Content.size`."""
        return None

    def read_at(self, offset: int, most_bytes: int) -> bytes:
        """See `Content.read_at`. Raises OSError also when the file is not whole."""
        try:
            self._reader.seek(offset)
            return bytes(self._reader.read(most_bytes))
        except _UNREADABLE as error:
            raise OSError(f"it cannot be decompressed: {error}") from error

    def is_deleted(self) -> bool:
        """See `Content.is_deleted`."""
        return os.fstat(self._raw.fileno()).st_nlink == 0

    def close(self) -> None:
        """See `Content.close`."""
        self._reader.close()
        self._raw.close()


def open_content(path: Path, *, is_compressed: bool) -> Content:
    """Open a file. Raises OSError."""
    return CompressedContent(path) if is_compressed else PlainContent(path)


def digest(data: bytes) -> str:
    """Return 16 bytes of BLAKE2b, in hexadecimal."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()
