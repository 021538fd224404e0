"""One file of a shard log: append-only frames, and a sparse index of them in memory.

A sealed segment's index is kept beside it (`.index`), so that opening a log scans only its last segment;
the file is a cache and is rebuilt when it is missing or wrong.
"""

from __future__ import annotations

import array
import logging
import os
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from headrace.store import frame
from headrace.store.frame import CorruptFrame, FrameHeader

log = logging.getLogger(__name__)

# One index entry for about so many bytes of log: 24 bytes of memory a step.
INDEX_STEP_BYTES = 16 * 1024
SCAN_CHUNK_BYTES = 4 * 1024 * 1024
SUFFIX = ".log"
INDEX_SUFFIX = ".index"
CUT_SUFFIX = ".cut"
_SUMMARY = struct.Struct("<QQQQI")


class SegmentDeleted(Exception):
    """Retention deleted the segment while it was to be read."""


class _File:
    """A descriptor that closes when the last reader lets go of it, so that none reads a reused number."""

    __slots__ = ("fd",)

    def __init__(self, path: Path, flags: int) -> None:
        self.fd = os.open(path, flags | os.O_CLOEXEC, 0o644)

    def __del__(self) -> None:
        # Absent when opening failed.
        fd = getattr(self, "fd", None)
        if fd is not None:
            os.close(fd)


