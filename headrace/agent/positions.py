"""How far each file has been read, in a file that is replaced as a whole.

A position names a file by device and inode, and by digests of its first bytes and of those before some offsets: so it
is known again after a rename, as a copy, and compressed; and another file with the same inode is not taken for it.

The bytes of a file, plain or compressed, and digests by which a file is known again under another name.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import lzma
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol, cast

from headrace.store.folders import sync_path

HEAD_BYTES = 1024
MARK_BYTES = 256
MOST_MARKS = 8
# Positions of files that are read whole are kept this long, to know their copies. Documented default of Kinesis Agent.
KEEP_DAYS = 7
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Position:
    """How far a file has been read.

    Attributes:
        key: the file's number in this store; a file that was truncated goes on under another.
        path: where it lay last.
        device, inode: of the file.
        offset: the bytes whose lines were read.
        head, head_bytes: the digest of the first bytes, and of how many.
        marks: offsets, and the digests of the at most MARK_BYTES before each; the last is of `offset`.
        lines_to_skip: how many of its first lines are still to be passed over.
        is_done: it was rotated and read whole, or its bytes are elsewhere now.
        at_ms: when it was read last.
    """

    key: int
    path: str
    device: int
    inode: int
    offset: int = 0
    head: str = ""
    head_bytes: int = 0
    marks: tuple[tuple[int, str], ...] = ()
    lines_to_skip: int = 0
    is_done: bool = False
    at_ms: int = 0

    @property
    def id(self) -> tuple[int, int]:
        """Device and inode."""
        return self.device, self.inode

    def advanced(self, content: Content, before: bytes, offset: int, now_ms: int) -> Position:
        """Return the position at a later offset; `before` are the bytes before it. Raises OSError."""
        head, head_bytes = self.head, self.head_bytes
        if head_bytes < HEAD_BYTES and head_bytes < offset:
            first = content.read_at(0, min(offset, HEAD_BYTES))
            head, head_bytes = digest(first), len(first)
        marks = (*self.marks[1 - MOST_MARKS :], (offset, digest(before[-MARK_BYTES:])))
        return replace(
            self, offset=offset, head=head, head_bytes=head_bytes, marks=marks, at_ms=now_ms
        )

    def is_of(self, content: Content) -> bool:
        """Whether a file has the bytes that were read: as far as `offset`. Raises OSError."""
        return self._has_head(content) and all(_has_mark(content, mark) for mark in self.marks[-1:])

    def shared_with(self, content: Content) -> int:
        """Return how far a file that may be a copy has the bytes that were read; 0: it is none. Raises OSError.

        Less than `offset` for a copy that is shorter, and for a file that only begins alike, such as by a header.
        """
        if not self._has_head(content):
            return 0
        return next((mark[0] for mark in reversed(self.marks) if _has_mark(content, mark)), 0)

    def _has_head(self, content: Content) -> bool:
        return digest(content.read_at(0, self.head_bytes)) == self.head if self.head else True


def _has_mark(content: Content, mark: tuple[int, str]) -> bool:
    offset, expected = mark
    start = max(0, offset - MARK_BYTES)
    before = content.read_at(start, offset - start)
    return len(before) == offset - start and digest(before) == expected


class PositionsDamaged(Exception):
    """The file of positions cannot be read. The message is one sentence."""


class PositionStore:
    """The positions of all flows, in one file. Thread-safe.

    Durability: `commit` returns when the operating system has the new file, or, with `fsync`, the disk.
    """

    def __init__(self, path: Path, *, fsync: bool = False, keep_days: int = KEEP_DAYS) -> None:
        """Read or begin the file. Raises PositionsDamaged, OSError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._fsync, self._keep_ms = path, fsync, keep_days * _DAY_MS
        self._lock = threading.Lock()
        self._flows: dict[str, dict[int, Position]] = {}
        try:
            stored: Any = json.loads(path.read_bytes())
            for flow, positions in stored["flows"].items():
                self._flows[flow] = {item["key"]: _position_of(item) for item in positions}
        except FileNotFoundError:
            return
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise PositionsDamaged(
                f"{path} is not a file of positions: {error}; without it, files are read by their initial position"
            ) from error

    def positions(self, flow: str) -> list[Position] | None:
        """Return a flow's positions; None when it has never stored any."""
        with self._lock:
            stored = self._flows.get(flow)
            return None if stored is None else list(stored.values())

    def commit(self, flow: str, positions: Iterable[Position], now_ms: int) -> None:
        """Note that everything before these positions is delivered. Raises OSError; then it is not noted."""
        with self._lock:
            stored = {**self._flows.get(flow, {}), **{p.key: p for p in positions}}
            oldest_ms = now_ms - self._keep_ms
            kept = {key: p for key, p in stored.items() if not p.is_done or p.at_ms >= oldest_ms}
            flows = {**self._flows, flow: kept}
            self._write(
                {"flows": {name: [asdict(p) for p in of.values()] for name, of in flows.items()}}
            )
            self._flows = flows

    def _write(self, content: dict[str, Any]) -> None:
        following = self._path.with_name(self._path.name + ".new")
        with following.open("wb") as file:
            file.write(json.dumps(content, separators=(",", ":")).encode())
            if self._fsync:
                file.flush()
                os.fsync(file.fileno())
        following.replace(self._path)
        if self._fsync:
            sync_path(self._path.parent)


def _position_of(item: dict[str, Any]) -> Position:
    marks = cast("list[list[Any]]", item["marks"])
    values: dict[str, Any] = {**item, "marks": tuple((int(at), str(text)) for at, text in marks)}
    return Position(**values)


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