class Segment:
    """One segment. One writer at a time (the log's lock); readers need no lock.

    Only the segment that takes records keeps its file open: a year of sealed ones would use up the
    process's descriptors.

    Attributes:
        first_index: of the first record it may hold; the file's name.
        end_index: one past the last record.
        size_bytes: bytes that readers may see; what lies beyond is a write in progress.
        last_arrival_ms: of its last record; 0 when it is empty.
    """

    def __init__(self, path: Path, first_index: int, identity: bytes) -> None:
        self.path = path
        self.first_index = first_index
        self.end_index = first_index
        self.identity = identity
        self.size_bytes = 0
        self.first_arrival_ms = 0
        self.last_arrival_ms = 0
        self._indices = array.array("Q")
        self._offsets = array.array("Q")
        self._arrivals = array.array("Q")
        self._next_mark = 0
        self._file: _File | None = None

    # --- opening ------------------------------------------------------------------------------

    @staticmethod
    def file_name(first_index: int) -> str:
        """Return the name of the segment that starts at `first_index`."""
        return f"{first_index:020d}{SUFFIX}"

    @classmethod
    def create(cls, folder: Path, first_index: int, identity: bytes) -> Segment:
        """Make an empty segment. Raises OSError, with no file left."""
        path = folder / cls.file_name(first_index)
        segment = cls(path, first_index, identity)
        try:
            segment._file = _File(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            segment._write_header()
        except OSError:
            # Left behind, it would be taken for the log's end at the next start.
            path.unlink(missing_ok=True)
            raise
        return segment

    @classmethod
    def open_sealed(cls, path: Path, identity: bytes) -> Segment:
        """Open a segment that takes no more records; scans it only when its index file is no good.

        Raises CorruptFrame when it is another shard's, or its header is damaged.
        """
        segment = cls(path, int(path.stem), identity)
        file = _File(path, os.O_RDONLY)
        segment._check_header(file)
        if not segment._load_index(file):
            dropped = segment._scan(file)
            if dropped:
                log.error("%s: %d bytes at its end are damaged and not served", path, dropped)
            segment.save_index()
        return segment

    @classmethod
    def open_tail(cls, path: Path, identity: bytes) -> tuple[Segment, int]:
        """Open the segment that takes new records; returns it and the bytes of a torn end cut off.

        What is cut is kept beside the segment (`.cut`): it may be more than a torn write when the disk
        is at fault. Raises CorruptFrame when it is another shard's, or its header is damaged.
        """
        segment = cls(path, int(path.stem), identity)
        segment._file = file = _File(path, os.O_RDWR)
        if os.fstat(file.fd).st_size < frame.SEGMENT_HEADER_BYTES:
            # Killed while making it: nothing in it was acknowledged.
            os.ftruncate(file.fd, 0)
            segment._write_header()
            return segment, 0
        segment._check_header(file)
        dropped = segment._scan(file)
        if dropped:
            torn = os.pread(file.fd, dropped, segment.size_bytes)
            path.with_suffix(CUT_SUFFIX).write_bytes(torn)
            os.ftruncate(file.fd, segment.size_bytes)
        return segment, dropped

    def _write_header(self) -> None:
        assert self._file is not None
        header = frame.encode_segment_header(self.first_index, self.identity)
        _write_all(self._file.fd, header, 0)
        self.size_bytes = len(header)

    def _check_header(self, file: _File) -> None:
        header = os.pread(file.fd, frame.SEGMENT_HEADER_BYTES, 0)
        first_index, identity = frame.decode_segment_header(header)
        if identity != self.identity:
            raise CorruptFrame("the segment belongs to another shard")
        if first_index != self.first_index:
            raise CorruptFrame(
                f"the segment is named {self.first_index} but starts at {first_index}"
            )

    def _scan(self, file: _File) -> int:
        """Read all frames, fill the index, and return the bytes after the last good one."""
        file_bytes = os.fstat(file.fd).st_size
        self.size_bytes = frame.SEGMENT_HEADER_BYTES
        for offset, header in self._checked_frames(file, file_bytes):
            self._note(offset, header)
            self.size_bytes = offset + header.frame_bytes
        return file_bytes - self.size_bytes

    def _checked_frames(self, file: _File, file_bytes: int) -> Iterator[tuple[int, FrameHeader]]:
        """Yield (offset, header) of frames up to the first that is cut off, damaged or out of order."""
        offset, expected = frame.SEGMENT_HEADER_BYTES, self.first_index
        start, chunk = offset, memoryview(b"")
        while offset < file_bytes:
            try:
                if len(chunk) - (offset - start) < frame.FRAME_HEADER_BYTES:
                    start, chunk = offset, memoryview(os.pread(file.fd, SCAN_CHUNK_BYTES, offset))
                header = frame.decode_header(chunk, offset - start)
                if len(chunk) - (offset - start) < header.frame_bytes:
                    wanted = max(SCAN_CHUNK_BYTES, header.frame_bytes)
                    start, chunk = offset, memoryview(os.pread(file.fd, wanted, offset))
                at = offset - start + frame.FRAME_HEADER_BYTES
                frame.verify(header, chunk[at : at + header.payload_bytes])
            except CorruptFrame:
                return
            if header.first_index != expected:
                return
            yield offset, header
            expected = header.end_index
            offset += header.frame_bytes

    def seal(self) -> None:
        """Take no more records: let go of the file, and keep the index beside it."""
        self._file = None
        try:
            self.save_index()
        except OSError as error:
            log.warning("%s: its index is not kept: %s", self.path, error)

    def close(self) -> None:
        """Close the file, once no reader uses it."""
        self._file = None

    # --- writing ------------------------------------------------------------------------------

    def append(self, data: bytes, header: FrameHeader) -> None:
        """Write one frame. Raises OSError, with the file as it was."""
        assert self._file is not None
        fd = self._file.fd
        try:
            _write_all(fd, data, self.size_bytes)
        except OSError:
            os.ftruncate(fd, self.size_bytes)
            raise
        self._note(self.size_bytes, header)
        # Last: from here on readers see the frame.
        self.size_bytes += len(data)

    def sync(self) -> None:
        """Put what was written on the disk."""
        file = self._file or self._reopened()
        if file is not None:
            os.fsync(file.fd)

    def _reopened(self) -> _File | None:
        """Open a sealed segment for a moment; None when retention has deleted it."""
        try:
            return _File(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return None

    def _note(self, offset: int, header: FrameHeader) -> None:
        if offset >= self._next_mark:
            self._indices.append(header.first_index)
            self._arrivals.append(header.arrival_ms)
            self._offsets.append(offset)
            self._next_mark = offset + INDEX_STEP_BYTES
        if not self.first_arrival_ms:
            self.first_arrival_ms = header.arrival_ms
        self.end_index = header.end_index
        self.last_arrival_ms = header.arrival_ms

    # --- reading ------------------------------------------------------------------------------

    def offset_near_index(self, index: int) -> int:
        """Return the offset of an indexed frame at or before the one that holds `index`."""
        at = bisect_right(self._indices, index, 0, len(self._offsets)) - 1
        return self._offsets[at] if at >= 0 else frame.SEGMENT_HEADER_BYTES

    def offset_near_arrival(self, timestamp_ms: int) -> int:
        """Return the offset of an indexed frame before every frame that arrived at or after then."""
        # Several marks may share an arrival: go one below the first that is not earlier.
        low, high = 0, len(self._offsets)
        while low < high:
            middle = (low + high) // 2
            if self._arrivals[middle] < timestamp_ms:
                low = middle + 1
            else:
                high = middle
        return self._offsets[low - 1] if low else frame.SEGMENT_HEADER_BYTES

    def read(self, offset: int, length_bytes: int) -> bytes:
        """Return up to `length_bytes` of whole and partial frames from `offset` on.

        Raises SegmentDeleted when retention was faster.
        """
        # A local reference: the segment may be sealed meanwhile.
        file = self._file or self._reopened()
        if file is None:
            raise SegmentDeleted(self.path)
        return os.pread(file.fd, min(length_bytes, self.size_bytes - offset), offset)

    # --- the index file -----------------------------------------------------------------------

    def save_index(self) -> None:
        """Write the index beside the segment; it may be lost without harm."""
        summary = _SUMMARY.pack(
            self.size_bytes,
            self.end_index,
            self.first_arrival_ms,
            self.last_arrival_ms,
            len(self._offsets),
        )
        body = b"".join(
            (summary, self._indices.tobytes(), self._arrivals.tobytes(), self._offsets.tobytes())
        )
        partial = self.path.with_suffix(".partial")
        partial.write_bytes(struct.pack("<I", zlib.crc32(body)) + body)
        partial.replace(self.path.with_suffix(INDEX_SUFFIX))

    def _load_index(self, file: _File) -> bool:
        try:
            data = self.path.with_suffix(INDEX_SUFFIX).read_bytes()
        except FileNotFoundError:
            return False
        body = data[4:]
        if len(body) < _SUMMARY.size or struct.unpack("<I", data[:4])[0] != zlib.crc32(body):
            return False
        size, end, first_arrival, last_arrival, count = _SUMMARY.unpack_from(body)
        if size != os.fstat(file.fd).st_size or len(body) != _SUMMARY.size + 24 * count:
            return False
        self.size_bytes, self.end_index = size, end
        self.first_arrival_ms, self.last_arrival_ms = first_arrival, last_arrival
        at = _SUMMARY.size
        for column in (self._indices, self._arrivals, self._offsets):
            column.frombytes(body[at : at + 8 * count])
            at += 8 * count
        return True

    def delete(self) -> None:
        """Remove the file and its index. A read of it that has begun goes on."""
        self._file = None
        self.path.with_suffix(INDEX_SUFFIX).unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)


def _write_all(fd: int, data: bytes, offset: int) -> None:
    """Write all of `data`; a disk that fills up takes a part before it raises."""
    written = os.pwrite(fd, data, offset)
    while written < len(data):
        written += os.pwrite(fd, data[written:], offset + written)
